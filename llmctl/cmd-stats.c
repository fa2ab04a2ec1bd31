/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl stats: the counters of the service. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/llmctl.h"

#include <glib/gi18n.h>

#include "llmctl/llmctl-output.h"
#include "llmctl/llmctl-service.h"

/* What the counters of today are called, in the order of the interface. */
static const struct
{
  const char *key;
  const char *label;
} labels[] = {
  { "requests", N_("questions") },
  { "failed", N_("of them failed") },
  { "cancelled", N_("of them cancelled") },
  { "prompt-tokens", N_("tokens read") },
  { "reused-tokens", N_("tokens reused") },
  { "output-tokens", N_("tokens written") },
  { "slo-met", N_("answered in time") },
  { "slo-missed", N_("answered late") },
  { "model-loads", N_("times the model was loaded") },
  { "model-unloads", N_("times it was unloaded") },
  { "trims", N_("times memory was given back") },
  { "trimmed-bytes", N_("given back in all") },
  { "steps", N_("steps of the model") },
  { "rows", N_("rows in these steps") },
  { "contexts", N_("contexts now") },
  { "calls", N_("calls under way now") },
  { "process-resident-bytes", N_("the process holds now") },
};

static const char *
get_label (const char *key)
{
  for (gsize i = 0; i < G_N_ELEMENTS (labels); i++)
    if (g_str_equal (labels[i].key, key))
      return _(labels[i].label);

  return key;
}

static void
add_row (LlmctlTable *table,
         const char  *key,
         GVariant    *value)
{
  g_autofree char *text = NULL;

  if (!g_variant_is_of_type (value, G_VARIANT_TYPE_UINT64))
    text = g_variant_print (value, FALSE);
  else if (g_str_has_suffix (key, "-bytes"))
    text = llmctl_format_bytes (g_variant_get_uint64 (value));
  else
    text = g_strdup_printf ("%" G_GUINT64_FORMAT, g_variant_get_uint64 (value));

  llmctl_table_add (table, (const char *const[]) { get_label (key), text, NULL });
}

static void
print_for_people (GVariant *statistics)
{
  LlmctlTable *table =
      llmctl_table_new ((const char *const[]) { _("Since the service started"), "", NULL });
  GVariantIter iter;
  const char *key;
  GVariant *value;

  for (gsize i = 0; i < G_N_ELEMENTS (labels); i++)
    {
      g_autoptr(GVariant) known = g_variant_lookup_value (statistics, labels[i].key, NULL);

      if (known != NULL)
        add_row (table, labels[i].key, known);
    }
  g_variant_iter_init (&iter, statistics);
  while (g_variant_iter_loop (&iter, "{&sv}", &key, &value))
    if (get_label (key) == key)
      add_row (table, key, value);
  llmctl_table_print (table);
}

static LlmctlExit
run (int    argc,
     char **argv)
{
  LlmctlExit status = llmctl_check_arguments (argv, 0);
  g_autoptr(GDBusConnection) bus = NULL;
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GVariant) statistics = NULL;
  g_autoptr(GError) error = NULL;

  if (status != LLMCTL_EXIT_OK)
    return status;
  bus = llmctl_service_connect_running (&error);
  if (bus != NULL)
    reply = llmctl_call (bus, NULL, LLMCTL_SERVICE_INTERFACE, "GetStatistics",
                         g_variant_new ("(a{sv})", NULL), "(a{sv})", &error);
  if (reply == NULL)
    return llmctl_fail (error);

  statistics = g_variant_get_child_value (reply, 0);
  if (llmctl_globals.is_json)
    llmctl_output_json (statistics);
  else
    print_for_people (statistics);
  return LLMCTL_EXIT_OK;
}

const LlmctlCommand llmctl_stats_command = {
  .name = "stats",
  .summary = N_("Show the counters of the service"),
  .description = N_("Counted since the service started, which this does not do.\n"
                    "--json: one object with the numbers of GetStatistics, by their names there."),
  .run = run,
};
