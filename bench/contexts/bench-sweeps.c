/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "contexts/bench-sweeps.h"

#include <stdio.h>

static const char *const ablations[] = { "llms", "llms-no-compression", "llms-no-pipeline",
                                         "llms-no-lifecycle", NULL };

/* Ablations and sweeps are of one point each: many contexts in little memory. */
#define SWEEP_SHARE 0.25
#define SWEEP_CONTEXTS 16
#define SWEEP_PATTERN BENCH_MARKOV

static BenchPoint
get_sweep_point (const BenchModelShape *shape,
                 const BenchDevice     *device,
                 const LlmKvPolicy     *policy)
{
  return (BenchPoint) {
    .shape = shape,
    .pattern = SWEEP_PATTERN,
    .n_contexts = SWEEP_CONTEXTS,
    .share = SWEEP_SHARE,
    .policy = policy,
    .device = device,
    .chunk_slots = LLM_KV_CHUNK_SLOTS,
    .max_slots = shape->max_slots,
    .interval_s = 300,
  };
}

/* Runs all @points (element-type BenchPoint) and prints a row for each. */
static gboolean
run_points (BenchGrid  *grid,
            const char *title,
            const char *label,
            GArray     *points,
            GPtrArray  *labels,
            gboolean    is_silent,
            GError    **error)
{
  for (guint i = 0; i < points->len; i++)
    bench_grid_add (grid, &g_array_index (points, BenchPoint, i));
  if (!bench_grid_run (grid, error))
    return FALSE;
  if (is_silent)
    return TRUE;
  printf ("\n%s\n", title);
  bench_tables_print_row_head (label);
  for (guint i = 0; i < points->len; i++)
    bench_tables_print_row (g_ptr_array_index (labels, i),
                            bench_grid_find (grid, &g_array_index (points, BenchPoint, i)));
  return TRUE;
}

gboolean
bench_sweeps_ablate (const BenchAxes *axes,
                     BenchGrid       *grid,
                     gboolean         is_silent,
                     GError         **error)
{
  g_autoptr(GArray) points = g_array_new (FALSE, FALSE, sizeof (BenchPoint));
  g_autoptr(GPtrArray) labels = g_ptr_array_new ();

  for (guint s = 0; axes->shapes[s] != NULL; s++)
    for (guint d = 0; axes->devices[d] != NULL; d++)
      for (guint k = 0; ablations[k] != NULL; k++)
        {
          BenchPoint point = get_sweep_point (axes->shapes[s], axes->devices[d],
                                              llm_kv_policy_find (ablations[k]));

          g_array_append_val (points, point);
          g_ptr_array_add (labels, (gpointer) point.shape->name);
        }
  return run_points (grid, "Ablations: markov, 16 contexts, budget 25 %", "model", points, labels,
                     is_silent, error);
}

typedef enum { SWEEP_CHUNK, SWEEP_LENGTH, SWEEP_RATE, N_SWEEPS } Sweep;

static const struct
{
  const char *title;
  const char *label;
  double values[5];
} sweeps[N_SWEEPS] = {
  { "Sweep of the tokens in a chunk", "tokens in a chunk", { 16, 32, 48, 64 } },
  { "Sweep of the longest context", "tokens at most", { 512, 1024, 2048, 4096 } },
  { "Sweep of the rate of calls", "seconds between calls", { 300, 60, 15, 5 } },
};

/* The largest, in the order of the list. */
static const BenchModelShape *
get_last_shape (const BenchAxes *axes)
{
  guint n = 0;

  while (axes->shapes[n + 1] != NULL)
    n++;
  return axes->shapes[n];
}

static gboolean
run_sweep (const BenchAxes *axes,
           BenchGrid       *grid,
           Sweep            sweep,
           gboolean         is_silent,
           GError         **error)
{
  g_autoptr(GArray) points = g_array_new (FALSE, FALSE, sizeof (BenchPoint));
  g_autoptr(GPtrArray) labels = g_ptr_array_new_with_free_func (g_free);
  const BenchModelShape *shape = get_last_shape (axes);
  g_autofree char *title = g_strdup_printf ("%s: %s, markov, 16 contexts, budget 25 %%",
                                            sweeps[sweep].title, shape->title);

  for (guint d = 0; axes->devices[d] != NULL; d++)
    for (guint v = 0; sweeps[sweep].values[v] > 0; v++)
      for (guint k = 0; k < 2 && axes->policies[k] != NULL; k++)
        {
          BenchPoint point = get_sweep_point (shape, axes->devices[d],
                                              axes->policies[k]);
          double value = sweeps[sweep].values[v];

          if (sweep == SWEEP_CHUNK)
            point.chunk_slots = (guint) value;
          else if (sweep == SWEEP_LENGTH)
            point.max_slots = (guint) value;
          else
            point.interval_s = value;
          g_array_append_val (points, point);
          g_ptr_array_add (labels, g_strdup_printf ("%g", value));
        }
  return run_points (grid, title, sweeps[sweep].label, points, labels, is_silent, error);
}

gboolean
bench_sweeps_run (const BenchAxes *axes,
                  BenchGrid       *grid,
                  gboolean         is_silent,
                  GError         **error)
{
  for (Sweep sweep = 0; sweep < N_SWEEPS; sweep++)
    if (!run_sweep (axes, grid, sweep, is_silent, error))
      return FALSE;
  return TRUE;
}
