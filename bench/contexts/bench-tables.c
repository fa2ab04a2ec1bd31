/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "contexts/bench-contexts.h"

#include <stdio.h>

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
    .device = device,
    .pattern = pattern,
    .share = share,
    .n_contexts = n_contexts,
    .policy = policy,
    .chunk_slots = LLM_KV_CHUNK_SLOTS,
    .max_slots = shape->max_slots,
    .interval_s = 300,
  };
}

/* (transfer full) (element-type BenchPoint): all that is asked for, policies changing fastest.
 * @shape, @device: (nullable): all. @contexts: ended by 0. */
static GArray *
get_points (BenchParts            *self,
            const BenchModelShape *shape,
            const BenchDevice     *device,
            const guint           *contexts)
{
  GArray *points = g_array_new (FALSE, FALSE, sizeof (BenchPoint));

  for (guint s = 0; s < self->shapes->len; s++)
    for (guint d = 0; d < self->devices->len; d++)
      for (BenchPattern p = 0; p < self->n_patterns; p++)
        for (const double *share = self->shares; *share > 0; share++)
          for (const guint *n = contexts; *n > 0; n++)
            for (guint k = 0; k < self->policies->len; k++)
              {
                BenchPoint point = make_point (self->shapes->pdata[s], self->devices->pdata[d], p,
                                               *share, *n, self->policies->pdata[k]);

                if ((shape == NULL || shape == point.shape) &&
                    (device == NULL || device == point.device))
                  g_array_append_val (points, point);
              }
  return points;
}

static gboolean
run_points (BenchGrid *grid,
            GArray    *points,
            GError   **error)
{
  for (guint i = 0; i < points->len; i++)
    bench_grid_add (grid, &g_array_index (points, BenchPoint, i));
  return bench_grid_run (grid, error);
}

/* A column for each policy behind those of @labels, of which there are @n_labels. */
static void
print_policies_head (BenchParts *self,
                     const char *labels,
                     guint       n_labels)
{
  printf ("\n| %s |", labels);
  for (guint k = 0; k < self->policies->len; k++)
    printf (" %s |", ((const LlmKvPolicy *) self->policies->pdata[k])->name);
  printf ("\n|");
  for (guint i = 0; i < n_labels + self->policies->len; i++)
    printf ("---|");
  printf ("\n");
}

/* --- the grid --- */

/* All patterns together. */
static BenchLatency
pool_patterns (BenchParts *self,
               BenchPoint  point)
{
  g_autoptr(GArray) waits = g_array_new (FALSE, FALSE, sizeof (double));

  for (point.pattern = 0; point.pattern < self->n_patterns; point.pattern++)
    {
      const BenchCell *cell = bench_grid_find (&self->grid, &point);

      g_array_append_vals (waits, cell->waits->data, cell->waits->len);
    }
  return bench_latency_new ((double *) waits->data, waits->len);
}

static void
print_latencies (BenchParts            *self,
                 const BenchModelShape *shape,
                 const BenchDevice     *device)
{
  g_autoptr(GArray) points = get_points (self, shape, device, self->contexts);
  guint n_policies = self->policies->len, n = points->len / self->n_patterns;

  printf ("\n%s, %s: switching latency in ms, mean (p50 / p95 / p99), all patterns\n", shape->title,
          device->name);
  print_policies_head (self, "budget | contexts", 2);
  for (guint i = 0; i < n; i++)
    {
      const BenchPoint *point = &g_array_index (points, BenchPoint, i);
      BenchLatency latency = pool_patterns (self, *point);

      if (i % n_policies == 0)
        printf ("| %.0f %% | %u |", 100 * point->share, point->n_contexts);
      printf (" %.3g (%.3g / %.3g / %.3g) |", latency.mean / MS, latency.p50 / MS,
              latency.p95 / MS, latency.p99 / MS);
      if (i % n_policies == n_policies - 1)
        printf ("\n");
    }
}

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

/* How a device's other policies compare with the first one. */
static void
print_comparison (BenchParts            *self,
                  const BenchModelShape *shape,
                  const BenchDevice     *device)
{
  g_autoptr(GArray) points = get_points (self, shape, device, self->contexts);
  guint n_policies = self->policies->len;

  for (guint k = 1; k < n_policies; k++)
    {
      Comparison c = { 0 };

      for (guint i = 0; i < points->len; i += n_policies)
        compare_cells (&c, bench_grid_find (&self->grid, &g_array_index (points, BenchPoint, i)),
                       bench_grid_find (&self->grid, &g_array_index (points, BenchPoint, i + k)));
      printf ("| %s | %s | %.3g | %.3g | %.3g | %.3g | %.3g | %.3g | %.3g |\n", device->name,
              ((const LlmKvPolicy *) self->policies->pdata[k])->name,
              bench_ratios_get_mean (&c.means), c.means.least, c.means.most,
              c.sums[0] > 0 ? c.sums[1] / c.sums[0] : 0, bench_ratios_get_mean (&c.calls),
              bench_ratios_get_mean (&c.overlapped), bench_ratios_get_mean (&c.reads));
    }
}

gboolean
bench_grid_part (BenchParts *self,
                 GError    **error)
{
  g_autoptr(GArray) points = get_points (self, NULL, NULL, self->contexts);

  if (!run_points (&self->grid, points, error))
    return FALSE;
  for (guint s = 0; s < self->shapes->len && !self->is_silent; s++)
    {
      const BenchModelShape *shape = self->shapes->pdata[s];

      if (self->policies->len > 1)
        printf ("\n%s: latency of others divided by that of %s, all patterns, budgets and numbers "
                "of contexts\n\n| device | policy | geometric mean of cells | least | best | "
                "ratio of means | geometric mean of switches | if all overlapped | without a prompt "
                "|\n|---|---|---|---|---|---|---|---|---|\n", shape->title,
                ((const LlmKvPolicy *) self->policies->pdata[0])->name);
      for (guint d = 0; d < self->devices->len; d++)
        print_comparison (self, shape, self->devices->pdata[d]);
      for (guint d = 0; d < self->devices->len; d++)
        print_latencies (self, shape, self->devices->pdata[d]);
    }
  return TRUE;
}

/* --- the most contexts under a latency --- */

/* Numbers of contexts that are tried, in this order, until the mean latency exceeds all limits. */
static const guint counts[] = { 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64 };
/* Milliseconds. */
static const double limits[] = { 10, 25 };

#define N_COUNTS G_N_ELEMENTS (counts)
#define N_LIMITS G_N_ELEMENTS (limits)

typedef struct
{
  guint most[N_LIMITS];      /* contexts under each limit; 0: not even the fewest */
  gboolean is_above[N_LIMITS];
  gboolean has_ended;        /* above all */
} Capacity;

/* Once above a limit, a lucky trace of more contexts does not count. */
static void
take_result (Capacity        *self,
             const BenchCell *cell)
{
  self->has_ended = TRUE;
  for (guint i = 0; i < N_LIMITS; i++)
    {
      self->is_above[i] = self->is_above[i] || cell->wait.mean >= limits[i] * 1000;
      if (self->is_above[i])
        continue;
      self->most[i] = cell->point.n_contexts;
      self->has_ended = FALSE;
    }
}

static gboolean
try_count (BenchGrid *grid,
           GArray    *points,
           Capacity  *capacities,
           guint      n_contexts,
           GError   **error)
{
  for (guint i = 0; i < points->len; i++)
    {
      BenchPoint *point = &g_array_index (points, BenchPoint, i);

      point->n_contexts = n_contexts;
      if (!capacities[i].has_ended)
        bench_grid_add (grid, point);
    }
  if (!bench_grid_run (grid, error))
    return FALSE;
  for (guint i = 0; i < points->len; i++)
    if (!capacities[i].has_ended)
      take_result (&capacities[i], bench_grid_find (grid, &g_array_index (points, BenchPoint, i)));
  return TRUE;
}

static void
print_capacities (BenchParts     *self,
                  GArray         *points,
                  const Capacity *capacities,
                  guint           limit)
{
  guint n_policies = self->policies->len;

  printf ("\n%s: most contexts under %.0f ms on average (1: not even two; ≥: not more than %u "
          "were tried)\n", g_array_index (points, BenchPoint, 0).shape->title, limits[limit],
          counts[N_COUNTS - 1]);
  print_policies_head (self, "device | pattern | budget", 3);
  for (guint i = 0; i < points->len; i++)
    {
      const BenchPoint *point = &g_array_index (points, BenchPoint, i);
      guint most = capacities[i].most[limit];

      if (i % n_policies == 0)
        printf ("| %s | %s | %.0f %% |", point->device->name, bench_pattern_names[point->pattern],
                100 * point->share);
      /* One context needs no switch. */
      printf (" %s%u |", most == counts[N_COUNTS - 1] ? "≥ " : "", MAX (most, 1));
      if (i % n_policies == n_policies - 1)
        printf ("\n");
    }
}

static JsonObject *
make_point_json (const BenchPoint *point)
{
  JsonObject *object = json_object_new ();

  json_object_set_string_member (object, "shape", point->shape->name);
  json_object_set_string_member (object, "pattern", bench_pattern_names[point->pattern]);
  json_object_set_string_member (object, "policy", point->policy->name);
  json_object_set_string_member (object, "device", point->device->name);
  json_object_set_double_member (object, "budget-share", point->share);
  return object;
}

/* Many replays: of the largest model alone. */
gboolean
bench_capacity_part (BenchParts *self,
                     GError    **error)
{
  static const guint none[] = { 1, 0 };
  g_autoptr(GArray) points = get_points (self, self->shapes->pdata[self->shapes->len - 1], NULL, none);
  g_autofree Capacity *capacities = g_new0 (Capacity, points->len);
  JsonArray *list;

  for (guint n = 0; n < N_COUNTS; n++)
    if (!try_count (&self->grid, points, capacities, counts[n], error))
      return FALSE;
  for (guint limit = 0; limit < N_LIMITS && !self->is_silent; limit++)
    print_capacities (self, points, capacities, limit);
  list = json_array_new ();
  for (guint i = 0; i < points->len; i++)
    {
      JsonObject *line = make_point_json (&g_array_index (points, BenchPoint, i));

      for (guint k = 0; k < N_LIMITS; k++)
        {
          g_autofree char *name = g_strdup_printf ("contexts-under-%.0f-ms", limits[k]);

          json_object_set_int_member (line, name, capacities[i].most[k]);
        }
      json_array_add_object_element (list, line);
    }
  json_object_set_array_member (self->json, "capacity", list);
  return TRUE;
}

/* --- one point: many contexts in little memory --- */

static BenchPoint
make_sweep_point (const BenchModelShape *shape,
                  const BenchDevice     *device,
                  const LlmKvPolicy     *policy)
{
  return make_point (shape, device, BENCH_MARKOV, 0.25, 16, policy);
}

/* Runs all @points, of which @labels (element-type utf8) say what changes. */
static gboolean
run_rows (BenchParts *self,
          const char *title,
          const char *label,
          GArray     *points,
          GPtrArray  *labels,
          GError    **error)
{
  if (!run_points (&self->grid, points, error))
    return FALSE;
  if (self->is_silent)
    return TRUE;
  printf ("\n%s\n\n| %s | policy | device | mean ms | p50 | p95 | p99 | all was there | MiB read | "
          "rows recomputed | MiB written while waiting |\n"
          "|---|---|---|---|---|---|---|---|---|---|---|\n", title, label);
  for (guint i = 0; i < points->len; i++)
    {
      const BenchCell *cell = bench_grid_find (&self->grid, &g_array_index (points, BenchPoint, i));

      printf ("| %s | %s | %s | %.3g | %.3g | %.3g | %.3g | %.0f %% | %.3g | %.1f | %.3g |\n",
              (const char *) labels->pdata[i], cell->point.policy->name, cell->point.device->name,
              cell->wait.mean / MS, cell->wait.p50 / MS, cell->wait.p95 / MS, cell->wait.p99 / MS,
              100 * cell->n_resident, cell->read_bytes / MIB, cell->n_recomputed,
              cell->written_bytes / MIB);
    }
  return TRUE;
}

gboolean
bench_ablations_part (BenchParts *self,
                      GError    **error)
{
  static const char *const ablations[] = { "llms", "llms-no-compression", "llms-no-pipeline",
                                           "llms-no-lifecycle" };
  g_autoptr(GArray) points = g_array_new (FALSE, FALSE, sizeof (BenchPoint));
  g_autoptr(GPtrArray) labels = g_ptr_array_new ();

  for (guint s = 0; s < self->shapes->len; s++)
    for (guint d = 0; d < self->devices->len; d++)
      for (guint k = 0; k < G_N_ELEMENTS (ablations); k++)
        {
          BenchPoint point = make_sweep_point (self->shapes->pdata[s], self->devices->pdata[d],
                                               llm_kv_policy_find (ablations[k]));

          g_array_append_val (points, point);
          g_ptr_array_add (labels, (gpointer) point.shape->name);
        }
  return run_rows (self, "Ablations: markov, 16 contexts, budget 25 %", "model", points, labels,
                   error);
}

typedef enum { SWEEP_CHUNK, SWEEP_LENGTH, SWEEP_RATE, N_SWEEPS } Sweep;

static const struct
{
  const char *title;
  const char *label;
  double values[4];
} sweeps[N_SWEEPS] = {
  { "Sweep of the tokens in a chunk", "tokens in a chunk", { 16, 32, 48, 64 } },
  { "Sweep of the longest context", "tokens at most", { 512, 1024, 2048, 4096 } },
  { "Sweep of the rate of calls", "seconds between calls", { 300, 60, 15, 5 } },
};

static gboolean
run_sweep (BenchParts *self,
           Sweep       sweep,
           GError    **error)
{
  g_autoptr(GArray) points = g_array_new (FALSE, FALSE, sizeof (BenchPoint));
  g_autoptr(GPtrArray) labels = g_ptr_array_new_with_free_func (g_free);
  const BenchModelShape *shape = self->shapes->pdata[self->shapes->len - 1];
  g_autofree char *title = g_strdup_printf ("%s: %s, markov, 16 contexts, budget 25 %%",
                                            sweeps[sweep].title, shape->title);

  for (guint d = 0; d < self->devices->len; d++)
    for (guint v = 0; v < G_N_ELEMENTS (sweeps[sweep].values); v++)
      for (guint k = 0; k < MIN (self->policies->len, 2); k++)
        {
          BenchPoint point = make_sweep_point (shape, self->devices->pdata[d],
                                               self->policies->pdata[k]);
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
  return run_rows (self, title, sweeps[sweep].label, points, labels, error);
}

/* Of the last model, with the first two policies. */
gboolean
bench_sweeps_part (BenchParts *self,
                   GError    **error)
{
  for (Sweep sweep = 0; sweep < N_SWEEPS; sweep++)
    if (!run_sweep (self, sweep, error))
      return FALSE;
  return TRUE;
}

/* --- JSON --- */

static void
set_latency (JsonObject         *object,
             const char         *name,
             const BenchLatency *latency)
{
  JsonObject *member = json_object_new ();

  json_object_set_double_member (member, "mean-ms", latency->mean / MS);
  json_object_set_double_member (member, "p50-ms", latency->p50 / MS);
  json_object_set_double_member (member, "p95-ms", latency->p95 / MS);
  json_object_set_double_member (member, "p99-ms", latency->p99 / MS);
  json_object_set_double_member (member, "most-ms", latency->most / MS);
  json_object_set_object_member (object, name, member);
}

void
bench_cells_set_json (BenchGrid  *grid,
                      JsonObject *object)
{
  JsonArray *list = json_array_new ();

  for (guint i = 0; i < grid->cells->len; i++)
    {
      const BenchCell *cell = grid->cells->pdata[i];
      const struct
      {
        const char *name;
        double number;
      } numbers[] = {
        { "contexts", cell->point.n_contexts }, { "budget-bytes", cell->budget },
        { "chunk-slots", cell->point.chunk_slots }, { "max-slots", cell->point.max_slots },
        { "interval-s", cell->point.interval_s }, { "switches", cell->wait.n },
        { "resident-share", cell->n_resident }, { "read-bytes", cell->read_bytes },
        { "written-bytes", cell->written_bytes }, { "recomputed-rows", cell->n_recomputed },
      };
      JsonObject *member = make_point_json (&cell->point);

      for (guint k = 0; k < G_N_ELEMENTS (numbers); k++)
        json_object_set_double_member (member, numbers[k].name, numbers[k].number);
      set_latency (member, "wait", &cell->wait);
      set_latency (member, "without-prompt", &cell->read);
      set_latency (member, "if-overlapped", &cell->overlapped);
      json_array_add_object_element (list, member);
    }
  json_object_set_array_member (object, "cells", list);
}
