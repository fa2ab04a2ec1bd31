/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Rotary embedding: how fast each pair of values turns, once for each of a
 * model's rotations, and the angles of a step's rows.
 */

#include "forward/llm-forward-private.h"

#include <math.h>
#include <string.h>

/* The pair, as a real number, that turns @n_turns times in the positions of the
 * first training: there n_ctx × base^(-2i / dim) is 2π × n_turns. */
static double
find_pair (const LlmRope *rope,
           guint          dim,
           double         n_turns)
{
  return dim * log (rope->n_ctx / (n_turns * 2 * G_PI)) / (2 * log ((double) rope->base));
}

/* How much of the scaling pair @i gets: none where it turns fast, all where it turns
 * slowly, and some between (YaRN, Peng and others 2023). */
static double
get_scaled_share (const LlmRope *rope,
                  guint          dim,
                  guint          i)
{
  double low, high;

  if (rope->scaling != LLM_ROPE_SCALING_YARN)
    return 1;

  low = MAX (0, floor (find_pair (rope, dim, (double) rope->beta_fast)));
  high = MIN (dim - 1, ceil (find_pair (rope, dim, (double) rope->beta_slow)));
  return CLAMP ((i - low) / MAX (1e-3, high - low), 0, 1);
}

/* @factors: (nullable) [dim / 2], at any address. */
static void
compute_frequencies (const LlmRope *rope,
                     const guint8  *factors,
                     double        *frequencies)
{
  guint dim = rope->dim;

  for (guint i = 0; i < dim / 2; i++)
    {
      double share = get_scaled_share (rope, dim, i);
      float factor = 1;

      if (factors != NULL)
        memcpy (&factor, factors + i * sizeof factor, sizeof factor);
      frequencies[i] = pow ((double) rope->base, -2.0 * i / dim) / (double) factor
                       * (1 - share + share / (double) rope->scale);
    }
}

/* Only the first step computes anything. */
LlmStatus
llm_forward_run_frequencies (LlmStep         *self,
                             const LlmStage  *stage,
                             GError         **error)
{
  const LlmHparams *hparams = self->hparams;
  guint n_pairs = hparams->rope_dim / 2;

  if (self->frequencies != NULL)
    return LLM_READY;

  self->frequencies = g_new0 (double, hparams->n_ropes * n_pairs);
  for (guint i = 0; i < hparams->n_ropes; i++)
    {
      const guint8 *factors = NULL;

      for (guint op = 0; op < stage->n_ops; op++)
        if (hparams->ropes[i].factors == (gint) stage->ops[op])
          factors = self->hold->views[op].data;
      compute_frequencies (&hparams->ropes[i], factors, self->frequencies + i * n_pairs);
    }
  return LLM_READY;
}

/* Items are the rows for the first rotation, then for the second. */
static void
compute_angles (guint    first,
                guint    end,
                guint    worker,
                gpointer data)
{
  LlmStep *self = data;
  guint n_pairs = self->hparams->rope_dim / 2;

  for (guint item = first; item < end; item++)
    {
      guint rope = item / self->batch->n_rows;
      double position = llm_step_get_row (self, item % self->batch->n_rows)->position;
      double magnitude = (double) self->hparams->ropes[rope].magnitude;

      for (guint i = 0; i < n_pairs; i++)
        {
          double angle = position * self->frequencies[rope * n_pairs + i];

          self->scratch.cosine[(gsize) item * n_pairs + i] = (float) (cos (angle) * magnitude);
          self->scratch.sine[(gsize) item * n_pairs + i] = (float) (sin (angle) * magnitude);
        }
    }
}

LlmStatus
llm_forward_run_angles (LlmStep         *self,
                        const LlmStage  *stage,
                        GError         **error)
{
  llm_worker_pool_run (self->pool, self->hparams->n_ropes * self->batch->n_rows,
                       llm_step_get_grain (self->hparams->rope_dim * 16), compute_angles, self);
  return LLM_READY;
}
