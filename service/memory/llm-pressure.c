/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "memory/llm-pressure.h"

#include <string.h>

static const char *const names[] = { "none", "low", "medium", "critical" };

/* The line "KIND avg10=0.00 avg60=0.00 avg300=0.00 total=N", with which the text begins. */
static gboolean
parse_line (const char **text,
            const char  *kind,
            guint64     *total_us)
{
  const char *end = strchr (*text, '\n');
  const char *total = strstr (*text, " total=");
  char *digits_end;

  if (end == NULL || total == NULL || total > end || !g_str_has_prefix (*text, kind))
    return FALSE;
  total += strlen (" total=");
  *total_us = g_ascii_strtoull (total, &digits_end, 10);
  *text = end + 1;
  return g_ascii_isdigit (*total) && digits_end == end;
}

gboolean
llm_pressure_parse (const char *text,
                    LlmStall   *stall)
{
  return parse_line (&text, "some ", &stall->some_us)
         && parse_line (&text, "full ", &stall->full_us) && *text == '\0';
}

/* Thresholds: users notice a twentieth of the time lost in a desktop; with a tenth of it without
 * any progress, a machine hangs again and again. */
LlmPressure
llm_pressure_judge (double some,
                    double full)
{
  if (full >= 0.10)
    return LLM_PRESSURE_CRITICAL;
  if (full >= 0.03 || some >= 0.20)
    return LLM_PRESSURE_MEDIUM;
  if (some >= 0.05)
    return LLM_PRESSURE_LOW;
  return LLM_PRESSURE_NONE;
}

gboolean
llm_pressure_read_stall (const char *path,
                         LlmStall   *stall)
{
  g_autofree char *text = NULL;

  return g_file_get_contents (path, &text, NULL, NULL) && llm_pressure_parse (text, stall);
}

gboolean
llm_pressure_is_event (guint64 before_us,
                       guint64 after_us,
                       guint64 threshold_us)
{
  return after_us == 0 || (after_us >= before_us && after_us - before_us >= threshold_us);
}

const char *
llm_pressure_to_string (LlmPressure pressure)
{
  g_assert (pressure < G_N_ELEMENTS (names));
  return names[pressure];
}

gboolean
llm_pressure_parse_level (const char  *name,
                          LlmPressure *pressure)
{
  for (guint i = LLM_PRESSURE_LOW; i < G_N_ELEMENTS (names); i++)
    if (g_str_equal (name, names[i]))
      {
        *pressure = i;
        return TRUE;
      }
  return FALSE;
}
