/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The transformer, stage by stage: embedding; in each layer attention and the
 * gated feed-forward network, both added to the residual stream; the output
 * norm and the logits. Each stage acquires one set of weights and computes when
 * it has all of them; the cursor releases them. Stages that a model lacks are
 * not in its table, which is made from its hyper-parameters.
 */

#include "forward/llm-forward-private.h"

/* Acquires those vectors of the stage that the model has, and does its work on rows; vectors that
 * it lacks are NULL. Norms see the full width, whatever the sub-model. */
static LlmStatus
run_rows (LlmForward      *self,
          const LlmStage  *stage,
          GError         **error)
{
  const float *vectors[LLM_STAGE_MAX_OPS];
  LlmOperator used[LLM_STAGE_MAX_OPS];
  guint n_used = 0;
  LlmStatus status;

  for (guint i = 0; i < stage->n_ops; i++)
    if (llm_operator_is_used (self->hparams, stage->ops[i]))
      used[n_used++] = stage->ops[i];
  status = llm_forward_acquire (self, used, n_used, TRUE, NULL, error);
  if (status != LLM_READY)
    return status;

  n_used = 0;
  for (guint i = 0; i < stage->n_ops; i++)
    vectors[i] =
      llm_operator_is_used (self->hparams, stage->ops[i]) ? self->held[n_used++].data : NULL;
  stage->work (self, vectors);
  return LLM_READY;
}

/* Acquires whole operators. */
static LlmStatus
acquire_whole (LlmForward      *self,
               const LlmStage  *stage,
               const float     *x,
               guint            n_rows,
               GError         **error)
{
  LlmActivation activation = { x, n_rows };

  return llm_forward_acquire (self, stage->ops, stage->n_ops, TRUE, &activation, error);
}

static float *
get_scratch (LlmForward *self,
             gsize       offset)
{
  return G_STRUCT_MEMBER (float *, &self->scratch, offset);
}

/* Acquires the operators that have a place for their product, and multiplies when all is there. */
static LlmStatus
run_product (LlmForward      *self,
             const LlmStage  *stage,
             GError         **error)
{
  LlmActivation activation = { get_scratch (self, stage->x), self->batch->n_rows };
  float *y[LLM_STAGE_MAX_OPS];
  gboolean is_added = FALSE;
  guint n_ops = stage->n_ops;
  LlmStatus status;

  for (guint i = 0; i < n_ops; i++)
    y[i] = get_scratch (self, stage->y[i]);
  /* To the residual stream; or left for the next stage, where the model has a norm between. */
  if (stage->is_residual)
    {
      n_ops = 1;
      is_added = !llm_operator_is_used (self->hparams, stage->ops[1]);
      y[0] = is_added ? self->scratch.x : self->scratch.normed;
    }
  status = llm_forward_acquire (self, stage->ops, n_ops, FALSE, &activation, error);
  if (status == LLM_READY)
    llm_forward_multiply (self, stage->ops, n_ops, activation.values, y, is_added);
  return status;
}

/* --- feed-forward network --- */

static void
gate (LlmForward         *self,
      const float *const *biases)
{
  llm_forward_gate (self, self->batch->n_rows, biases);
}

static gboolean
is_dense (const LlmHparams *hparams)
{
  return hparams->n_experts == 0;
}

static LlmStatus
run_expert_router (LlmForward      *self,
                   const LlmStage  *stage,
                   GError         **error)
{
  LlmStatus status = run_product (self, stage, error);

  if (status == LLM_READY)
    llm_forward_choose_experts (self);
  return status;
}

static LlmStatus
run_experts (LlmForward      *self,
             const LlmStage  *stage,
             GError         **error)
{
  LlmStatus status =
    acquire_whole (self, stage, self->scratch.normed, self->batch->n_rows, error);

  if (status == LLM_READY)
    llm_forward_run_experts (self);
  return status;
}

/* --- behind the layers, for the rows that want logits --- */

/* All rows with the arithmetic of generated ones, so that logits have the same precision
 * everywhere. */
static LlmStatus
run_logits (LlmForward      *self,
            const LlmStage  *stage,
            GError         **error)
{
  LlmStatus status = acquire_whole (self, stage, self->scratch.hidden, self->n_logits, error);
  LlmRows rows = { .values = self->scratch.hidden, .stride = self->hparams->n_embd };
  LlmProduct product = {
    .view = &self->held[0],
    .y = self->scratch.logits,
    .y_stride = self->hparams->n_vocab,
    .n_rows = { [LLK_ROWS_GENERATED] = self->n_logits },
  };

  if (status == LLM_READY)
    llm_forward_multiply_rows (self, &rows, &product, 1);
  return status;
}

static gboolean
needs_logits_end (const LlmHparams *hparams)
{
  return llm_operator_is_used (hparams, LLM_OP_OUTPUT_BIAS) || hparams->logit_softcap > 0;
}

/* --- all of it, in order --- */

static gboolean
is_always_needed (const LlmHparams *hparams)
{
  return TRUE;
}

#define AT(field) G_STRUCT_OFFSET (LlmScratch, field)

static const LlmStage entry_stages[] = {
  { "frequencies", llm_forward_run_frequencies, .is_needed = is_always_needed },
  { "angles", llm_forward_run_angles, .is_needed = is_always_needed },
  { "embedding", run_rows, 1, { LLM_OP_TOKEN_EMBEDDING }, .work = llm_forward_embed },
  { NULL },
};

static const LlmStage layer_stages[] = {
  { "attention-norm", run_rows, 1, { LLM_OP_ATTENTION_NORM }, .work = llm_forward_normalize },
  { "attention-input", run_product, 3, { LLM_OP_QUERY, LLM_OP_KEY, LLM_OP_VALUE },
    .x = AT (normed), .y = { AT (q), AT (k), AT (v) } },
  { "heads", run_rows, 5, { LLM_OP_QUERY_BIAS, LLM_OP_KEY_BIAS, LLM_OP_VALUE_BIAS,
                            LLM_OP_QUERY_NORM, LLM_OP_KEY_NORM },
    .is_needed = is_always_needed, .work = llm_forward_prepare_heads },
  { "remember", llm_forward_run_remember, .is_needed = is_always_needed },
  { "attention", llm_forward_run_attention, .is_needed = is_always_needed },
  { "attention-output", run_product, 2, { LLM_OP_ATTENTION_OUT, LLM_OP_ATTENTION_POST_NORM },
    .x = AT (attended), .is_residual = TRUE },
  { "attention-residual", run_rows, 2, { LLM_OP_ATTENTION_OUT_BIAS, LLM_OP_ATTENTION_POST_NORM },
    .work = llm_forward_add_residual },
  { "ffn-norm", run_rows, 1, { LLM_OP_FFN_NORM }, .work = llm_forward_normalize },
  { "ffn-input", run_product, 2, { LLM_OP_FFN_GATE, LLM_OP_FFN_UP },
    .x = AT (normed), .y = { AT (gate), AT (up) } },
  { "ffn-gate", run_rows, 2, { LLM_OP_FFN_GATE_BIAS, LLM_OP_FFN_UP_BIAS }, .is_needed = is_dense,
    .work = gate },
  { "ffn-output", run_product, 2, { LLM_OP_FFN_DOWN, LLM_OP_FFN_POST_NORM },
    .is_needed = is_dense, .x = AT (gate), .is_residual = TRUE },
  { "expert-router", run_expert_router, 1, { LLM_OP_EXPERT_ROUTER },
    .x = AT (normed), .y = { AT (routed) } },
  { "experts", run_experts, 3, { LLM_OP_EXPERT_GATE, LLM_OP_EXPERT_UP, LLM_OP_EXPERT_DOWN } },
  { "ffn-residual", run_rows, 2, { LLM_OP_FFN_DOWN_BIAS, LLM_OP_FFN_POST_NORM },
    .work = llm_forward_add_residual },
  { NULL },
};

static const LlmStage exit_stages[] = {
  { "output-norm", run_rows, 1, { LLM_OP_OUTPUT_NORM }, .work = llm_forward_normalize_wanted },
  { "logits", run_logits, 1, { LLM_OP_OUTPUT }, .is_needed = is_always_needed },
  { "logits-end", run_rows, 1, { LLM_OP_OUTPUT_BIAS }, .is_needed = needs_logits_end,
    .work = llm_forward_finish_logits },
  { NULL },
};

static gboolean
is_needed (const LlmStage   *stage,
           const LlmHparams *hparams)
{
  guint64 ops = 0;

  if (stage->is_needed != NULL)
    return stage->is_needed (hparams);
  for (guint i = 0; i < stage->n_ops; i++)
    ops |= LLM_OP_BIT (stage->ops[i]);
  return (hparams->operators & ops) != 0;
}

void
llm_forward_build_stages (LlmForward *self)
{
  static const LlmStage *const all[LLM_N_PARTS] = {
    [LLM_PART_ENTRY] = entry_stages,
    [LLM_PART_LAYERS] = layer_stages,
    [LLM_PART_EXIT] = exit_stages,
  };

  for (guint part = 0; part < LLM_N_PARTS; part++)
    for (const LlmStage *stage = all[part]; stage->run != NULL; stage++)
      if (is_needed (stage, self->hparams))
        {
          g_assert (self->parts[part].n_stages < LLM_PART_MAX_STAGES);
          self->parts[part].stages[self->parts[part].n_stages++] = stage;
        }
}
