/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "forward/llm-forward.h"

#include "forward/llm-forward-private.h"
#include "model/llm-footprint.h"

struct _LlmForward
{
  LlmStep *step;    /* (owned) */
  guint node;       /* of the plan: the one that runs next */
};

LlmKvLayout
llm_forward_get_layout (const LlmHparams *hparams,
                        LlkKvFormat       format,
                        guint             chunk_slots,
                        LlmKvLayer       *layers)
{
  for (guint i = 0; i < hparams->n_kv_layers; i++)
    layers[i] = (LlmKvLayer) { hparams->layers[i].n_kv_heads, hparams->layers[i].head_dim };
  return (LlmKvLayout) {
    .kind = LLM_KV_FULL,
    .format = format,
    .n_layers = hparams->n_kv_layers,
    .n_kv_heads = hparams->n_kv_heads,
    .head_dim = hparams->head_dim,
    .chunk_slots = chunk_slots,
    .layers = layers,
  };
}

LlmForward *
llm_forward_new (LlmPlan       *plan,
                 LlmWorkerPool *pool,
                 LlmLedger     *ledger)
{
  LlmForward *self = g_new0 (LlmForward, 1);

  self->step = llm_step_new (plan, pool, ledger);
  return self;
}

void
llm_forward_free (LlmForward *self)
{
  if (self == NULL)
    return;

  llm_step_free (self->step);
  g_free (self);
}

void
llm_forward_set_pool (LlmForward    *self,
                      LlmWorkerPool *pool)
{
  g_return_if_fail (self->step->batch == NULL);

  self->step->pool = pool;
}

void
llm_forward_set_density (LlmForward *self,
                         gboolean    collects)
{
  g_return_if_fail (self->step->batch == NULL);

  self->step->collects_density = collects;
}

gboolean
llm_forward_begin (LlmForward     *self,
                   const LlmBatch *batch,
                   GError        **error)
{
  self->node = 0;
  return llm_step_begin (self->step, batch, error);
}

LlmStatus
llm_forward_step (LlmForward *self,
                  gboolean   *waits,
                  GError    **error)
{
  LlmStatus status;

  g_return_val_if_fail (self->step->batch != NULL, LLM_FAILED);

  status = llm_step_run (self->step, &self->step->plan->nodes[self->node], error);
  *waits = status == LLM_PENDING;
  if (status == LLM_PENDING)
    return LLM_PENDING;
  if (status == LLM_READY)
    {
      if (++self->node < llm_step_get_n_nodes (self->step))
        return LLM_PENDING;
      if (llm_step_end (self->step, error))
        return LLM_READY;
    }

  llm_step_abandon (self->step);
  return LLM_FAILED;
}

const char *
llm_forward_get_stage_name (LlmForward *self)
{
  return self->step->batch != NULL ? self->step->plan->nodes[self->node].stage->name : NULL;
}

LlmStatus
llm_forward_resume (LlmForward *self,
                    GError    **error)
{
  gboolean waits = FALSE;
  LlmStatus status;

  do
    status = llm_forward_step (self, &waits, error);
  while (status == LLM_PENDING && !waits);

  return status;
}

void
llm_forward_abandon (LlmForward *self)
{
  llm_step_abandon (self->step);
}

const float *
llm_forward_get_logits (LlmForward *self,
                        guint       row)
{
  return llm_step_get_logits (self->step, row);
}

void
llm_forward_accept (LlmForward *self,
                    LlmKvSeq   *seq,
                    guint       row)
{
  llm_step_accept (self->step, seq, row);
}

gboolean
llm_forward_has_adapters (LlmForward *self)
{
  return self->step->plan->config.n_adapters > 0;
}

guint64
llm_forward_get_n_multiplied (LlmForward *self)
{
  return self->step->n_multiplied;
}

guint8
llm_forward_get_sub_model (LlmForward *self)
{
  guint8 percent = self->step->plan->config.sub_model;

  return percent != 0 ? percent : 100;
}

guint8
llm_forward_get_sparsity (LlmForward *self)
{
  return self->step->plan->config.sparsity;
}

guint64
llm_forward_get_scratch (LlmForward *self)
{
  return self->step->block_bytes;
}

guint
llm_forward_count_rows (LlmForward *self,
                        guint64     room)
{
  const LlmPlan *plan = self->step->plan;
  guint64 row = llm_footprint_get_row (plan->hparams);
  guint64 n_rows = CLAMP (room / row, 1, LLM_BATCH_MAX_ROWS);
  /* what many rows share out of each matrix is kept for all of them; attention takes less than
   * that */
  const guint64 workers = llm_worker_pool_get_n_threads (self->step->pool)
                          * (guint64) llm_matmul_get_scratch (self->step->kernels, plan->widest,
                                                              LLM_BATCH_MAX_ROWS);

  if (n_rows > LLK_FEW_ROWS)
    n_rows = MAX (LLK_FEW_ROWS, MIN (n_rows, (room - MIN (2 * workers, room)) / row));
  return (guint) n_rows;
}

guint64
llm_forward_trim (LlmForward *self)
{
  return self->step->batch == NULL ? llm_step_free_scratch (self->step) : 0;
}
