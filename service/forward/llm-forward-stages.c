/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The transformer, stage by stage: embedding; in each layer attention and the
 * gated feed-forward network, both added to the residual stream; the output
 * norm and the logits. A stage runs when the weights that it names are held, and
 * computes them with the buffers that it names. Those that a model lacks are not
 * in its plan, which is made from its hyper-parameters.
 */

#include "forward/llm-forward-private.h"

/* Gives the stage's work the vectors that the model has; those that it lacks are NULL. Norms see
 * the full width, whatever the sub-model. */
static LlmStatus
run_rows (LlmStep         *self,
          const LlmStage  *stage,
          GError         **error)
{
  const float *vectors[LLM_STAGE_MAX_OPS];

  for (guint i = 0; i < stage->n_ops; i++)
    vectors[i] = self->hold->views[i].data;
  stage->work (self, vectors);
  llm_forward_zero_inactive (self, stage->input);
  return LLM_READY;
}

void
llm_forward_describe_product (LlmStep        *self,
                              const LlmStage *stage,
                              guint           at,
                              LlmRows        *rows,
                              LlmProduct     *product)
{
  guint n_in, n_out;

  llm_operator_get_shape (self->hparams, stage->ops[at], self->layer, &n_in, &n_out);
  *rows = (LlmRows) { llm_step_get_buffer (self, stage->x), n_in };
  if (stage->ops[at] == LLM_OP_FFN_DOWN && llm_forward_keeps_gate (self))
    rows->values = NULL;
  *product = (LlmProduct) { .y = llm_step_get_buffer (self, stage->y[at]), .y_stride = n_out };
  /* To the residual stream; or left for the next stage, where the model has a norm between. */
  if (stage->is_residual)
    {
      product->is_added =
        llm_forward_adds_directly (self->hparams,
                                   llm_operator_is_in_layer (self->hparams, stage->ops[1],
                                                             self->layer));
      product->y = product->is_added ? self->scratch.x : self->scratch.normed;
    }
}

/* Adds the product of the node's operator @i, or its adapters alone; nothing where there are none. */
static void
add_product (LlmStep        *self,
             const LlmStage *stage,
             guint           i,
             gboolean        has_weights,
             gboolean        has_adapters)
{
  LlmHold *hold = self->hold;
  guint at = hold->node->first_op + i;
  gboolean is_exit = llm_stage_is_exit (stage);
  LlmRows rows;
  LlmProduct product;

  llm_forward_describe_product (self, stage, at, &rows, &product);
  if (has_adapters)
    product.n_adapted = llm_forward_find_adapted (self, stage, i, &product.adapted);
  if (!has_weights)
    {
      if (product.n_adapted > 0)
        llm_step_add_adapters (self, &rows, &product);
      return;
    }
  product.pieces = hold->views + i * hold->n_segments;
  product.n_rows = is_exit ? &self->rows.n_logits : self->rows.level_rows;
  product.n_pieces = hold->n_segments;
  llm_step_add_product (self, stage->ops[at], &rows,
                        is_exit ? self->rows.n_logits : self->batch->n_rows, &product);
}

/* Multiplies with the operators of the node, each row with the segments that it includes, and with its
 * adapters: at once, or behind what a device may compute. */
static LlmStatus
run_product (LlmStep         *self,
             const LlmStage  *stage,
             GError         **error)
{
  LlmHold *hold = self->hold;
  gboolean is_behind = llm_step_get_device (self) != NULL;
  guint phase = hold->phase;

  if (phase > (is_behind ? 1 : 0))
    return LLM_READY;
  for (guint i = 0; i < hold->node->n_ops; i++)
    if ((hold->node->used_ops & 1u << (hold->node->first_op + i)) != 0)
      add_product (self, stage, i, phase == 0, !is_behind || phase > 0);
  if (phase > 0 && hold->n_ops == 0)
    return LLM_READY;
  if (phase == 0 && stage->ops[0] == LLM_OP_FFN_GATE && llm_forward_keeps_gate (self))
    llm_step_gate_products (self, self->hparams->gate == LLM_GATE_GELU);
  return llm_step_submit (self, error);
}

/* --- what is done to the output of half a layer before it is added, or behind that --- */

static gboolean
ends_attention (const LlmHparams *hparams,
                guint             layer)
{
  return llm_operator_is_in_layer (hparams, LLM_OP_ATTENTION_OUT_BIAS, layer)
         || !llm_forward_adds_directly (
           hparams, llm_operator_is_in_layer (hparams, LLM_OP_ATTENTION_POST_NORM, layer));
}

static gboolean
ends_ffn (const LlmHparams *hparams,
          guint             layer)
{
  return llm_operator_is_in_layer (hparams, LLM_OP_FFN_DOWN_BIAS, layer)
         || !llm_forward_adds_directly (
           hparams, llm_operator_is_in_layer (hparams, LLM_OP_FFN_POST_NORM, layer));
}

/* --- feed-forward network --- */

static void
gate (LlmStep            *self,
      const float *const *biases)
{
  if (!llm_forward_keeps_gate (self))
    llm_forward_gate (self, self->batch->n_rows, llm_step_get_layer (self)->n_ff, TRUE, biases);
}

static gboolean
is_dense (const LlmHparams *hparams,
          guint             layer)
{
  return llm_operator_is_in_layer (hparams, LLM_OP_FFN_DOWN, layer);
}

static gboolean
has_experts (const LlmHparams *hparams,
             guint             layer)
{
  return llm_operator_is_in_layer (hparams, LLM_OP_EXPERT_ROUTER, layer);
}

/* Else it attends to those of another layer. */
static gboolean
has_own_kv (const LlmHparams *hparams,
            guint             layer)
{
  return hparams->layers[layer].kv_layer == layer;
}

/* Else the network goes on with what attention had. */
static gboolean
has_own_ffn_input (const LlmHparams *hparams,
                   guint             layer)
{
  return !hparams->has_parallel_ffn;
}

static gboolean
has_latent_kv (const LlmHparams *hparams,
               guint             layer)
{
  return hparams->latent.kv_rank > 0;
}

static gboolean
has_plain_heads (const LlmHparams *hparams,
                 guint             layer)
{
  return hparams->latent.kv_rank == 0;
}

static gboolean
has_low_query (const LlmHparams *hparams,
               guint             layer)
{
  return hparams->latent.kv_rank > 0 && hparams->latent.query_rank > 0;
}

static gboolean
has_plain_latent_query (const LlmHparams *hparams,
                        guint             layer)
{
  return hparams->latent.kv_rank > 0 && hparams->latent.query_rank == 0;
}

static gboolean
has_streams (const LlmHparams *hparams,
             guint             layer)
{
  return hparams->n_streams > 1;
}

static gboolean
has_laurel (const LlmHparams *hparams,
            guint             layer)
{
  return hparams->laurel_rank > 0;
}

static gboolean
has_layer_embedding (const LlmHparams *hparams,
                     guint             layer)
{
  return hparams->n_layer_embd > 0;
}

/* --- behind the layers, for the rows that want logits --- */

static gboolean
needs_logits_end (const LlmHparams *hparams,
                  guint             layer)
{
  return llm_operator_is_used (hparams, LLM_OP_OUTPUT_BIAS) || hparams->scales.logit_softcap > 0
         || hparams->scales.logits != 1;
}

/* --- all of it, in order --- */

static gboolean
is_always_needed (const LlmHparams *hparams,
                  guint             layer)
{
  return TRUE;
}

#define AT(field) G_STRUCT_OFFSET (LlmScratch, field)
#define B(field) LLM_BUFFER (field)

const LlmStage llm_entry_stages[] = {
  { "frequencies", llm_forward_run_frequencies, LLM_ACQUIRE_VECTORS, 3,
    { LLM_OP_ROPE_FACTORS, LLM_OP_ROPE_FACTORS_SHORT, LLM_OP_ROPE_FACTORS_LONG },
    is_always_needed, 0, LLM_BUFFER_FREQUENCIES },
  { "angles", llm_forward_run_angles, .is_needed = is_always_needed,
    .reads = LLM_BUFFER_FREQUENCIES, .writes = B (cosine) | B (sine) },
  { "embedding", run_rows, LLM_ACQUIRE_VECTORS, 1, { LLM_OP_TOKEN_EMBEDDING },
    .writes = B (x), .work = llm_forward_embed },
  { "layer-projection", run_product, LLM_ACQUIRE_WHOLE, 1, { LLM_OP_LAYER_PROJECTION },
    .reads = B (x), .writes = B (layer_inputs), .x = AT (x), .y = { AT (layer_inputs) } },
  { "layer-inputs", run_rows, LLM_ACQUIRE_VECTORS, 2,
    { LLM_OP_LAYER_EMBEDDING, LLM_OP_LAYER_PROJECTION_NORM }, .writes = B (layer_inputs),
    .work = llm_forward_embed_layers },
  { "stream-projection", run_product, LLM_ACQUIRE_WHOLE, 1, { LLM_OP_STREAM_PROJECTION },
    .reads = B (x), .writes = B (projected), .x = AT (x), .y = { AT (projected) } },
  { "streams", run_rows, .is_needed = has_streams, .reads = B (x) | B (projected),
    .writes = B (streams), .work = llm_forward_begin_streams },
  { NULL },
};

const LlmStage llm_layer_stages[] = {
  { "predict-norm", run_rows, LLM_ACQUIRE_VECTORS, 1, { LLM_OP_STREAM_ROUTER_NORM },
    .reads = B (streams), .writes = B (normed), .work = llm_forward_normalize_first_stream },
  { "predict-router", run_product, LLM_ACQUIRE_WHOLE, 1, { LLM_OP_STREAM_ROUTER },
    .reads = B (normed), .writes = B (modes), .x = AT (normed), .y = { AT (modes) } },
  { "predict-modes", run_rows, .is_needed = has_streams, .writes = B (modes),
    .work = llm_forward_bend_modes },
  { "predict", run_product, LLM_ACQUIRE_WHOLE, 1, { LLM_OP_STREAM_PREDICT },
    .reads = B (modes), .writes = B (mixing), .x = AT (modes), .y = { AT (mixing) } },
  { "predict-streams", run_rows, .is_needed = has_streams, .reads = B (mixing),
    .writes = B (streams) | B (x), .work = llm_forward_mix_streams },
  { "attention-norm", run_rows, LLM_ACQUIRE_VECTORS, 1, { LLM_OP_ATTENTION_NORM },
    is_always_needed, .reads = B (x), .writes = B (normed), .input = LLM_INPUT_ATTENTION,
    .work = llm_forward_normalize },
  { "laurel-input", run_product, LLM_ACQUIRE_WHOLE, 1, { LLM_OP_LAUREL_IN },
    .reads = B (normed), .writes = B (laurel_low), .x = AT (normed), .y = { AT (laurel_low) } },
  { "laurel-output", run_product, LLM_ACQUIRE_WHOLE, 1, { LLM_OP_LAUREL_OUT },
    .reads = B (laurel_low), .writes = B (laurel), .x = AT (laurel_low), .y = { AT (laurel) } },
  { "laurel-norm", run_rows, LLM_ACQUIRE_VECTORS, 1, { LLM_OP_LAUREL_POST_NORM },
    .reads = B (normed), .writes = B (laurel), .work = llm_forward_end_laurel },
  { "query-low", run_product, LLM_ACQUIRE_WHOLE, 1, { LLM_OP_QUERY_LOW },
    .reads = B (normed), .writes = B (query_low), .x = AT (normed), .y = { AT (query_low) } },
  { "query-low-norm", run_rows, LLM_ACQUIRE_VECTORS, 1, { LLM_OP_QUERY_LOW_NORM },
    .writes = B (query_low), .work = llm_forward_normalize_query_low },
  { "query-up", run_product, LLM_ACQUIRE_WHOLE, 1, { LLM_OP_QUERY_UP }, has_low_query,
    B (query_low), B (attended), .x = AT (query_low), .y = { AT (attended) } },
  { "query", run_product, LLM_ACQUIRE_WHOLE, 1, { LLM_OP_QUERY_UP }, has_plain_latent_query,
    B (normed), B (attended), .x = AT (normed), .y = { AT (attended) } },
  { "query-absorb", llm_forward_run_query_absorb, LLM_ACQUIRE_WHOLE, 1, { LLM_OP_QUERY_ABSORB },
    .reads = B (attended), .writes = B (q), .x = AT (attended) },
  { "attention-input", run_product, LLM_ACQUIRE_SEGMENTS, 3,
    { LLM_OP_QUERY, LLM_OP_KEY, LLM_OP_VALUE },
    .x = AT (normed), .y = { AT (q), AT (k), AT (v) } },
  { "heads", run_rows, LLM_ACQUIRE_VECTORS, 5,
    { LLM_OP_QUERY_BIAS, LLM_OP_KEY_BIAS, LLM_OP_VALUE_BIAS, LLM_OP_QUERY_NORM,
      LLM_OP_KEY_NORM },
    has_plain_heads, B (cosine) | B (sine), B (q) | B (k) | B (v),
    .work = llm_forward_prepare_heads },
  { "latent-heads", run_rows, LLM_ACQUIRE_VECTORS, 1, { LLM_OP_KEY_LOW_NORM },
    .reads = B (cosine) | B (sine) | B (attended), .writes = B (q) | B (k) | B (v),
    .work = llm_forward_prepare_latent_heads },
  { "remember", llm_forward_run_remember, .is_needed = has_own_kv,
    .reads = B (k) | B (v), .writes = LLM_BUFFER_KV },
  { "attention", llm_forward_run_attention, LLM_ACQUIRE_VECTORS, 1, { LLM_OP_ATTENTION_SINKS },
    is_always_needed,
    .reads = B (q) | LLM_BUFFER_KV, .writes = B (attended) | B (received) | B (attention),
    .input = LLM_INPUT_ATTENTION_OUT },
  { "value-up", llm_forward_run_value_up, LLM_ACQUIRE_WHOLE, 1, { LLM_OP_VALUE_UP },
    .reads = B (attended), .writes = B (q), .x = AT (attended) },
  { "latent-output", run_product, LLM_ACQUIRE_SEGMENTS, 2,
    { LLM_OP_ATTENTION_OUT, LLM_OP_ATTENTION_POST_NORM }, has_latent_kv, 0, B (x) | B (normed),
    .x = AT (q), .is_residual = TRUE },
  { "attention-output", run_product, LLM_ACQUIRE_SEGMENTS, 2,
    { LLM_OP_ATTENTION_OUT, LLM_OP_ATTENTION_POST_NORM }, has_plain_heads, 0, B (x) | B (normed),
    .x = AT (attended), .is_residual = TRUE },
  { "attention-residual", run_rows, LLM_ACQUIRE_VECTORS, 2,
    { LLM_OP_ATTENTION_OUT_BIAS, LLM_OP_ATTENTION_POST_NORM }, ends_attention, .writes = B (x) | B (normed),
    .work = llm_forward_add_residual },
  { "laurel-residual", run_rows, .is_needed = has_laurel, .reads = B (laurel), .writes = B (x),
    .work = llm_forward_add_laurel },
  { "ffn-norm", run_rows, LLM_ACQUIRE_VECTORS, 1, { LLM_OP_FFN_NORM },
    has_own_ffn_input, .reads = B (x), .writes = B (normed), .input = LLM_INPUT_FFN,
    .work = llm_forward_normalize },
  { "ffn-input", run_product, LLM_ACQUIRE_SEGMENTS, 2, { LLM_OP_FFN_GATE, LLM_OP_FFN_UP },
    .x = AT (normed), .y = { AT (gate), AT (up) } },
  { "ffn-gate", run_rows, LLM_ACQUIRE_VECTORS, 2, { LLM_OP_FFN_GATE_BIAS, LLM_OP_FFN_UP_BIAS },
    is_dense, 0, B (gate) | B (up), .input = LLM_INPUT_FFN_DOWN, .work = gate },
  { "ffn-output", run_product, LLM_ACQUIRE_SEGMENTS, 2,
    { LLM_OP_FFN_DOWN, LLM_OP_FFN_POST_NORM }, is_dense, .writes = B (x) | B (normed),
    .x = AT (gate), .is_residual = TRUE },
  { "expert-router", run_product, LLM_ACQUIRE_WHOLE, 1, { LLM_OP_EXPERT_ROUTER },
    .reads = B (normed), .writes = B (routed), .x = AT (normed), .y = { AT (routed) } },
  { "expert-choice", run_rows, LLM_ACQUIRE_VECTORS, 1, { LLM_OP_EXPERT_ROUTER_BIAS }, has_experts,
    .writes = B (routed) | B (experts), .work = llm_forward_choose_experts },
  { "experts", llm_forward_run_experts, LLM_ACQUIRE_EXPERTS, 3,
    { LLM_OP_EXPERT_GATE, LLM_OP_EXPERT_UP, LLM_OP_EXPERT_DOWN },
    .reads = B (normed) | B (experts),
    .writes = B (x) | B (gathered) | B (given) | B (gate) | B (up), .x = AT (normed) },
  { "ffn-residual", run_rows, LLM_ACQUIRE_VECTORS, 2,
    { LLM_OP_FFN_DOWN_BIAS, LLM_OP_FFN_POST_NORM }, ends_ffn, .writes = B (x) | B (normed),
    .work = llm_forward_add_residual },
  { "correct-norm", run_rows, LLM_ACQUIRE_VECTORS, 1, { LLM_OP_STREAM_ROUTER_NORM },
    .reads = B (x), .writes = B (normed), .work = llm_forward_normalize_for_router },
  { "correct-router", run_product, LLM_ACQUIRE_WHOLE, 1, { LLM_OP_STREAM_ROUTER },
    .reads = B (normed), .writes = B (modes), .x = AT (normed), .y = { AT (modes) } },
  { "correct-modes", run_rows, .is_needed = has_streams, .writes = B (modes),
    .work = llm_forward_bend_modes },
  { "correct", run_product, LLM_ACQUIRE_WHOLE, 1, { LLM_OP_STREAM_CORRECT },
    .reads = B (modes), .writes = B (mixing), .x = AT (modes), .y = { AT (mixing) } },
  { "correct-streams", run_rows, LLM_ACQUIRE_VECTORS, 1, { LLM_OP_STREAM_CORRECT_SCALE },
    .reads = B (mixing), .writes = B (streams) | B (x), .work = llm_forward_correct_streams },
  { "layer-gate", run_product, LLM_ACQUIRE_WHOLE, 1, { LLM_OP_LAYER_GATE },
    .reads = B (x), .writes = B (layer_gate), .x = AT (x), .y = { AT (layer_gate) } },
  { "layer-input", run_rows, .is_needed = has_layer_embedding, .reads = B (layer_inputs),
    .writes = B (layer_gate), .work = llm_forward_gate_layer_input },
  { "layer-output", run_product, LLM_ACQUIRE_WHOLE, 1, { LLM_OP_LAYER_OUT },
    .reads = B (layer_gate), .writes = B (normed), .x = AT (layer_gate), .y = { AT (normed) } },
  { "layer-end", run_rows, LLM_ACQUIRE_VECTORS, 2, { LLM_OP_LAYER_POST_NORM, LLM_OP_LAYER_SCALE },
    .writes = B (x) | B (normed) | B (streams), .work = llm_forward_end_layer },
  { NULL },
};

const LlmStage llm_exit_stages[] = {
  { "streams-end", llm_forward_run_streams_end, LLM_ACQUIRE_WHOLE, 1, { LLM_OP_STREAM_UNPROJECTION },
    .writes = B (streams) | B (projected) | B (x), .x = AT (projected) },
  { "output-norm", run_rows, LLM_ACQUIRE_VECTORS, 1, { LLM_OP_OUTPUT_NORM },
    .reads = B (x), .writes = B (hidden), .work = llm_forward_normalize_wanted },
  { "logits", run_product, LLM_ACQUIRE_WHOLE, 1, { LLM_OP_OUTPUT }, is_always_needed,
    B (hidden), B (logits), .x = AT (hidden), .y = { AT (logits) } },
  { "logits-end", run_rows, LLM_ACQUIRE_VECTORS, 1, { LLM_OP_OUTPUT_BIAS }, needs_logits_end,
    .writes = B (logits), .work = llm_forward_finish_logits },
  { NULL },
};
