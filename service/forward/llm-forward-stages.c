/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The transformer, stage by stage: embedding; in each layer attention and the
 * gated feed-forward network, both added to the residual stream; the output
 * norm and the logits. Each stage acquires one set of weights and computes when
 * it has all of them; the cursor releases them. Stages that a model lacks are
 * not in its table, which is made from its hyper-parameters.
 */

#define G_LOG_DOMAIN "llm-exec"

#include "forward/llm-forward-private.h"

#include <math.h>
#include <string.h>

/* Acquires those vectors of @ops that the model has; those that it lacks are NULL
 * in @vectors. */
static LlmStatus
acquire_vectors (LlmForward         *self,
                 const LlmOperator  *ops,
                 guint               n_ops,
                 const float       **vectors,
                 GError            **error)
{
  LlmOperator used[LLM_STAGE_MAX_OPS];
  guint n_used = 0;
  LlmStatus status;

  for (guint i = 0; i < n_ops; i++)
    if (llm_operator_is_used (self->hparams, ops[i]))
      used[n_used++] = ops[i];
  status = llm_forward_acquire (self, used, n_used, TRUE, NULL, error);

  n_used = 0;
  for (guint i = 0; i < n_ops && status == LLM_READY; i++)
    vectors[i] = llm_operator_is_used (self->hparams, ops[i]) ? self->held[n_used++].data : NULL;
  return status;
}

/* Acquires, and multiplies when all is there. */
static LlmStatus
project (LlmForward        *self,
         const LlmOperator *ops,
         guint              n_ops,
         const float       *x,
         float *const      *y,
         gboolean           is_added,
         GError           **error)
{
  LlmActivation activation = { x, self->batch->n_rows };
  LlmStatus status = llm_forward_acquire (self, ops, n_ops, FALSE, &activation, error);

  if (status == LLM_READY)
    llm_forward_multiply (self, ops, n_ops, x, y, is_added);
  return status;
}

/* --- before the layers --- */

static LlmStatus
run_embedding (LlmForward *self,
               GError    **error)
{
  static const LlmOperator ops[] = { LLM_OP_TOKEN_EMBEDDING };
  LlmStatus status = llm_forward_acquire (self, ops, 1, TRUE, NULL, error);

  if (status == LLM_READY)
    llm_forward_embed (self, &self->held[0]);
  return status;
}

/* --- both halves of a layer --- */

/* Norms see the full width, whatever the sub-model. */
static LlmStatus
normalize (LlmForward *self,
           LlmOperator op,
           GError    **error)
{
  const float *weight;
  LlmStatus status = acquire_vectors (self, &op, 1, &weight, error);

  if (status == LLM_READY)
    llm_forward_normalize (self, weight);
  return status;
}

/* Adds a product to the residual stream; or leaves it in scratch.normed, where the
 * model has a norm between, for add_residual(). */
static LlmStatus
project_residual (LlmForward   *self,
                  LlmOperator   op,
                  LlmOperator   post_norm,
                  const float  *x,
                  GError      **error)
{
  gboolean is_added = !llm_operator_is_used (self->hparams, post_norm);
  float *const y[] = { is_added ? self->scratch.x : self->scratch.normed };

  return project (self, &op, 1, x, y, is_added, error);
}

/* What comes between a product and the residual stream. */
static LlmStatus
add_residual (LlmForward   *self,
              LlmOperator   bias,
              LlmOperator   post_norm,
              GError      **error)
{
  const LlmOperator ops[] = { bias, post_norm };
  const float *v[G_N_ELEMENTS (ops)];
  LlmStatus status = acquire_vectors (self, ops, G_N_ELEMENTS (ops), v, error);

  if (status == LLM_READY)
    llm_forward_add_residual (self, v[0], v[1]);
  return status;
}

/* --- attention --- */

static LlmStatus
run_attention_norm (LlmForward *self,
                    GError    **error)
{
  return normalize (self, LLM_OP_ATTENTION_NORM, error);
}

static LlmStatus
run_attention_input (LlmForward *self,
                     GError    **error)
{
  static const LlmOperator ops[] = { LLM_OP_QUERY, LLM_OP_KEY, LLM_OP_VALUE };
  float *const y[] = { self->scratch.q, self->scratch.k, self->scratch.v };

  return project (self, ops, G_N_ELEMENTS (ops), self->scratch.normed, y, FALSE, error);
}

/* Biases, norms of heads, rotation. */
static LlmStatus
run_heads (LlmForward *self,
           GError    **error)
{
  static const LlmOperator ops[] = { LLM_OP_QUERY_BIAS, LLM_OP_KEY_BIAS, LLM_OP_VALUE_BIAS,
                                     LLM_OP_QUERY_NORM, LLM_OP_KEY_NORM };
  const float *v[G_N_ELEMENTS (ops)];
  LlmStatus status = acquire_vectors (self, ops, G_N_ELEMENTS (ops), v, error);
  LlmHeadVectors vectors;

  if (status != LLM_READY)
    return status;

  vectors = (LlmHeadVectors) { v[0], v[1], v[2], v[3], v[4] };
  llm_forward_prepare_heads (self, &vectors);
  return LLM_READY;
}

/* The last chunk of a sequence may have to come back before it is written on. */
static LlmStatus
run_remember (LlmForward *self,
              GError    **error)
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
run_attention (LlmForward *self,
               GError    **error)
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
run_attention_output (LlmForward *self,
                      GError    **error)
{
  return project_residual (self, LLM_OP_ATTENTION_OUT, LLM_OP_ATTENTION_POST_NORM,
                           self->scratch.attended, error);
}

static LlmStatus
run_attention_residual (LlmForward *self,
                        GError    **error)
{
  return add_residual (self, LLM_OP_ATTENTION_OUT_BIAS, LLM_OP_ATTENTION_POST_NORM, error);
}

static gboolean
needs_attention_residual (const LlmHparams *hparams)
{
  return llm_operator_is_used (hparams, LLM_OP_ATTENTION_OUT_BIAS)
         || llm_operator_is_used (hparams, LLM_OP_ATTENTION_POST_NORM);
}

/* --- feed-forward network --- */

static LlmStatus
run_ffn_norm (LlmForward *self,
              GError    **error)
{
  return normalize (self, LLM_OP_FFN_NORM, error);
}

static LlmStatus
run_ffn_input (LlmForward *self,
               GError    **error)
{
  static const LlmOperator ops[] = { LLM_OP_FFN_GATE, LLM_OP_FFN_UP };
  float *const y[] = { self->scratch.gate, self->scratch.up };

  return project (self, ops, G_N_ELEMENTS (ops), self->scratch.normed, y, FALSE, error);
}

static LlmStatus
run_ffn_gate (LlmForward *self,
              GError    **error)
{
  static const LlmOperator ops[] = { LLM_OP_FFN_GATE_BIAS, LLM_OP_FFN_UP_BIAS };
  const float *v[G_N_ELEMENTS (ops)];
  LlmStatus status = acquire_vectors (self, ops, G_N_ELEMENTS (ops), v, error);

  if (status == LLM_READY)
    llm_forward_gate (self, self->batch->n_rows, v[0], v[1]);
  return status;
}

static LlmStatus
run_ffn_output (LlmForward *self,
                GError    **error)
{
  return project_residual (self, LLM_OP_FFN_DOWN, LLM_OP_FFN_POST_NORM, self->scratch.gate, error);
}

static LlmStatus
run_ffn_residual (LlmForward *self,
                  GError    **error)
{
  return add_residual (self, LLM_OP_FFN_DOWN_BIAS, LLM_OP_FFN_POST_NORM, error);
}

static gboolean
is_dense (const LlmHparams *hparams)
{
  return hparams->n_experts == 0;
}

static gboolean
has_experts (const LlmHparams *hparams)
{
  return hparams->n_experts > 0;
}

static LlmStatus
run_expert_router (LlmForward *self,
                   GError    **error)
{
  static const LlmOperator ops[] = { LLM_OP_EXPERT_ROUTER };
  float *const y[] = { self->scratch.routed };
  LlmStatus status = project (self, ops, G_N_ELEMENTS (ops), self->scratch.normed, y, FALSE, error);

  if (status == LLM_READY)
    llm_forward_choose_experts (self);
  return status;
}

static LlmStatus
run_experts (LlmForward *self,
             GError    **error)
{
  static const LlmOperator ops[] = { LLM_OP_EXPERT_GATE, LLM_OP_EXPERT_UP, LLM_OP_EXPERT_DOWN };
  LlmActivation activation = { self->scratch.normed, self->batch->n_rows };
  LlmStatus status = llm_forward_acquire (self, ops, G_N_ELEMENTS (ops), TRUE, &activation, error);

  if (status == LLM_READY)
    llm_forward_run_experts (self);
  return status;
}

static gboolean
needs_ffn_residual (const LlmHparams *hparams)
{
  return llm_operator_is_used (hparams, LLM_OP_FFN_DOWN_BIAS)
         || llm_operator_is_used (hparams, LLM_OP_FFN_POST_NORM);
}

/* --- behind the layers, for the rows that want logits --- */

static LlmStatus
run_output_norm (LlmForward *self,
                 GError    **error)
{
  static const LlmOperator ops[] = { LLM_OP_OUTPUT_NORM };
  const float *weight;
  LlmStatus status = acquire_vectors (self, ops, 1, &weight, error);

  if (status == LLM_READY)
    llm_forward_normalize_wanted (self, weight);
  return status;
}

static LlmStatus
run_logits (LlmForward *self,
            GError    **error)
{
  static const LlmOperator ops[] = { LLM_OP_OUTPUT };
  LlmActivation activation = { self->scratch.hidden, self->n_logits };
  LlmStatus status = llm_forward_acquire (self, ops, 1, TRUE, &activation, error);

  if (status == LLM_READY)
    llm_forward_multiply_whole (self, self->scratch.hidden, self->hparams->n_embd,
                                self->scratch.logits, self->hparams->n_vocab, self->n_logits);
  return status;
}

static LlmStatus
run_logits_end (LlmForward *self,
                GError    **error)
{
  static const LlmOperator ops[] = { LLM_OP_OUTPUT_BIAS };
  const float *bias;
  LlmStatus status = acquire_vectors (self, ops, 1, &bias, error);

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

static const LlmStage entry_stages[] = {
  { "frequencies", llm_forward_run_frequencies, NULL },
  { "angles", llm_forward_run_angles, NULL },
  { "embedding", run_embedding, NULL },
  { NULL, NULL, NULL },
};

static const LlmStage layer_stages[] = {
  { "attention-norm", run_attention_norm, NULL },
  { "attention-input", run_attention_input, NULL },
  { "heads", run_heads, NULL },
  { "remember", run_remember, NULL },
  { "attention", run_attention, NULL },
  { "attention-output", run_attention_output, NULL },
  { "attention-residual", run_attention_residual, needs_attention_residual },
  { "ffn-norm", run_ffn_norm, NULL },
  { "ffn-input", run_ffn_input, is_dense },
  { "ffn-gate", run_ffn_gate, is_dense },
  { "ffn-output", run_ffn_output, is_dense },
  { "expert-router", run_expert_router, has_experts },
  { "experts", run_experts, has_experts },
  { "ffn-residual", run_ffn_residual, needs_ffn_residual },
  { NULL, NULL, NULL },
};

static const LlmStage exit_stages[] = {
  { "output-norm", run_output_norm, NULL },
  { "logits", run_logits, NULL },
  { "logits-end", run_logits_end, needs_logits_end },
  { NULL, NULL, NULL },
};

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
      if (stage->is_needed == NULL || stage->is_needed (self->hparams))
        {
          g_assert (self->parts[part].n_stages < LLM_PART_MAX_STAGES);
          self->parts[part].stages[self->parts[part].n_stages++] = stage;
        }
}
