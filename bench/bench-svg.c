/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench-svg.h"

#include <math.h>

/* Of the wider sans-serif fonts; most characters are narrower. */
#define WIDTH_OF_DIGIT 0.64

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

double
bench_svg_round_step (double least)
{
  double power = pow (10, floor (log10 (least)));

  for (guint i = 0; i < 3; i++)
    if (power * (const double[]) { 1, 2, 5 }[i] >= least * 0.999)
      return power * (const double[]) { 1, 2, 5 }[i];
  return power * 10;
}

double
bench_svg_get_width (const char *words,
                     double      size)
{
  return WIDTH_OF_DIGIT * size * (double) g_utf8_strlen (words, -1);
}
