/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl metrics: the figures of the service for monitoring programs. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/llmctl.h"

#include <glib/gi18n.h>

#include "common/llmsvc-metrics.h"
#include "llmctl/top/llmctl-counters.h"
#include "llmctl/output/llmctl-json.h"
#include "llmctl/output/llmctl-output.h"
#include "llmctl/bus/llmctl-service.h"

static void
print_json (GVariant *service,
            GVariant *memory,
            GVariant *statistics)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  g_variant_builder_add (&builder, "{sv}", "service", llmctl_json_rename_keys (service));
  g_variant_builder_add (&builder, "{sv}", "memory", llmctl_json_rename_keys (memory));
  g_variant_builder_add (&builder, "{sv}", "statistics", statistics);
  llmctl_output_json (g_variant_builder_end (&builder));
}

static LlmctlExit
run (int    argc,
     char **argv)
{
  LlmctlExit status = llmctl_check_arguments (argv, 0);
  g_autoptr(GDBusConnection) bus = NULL;
  g_autoptr(GVariant) service = NULL;
  g_autoptr(GVariant) memory = NULL;
  g_autoptr(GVariant) statistics = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *text = NULL;

  if (status != LLMCTL_EXIT_OK)
    return status;
  bus = llmctl_service_connect_running (&error);
  if (bus != NULL)
    service = llmctl_service_get_properties (bus, NULL, LLMCTL_SERVICE_INTERFACE, &error);
  if (service != NULL)
    memory = llmctl_service_get_properties (bus, NULL, LLMCTL_MEMORY_INTERFACE, &error);
  if (memory != NULL)
    statistics = llmctl_counters_read (bus, &error);
  if (statistics == NULL)
    return llmctl_fail (error);

  if (llmctl_globals.is_json)
    {
      print_json (service, memory, statistics);
      return LLMCTL_EXIT_OK;
    }
  text = llmsvc_metrics_format (service, memory, statistics);
  llmctl_output_data (text);
  return LLMCTL_EXIT_OK;
}

const LlmctlCommand llmctl_metrics_command = {
  .name = "metrics",
  .summary = N_("Print the figures of the service for monitoring"),
  .description = N_("OpenMetrics text, as Prometheus and others read it: counters since the "
                    "service "
                    "started, which this does not do, and memory. Without names of applications.\n"
                    "--json: one object: service and memory with the properties of their "
                    "interfaces, and statistics as “stats” has them."),
  .run = run,
};
