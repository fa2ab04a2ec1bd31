/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Reads the state of memory on this machine. Sources (llm-pressure-source.h) only say when to look;
 * the policy (llm-memory-policy.h) decides. The reader belongs to the main thread; it reads small
 * kernel files, below a root folder that tests replace.
 */

#pragma once

#include "memory/llm-memory-groups.h"
#include "memory/llm-pressure.h"

G_BEGIN_DECLS

/* Fractions of time, 0 to 1, in which some or all tasks stalled on memory, over the last second or
 * so. */
typedef struct
{
  double some;
  double full;
} LlmStallShare;

typedef struct
{
  gint64 time_us;           /* of llm_clock_now_us() */
  guint64 total;            /* bytes of the machine, 0 when unknown */
  guint64 available;        /* for new work, reclaimable file pages included */
  guint64 swap_free;        /* bytes, 0 also without any swap */
  LlmGroupUsage group;      /* the tightest limit on us */
  LlmStallShare machine;    /* stalls of all tasks */
  LlmStallShare own;        /* of our control group; zeros where the kernel does not say */
  guint64 stalled_us;       /* of the machine, some, since it started */
  LlmPressure hint;         /* of the desktop or a manager */
} LlmMemoryReading;

typedef struct _LlmMemoryReader LlmMemoryReader;

/* @root: (nullable): NULL or "" for the real one. */
LlmMemoryReader *llm_memory_reader_new      (const char        *root);
void             llm_memory_reader_free     (LlmMemoryReader   *self);
LlmMemoryGroups *llm_memory_reader_get_groups (LlmMemoryReader *self);

/* Sets the hint of a desktop or manager: it counts for the next seconds. */
void             llm_memory_reader_set_hint (LlmMemoryReader   *self,
                                             LlmPressure        hint);
/* Unreadable figures are 0, as on a machine without them. */
void             llm_memory_reader_read     (LlmMemoryReader   *self,
                                             LlmMemoryReading  *reading);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmMemoryReader, llm_memory_reader_free)

G_END_DECLS
