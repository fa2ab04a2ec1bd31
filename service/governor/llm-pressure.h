/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How hard memory is pressed, as the kernel's pressure stall information says.
 * Pure functions and one small read; any thread.
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

/* Shares of time, in percent, of the last ten seconds in which some or all
 * tasks waited for memory. */
typedef struct
{
  double some_avg10;
  double full_avg10;
} LlmStall;

/* Parses the text of a PSI file; every field must be there once. */
gboolean    llm_pressure_parse     (const char     *text,
                                    LlmStall       *stall);
LlmPressure llm_pressure_judge     (const LlmStall *stall);
/* Reads ROOT/proc/pressure/memory; NONE where the kernel has no PSI. */
LlmPressure llm_pressure_read      (const char     *root);
const char *llm_pressure_to_string (LlmPressure     pressure);
/* FALSE for a name that is not "low", "medium" or "critical". */
gboolean    llm_pressure_parse_level (const char   *name,
                                      LlmPressure  *pressure);

G_END_DECLS
