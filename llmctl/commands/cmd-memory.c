/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl memory: what the service holds, and what it could give back. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/llmctl.h"

#include <glib/gi18n.h>
#include <unistd.h>

#include "llmctl/top/llmctl-counters.h"
#include "llmctl/output/llmctl-json.h"
#include "llmctl/output/llmctl-output.h"
#include "llmctl/bus/llmctl-service.h"

#define LABEL_COLUMNS 22
#define SIZE_COLUMNS  12
#define BAR_COLUMNS   30

/* printf() counts bytes, and people columns. */
static void
print_spaces (guint from,
              guint to)
{
  for (guint column = from; column < to; column++)
    llmctl_output_text (LLMCTL_STYLE_PLAIN, " ");
}

/* Parts of the same whole make bars that can be compared. */
static void
print_bar (guint64     bytes,
           guint64     whole,
           LlmctlStyle style)
{
  double share = (double) bytes / (double) whole;
  guint filled = (guint) (MIN (share, 1) * BAR_COLUMNS + 0.5);
  g_autoptr(GString) bar = g_string_new ("  ");
  g_autoptr(GString) rest = g_string_new (NULL);

  for (guint i = 0; i < BAR_COLUMNS; i++)
    g_string_append (i < filled ? bar : rest, i < filled ? "█" : "░");
  llmctl_output_text (style, bar->str);
  llmctl_output_text (LLMCTL_STYLE_DIM, rest->str);
  llmctl_output_printf (LLMCTL_STYLE_PLAIN, " %3.0f %%", share * 100);
}

/* @whole: 0 for no bar. */
static void
print_size (const char  *label,
            guint64      bytes,
            guint64      whole,
            LlmctlStyle  style)
{
  g_autofree char *size = llmctl_format_bytes (bytes);
  guint width = llmctl_output_get_width (label) + llmctl_output_get_width (size);

  llmctl_output_printf (LLMCTL_STYLE_PLAIN, "  %s", label);
  print_spaces (width, MAX (width + 1, LABEL_COLUMNS + SIZE_COLUMNS));
  llmctl_output_text (LLMCTL_STYLE_PLAIN, size);
  if (whole > 0 && isatty (STDOUT_FILENO))
    print_bar (bytes, whole, style);
  llmctl_output_text (LLMCTL_STYLE_PLAIN, "\n");
}

static LlmctlStyle
get_pressure_style (const char *pressure)
{
  if (g_str_equal (pressure, "none"))
    return LLMCTL_STYLE_GOOD;

  return g_str_equal (pressure, "low") ? LLMCTL_STYLE_WARNING : LLMCTL_STYLE_BAD;
}

/* Names for people of what the interface lists today; another one is shown as it is. */
static const char *
describe_cost (const char *cost)
{
  if (g_str_equal (cost, "free"))
    return _("at no cost");
  if (g_str_equal (cost, "cheap"))
    return _("cheaply");

  return g_str_equal (cost, "costly") ? _("at a cost") : cost;
}

static void
print_reclaimable (GVariant *memory,
                   guint64   whole)
{
  g_autoptr(GVariant) costs = g_variant_lookup_value (memory, "Reclaimable",
                                                      G_VARIANT_TYPE ("a{st}"));
  static const char *const order[] = { "free", "cheap", "costly" };
  GVariantIter iter;
  const char *cost;
  guint64 bytes;

  if (costs == NULL || g_variant_n_children (costs) == 0)
    return;

  llmctl_output_text (LLMCTL_STYLE_BOLD, _("Could be given back"));
  llmctl_output_text (LLMCTL_STYLE_PLAIN, "\n");
  for (gsize i = 0; i < G_N_ELEMENTS (order); i++)
    if (g_variant_lookup (costs, order[i], "t", &bytes))
      print_size (describe_cost (order[i]), bytes, whole, LLMCTL_STYLE_PLAIN);
  g_variant_iter_init (&iter, costs);
  while (g_variant_iter_next (&iter, "{&st}", &cost, &bytes))
    if (describe_cost (cost) == cost)
      print_size (cost, bytes, whole, LLMCTL_STYLE_PLAIN);
}

static void
print_for_people (GVariant *memory)
{
  const char *pressure = llmctl_dict_get_string (memory, "Pressure");
  guint64 budget = llmctl_dict_get_number (memory, "Budget");
  guint64 held = llmctl_dict_get_number (memory, "Resident");
  guint64 sub_model = llmctl_dict_get_number (memory, "SubModel");
  guint64 weights = llmctl_dict_get_number (memory, "Weights");
  guint64 contexts = llmctl_dict_get_number (memory, "KvResident");
  guint64 compressed = llmctl_dict_get_number (memory, "KvCompressed");
  guint64 listed = weights + contexts + compressed;
  guint64 whole = MAX (budget, held);

  llmctl_output_printf (LLMCTL_STYLE_BOLD, _("Memory pressure: "));
  llmctl_output_printf (get_pressure_style (pressure), "%s\n", pressure);
  print_size (_("held"), held, whole, LLMCTL_STYLE_BOLD);
  print_size (_("weights"), weights, whole, LLMCTL_STYLE_PLAIN);
  print_size (_("contexts"), contexts, whole, LLMCTL_STYLE_PLAIN);
  print_size (_("compressed contexts"), compressed, whole, LLMCTL_STYLE_PLAIN);
  print_size (_("other"), held > listed ? held - listed : 0, whole, LLMCTL_STYLE_PLAIN);
  print_size (_("contexts on storage"), llmctl_dict_get_number (memory, "KvSwapped"), 0,
              LLMCTL_STYLE_PLAIN);
  if (budget > 0)
    print_size (_("budget"), budget, 0, LLMCTL_STYLE_PLAIN);
  else
    llmctl_output_printf (LLMCTL_STYLE_DIM, "  %s\n", _("no budget: the service decides"));
  print_reclaimable (memory, whole);
  if (sub_model > 0 && sub_model < 100)
    llmctl_output_printf (LLMCTL_STYLE_WARNING, _("Up to %u %% of the model are used\n"),
                          (guint) sub_model);
}

static LlmctlExit
run (int    argc,
     char **argv)
{
  LlmctlExit status = llmctl_check_arguments (argv, 0);
  g_autoptr(GDBusConnection) bus = NULL;
  g_autoptr(GVariant) memory = NULL;
  g_autoptr(GVariant) statistics = NULL;
  g_autoptr(GError) error = NULL;

  if (status != LLMCTL_EXIT_OK)
    return status;
  bus = llmctl_service_connect_running (&error);
  if (bus != NULL)
    memory = llmctl_service_get_properties (bus, NULL, LLMCTL_MEMORY_INTERFACE, &error);
  if (memory != NULL && !llmctl_globals.is_json)
    statistics = llmctl_counters_read (bus, &error);
  if (error != NULL)
    return llmctl_fail (error);

  if (llmctl_globals.is_json)
    {
      llmctl_output_json (llmctl_json_rename_keys (memory));
    }
  else
    {
      print_for_people (memory);
      llmctl_counters_print_chunks (statistics);
    }
  return LLMCTL_EXIT_OK;
}

const LlmctlCommand llmctl_memory_command = {
  .name = "memory",
  .summary = N_("Show what the service holds in memory"),
  .description = N_("Does not start the service. A bar's whole is the budget, or what is held "
                    "without one.\n"
                    "--json: one object with the properties of org.llm.Service.Memory, sizes in "
                    "bytes; the counters are in “stats”."),
  .run = run,
};
