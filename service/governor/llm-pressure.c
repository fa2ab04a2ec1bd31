/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "governor/llm-pressure.h"

#include <string.h>

static const char *const names[] = { "none", "low", "medium", "critical" };

/* One line: "some avg10=0.00 avg60=0.00 avg300=0.00 total=0". */
static gboolean
parse_line (const char *line,
            double     *avg10)
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
        has_some = parse_line (lines[i], &stall->some_avg10);
      else if (is_full && !has_full)
        has_full = parse_line (lines[i], &stall->full_avg10);
      else
        return FALSE;
    }
  return has_some && has_full;
}

LlmPressure
llm_pressure_judge (const LlmStall *stall)
{
  if (stall->full_avg10 >= 10)
    return LLM_PRESSURE_CRITICAL;
  if (stall->full_avg10 >= 3 || stall->some_avg10 >= 20)
    return LLM_PRESSURE_MEDIUM;
  if (stall->some_avg10 >= 5)
    return LLM_PRESSURE_LOW;
  return LLM_PRESSURE_NONE;
}

LlmPressure
llm_pressure_read (const char *root)
{
  g_autofree char *path = g_build_filename (root != NULL && *root ? root : "/",
                                            "proc", "pressure", "memory", NULL);
  g_autofree char *text = NULL;
  LlmStall stall;

  if (!g_file_get_contents (path, &text, NULL, NULL) || !llm_pressure_parse (text, &stall))
    return LLM_PRESSURE_NONE;
  return llm_pressure_judge (&stall);
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
