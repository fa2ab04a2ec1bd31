/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "support/llm-test-pace.h"

/* All guarded by lock. */
static GMutex lock;
static guint latency;
static guint64 speed;
static gint64 idle_us;   /* when the device has done all it was asked for */

void
llm_test_pace_set (guint   latency_us,
                   guint64 bytes_per_second)
{
  g_autoptr(GMutexLocker) locker = g_mutex_locker_new (&lock);

  latency = latency_us;
  speed = bytes_per_second;
  idle_us = 0;
}

void
llm_test_pace_wait (gsize length)
{
  gint64 now_us = g_get_monotonic_time (), end_us = 0;

  g_mutex_lock (&lock);
  if (speed > 0)
    end_us = idle_us = MAX (now_us + latency, idle_us)
                       + (gint64) (length * G_USEC_PER_SEC / speed);
  g_mutex_unlock (&lock);
  if (end_us > now_us)
    g_usleep ((gulong) (end_us - now_us));
}
