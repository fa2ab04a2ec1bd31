/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl stats: the counters of the service. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/llmctl.h"

#include <glib/gi18n.h>

#include "llmctl/top/llmctl-counters.h"
#include "llmctl/output/llmctl-output.h"
#include "llmctl/bus/llmctl-service.h"

static LlmctlExit
run (int    argc,
     char **argv)
{
  LlmctlExit status = llmctl_check_arguments (argv, 0);
  g_autoptr(GDBusConnection) bus = NULL;
  g_autoptr(GVariant) statistics = NULL;
  g_autoptr(GError) error = NULL;

  if (status != LLMCTL_EXIT_OK)
    return status;
  bus = llmctl_service_connect_running (&error);
  if (bus != NULL)
    statistics = llmctl_counters_read (bus, &error);
  if (statistics == NULL)
    return llmctl_fail (error);

  if (llmctl_globals.is_json)
    llmctl_output_json (statistics);
  else
    llmctl_counters_print (statistics);
  return LLMCTL_EXIT_OK;
}

const LlmctlCommand llmctl_stats_command = {
  .name = "stats",
  .summary = N_("Show the counters of the service"),
  .description = N_("Counted since the service started, which this does not do.\n"
                    "--json: one object with the numbers of GetStatistics, by their names there."),
  .run = run,
};
