/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The level of memory pressure, from the kernel's pressure stall information. Pure functions and
 * one small read; any thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef enum
{
  LLM_PRESSURE_NONE,
  LLM_PRESSURE_LOW,
  LLM_PRESSURE_MEDIUM,
  LLM_PRESSURE_CRITICAL,
} LlmPressure;

/* Microseconds since boot in which some or all tasks stalled on memory. */
typedef struct
{
  guint64 some_us;
  guint64 full_us;
} LlmStall;

/* Parses the text of a PSI file: a line of each, which ends with the total. */
gboolean    llm_pressure_parse     (const char     *text,
                                    LlmStall       *stall);
/* The level for fractions of the last second or so, 0 to 1, in which some or all tasks stalled. */
LlmPressure llm_pressure_judge     (double          some,
                                    double          full);
/* FALSE where the kernel has no such file, or has switched it off. */
gboolean    llm_pressure_read_stall (const char    *path,
                                     LlmStall      *stall);
/* Whether an event of a trigger of @threshold_us is real, its counter having been @before_us and
 * now @after_us: kernels may send a false first event after arming. 0 is a counter that can't be
 * read. */
gboolean    llm_pressure_is_event  (guint64         before_us,
                                    guint64         after_us,
                                    guint64         threshold_us);
const char *llm_pressure_to_string (LlmPressure     pressure);
/* FALSE for a name that is not "low", "medium" or "critical". */
gboolean    llm_pressure_parse_level (const char   *name,
                                      LlmPressure  *pressure);

G_END_DECLS
