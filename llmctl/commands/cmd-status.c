/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl status: the service, its model and its memory in a few lines. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/llmctl.h"

#include <glib/gi18n.h>
#include <stdint.h>
#include <string.h>

#include "llmctl/top/llmctl-counters.h"
#include "llmctl/output/llmctl-json.h"
#include "llmctl/output/llmctl-output.h"
#include "llmctl/bus/llmctl-service.h"

typedef struct
{
  GVariant *service;
  GVariant *memory;
  GVariant *statistics;
  GVariant *model;   /* (nullable) */
} Status;

static void
status_clear (Status *self)
{
  g_clear_pointer (&self->service, g_variant_unref);
  g_clear_pointer (&self->memory, g_variant_unref);
  g_clear_pointer (&self->statistics, g_variant_unref);
  g_clear_pointer (&self->model, g_variant_unref);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Status, status_clear)

static void
print_size (const char *label,
            guint64     bytes)
{
  g_autofree char *size = llmctl_format_bytes (bytes);

  llmctl_output_printf (LLMCTL_STYLE_PLAIN, "  %s", label);
  for (guint column = llmctl_output_get_width (label); column < 14; column++)
    llmctl_output_text (LLMCTL_STYLE_PLAIN, " ");
  llmctl_output_printf (LLMCTL_STYLE_PLAIN, " %s\n", size);
}

static uintmax_t
count_chunks (const Status *self,
              const char   *key)
{
  return llmctl_dict_get_number (self->statistics, key);
}

static void
print_for_people (const Status *self)
{
  const char *availability = llmctl_dict_get_string (self->service, "Availability");
  const char *reason = llmctl_dict_get_string (self->service, "AvailabilityReason");
  const char *pressure = llmctl_dict_get_string (self->memory, "Pressure");
  guint64 budget = llmctl_dict_get_number (self->memory, "Budget");

  llmctl_output_text (LLMCTL_STYLE_BOLD, _("Service: "));
  llmctl_output_text (g_str_equal (availability, "ready")    ? LLMCTL_STYLE_GOOD
                      : g_str_equal (availability, "failed") ? LLMCTL_STYLE_BAD
                                                             : LLMCTL_STYLE_WARNING,
                      availability);
  llmctl_output_text (LLMCTL_STYLE_PLAIN, "\n");
  if (*reason != '\0')
    llmctl_output_printf (LLMCTL_STYLE_PLAIN, "  %s\n", reason);
  if (llmctl_get_bus_type () == G_BUS_TYPE_SYSTEM)
    llmctl_output_printf (LLMCTL_STYLE_PLAIN, _("  version %s, on the system bus\n"),
                          llmctl_dict_get_string (self->service, "Version"));
  else
    llmctl_output_printf (LLMCTL_STYLE_PLAIN, _("  version %s, on the session bus\n"),
                          llmctl_dict_get_string (self->service, "Version"));

  llmctl_output_text (LLMCTL_STYLE_BOLD, _("Model: "));
  if (self->model != NULL)
    llmctl_output_printf (LLMCTL_STYLE_PLAIN, "%s (%s)\n",
                          llmctl_dict_get_string (self->model, "Title"),
                          llmctl_dict_get_string (self->model, "Id"));
  else
    llmctl_output_printf (LLMCTL_STYLE_PLAIN, "%s\n", _("none"));

  llmctl_output_text (LLMCTL_STYLE_BOLD, _("Memory: "));
  llmctl_output_printf (LLMCTL_STYLE_PLAIN, _("pressure %s\n"), pressure);
  print_size (_("held"), llmctl_dict_get_number (self->memory, "Resident"));
  print_size (_("weights"), llmctl_dict_get_number (self->memory, "Weights"));
  print_size (_("contexts"), llmctl_dict_get_number (self->memory, "KvResident") +
                                 llmctl_dict_get_number (self->memory, "KvCompressed"));
  print_size (_("on storage"), llmctl_dict_get_number (self->memory, "KvSwapped"));
  if (budget > 0)
    print_size (_("budget"), budget);
  llmctl_output_printf (LLMCTL_STYLE_PLAIN,
                        /* Translators: parts of the memory of contexts, since the start */
                        _("  chunks: %ju read back, %ju computed again, %ju evicted, "
                          "%ju faulted\n"),
                        count_chunks (self, "kv-restored-chunks"),
                        count_chunks (self, "kv-recomputed-chunks"),
                        count_chunks (self, "kv-evicted-chunks"),
                        count_chunks (self, "kv-faulted-chunks"));
}

static void
print_json (const Status *self)
{
  const char *bus = llmctl_get_bus_type () == G_BUS_TYPE_SYSTEM ? "system" : "session";
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  g_variant_builder_add (&builder, "{sv}", "bus", g_variant_new_string (bus));
  g_variant_builder_add (&builder, "{sv}", "running",
                         g_variant_new_boolean (self->service != NULL));
  if (self->service != NULL)
    g_variant_builder_add (&builder, "{sv}", "service", llmctl_json_rename_keys (self->service));
  if (self->memory != NULL)
    g_variant_builder_add (&builder, "{sv}", "memory", llmctl_json_rename_keys (self->memory));
  if (self->statistics != NULL)
    g_variant_builder_add (&builder, "{sv}", "statistics", self->statistics);
  if (self->model != NULL)
    g_variant_builder_add (&builder, "{sv}", "model", llmctl_json_rename_keys (self->model));

  llmctl_output_json (g_variant_builder_end (&builder));
}

static gboolean
read_status (Status           *self,
             GDBusConnection  *bus,
             GError          **error)
{
  const char *model_path;

  self->service = llmctl_service_get_properties (bus, NULL, LLMCTL_SERVICE_INTERFACE, error);
  if (self->service == NULL)
    return FALSE;
  self->memory = llmctl_service_get_properties (bus, NULL, LLMCTL_MEMORY_INTERFACE, error);
  if (self->memory == NULL)
    return FALSE;
  self->statistics = llmctl_counters_read (bus, error);
  if (self->statistics == NULL)
    return FALSE;

  /* The model may be removed in this moment; the rest is worth showing. */
  model_path = llmctl_dict_get_string (self->service, "ActiveModel");
  if (*model_path != '\0' && strcmp (model_path, "/") != 0)
    self->model = llmctl_service_get_properties (bus, model_path, LLMCTL_MODEL_INTERFACE, NULL);
  return TRUE;
}

static LlmctlExit
run (int    argc,
     char **argv)
{
  LlmctlExit exit_status = llmctl_check_arguments (argv, 0);
  g_autoptr(GDBusConnection) bus = NULL;
  g_auto(Status) status = { NULL };
  g_autoptr(GError) error = NULL;

  if (exit_status != LLMCTL_EXIT_OK)
    return exit_status;
  llmctl_globals.must_not_start = TRUE;
  bus = llmctl_connect (&error);
  if (bus == NULL || (llmctl_is_running () && !read_status (&status, bus, &error)))
    return llmctl_fail (error);

  if (llmctl_globals.is_json)
    print_json (&status);
  else if (status.service != NULL)
    print_for_people (&status);
  else if (llmctl_get_bus_type () == G_BUS_TYPE_SYSTEM)
    llmctl_output_printf (LLMCTL_STYLE_PLAIN, "%s\n",
                          _("Service: not running; the first call on the system bus starts it"));
  else
    llmctl_output_printf (LLMCTL_STYLE_PLAIN, "%s\n",
                          _("Service: not running; the first call on the session bus starts it"));
  return status.service != NULL ? LLMCTL_EXIT_OK : LLMCTL_EXIT_NOT_AVAILABLE;
}

const LlmctlCommand llmctl_status_command = {
  .name = "status",
  .summary = N_("Show the service, its model and its memory"),
  .description = N_("Does not start the service, and ends with 4 when it does not run.\n"
                    "--json: one object: bus, running, and when it runs service, memory and model "
                    "with the properties of their interfaces, and statistics as “stats” has them."),
  .run = run,
};
