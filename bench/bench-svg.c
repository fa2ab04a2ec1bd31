/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench-svg.h"

void
bench_svg_add_number (GString *text,
                      double   number)
{
  char buffer[G_ASCII_DTOSTR_BUF_SIZE];

  g_string_append (text, g_ascii_formatd (buffer, sizeof buffer, "%.1f", number));
}

void
bench_svg_add_line (GString    *text,
                    double      x1,
                    double      y1,
                    double      x2,
                    double      y2,
                    const char *style)
{
  const struct { const char *name; double value; } ends[] = {
    { "x1", x1 }, { "y1", y1 }, { "x2", x2 }, { "y2", y2 },
  };

  g_string_append (text, "<line");
  for (guint i = 0; i < G_N_ELEMENTS (ends); i++)
    {
      g_string_append_printf (text, " %s=\"", ends[i].name);
      bench_svg_add_number (text, ends[i].value);
      g_string_append_c (text, '"');
    }
  g_string_append_printf (text, " %s/>\n", style);
}
