/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Several residual streams (AltUp, Baykal and others 2023), of which each layer
 * computes the first: before it, all streams are predicted from each other, and
 * behind it corrected by what it changed. And the short way of low rank around
 * attention that comes with them (LAuReL, Menghani and others 2024).
 */

#include "forward/llm-forward-private.h"

#include <math.h>
#include <string.h>

typedef struct
{
  LlmStep *self;
  const float *vector;   /* (nullable) */
} Work;

static void
run_rows (LlmStep     *self,
          guint        n_rows,
          guint        n_values,
          LlmWorkFunc  func,
          const float *vector)
{
  Work work = { self, vector };

  llm_worker_pool_run (self->pool, n_rows, llm_step_get_grain (n_values), func, &work);
}

static float *
get_streams (LlmStep *self,
             guint    row)
{
  return self->scratch.streams + (gsize) row * self->hparams->n_streams * self->hparams->n_embd;
}

/* As the sets of instructions have it: sixteen sums, so that all give the same. */
static float
get_length (const float *x,
            gsize        n)
{
  float sums[16] = { 0 }, sum = 0;

  for (gsize i = 0; i < n; i++)
    sums[i % 16] += x[i] * x[i];
  for (guint lane = 0; lane < 16; lane++)
    sum += sums[lane];
  return sqrtf (sum);
}

/* Scales @x, as long as @length then; zeros stay. */
static void
set_length (float *x,
            gsize  n,
            float  length)
{
  float own = get_length (x, n);

  for (gsize i = 0; own > 0 && i < n; i++)
    x[i] = x[i] * length / own;
}

static void
begin_rows (guint    first,
            guint    end,
            guint    worker,
            gpointer data)
{
  LlmStep *self = ((const Work *) data)->self;
  gsize n = self->hparams->n_embd, n_others = self->hparams->n_streams - 1;

  for (guint r = first; r < end; r++)
    {
      float *streams = get_streams (self, r);
      const float *x = self->scratch.x + r * n;
      float length = get_length (x, n);

      memcpy (streams, x, n * sizeof *x);
      memcpy (streams + n, self->scratch.projected + r * n_others * n, n_others * n * sizeof *x);
      for (gsize i = 1; i <= n_others; i++)
        set_length (streams + i * n, n, length);
    }
}

void
llm_forward_begin_streams (LlmStep            *self,
                           const float *const *vectors)
{
  run_rows (self, self->batch->n_rows, 4 * self->hparams->n_streams * self->hparams->n_embd,
            begin_rows, NULL);
}

/* What the router reads: normalized, and divided by how many values there are. */
static void
normalize_row (LlmStep     *self,
               const float *x,
               const float *norm,
               float       *out)
{
  const LlmHparams *h = self->hparams;

  self->kernels->vector->rms_norm (x, norm, h->norms.eps, out, h->n_embd);
  for (guint i = 0; i < h->n_embd; i++)
    out[i] *= 1 / (float) h->n_embd;
}

static void
normalize_first_rows (guint    first,
                      guint    end,
                      guint    worker,
                      gpointer data)
{
  const Work *work = data;
  LlmStep *self = work->self;
  gsize n = self->hparams->n_embd;

  for (guint r = first; r < end; r++)
    normalize_row (self, get_streams (self, r), work->vector, self->scratch.normed + r * n);
}

static void
normalize_x_rows (guint    first,
                  guint    end,
                  guint    worker,
                  gpointer data)
{
  const Work *work = data;
  LlmStep *self = work->self;
  gsize n = self->hparams->n_embd;

  for (guint r = first; r < end; r++)
    normalize_row (self, self->scratch.x + r * n, work->vector, self->scratch.normed + r * n);
}

void
llm_forward_normalize_first_stream (LlmStep            *self,
                                    const float *const *norm)
{
  run_rows (self, self->batch->n_rows, 3 * self->hparams->n_embd, normalize_first_rows, norm[0]);
}

void
llm_forward_normalize_for_router (LlmStep            *self,
                                  const float *const *norm)
{
  run_rows (self, self->batch->n_rows, 3 * self->hparams->n_embd, normalize_x_rows, norm[0]);
}

void
llm_forward_bend_modes (LlmStep            *self,
                        const float *const *vectors)
{
  gsize n = (gsize) self->batch->n_rows * self->hparams->n_streams;

  for (gsize i = 0; i < n; i++)
    self->scratch.modes[i] = tanhf (self->scratch.modes[i]);
}

/* All sums are of the streams as they were before. */
static void
mix_rows (guint    first,
          guint    end,
          guint    worker,
          gpointer data)
{
  LlmStep *self = ((const Work *) data)->self;
  gsize n = self->hparams->n_embd, n_streams = self->hparams->n_streams;
  g_autofree float *before = g_new (float, n_streams * n);

  for (guint r = first; r < end; r++)
    {
      float *streams = get_streams (self, r);
      const float *mixing = self->scratch.mixing + r * n_streams * n_streams;

      memcpy (before, streams, n_streams * n * sizeof *before);
      for (gsize to = 0; to < n_streams; to++)
        for (gsize from = 0; from < n_streams; from++)
          for (gsize i = 0; i < n; i++)
            streams[to * n + i] += mixing[to * n_streams + from] * before[from * n + i];
      memcpy (self->scratch.x + r * n, streams, n * sizeof *streams);
    }
}

void
llm_forward_mix_streams (LlmStep            *self,
                         const float *const *vectors)
{
  guint n_streams = self->hparams->n_streams;

  run_rows (self, self->batch->n_rows, n_streams * n_streams * self->hparams->n_embd, mix_rows, NULL);
}

static void
correct_rows (guint    first,
              guint    end,
              guint    worker,
              gpointer data)
{
  const Work *work = data;
  LlmStep *self = work->self;
  gsize n = self->hparams->n_embd, n_streams = self->hparams->n_streams;

  for (guint r = first; r < end; r++)
    {
      float *streams = get_streams (self, r);
      float *x = self->scratch.x + r * n;
      const float *mixing = self->scratch.mixing + r * n_streams;

      for (gsize i = 0; i < n; i++)
        x[i] -= streams[i];
      for (gsize to = 0; to < n_streams; to++)
        for (gsize i = 0; i < n; i++)
          streams[to * n + i] += x[i] * (mixing[to] + 1);
      for (gsize i = 0; i < n; i++)
        x[i] = streams[i] * work->vector[i];
    }
}

void
llm_forward_correct_streams (LlmStep            *self,
                             const float *const *scale)
{
  run_rows (self, self->batch->n_rows, 2 * self->hparams->n_streams * self->hparams->n_embd,
            correct_rows, scale[0]);
}

static void
end_laurel_rows (guint    first,
                 guint    end,
                 guint    worker,
                 gpointer data)
{
  const Work *work = data;
  LlmStep *self = work->self;
  gsize n = self->hparams->n_embd;

  for (guint r = first; r < end; r++)
    {
      float *laurel = self->scratch.laurel + r * n;

      self->kernels->vector->rms_norm (laurel, work->vector, self->hparams->norms.eps, laurel, n);
      self->kernels->vector->add (laurel, self->scratch.normed + r * n, n);
    }
}

void
llm_forward_end_laurel (LlmStep            *self,
                        const float *const *norm)
{
  run_rows (self, self->batch->n_rows, 3 * self->hparams->n_embd, end_laurel_rows, norm[0]);
}

static void
add_laurel_rows (guint    first,
                 guint    end,
                 guint    worker,
                 gpointer data)
{
  LlmStep *self = ((const Work *) data)->self;
  gsize n = self->hparams->n_embd;

  for (guint r = first; r < end; r++)
    {
      float *x = self->scratch.x + r * n;
      const float *laurel = self->scratch.laurel + r * n;

      for (gsize i = 0; i < n; i++)
        x[i] = (x[i] + laurel[i]) * (float) (G_SQRT2 / 2);
    }
}

void
llm_forward_add_laurel (LlmStep            *self,
                        const float *const *vectors)
{
  run_rows (self, self->batch->n_rows, 2 * self->hparams->n_embd, add_laurel_rows, NULL);
}

/* --- behind the layers --- */

G_STATIC_ASSERT (LLM_MAX_STREAMS <= LLM_STAGE_MAX_OPS);

/* Of each row that wants logits the other streams, one row behind the other, and the first to x. */
static void
gather_rows (guint    first,
             guint    end,
             guint    worker,
             gpointer data)
{
  LlmStep *self = ((const Work *) data)->self;
  gsize n = self->hparams->n_embd, n_others = self->hparams->n_streams - 1;

  for (guint i = first; i < end; i++)
    {
      guint r = self->rows.wanting[i];
      const float *streams = get_streams (self, r);

      memcpy (self->scratch.x + r * n, streams, n * sizeof *streams);
      memcpy (self->scratch.projected + i * n_others * n, streams + n,
              n_others * n * sizeof *streams);
    }
}

/* The place of the streams has what they became, row behind row. */
static void
join_rows (guint    first,
           guint    end,
           guint    worker,
           gpointer data)
{
  LlmStep *self = ((const Work *) data)->self;
  gsize n = self->hparams->n_embd, n_others = self->hparams->n_streams - 1;

  for (guint i = first; i < end; i++)
    {
      float *x = self->scratch.x + self->rows.wanting[i] * n;
      float *others = self->scratch.streams + i * n_others * n;
      float length = get_length (x, n);

      for (gsize at = 0; at < n_others; at++)
        {
          set_length (others + at * n, n, length);
          self->kernels->vector->add (x, others + at * n, n);
        }
      for (gsize j = 0; j < n; j++)
        x[j] *= 1 / (float) (n_others + 1);
    }
}

LlmStatus
llm_forward_run_streams_end (LlmStep         *self,
                             const LlmStage  *stage,
                             GError         **error)
{
  guint n = self->hparams->n_embd, n_others = self->hparams->n_streams - 1;
  guint n_values = 4 * n_others * n;

  if (self->hold->phase > 0)
    {
      run_rows (self, self->rows.n_logits, n_values, join_rows, NULL);
      return LLM_READY;
    }
  run_rows (self, self->rows.n_logits, n_values, gather_rows, NULL);
  for (guint i = 0; i < n_others; i++)
    {
      /* behind the view that is held */
      LlmWeightView *view = &self->hold->views[1 + i];
      const LlmRows rows = { self->scratch.projected + (gsize) i * n, (gsize) n_others * n };
      const LlmProduct product = {
        .pieces = view,
        .n_rows = &self->rows.n_logits,
        .n_pieces = 1,
        .y = self->scratch.streams + (gsize) i * n,
        .y_stride = (gsize) n_others * n,
      };

      *view = llm_step_cut_view (&self->hold->views[0], i, n);
      llm_step_add_product (self, LLM_N_OPS, &rows, self->rows.n_logits, &product);
    }
  return llm_step_submit (self, error);
}
