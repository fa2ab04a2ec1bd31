/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl: the service for people and shells, over the bus. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "common/llmsvc-command-line.h"
#include "llmctl/llmctl-command.h"
#include "llmctl/output/llmctl-i18n.h"
#include "llmctl/output/llmctl-output.h"

const LlmctlCommand *const llmctl_commands[] = {
  &llmctl_ask_command,
  &llmctl_chat_command,
  &llmctl_context_command,
  &llmctl_model_command,
  &llmctl_status_command,
  &llmctl_memory_command,
  &llmctl_trim_command,
  &llmctl_stats_command,
  &llmctl_metrics_command,
  &llmctl_apps_command,
  &llmctl_quota_command,
  &llmctl_top_command,
  &llmctl_monitor_command,
  &llmctl_doctor_command,
  &llmctl_tree_command,
  &llmctl_introspect_command,
  &llmctl_call_command,
  &llmctl_get_command,
  &llmctl_set_command,
  &llmctl_complete_command,
  &llmctl_help_command,
  NULL
};

/* A socket to the bus must not get the number of a standard stream that is closed;
 * what is opened instead can't be read or written either. */
static void
hold_standard_streams (void)
{
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    if (fcntl (fd, F_GETFD) < 0 && errno == EBADF &&
        open ("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
      _exit (LLMCTL_EXIT_FAILED);
}

int
main (int   argc,
      char *argv[])
{
  hold_standard_streams ();
  llmctl_i18n_init ();
  llmsvc_command_line_fit_prints ();
  /* Registers the names of the service's errors. */
  (void) LLMSVC_ERROR;

  return llmctl_output_finish ((int) llmctl_command_main (argc, argv));
}
