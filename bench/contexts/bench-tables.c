/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "contexts/bench-tables.h"

#include <glib/gstdio.h>
#include <math.h>
#include <stdio.h>

#include "bench-plot.h"

#define MS 1000.0
#define MIB 1048576.0

static BenchPoint
make_point (const BenchModelShape *shape,
            const BenchDevice     *device,
            BenchPattern           pattern,
            double                 share,
            guint                  n_contexts,
            const LlmKvPolicy     *policy)
{
  return (BenchPoint) {
    .shape = shape,
    .pattern = pattern,
    .n_contexts = n_contexts,
    .share = share,
    .policy = policy,
    .device = device,
    .chunk_slots = LLM_KV_CHUNK_SLOTS,
    .max_slots = shape->max_slots,
    .interval_s = 300,
  };
}

void
bench_axes_add (const BenchAxes *self,
                BenchGrid       *grid)
{
  for (guint s = 0; self->shapes[s] != NULL; s++)
    for (guint d = 0; self->devices[d] != NULL; d++)
      for (guint p = 0; p < self->n_patterns; p++)
        for (guint b = 0; self->shares[b] > 0; b++)
          for (guint n = 0; self->contexts[n] > 0; n++)
            for (guint k = 0; self->policies[k] != NULL; k++)
              {
                BenchPoint point = make_point (self->shapes[s], self->devices[d],
                                               self->patterns[p], self->shares[b],
                                               self->contexts[n], self->policies[k]);

                bench_grid_add (grid, &point);
              }
}

/* --- latencies --- */

/* All patterns together. */
static BenchLatency
pool_patterns (const BenchAxes       *axes,
               BenchGrid             *grid,
               const BenchModelShape *shape,
               const BenchDevice     *device,
               double                 share,
               guint                  n_contexts,
               const LlmKvPolicy     *policy)
{
  g_autoptr(GArray) waits = g_array_new (FALSE, FALSE, sizeof (double));

  for (guint p = 0; p < axes->n_patterns; p++)
    {
      BenchPoint point = make_point (shape, device, axes->patterns[p], share, n_contexts, policy);
      const BenchCell *cell = bench_grid_find (grid, &point);

      g_array_append_vals (waits, cell->waits->data, cell->waits->len);
    }
  return bench_latency_new ((double *) waits->data, waits->len);
}

static void
print_latencies (const BenchAxes       *axes,
                 BenchGrid             *grid,
                 const BenchModelShape *shape,
                 const BenchDevice     *device)
{
  printf ("\n%s, %s: switching latency in ms, mean (p50 / p95 / p99), all patterns\n\n"
          "| budget | contexts |", shape->title, device->name);
  for (guint k = 0; axes->policies[k] != NULL; k++)
    printf (" %s |", axes->policies[k]->name);
  printf ("\n|---|---|");
  for (guint k = 0; axes->policies[k] != NULL; k++)
    printf ("---|");
  printf ("\n");
  for (guint b = 0; axes->shares[b] > 0; b++)
    for (guint n = 0; axes->contexts[n] > 0; n++)
      {
        printf ("| %.0f %% | %u |", 100 * axes->shares[b], axes->contexts[n]);
        for (guint k = 0; axes->policies[k] != NULL; k++)
          {
            BenchLatency latency = pool_patterns (axes, grid, shape, device, axes->shares[b],
                                                  axes->contexts[n], axes->policies[k]);

            printf (" %.3g (%.3g / %.3g / %.3g) |", latency.mean / MS, latency.p50 / MS,
                    latency.p95 / MS, latency.p99 / MS);
          }
        printf ("\n");
      }
}

/* --- comparison --- */

typedef struct
{
  BenchRatios means;        /* of cells: mean / mean */
  BenchRatios calls;        /* of single switches */
  BenchRatios overlapped;   /* of cells, if all policies overlapped */
  BenchRatios reads;        /* of cells, without a prompt */
  double sums[2];           /* of means: the first policy's, the other's */
} Comparison;

static void
compare_cells (Comparison      *comparison,
               const BenchCell *first,
               const BenchCell *other)
{
  if (first->wait.n == 0 || other->wait.n != first->wait.n)
    return;
  bench_ratios_add (&comparison->means, other->wait.mean / first->wait.mean);
  bench_ratios_add (&comparison->overlapped, other->overlapped.mean / first->overlapped.mean);
  bench_ratios_add (&comparison->reads, other->read.mean / first->read.mean);
  comparison->sums[0] += first->wait.mean;
  comparison->sums[1] += other->wait.mean;
  for (guint i = 0; i < first->waits->len; i++)
    bench_ratios_add (&comparison->calls, g_array_index (other->waits, double, i) /
                                            g_array_index (first->waits, double, i));
}

static Comparison
compare_policies (const BenchAxes       *axes,
                  BenchGrid             *grid,
                  const BenchModelShape *shape,
                  const BenchDevice     *device,
                  const LlmKvPolicy     *policy)
{
  Comparison comparison = { 0 };

  for (guint p = 0; p < axes->n_patterns; p++)
    for (guint b = 0; axes->shares[b] > 0; b++)
      for (guint n = 0; axes->contexts[n] > 0; n++)
        {
          BenchPoint first = make_point (shape, device, axes->patterns[p], axes->shares[b],
                                         axes->contexts[n], axes->policies[0]);
          BenchPoint other = first;

          other.policy = policy;
          compare_cells (&comparison, bench_grid_find (grid, &first),
                         bench_grid_find (grid, &other));
        }
  return comparison;
}

static void
print_comparison (const BenchAxes       *axes,
                  BenchGrid             *grid,
                  const BenchModelShape *shape)
{
  printf ("\n%s: latency of others divided by that of %s, all patterns, budgets and numbers of "
          "contexts\n\n| device | policy | geometric mean of cells | least | best | "
          "ratio of means | geometric mean of switches | if all overlapped | without a prompt |\n"
          "|---|---|---|---|---|---|---|---|---|\n", shape->title, axes->policies[0]->name);
  for (guint d = 0; axes->devices[d] != NULL; d++)
    for (guint k = 1; axes->policies[k] != NULL; k++)
      {
        Comparison c = compare_policies (axes, grid, shape, axes->devices[d], axes->policies[k]);

        printf ("| %s | %s | %.3g | %.3g | %.3g | %.3g | %.3g | %.3g | %.3g |\n",
                axes->devices[d]->name, axes->policies[k]->name,
                bench_ratios_get_mean (&c.means), c.means.least, c.means.most,
                c.sums[0] > 0 ? c.sums[1] / c.sums[0] : 0, bench_ratios_get_mean (&c.calls),
                bench_ratios_get_mean (&c.overlapped), bench_ratios_get_mean (&c.reads));
      }
}

void
bench_tables_print (const BenchAxes *axes,
                    BenchGrid       *grid)
{
  for (guint s = 0; axes->shapes[s] != NULL; s++)
    {
      if (axes->policies[1] != NULL)
        print_comparison (axes, grid, axes->shapes[s]);
      for (guint d = 0; axes->devices[d] != NULL; d++)
        print_latencies (axes, grid, axes->shapes[s], axes->devices[d]);
    }
}

void
bench_tables_print_row_head (const char *label)
{
  printf ("\n| %s | policy | device | mean ms | p50 | p95 | p99 | all was there | MiB read | rows "
          "recomputed | MiB written while waiting |\n"
          "|---|---|---|---|---|---|---|---|---|---|---|\n",
          label);
}

void
bench_tables_print_row (const char      *label,
                        const BenchCell *cell)
{
  printf ("| %s | %s | %s | %.3g | %.3g | %.3g | %.3g | %.0f %% | %.3g | %.1f | %.3g |\n", label,
          cell->point.policy->name, cell->point.device->name, cell->wait.mean / MS,
          cell->wait.p50 / MS, cell->wait.p95 / MS, cell->wait.p99 / MS, 100 * cell->n_resident,
          cell->read_bytes / MIB, cell->n_recomputed, cell->written_bytes / MIB);
}

/* --- JSON --- */

static void
add_latency (JsonBuilder        *builder,
             const char         *name,
             const BenchLatency *latency)
{
  const struct
  {
    const char *name;
    double us;
  } figures[] = {
    { "mean-ms", latency->mean }, { "p50-ms", latency->p50 }, { "p95-ms", latency->p95 },
    { "p99-ms", latency->p99 }, { "most-ms", latency->most },
  };

  json_builder_set_member_name (builder, name);
  json_builder_begin_object (builder);
  for (guint i = 0; i < G_N_ELEMENTS (figures); i++)
    {
      json_builder_set_member_name (builder, figures[i].name);
      json_builder_add_double_value (builder, figures[i].us / MS);
    }
  json_builder_end_object (builder);
}

static void
add_cell (JsonBuilder     *builder,
          const BenchCell *cell)
{
  const BenchPoint *point = &cell->point;
  const struct
  {
    const char *name;
    const char *text;
  } words[] = {
    { "shape", point->shape->name }, { "pattern", bench_pattern_names[point->pattern] },
    { "policy", point->policy->name }, { "device", point->device->name },
  };
  const struct
  {
    const char *name;
    double number;
  } numbers[] = {
    { "contexts", point->n_contexts }, { "budget-share", point->share },
    { "budget-bytes", cell->budget }, { "chunk-slots", point->chunk_slots },
    { "max-slots", point->max_slots }, { "interval-s", point->interval_s },
    { "switches", cell->wait.n }, { "resident-share", cell->n_resident },
    { "read-bytes", cell->read_bytes }, { "written-bytes", cell->written_bytes },
    { "recomputed-rows", cell->n_recomputed },
  };

  json_builder_begin_object (builder);
  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    {
      json_builder_set_member_name (builder, words[i].name);
      json_builder_add_string_value (builder, words[i].text);
    }
  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    {
      json_builder_set_member_name (builder, numbers[i].name);
      json_builder_add_double_value (builder, numbers[i].number);
    }
  add_latency (builder, "wait", &cell->wait);
  add_latency (builder, "without-prompt", &cell->read);
  add_latency (builder, "if-overlapped", &cell->overlapped);
  json_builder_end_object (builder);
}

void
bench_tables_add_json (BenchGrid   *grid,
                       JsonBuilder *builder)
{
  GPtrArray *cells = bench_grid_get_cells (grid);

  json_builder_set_member_name (builder, "cells");
  json_builder_begin_array (builder);
  for (guint i = 0; i < cells->len; i++)
    add_cell (builder, g_ptr_array_index (cells, i));
  json_builder_end_array (builder);
}

/* --- plots --- */

static gboolean
plot_one (const BenchAxes       *axes,
          BenchGrid             *grid,
          const BenchModelShape *shape,
          const BenchDevice     *device,
          BenchPattern           pattern,
          double                 share,
          const char            *folder,
          GError               **error)
{
  const char *name = bench_pattern_names[pattern];
  g_autofree char *title = g_strdup_printf ("%s, %s, %s, budget %.0f %%", shape->title,
                                            device->name, name, 100 * share);
  g_autofree char *file = g_strdup_printf ("contexts-%s-%s-%s-%.0f.svg", shape->name,
                                           device->name, name, 100 * share);
  g_autofree char *path = g_build_filename (folder, file, NULL);
  g_autofree char *text = NULL;
  g_autoptr(BenchPlot) plot = NULL;
  g_autofree double *x = NULL;
  g_autofree double *y = NULL;
  guint n = 0;

  while (axes->contexts[n] > 0)
    n++;
  x = g_new (double, n);
  y = g_new (double, n);
  for (guint i = 0; i < n; i++)
    x[i] = axes->contexts[i];
  plot = bench_plot_new (title, "contexts", "switching latency, ms (mean)", x, n);
  for (guint k = 0; axes->policies[k] != NULL; k++)
    {
      for (guint i = 0; i < n; i++)
        {
          BenchPoint point = make_point (shape, device, pattern, share, axes->contexts[i],
                                         axes->policies[k]);

          y[i] = bench_grid_find (grid, &point)->wait.mean / MS;
        }
      bench_plot_add_line (plot, axes->policies[k]->name, y);
    }
  text = bench_plot_to_svg (plot);
  return g_file_set_contents (path, text, -1, error);
}

gboolean
bench_tables_plot (const BenchAxes  *axes,
                   BenchGrid        *grid,
                   const char       *folder,
                   GError          **error)
{
  if (g_mkdir_with_parents (folder, 0755) != 0)
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "The folder %s can't be made", folder);
      return FALSE;
    }
  for (guint s = 0; axes->shapes[s] != NULL; s++)
    for (guint d = 0; axes->devices[d] != NULL; d++)
      for (guint p = 0; p < axes->n_patterns; p++)
        for (guint b = 0; axes->shares[b] > 0; b++)
          if (!plot_one (axes, grid, axes->shapes[s], axes->devices[d], axes->patterns[p],
                         axes->shares[b], folder, error))
            return FALSE;
  return TRUE;
}
