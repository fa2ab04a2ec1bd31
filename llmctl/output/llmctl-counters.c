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
  GROUP_KV,
  GROUP_STORAGE,
  N_GROUPS,
} Group;

static const char *const titles[N_GROUPS] = {
  [GROUP_REQUESTS] = N_("Requests since the service started"),
  [GROUP_TOKENS] = N_("Tokens"),
  [GROUP_MODEL] = N_("Model and memory"),
  [GROUP_NOW] = N_("At this moment"),
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
  { GROUP_TOKENS, "reused-tokens", N_("of them in the KV cache already") },
  { GROUP_TOKENS, "output-tokens", N_("generated tokens") },
  { GROUP_TOKENS, "steps", N_("steps (forward passes)") },
  { GROUP_TOKENS, "rows", N_("rows (tokens) in these steps") },
  { GROUP_MODEL, "model-loads", N_("times the model was loaded") },
  { GROUP_MODEL, "model-unloads", N_("times it was unloaded") },
  { GROUP_MODEL, "trims", N_("times memory was released") },
  { GROUP_MODEL, "trimmed-bytes", N_("released in all") },
  { GROUP_NOW, "contexts", N_("contexts") },
  { GROUP_NOW, "calls", N_("requests under way") },
  { GROUP_NOW, "queued-calls", N_("of them queued") },
  { GROUP_NOW, "reading-calls", N_("of them in prefill") },
  { GROUP_NOW, "writing-calls", N_("of them in decode") },
  { GROUP_NOW, "parked-calls", N_("of them blocked by a slow reader") },
  { GROUP_NOW, "budget-now-bytes", N_("the most the service may hold") },
  { GROUP_NOW, "process-resident-bytes", N_("memory of the process") },
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
