/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench.h"

#include <signal.h>
#include <string.h>

#define WAIT_STEP_US 2000
#define MAX_STEPS 5000

/* Gone, or dead and not yet taken note of: whose child it is may take its time. */
static gboolean
has_ended (guint pid)
{
  g_autofree char *path = g_strdup_printf ("/proc/%u/stat", pid);
  g_autofree char *text = NULL;
  const char *state;

  if (!g_file_get_contents (path, &text, NULL, NULL))
    return TRUE;
  /* "PID (name) STATE …"; a name may hold anything. */
  state = strrchr (text, ')');
  return state == NULL || strncmp (state, ") Z", 3) == 0;
}

void
bench_stop_service (guint pid)
{
  if (pid <= 1)
    return;
  kill ((pid_t) pid, SIGTERM);
  for (guint i = 0; i < MAX_STEPS && !has_ended (pid); i++)
    g_usleep (WAIT_STEP_US);
}
