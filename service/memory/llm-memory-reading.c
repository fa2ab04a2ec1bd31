/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "memory/llm-memory-reading.h"

#include "base/llm-clock.h"
#include "base/llm-sysinfo.h"

/* Window of stall fractions: in a shorter one, a single page read would count as half of it. */
#define WINDOW_US 900000
/* A shorter window is no measurement. */
#define MIN_WINDOW_US 80000
/* Earlier readings to keep: a window's, at ten a second. */
#define N_EARLIER 16
/* How long a hint of the desktop or a manager counts: they repeat it while it lasts. */
#define HINT_US (3 * G_USEC_PER_SEC)

/* How long tasks had stalled, at a time. */
typedef struct
{
  gint64 time_us;
  guint64 some_us;
  guint64 full_us;
} Stalled;

typedef struct
{
  char *path;           /* (nullable) (owned) */
  Stalled earlier[N_EARLIER];
  guint n;              /* of them, all but the last N_EARLIER overwritten */
} Stalls;

struct _LlmMemoryReader
{
  char *root;           /* (nullable) (owned) */
  LlmMemoryGroups *groups;
  Stalls machine;
  Stalls own;
  LlmPressure hint;
  gint64 hint_us;
};

LlmMemoryReader *
llm_memory_reader_new (const char *root)
{
  LlmMemoryReader *self = g_new0 (LlmMemoryReader, 1);

  self->root = g_strdup (root);
  self->groups = llm_memory_groups_new (root);
  self->machine.path = g_build_filename (root != NULL && *root != '\0' ? root : "/", "proc",
                                         "pressure", "memory", NULL);
  /* Without a group of version 2, the machine's stalls are all that is known. */
  if (llm_memory_groups_get_v2 (self->groups) != NULL)
    self->own.path = g_build_filename (llm_memory_groups_get_v2 (self->groups), "memory.pressure",
                                       NULL);
  return self;
}

void
llm_memory_reader_free (LlmMemoryReader *self)
{
  llm_memory_groups_free (self->groups);
  g_free (self->machine.path);
  g_free (self->own.path);
  g_free (self->root);
  g_free (self);
}

LlmMemoryGroups *
llm_memory_reader_get_groups (LlmMemoryReader *self)
{
  return self->groups;
}

void
llm_memory_reader_set_hint (LlmMemoryReader *self,
                            LlmPressure      hint)
{
  gint64 now = llm_clock_now_us ();

  if (now - self->hint_us < HINT_US)
    hint = MAX (hint, self->hint);
  self->hint = hint;
  self->hint_us = now;
}

static double
get_share (guint64 later,
           guint64 earlier,
           gint64  window_us)
{
  return later > earlier ? MIN ((double) (later - earlier) / (double) window_us, 1) : 0;
}

/* Compares with the latest earlier reading that is a window away, or the oldest. */
static LlmStallShare
measure (Stalls  *self,
         Stalled  now)
{
  guint n = MIN (self->n, N_EARLIER);
  LlmStallShare share = { 0 };

  for (guint i = 1; i <= n; i++)
    {
      const Stalled *earlier = &self->earlier[(self->n - i) % N_EARLIER];
      gint64 window_us = now.time_us - earlier->time_us;

      if (window_us < MIN_WINDOW_US || (window_us < WINDOW_US && i < n))
        continue;
      share.some = get_share (now.some_us, earlier->some_us, window_us);
      share.full = get_share (now.full_us, earlier->full_us, window_us);
      break;
    }
  self->earlier[self->n++ % N_EARLIER] = now;
  return share;
}

static LlmStallShare
read_stalls (Stalls  *self,
             gint64   now_us,
             guint64 *stalled_us)
{
  LlmStall stall = { 0 };

  if (self->path == NULL || !llm_pressure_read_stall (self->path, &stall))
    return (LlmStallShare) { 0 };
  if (stalled_us != NULL)
    *stalled_us = stall.some_us;
  return measure (self, (Stalled) { now_us, stall.some_us, stall.full_us });
}

void
llm_memory_reader_read (LlmMemoryReader  *self,
                        LlmMemoryReading *reading)
{
  LlmMeminfo info;

  *reading = (LlmMemoryReading) { .time_us = llm_clock_now_us () };
  if (llm_sysinfo_read_meminfo (self->root, &info, NULL))
    {
      reading->total = info.total;
      reading->available = info.available;
      reading->swap_free = info.swap_free;
    }
  llm_memory_groups_read (self->groups, &reading->group);
  reading->machine = read_stalls (&self->machine, reading->time_us, &reading->stalled_us);
  reading->own = read_stalls (&self->own, reading->time_us, NULL);
  if (self->hint != LLM_PRESSURE_NONE && reading->time_us - self->hint_us < HINT_US)
    reading->hint = self->hint;
}
