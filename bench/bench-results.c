/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench-results.h"

#include <stdio.h>
#include <string.h>

#define GIGA 1e9

static void
result_free (BenchResult *self)
{
  g_free (self->engine);
  g_free (self->test);
  bench_figure_free (self->speed);
  bench_figure_free (self->bytes);
  bench_figure_free (self->ops);
  bench_figure_free (self->read_share);
  bench_figure_free (self->compute_share);
  bench_figure_free (self->ratio);
  g_free (self);
}

static BenchResult *
result_new (const char *engine,
            const char *test)
{
  BenchResult *self = g_new (BenchResult, 1);

  self->engine = g_strdup (engine);
  self->test = g_strdup (test);
  self->speed = bench_figure_new ("tokens-per-second", "tokens/s");
  self->bytes = bench_figure_new ("gigabytes-per-second", "GB/s");
  self->ops = bench_figure_new ("gigaops-per-second", "Gop/s");
  self->read_share = bench_figure_new ("percent-of-read-limit", "%");
  self->compute_share = bench_figure_new ("percent-of-compute-limit", "%");
  self->ratio = bench_figure_new ("times-as-fast", "×");
  return self;
}

BenchResults *
bench_results_new (const char *compute_name)
{
  BenchResults *self = g_new (BenchResults, 1);

  self->results = g_ptr_array_new_with_free_func ((GDestroyNotify) result_free);
  self->read_limit = bench_figure_new ("read", "GB/s");
  self->compute_limit = bench_figure_new ("compute", "Gop/s");
  self->compute_name = g_strdup (compute_name);
  return self;
}

void
bench_results_free (BenchResults *self)
{
  if (self == NULL)
    return;
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

static double
get_last (BenchFigure *figure)
{
  return g_array_index (figure->samples, double, figure->samples->len - 1);
}

static BenchResult *
find_result (BenchResults *self,
             const char   *engine,
             const char   *test)
{
  for (guint i = 0; i < self->results->len; i++)
    {
      BenchResult *result = g_ptr_array_index (self->results, i);

      if (strcmp (result->engine, engine) == 0 && strcmp (result->test, test) == 0)
        return result;
    }
  g_ptr_array_add (self->results, result_new (engine, test));
  return g_ptr_array_index (self->results, self->results->len - 1);
}

void
bench_results_add (BenchResults   *self,
                   const BenchRun *run)
{
  BenchResult *result = find_result (self, run->engine, run->test);
  double speed = run->n_tokens / run->seconds;

  bench_figure_add (result->speed, speed);
  bench_figure_add (result->bytes, run->bytes / run->seconds / GIGA);
  bench_figure_add (result->ops, run->ops / run->seconds / GIGA);
  bench_figure_add (result->read_share,
                    100 * get_last (result->bytes) / get_last (self->read_limit));
  bench_figure_add (result->compute_share,
                    100 * get_last (result->ops) / get_last (self->compute_limit));
  for (guint i = 0; i < self->results->len; i++)
    {
      BenchResult *first = g_ptr_array_index (self->results, i);

      if (strcmp (first->test, run->test) == 0)
        {
          if (first != result)
            bench_figure_add (result->ratio, get_last (first->speed) / speed);
          break;
        }
    }
}

void
bench_results_print (BenchResults *self)
{
  const char *first = self->results->len > 0
                        ? ((BenchResult *) g_ptr_array_index (self->results, 0))->engine : "";

  printf ("limits: reading %.1f GB/s, computing %.0f Gop/s (%s), medians of %u rounds\n\n",
          bench_figure_median (self->read_limit), bench_figure_median (self->compute_limit),
          self->compute_name, self->read_limit->samples->len);
  printf ("| engine | test | tokens/s | best | GB/s | of reading | Gop/s | of computing | "
          "%s is |\n|---|---|---|---|---|---|---|---|---|\n", first);
  for (guint i = 0; i < self->results->len; i++)
    {
      BenchResult *result = g_ptr_array_index (self->results, i);

      printf ("| %s | %s | %.2f | %.2f | %.2f | %.1f %% | %.1f | %.1f %% | ", result->engine,
              result->test, bench_figure_median (result->speed),
              bench_figure_greatest (result->speed), bench_figure_median (result->bytes),
              bench_figure_median (result->read_share), bench_figure_median (result->ops),
              bench_figure_median (result->compute_share));
      if (result->ratio->samples->len > 0)
        printf ("%.2f × |\n", bench_figure_median (result->ratio));
      else
        printf ("|\n");
    }
}

void
bench_results_add_json (BenchResults *self,
                        JsonBuilder  *builder)
{
  json_builder_set_member_name (builder, "limits");
  json_builder_begin_object (builder);
  bench_figure_add_json (self->read_limit, builder);
  bench_figure_add_json (self->compute_limit, builder);
  json_builder_set_member_name (builder, "compute-instruction");
  json_builder_add_string_value (builder, self->compute_name);
  json_builder_end_object (builder);

  json_builder_set_member_name (builder, "results");
  json_builder_begin_array (builder);
  for (guint i = 0; i < self->results->len; i++)
    {
      BenchResult *result = g_ptr_array_index (self->results, i);

      json_builder_begin_object (builder);
      json_builder_set_member_name (builder, "engine");
      json_builder_add_string_value (builder, result->engine);
      json_builder_set_member_name (builder, "test");
      json_builder_add_string_value (builder, result->test);
      bench_figure_add_json (result->speed, builder);
      bench_figure_add_json (result->bytes, builder);
      bench_figure_add_json (result->ops, builder);
      bench_figure_add_json (result->read_share, builder);
      bench_figure_add_json (result->compute_share, builder);
      if (result->ratio->samples->len > 0)
        bench_figure_add_json (result->ratio, builder);
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
}
