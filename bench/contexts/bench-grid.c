/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "contexts/bench-contexts.h"

#include "contexts/bench-replay.h"
#include "support/llm-test-folder.h"

/* One replay and the cells that it fills. */
typedef struct
{
  BenchGrid *grid;
  GPtrArray *cells;      /* (element-type BenchCell) (unowned) */
  BenchRates rates;
  guint64 n_calls;
  double seconds;
  GError *error;
} Task;

static void
cell_free (gpointer data)
{
  BenchCell *cell = data;

  g_clear_pointer (&cell->waits, g_array_unref);
  g_free (cell);
}

void
bench_grid_init (BenchGrid *self)
{
  self->cells = g_ptr_array_new_with_free_func (cell_free);
  self->by_key = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
}

void
bench_grid_clear (BenchGrid *self)
{
  g_hash_table_unref (self->by_key);
  g_ptr_array_unref (self->cells);
}

/* Without a device: of the replay. */
static char *
make_key (const BenchPoint *point,
          gboolean          has_device)
{
  return g_strdup_printf ("%s %u %u %.4f %s %u %u %.1f %s", point->shape->name, point->pattern,
                          point->n_contexts, point->share, point->policy->name,
                          point->chunk_slots, point->max_slots, point->interval_s,
                          has_device ? point->device->name : "");
}

void
bench_grid_add (BenchGrid        *self,
                const BenchPoint *point)
{
  g_autofree char *key = make_key (point, TRUE);
  BenchCell *cell;

  if (g_hash_table_contains (self->by_key, key))
    return;
  cell = g_new0 (BenchCell, 1);
  cell->point = *point;
  g_ptr_array_add (self->cells, cell);
  g_hash_table_insert (self->by_key, g_steal_pointer (&key), cell);
}

const BenchCell *
bench_grid_find (BenchGrid        *self,
                 const BenchPoint *point)
{
  g_autofree char *key = make_key (point, TRUE);

  return g_hash_table_lookup (self->by_key, key);
}

/* --- one replay --- */

static BenchTrace *
make_trace (BenchGrid        *self,
            const BenchPoint *point,
            guint             n_contexts)
{
  const BenchTraceConfig config = {
    .pattern = point->pattern,
    .n_contexts = n_contexts,
    .max_slots = point->max_slots,
    /* as many calls, whatever their rate */
    .hours = self->hours * point->interval_s / 300,
    .interval_s = point->interval_s,
    .seed = self->seed,
  };

  return bench_trace_new (&config);
}

static void
fill_cell (BenchCell               *cell,
           const GArray            *switches,
           const BenchReplayConfig *config)
{
  guint n = switches->len;
  g_autofree double *waits = g_new (double, n + 1);
  g_autofree double *reads = g_new (double, n + 1);
  g_autofree double *overlapped = g_new (double, n + 1);
  guint n_counted = 0, n_least;

  for (guint i = 0; i < n; i++)
    {
      const BenchSwitch *s = &g_array_index (switches, BenchSwitch, i);
      BenchPrice price;

      if (!s->is_counted)
        continue;
      price = bench_switch_price (s, config->policy, cell->point.device, config->rates);
      waits[n_counted] = price.wait_us;
      reads[n_counted] = price.read_us;
      overlapped[n_counted] = price.overlapped_us;
      cell->read_bytes += s->read_bytes;
      cell->written_bytes += s->written_bytes;
      cell->n_recomputed += s->n_recomputed;
      cell->n_resident += s->read_bytes == 0 && s->n_recomputed == 0 ? 1 : 0;
      n_counted++;
    }
  cell->waits = g_array_new (FALSE, FALSE, sizeof (double));
  g_array_append_vals (cell->waits, waits, n_counted);
  cell->wait = bench_latency_new (waits, n_counted);
  cell->read = bench_latency_new (reads, n_counted);
  cell->overlapped = bench_latency_new (overlapped, n_counted);
  n_least = MAX (n_counted, 1);
  cell->read_bytes /= n_least;
  cell->written_bytes /= n_least;
  cell->n_recomputed /= n_least;
  cell->n_resident /= n_least;
  cell->budget = config->budget;
}

/* A share of what the contexts hold, and no less than the context of a call that runs may take
 * where chunks stay floats. */
static double
get_budget (const BenchPoint *point,
            const BenchTrace *all)
{
  double packed = bench_replay_get_slot_bytes (point->shape, point->chunk_slots, LLK_KV_Q8);
  double floats = bench_replay_get_slot_bytes (point->shape, point->chunk_slots, LLK_KV_F16);

  return MAX (point->share * all->mean_slots * packed,
              (point->max_slots + 2.0 * point->chunk_slots) * floats);
}

static const BenchPoint *
get_first_point (Task *task)
{
  return &((BenchCell *) g_ptr_array_index (task->cells, 0))->point;
}

static void
run_task (gpointer data,
          gpointer user_data)
{
  Task *task = data;
  BenchGrid *self = task->grid;
  const BenchPoint *point = get_first_point (task);
  g_autoptr(BenchTrace) trace = make_trace (self, point, point->n_contexts);
  g_autoptr(BenchTrace) all = make_trace (self, point, BENCH_GRID_ALL_CONTEXTS);
  g_autofree char *folder = bench_make_folder (self->folder, &task->error);
  const BenchReplayConfig config = {
    .shape = point->shape,
    .policy = point->policy,
    .trace = trace,
    .budget = get_budget (point, all),
    .rates = &task->rates,
    .device = point->device,
    .chunk_slots = point->chunk_slots,
    .folder = folder,
  };
  g_autoptr(GArray) switches = NULL;
  gint64 begin = g_get_monotonic_time ();

  if (folder == NULL)
    return;
  switches = bench_replay_run (&config, &task->error);
  llm_test_folder_remove (folder);
  if (switches == NULL)
    return;
  for (guint i = 0; i < task->cells->len; i++)
    fill_cell (g_ptr_array_index (task->cells, i), switches, &config);
  task->n_calls = switches->len;
  task->seconds = (double) (g_get_monotonic_time () - begin) / 1e6;
}

/* --- all --- */

static void
task_free (gpointer data)
{
  Task *task = data;

  g_ptr_array_unref (task->cells);
  g_clear_error (&task->error);
  g_free (task);
}

static gboolean
make_tasks (BenchGrid  *self,
            GPtrArray  *tasks,
            GError    **error)
{
  g_autoptr(GHashTable) by_replay = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);

  for (guint i = self->n_run; i < self->cells->len; i++)
    {
      BenchCell *cell = g_ptr_array_index (self->cells, i);
      g_autofree char *key = make_key (&cell->point, bench_policy_plans (cell->point.policy));
      Task *task = g_hash_table_lookup (by_replay, key);

      if (task == NULL)
        {
          task = g_new0 (Task, 1);
          task->grid = self;
          task->cells = g_ptr_array_new ();
          g_ptr_array_add (tasks, task);
          if (!bench_rate_file_get_rates (self->rates, cell->point.shape, &task->rates, error))
            return FALSE;
          g_hash_table_insert (by_replay, g_steal_pointer (&key), task);
        }
      g_ptr_array_add (task->cells, cell);
    }
  return TRUE;
}

gboolean
bench_grid_run (BenchGrid *self,
                GError   **error)
{
  g_autoptr(GPtrArray) tasks = g_ptr_array_new_with_free_func (task_free);
  GThreadPool *pool;

  if (!make_tasks (self, tasks, error))
    return FALSE;
  pool = g_thread_pool_new (run_task, NULL,
                            (gint) (self->n_jobs > 0 ? self->n_jobs : g_get_num_processors ()),
                            FALSE, error);
  if (pool == NULL)
    return FALSE;
  for (guint i = 0; i < tasks->len; i++)
    g_thread_pool_push (pool, g_ptr_array_index (tasks, i), NULL);
  g_thread_pool_free (pool, FALSE, TRUE);

  for (guint i = 0; i < tasks->len; i++)
    {
      Task *task = g_ptr_array_index (tasks, i);

      if (task->error != NULL)
        {
          g_autofree char *key = make_key (get_first_point (task), TRUE);

          g_propagate_prefixed_error (error, g_steal_pointer (&task->error), "%s: ", key);
          return FALSE;
        }
      self->seconds += task->seconds;
      self->n_calls += task->n_calls;
    }
  self->n_run = self->cells->len;
  return TRUE;
}
