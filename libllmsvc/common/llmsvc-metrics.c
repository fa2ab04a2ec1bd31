/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "llmsvc-metrics.h"

#include <math.h>
#include <string.h>

#define PREFIX "llmsvc_"

/* Limits for counters of later versions, or of something that is not the service at all. */
#define MAX_UNKNOWN      200
#define MAX_UNKNOWN_NAME 64

typedef enum
{
  COUNTER,
  GAUGE,
  UNKNOWN,
} Type;

typedef enum
{
  UNIT_NONE,
  UNIT_BYTES,
  UNIT_SECONDS,  /* from milliseconds */
  UNIT_RATIO,    /* from percent */
} Unit;

/* A key that ends with -bytes or -ms has that unit, and is in its family's name without. */
typedef struct
{
  const char *key;     /* of GetStatistics, or a property */
  Type type;
  const char *help;    /* (nullable): stands at the first of a family */
  const char *family;  /* (nullable): without prefix and unit; NULL for the key with “_” */
  const char *label;   /* (nullable): tells the samples of one family apart */
  Unit unit;
} Metric;

/* Samples of one family follow each other, as the format wants it. */
static const Metric statistics_metrics[] = {
  { "requests", COUNTER, "Questions asked." },
  { "failed", COUNTER, "Questions that failed, refused ones included." },
  { "cancelled", COUNTER, "Questions whose answer was cancelled." },
  { "refused", COUNTER, "Calls refused because their answer would have come far too late." },
  { "prompt-tokens", COUNTER, "Tokens of prompts." },
  { "cached-tokens", COUNTER, "Tokens of prompts that did not have to be computed again." },
  { "output-tokens", COUNTER, "Tokens of answers that have ended." },
  { "prefill-tokens", COUNTER, "Tokens of prompts computed, of calls under way as well." },
  { "generated-tokens", COUNTER, "Tokens generated, of calls under way as well." },
  { "slo-met", COUNTER, "Answers that met their latency target." },
  { "slo-missed", COUNTER, "Answers that missed their latency target." },
  { "slo-interactive-calls", COUNTER, "Calls, by class.", "class_calls", "class=interactive" },
  { "slo-responsive-calls", COUNTER, NULL, "class_calls", "class=responsive" },
  { "slo-background-calls", COUNTER, NULL, "class_calls", "class=background" },
  { "slo-interactive-met", COUNTER,
    "Answers that met their latency target, by class.", "class_slo_met", "class=interactive" },
  { "slo-responsive-met", COUNTER, NULL, "class_slo_met", "class=responsive" },
  { "slo-background-met", COUNTER, NULL, "class_slo_met", "class=background" },
  { "slo-interactive-missed", COUNTER,
    "Answers that missed their latency target, by class.", "class_slo_missed",
    "class=interactive" },
  { "slo-responsive-missed", COUNTER, NULL, "class_slo_missed", "class=responsive" },
  { "slo-background-missed", COUNTER, NULL, "class_slo_missed", "class=background" },
  { "slo-interactive-refused", COUNTER,
    "Calls refused because their answer would have come far too late, by class.", "class_refused",
    "class=interactive" },
  { "slo-responsive-refused", COUNTER, NULL, "class_refused", "class=responsive" },
  { "calls", GAUGE, "Calls under way." },
  { "queued-calls", GAUGE, "Calls under way, by what they do.", "calls_by_state", "state=queued" },
  { "prefill-calls", GAUGE, NULL, "calls_by_state", "state=prefill" },
  { "decode-calls", GAUGE, NULL, "calls_by_state", "state=decode" },
  { "stalled-calls", GAUGE, NULL, "calls_by_state", "state=stalled" },
  { "ttft-forecasts", COUNTER,
    "Forecasts of the time to a first token that were compared with what came." },
  { "ttft-forecast-error-ms", GAUGE, "Mean absolute error of these forecasts." },
  { "contexts", GAUGE, "Contexts of all applications." },
  { "drafted-tokens", COUNTER,
    "Guesses of tokens that were verified, of answers that have ended." },
  { "accepted-tokens", COUNTER, "Of these guesses, those that were right." },
  { "draft-passes", COUNTER, "Steps of decode of these answers." },
  { "draft-loads", COUNTER, "Times a draft model was loaded." },
  { "model-loads", COUNTER, "Times a model was loaded." },
  { "model-unloads", COUNTER, "Times a model was unloaded." },
  { "trims", COUNTER, "Times memory was given back." },
  { "trimmed-bytes", COUNTER, "Memory given back." },
  { "cuts", COUNTER, "Times pressure cut the budget.", "budget_cuts" },
  { "cut-bytes", GAUGE, "What pressure has cut the budget by, as of now.", "budget_cut" },
  { "regrown-bytes", COUNTER, "What the budget grew by again.", "budget_regrown" },
  { "multiplications", COUNTER, "Products of two numbers that steps computed, of matrices." },
  { "lowered-classes", GAUGE,
    "Classes of new calls that a smaller sub-model answers, as memory is short." },
  { "lowered-calls", COUNTER, "Calls that a smaller sub-model answered as memory was short." },
  { "unused-tail-bytes", GAUGE, "Weights that are given back, as no call has use for them, as of now." },
  { "own-trims", COUNTER, "Times the service gave memory back by itself." },
  { "stall-ms", COUNTER,
    "Time that some program waited for memory, since the machine was started." },
  { "since-cut-ms", GAUGE, "Time since pressure cut the budget." },
  { "budget-now-bytes", GAUGE, "The most that the service may hold now." },
  { "budget-allowed-bytes", GAUGE, "The most that it may hold without pressure." },
  { "held-anonymous-bytes", GAUGE, "Held memory that only the service can give back." },
  { "held-backed-bytes", GAUGE, "Held memory that is pages of files." },
  { "constraint-bytes", GAUGE, "Compiled schemas and grammars, and their masks of tokens." },
  { "used-backed-bytes", GAUGE, "File pages that calls use, in memory or not." },
  { "keep-backed-bytes", GAUGE, "What of that may stay between two steps of running calls." },
  { "streaming-bytes", GAUGE,
    "Weights that each pass reads from the disk, as memory has no room for them." },
  { "streamed-bytes", COUNTER, "Weights read from the disk by calls, as they did not stay." },
  { "stream-ring-bytes", GAUGE, "The buffers that these weights pass through." },
  { "expert-uses", COUNTER, "Experts that rows chose while weights were streaming." },
  { "expert-hits", COUNTER, "Of these, experts that were in memory." },
  { "expert-room-bytes", GAUGE, "Memory that experts are kept in while weights are streaming." },
  { "group-limit-bytes", GAUGE,
    "The tightest limit of the control groups that the service is in.", "cgroup_limit" },
  { "group-usage-bytes", GAUGE, "What is used of that limit.", "cgroup_usage" },
  { "machine-available-bytes", GAUGE, "Available memory of the machine." },
  { "given-scratch-bytes", COUNTER,
    "Memory given back, by the step of the ladder that gave it.", "given", "step=scratch" },
  { "given-kv-bytes", COUNTER, NULL, "given", "step=contexts" },
  { "given-text-bytes", COUNTER, NULL, "given", "step=text" },
  { "given-constraints-bytes", COUNTER, NULL, "given", "step=constraints" },
  { "given-draft-bytes", COUNTER, NULL, "given", "step=draft" },
  { "given-calls-bytes", COUNTER, NULL, "given", "step=calls" },
  { "given-pages-bytes", COUNTER, NULL, "given", "step=pages" },
  { "given-weights-bytes", COUNTER, NULL, "given", "step=weights" },
  { "pressure-level", GAUGE, "How hard memory is pressed, as a number: 0 for not at all." },
  { "on-battery", GAUGE, "1 while the machine runs on its battery." },
  { "power-saver", GAUGE, "1 while its power profile is one that saves." },
  { "background-pace", GAUGE,
    "How calls that nobody waits for go on: 0 as ever, 1 slowly, 2 not now." },
  { "suspends", COUNTER, "Times the machine was about to sleep." },
  { "refused-floods", COUNTER, "Messages dropped because one program sent too many." },
  { "steps", COUNTER, "Passes through the model." },
  { "rows", COUNTER, "Rows of all passes through the model." },
  { "kv-packed-chunks", COUNTER,
    "Chunks of context memory, by what happened to them.", "chunks", "event=packed" },
  { "kv-written-chunks", COUNTER, NULL, "chunks", "event=written" },
  { "kv-evicted-chunks", COUNTER, NULL, "chunks", "event=evicted" },
  { "kv-dropped-chunks", COUNTER, NULL, "chunks", "event=dropped" },
  { "kv-narrowed-chunks", COUNTER, NULL, "chunks", "event=narrowed" },
  { "kv-widened-chunks", COUNTER, NULL, "chunks", "event=widened" },
  { "kv-restored-chunks", COUNTER, NULL, "chunks", "event=restored" },
  { "kv-recomputed-chunks", COUNTER, NULL, "chunks", "event=recomputed" },
  { "kv-faulted-chunks", COUNTER, NULL, "chunks", "event=faulted" },
  { "kv-shared-chunks", COUNTER, NULL, "chunks", "event=shared" },
  { "kv-narrow-chunks", GAUGE,
    "Chunks that have fewer bits than they should, as memory is or was short." },
  { "kv-kept-bytes", GAUGE,
    "Context memory that is kept as it was computed, for contexts to begin with." },
  { "kv-read-bytes", COUNTER, "Context memory read from storage.", "storage_read" },
  { "kv-written-bytes", COUNTER, "Context memory written to storage.", "storage_written" },
  { "kv-storage-bytes", GAUGE, "Context memory on storage.", "storage" },
  { "apps", GAUGE, "Applications that are remembered.", "applications" },
  { "heap-bytes", GAUGE, "Memory that the C library has given out." },
  { "process-resident-bytes", GAUGE, "Resident memory of the process, as the kernel counts it." },
};

static const Metric memory_metrics[] = {
  { "Budget", GAUGE, "The most that the service may hold; 0 when it decides by itself.",
    "budget", NULL, UNIT_BYTES },
  { "Resident", GAUGE, "What the service holds, as it counts itself.", "held", NULL, UNIT_BYTES },
  { "Weights", GAUGE, "What the service holds, by what it is.", "memory", "holder=weights",
    UNIT_BYTES },
  { "KvResident", GAUGE, NULL, "memory", "holder=contexts", UNIT_BYTES },
  { "KvCompressed", GAUGE, NULL, "memory", "holder=compressed-contexts", UNIT_BYTES },
  { "SubModel", GAUGE, "The share of the model that stays in memory.", "sub_model", NULL,
    UNIT_RATIO },
};

static const char *const availabilities[] = { "ready", "loading", "no-model", "disabled", "failed",
                                              NULL };
static const char *const pressures[] = { "none", "low", "medium", "critical", NULL };
static const char *const costs[] = { "free", "cheap", "costly", NULL };

static const char *const type_names[] = { "counter", "gauge", "unknown" };
static const char *const unit_names[] = { "", "bytes", "seconds", "ratio" };

/* --- the parts of a line --- */

/* Of @value in its own unit; FALSE for what is no number that can be shown. */
static gboolean
append_number (GString  *out,
               GVariant *value,
               Type      type,
               Unit      unit)
{
  char buffer[G_ASCII_DTOSTR_BUF_SIZE];
  double number;

  if (g_variant_is_of_type (value, G_VARIANT_TYPE_UINT64))
    number = (double) g_variant_get_uint64 (value);
  else if (g_variant_is_of_type (value, G_VARIANT_TYPE_UINT32))
    number = g_variant_get_uint32 (value);
  else if (g_variant_is_of_type (value, G_VARIANT_TYPE_INT64))
    number = (double) g_variant_get_int64 (value);
  else if (g_variant_is_of_type (value, G_VARIANT_TYPE_INT32))
    number = g_variant_get_int32 (value);
  else if (g_variant_is_of_type (value, G_VARIANT_TYPE_DOUBLE))
    number = g_variant_get_double (value);
  else
    return FALSE;
  if (!isfinite (number) || (type == COUNTER && number < 0))
    return FALSE;

  /* a double has no room for the last digits of a large one */
  if (g_variant_is_of_type (value, G_VARIANT_TYPE_UINT64) && unit <= UNIT_BYTES)
    g_string_append_printf (out, "%" G_GUINT64_FORMAT, g_variant_get_uint64 (value));
  else
    g_string_append (out, g_ascii_formatd (buffer, sizeof buffer, "%.17g",
                                           unit == UNIT_SECONDS ? number / 1000
                                           : unit == UNIT_RATIO ? number / 100
                                                                : number));
  return TRUE;
}

static void
append_name (GString    *out,
             const char *family,
             Unit        unit)
{
  g_string_append_printf (out, PREFIX "%s", family);
  if (unit != UNIT_NONE)
    g_string_append_printf (out, "_%s", unit_names[unit]);
}

static void
append_head (GString    *out,
             const char *family,
             const char *type,
             Unit        unit,
             const char *help)
{
  g_string_append (out, "# TYPE ");
  append_name (out, family, unit);
  g_string_append_printf (out, " %s\n", type);
  if (unit != UNIT_NONE)
    {
      g_string_append (out, "# UNIT ");
      append_name (out, family, unit);
      g_string_append_printf (out, " %s\n", unit_names[unit]);
    }
  if (help != NULL)
    {
      g_string_append (out, "# HELP ");
      append_name (out, family, unit);
      g_string_append_printf (out, " %s\n", help);
    }
}

static void
append_sample (GString    *out,
               const char *family,
               Type        type,
               Unit        unit,
               const char *label,
               const char *number)
{
  append_name (out, family, unit);
  if (type == COUNTER)
    g_string_append (out, "_total");
  if (label != NULL)
    {
      gsize n = strcspn (label, "=");

      g_string_append_printf (out, "{%.*s=\"%s\"}", (int) n, label, label + n + 1);
    }
  g_string_append_printf (out, " %s\n", number);
}

/* --- families --- */

/* (transfer full): the name of its family. @unit: (out) */
static char *
make_family (const Metric *metric,
             Unit         *unit)
{
  char *name = g_strdelimit (g_strdup (metric->key), "-", '_');

  *unit = metric->unit;
  if (g_str_has_suffix (name, "_bytes"))
    *unit = UNIT_BYTES;
  else if (g_str_has_suffix (name, "_ms"))
    *unit = UNIT_SECONDS;
  if (metric->family != NULL)
    {
      g_free (name);
      return g_strdup (metric->family);
    }

  if (*unit != UNIT_NONE)
    *strrchr (name, '_') = '\0';
  return name;
}

static void
append_table (GString      *out,
              const Metric *metrics,
              gsize         n,
              GVariant     *values)
{
  g_autofree char *last = NULL;  /* the family whose head is written */
  const char *help = NULL;

  for (gsize i = 0; i < n; i++)
    {
      g_autoptr(GVariant) value = g_variant_lookup_value (values, metrics[i].key, NULL);
      g_autoptr(GString) number = g_string_new (NULL);
      Unit unit;
      g_autofree char *family = make_family (&metrics[i], &unit);

      /* the help stands at a family's first entry, which need not be there */
      if (metrics[i].help != NULL)
        help = metrics[i].help;
      if (value == NULL || !append_number (number, value, metrics[i].type, unit))
        continue;
      if (g_strcmp0 (last, family) != 0)
        append_head (out, family, type_names[metrics[i].type], unit, help);
      append_sample (out, family, metrics[i].type, unit, metrics[i].label, number->str);
      g_free (last);
      last = g_steal_pointer (&family);
    }
}

/* One of @states, the first word of which is 1 and the others 0. */
static void
append_states (GString           *out,
               const char        *family,
               const char        *help,
               const char *const *states,
               GVariant          *values,
               const char        *key)
{
  const char *state;

  if (!g_variant_lookup (values, key, "&s", &state) || !g_strv_contains (states, state))
    return;

  append_head (out, family, "stateset", UNIT_NONE, help);
  for (gsize i = 0; states[i] != NULL; i++)
    {
      g_autofree char *label = g_strdup_printf (PREFIX "%s=%s", family, states[i]);

      append_sample (out, family, GAUGE, UNIT_NONE, label,
                     g_str_equal (state, states[i]) ? "1" : "0");
    }
}

static void
append_version (GString  *out,
                GVariant *service)
{
  const char *version;

  /* as a label it would have to be escaped, and a version needs nothing of that kind */
  if (!g_variant_lookup (service, "Version", "&s", &version) || *version == '\0' ||
      strspn (version, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS ".-+~") != strlen (version))
    return;

  append_head (out, "build", "info", UNIT_NONE, "The version of the service.");
  g_string_append_printf (out, PREFIX "build_info{version=\"%s\"} 1\n", version);
}

static void
append_reclaimable (GString  *out,
                    GVariant *memory)
{
  g_autoptr(GVariant) reclaimable = g_variant_lookup_value (memory, "Reclaimable",
                                                            G_VARIANT_TYPE ("a{st}"));
  gboolean has_head = FALSE;

  for (gsize i = 0; reclaimable != NULL && costs[i] != NULL; i++)
    {
      g_autofree char *label = g_strdup_printf ("cost=%s", costs[i]);
      g_autofree char *number = NULL;
      guint64 bytes;

      if (!g_variant_lookup (reclaimable, costs[i], "t", &bytes))
        continue;
      if (!has_head)
        append_head (out, "reclaimable", "gauge", UNIT_BYTES,
                     "What could be given back, by what that would cost.");
      has_head = TRUE;
      number = g_strdup_printf ("%" G_GUINT64_FORMAT, bytes);
      append_sample (out, "reclaimable", GAUGE, UNIT_BYTES, label, number);
    }
}

/* --- what the table does not have --- */

static gboolean
is_in_table (const char *key)
{
  for (gsize i = 0; i < G_N_ELEMENTS (statistics_metrics); i++)
    if (g_str_equal (statistics_metrics[i].key, key))
      return TRUE;

  return FALSE;
}

/* Whether a sample called @name could be taken for one of another family. */
static gboolean
is_ambiguous (const char *name)
{
  static const char *const suffixes[] = { "_total", "_created", "_count", "_sum",
                                          "_bucket", "_info", "_gcount", "_gsum" };
  static const char *const others[] = { "availability", "pressure", "build", "reclaimable_bytes" };

  for (gsize i = 0; i < G_N_ELEMENTS (suffixes); i++)
    if (g_str_has_suffix (name, suffixes[i]))
      return TRUE;
  for (gsize i = 0; i < G_N_ELEMENTS (others); i++)
    if (g_str_equal (name, others[i]))
      return TRUE;
  for (gsize i = 0; i < G_N_ELEMENTS (statistics_metrics) + G_N_ELEMENTS (memory_metrics); i++)
    {
      const Metric *metric = i < G_N_ELEMENTS (statistics_metrics)
                                 ? &statistics_metrics[i]
                                 : &memory_metrics[i - G_N_ELEMENTS (statistics_metrics)];
      Unit unit;
      g_autofree char *family = make_family (metric, &unit);
      g_autofree char *taken = g_strconcat (family, unit != UNIT_NONE ? "_" : "",
                                            unit_names[unit], NULL);

      if (g_str_equal (taken, name))
        return TRUE;
    }

  return FALSE;
}

static gboolean
can_be_name (const char *key)
{
  g_autofree char *name = NULL;
  gsize length = strlen (key);

  if (length == 0 || length > MAX_UNKNOWN_NAME || !g_ascii_islower (*key) ||
      strspn (key, G_CSET_a_2_z G_CSET_DIGITS "-") != length)
    return FALSE;

  name = g_strdelimit (g_strdup (key), "-", '_');
  /* in milliseconds and in seconds it would be the same one */
  if (g_str_has_suffix (name, "_seconds"))
    return FALSE;
  return !is_ambiguous (name);
}

static void
append_all_unknown (GString  *out,
                    GVariant *statistics)
{
  g_autoptr(GHashTable) seen = g_hash_table_new (g_str_hash, g_str_equal);
  GVariantIter iter;
  const char *key;
  GVariant *value;

  g_variant_iter_init (&iter, statistics);
  while (g_variant_iter_next (&iter, "{&sv}", &key, &value))
    {
      if (!is_in_table (key) && can_be_name (key) && g_hash_table_size (seen) < MAX_UNKNOWN &&
          g_hash_table_add (seen, (gpointer) key))
        append_table (out, &(Metric) { .key = key, .type = UNKNOWN }, 1, statistics);
      g_variant_unref (value);
    }
}

char *
llmsvc_metrics_format (GVariant *service,
                       GVariant *memory,
                       GVariant *statistics)
{
  GString *out = g_string_new (NULL);

  if (service != NULL)
    {
      append_version (out, service);
      append_states (out, "availability", "Whether questions can be answered.", availabilities,
                     service, "Availability");
    }
  if (memory != NULL)
    {
      append_states (out, "pressure", "How hard the memory of the machine is pressed.", pressures,
                     memory, "Pressure");
      append_table (out, memory_metrics, G_N_ELEMENTS (memory_metrics), memory);
      append_reclaimable (out, memory);
    }
  if (statistics != NULL)
    {
      append_table (out, statistics_metrics, G_N_ELEMENTS (statistics_metrics), statistics);
      append_all_unknown (out, statistics);
    }
  g_string_append (out, "# EOF\n");

  return g_string_free (out, FALSE);
}
