/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "memory/llm-pressure.h"

#include <string.h>

static const char *const names[] = { "none", "low", "medium", "critical" };

/* One line: "some avg10=0.00 avg60=0.00 avg300=0.00 total=0". */
static gboolean
parse_line (const char *line,
            double     *avg10,
            guint64    *total_us)
{
  g_auto(GStrv) fields = g_strsplit (line, " ", -1);
  static const char *const keys[] = { "avg10=", "avg60=", "avg300=", "total=" };

  if (g_strv_length (fields) != 1 + G_N_ELEMENTS (keys))
    return FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
    {
      const char *value = fields[i + 1] + strlen (keys[i]);
      char *end;
      double number;

      if (!g_str_has_prefix (fields[i + 1], keys[i]))
        return FALSE;
      number = g_ascii_strtod (value, &end);
      if (end == value || *end != '\0' || !(number >= 0))
        return FALSE;
      if (i == 0)
        *avg10 = number;
      else if (i + 1 == G_N_ELEMENTS (keys))
        *total_us = g_ascii_strtoull (value, NULL, 10);
    }
  return TRUE;
}

gboolean
llm_pressure_parse (const char *text,
                    LlmStall   *stall)
{
  g_auto(GStrv) lines = g_strsplit (text, "\n", -1);
  gboolean has_some = FALSE;
  gboolean has_full = FALSE;

  for (guint i = 0; lines[i] != NULL; i++)
    {
      gboolean is_some = g_str_has_prefix (lines[i], "some ");
      gboolean is_full = g_str_has_prefix (lines[i], "full ");

      if (*lines[i] == '\0')
        continue;
      if (is_some && !has_some)
        has_some = parse_line (lines[i], &stall->some_avg10, &stall->some_us);
      else if (is_full && !has_full)
        has_full = parse_line (lines[i], &stall->full_avg10, &stall->full_us);
      else
        return FALSE;
    }
  return has_some && has_full;
}

/* Where people notice: a twentieth of the time lost is felt in a desktop, a tenth of it with
 * nothing at all going on is a machine that hangs again and again. */
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
