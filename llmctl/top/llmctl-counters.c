/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/top/llmctl-counters.h"

#include <glib/gi18n.h>

#include "llmctl/output/llmctl-output.h"
#include "llmctl/bus/llmctl-service.h"

typedef struct
{
  const char *key;
  const char *label;
} Label;

/* The counters of today, in the order of the interface. */
static const Label labels[] = {
  { "requests", N_("questions") },
  { "failed", N_("of them failed") },
  { "cancelled", N_("of them cancelled") },
  { "refused", N_("of them refused, as they would have been far too late") },
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
  { "queued-calls", N_("of them waiting") },
  { "reading-calls", N_("of them reading") },
  { "writing-calls", N_("of them writing") },
  { "parked-calls", N_("of them parked") },
  { "budget-now-bytes", N_("the most it may hold now") },
  { "process-resident-bytes", N_("the process holds now") },
};

static const Label chunk_labels[] = {
  { "kv-restored-chunks", N_("chunks read back from storage") },
  { "kv-recomputed-chunks", N_("chunks computed again") },
  { "kv-evicted-chunks", N_("chunks whose memory was taken") },
  { "kv-faulted-chunks", N_("chunks found missing or damaged") },
  { "kv-packed-chunks", N_("chunks brought to fewer bits") },
  { "kv-written-chunks", N_("chunks written to storage") },
  { "kv-shared-chunks", N_("chunks shared by contexts") },
  { "kv-read-bytes", N_("read from storage in all") },
  { "kv-written-bytes", N_("written to storage in all") },
  { "kv-storage-bytes", N_("contexts on storage now") },
};

GVariant *
llmctl_counters_read (GDBusConnection  *bus,
                      GError          **error)
{
  g_autoptr(GVariant) reply = llmctl_call (bus, NULL, LLMCTL_SERVICE_INTERFACE, "GetStatistics",
                                           g_variant_new ("(a{sv})", NULL), "(a{sv})", error);

  return reply != NULL ? g_variant_get_child_value (reply, 0) : NULL;
}

static void
add_row (LlmctlTable *table,
         const char  *key,
         const char  *label,
         GVariant    *value)
{
  g_autofree char *text = NULL;

  if (!g_variant_is_of_type (value, G_VARIANT_TYPE_UINT64))
    text = g_variant_print (value, FALSE);
  else if (g_str_has_suffix (key, "-bytes"))
    text = llmctl_format_bytes (g_variant_get_uint64 (value));
  else
    text = g_strdup_printf ("%" G_GUINT64_FORMAT, g_variant_get_uint64 (value));

  llmctl_table_add (table, (const char *const[]) { label, text, NULL });
}

static void
add_rows (LlmctlTable *table,
          const Label *all,
          gsize        n,
          GVariant    *statistics)
{
  for (gsize i = 0; i < n; i++)
    {
      g_autoptr(GVariant) value = g_variant_lookup_value (statistics, all[i].key, NULL);

      if (value != NULL)
        add_row (table, all[i].key, _(all[i].label), value);
    }
}

static gboolean
is_known (const char *key)
{
  for (gsize i = 0; i < G_N_ELEMENTS (labels); i++)
    if (g_str_equal (labels[i].key, key))
      return TRUE;
  for (gsize i = 0; i < G_N_ELEMENTS (chunk_labels); i++)
    if (g_str_equal (chunk_labels[i].key, key))
      return TRUE;

  return FALSE;
}

void
llmctl_counters_print (GVariant *statistics)
{
  LlmctlTable *table =
      llmctl_table_new ((const char *const[]) { _("Since the service started"), "", NULL });
  GVariantIter iter;
  const char *key;
  GVariant *value;

  add_rows (table, labels, G_N_ELEMENTS (labels), statistics);
  add_rows (table, chunk_labels, G_N_ELEMENTS (chunk_labels), statistics);
  g_variant_iter_init (&iter, statistics);
  while (g_variant_iter_loop (&iter, "{&sv}", &key, &value))
    if (!is_known (key))
      add_row (table, key, key, value);
  llmctl_table_print (table);
}

void
llmctl_counters_print_chunks (GVariant *statistics)
{
  LlmctlTable *table = llmctl_table_new (
      (const char *const[]) { _("Memory of contexts, since the service started"), "", NULL });

  add_rows (table, chunk_labels, G_N_ELEMENTS (chunk_labels), statistics);
  llmctl_table_print (table);
}
