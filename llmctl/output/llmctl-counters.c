/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/output/llmctl-counters.h"

#include <glib/gi18n.h>

#include "llmctl/output/llmctl-output.h"

typedef enum
{
  GROUP_REQUESTS,
  GROUP_TOKENS,
  GROUP_MODEL,
  GROUP_NOW,
  GROUP_TARGETS,
  GROUP_DRAFTS,
  GROUP_MEMORY,
  GROUP_STREAM,
  GROUP_MACHINE,
  GROUP_KV,
  GROUP_STORAGE,
  N_GROUPS,
} Group;

static const char *const titles[N_GROUPS] = {
  [GROUP_REQUESTS] = N_("Requests since the service started"),
  [GROUP_TOKENS] = N_("Tokens"),
  [GROUP_MODEL] = N_("Model and memory"),
  [GROUP_NOW] = N_("At this moment"),
  [GROUP_TARGETS] = N_("Calls by their target (SLO)"),
  [GROUP_DRAFTS] = N_("Guesses of draft models"),
  [GROUP_MEMORY] = N_("Memory in detail"),
  [GROUP_STREAM] = N_("Weights that are read from the disk"),
  [GROUP_MACHINE] = N_("The machine"),
  [GROUP_KV] = N_("KV cache of contexts, in chunks of some tokens"),
  [GROUP_STORAGE] = N_("Contexts on storage"),
};

/* In the order of the interface within a group. */
static const struct
{
  Group group;
  const char *key;
  const char *label;
} counters[] = {
  { GROUP_REQUESTS, "requests", N_("requests") },
  { GROUP_REQUESTS, "failed", N_("of them failed") },
  { GROUP_REQUESTS, "cancelled", N_("of them cancelled") },
  { GROUP_REQUESTS, "refused", N_("of them refused, as they would have been far too late") },
  { GROUP_REQUESTS, "refused-floods", N_("calls refused by the rate limit") },
  { GROUP_REQUESTS, "slo-met", N_("answered in time") },
  { GROUP_REQUESTS, "slo-missed", N_("answered late") },
  { GROUP_TOKENS, "prompt-tokens", N_("prompt tokens") },
  { GROUP_TOKENS, "cached-tokens", N_("of them in the KV cache already") },
  { GROUP_TOKENS, "output-tokens", N_("generated tokens") },
  { GROUP_TOKENS, "steps", N_("steps (forward passes)") },
  { GROUP_TOKENS, "rows", N_("rows (tokens) in these steps") },
  { GROUP_TOKENS, "multiplications", N_("multiplications in these steps") },
  { GROUP_TOKENS, "prefill-tokens", N_("prompt tokens in these steps") },
  { GROUP_TOKENS, "generated-tokens", N_("generated tokens in these steps") },
  { GROUP_MODEL, "model-loads", N_("times the model was loaded") },
  { GROUP_MODEL, "model-unloads", N_("times it was unloaded") },
  { GROUP_MODEL, "trims", N_("times memory was released") },
  { GROUP_MODEL, "trimmed-bytes", N_("released in all") },
  { GROUP_NOW, "contexts", N_("contexts") },
  { GROUP_NOW, "calls", N_("requests under way") },
  { GROUP_NOW, "queued-calls", N_("of them queued") },
  { GROUP_NOW, "prefill-calls", N_("of them in prefill") },
  { GROUP_NOW, "decode-calls", N_("of them in decode") },
  { GROUP_NOW, "stalled-calls", N_("of them blocked by a slow reader") },
  { GROUP_NOW, "budget-now-bytes", N_("the most the service may hold") },
  { GROUP_NOW, "process-resident-bytes", N_("memory of the process") },
  { GROUP_NOW, "apps", N_("applications that are remembered") },
  { GROUP_NOW, "heap-bytes", N_("of it given out by the C library") },
  { GROUP_TARGETS, "slo-interactive-calls", N_("interactive") },
  { GROUP_TARGETS, "slo-interactive-met", N_("of them in time") },
  { GROUP_TARGETS, "slo-interactive-missed", N_("of them late") },
  { GROUP_TARGETS, "slo-interactive-refused", N_("of them refused") },
  { GROUP_TARGETS, "slo-responsive-calls", N_("responsive") },
  { GROUP_TARGETS, "slo-responsive-met", N_("of them in time") },
  { GROUP_TARGETS, "slo-responsive-missed", N_("of them late") },
  { GROUP_TARGETS, "slo-responsive-refused", N_("of them refused") },
  { GROUP_TARGETS, "slo-background-calls", N_("background") },
  { GROUP_TARGETS, "slo-background-met", N_("of them in time") },
  { GROUP_TARGETS, "slo-background-missed", N_("of them late") },
  { GROUP_TARGETS, "ttft-forecasts", N_("forecasts of the first token") },
  { GROUP_TARGETS, "ttft-forecast-error-ms", N_("their mean error, in ms") },
  { GROUP_DRAFTS, "drafted-tokens", N_("tokens that were guessed") },
  { GROUP_DRAFTS, "accepted-tokens", N_("of them right") },
  { GROUP_DRAFTS, "draft-passes", N_("steps that checked guesses") },
  { GROUP_DRAFTS, "draft-loads", N_("times a draft model was loaded") },
  { GROUP_MEMORY, "pressure-level", N_("pressure, from 0 (none) to 3 (critical)") },
  { GROUP_MEMORY, "budget-allowed-bytes", N_("the most that settings and the machine allow") },
  { GROUP_MEMORY, "cut-bytes", N_("cut off from that, as memory is short") },
  { GROUP_MEMORY, "cuts", N_("times it was cut") },
  { GROUP_MEMORY, "since-cut-ms", N_("ms since the last cut") },
  { GROUP_MEMORY, "regrown-bytes", N_("grown again after cuts") },
  { GROUP_MEMORY, "own-trims", N_("times the service released memory by itself") },
  { GROUP_MEMORY, "held-anonymous-bytes", N_("held that is no file's") },
  { GROUP_MEMORY, "held-backed-bytes", N_("held of files") },
  { GROUP_MEMORY, "used-backed-bytes", N_("of them in use") },
  { GROUP_MEMORY, "keep-backed-bytes", N_("of them kept") },
  { GROUP_MEMORY, "constraint-bytes", N_("held for schemas and grammars") },
  { GROUP_MEMORY, "lowered-classes", N_("classes that sub-models answer, 0 to 2") },
  { GROUP_MEMORY, "lowered-calls", N_("calls that sub-models answered") },
  { GROUP_MEMORY, "held-sub-model", N_("percent of the model that stay in memory") },
  { GROUP_MEMORY, "unused-tail-bytes", N_("weights given back for that now") },
  { GROUP_MEMORY, "given-scratch-bytes", N_("released of working memory") },
  { GROUP_MEMORY, "given-kv-bytes", N_("released of contexts") },
  { GROUP_MEMORY, "given-text-bytes", N_("released of their texts") },
  { GROUP_MEMORY, "given-constraints-bytes", N_("released of schemas and grammars") },
  { GROUP_MEMORY, "given-draft-bytes", N_("released of draft models") },
  { GROUP_MEMORY, "given-tail-bytes", N_("released of what sub-models lack") },
  { GROUP_MEMORY, "given-calls-bytes", N_("released of calls that wait") },
  { GROUP_MEMORY, "given-pages-bytes", N_("released of files' pages") },
  { GROUP_MEMORY, "given-weights-bytes", N_("released of weights") },
  { GROUP_STREAM, "streaming-bytes", N_("read for each step now") },
  { GROUP_STREAM, "streamed-bytes", N_("read in all") },
  { GROUP_STREAM, "stream-ring-bytes", N_("buffers that they pass through") },
  { GROUP_STREAM, "expert-uses", N_("experts that tokens chose") },
  { GROUP_STREAM, "expert-hits", N_("of them in memory") },
  { GROUP_STREAM, "expert-room-bytes", N_("memory for experts") },
  { GROUP_MACHINE, "machine-available-bytes", N_("memory that is available") },
  { GROUP_MACHINE, "group-limit-bytes", N_("limit of the service's control group") },
  { GROUP_MACHINE, "group-usage-bytes", N_("of it used") },
  { GROUP_MACHINE, "stall-ms", N_("ms in which programs waited for memory") },
  { GROUP_MACHINE, "on-battery", N_("on battery, 0 or 1") },
  { GROUP_MACHINE, "power-saver", N_("saves power, 0 or 1") },
  { GROUP_MACHINE, "background-pace", N_("background calls: 0 run, 1 run slowly, 2 wait") },
  { GROUP_MACHINE, "suspends", N_("times it was about to sleep") },
  { GROUP_KV, "kv-packed-chunks", N_("quantized") },
  { GROUP_KV, "kv-evicted-chunks", N_("evicted from memory") },
  { GROUP_KV, "kv-dropped-chunks", N_("of them not on storage either") },
  { GROUP_KV, "kv-restored-chunks", N_("read back from storage") },
  { GROUP_KV, "kv-recomputed-chunks", N_("computed again") },
  { GROUP_KV, "kv-faulted-chunks", N_("found missing or damaged") },
  { GROUP_KV, "kv-narrowed-chunks", N_("quantized further, as memory was short") },
  { GROUP_KV, "kv-widened-chunks", N_("that got their bits back") },
  { GROUP_KV, "kv-narrow-chunks", N_("that lack bits now") },
  { GROUP_KV, "kv-shared-chunks", N_("shared by contexts") },
  { GROUP_KV, "kv-kept-bytes", N_("kept for contexts that begin alike") },
  { GROUP_STORAGE, "kv-written-chunks", N_("chunks written") },
  { GROUP_STORAGE, "kv-written-bytes", N_("written in all") },
  { GROUP_STORAGE, "kv-read-bytes", N_("read in all") },
  { GROUP_STORAGE, "kv-storage-bytes", N_("held now") },
};

static void
add_counter (LlmctlTable *table,
             const char  *key,
             const char  *label,
             GVariant    *value)
{
  gboolean is_bytes = g_str_has_suffix (key, "-bytes") &&
                      g_variant_is_of_type (value, G_VARIANT_TYPE_UINT64);
  g_autofree char *text = is_bytes ? llmctl_format_bytes (g_variant_get_uint64 (value))
                                   : g_variant_print (value, FALSE);

  llmctl_table_add (table, (const char *const[]) { label, text, NULL });
}

/* Tables of different groups have one width. */
static guint
find_width (void)
{
  guint width = 0;

  for (gsize i = 0; i < G_N_ELEMENTS (counters); i++)
    width = MAX (width, llmctl_output_get_width (_(counters[i].label)));
  return width;
}

static char *
pad (const char *label,
     guint       width)
{
  guint own = llmctl_output_get_width (label);

  return g_strdup_printf ("  %s%*s", label, (int) (width - MIN (own, width)), "");
}

void
llmctl_counters_print (GVariant *statistics,
                       gboolean  is_kv)
{
  g_autoptr(GVariantDict) rest = g_variant_dict_new (statistics);
  guint width = find_width ();
  LlmctlTable *table;
  GVariantIter iter;
  const char *key;
  GVariant *value;

  for (guint group = is_kv ? GROUP_KV : 0; group < N_GROUPS; group++)
    {
      table = llmctl_table_new ((const char *const[]) { _(titles[group]), "", NULL });
      for (gsize i = 0; i < G_N_ELEMENTS (counters); i++)
        {
          g_autoptr(GVariant) counted = g_variant_lookup_value (statistics, counters[i].key, NULL);
          g_autofree char *label = pad (_(counters[i].label), width);

          if (counters[i].group != group || counted == NULL)
            continue;
          g_variant_dict_remove (rest, counters[i].key);
          add_counter (table, counters[i].key, label, counted);
        }
      llmctl_table_print (table);
    }
  if (is_kv)
    return;
  table = llmctl_table_new ((const char *const[]) { _("Others; “llmctl introspect GetStatistics” explains"), "",
                                                    NULL });
  g_variant_iter_init (&iter, statistics);
  while (g_variant_iter_loop (&iter, "{&sv}", &key, &value))
    if (g_variant_dict_contains (rest, key))
      {
        g_autofree char *label = pad (key, width);

        add_counter (table, key, label, value);
      }
  llmctl_table_print (table);
}
