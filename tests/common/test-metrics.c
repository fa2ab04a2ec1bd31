/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* OpenMetrics text of figures as they are, as later versions may have them, and as no service
 * would. That it is valid is checked by tests/llmctl/test-operations.py. */

#include <gio/gio.h>

#include "common/llmsvc-metrics.h"
#include "common/llmsvc-statistics.h"

/* (transfer full) (nullable): of GVariant text; NULL is not there. */
static GVariant *
parse (const char *text)
{
  g_autoptr(GError) error = NULL;
  GVariant *value;

  if (text == NULL)
    return NULL;
  value = g_variant_parse (G_VARIANT_TYPE_VARDICT, text, NULL, NULL, &error);
  g_assert_no_error (error);
  return value;
}

static char *
format (const char *service_text,
        const char *memory_text,
        const char *statistics_text)
{
  g_autoptr(GVariant) service = parse (service_text);
  g_autoptr(GVariant) memory = parse (memory_text);
  g_autoptr(GVariant) statistics = parse (statistics_text);

  return llmsvc_metrics_format (service, memory, statistics);
}

static void
assert_contains (const char *text,
                 const char *line)
{
  g_autofree char *whole = g_strconcat ("\n", line, "\n", NULL);
  g_autofree char *from_start = g_strconcat ("\n", text, NULL);

  if (strstr (from_start, whole) == NULL)
    g_error ("“%s” is not in:\n%s", line, text);
}

static void
test_nothing (void)
{
  g_autofree char *none = format (NULL, NULL, NULL);
  g_autofree char *empty = format ("{}", "{}", "{}");

  g_assert_cmpstr (none, ==, "# EOF\n");
  g_assert_cmpstr (empty, ==, "# EOF\n");
}

static void
test_usual (void)
{
  g_autofree char *text = format (
      "{'Version': <'1.2.3'>, 'Availability': <'ready'>, 'ActiveModel': <objectpath '/x'>}",
      "{'Pressure': <'low'>, 'Weights': <uint64 100>, 'KvResident': <uint64 20>,"
      " 'SubModel': <uint32 75>, 'Reclaimable': <{'free': uint64 7}>}",
      "{'requests': <uint64 18446744073709551615>, 'kv-read-bytes': <uint64 4096>,"
      " 'slo-interactive-met': <uint64 3>, 'slo-background-met': <uint64 4>,"
      " 'ttft-forecast-error-ms': <uint64 1500>}");

  assert_contains (text, "llmsvc_build_info{version=\"1.2.3\"} 1");
  assert_contains (text, "llmsvc_availability{llmsvc_availability=\"ready\"} 1");
  assert_contains (text, "llmsvc_availability{llmsvc_availability=\"failed\"} 0");
  assert_contains (text, "llmsvc_pressure{llmsvc_pressure=\"low\"} 1");
  assert_contains (text, "llmsvc_memory_bytes{holder=\"weights\"} 100");
  assert_contains (text, "llmsvc_memory_bytes{holder=\"contexts\"} 20");
  assert_contains (text, "llmsvc_sub_model_ratio 0.75");
  assert_contains (text, "llmsvc_reclaimable_bytes{cost=\"free\"} 7");
  /* every digit of it */
  assert_contains (text, "llmsvc_requests_total 18446744073709551615");
  assert_contains (text, "# UNIT llmsvc_storage_read_bytes bytes");
  assert_contains (text, "llmsvc_storage_read_bytes_total 4096");
  assert_contains (text, "llmsvc_class_slo_met_total{class=\"interactive\"} 3");
  assert_contains (text, "llmsvc_class_slo_met_total{class=\"background\"} 4");
  assert_contains (text, "llmsvc_ttft_forecast_error_seconds 1.5");
  g_assert_true (g_str_has_suffix (text, "\n# EOF\n"));
}

/* A family whose first sample is missing has its head all the same, and one head. */
static void
test_heads (void)
{
  g_autofree char *text = format (
      NULL, NULL, "{'kv-shared-chunks': <uint64 1>, 'kv-evicted-chunks': <uint64 2>}");

  g_assert_cmpstr (text, ==,
                   "# TYPE llmsvc_chunks counter\n"
                   "# HELP llmsvc_chunks Chunks of KV cache, by what happened to them.\n"
                   "llmsvc_chunks_total{event=\"evicted\"} 2\n"
                   "llmsvc_chunks_total{event=\"shared\"} 1\n"
                   "# EOF\n");
}

static void
test_unknown (void)
{
  g_autofree char *text = format (NULL, NULL,
                                  "{'later-things': <uint64 5>, 'later-bytes': <uint64 6>,"
                                  " 'later-ms': <1500.0>, 'later-text': <'private'>,"
                                  " 'later-list': <[1, 2]>}");

  assert_contains (text, "# TYPE llmsvc_later_things unknown");
  assert_contains (text, "llmsvc_later_things 5");
  assert_contains (text, "# UNIT llmsvc_later_bytes bytes");
  assert_contains (text, "llmsvc_later_bytes 6");
  assert_contains (text, "llmsvc_later_seconds 1.5");
  g_assert_null (strstr (text, "private"));
  g_assert_null (strstr (text, "list"));
}

/* Each key is one, has the unit that its end says, and a sentence. */
static void
test_table (void)
{
  for (LlmsvcStatistic i = 0; i < LLMSVC_N_STATISTICS; i++)
    {
      const LlmsvcStatisticInfo *info = llmsvc_statistic_get_info (i);

      g_assert_cmpint (llmsvc_statistic_find (info->key), ==, i);
      g_assert_cmpint (g_str_has_suffix (info->key, "-bytes"), ==,
                       info->unit == LLMSVC_STATISTIC_BYTES);
      g_assert_cmpint (g_str_has_suffix (info->key, "-ms"), ==, info->unit == LLMSVC_STATISTIC_MS);
      g_assert_true (g_str_has_suffix (info->help, "."));
      g_assert_cmpuint (strlen (info->label), >, 0);
    }
  g_assert_cmpint (llmsvc_statistic_find ("later"), ==, LLMSVC_N_STATISTICS);
}

/* What would not be valid, or would be taken for something else. */
static void
test_hostile (void)
{
  g_autofree char *text = format (
      "{'Version': <'1\"} 1\\nevil 2'>, 'Availability': <'ready\"'>}",
      "{'Pressure': <uint32 5>, 'Budget': <'much'>, 'Reclaimable': <{'other': uint64 7}>}",
      "{'requests': <'many'>, 'failed': <-5>, 'cancelled': <nan>, 'UPPER': <uint64 1>,"
      " 'new\\nline': <uint64 1>, '': <uint64 1>, 'evil{a=\"b\"}': <uint64 1>,"
      " 'requests-total': <uint64 1>, 'pressure': <uint64 1>, 'memory-bytes': <uint64 1>,"
      " 'later-seconds': <uint64 1>, 'later-inf': <inf>}");

  g_assert_cmpstr (text, ==, "# EOF\n");
}

static void
test_many (void)
{
  g_autoptr(GVariantDict) dict = g_variant_dict_new (NULL);
  g_autoptr(GVariant) statistics = NULL;
  g_autofree char *text = NULL;
  g_auto(GStrv) lines = NULL;

  for (guint i = 0; i < 5000; i++)
    {
      g_autofree char *key = g_strdup_printf ("x%u", i);

      g_variant_dict_insert (dict, key, "t", (guint64) i);
    }
  statistics = g_variant_ref_sink (g_variant_dict_end (dict));
  text = llmsvc_metrics_format (NULL, NULL, statistics);
  lines = g_strsplit (text, "\n", -1);
  g_assert_cmpuint (g_strv_length (lines), ==, 2 * 200 + 2);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/common/metrics/nothing", test_nothing);
  g_test_add_func ("/common/metrics/usual", test_usual);
  g_test_add_func ("/common/metrics/heads", test_heads);
  g_test_add_func ("/common/metrics/unknown", test_unknown);
  g_test_add_func ("/common/metrics/table", test_table);
  g_test_add_func ("/common/metrics/hostile", test_hostile);
  g_test_add_func ("/common/metrics/many", test_many);

  return g_test_run ();
}
