/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench.h"

#include <stdio.h>

BenchFigure *
bench_figure_new (const char *name,
                  const char *unit)
{
  BenchFigure *self = g_new (BenchFigure, 1);

  self->name = name;
  self->unit = unit;
  self->samples = g_array_new (FALSE, FALSE, sizeof (double));
  return self;
}

void
bench_figure_free (BenchFigure *self)
{
  g_array_unref (self->samples);
  g_free (self);
}

void
bench_figure_add (BenchFigure *self,
                  double       sample)
{
  g_array_append_val (self->samples, sample);
}

static int
compare_doubles (gconstpointer a,
                 gconstpointer b)
{
  double left = *(const double *) a;
  double right = *(const double *) b;

  return (left > right) - (left < right);
}

double
bench_figure_median (BenchFigure *self)
{
  guint n = self->samples->len;

  g_array_sort (self->samples, compare_doubles);
  if (n == 0)
    return 0;
  return (g_array_index (self->samples, double, (n - 1) / 2) +
          g_array_index (self->samples, double, n / 2)) / 2;
}

static void
print_json (GPtrArray *figures)
{
  g_autoptr(JsonBuilder) builder = json_builder_new ();
  g_autoptr(JsonGenerator) generator = json_generator_new ();
  g_autoptr(JsonNode) root = NULL;
  g_autofree char *text = NULL;

  json_builder_begin_object (builder);
  for (guint i = 0; i < figures->len; i++)
    {
      BenchFigure *figure = g_ptr_array_index (figures, i);

      json_builder_set_member_name (builder, figure->name);
      json_builder_begin_object (builder);
      json_builder_set_member_name (builder, "unit");
      json_builder_add_string_value (builder, figure->unit);
      json_builder_set_member_name (builder, "median");
      json_builder_add_double_value (builder, bench_figure_median (figure));
      json_builder_set_member_name (builder, "samples");
      json_builder_begin_array (builder);
      for (guint j = 0; j < figure->samples->len; j++)
        json_builder_add_double_value (builder, g_array_index (figure->samples, double, j));
      json_builder_end_array (builder);
      json_builder_end_object (builder);
    }
  json_builder_end_object (builder);
  root = json_builder_get_root (builder);
  json_generator_set_root (generator, root);
  json_generator_set_pretty (generator, TRUE);
  text = json_generator_to_data (generator, NULL);
  puts (text);
}

void
bench_print (GPtrArray *figures,
             gboolean   as_json)
{
  if (as_json)
    {
      print_json (figures);
      return;
    }
  printf ("| figure | median | least | greatest | n |\n|---|---|---|---|---|\n");
  for (guint i = 0; i < figures->len; i++)
    {
      BenchFigure *figure = g_ptr_array_index (figures, i);
      double median = bench_figure_median (figure);
      guint n = figure->samples->len;

      if (n > 0)
        printf ("| %s | %.2f %s | %.2f | %.2f | %u |\n", figure->name, median, figure->unit,
                g_array_index (figure->samples, double, 0),
                g_array_index (figure->samples, double, n - 1), n);
    }
}
