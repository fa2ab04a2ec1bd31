/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Plots that people can read: whatever the points are, the marks on the axes are few, and their
 * labels lie beside each other and within the drawing. */

#include <gio/gio.h>
#include <string.h>

#include "bench-plot.h"
#include "bench-svg.h"

#define MAX_POINTS 4000
#define N_ROUNDS 500
#define FONT_SIZE 12
#define WIDTH 720
#define X_LABELS_Y 400.0
#define MAX_MARKS 25

/* One label on an axis. */
typedef struct
{
  double x;  /* of its middle, or of its end */
  double y;
  char *words;
} Label;

static void
label_clear (gpointer data)
{
  g_free (((Label *) data)->words);
}

/* The texts with this anchor, in their order. */
static GArray *
find_labels (const char *svg,
             const char *anchor)
{
  g_autofree char *pattern = g_strdup_printf ("<text x=\"(\\d+\\.\\d)\" y=\"(\\d+\\.\\d)\" "
                                              "text-anchor=\"%s\">([^<]*)</text>", anchor);
  g_autoptr(GRegex) regex = g_regex_new (pattern, 0, 0, NULL);
  g_autoptr(GMatchInfo) match = NULL;
  GArray *labels = g_array_new (FALSE, FALSE, sizeof (Label));

  g_array_set_clear_func (labels, label_clear);
  for (g_regex_match (regex, svg, 0, &match); g_match_info_matches (match);
       g_match_info_next (match, NULL))
    {
      g_autofree char *x = g_match_info_fetch (match, 1);
      g_autofree char *y = g_match_info_fetch (match, 2);
      Label label = { g_ascii_strtod (x, NULL), g_ascii_strtod (y, NULL),
                      g_match_info_fetch (match, 3) };

      g_array_append_val (labels, label);
    }

  return labels;
}

static guint
check_x_labels (const char *svg)
{
  g_autoptr(GArray) labels = find_labels (svg, "middle");
  double free_from = 0;
  guint n = 0;

  for (guint i = 0; i < labels->len; i++)
    {
      const Label *label = &g_array_index (labels, Label, i);
      double half = bench_svg_get_width (label->words, FONT_SIZE) / 2;

      /* the name of the axis is another text in the middle */
      if (label->y != X_LABELS_Y)
        continue;
      g_assert_cmpfloat (label->x - half, >=, free_from);
      g_assert_cmpfloat (label->x + half, <=, WIDTH);
      free_from = label->x + half;
      n++;
    }

  g_assert_cmpuint (n, <=, MAX_MARKS);
  return n;
}

/* From below to above. */
static guint
check_y_labels (const char *svg)
{
  g_autoptr(GArray) labels = find_labels (svg, "end");

  for (guint i = 1; i < labels->len; i++)
    g_assert_cmpfloat (g_array_index (labels, Label, i - 1).y - g_array_index (labels, Label, i).y,
                       >=, FONT_SIZE);
  g_assert_cmpuint (labels->len, <=, MAX_MARKS);
  return labels->len;
}

/* The text of a plot of one line; its ends upwards are those of a linear axis, if @most is set. */
static char *
draw (const double *x,
      guint         n,
      double        most)
{
  g_autoptr(BenchPlot) plot = bench_plot_new ("Title", "to the right", "upwards", x, n);
  g_autofree double *y = g_new (double, n);

  for (guint i = 0; i < n; i++)
    y[i] = most > 0 ? most * (i % 7) / 7 : 1 + i;
  if (most > 0)
    bench_plot_set_linear (plot, 0, most);
  bench_plot_add_line (plot, "line", y);
  return bench_plot_to_svg (plot);
}

/* Four readings in a second, for ten minutes: marks at round numbers, and a line without dots. */
static void
test_many_points (void)
{
  g_autofree double *x = g_new (double, 2400);
  g_autofree char *svg = NULL;

  for (guint i = 0; i < 2400; i++)
    x[i] = i * 0.25;
  svg = draw (x, 2400, 8);
  g_assert_cmpuint (check_x_labels (svg), ==, 12);
  g_assert_nonnull (strstr (svg, ">550</text>"));
  g_assert_null (strstr (svg, ">0.25</text>"));
  g_assert_null (strstr (svg, "<circle"));
}

/* Each half minute: the labels at the points would lie on each other. */
static void
test_long_labels (void)
{
  double x[30];
  g_autofree char *svg = NULL;

  for (guint i = 0; i < 30; i++)
    x[i] = 0.5 + i;
  svg = draw (x, 30, 0);
  g_assert_cmpuint (check_x_labels (svg), ==, 14);
  g_assert_nonnull (strstr (svg, "<circle"));
}

/* Few points have the marks where they are. */
static void
test_few_points (void)
{
  static const double x[] = { 2, 4, 6, 8, 12, 16 };
  g_autofree char *svg = draw (x, G_N_ELEMENTS (x), 0);
  g_autofree char *one = draw (x, 1, 0);

  g_assert_cmpuint (check_x_labels (svg), ==, G_N_ELEMENTS (x));
  g_assert_nonnull (strstr (svg, ">12</text>"));
  g_assert_cmpuint (check_x_labels (one), ==, 1);
}

/* A top that is no round number: round labels below it. */
static void
test_odd_top (void)
{
  static const double x[] = { 0, 1 };
  g_autofree char *svg = draw (x, G_N_ELEMENTS (x), 1.24902);

  g_assert_cmpuint (check_y_labels (svg), ==, 3);
  g_assert_nonnull (strstr (svg, ">0.5</text>"));
  g_assert_null (strstr (svg, "0.2498"));
}

static void
test_random (void)
{
  g_autofree double *x = g_new (double, MAX_POINTS);

  for (guint round = 0; round < N_ROUNDS; round++)
    {
      guint n = (guint) g_test_rand_int_range (1, round % 2 == 0 ? 40 : MAX_POINTS);
      double scale = g_test_rand_double_range (0.001, 100000);
      double most = g_test_rand_double_range (0.001, 100000);
      g_autofree char *svg = NULL;

      x[0] = g_test_rand_double_range (0, 100);
      for (guint i = 1; i < n; i++)
        x[i] = x[i - 1] + scale * g_test_rand_double_range (0.001, 1);
      svg = draw (x, n, round % 3 == 0 ? 0 : most);
      check_x_labels (svg);
      check_y_labels (svg);
    }
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/bench/plot/many-points", test_many_points);
  g_test_add_func ("/bench/plot/long-labels", test_long_labels);
  g_test_add_func ("/bench/plot/few-points", test_few_points);
  g_test_add_func ("/bench/plot/odd-top", test_odd_top);
  g_test_add_func ("/bench/plot/random", test_random);

  return g_test_run ();
}
