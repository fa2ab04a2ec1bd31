/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench.h"

#include <signal.h>

#define WAIT_STEP_US 10000
#define MAX_STEPS 500

void
bench_stop_service (guint pid)
{
  if (pid <= 1)
    return;
  kill ((pid_t) pid, SIGTERM);
  for (guint i = 0; i < MAX_STEPS && kill ((pid_t) pid, 0) == 0; i++)
    g_usleep (WAIT_STEP_US);
}
