/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the subcommands of llmctl share: how they end, which bus they speak to
 * and how they say that something is wrong. One process, one thread.
 */

#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

/* Scripts rely on these numbers. */
typedef enum
{
  LLMCTL_EXIT_OK = 0,
  LLMCTL_EXIT_FAILED = 1,
  LLMCTL_EXIT_USAGE = 2,
  LLMCTL_EXIT_TIME_LIMIT = 3,
  LLMCTL_EXIT_NOT_AVAILABLE = 4,
  LLMCTL_EXIT_NOT_AUTHORIZED = 5,
  LLMCTL_EXIT_OVERLOADED = 6,
  LLMCTL_EXIT_INTERRUPTED = 130,
} LlmctlExit;

typedef enum
{
  LLMCTL_BUS_ANY,      /* the system bus when the service is there, else the session bus */
  LLMCTL_BUS_SYSTEM,
  LLMCTL_BUS_SESSION,
} LlmctlBus;

/* The subcommands: @argv[0] is their own name. */
LlmctlExit       llmctl_cmd_ask       (int                    argc,
                                       char                  *argv[]);
LlmctlExit       llmctl_cmd_status    (int                    argc,
                                       char                  *argv[]);

/**
 * llmctl_bus_connect:
 * @which: the bus asked for
 * @found: (out): the bus it is: of %LLMCTL_BUS_SYSTEM and %LLMCTL_BUS_SESSION
 * @is_running: (out) (nullable): whether the service runs; it can be started if not
 * @error: return location for an error
 *
 * Does not start the service. Blocks for as long as the bus takes to answer.
 *
 * Returns: (transfer full): a bus that has the service, or %NULL with @error set
 */
GDBusConnection *llmctl_bus_connect   (LlmctlBus              which,
                                       LlmctlBus             *found,
                                       gboolean              *is_running,
                                       GError               **error) G_GNUC_WARN_UNUSED_RESULT;

/* Parses the arguments of a subcommand and takes them out of @argv. FALSE when
 * it is to end at once, with @status: after --help or after a complaint. */
gboolean         llmctl_parse         (int                   *argc,
                                       char                ***argv,
                                       const char            *parameters,
                                       const char            *summary,
                                       const GOptionEntry    *entries,
                                       LlmctlExit            *status) G_GNUC_WARN_UNUSED_RESULT;

/* Writes "llmctl: …" to stderr. */
void             llmctl_complain      (const char            *format,
                                       ...) G_GNUC_PRINTF (1, 2);
/* Says what is wrong and how the program is to end for it. */
LlmctlExit       llmctl_fail          (GError                *error);

G_END_DECLS
