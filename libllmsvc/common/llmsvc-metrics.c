/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "llmsvc-metrics.h"

#include <math.h>
#include <string.h>

#define PREFIX "llmsvc_"

/* Counters of later versions, or of something that is not the service at all: no more of
 * them, and no longer names, than anybody would mean. */
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

typedef struct
{
  const char *key;     /* of GetStatistics, or a property */
  const char *family;  /* without prefix and unit */
  Type type;
  Unit unit;
  const char *label;   /* (nullable): tells the samples of one family apart */
  const char *help;
} Metric;

/* Samples of one family follow each other, as the format wants it. */
static const Metric statistics_metrics[] = {
  { "requests", "requests", COUNTER, UNIT_NONE, NULL, "Questions asked." },
  { "failed", "failed", COUNTER, UNIT_NONE, NULL, "Questions that failed, refused ones included." },
  { "cancelled", "cancelled", COUNTER, UNIT_NONE, NULL, "Questions whose answer was cancelled." },
  { "refused", "refused", COUNTER, UNIT_NONE, NULL,
    "Calls refused because their answer would have come far too late." },
  { "prompt-tokens", "prompt_tokens", COUNTER, UNIT_NONE, NULL, "Tokens of prompts." },
  { "reused-tokens", "reused_tokens", COUNTER, UNIT_NONE, NULL,
    "Tokens of prompts that did not have to be computed again." },
  { "output-tokens", "output_tokens", COUNTER, UNIT_NONE, NULL,
    "Tokens of answers that have ended." },
  { "read-tokens", "read_tokens", COUNTER, UNIT_NONE, NULL,
    "Tokens of prompts computed, of calls under way as well." },
  { "written-tokens", "written_tokens", COUNTER, UNIT_NONE, NULL,
    "Tokens written, of calls under way as well." },
  { "slo-met", "slo_met", COUNTER, UNIT_NONE, NULL, "Answers that met their latency target." },
  { "slo-missed", "slo_missed", COUNTER, UNIT_NONE, NULL,
    "Answers that missed their latency target." },
  { "slo-interactive-calls", "class_calls", COUNTER, UNIT_NONE, "class=\"interactive\"",
    "Calls, by class." },
  { "slo-responsive-calls", "class_calls", COUNTER, UNIT_NONE, "class=\"responsive\"", NULL },
  { "slo-background-calls", "class_calls", COUNTER, UNIT_NONE, "class=\"background\"", NULL },
  { "slo-interactive-met", "class_slo_met", COUNTER, UNIT_NONE, "class=\"interactive\"",
    "Answers that met their latency target, by class." },
  { "slo-responsive-met", "class_slo_met", COUNTER, UNIT_NONE, "class=\"responsive\"", NULL },
  { "slo-background-met", "class_slo_met", COUNTER, UNIT_NONE, "class=\"background\"", NULL },
  { "slo-interactive-missed", "class_slo_missed", COUNTER, UNIT_NONE, "class=\"interactive\"",
    "Answers that missed their latency target, by class." },
  { "slo-responsive-missed", "class_slo_missed", COUNTER, UNIT_NONE, "class=\"responsive\"", NULL },
  { "slo-background-missed", "class_slo_missed", COUNTER, UNIT_NONE, "class=\"background\"", NULL },
  { "slo-interactive-refused", "class_refused", COUNTER, UNIT_NONE, "class=\"interactive\"",
    "Calls refused because their answer would have come far too late, by class." },
  { "slo-responsive-refused", "class_refused", COUNTER, UNIT_NONE, "class=\"responsive\"", NULL },
  { "slo-background-refused", "class_refused", COUNTER, UNIT_NONE, "class=\"background\"", NULL },
  { "calls", "calls", GAUGE, UNIT_NONE, NULL, "Calls under way." },
  { "queued-calls", "calls_by_state", GAUGE, UNIT_NONE, "state=\"queued\"",
    "Calls under way, by what they do." },
  { "reading-calls", "calls_by_state", GAUGE, UNIT_NONE, "state=\"reading\"", NULL },
  { "writing-calls", "calls_by_state", GAUGE, UNIT_NONE, "state=\"writing\"", NULL },
  { "parked-calls", "calls_by_state", GAUGE, UNIT_NONE, "state=\"parked\"", NULL },
  { "ttft-forecasts", "ttft_forecasts", COUNTER, UNIT_NONE, NULL,
    "Forecasts of the time to a first token that were compared with what came." },
  { "ttft-forecast-error-ms", "ttft_forecast_error", GAUGE, UNIT_SECONDS, NULL,
    "Mean absolute error of these forecasts." },
  { "contexts", "contexts", GAUGE, UNIT_NONE, NULL, "Contexts of all applications." },
  { "model-loads", "model_loads", COUNTER, UNIT_NONE, NULL, "Times a model was loaded." },
  { "model-unloads", "model_unloads", COUNTER, UNIT_NONE, NULL, "Times a model was unloaded." },
  { "trims", "trims", COUNTER, UNIT_NONE, NULL, "Times memory was given back." },
  { "trimmed-bytes", "trimmed", COUNTER, UNIT_BYTES, NULL, "Memory given back." },
  { "cuts", "budget_cuts", COUNTER, UNIT_NONE, NULL, "Times pressure cut the budget." },
  { "cut-bytes", "budget_cut", GAUGE, UNIT_BYTES, NULL,
    "What pressure has cut the budget by, as of now." },
  { "regrown-bytes", "budget_regrown", COUNTER, UNIT_BYTES, NULL,
    "What the budget grew by again." },
  { "own-trims", "own_trims", COUNTER, UNIT_NONE, NULL,
    "Times the service gave memory back by itself." },
  { "stall-ms", "stall", COUNTER, UNIT_SECONDS, NULL,
    "Time that some program waited for memory, since the machine was started." },
  { "since-cut-ms", "since_cut", GAUGE, UNIT_SECONDS, NULL,
    "Time since pressure cut the budget." },
  { "budget-now-bytes", "budget_now", GAUGE, UNIT_BYTES, NULL,
    "The most that the service may hold now." },
  { "budget-allowed-bytes", "budget_allowed", GAUGE, UNIT_BYTES, NULL,
    "The most that it may hold without pressure." },
  { "held-anonymous-bytes", "held_anonymous", GAUGE, UNIT_BYTES, NULL,
    "Held memory that only the service can give back." },
  { "held-backed-bytes", "held_backed", GAUGE, UNIT_BYTES, NULL,
    "Held memory that is pages of files." },
  { "used-backed-bytes", "used_backed", GAUGE, UNIT_BYTES, NULL,
    "File pages that calls use, in memory or not." },
  { "keep-backed-bytes", "keep_backed", GAUGE, UNIT_BYTES, NULL,
    "What of that may stay between two steps of running calls." },
  { "group-limit-bytes", "cgroup_limit", GAUGE, UNIT_BYTES, NULL,
    "The tightest limit of the control groups that the service is in." },
  { "group-usage-bytes", "cgroup_usage", GAUGE, UNIT_BYTES, NULL,
    "What is used of that limit." },
  { "machine-available-bytes", "machine_available", GAUGE, UNIT_BYTES, NULL,
    "Available memory of the machine." },
  { "given-scratch-bytes", "given", COUNTER, UNIT_BYTES, "step=\"scratch\"",
    "Memory given back, by the step of the ladder that gave it." },
  { "given-kv-bytes", "given", COUNTER, UNIT_BYTES, "step=\"contexts\"", NULL },
  { "given-text-bytes", "given", COUNTER, UNIT_BYTES, "step=\"text\"", NULL },
  { "given-calls-bytes", "given", COUNTER, UNIT_BYTES, "step=\"calls\"", NULL },
  { "given-pages-bytes", "given", COUNTER, UNIT_BYTES, "step=\"pages\"", NULL },
  { "given-weights-bytes", "given", COUNTER, UNIT_BYTES, "step=\"weights\"", NULL },
  { "pressure-level", "pressure_level", GAUGE, UNIT_NONE, NULL,
    "How hard memory is pressed, as a number: 0 for not at all." },
  { "on-battery", "on_battery", GAUGE, UNIT_NONE, NULL,
    "1 while the machine runs on its battery." },
  { "power-saver", "power_saver", GAUGE, UNIT_NONE, NULL,
    "1 while its power profile is one that saves." },
  { "background-pace", "background_pace", GAUGE, UNIT_NONE, NULL,
    "How calls that nobody waits for go on: 0 as ever, 1 slowly, 2 not now." },
  { "suspends", "suspends", COUNTER, UNIT_NONE, NULL, "Times the machine was about to sleep." },
  { "refused-floods", "refused_floods", COUNTER, UNIT_NONE, NULL,
    "Messages dropped because one program sent too many." },
  { "steps", "steps", COUNTER, UNIT_NONE, NULL, "Passes through the model." },
  { "rows", "rows", COUNTER, UNIT_NONE, NULL, "Rows of all passes through the model." },
  { "kv-packed-chunks", "chunks", COUNTER, UNIT_NONE, "event=\"packed\"",
    "Chunks of context memory, by what happened to them." },
  { "kv-written-chunks", "chunks", COUNTER, UNIT_NONE, "event=\"written\"", NULL },
  { "kv-evicted-chunks", "chunks", COUNTER, UNIT_NONE, "event=\"evicted\"", NULL },
  { "kv-restored-chunks", "chunks", COUNTER, UNIT_NONE, "event=\"restored\"", NULL },
  { "kv-recomputed-chunks", "chunks", COUNTER, UNIT_NONE, "event=\"recomputed\"", NULL },
  { "kv-faulted-chunks", "chunks", COUNTER, UNIT_NONE, "event=\"faulted\"", NULL },
  { "kv-shared-chunks", "chunks", COUNTER, UNIT_NONE, "event=\"shared\"", NULL },
  { "kv-read-bytes", "storage_read", COUNTER, UNIT_BYTES, NULL,
    "Context memory read from storage." },
  { "kv-written-bytes", "storage_written", COUNTER, UNIT_BYTES, NULL,
    "Context memory written to storage." },
  { "kv-storage-bytes", "storage", GAUGE, UNIT_BYTES, NULL, "Context memory on storage." },
  { "apps", "applications", GAUGE, UNIT_NONE, NULL, "Applications that are remembered." },
  { "heap-bytes", "heap", GAUGE, UNIT_BYTES, NULL, "Memory that the C library has given out." },
  { "process-resident-bytes", "process_resident", GAUGE, UNIT_BYTES, NULL,
    "Resident memory of the process, as the kernel counts it." },
};

static const Metric memory_metrics[] = {
  { "Budget", "budget", GAUGE, UNIT_BYTES, NULL,
    "The most that the service may hold; 0 when it decides by itself." },
  { "Resident", "held", GAUGE, UNIT_BYTES, NULL, "What the service holds, as it counts itself." },
  { "Weights", "memory", GAUGE, UNIT_BYTES, "holder=\"weights\"",
    "What the service holds, by what it is." },
  { "KvResident", "memory", GAUGE, UNIT_BYTES, "holder=\"contexts\"", NULL },
  { "KvCompressed", "memory", GAUGE, UNIT_BYTES, "holder=\"compressed-contexts\"", NULL },
  { "SubModel", "sub_model", GAUGE, UNIT_RATIO, NULL,
    "The largest share of the model that may be used." },
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
    g_string_append_printf (out, "{%s}", label);
  g_string_append_printf (out, " %s\n", number);
}

/* --- families --- */

static void
append_table (GString      *out,
              const Metric *metrics,
              gsize         n,
              GVariant     *values)
{
  const char *family = NULL;  /* the one whose head is written */
  const char *help = NULL;

  for (gsize i = 0; i < n; i++)
    {
      g_autoptr(GVariant) value = g_variant_lookup_value (values, metrics[i].key, NULL);
      g_autoptr(GString) number = g_string_new (NULL);

      /* the help stands at a family's first entry, which need not be there */
      if (metrics[i].help != NULL)
        help = metrics[i].help;
      if (value == NULL || !append_number (number, value, metrics[i].type, metrics[i].unit))
        continue;
      if (family == NULL || !g_str_equal (family, metrics[i].family))
        append_head (out, metrics[i].family, type_names[metrics[i].type], metrics[i].unit, help);
      family = metrics[i].family;
      append_sample (out, family, metrics[i].type, metrics[i].unit, metrics[i].label, number->str);
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
      g_autofree char *label = g_strdup_printf (PREFIX "%s=\"%s\"", family, states[i]);

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
      g_autofree char *label = g_strdup_printf ("cost=\"%s\"", costs[i]);
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
      g_autofree char *taken = g_strconcat (metric->family, metric->unit != UNIT_NONE ? "_" : "",
                                            unit_names[metric->unit], NULL);

      if (g_str_equal (taken, name))
        return TRUE;
    }

  return FALSE;
}

static void
append_unknown (GString    *out,
                const char *key,
                GVariant   *value)
{
  g_autofree char *family = g_strdelimit (g_strdup (key), "-", '_');
  g_autoptr(GString) number = g_string_new (NULL);
  Unit unit = UNIT_NONE;

  if (g_str_has_suffix (family, "_bytes"))
    unit = UNIT_BYTES;
  else if (g_str_has_suffix (family, "_ms"))
    unit = UNIT_SECONDS;
  if (unit != UNIT_NONE)
    *strrchr (family, '_') = '\0';

  if (append_number (number, value, UNKNOWN, unit))
    {
      append_head (out, family, type_names[UNKNOWN], unit, NULL);
      append_sample (out, family, UNKNOWN, unit, NULL, number->str);
    }
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
        append_unknown (out, key, value);
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
