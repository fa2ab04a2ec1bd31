/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "storm/bench-storm-plot.h"

#include <math.h>

#include "bench-svg.h"

#define WIDTH 960.0
#define LEFT 70.0
#define RIGHT 250.0
#define PANEL 150.0
#define GAP 50.0
#define TOP 40.0
#define MIB 1048576.0
/* Of speeds, which are means over this time. */
#define WINDOW_S 1.0
/* Shown before the first storm. */
#define LEAD_S 10.0
#define N_TICKS 4
/* Points of one line: more than can be told apart. */
#define MAX_POINTS 1500

static const char *const colours[] = { "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000" };

typedef double (*GetValue) (const BenchStormResult *result,
                            guint                   sample);

typedef struct
{
  GString *text;
  double top;       /* of the panel */
  double most;      /* at its upper edge */
  double span_s;    /* of the time axis */
} Panel;

static const BenchStormSample *
get_sample (const BenchStormResult *result,
            guint                   i)
{
  return &g_array_index (result->samples, BenchStormSample, i);
}

/* Where time 0 of a result is. */
static double
get_begin (const BenchStormResult *result)
{
  return result->storms->len > 0 ? g_array_index (result->storms, BenchStormStorm, 0).begin_s : 0;
}

/* --- values --- */

static double
get_server_mib (const BenchStormResult *result,
                guint                   i)
{
  return (double) (get_sample (result, i)->anonymous + get_sample (result, i)->mapped) / MIB;
}

static double
get_eater_mib (const BenchStormResult *result,
               guint                   i)
{
  return (double) get_sample (result, i)->eater / MIB;
}

static double
get_usage_mib (const BenchStormResult *result,
               guint                   i)
{
  return (double) get_sample (result, i)->group.usage / MIB;
}

static double
get_speed (const BenchStormResult *result,
           guint                   i)
{
  const BenchStormSample *end = get_sample (result, i);
  guint before = i;

  while (before > 0 && end->at_s - get_sample (result, before)->at_s < WINDOW_S)
    before--;
  if (before == i)
    return 0;
  return (double) (end->tokens - get_sample (result, before)->tokens) /
         (end->at_s - get_sample (result, before)->at_s);
}

static guint
find_begin (const BenchStormResult *result)
{
  guint i = 0;

  while (i + 1 < result->samples->len && get_sample (result, i)->at_s < get_begin (result))
    i++;
  return i;
}

static double
get_stall_s (const BenchStormResult *result,
             guint                   i)
{
  guint64 now = get_sample (result, i)->group.stalls[BENCH_STORM_EATER].some_us;
  guint64 before =
    get_sample (result, find_begin (result))->group.stalls[BENCH_STORM_EATER].some_us;

  return now > before ? (double) (now - before) / 1e6 : 0;
}

/* --- drawing --- */

static void
add_words (GString    *text,
           double      x,
           double      y,
           const char *anchor,
           const char *words)
{
  g_autofree char *escaped = g_markup_escape_text (words, -1);

  g_string_append (text, "<text x=\"");
  bench_svg_add_number (text, x);
  g_string_append (text, "\" y=\"");
  bench_svg_add_number (text, y);
  g_string_append_printf (text, "\" text-anchor=\"%s\">%s</text>\n", anchor, escaped);
}

static double
get_x (const Panel *panel,
       double       at_s)
{
  return LEFT + (WIDTH - LEFT - RIGHT) * (at_s + LEAD_S) / (panel->span_s + LEAD_S);
}

static double
get_y (const Panel *panel,
       double       value)
{
  return panel->top + PANEL * (1 - MIN (value / panel->most, 1));
}

static void
begin_panel (Panel      *panel,
             const char *title,
             double      most)
{
  double bottom = panel->top + PANEL, right = WIDTH - RIGHT;
  double step = bench_svg_round_step (MAX (most, 0.001) / N_TICKS);
  double seconds = bench_svg_round_step (panel->span_s / 10);
  char label[G_ASCII_DTOSTR_BUF_SIZE];

  panel->most = step * ceil (MAX (most, 0.001) / step);
  add_words (panel->text, LEFT, panel->top - 8, "start", title);
  for (double value = 0; value <= panel->most * 1.001; value += step)
    {
      bench_svg_add_line (panel->text, LEFT, get_y (panel, value), right, get_y (panel, value),
                          "stroke=\"#ddd\"");
      g_ascii_formatd (label, sizeof label, "%g", value);
      add_words (panel->text, LEFT - 6, get_y (panel, value) + 4, "end", label);
    }
  for (double at = 0; at <= panel->span_s; at += seconds)
    {
      bench_svg_add_line (panel->text, get_x (panel, at), bottom, get_x (panel, at), bottom + 4,
                          "stroke=\"#444\"");
      g_ascii_formatd (label, sizeof label, "%g", at);
      add_words (panel->text, get_x (panel, at), bottom + 16, "middle", label);
    }
  bench_svg_add_line (panel->text, LEFT, bottom, right, bottom, "stroke=\"#444\"");
}

static void
add_line (Panel                  *panel,
          const BenchStormResult *result,
          GetValue                get,
          const char             *colour,
          const char             *name,
          guint                   row)
{
  double begin_s = get_begin (result);
  double label_y = panel->top + 10 + 18.0 * row;
  g_autofree char *style = g_strdup_printf ("stroke=\"%s\" stroke-width=\"1.5\"", colour);
  guint step = result->samples->len / MAX_POINTS + 1;

  g_string_append_printf (panel->text, "<polyline fill=\"none\" %s points=\"", style);
  for (guint i = 0; i < result->samples->len; i += step)
    {
      double at_s = get_sample (result, i)->at_s - begin_s;

      if (at_s < -LEAD_S || at_s > panel->span_s)
        continue;
      bench_svg_add_number (panel->text, get_x (panel, at_s));
      g_string_append_c (panel->text, ',');
      bench_svg_add_number (panel->text, get_y (panel, get (result, i)));
      g_string_append_c (panel->text, ' ');
    }
  g_string_append (panel->text, "\"/>\n");
  bench_svg_add_line (panel->text, WIDTH - RIGHT + 10, label_y, WIDTH - RIGHT + 34, label_y, style);
  add_words (panel->text, WIDTH - RIGHT + 40, label_y + 4, "start", name);
}

static double
find_most (GPtrArray *results,
           GetValue   get)
{
  double most = 0;

  for (guint k = 0; k < results->len; k++)
    {
      const BenchStormResult *result = g_ptr_array_index (results, k);

      for (guint i = find_begin (result); i < result->samples->len; i++)
        most = MAX (most, get (result, i));
    }
  return most;
}

static double
find_span (GPtrArray *results)
{
  double span = 1;

  for (guint k = 0; k < results->len; k++)
    {
      const BenchStormResult *result = g_ptr_array_index (results, k);

      if (result->samples->len > 0)
        span = MAX (span, get_sample (result, result->samples->len - 1)->at_s - get_begin (result));
    }
  return span;
}

static void
add_memory (Panel                *panel,
            BenchStormResult     *result,
            const BenchStormPlan *plan)
{
  double limit = (double) plan->limit / MIB;
  g_autofree char *title = g_strdup_printf ("%s: MiB over seconds", result->name);

  begin_panel (panel, title, limit * 1.02);
  bench_svg_add_line (panel->text, LEFT, get_y (panel, limit), WIDTH - RIGHT, get_y (panel, limit),
                      "stroke=\"#888\" stroke-dasharray=\"6 3\"");
  add_words (panel->text, WIDTH - RIGHT + 10, get_y (panel, limit) + 4, "start", "limit");
  add_line (panel, result, get_usage_mib, "#999999", "the group", 2);
  add_line (panel, result, get_server_mib, colours[0], "the server", 3);
  add_line (panel, result, get_eater_mib, colours[1], "the eater", 4);
  panel->top += PANEL + GAP;
}

static void
add_all (Panel      *panel,
         GPtrArray  *results,
         GetValue    get,
         const char *title)
{
  begin_panel (panel, title, find_most (results, get));
  for (guint k = 0; k < results->len; k++)
    {
      const BenchStormResult *result = g_ptr_array_index (results, k);

      add_line (panel, result, get, colours[k % G_N_ELEMENTS (colours)], result->name, k);
    }
  panel->top += PANEL + GAP;
}

char *
bench_storm_plot (GPtrArray            *results,
                  const BenchStormPlan *plan)
{
  GString *text = g_string_new (NULL);
  Panel panel = { .text = text, .top = TOP, .span_s = find_span (results) };
  double height = TOP + (results->len + 2) * (PANEL + GAP);

  g_string_append_printf (text,
                          "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
                          "font-family=\"sans-serif\" font-size=\"12\">\n"
                          "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
                          (int) WIDTH, (int) height);
  for (guint k = 0; k < results->len; k++)
    add_memory (&panel, g_ptr_array_index (results, k), plan);
  add_all (&panel, results, get_speed, "Tokens per second");
  add_all (&panel, results, get_stall_s, "Seconds that the eater waited for memory so far");
  g_string_append (text, "</svg>\n");
  return g_string_free (text, FALSE);
}
