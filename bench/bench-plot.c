/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench-plot.h"

#include <math.h>

#include "bench-svg.h"

#define WIDTH 720.0
#define HEIGHT 440.0
#define LEFT 80.0
#define RIGHT 190.0
#define TOP 50.0
#define BOTTOM 60.0
#define FONT_SIZE 12.0
/* Marks on a linear axis upwards: about that many. */
#define Y_STEPS 5
/* Between two labels. */
#define LABEL_GAP 8.0
/* Points closer than their circles are wide make a bar of a line. */
#define CIRCLE_RADIUS 3.0

/* Told apart by people who see few colours, too (Okabe and Ito), and by their marks. */
static const char *const colours[] = { "#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                       "#e69f00", "#56b4e9", "#000000", "#999999" };
static const char *const dashes[] = { "none", "6 3", "2 3", "8 3 2 3" };

typedef struct
{
  char *name;
  double *y;
} Line;

struct _BenchPlot
{
  char *title;
  char *x_title;
  char *y_title;
  double *x;
  guint n_x;
  GPtrArray *lines;      /* (element-type Line) */
  double least;          /* powers of ten around all values, or as set */
  double most;
  gboolean is_linear;
};

static void
line_free (gpointer data)
{
  Line *line = data;

  g_free (line->name);
  g_free (line->y);
  g_free (line);
}

BenchPlot *
bench_plot_new (const char   *title,
                const char   *x_title,
                const char   *y_title,
                const double *x,
                guint         n_x)
{
  BenchPlot *self = g_new0 (BenchPlot, 1);

  self->title = g_markup_escape_text (title, -1);
  self->x_title = g_markup_escape_text (x_title, -1);
  self->y_title = g_markup_escape_text (y_title, -1);
  self->x = g_memdup2 (x, n_x * sizeof (double));
  self->n_x = n_x;
  self->lines = g_ptr_array_new_with_free_func (line_free);
  return self;
}

void
bench_plot_free (BenchPlot *self)
{
  if (self == NULL)
    return;
  g_free (self->title);
  g_free (self->x_title);
  g_free (self->y_title);
  g_free (self->x);
  g_ptr_array_unref (self->lines);
  g_free (self);
}

void
bench_plot_set_linear (BenchPlot *self,
                       double     least,
                       double     most)
{
  self->is_linear = TRUE;
  self->least = least;
  self->most = most;
}

void
bench_plot_add_line (BenchPlot    *self,
                     const char   *name,
                     const double *y)
{
  Line *line = g_new (Line, 1);

  line->name = g_markup_escape_text (name, -1);
  line->y = g_memdup2 (y, self->n_x * sizeof (double));
  g_ptr_array_add (self->lines, line);
}

static void
find_range (BenchPlot *self)
{
  double least = G_MAXDOUBLE, most = 0;

  if (self->is_linear)
    return;
  for (guint i = 0; i < self->lines->len; i++)
    for (guint k = 0; k < self->n_x; k++)
      {
        double y = ((Line *) g_ptr_array_index (self->lines, i))->y[k];

        if (y > 0)
          {
            least = MIN (least, y);
            most = MAX (most, y);
          }
      }
  if (most <= 0)
    least = most = 1;
  self->least = pow (10, floor (log10 (least)));
  self->most = pow (10, ceil (log10 (most)));
  if (self->most <= self->least)
    self->most = self->least * 10;
}

static double
get_x (BenchPlot *self,
       double     x)
{
  double span = self->x[self->n_x - 1] - self->x[0];

  return LEFT + (WIDTH - LEFT - RIGHT) * (span > 0 ? (x - self->x[0]) / span : 0.5);
}

static double
get_y (BenchPlot *self,
       double     y)
{
  double part = self->is_linear ? (y - self->least) / (self->most - self->least)
                                : log (y / self->least) / log (self->most / self->least);

  return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * part;
}

static gboolean
shows (BenchPlot *self,
       double     y)
{
  return self->is_linear ? y >= self->least : y > 0;
}

static void
add_text (GString    *text,
          double      x,
          double      y,
          const char *style,
          const char *words)
{
  g_string_append (text, "<text x=\"");
  bench_svg_add_number (text, x);
  g_string_append (text, "\" y=\"");
  bench_svg_add_number (text, y);
  g_string_append_printf (text, "\" %s>%s</text>\n", style, words);
}

static void
add_y_mark (BenchPlot *self,
            GString   *text,
            double     y)
{
  char label[G_ASCII_DTOSTR_BUF_SIZE];

  g_ascii_formatd (label, sizeof label, "%g", y);
  bench_svg_add_line (text, LEFT, get_y (self, y), WIDTH - RIGHT, get_y (self, y),
                      "stroke=\"#ddd\"");
  add_text (text, LEFT - 8, get_y (self, y) + 4, "text-anchor=\"end\"", label);
}

static void
add_y_marks (BenchPlot *self,
             GString   *text)
{
  double step = bench_svg_round_step ((self->most - self->least) / Y_STEPS);
  double first = ceil (self->least / step - 0.001);

  if (self->is_linear)
    for (guint i = 0; (first + i) * step <= self->most + step * 0.001; i++)
      add_y_mark (self, text, (first + i) * step);
  else
    for (double y = self->least; y < self->most * 1.5; y *= 10)
      add_y_mark (self, text, y);
}

static void
add_x_mark (BenchPlot  *self,
            GString    *text,
            double      x,
            const char *label)
{
  double bottom = HEIGHT - BOTTOM;

  bench_svg_add_line (text, get_x (self, x), bottom, get_x (self, x), bottom + 5,
                      "stroke=\"#444\"");
  add_text (text, get_x (self, x), bottom + 20, "text-anchor=\"middle\"", label);
}

/* A mark at each of the values, if their labels fit beside each other. */
static gboolean
add_x_marks_at (BenchPlot    *self,
                GString      *text,
                const double *values,
                guint         n_values)
{
  g_autoptr(GString) marks = g_string_new (NULL);
  double free_from = 0;

  for (guint i = 0; i < n_values; i++)
    {
      char label[G_ASCII_DTOSTR_BUF_SIZE];
      double half;

      g_ascii_formatd (label, sizeof label, "%g", values[i]);
      half = bench_svg_get_width (label, FONT_SIZE) / 2;
      if (get_x (self, values[i]) - half < free_from)
        return FALSE;
      free_from = get_x (self, values[i]) + half + LABEL_GAP;
      add_x_mark (self, marks, values[i], label);
    }

  g_string_append_len (text, marks->str, (gssize) marks->len);
  return TRUE;
}

/* At the points where they are few, otherwise at round numbers, as many as fit. */
static void
add_x_marks (BenchPlot *self,
             GString   *text)
{
  const double least = self->x[0], most = self->x[self->n_x - 1];
  double step;

  if (add_x_marks_at (self, text, self->x, self->n_x) || most <= least)
    return;

  for (step = bench_svg_round_step ((most - least) / 20);; step = bench_svg_round_step (step * 1.5))
    {
      g_autoptr(GArray) values = g_array_new (FALSE, FALSE, sizeof (double));
      double first = ceil (least / step - 0.001);

      for (guint i = 0; (first + i) * step <= most + step * 0.001; i++)
        {
          double value = (first + i) * step;

          g_array_append_val (values, value);
        }
      if (add_x_marks_at (self, text, (const double *) values->data, values->len))
        return;
    }
}

static void
add_axes (BenchPlot *self,
          GString   *text)
{
  double right = WIDTH - RIGHT, bottom = HEIGHT - BOTTOM;

  add_y_marks (self, text);
  add_x_marks (self, text);
  bench_svg_add_line (text, LEFT, bottom, right, bottom, "stroke=\"#444\"");
  bench_svg_add_line (text, LEFT, TOP, LEFT, bottom, "stroke=\"#444\"");
  add_text (text, (LEFT + right) / 2, HEIGHT - 18, "text-anchor=\"middle\"", self->x_title);
  g_string_append_printf (text,
                          "<text transform=\"translate(22 %d) rotate(-90)\" "
                          "text-anchor=\"middle\">%s</text>\n",
                          (int) ((TOP + bottom) / 2), self->y_title);
}

static gboolean
has_circles (BenchPlot *self)
{
  return self->n_x < (WIDTH - LEFT - RIGHT) / (2 * CIRCLE_RADIUS);
}

static void
add_curve (BenchPlot *self,
           GString   *text,
           guint      index)
{
  const Line *line = g_ptr_array_index (self->lines, index);
  const char *colour = colours[index % G_N_ELEMENTS (colours)];
  const char *dash = dashes[index % G_N_ELEMENTS (dashes)];
  double label_y = TOP + 10 + 20.0 * index;
  g_autofree char *style = g_strdup_printf ("stroke=\"%s\" stroke-width=\"2\" "
                                            "stroke-dasharray=\"%s\"", colour, dash);

  g_string_append_printf (text, "<polyline fill=\"none\" %s points=\"", style);
  for (guint i = 0; i < self->n_x; i++)
    if (shows (self, line->y[i]))
      {
        bench_svg_add_number (text, get_x (self, self->x[i]));
        g_string_append_c (text, ',');
        bench_svg_add_number (text, get_y (self, line->y[i]));
        g_string_append_c (text, ' ');
      }
  g_string_append (text, "\"/>\n");
  for (guint i = 0; has_circles (self) && i < self->n_x; i++)
    if (shows (self, line->y[i]))
      {
        char value[G_ASCII_DTOSTR_BUF_SIZE];

        g_ascii_formatd (value, sizeof value, "%.4g", line->y[i]);
        g_string_append (text, "<circle cx=\"");
        bench_svg_add_number (text, get_x (self, self->x[i]));
        g_string_append (text, "\" cy=\"");
        bench_svg_add_number (text, get_y (self, line->y[i]));
        g_string_append_printf (text, "\" r=\"%d\" fill=\"%s\"><title>%s: %s</title></circle>\n",
                                (int) CIRCLE_RADIUS, colour, line->name, value);
      }
  bench_svg_add_line (text, WIDTH - RIGHT + 14, label_y, WIDTH - RIGHT + 44, label_y, style);
  add_text (text, WIDTH - RIGHT + 50, label_y + 4, "", line->name);
}

char *
bench_plot_to_svg (BenchPlot *self)
{
  GString *text = g_string_new (NULL);

  find_range (self);
  g_string_append_printf (text,
                          "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
                          "font-family=\"sans-serif\" font-size=\"%d\">\n"
                          "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
                          (int) WIDTH, (int) HEIGHT, (int) FONT_SIZE);
  add_text (text, LEFT, 28, "font-size=\"14\" font-weight=\"bold\"", self->title);
  add_axes (self, text);
  for (guint i = 0; i < self->lines->len; i++)
    add_curve (self, text, i);
  g_string_append (text, "</svg>\n");
  return g_string_free (text, FALSE);
}
