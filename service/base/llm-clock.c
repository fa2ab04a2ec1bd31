/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "base/llm-clock.h"

#include <time.h>

static gint64 test_now_us = -1;
static gint64 test_step_us;

gint64
llm_clock_now_us (void)
{
  gint64 step_us = __atomic_load_n (&test_step_us, __ATOMIC_RELAXED);
  gint64 now_us = __atomic_load_n (&test_now_us, __ATOMIC_RELAXED);

  while (step_us > 0 && now_us >= 0
         && !__atomic_compare_exchange_n (&test_now_us, &now_us, now_us + step_us, TRUE,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    ;
  return now_us >= 0 ? now_us : g_get_monotonic_time ();
}

gint64
llm_clock_thread_us (void)
{
  struct timespec used = { 0 };

  clock_gettime (CLOCK_THREAD_CPUTIME_ID, &used);
  return (gint64) used.tv_sec * G_USEC_PER_SEC + used.tv_nsec / 1000;
}

gint64
llm_clock_wall_s (void)
{
  return g_get_real_time () / G_USEC_PER_SEC;
}

void
llm_clock_set_for_test (gint64 now_us)
{
  __atomic_store_n (&test_now_us, now_us, __ATOMIC_RELAXED);
}

void
llm_clock_set_step_for_test (gint64 step_us)
{
  __atomic_store_n (&test_step_us, step_us, __ATOMIC_RELAXED);
}
