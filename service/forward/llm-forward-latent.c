/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Latent attention (MLA, DeepSeek-V2, 2024): one vector of each position is the key
 * and the value of all heads; what a file has to make keys of it is multiplied into
 * the queries instead, and values are made of what attention gives. A few values
 * more, which are rotated, lie behind the vector. So context memory has one head,
 * of the vector as the key and again as the value.
 */

#include "forward/llm-forward-private.h"

#include <string.h>

typedef struct
{
  LlmStep *self;
  const float *norm;
} Work;

static void
normalize_query_rows (guint    first,
                      guint    end,
                      guint    worker,
                      gpointer data)
{
  const Work *work = data;
  LlmStep *self = work->self;
  gsize n = self->hparams->latent.query_rank;

  for (guint r = first; r < end; r++)
    {
      float *low = self->scratch.query_low + r * n;

      self->kernels->vector->rms_norm (low, work->norm, self->hparams->norms.eps, low, n);
    }
}

void
llm_forward_normalize_query_low (LlmStep            *self,
                                 const float *const *norm)
{
  Work work = { self, norm[0] };

  llm_worker_pool_run (self->pool, self->batch->n_rows,
                       llm_step_get_grain (2 * self->hparams->latent.query_rank),
                       normalize_query_rows,
                       &work);
}

/* --- a matrix for each head --- */

/* Heads that are multiplied in one phase: their views are behind the one that is held. */
#define HEADS (LLM_STAGE_MAX_OPS - 1)

/* Of each head, @n_in values of @x, @x_head behind those of the head before, give @n_out of @y. */
static LlmStatus
multiply_heads (LlmStep      *self,
                const float  *x,
                guint         x_head,
                guint         n_out,
                float        *y,
                guint         y_head,
                GError      **error)
{
  LlmHold *hold = self->hold;
  guint n_heads = llm_step_get_layer (self)->n_heads;
  guint first = hold->phase * HEADS;

  if (first >= n_heads)
    return LLM_READY;
  for (guint i = 0; i < HEADS && first + i < n_heads; i++)
    {
      guint head = first + i;
      LlmWeightView *view = &hold->views[1 + i];
      const LlmRows rows = { x + (gsize) head * x_head, (gsize) n_heads * x_head };
      const LlmProduct product = {
        .pieces = view,
        .n_rows = &self->rows.level_rows[0],
        .n_pieces = 1,
        .y = y + (gsize) head * y_head,
        .y_stride = (gsize) n_heads * y_head,
      };

      *view = llm_step_cut_view (&hold->views[0], head, n_out);
      llm_step_add_product (self, LLM_N_OPS, &rows, self->batch->n_rows, &product);
    }
  return llm_step_submit (self, error);
}

LlmStatus
llm_forward_run_query_absorb (LlmStep         *self,
                              const LlmStage  *stage,
                              GError         **error)
{
  const LlmHparams *h = self->hparams;

  return multiply_heads (self, self->scratch.attended, h->latent.query_dim, h->latent.kv_rank,
                         self->scratch.q,
                         llm_step_get_layer (self)->head_dim, error);
}

LlmStatus
llm_forward_run_value_up (LlmStep         *self,
                          const LlmStage  *stage,
                          GError         **error)
{
  return multiply_heads (self, self->scratch.attended, llm_step_get_layer (self)->head_dim,
                         self->hparams->latent.value_dim, self->scratch.q,
                         self->hparams->latent.value_dim, error);
}

/* --- queries, the key, the value --- */

static void
prepare_rows (guint    first,
              guint    end,
              guint    worker,
              gpointer data)
{
  const Work *work = data;
  LlmStep *self = work->self;
  const LlmHparams *h = self->hparams;
  const LlmLayer *layer = llm_step_get_layer (self);
  gsize rotated = h->rope_dim, unrotated = h->latent.query_dim - h->rope_dim;

  for (guint r = first; r < end; r++)
    {
      const float *from = self->scratch.attended + (gsize) r * layer->n_heads * h->latent.query_dim;
      float *q = self->scratch.q + (gsize) r * layer->n_heads * layer->head_dim;
      float *k = self->scratch.k + (gsize) r * layer->head_dim;
      float *v = self->scratch.v + (gsize) r * layer->head_dim;

      for (guint head = 0; head < layer->n_heads; head++)
        memcpy (q + (gsize) head * layer->head_dim + h->latent.kv_rank,
                from + (gsize) head * h->latent.query_dim + unrotated, rotated * sizeof *q);
      llm_forward_rotate (self, r, layer->n_heads, layer->head_dim, q + h->latent.kv_rank);
      self->kernels->vector->rms_norm (k, work->norm, h->norms.eps, k, h->latent.kv_rank);
      llm_forward_rotate (self, r, 1, layer->head_dim, k + h->latent.kv_rank);
      /* what is not of the vector is no value, and would make its steps coarser */
      memcpy (v, k, h->latent.kv_rank * sizeof *v);
      memset (v + h->latent.kv_rank, 0, rotated * sizeof *v);
    }
}

void
llm_forward_prepare_latent_heads (LlmStep            *self,
                                  const float *const *norm)
{
  Work work = { self, norm[0] };

  llm_worker_pool_run (self->pool, self->batch->n_rows,
                       llm_step_get_grain (self->hparams->query_width), prepare_rows, &work);
}
