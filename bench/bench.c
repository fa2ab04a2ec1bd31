/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- figures --- */

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

static GArray *
sort (BenchFigure *self)
{
  GArray *sorted = g_array_copy (self->samples);

  g_array_sort (sorted, compare_doubles);
  return sorted;
}

double
bench_figure_median (BenchFigure *self)
{
  g_autoptr(GArray) sorted = sort (self);
  guint n = sorted->len;

  if (n == 0)
    return 0;
  return (g_array_index (sorted, double, (n - 1) / 2) + g_array_index (sorted, double, n / 2)) / 2;
}

double
bench_figure_greatest (BenchFigure *self)
{
  g_autoptr(GArray) sorted = sort (self);

  return g_array_index (sorted, double, sorted->len - 1);
}

gboolean
bench_figure_interval (BenchFigure *self,
                       double      *low,
                       double      *high)
{
  g_autoptr(GArray) sorted = sort (self);
  guint n = sorted->len, rank = 0;
  double chance = pow (0.5, n), sum = chance;

  /* sum: how probable it is that at most so many samples are below the median */
  while (rank < n / 2 && sum <= 0.025)
    {
      rank++;
      chance *= (double) (n - rank + 1) / rank;
      sum += chance;
    }
  if (rank == 0)
    return FALSE;
  *low = g_array_index (sorted, double, rank - 1);
  *high = g_array_index (sorted, double, n - rank);
  return TRUE;
}

void
bench_figure_set_json (BenchFigure *self,
                       JsonObject  *object)
{
  JsonObject *figure = json_object_new ();
  JsonArray *samples = json_array_new ();
  double low, high;

  for (guint i = 0; i < self->samples->len; i++)
    json_array_add_double_element (samples, g_array_index (self->samples, double, i));
  json_object_set_string_member (figure, "unit", self->unit);
  json_object_set_double_member (figure, "median", bench_figure_median (self));
  if (bench_figure_interval (self, &low, &high))
    {
      json_object_set_double_member (figure, "low", low);
      json_object_set_double_member (figure, "high", high);
    }
  json_object_set_array_member (figure, "samples", samples);
  json_object_set_object_member (object, self->name, figure);
}

GPtrArray *
bench_figures_new (void)
{
  return g_ptr_array_new_with_free_func ((GDestroyNotify) bench_figure_free);
}

static gboolean
has_name (gconstpointer figure,
          gconstpointer name)
{
  return strcmp (((const BenchFigure *) figure)->name, name) == 0;
}

/* --- printing --- */

void
bench_print_object (JsonObject *object)
{
  g_autoptr(JsonNode) root = json_node_init_object (json_node_alloc (), object);
  g_autofree char *text = json_to_string (root, TRUE);

  puts (text);
}

static void
print_figures (GPtrArray *figures,
               gboolean   as_json)
{
  g_autoptr(JsonObject) object = json_object_new ();

  if (!as_json)
    printf ("| figure | median | least | greatest | n |\n|---|---|---|---|---|\n");
  for (guint i = 0; i < figures->len; i++)
    {
      BenchFigure *figure = g_ptr_array_index (figures, i);

      if (as_json)
        bench_figure_set_json (figure, object);
      else if (figure->samples->len > 0)
        {
          g_autoptr(GArray) sorted = sort (figure);

          printf ("| %s | %.2f %s | %.2f | %.2f | %u |\n", figure->name,
                  bench_figure_median (figure), figure->unit, g_array_index (sorted, double, 0),
                  bench_figure_greatest (figure), sorted->len);
        }
    }
  if (as_json)
    bench_print_object (object);
}

/* --- commands --- */

void
bench_add (Bench      *self,
           const char *unit,
           double      sample,
           const char *format,
           ...)
{
  g_autofree char *name = NULL;
  va_list arguments;
  guint index;

  va_start (arguments, format);
  name = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  if (!g_ptr_array_find_with_equal_func (self->figures, name, has_name, &index))
    {
      index = self->figures->len;
      g_ptr_array_add (self->figures, bench_figure_new (name, unit));
    }
  bench_figure_add (g_ptr_array_index (self->figures, index), sample);
}

gboolean
bench_fail_usage (GError    **error,
                  const char *message)
{
  g_set_error_literal (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, message);
  return FALSE;
}

int
bench_command_run (const BenchCommand *self,
                   int                 argc,
                   char              **argv)
{
  g_autoptr(GOptionContext) context = g_option_context_new (self->arguments);
  g_autoptr(GPtrArray) figures = bench_figures_new ();
  g_autoptr(GError) error = NULL;
  Bench bench = { .argv = argv, .figures = figures };
  const GOptionEntry json[] = {
    { "json", 0, 0, G_OPTION_ARG_NONE, &bench.as_json, "One JSON object instead of a table", NULL },
    G_OPTION_ENTRY_NULL
  };

  g_option_context_add_main_entries (context, self->entries, NULL);
  g_option_context_add_main_entries (context, json, NULL);
  g_option_context_set_summary (context, self->description);
  if (g_option_context_parse (context, &argc, &argv, &error))
    {
      bench.argc = argc;
      if (self->run (&bench, &error))
        {
          if (figures->len > 0)
            print_figures (figures, bench.as_json);
          return 0;
        }
    }
  g_printerr ("llmsvc-bench: %s\n", error->message);
  return error->domain == G_OPTION_ERROR ? 2 : 1;
}

/* --- small things --- */

gboolean
bench_fail_errno (GError    **error,
                  const char *format,
                  ...)
{
  int code = errno;
  g_autofree char *what = NULL;
  va_list arguments;

  va_start (arguments, format);
  what = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  g_set_error (error, G_IO_ERROR, (int) g_io_error_from_errno (code), "%s: %s", what,
               g_strerror (code));
  return FALSE;
}

char *
bench_make_folder (const char *parent,
                   GError    **error)
{
  g_autofree char *path = g_build_filename (parent, "llmsvc-bench-XXXXXX", NULL);

  if (g_mkdtemp (path) != NULL)
    return g_steal_pointer (&path);
  bench_fail_errno (error, "No folder can be made in %s", parent);
  return NULL;
}

const char *
bench_plural (guint n)
{
  return n == 1 ? "" : "s";
}
