/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The only clock of the service, so that tests and simulations can feed time.
 * Any thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Monotonic time in microseconds. */
gint64 llm_clock_now_us (void);

/* Processor time of this thread, in microseconds. Tests do not stop this clock. */
gint64 llm_clock_thread_us (void);

/* Wall-clock time in seconds since 1970, for what is stored. */
gint64 llm_clock_wall_s (void);

/* Tests only: time stands still at @now_us until set again; -1 gives the real clock back. */
void   llm_clock_set_for_test (gint64 now_us);

/* Tests only: a stopped clock then goes on by @step_us with each look at it: its time is
 * what was done, however fast the machine is. 0 for none. */
void   llm_clock_set_step_for_test (gint64 step_us);

G_END_DECLS
