/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The transformer, stage by stage: embedding; in each layer attention and the
 * gated feed-forward network, both added to the residual stream; the output
 * norm and the logits. Each stage acquires one set of weights and computes when
 * it has all of them; the cursor releases them. Stages that a model lacks are
 * not in its table, which is made from its hyper-parameters.
 */

#include "forward/llm-forward-private.h"

#include <math.h>
#include <string.h>

/* Acquires those vectors of the stage that the model has; those that it lacks are NULL
 * in @vectors. */
static LlmStatus
acquire_vectors (LlmForward      *self,
                 const LlmStage  *stage,
                 const float     *vectors[LLM_STAGE_MAX_OPS],
                 GError         **error)
{
  LlmOperator used[LLM_STAGE_MAX_OPS];
  guint n_used = 0;
  LlmStatus status;

  for (guint i = 0; i < stage->n_ops; i++)
    if (llm_operator_is_used (self->hparams, stage->ops[i]))
      used[n_used++] = stage->ops[i];
  status = llm_forward_acquire (self, used, n_used, TRUE, NULL, error);

  n_used = 0;
  for (guint i = 0; i < stage->n_ops && status == LLM_READY; i++)
    vectors[i] =
      llm_operator_is_used (self->hparams, stage->ops[i]) ? self->held[n_used++].data : NULL;
  return status;
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

/* Acquires, and multiplies the first @n_ops when all is there. */
static LlmStatus
project (LlmForward      *self,
         const LlmStage  *stage,
         guint            n_ops,
         const float     *x,
         float *const    *y,
         gboolean         is_added,
         GError         **error)
{
  LlmActivation activation = { x, self->batch->n_rows };
  LlmStatus status = llm_forward_acquire (self, stage->ops, n_ops, FALSE, &activation, error);

  if (status == LLM_READY)
    llm_forward_multiply (self, stage->ops, n_ops, x, y, is_added);
  return status;
}

/* --- before the layers --- */

static LlmStatus
run_embedding (LlmForward      *self,
               const LlmStage  *stage,
               GError         **error)
{
  LlmStatus status = llm_forward_acquire (self, stage->ops, 1, TRUE, NULL, error);

  if (status == LLM_READY)
    llm_forward_embed (self);
  return status;
}

/* --- both halves of a layer --- */

/* Norms see the full width, whatever the sub-model. */
static LlmStatus
run_norm (LlmForward      *self,
          const LlmStage  *stage,
          GError         **error)
{
  const float *weight[LLM_STAGE_MAX_OPS];
  LlmStatus status = acquire_vectors (self, stage, weight, error);

  if (status == LLM_READY)
    llm_forward_normalize (self, weight);
  return status;
}

/* Adds the product of the first operator to the residual stream; or leaves it in scratch.normed,
 * where the model has the second, a norm between, for run_residual(). */
static LlmStatus
project_residual (LlmForward      *self,
                  const LlmStage  *stage,
                  const float     *x,
                  GError         **error)
{
  gboolean is_added = !llm_operator_is_used (self->hparams, stage->ops[1]);
  float *const y[] = { is_added ? self->scratch.x : self->scratch.normed };

  return project (self, stage, 1, x, y, is_added, error);
}

/* What comes between a product and the residual stream. */
static LlmStatus
run_residual (LlmForward      *self,
              const LlmStage  *stage,
              GError         **error)
{
  const float *v[LLM_STAGE_MAX_OPS];
  LlmStatus status = acquire_vectors (self, stage, v, error);

  if (status == LLM_READY)
    llm_forward_add_residual (self, v);
  return status;
}

/* --- attention --- */

static LlmStatus
run_attention_input (LlmForward      *self,
                     const LlmStage  *stage,
                     GError         **error)
{
  float *const y[] = { self->scratch.q, self->scratch.k, self->scratch.v };

  return project (self, stage, stage->n_ops, self->scratch.normed, y, FALSE, error);
}

/* Biases, norms of heads, rotation. */
static LlmStatus
run_heads (LlmForward      *self,
           const LlmStage  *stage,
           GError         **error)
{
  const float *v[LLM_STAGE_MAX_OPS];
  LlmStatus status = acquire_vectors (self, stage, v, error);

  if (status == LLM_READY)
    llm_forward_prepare_heads (self, v);
  return status;
}

/* The last chunk of a sequence may have to come back before it is written on. */
static LlmStatus
run_remember (LlmForward      *self,
              const LlmStage  *stage,
              GError         **error)
{
  gsize n_kv = (gsize) self->hparams->n_kv_heads * self->hparams->head_dim;

  for (guint i = 0; i < self->batch->n_sequences; i++)
    {
      LlmStatus status = llm_kv_seq_make_resident (self->batch->sequences[i], self->layer, error);

      if (status != LLM_READY)
        return status;
    }

  for (guint r = 0; r < self->batch->n_rows; r++)
    {
      const LlmRow *row = llm_forward_get_row (self, r);

      llm_kv_seq_write (self->batch->sequences[row->sequence], self->layer, row->slot,
                        self->scratch.k + r * n_kv, self->scratch.v + r * n_kv);
    }
  return LLM_READY;
}

static void
find_views (LlmForward *self)
{
  for (guint i = 0; i < self->batch->n_sequences; i++)
    {
      guint first = g_array_index (self->first_view, guint, i);
      guint end = g_array_index (self->first_view, guint, i + 1);

      for (guint chunk = 0; chunk < end - first; chunk++)
        llm_kv_seq_view (self->batch->sequences[i], self->layer, chunk,
                         &g_array_index (self->views, LlmKvView, first + chunk));
    }
}

/* How many of the counted rows see the chunk; who sees a part of its slots counts for that part. So
 * mass by rows is the sum over slots of what each gets from a row that sees it (equation 1). */
static double
count_rows (LlmForward      *self,
            guint            sequence,
            const LlmKvView *view)
{
  guint64 n_slots = 0;

  for (guint r = 0; r < self->batch->n_rows; r++)
    {
      const LlmRow *row = &self->batch->rows[r];

      if (row->sequence == sequence && llm_attention_counts (row))
        n_slots += (guint) __builtin_popcountll (llm_visibility_mask (&row->visibility, row->slot,
                                                                      0, view->first_slot,
                                                                      view->n_slots));
    }

  return (double) n_slots / view->chunk_slots;
}

/* What all layers gave out, once. */
static void
add_densities (LlmForward *self)
{
  const double share = LLM_ATTENTION_MASS_UNIT / self->hparams->n_layers / self->hparams->n_heads;
  const guint n_threads = llm_worker_pool_get_n_threads (self->pool);

  for (guint i = 0; i < self->batch->n_sequences; i++)
    {
      guint first = g_array_index (self->first_view, guint, i);
      guint end = g_array_index (self->first_view, guint, i + 1);

      for (guint at = first; at < end; at++)
        {
          double n_rows = count_rows (self, i, &g_array_index (self->views, LlmKvView, at));
          guint64 mass = 0;

          for (guint worker = 0; worker < n_threads; worker++)
            mass += self->scratch.mass[(gsize) worker * self->views->len + at];
          if (n_rows > 0)
            llm_kv_seq_add_density (self->batch->sequences[i], at - first,
                                    (float) ((double) mass * share), (float) n_rows);
        }
    }
}

static LlmStatus
run_attention (LlmForward      *self,
               const LlmStage  *stage,
               GError         **error)
{
  LlmAttention attention;

  find_views (self);
  if (self->collects_density && self->layer == 0)
    memset (self->scratch.mass, 0, (gsize) llm_worker_pool_get_n_threads (self->pool)
                                   * self->views->len * sizeof (guint64));
  llm_forward_describe_attention (self, &attention);
  attention.scale = self->hparams->attention_scale;
  attention.softcap = self->hparams->attention_softcap;
  attention.window = self->hparams->layers[self->layer].window;
  llm_attention_run (&attention);
  if (self->collects_density && self->layer + 1 == self->hparams->n_layers)
    add_densities (self);
  return LLM_READY;
}

static LlmStatus
run_attention_output (LlmForward      *self,
                      const LlmStage  *stage,
                      GError         **error)
{
  return project_residual (self, stage, self->scratch.attended, error);
}

/* --- feed-forward network --- */

static LlmStatus
run_ffn_input (LlmForward      *self,
               const LlmStage  *stage,
               GError         **error)
{
  float *const y[] = { self->scratch.gate, self->scratch.up };

  return project (self, stage, stage->n_ops, self->scratch.normed, y, FALSE, error);
}

static LlmStatus
run_ffn_gate (LlmForward      *self,
              const LlmStage  *stage,
              GError         **error)
{
  const float *v[LLM_STAGE_MAX_OPS];
  LlmStatus status = acquire_vectors (self, stage, v, error);

  if (status == LLM_READY)
    llm_forward_gate (self, self->batch->n_rows, v);
  return status;
}

static LlmStatus
run_ffn_output (LlmForward      *self,
                const LlmStage  *stage,
                GError         **error)
{
  return project_residual (self, stage, self->scratch.gate, error);
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
  float *const y[] = { self->scratch.routed };
  LlmStatus status = project (self, stage, 1, self->scratch.normed, y, FALSE, error);

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

static LlmStatus
run_output_norm (LlmForward      *self,
                 const LlmStage  *stage,
                 GError         **error)
{
  const float *weight[LLM_STAGE_MAX_OPS];
  LlmStatus status = acquire_vectors (self, stage, weight, error);

  if (status == LLM_READY)
    llm_forward_normalize_wanted (self, weight);
  return status;
}

static LlmStatus
run_logits (LlmForward      *self,
            const LlmStage  *stage,
            GError         **error)
{
  LlmStatus status = acquire_whole (self, stage, self->scratch.hidden, self->n_logits, error);

  if (status == LLM_READY)
    llm_forward_multiply_whole (self, self->scratch.hidden, self->hparams->n_embd,
                                self->scratch.logits, self->hparams->n_vocab, self->n_logits);
  return status;
}

static LlmStatus
run_logits_end (LlmForward      *self,
                const LlmStage  *stage,
                GError         **error)
{
  const float *bias[LLM_STAGE_MAX_OPS];
  LlmStatus status = acquire_vectors (self, stage, bias, error);

  if (status == LLM_READY)
    llm_forward_finish_logits (self, bias);
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

static const LlmStage entry_stages[] = {
  { "frequencies", llm_forward_run_frequencies, 0, { 0 }, is_always_needed },
  { "angles", llm_forward_run_angles, 0, { 0 }, is_always_needed },
  { "embedding", run_embedding, 1, { LLM_OP_TOKEN_EMBEDDING } },
  { NULL },
};

static const LlmStage layer_stages[] = {
  { "attention-norm", run_norm, 1, { LLM_OP_ATTENTION_NORM } },
  { "attention-input", run_attention_input, 3, { LLM_OP_QUERY, LLM_OP_KEY, LLM_OP_VALUE } },
  { "heads", run_heads, 5, { LLM_OP_QUERY_BIAS, LLM_OP_KEY_BIAS, LLM_OP_VALUE_BIAS,
                             LLM_OP_QUERY_NORM, LLM_OP_KEY_NORM }, is_always_needed },
  { "remember", run_remember, 0, { 0 }, is_always_needed },
  { "attention", run_attention, 0, { 0 }, is_always_needed },
  { "attention-output", run_attention_output, 2,
    { LLM_OP_ATTENTION_OUT, LLM_OP_ATTENTION_POST_NORM } },
  { "attention-residual", run_residual, 2,
    { LLM_OP_ATTENTION_OUT_BIAS, LLM_OP_ATTENTION_POST_NORM } },
  { "ffn-norm", run_norm, 1, { LLM_OP_FFN_NORM } },
  { "ffn-input", run_ffn_input, 2, { LLM_OP_FFN_GATE, LLM_OP_FFN_UP } },
  { "ffn-gate", run_ffn_gate, 2, { LLM_OP_FFN_GATE_BIAS, LLM_OP_FFN_UP_BIAS }, is_dense },
  { "ffn-output", run_ffn_output, 2, { LLM_OP_FFN_DOWN, LLM_OP_FFN_POST_NORM }, is_dense },
  { "expert-router", run_expert_router, 1, { LLM_OP_EXPERT_ROUTER } },
  { "experts", run_experts, 3, { LLM_OP_EXPERT_GATE, LLM_OP_EXPERT_UP, LLM_OP_EXPERT_DOWN } },
  { "ffn-residual", run_residual, 2, { LLM_OP_FFN_DOWN_BIAS, LLM_OP_FFN_POST_NORM } },
  { NULL },
};

static const LlmStage exit_stages[] = {
  { "output-norm", run_output_norm, 1, { LLM_OP_OUTPUT_NORM } },
  { "logits", run_logits, 1, { LLM_OP_OUTPUT }, is_always_needed },
  { "logits-end", run_logits_end, 1, { LLM_OP_OUTPUT_BIAS }, needs_logits_end },
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
