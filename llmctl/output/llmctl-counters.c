/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/output/llmctl-counters.h"

#include <glib/gi18n.h>

#include "common/llmsvc-statistics.h"
#include "llmctl/output/llmctl-output.h"

static const char *const titles[LLMSVC_N_STATISTIC_GROUPS] = {
  [LLMSVC_STATISTICS_REQUESTS] = N_("Requests since the service started"),
  [LLMSVC_STATISTICS_TOKENS] = N_("Tokens"),
  [LLMSVC_STATISTICS_MODEL] = N_("Model and memory"),
  [LLMSVC_STATISTICS_NOW] = N_("At this moment"),
  [LLMSVC_STATISTICS_TARGETS] = N_("Calls by their target (SLO)"),
  [LLMSVC_STATISTICS_DRAFTS] = N_("Guesses of draft models"),
  [LLMSVC_STATISTICS_MEMORY] = N_("Memory in detail"),
  [LLMSVC_STATISTICS_STREAM] = N_("Weights that are read from the disk"),
  [LLMSVC_STATISTICS_MACHINE] = N_("The machine"),
  [LLMSVC_STATISTICS_KV] = N_("KV cache of contexts, in chunks of some tokens"),
  [LLMSVC_STATISTICS_STORAGE] = N_("Contexts on storage"),
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

  for (LlmsvcStatistic i = 0; i < LLMSVC_N_STATISTICS; i++)
    width = MAX (width, llmctl_output_get_width (_(llmsvc_statistic_get_info (i)->label)));
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

  for (guint group = is_kv ? LLMSVC_STATISTICS_KV : 0; group < LLMSVC_N_STATISTIC_GROUPS; group++)
    {
      table = llmctl_table_new ((const char *const[]) { _(titles[group]), "", NULL });
      for (LlmsvcStatistic i = 0; i < LLMSVC_N_STATISTICS; i++)
        {
          const LlmsvcStatisticInfo *info = llmsvc_statistic_get_info (i);
          g_autoptr(GVariant) counted = g_variant_lookup_value (statistics, info->key, NULL);
          g_autofree char *label = pad (_(info->label), width);

          if (info->group != group || counted == NULL)
            continue;
          g_variant_dict_remove (rest, info->key);
          add_counter (table, info->key, label, counted);
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
