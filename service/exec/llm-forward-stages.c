/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The transformer, stage by stage: embedding; in each layer attention and the
 * gated feed-forward network, both added to the residual stream; the output
 * norm and the logits. Each stage acquires one set of weights and computes when
 * it has all of them; the cursor releases them.
 */

#define G_LOG_DOMAIN "llm-exec"

#include "exec/llm-forward-private.h"

#include <math.h>
#include <string.h>

/* Rows that a worker takes at a time where a row is little work. */
#define ROWS_PER_RUN 8

/* --- before the layers --- */

/* The angle of pair i at position p is p × base^(-2i / rope_dim), divided by the
 * model's factor for i and by the linear scale. */
static LlmStatus
run_frequencies (LlmForward *self,
                 GError    **error)
{
  static const LlmOperator ops[] = { LLM_OP_ROPE_FACTORS };
  const LlmHparams *hparams = self->hparams;
  LlmStatus status;

  if (self->frequencies != NULL)
    return LLM_READY;

  status = llm_forward_acquire (self, ops, 1, TRUE, NULL, error);
  if (status != LLM_READY)
    return status;

  self->frequencies = g_new (double, hparams->rope_dim / 2);
  for (guint i = 0; i < hparams->rope_dim / 2; i++)
    {
      float factor = 1;

      if (self->held[0].data != NULL)
        memcpy (&factor, (const guint8 *) self->held[0].data + i * sizeof factor, sizeof factor);
      self->frequencies[i] = pow (hparams->rope_base, -2.0 * i / hparams->rope_dim) / factor;
      if (hparams->rope_scaling == LLM_ROPE_SCALING_LINEAR)
        self->frequencies[i] /= hparams->rope_scale;
    }
  return LLM_READY;
}

static void
compute_angles (guint    first,
                guint    end,
                guint    worker,
                gpointer data)
{
  LlmForward *self = data;
  guint n_pairs = self->hparams->rope_dim / 2;

  for (guint r = first; r < end; r++)
    for (guint i = 0; i < n_pairs; i++)
      {
        double angle = llm_forward_get_row (self, r)->position * self->frequencies[i];

        self->scratch.cosine[(gsize) r * n_pairs + i] = (float) cos (angle);
        self->scratch.sine[(gsize) r * n_pairs + i] = (float) sin (angle);
      }
}

static LlmStatus
run_angles (LlmForward *self,
            GError    **error)
{
  llm_worker_pool_run (self->pool, self->batch->n_rows, ROWS_PER_RUN, compute_angles, self);
  return LLM_READY;
}

static LlmStatus
run_embedding (LlmForward *self,
               GError    **error)
{
  static const LlmOperator ops[] = { LLM_OP_TOKEN_EMBEDDING };
  guint n_embd = self->hparams->n_embd;
  LlmStatus status = llm_forward_acquire (self, ops, 1, TRUE, NULL, error);

  if (status != LLM_READY)
    return status;

  for (guint r = 0; r < self->batch->n_rows; r++)
    {
      gsize token = (gsize) llm_forward_get_row (self, r)->token;

      self->kernels->unpack (self->held[0].type,
                             (const guint8 *) self->held[0].data + token * self->held[0].row_bytes,
                             self->scratch.x + (gsize) r * n_embd, n_embd);
    }
  return LLM_READY;
}

/* --- attention --- */

/* Norms see the full width, whatever the sub-model. */
static LlmStatus
normalize (LlmForward *self,
           LlmOperator op,
           GError    **error)
{
  gsize n_embd = self->hparams->n_embd;
  LlmStatus status = llm_forward_acquire (self, &op, 1, TRUE, NULL, error);

  if (status != LLM_READY)
    return status;

  for (guint r = 0; r < self->batch->n_rows; r++)
    self->kernels->rms_norm (self->scratch.x + r * n_embd, self->held[0].data,
                             self->hparams->rms_eps, self->scratch.normed + r * n_embd, n_embd);
  return LLM_READY;
}

static LlmStatus
run_attention_norm (LlmForward *self,
                    GError    **error)
{
  return normalize (self, LLM_OP_ATTENTION_NORM, error);
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

static LlmStatus
run_attention_input (LlmForward *self,
                     GError    **error)
{
  static const LlmOperator ops[] = { LLM_OP_QUERY, LLM_OP_KEY, LLM_OP_VALUE };
  float *const y[] = { self->scratch.q, self->scratch.k, self->scratch.v };

  return project (self, ops, G_N_ELEMENTS (ops), self->scratch.normed, y, FALSE, error);
}

static void
rotate_rows (guint    first,
             guint    end,
             guint    worker,
             gpointer data)
{
  LlmForward *self = data;
  const LlmHparams *h = self->hparams;
  gsize n_pairs = h->rope_dim / 2;

  for (guint r = first; r < end; r++)
    for (guint head = 0; head < h->n_heads + h->n_kv_heads; head++)
      {
        gboolean is_query = head < h->n_heads;
        gsize at = is_query ? (gsize) r * h->n_heads + head
                            : (gsize) r * h->n_kv_heads + head - h->n_heads;
        float *values = (is_query ? self->scratch.q : self->scratch.k) + at * h->head_dim;
        const float *cosine = self->scratch.cosine + r * n_pairs;
        const float *sine = self->scratch.sine + r * n_pairs;

        if (h->rope_kind == LLM_ROPE_NORM)
          llk_rope_norm (values, cosine, sine, h->rope_dim);
        else
          llk_rope_neox (values, cosine, sine, h->rope_dim);
      }
}

static LlmStatus
run_rotation (LlmForward *self,
              GError    **error)
{
  llm_worker_pool_run (self->pool, self->batch->n_rows, ROWS_PER_RUN, rotate_rows, self);
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

static void
add_densities (LlmForward *self)
{
  double share = LLM_ATTENTION_MASS_UNIT / self->hparams->n_layers / self->hparams->n_heads;

  for (guint i = 0; i < self->batch->n_sequences; i++)
    {
      guint first = g_array_index (self->first_view, guint, i);
      guint end = g_array_index (self->first_view, guint, i + 1);

      for (guint chunk = 0; chunk < end - first; chunk++)
        llm_kv_seq_add_density (self->batch->sequences[i], chunk,
                                (float) (self->scratch.mass[first + chunk] * share));
    }
}

static LlmStatus
run_attention (LlmForward *self,
               GError    **error)
{
  const LlmHparams *hparams = self->hparams;
  LlmAttention attention = {
    .kernels = self->kernels,
    .pool = self->pool,
    .n_heads = hparams->n_heads,
    .n_kv_heads = hparams->n_kv_heads,
    .head_dim = hparams->head_dim,
    .rows = self->batch->rows,
    .order = self->order,
    .n_rows = self->batch->n_rows,
    .views = (const LlmKvView *) (gconstpointer) self->views->data,
    .first_view = (const guint *) (gconstpointer) self->first_view->data,
    .q = self->scratch.q,
    .out = self->scratch.attended,
    .mass = self->scratch.mass,
    .shares = self->scratch.shares,
    .max_chunks = self->max_chunks,
  };

  find_views (self);
  if (self->scratch.mass != NULL)
    memset (self->scratch.mass, 0, self->views->len * sizeof (guint64));
  llm_attention_run (&attention);
  if (self->scratch.mass != NULL)
    add_densities (self);
  return LLM_READY;
}

static LlmStatus
run_attention_output (LlmForward *self,
                      GError    **error)
{
  static const LlmOperator ops[] = { LLM_OP_ATTENTION_OUT };
  float *const y[] = { self->scratch.x };

  return project (self, ops, G_N_ELEMENTS (ops), self->scratch.attended, y, TRUE, error);
}

/* --- feed-forward network --- */

static LlmStatus
run_ffn_norm (LlmForward *self,
              GError    **error)
{
  return normalize (self, LLM_OP_FFN_NORM, error);
}

static void
gate_rows (guint    first,
           guint    end,
           guint    worker,
           gpointer data)
{
  LlmForward *self = data;
  gsize n_ff = self->hparams->n_ff;

  for (guint r = first; r < end; r++)
    self->kernels->silu_mul (self->scratch.gate + r * n_ff, self->scratch.up + r * n_ff, n_ff);
}

static LlmStatus
run_ffn_input (LlmForward *self,
               GError    **error)
{
  static const LlmOperator ops[] = { LLM_OP_FFN_GATE, LLM_OP_FFN_UP };
  float *const y[] = { self->scratch.gate, self->scratch.up };
  LlmStatus status = project (self, ops, G_N_ELEMENTS (ops), self->scratch.normed, y, FALSE, error);

  if (status == LLM_READY)
    llm_worker_pool_run (self->pool, self->batch->n_rows, ROWS_PER_RUN, gate_rows, self);
  return status;
}

static LlmStatus
run_ffn_output (LlmForward *self,
                GError    **error)
{
  static const LlmOperator ops[] = { LLM_OP_FFN_DOWN };
  float *const y[] = { self->scratch.x };

  return project (self, ops, G_N_ELEMENTS (ops), self->scratch.gate, y, TRUE, error);
}

/* --- behind the layers, for the rows that want logits --- */

static LlmStatus
run_output_norm (LlmForward *self,
                 GError    **error)
{
  static const LlmOperator ops[] = { LLM_OP_OUTPUT_NORM };
  gsize n_embd = self->hparams->n_embd;
  LlmStatus status = llm_forward_acquire (self, ops, 1, TRUE, NULL, error);

  if (status != LLM_READY)
    return status;

  for (guint i = 0; i < self->n_logits; i++)
    self->kernels->rms_norm (self->scratch.x + self->wanting[i] * n_embd, self->held[0].data,
                             self->hparams->rms_eps, self->scratch.hidden + i * n_embd, n_embd);
  return LLM_READY;
}

static LlmStatus
run_logits (LlmForward *self,
            GError    **error)
{
  static const LlmOperator ops[] = { LLM_OP_OUTPUT };
  LlmMatmul matmul = { self->kernels, self->pool, self->scratch.workers, self->worker_floats };
  LlmActivation activation = { self->scratch.hidden, self->n_logits };
  LlmStatus status = llm_forward_acquire (self, ops, 1, TRUE, &activation, error);
  LlmProduct product = {
    .view = &self->held[0],
    .x = self->scratch.hidden,
    .x_stride = self->hparams->n_embd,
    .y = self->scratch.logits,
    .y_stride = self->hparams->n_vocab,
    .n_rows = self->n_logits,
  };

  if (status == LLM_READY)
    llm_matmul_run (&matmul, &product, 1);
  return status;
}

static const LlmStage entry_stages[] = {
  { "frequencies", run_frequencies },
  { "angles", run_angles },
  { "embedding", run_embedding },
};

static const LlmStage layer_stages[] = {
  { "attention-norm", run_attention_norm },
  { "attention-input", run_attention_input },
  { "rotation", run_rotation },
  { "remember", run_remember },
  { "attention", run_attention },
  { "attention-output", run_attention_output },
  { "ffn-norm", run_ffn_norm },
  { "ffn-input", run_ffn_input },
  { "ffn-output", run_ffn_output },
};

static const LlmStage exit_stages[] = {
  { "output-norm", run_output_norm },
  { "logits", run_logits },
};

const LlmStageTable llm_forward_parts[LLM_N_PARTS] = {
  [LLM_PART_ENTRY] = { entry_stages, G_N_ELEMENTS (entry_stages) },
  [LLM_PART_LAYERS] = { layer_stages, G_N_ELEMENTS (layer_stages) },
  [LLM_PART_EXIT] = { exit_stages, G_N_ELEMENTS (exit_stages) },
};
