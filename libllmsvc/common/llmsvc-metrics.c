/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "llmsvc-metrics.h"

#include <math.h>
#include <string.h>

#include "llmsvc-statistics.h"

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

typedef struct
{
  const char *key;     /* of GetStatistics, or a property */
  Type type;
  const char *help;    /* (nullable) */
  const char *family;  /* (nullable): without prefix and unit; NULL for the key with “_” */
  const char *label;   /* (nullable): tells the samples of one family apart */
  Unit unit;
} Metric;

static const Metric memory_metrics[] = {
  { "Budget", GAUGE, "The most that the service may hold; 0 when it decides by itself.",
    "budget", NULL, UNIT_BYTES },
  { "Resident", GAUGE, "What the service holds, as it counts itself.", "held", NULL, UNIT_BYTES },
  { "Weights", GAUGE, NULL, "memory", "holder=weights",
    UNIT_BYTES },
  { "KvResident", GAUGE, NULL, "memory", "holder=contexts", UNIT_BYTES },
  { "KvCompressed", GAUGE, NULL, "memory", "holder=compressed-contexts", UNIT_BYTES },
  { "SubModel", GAUGE, "The share of the model that stays in memory.", "sub_model", NULL,
    UNIT_RATIO },
};

/* Of families that a label divides. */
static const struct
{
  const char *family;
  const char *help;
} families[] = {
  { "calls_by_state", "Calls under way, by what they do." },
  { "chunks", "Chunks of KV cache, by what happened to them." },
  { "class_calls", "Calls, by class." },
  { "class_refused",
    "Calls refused because their answer would have come far too late, by class." },
  { "class_slo_met", "Answers that met their latency target, by class." },
  { "class_slo_missed", "Answers that missed their latency target, by class." },
  { "given", "Memory released, by the step of the ladder that released it." },
  { "memory", "What the service holds, by what it is." },
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

/* (transfer full): the name of the metric's family, without prefix and unit. */
static char *
make_family (const Metric *metric)
{
  char *name;

  if (metric->family != NULL)
    return g_strdup (metric->family);
  name = g_strdelimit (g_strdup (metric->key), "-", '_');
  if (metric->unit != UNIT_NONE)
    *strrchr (name, '_') = '\0';
  return name;
}

/* A key that ends with -bytes or -ms has that unit. */
static Unit
find_unit (const char *key)
{
  return g_str_has_suffix (key, "-bytes") ? UNIT_BYTES
         : g_str_has_suffix (key, "-ms")  ? UNIT_SECONDS
                                          : UNIT_NONE;
}

static Metric
get_statistic_metric (LlmsvcStatistic statistic)
{
  static const Unit units[] = {
    [LLMSVC_STATISTIC_NUMBER] = UNIT_NONE,
    [LLMSVC_STATISTIC_BYTES] = UNIT_BYTES,
    [LLMSVC_STATISTIC_MS] = UNIT_SECONDS,
    [LLMSVC_STATISTIC_PERCENT] = UNIT_RATIO,
  };
  const LlmsvcStatisticInfo *info = llmsvc_statistic_get_info (statistic);

  return (Metric) {
    .key = info->key,
    .type = info->kind == LLMSVC_STATISTIC_COUNTER ? COUNTER : GAUGE,
    .help = info->help,
    .family = info->family,
    .label = info->sample,
    .unit = units[info->unit],
  };
}

static const char *
get_help (const Metric *metric)
{
  for (gsize i = 0; metric->label != NULL && i < G_N_ELEMENTS (families); i++)
    if (g_strcmp0 (families[i].family, metric->family) == 0)
      return families[i].help;

  return metric->help;
}

/* Samples of one family follow each other, as the format wants it: those of @metrics that belong to
 * the family of the @first. */
static void
append_family (GString      *out,
               const Metric *metrics,
               gsize         first,
               gsize         n,
               GVariant     *values)
{
  const Metric *metric = &metrics[first];
  g_autofree char *family = make_family (metric);
  gboolean has_head = FALSE;

  for (gsize i = first; i < n; i++)
    {
      g_autoptr(GVariant) value = NULL;
      g_autoptr(GString) number = g_string_new (NULL);

      if (i > first && (metric->label == NULL || g_strcmp0 (metrics[i].family, family) != 0))
        continue;
      value = g_variant_lookup_value (values, metrics[i].key, NULL);
      if (value == NULL || !append_number (number, value, metric->type, metric->unit))
        continue;
      if (!has_head)
        append_head (out, family, type_names[metric->type], metric->unit, get_help (metric));
      has_head = TRUE;
      append_sample (out, family, metric->type, metric->unit, metrics[i].label, number->str);
    }
}

static void
append_table (GString      *out,
              const Metric *metrics,
              gsize         n,
              GVariant     *values)
{
  for (gsize i = 0; i < n; i++)
    {
      gsize first = 0;

      while (first < i && (metrics[i].label == NULL
                           || g_strcmp0 (metrics[first].family, metrics[i].family) != 0))
        first++;
      if (first == i)
        append_family (out, metrics, i, n, values);
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
                     "What could be released, by what that would cost.");
      has_head = TRUE;
      number = g_strdup_printf ("%" G_GUINT64_FORMAT, bytes);
      append_sample (out, "reclaimable", GAUGE, UNIT_BYTES, label, number);
    }
}

/* --- what the table does not have --- */

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
  for (gsize i = 0; i < LLMSVC_N_STATISTICS + G_N_ELEMENTS (memory_metrics); i++)
    {
      Metric metric = i < LLMSVC_N_STATISTICS ? get_statistic_metric (i)
                                              : memory_metrics[i - LLMSVC_N_STATISTICS];
      g_autofree char *family = make_family (&metric);
      g_autofree char *taken = g_strconcat (family, metric.unit != UNIT_NONE ? "_" : "",
                                            unit_names[metric.unit], NULL);

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
      if (llmsvc_statistic_find (key) == LLMSVC_N_STATISTICS && can_be_name (key) &&
          g_hash_table_size (seen) < MAX_UNKNOWN && g_hash_table_add (seen, (gpointer) key))
        append_table (out, &(Metric) { .key = key, .type = UNKNOWN, .unit = find_unit (key) }, 1,
                      statistics);
      g_variant_unref (value);
    }
}

char *
llmsvc_metrics_format (GVariant *service,
                       GVariant *memory,
                       GVariant *statistics)
{
  GString *out = g_string_new (NULL);
  Metric metrics[LLMSVC_N_STATISTICS];

  if (service != NULL)
    {
      append_version (out, service);
      append_states (out, "availability", "Whether questions can be answered.", availabilities,
                     service, "Availability");
    }
  if (memory != NULL)
    {
      append_states (out, "pressure", "Memory pressure of the machine.", pressures,
                     memory, "Pressure");
      append_table (out, memory_metrics, G_N_ELEMENTS (memory_metrics), memory);
      append_reclaimable (out, memory);
    }
  if (statistics != NULL)
    {
      for (LlmsvcStatistic i = 0; i < LLMSVC_N_STATISTICS; i++)
        metrics[i] = get_statistic_metric (i);
      append_table (out, metrics, LLMSVC_N_STATISTICS, statistics);
      append_all_unknown (out, statistics);
    }
  g_string_append (out, "# EOF\n");

  return g_string_free (out, FALSE);
}
