/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "contexts/bench-measure.h"

/* Where the cost of depth is measured: half of the longest context, or less. */
#define DEPTH_SLOTS 2048
#define DEPTH_ROWS 256
/* All steps of LlmKvProfile on an empty context, one behind many slots, and the beginning of a call
 * in a context that is altogether there. */
#define DEEP LLM_KV_PROFILE_POINTS
#define RESIDENT (DEEP + 1)
#define N_POINTS (RESIDENT + 1)
/* Short steps are repeated for so long, and their median is one sample. */
#define SAMPLE_US 5000
#define MAX_REPEATS 31
/* Of a median: what its interval of 95 % may be wide. */
#define MAX_WIDTH 0.3

double
bench_rounds_median (BenchFigure *figure,
                     guint        n_samples,
                     guint        n_rounds)
{
  guint n = figure->samples->len;
  guint n_last = n_rounds == 0 ? n : MIN (n, n_samples * n_rounds);
  g_autofree double *last =
    g_memdup2 (&g_array_index (figure->samples, double, n - n_last), n_last * sizeof (double));

  return bench_latency_new (last, n_last).p50;
}

struct _BenchSteps
{
  const BenchModelShape *shape;
  BenchEngine *engine;
  LlmKvStore *store;
  LlmKvSeq *filled;       /* (nullable): of depth slots */
  guint depth;
  LlmKvStore *thin_store;
  LlmKvSeq *resident;     /* (nullable): in thin_store, of the greatest length */
  GPtrArray *figures;     /* (element-type BenchFigure): of points */
};

static gboolean
begin_call (LlmKvSeq *sequence,
            guint     n_new,
            GError  **error)
{
  LlmKvPlan plan;

  return llm_kv_seq_begin_call (sequence, n_new, &plan, error) &&
         llm_kv_seq_make_resident (sequence, 0, error) == LLM_READY;
}

static gboolean
begin_resident (BenchSteps *self,
                GError    **error)
{
  return begin_call (self->resident, LLM_KV_CHUNK_SLOTS, error);
}

static gboolean
make_contexts (BenchSteps        *self,
               const LlmKvPolicy *policy,
               GError           **error)
{
  const LlmKvLayout thin = bench_model_shape_get_layout (self->shape, LLM_KV_CHUNK_SLOTS, TRUE);

  self->store = bench_engine_new_store (self->engine, policy, error);
  if (self->store == NULL)
    return FALSE;
  self->filled = llm_kv_seq_new (self->store, NULL, NULL);
  self->depth = MIN (DEPTH_SLOTS, self->shape->max_slots / 2);
  self->thin_store = llm_kv_store_new (&thin, &llm_kv_policy_llms, NULL, error);
  if (self->thin_store == NULL || !begin_call (self->filled, self->depth, error) ||
      !bench_sequence_fill (self->filled, self->depth, error))
    return FALSE;
  bench_store_end_call (self->store, self->filled);
  self->resident = llm_kv_seq_new (self->thin_store, NULL, NULL);
  if (!begin_resident (self, error) ||
      !bench_sequence_fill (self->resident, self->shape->max_slots - 2 * LLM_KV_CHUNK_SLOTS, error))
    return FALSE;
  bench_store_end_call (self->thin_store, self->resident);
  return TRUE;
}

BenchSteps *
bench_steps_new (BenchEngine           *engine,
                 const BenchModelShape *shape,
                 const LlmKvPolicy     *policy,
                 GError               **error)
{
  g_autoptr(BenchSteps) self = g_new0 (BenchSteps, 1);

  self->shape = shape;
  self->engine = engine;
  self->figures = bench_figures_new ();
  for (guint point = 0; point < N_POINTS; point++)
    g_ptr_array_add (self->figures, bench_figure_new ("step", "µs"));
  if (!make_contexts (self, policy, error))
    return NULL;
  /* The longest step allocates. */
  bench_engine_prefill (engine, self->filled, NULL, LLM_BATCH_MAX_ROWS, NULL);
  llm_kv_seq_truncate (self->filled, self->depth);
  return g_steal_pointer (&self);
}

void
bench_steps_free (BenchSteps *self)
{
  if (self == NULL)
    return;
  g_clear_pointer (&self->filled, llm_kv_seq_free);
  g_clear_pointer (&self->resident, llm_kv_seq_free);
  g_clear_pointer (&self->store, llm_kv_store_free);
  g_clear_pointer (&self->thin_store, llm_kv_store_free);
  g_ptr_array_unref (self->figures);
  g_free (self);
}

static guint
get_rows (guint point)
{
  return point < LLM_KV_PROFILE_POINTS ? llm_kv_profile_rows[point] : DEPTH_ROWS;
}

/* Microseconds. */
static double
time_step (BenchSteps *self,
           guint       point)
{
  g_autoptr(LlmKvSeq) sequence = NULL;
  gint64 begin_us;

  if (point != RESIDENT)
    {
      sequence = point == DEEP ? llm_kv_seq_fork (self->filled, NULL, NULL)
                               : llm_kv_seq_new (self->store, NULL, NULL);
      return 1e6 * bench_engine_prefill (self->engine, sequence, NULL, get_rows (point), NULL);
    }
  begin_us = g_get_monotonic_time ();
  if (!begin_resident (self, NULL))
    g_assert_not_reached ();
  begin_us = g_get_monotonic_time () - begin_us;
  bench_store_end_call (self->thin_store, self->resident);
  return (double) MAX (begin_us, 1);
}

void
bench_steps_run_round (BenchSteps *self)
{
  for (guint point = 0; point < N_POINTS; point++)
    {
      double samples[MAX_REPEATS], sum = 0;
      guint n = 0;

      do
        {
          samples[n] = time_step (self, point);
          sum += samples[n++];
        }
      while (n < MAX_REPEATS && sum < SAMPLE_US);
      bench_figure_add (self->figures->pdata[point], bench_latency_new (samples, n).p50);
    }
}

static double
get_us (BenchSteps *self,
        guint       point,
        guint       n_rounds)
{
  return bench_rounds_median (self->figures->pdata[point], 1, n_rounds);
}

static gboolean
fail_busy (BenchSteps *self,
           guint       point,
           const char *what,
           GError    **error)
{
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_BUSY,
               "Steps of %u rows of the model “%s” took %.3g ms, which is %s: this machine is too "
               "busy to be measured", get_rows (point), self->shape->name,
               get_us (self, point, 0) / 1000, what);
  return FALSE;
}

void
bench_steps_get_rates (BenchSteps *self,
                       guint       n_rounds,
                       BenchRates *rates)
{
  double shallow_us;

  rates->profile = (LlmKvProfile) { 0 };
  for (guint point = 0; point < LLM_KV_PROFILE_POINTS; point++)
    rates->profile.prompt_us[point] = get_us (self, point, n_rounds);
  shallow_us = llm_kv_profile_get_prompt_us (&rates->profile, DEPTH_ROWS, 0);
  rates->profile.depth_us = MAX (get_us (self, DEEP, n_rounds) - shallow_us, 0) / DEPTH_ROWS * 1000 /
                            self->depth;
  rates->resident_us = get_us (self, RESIDENT, n_rounds);
}

gboolean
bench_steps_check (BenchSteps *self,
                   GError    **error)
{
  BenchRates rates;
  double low, high;
  guint outlier;

  for (guint point = 0; point <= DEEP; point++)
    if (!bench_figure_interval (self->figures->pdata[point], &low, &high) ||
        high - low > MAX_WIDTH * get_us (self, point, 0))
      return fail_busy (self, point, "uncertain", error);
  bench_steps_get_rates (self, 0, &rates);
  outlier = bench_steps_find_outlier (llm_kv_profile_rows, rates.profile.prompt_us,
                                      LLM_KV_PROFILE_POINTS, rates.profile.depth_us);
  return outlier == G_MAXUINT ||
         fail_busy (self, outlier, "out of line beside steps of fewer rows", error);
}
