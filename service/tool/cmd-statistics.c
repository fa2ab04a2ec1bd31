/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tool.h"

#include <glib/gi18n.h>
#include <stdio.h>

#include "common/llmsvc-statistics.h"

static const char *const kinds[] = {
  [LLMSVC_STATISTIC_COUNTER] = "counter",
  [LLMSVC_STATISTIC_GAUGE] = "gauge",
};

static const char *const units[] = {
  [LLMSVC_STATISTIC_NUMBER] = "number",
  [LLMSVC_STATISTIC_BYTES] = "bytes",
  [LLMSVC_STATISTIC_MS] = "ms",
  [LLMSVC_STATISTIC_PERCENT] = "percent",
};

static void
print_json (void)
{
  GVariantBuilder statistics;

  g_variant_builder_init (&statistics, G_VARIANT_TYPE ("aa{sv}"));
  for (LlmsvcStatistic i = 0; i < LLMSVC_N_STATISTICS; i++)
    {
      const LlmsvcStatisticInfo *info = llmsvc_statistic_get_info (i);

      g_variant_builder_add_parsed (&statistics,
                                    "{'key': <%s>, 'kind': <%s>, 'unit': <%s>, 'help': <%s>}",
                                    info->key, kinds[info->kind], units[info->unit], info->help);
    }
  tool_print_json (g_variant_new_parsed ("{'version': <%u>, 'statistics': <%aa{sv}>}",
                                         (guint) TOOL_JSON_VERSION, &statistics), TRUE);
}

static void
print_list (void)
{
  for (LlmsvcStatistic i = 0; i < LLMSVC_N_STATISTICS; i++)
    {
      const LlmsvcStatisticInfo *info = llmsvc_statistic_get_info (i);

      printf ("%s (%s, %s)\n  %s\n\n", info->key, kinds[info->kind], units[info->unit], info->help);
    }
}

static gboolean as_json;

static const GOptionEntry entries[] = {
  { "json", 0, 0, G_OPTION_ARG_NONE, &as_json, N_("As one JSON object"), NULL },
  G_OPTION_ENTRY_NULL
};

static int
run (char **arguments)
{
  if (as_json)
    print_json ();
  else
    print_list ();
  return TOOL_OK;
}

const ToolCommand tool_statistics = {
  "statistics", N_("List the figures of GetStatistics"), NULL,
  N_("Every figure of GetStatistics: a counter since the service started, or a gauge as of now, its "
     "unit, and what it says."), 0, entries, run,
};
