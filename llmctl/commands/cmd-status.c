/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl status, memory, stats and metrics: what the service is, holds and has counted. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include <glib/gi18n.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "common/llmsvc-metrics.h"
#include "llmctl/bus/llmctl-place.h"
#include "llmctl/bus/llmctl-service.h"
#include "llmctl/output/llmctl-counters.h"
#include "llmctl/output/llmctl-json.h"
#include "llmctl/output/llmctl-words.h"

#define STATUS_COLUMNS 15   /* of a label */
#define MEMORY_COLUMNS 34   /* of a label and its size */
#define BAR_COLUMNS    30

typedef struct
{
  GVariant *service;     /* (nullable): NULL when it does not run */
  GVariant *memory;
  GVariant *statistics;
  GVariant *model;       /* (nullable) */
} Figures;

static void
figures_clear (Figures *self)
{
  g_clear_pointer (&self->service, g_variant_unref);
  g_clear_pointer (&self->memory, g_variant_unref);
  g_clear_pointer (&self->statistics, g_variant_unref);
  g_clear_pointer (&self->model, g_variant_unref);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Figures, figures_clear)

static gboolean
read_figures (Figures  *self,
              GError  **error)
{
  const char *path;

  self->service = llmctl_service_get_properties (NULL, LLMCTL_SERVICE_INTERFACE, error);
  if (self->service != NULL)
    self->memory = llmctl_service_get_properties (NULL, LLMCTL_MEMORY_INTERFACE, error);
  if (self->memory != NULL)
    self->statistics = llmctl_call (NULL, LLMCTL_SERVICE_INTERFACE, "GetStatistics",
                                    g_variant_new ("(a{sv})", NULL), "a{sv}", error);
  if (self->statistics == NULL)
    return FALSE;

  /* The model may be removed in this moment; the rest is worth showing. */
  path = llmctl_dict_get_string (self->service, "ActiveModel");
  if (*path != '\0' && strcmp (path, "/") != 0)
    self->model = llmctl_service_get_properties (path, LLMCTL_MODEL_INTERFACE, NULL);
  return TRUE;
}

/* What “status” tells programs, and for a NULL @bus “metrics”. */
static void
print_json (const Figures *self,
            const char    *bus)
{
  GVariant *is_running = bus != NULL ? g_variant_new_boolean (self->service != NULL) : NULL;

  llmctl_output_json (llmctl_json_object (
      "bus:s", bus, "running:*", is_running,
      "service:*", llmctl_json_rename_keys (self->service),
      "memory:*", llmctl_json_rename_keys (self->memory), "statistics:*", self->statistics,
      "model:*", bus != NULL ? llmctl_json_rename_keys (self->model) : NULL, NULL));
}

/* Only when there is something to tell. */
static void
print_streaming (GVariant *statistics)
{
  guint64 bytes = llmctl_dict_get_number (statistics, "streaming-bytes");
  guint64 uses = llmctl_dict_get_number (statistics, "expert-uses");
  g_autofree char *size = llmctl_format_bytes (bytes);

  if (bytes > 0)
    llmctl_output_printf (LLMCTL_STYLE_WARNING,
                          _("  There is no room for all weights: each token reads %s of them from the "
                            "disk\n"), size);
  if (uses > 0)
    llmctl_output_printf (LLMCTL_STYLE_PLAIN,
                          /* Translators: experts of a mixture that rows chose */
                          _("  experts: %.0f %% of those that were needed were in memory\n"),
                          100 * (double) llmctl_dict_get_number (statistics, "expert-hits")
                            / (double) uses);
}

/* --- status --- */

static void
print_status (const Figures *self,
              gboolean       is_system)
{
  /* a size is the sum of its keys */
  static const struct
  {
    const char *label;
    const char *keys[2];
    gboolean may_be_missing;
  } sizes[] = {
    { N_("held"), { "Resident" }, FALSE },
    { N_("weights"), { "Weights" }, FALSE },
    { N_("contexts"), { "KvResident", "KvCompressed" }, FALSE },
    { N_("on storage"), { "KvSwapped" }, FALSE },
    { N_("budget"), { "Budget" }, TRUE },
  };
  const char *availability = llmctl_dict_get_string (self->service, "Availability");
  const char *reason = llmctl_dict_get_string (self->service, "AvailabilityReason");
  GVariant *counted = self->statistics;

  llmctl_output_text (LLMCTL_STYLE_BOLD, _("Service: "));
  llmctl_output_printf (llmctl_service_get_style (availability, "ready", "failed"), "%s\n",
                        llmctl_words_say (availability));
  if (*reason != '\0')
    llmctl_output_printf (LLMCTL_STYLE_PLAIN, "  %s\n", reason);
  llmctl_output_printf (LLMCTL_STYLE_PLAIN,
                        is_system ? _("  version %s, on the system bus\n")
                                  : _("  version %s, on the session bus\n"),
                        llmctl_dict_get_string (self->service, "Version"));

  llmctl_output_text (LLMCTL_STYLE_BOLD, _("Model: "));
  if (self->model != NULL)
    llmctl_output_printf (LLMCTL_STYLE_PLAIN, "%s (%s)\n",
                          llmctl_dict_get_string (self->model, "Title"),
                          llmctl_dict_get_string (self->model, "Id"));
  else
    llmctl_output_printf (LLMCTL_STYLE_PLAIN, "%s\n", _("none"));

  llmctl_output_text (LLMCTL_STYLE_BOLD, _("Memory: "));
  llmctl_output_printf (LLMCTL_STYLE_PLAIN, _("pressure %s\n"),
                        llmctl_words_say (llmctl_dict_get_string (self->memory, "Pressure")));
  for (gsize i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      guint64 bytes = llmctl_dict_get_number (self->memory, sizes[i].keys[0]);
      g_autofree char *size = NULL;

      if (sizes[i].keys[1] != NULL)
        bytes += llmctl_dict_get_number (self->memory, sizes[i].keys[1]);
      size = llmctl_format_bytes (bytes);
      if (bytes == 0 && sizes[i].may_be_missing)
        continue;
      llmctl_output_text (LLMCTL_STYLE_PLAIN, "  ");
      llmctl_output_column (LLMCTL_STYLE_PLAIN, STATUS_COLUMNS, _(sizes[i].label));
      llmctl_output_printf (LLMCTL_STYLE_PLAIN, "%s\n", size);
    }
  print_streaming (counted);
  llmctl_output_printf (LLMCTL_STYLE_PLAIN,
                        /* Translators: parts of the memory of contexts, since the start */
                        _("  chunks: %ju read back, %ju computed again, %ju evicted, "
                          "%ju faulted\n"),
                        (uintmax_t) llmctl_dict_get_number (counted, "kv-restored-chunks"),
                        (uintmax_t) llmctl_dict_get_number (counted, "kv-recomputed-chunks"),
                        (uintmax_t) llmctl_dict_get_number (counted, "kv-evicted-chunks"),
                        (uintmax_t) llmctl_dict_get_number (counted, "kv-faulted-chunks"));
}

static LlmctlExit
run_status (int       argc,
            char    **argv,
            GError  **error)
{
  g_auto(Figures) self = { NULL };
  gboolean is_system;

  if (llmctl_connect (error) == NULL || (llmctl_globals.is_running && !read_figures (&self, error)))
    return LLMCTL_EXIT_FAILED;

  is_system = llmctl_globals.found_bus_type == G_BUS_TYPE_SYSTEM;
  if (llmctl_globals.is_json)
    print_json (&self, is_system ? "system" : "session");
  else if (self.service != NULL)
    print_status (&self, is_system);
  else if (llmctl_place_is_masked (llmctl_connect (NULL)))
    llmctl_output_printf (LLMCTL_STYLE_PLAIN, "%s\n",
                          _("Service: masked, so nothing starts it; “llmctl doctor” says more"));
  else
    llmctl_output_printf (
        LLMCTL_STYLE_PLAIN, "%s\n",
        is_system ? _("Service: not running; the first call on the system bus starts it")
                  : _("Service: not running; the first call on the session bus starts it"));
  return self.service != NULL ? LLMCTL_EXIT_OK : LLMCTL_EXIT_NOT_AVAILABLE;
}

const LlmctlCommand llmctl_status_command = {
  .name = "status",
  .summary = N_("Show the service, its model and its memory"),
  .description = N_("Does not start the service, and ends with 4 when it does not run.\n"
                    "--json: one object: bus, running, and when it runs service, memory and model "
                    "with the properties of their interfaces, and statistics as “stats” has them."),
  .must_not_start = TRUE,
  .run = run_status,
};

/* --- memory --- */

/* Parts of the same whole make bars that can be compared. @whole: 0 for no bar. */
static void
print_size (const char  *label,
            guint64      bytes,
            guint64      whole,
            LlmctlStyle  style)
{
  g_autofree char *size = llmctl_format_bytes (bytes);
  double share = whole > 0 ? (double) bytes / (double) whole : 0;
  guint filled = (guint) (MIN (share, 1) * BAR_COLUMNS + 0.5);

  llmctl_output_text (LLMCTL_STYLE_PLAIN, "  ");
  llmctl_output_column (LLMCTL_STYLE_PLAIN, MEMORY_COLUMNS - llmctl_output_get_width (size), label);
  llmctl_output_text (LLMCTL_STYLE_PLAIN, size);
  if (whole > 0 && llmctl_output_is_terminal (STDOUT_FILENO))
    {
      llmctl_output_text (LLMCTL_STYLE_PLAIN, "  ");
      for (guint i = 0; i < BAR_COLUMNS; i++)
        llmctl_output_text (i < filled ? style : LLMCTL_STYLE_DIM, i < filled ? "█" : "░");
      llmctl_output_printf (LLMCTL_STYLE_PLAIN, " %3.0f %%", share * 100);
    }
  llmctl_output_text (LLMCTL_STYLE_PLAIN, "\n");
}

static void
print_reclaimable (GVariant *memory,
                   guint64   whole)
{
  /* what the interface lists today, in this order; others come behind */
  static const char *const known[] = { "free", "cheap", "costly", NULL };
  g_autoptr(GVariant) held = g_variant_lookup_value (memory, "Reclaimable",
                                                     G_VARIANT_TYPE ("a{st}"));
  GVariantIter iter;
  const char *cost;
  guint64 bytes;

  if (held == NULL || g_variant_n_children (held) == 0)
    return;

  llmctl_output_printf (LLMCTL_STYLE_BOLD, "%s\n", _("Could be given back"));
  for (gsize i = 0; known[i] != NULL; i++)
    if (g_variant_lookup (held, known[i], "t", &bytes))
      print_size (llmctl_words_say_cost (known[i]), bytes, whole, LLMCTL_STYLE_PLAIN);
  g_variant_iter_init (&iter, held);
  while (g_variant_iter_next (&iter, "{&st}", &cost, &bytes))
    if (!g_strv_contains (known, cost))
      print_size (cost, bytes, whole, LLMCTL_STYLE_PLAIN);
}

static void
print_memory (GVariant *memory,
              GVariant *statistics)
{
  static const char *const parts[][2] = {
    { N_("weights"), "Weights" },
    { N_("contexts"), "KvResident" },
    { N_("compressed contexts"), "KvCompressed" },
  };
  const char *pressure = llmctl_dict_get_string (memory, "Pressure");
  guint64 budget = llmctl_dict_get_number (memory, "Budget");
  guint64 held = llmctl_dict_get_number (memory, "Resident");
  guint64 sub_model = llmctl_dict_get_number (memory, "SubModel");
  guint64 limit = llmctl_dict_get_number (statistics, "group-limit-bytes");
  guint64 whole = MAX (budget, held);
  guint64 other = held;

  llmctl_output_printf (LLMCTL_STYLE_BOLD, _("Memory pressure: "));
  llmctl_output_printf (g_str_equal (pressure, "none")  ? LLMCTL_STYLE_GOOD
                        : g_str_equal (pressure, "low") ? LLMCTL_STYLE_WARNING
                                                        : LLMCTL_STYLE_BAD,
                        "%s\n", llmctl_words_say (pressure));
  print_size (_("held"), held, whole, LLMCTL_STYLE_BOLD);
  for (gsize i = 0; i < G_N_ELEMENTS (parts); i++)
    {
      guint64 bytes = llmctl_dict_get_number (memory, parts[i][1]);

      print_size (_(parts[i][0]), bytes, whole, LLMCTL_STYLE_PLAIN);
      other -= MIN (other, bytes);
    }
  print_size (_("other"), other, whole, LLMCTL_STYLE_PLAIN);
  print_size (_("contexts on storage"), llmctl_dict_get_number (memory, "KvSwapped"), 0,
              LLMCTL_STYLE_PLAIN);
  if (budget > 0)
    print_size (_("budget"), budget, 0, LLMCTL_STYLE_PLAIN);
  else
    llmctl_output_printf (LLMCTL_STYLE_DIM, "  %s\n", _("no budget: the service decides"));
  if (limit > 0)
    print_size (_("limit of its control group"), limit, 0, LLMCTL_STYLE_PLAIN);
  print_streaming (statistics);
  print_reclaimable (memory, whole);
  if (sub_model > 0 && sub_model < 100)
    llmctl_output_printf (LLMCTL_STYLE_WARNING,
                          _("Memory is short: %u %% of the model are kept, and some new calls have "
                            "less of it\n"),
                          (guint) sub_model);
}

/* --- what is asked of a service that runs --- */

static LlmctlExit
run (int       argc,
     char    **argv,
     GError  **error)
{
  gboolean is_stats = g_str_equal (argv[0], "stats");
  gboolean is_memory = g_str_equal (argv[0], "memory");
  g_auto(Figures) self = { NULL };
  g_autofree char *metrics = NULL;

  if (!read_figures (&self, error))
    return LLMCTL_EXIT_FAILED;

  if (llmctl_globals.is_json && (is_stats || is_memory))
    llmctl_output_json (is_stats ? self.statistics : llmctl_json_rename_keys (self.memory));
  else if (llmctl_globals.is_json)
    print_json (&self, NULL);
  else if (is_stats)
    llmctl_counters_print (self.statistics, FALSE);
  else if (is_memory)
    {
      print_memory (self.memory, self.statistics);
      llmctl_counters_print (self.statistics, TRUE);
    }
  else
    {
      metrics = llmsvc_metrics_format (self.service, self.memory, self.statistics);
      llmctl_output_data (metrics);
    }
  return LLMCTL_EXIT_OK;
}

const LlmctlCommand llmctl_stats_command = {
  .name = "stats",
  .is_long = TRUE,
  .summary = N_("Show the counters of the service"),
  .description = N_("Counted since the service started, which this does not do.\n"
                    "--json: one object with the numbers of GetStatistics, by their names there."),
  .must_not_start = TRUE,
  .run = run,
};

const LlmctlCommand llmctl_memory_command = {
  .name = "memory",
  .summary = N_("Show what the service holds in memory"),
  .description = N_("Does not start the service. A bar's whole is the budget, or what is held "
                    "without one.\n"
                    "--json: one object with the properties of org.llm.Service.Memory, sizes in "
                    "bytes; the counters are in “stats”."),
  .must_not_start = TRUE,
  .run = run,
};

const LlmctlCommand llmctl_metrics_command = {
  .name = "metrics",
  .summary = N_("Print the figures of the service for monitoring"),
  .description = N_("OpenMetrics text, as Prometheus and others read it: counters since the "
                    "service started, which this does not do, and memory. Without names of "
                    "applications.\n"
                    "--json: one object: service and memory with the properties of their "
                    "interfaces, and statistics as “stats” has them."),
  .must_not_start = TRUE,
  .run = run,
};
