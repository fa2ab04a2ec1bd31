/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "base/llm-clock.h"

static gint64 test_now_us = -1;

gint64
llm_clock_now_us (void)
{
  gint64 fixed = __atomic_load_n (&test_now_us, __ATOMIC_RELAXED);

  return fixed >= 0 ? fixed : g_get_monotonic_time ();
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
