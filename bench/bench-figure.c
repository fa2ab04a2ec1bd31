/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench.h"

#include <stdio.h>
#include <string.h>

BenchFigure *
bench_figure_new (const char *name,
                  const char *unit)
{
  BenchFigure *self = g_new (BenchFigure, 1);

  self->name = g_strdup (name);
  self->unit = unit;
  self->samples = g_array_new (FALSE, FALSE, sizeof (double));
  return self;
}

void
bench_figure_free (BenchFigure *self)
{
  g_array_unref (self->samples);
  g_free (self->name);
  g_free (self);
}

BenchFigure *
bench_figure_find (GPtrArray  *figures,
                   const char *name,
                   const char *unit)
{
  for (guint i = 0; i < figures->len; i++)
    {
      BenchFigure *figure = g_ptr_array_index (figures, i);

      if (strcmp (figure->name, name) == 0)
        return figure;
    }
  g_ptr_array_add (figures, bench_figure_new (name, unit));
  return g_ptr_array_index (figures, figures->len - 1);
}

void
bench_figures_add (GPtrArray  *figures,
                   const char *name,
                   const char *unit,
                   double      sample)
{
  bench_figure_add (bench_figure_find (figures, name, unit), sample);
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
bench_median (GArray *samples)
{
  guint n = samples->len;

  g_array_sort (samples, compare_doubles);
  if (n == 0)
    return 0;
  return (g_array_index (samples, double, (n - 1) / 2) +
          g_array_index (samples, double, n / 2)) / 2;
}

double
bench_figure_median (BenchFigure *self)
{
  g_autoptr(GArray) sorted = g_array_copy (self->samples);

  return bench_median (sorted);
}

double
bench_figure_least (BenchFigure *self)
{
  double least = G_MAXDOUBLE;

  for (guint i = 0; i < self->samples->len; i++)
    least = MIN (least, g_array_index (self->samples, double, i));
  return least;
}

double
bench_figure_greatest (BenchFigure *self)
{
  double greatest = -G_MAXDOUBLE;

  for (guint i = 0; i < self->samples->len; i++)
    greatest = MAX (greatest, g_array_index (self->samples, double, i));
  return greatest;
}

void
bench_figure_add_json (BenchFigure *self,
                       JsonBuilder *builder)
{
  json_builder_set_member_name (builder, self->name);
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "unit");
  json_builder_add_string_value (builder, self->unit);
  json_builder_set_member_name (builder, "median");
  json_builder_add_double_value (builder, bench_figure_median (self));
  json_builder_set_member_name (builder, "samples");
  json_builder_begin_array (builder);
  for (guint i = 0; i < self->samples->len; i++)
    json_builder_add_double_value (builder, g_array_index (self->samples, double, i));
  json_builder_end_array (builder);
  json_builder_end_object (builder);
}

void
bench_print_json (JsonBuilder *builder)
{
  g_autoptr(JsonGenerator) generator = json_generator_new ();
  g_autoptr(JsonNode) root = json_builder_get_root (builder);
  g_autofree char *text = NULL;

  json_generator_set_root (generator, root);
  json_generator_set_pretty (generator, TRUE);
  text = json_generator_to_data (generator, NULL);
  puts (text);
}

static void
print_json (GPtrArray *figures)
{
  g_autoptr(JsonBuilder) builder = json_builder_new ();

  json_builder_begin_object (builder);
  for (guint i = 0; i < figures->len; i++)
    bench_figure_add_json (g_ptr_array_index (figures, i), builder);
  json_builder_end_object (builder);
  bench_print_json (builder);
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
      guint n = figure->samples->len;

      if (n > 0)
        printf ("| %s | %.2f %s | %.2f | %.2f | %u |\n", figure->name,
                bench_figure_median (figure), figure->unit, bench_figure_least (figure),
                bench_figure_greatest (figure), n);
    }
}
