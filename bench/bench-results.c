/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench-results.h"

#include <stdio.h>
#include <string.h>

#define GIGA 1e9

typedef enum
{
  SPEED,
  BYTES,
  OPS,
  READ_SHARE,      /* of what the machine reads in this round */
  COMPUTE_SHARE,   /* of what it computes in this round */
  RATIO,           /* what the first engine reached in the same round / this */
  N_COLUMNS,
} Column;

static const struct
{
  const char *name;
  const char *unit;
} columns[N_COLUMNS] = {
  { "tokens-per-second", "tokens/s" },
  { "gigabytes-per-second", "GB/s" },
  { "gigaops-per-second", "Gop/s" },
  { "percent-of-read-limit", "%" },
  { "percent-of-compute-limit", "%" },
  { "times-as-fast", "×" },
};

typedef struct
{
  char *engine;
  char *test;
  BenchFigure *figures[N_COLUMNS];
} Result;

static void
result_free (gpointer data)
{
  Result *self = data;

  g_free (self->engine);
  g_free (self->test);
  for (Column column = 0; column < N_COLUMNS; column++)
    bench_figure_free (self->figures[column]);
  g_free (self);
}

static double
get_last (BenchFigure *figure)
{
  return g_array_index (figure->samples, double, figure->samples->len - 1);
}

/* @engine: (nullable): any */
static Result *
find_result (BenchResults *self,
             const char   *engine,
             const char   *test)
{
  for (guint i = 0; i < self->results->len; i++)
    {
      Result *result = g_ptr_array_index (self->results, i);

      if ((engine == NULL || strcmp (result->engine, engine) == 0) &&
          strcmp (result->test, test) == 0)
        return result;
    }
  return NULL;
}

static Result *
add_result (BenchResults *self,
            const char   *engine,
            const char   *test)
{
  Result *result = g_new (Result, 1);

  result->engine = g_strdup (engine);
  result->test = g_strdup (test);
  for (Column column = 0; column < N_COLUMNS; column++)
    result->figures[column] = bench_figure_new (columns[column].name, columns[column].unit);
  g_ptr_array_add (self->results, result);
  return result;
}

BenchResults *
bench_results_new (const char *compute_name)
{
  BenchResults *self = g_new (BenchResults, 1);

  self->results = g_ptr_array_new_with_free_func (result_free);
  self->read_limit = bench_figure_new ("read", "GB/s");
  self->compute_limit = bench_figure_new ("compute", "Gop/s");
  self->compute_name = g_strdup (compute_name);
  return self;
}

void
bench_results_free (BenchResults *self)
{
  g_ptr_array_unref (self->results);
  bench_figure_free (self->read_limit);
  bench_figure_free (self->compute_limit);
  g_free (self->compute_name);
  g_free (self);
}

void
bench_results_add_limits (BenchResults *self,
                          double        read,
                          double        compute)
{
  bench_figure_add (self->read_limit, read / GIGA);
  bench_figure_add (self->compute_limit, compute / GIGA);
}

void
bench_results_add (BenchResults   *self,
                   const BenchRun *run)
{
  Result *result = find_result (self, run->engine, run->test), *first;
  double speed = run->n_tokens / run->seconds;
  double bytes = run->bytes / run->seconds / GIGA, ops = run->ops / run->seconds / GIGA;

  if (result == NULL)
    result = add_result (self, run->engine, run->test);
  bench_figure_add (result->figures[SPEED], speed);
  bench_figure_add (result->figures[BYTES], bytes);
  bench_figure_add (result->figures[OPS], ops);
  bench_figure_add (result->figures[READ_SHARE], 100 * bytes / get_last (self->read_limit));
  bench_figure_add (result->figures[COMPUTE_SHARE], 100 * ops / get_last (self->compute_limit));
  first = find_result (self, NULL, run->test);
  if (first != result)
    bench_figure_add (result->figures[RATIO], get_last (first->figures[SPEED]) / speed);
}

void
bench_results_print (BenchResults *self)
{
  const char *first = self->results->len > 0
                        ? ((Result *) g_ptr_array_index (self->results, 0))->engine : "";

  printf ("limits: reading %.1f GB/s, computing %.0f Gop/s (%s), medians of %u rounds\n\n",
          bench_figure_median (self->read_limit), bench_figure_median (self->compute_limit),
          self->compute_name, self->read_limit->samples->len);
  printf ("| engine | test | tokens/s | best | GB/s | of reading | Gop/s | of computing | "
          "%s is |\n|---|---|---|---|---|---|---|---|---|\n", first);
  for (guint i = 0; i < self->results->len; i++)
    {
      Result *result = g_ptr_array_index (self->results, i);
      BenchFigure **figures = result->figures;
      double low, high;

      printf ("| %s | %s | %.2f | %.2f | %.2f | %.1f %% | %.1f | %.1f %% | ", result->engine,
              result->test, bench_figure_median (figures[SPEED]),
              bench_figure_greatest (figures[SPEED]), bench_figure_median (figures[BYTES]),
              bench_figure_median (figures[READ_SHARE]), bench_figure_median (figures[OPS]),
              bench_figure_median (figures[COMPUTE_SHARE]));
      if (figures[RATIO]->samples->len > 0)
        printf ("%.3f × ", bench_figure_median (figures[RATIO]));
      if (bench_figure_interval (figures[RATIO], &low, &high))
        printf ("(%.3f to %.3f) ", low, high);
      printf ("|\n");
    }
}

void
bench_results_set_json (BenchResults *self,
                        JsonObject   *object)
{
  JsonObject *limits = json_object_new ();
  JsonArray *list = json_array_new ();

  bench_figure_set_json (self->read_limit, limits);
  bench_figure_set_json (self->compute_limit, limits);
  json_object_set_string_member (limits, "compute-instruction", self->compute_name);
  json_object_set_object_member (object, "limits", limits);
  for (guint i = 0; i < self->results->len; i++)
    {
      Result *result = g_ptr_array_index (self->results, i);
      JsonObject *member = json_object_new ();

      json_object_set_string_member (member, "engine", result->engine);
      json_object_set_string_member (member, "test", result->test);
      for (Column column = 0; column < N_COLUMNS; column++)
        if (result->figures[column]->samples->len > 0)
          bench_figure_set_json (result->figures[column], member);
      json_array_add_object_element (list, member);
    }
  json_object_set_array_member (object, "results", list);
}
