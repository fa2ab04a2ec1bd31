/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "model/architectures/llm-operator.h"

#include <string.h>

#include "common/llmsvc-error.h"

#define MAX_NAME 64
/* Tensors that are for later versions of this program and change nothing here. */
#define OWN_PREFIX "llmsvc."

/* A number of values in terms of the hyper-parameters. */
typedef enum
{
  DIM_ONE,
  DIM_EMBD,
  DIM_QUERY,
  DIM_ATTENDED,
  DIM_KV,
  DIM_QUERY_NORM,
  DIM_KEY_NORM,
  DIM_HEADS,
  DIM_FF,
  DIM_VOCAB,
  DIM_ROPE_PAIRS,
  DIM_EXPERTS,
  DIM_EXPERTS_FF,
  DIM_EXPERTS_EMBD,
  DIM_LAYER_EMBD,
  DIM_LAYERS_EMBD,
  DIM_STREAMS,
  DIM_STREAM_PAIRS,
  DIM_OTHER_STREAMS,
  DIM_STREAMS_EMBD,
  DIM_LAUREL,
  DIM_QUERY_RANK,
  DIM_QUERY_INPUT,
  DIM_UNROTATED,
  DIM_KV_RANK,
  DIM_HEADS_RANK,
  DIM_EXPERT_FF,
} Dim;

/* A tensor that holds the outputs of several operators, one behind the other. */
typedef struct
{
  const char *name;     /* in a file, without "blk.N." */
  LlmOperator ops[3];
  guint n_ops;
} Fused;

typedef struct
{
  const char *name;     /* ours */
  const char *tensor;   /* in a file, without "blk.N." */
  gboolean is_per_layer;
  Dim in, out;          /* DIM_ONE out: a vector */
  const Fused *fused;   /* (nullable): where it may also be */
  Dim cuts;             /* the tensor has a dimension of so many; DIM_ONE: has none */
} OperatorInfo;

static const Fused qkv = {
  "attn_qkv.weight", { LLM_OP_QUERY, LLM_OP_KEY, LLM_OP_VALUE }, 3
};
static const Fused qkv_bias = {
  "attn_qkv.bias", { LLM_OP_QUERY_BIAS, LLM_OP_KEY_BIAS, LLM_OP_VALUE_BIAS }, 3
};
/* Of the same name as the half of it that is not fused: only the number of rows tells. */
static const Fused gate_up = { "ffn_up.weight", { LLM_OP_FFN_GATE, LLM_OP_FFN_UP }, 2 };

static const OperatorInfo operators[LLM_N_OPS] = {
  [LLM_OP_TOKEN_EMBEDDING] = { "token-embedding", "token_embd.weight", FALSE, DIM_EMBD, DIM_VOCAB },
  [LLM_OP_LAYER_EMBEDDING] = { "layer-embedding", "per_layer_token_embd.weight", FALSE,
                               DIM_LAYERS_EMBD, DIM_VOCAB },
  [LLM_OP_LAYER_PROJECTION] = { "layer-projection", "per_layer_model_proj.weight", FALSE, DIM_EMBD,
                                DIM_LAYERS_EMBD },
  [LLM_OP_LAYER_PROJECTION_NORM] = { "layer-projection-norm", "per_layer_proj_norm.weight", FALSE,
                                     DIM_LAYER_EMBD },
  [LLM_OP_STREAM_PROJECTION] = { "stream-projection", "altup_proj.weight", FALSE, DIM_EMBD,
                                 DIM_STREAMS_EMBD, NULL, DIM_OTHER_STREAMS },
  [LLM_OP_STREAM_ROUTER_NORM] = { "stream-router-norm", "altup_router_norm.weight", TRUE, DIM_EMBD },
  [LLM_OP_STREAM_ROUTER] = { "stream-router", "altup_router.weight", TRUE, DIM_EMBD, DIM_STREAMS },
  [LLM_OP_STREAM_PREDICT] = { "stream-predict", "altup_predict_coef.weight", TRUE, DIM_STREAMS,
                              DIM_STREAM_PAIRS },
  [LLM_OP_ATTENTION_NORM] = { "attention-norm", "attn_norm.weight", TRUE, DIM_EMBD },
  [LLM_OP_QUERY] = { "query", "attn_q.weight", TRUE, DIM_EMBD, DIM_QUERY, &qkv },
  [LLM_OP_KEY] = { "key", "attn_k.weight", TRUE, DIM_EMBD, DIM_KV, &qkv },
  [LLM_OP_VALUE] = { "value", "attn_v.weight", TRUE, DIM_EMBD, DIM_KV, &qkv },
  [LLM_OP_QUERY_LOW] = { "query-low", "attn_q_a.weight", TRUE, DIM_EMBD, DIM_QUERY_RANK },
  [LLM_OP_QUERY_LOW_NORM] = { "query-low-norm", "attn_q_a_norm.weight", TRUE, DIM_QUERY_RANK },
  [LLM_OP_QUERY_UP] = { "query-up", "attn_q_b.weight", TRUE, DIM_QUERY_INPUT, DIM_QUERY },
  [LLM_OP_KEY_LOW_NORM] = { "key-low-norm", "attn_kv_a_norm.weight", TRUE, DIM_KV_RANK },
  [LLM_OP_QUERY_ABSORB] = { "query-absorb", "attn_k_b.weight", TRUE, DIM_UNROTATED, DIM_HEADS_RANK,
                            NULL, DIM_HEADS },
  [LLM_OP_QUERY_BIAS] = { "query-bias", "attn_q.bias", TRUE, DIM_QUERY, DIM_ONE, &qkv_bias },
  [LLM_OP_KEY_BIAS] = { "key-bias", "attn_k.bias", TRUE, DIM_KV, DIM_ONE, &qkv_bias },
  [LLM_OP_VALUE_BIAS] = { "value-bias", "attn_v.bias", TRUE, DIM_KV, DIM_ONE, &qkv_bias },
  [LLM_OP_QUERY_NORM] = { "query-norm", "attn_q_norm.weight", TRUE, DIM_QUERY_NORM },
  [LLM_OP_KEY_NORM] = { "key-norm", "attn_k_norm.weight", TRUE, DIM_KEY_NORM },
  [LLM_OP_ATTENTION_SINKS] = { "attention-sinks", "attn_sinks.weight", TRUE, DIM_HEADS },
  [LLM_OP_VALUE_UP] = { "value-up", "attn_v_b.weight", TRUE, DIM_KV_RANK, DIM_ATTENDED, NULL,
                        DIM_HEADS },
  [LLM_OP_ATTENTION_OUT] = { "attention-out", "attn_output.weight", TRUE, DIM_ATTENDED, DIM_EMBD },
  [LLM_OP_ATTENTION_OUT_BIAS] = { "attention-out-bias", "attn_output.bias", TRUE, DIM_EMBD },
  [LLM_OP_ATTENTION_POST_NORM] = { "attention-post-norm", "post_attention_norm.weight", TRUE,
                                   DIM_EMBD },
  [LLM_OP_LAUREL_IN] = { "laurel-in", "laurel_l.weight", TRUE, DIM_EMBD, DIM_LAUREL },
  [LLM_OP_LAUREL_OUT] = { "laurel-out", "laurel_r.weight", TRUE, DIM_LAUREL, DIM_EMBD },
  [LLM_OP_LAUREL_POST_NORM] = { "laurel-post-norm", "laurel_post_norm.weight", TRUE, DIM_EMBD },
  [LLM_OP_FFN_NORM] = { "ffn-norm", "ffn_norm.weight", TRUE, DIM_EMBD },
  [LLM_OP_FFN_GATE] = { "ffn-gate", "ffn_gate.weight", TRUE, DIM_EMBD, DIM_FF, &gate_up },
  [LLM_OP_FFN_UP] = { "ffn-up", "ffn_up.weight", TRUE, DIM_EMBD, DIM_FF, &gate_up },
  [LLM_OP_FFN_GATE_BIAS] = { "ffn-gate-bias", "ffn_gate.bias", TRUE, DIM_FF },
  [LLM_OP_FFN_UP_BIAS] = { "ffn-up-bias", "ffn_up.bias", TRUE, DIM_FF },
  [LLM_OP_FFN_DOWN] = { "ffn-down", "ffn_down.weight", TRUE, DIM_FF, DIM_EMBD },
  [LLM_OP_FFN_DOWN_BIAS] = { "ffn-down-bias", "ffn_down.bias", TRUE, DIM_EMBD },
  [LLM_OP_EXPERT_ROUTER] = { "expert-router", "ffn_gate_inp.weight", TRUE, DIM_EMBD, DIM_EXPERTS },
  [LLM_OP_EXPERT_ROUTER_BIAS] = { "expert-router-bias", "ffn_gate_inp.bias", TRUE, DIM_EXPERTS },
  [LLM_OP_EXPERT_GATE] = { "expert-gate", "ffn_gate_exps.weight", TRUE, DIM_EMBD, DIM_EXPERTS_FF,
                           NULL, DIM_EXPERTS },
  [LLM_OP_EXPERT_UP] = { "expert-up", "ffn_up_exps.weight", TRUE, DIM_EMBD, DIM_EXPERTS_FF, NULL,
                         DIM_EXPERTS },
  [LLM_OP_EXPERT_DOWN] = { "expert-down", "ffn_down_exps.weight", TRUE, DIM_EXPERT_FF,
                           DIM_EXPERTS_EMBD, NULL, DIM_EXPERTS },
  [LLM_OP_EXPERT_GATE_BIAS] = { "expert-gate-bias", "ffn_gate_exps.bias", TRUE, DIM_EXPERTS_FF,
                                DIM_ONE, NULL, DIM_EXPERTS },
  [LLM_OP_EXPERT_UP_BIAS] = { "expert-up-bias", "ffn_up_exps.bias", TRUE, DIM_EXPERTS_FF, DIM_ONE,
                              NULL, DIM_EXPERTS },
  [LLM_OP_EXPERT_DOWN_BIAS] = { "expert-down-bias", "ffn_down_exps.bias", TRUE, DIM_EXPERTS_EMBD,
                                DIM_ONE, NULL, DIM_EXPERTS },
  [LLM_OP_FFN_POST_NORM] = { "ffn-post-norm", "post_ffw_norm.weight", TRUE, DIM_EMBD },
  [LLM_OP_STREAM_CORRECT] = { "stream-correct", "altup_correct_coef.weight", TRUE, DIM_STREAMS,
                              DIM_STREAMS },
  [LLM_OP_STREAM_CORRECT_SCALE] = { "stream-correct-scale", "altup_correct_scale.weight", TRUE,
                                    DIM_EMBD },
  [LLM_OP_LAYER_GATE] = { "layer-gate", "inp_gate.weight", TRUE, DIM_EMBD, DIM_LAYER_EMBD },
  [LLM_OP_LAYER_OUT] = { "layer-out", "proj.weight", TRUE, DIM_LAYER_EMBD, DIM_EMBD },
  [LLM_OP_LAYER_POST_NORM] = { "layer-post-norm", "post_norm.weight", TRUE, DIM_EMBD },
  [LLM_OP_LAYER_SCALE] = { "layer-scale", "layer_output_scale.weight", TRUE, DIM_ONE },
  [LLM_OP_STREAM_UNPROJECTION] = { "stream-unprojection", "altup_unembd_proj.weight", FALSE, DIM_EMBD,
                                   DIM_STREAMS_EMBD, NULL, DIM_OTHER_STREAMS },
  [LLM_OP_OUTPUT_NORM] = { "output-norm", "output_norm.weight", FALSE, DIM_EMBD },
  [LLM_OP_OUTPUT] = { "output", "output.weight", FALSE, DIM_EMBD, DIM_VOCAB },
  [LLM_OP_OUTPUT_BIAS] = { "output-bias", "output.bias", FALSE, DIM_VOCAB },
  [LLM_OP_ROPE_FACTORS] = { "rope-factors", "rope_freqs.weight", FALSE, DIM_ROPE_PAIRS },
  [LLM_OP_ROPE_FACTORS_SHORT] = { "rope-factors-short", "rope_factors_short.weight", FALSE,
                                  DIM_ROPE_PAIRS },
  [LLM_OP_ROPE_FACTORS_LONG] = { "rope-factors-long", "rope_factors_long.weight", FALSE,
                                 DIM_ROPE_PAIRS },
};

G_STATIC_ASSERT (LLM_N_OPS <= 64);

static guint
get_dim (const LlmHparams *h,
         guint             layer,
         Dim               dim)
{
  const LlmLayer *l = &h->layers[layer];

  switch (dim)
    {
    case DIM_ONE:
      return 1;
    case DIM_EMBD:
      return h->n_embd;
    case DIM_QUERY:
      return l->n_heads * (h->latent.kv_rank > 0 ? h->latent.query_dim : l->head_dim);
    case DIM_ATTENDED:
      return l->n_heads * (h->latent.kv_rank > 0 ? h->latent.value_dim : l->head_dim);
    case DIM_KV:
      return l->n_kv_heads * l->head_dim;
    case DIM_QUERY_NORM:
      return (h->norms.is_wide ? l->n_heads : 1) * l->head_dim;
    case DIM_KEY_NORM:
      return (h->norms.is_wide ? l->n_kv_heads : 1) * l->head_dim;
    case DIM_HEADS:
      return l->n_heads;
    case DIM_FF:
      return l->n_ff;
    case DIM_VOCAB:
      return h->n_vocab;
    case DIM_ROPE_PAIRS:
      return h->ropes[0].dim / 2;
    case DIM_EXPERTS:
      return h->experts.n;
    case DIM_EXPERTS_FF:
      return h->experts.n * l->n_expert_ff;
    case DIM_EXPERTS_EMBD:
      return h->experts.n * h->n_embd;
    case DIM_LAYER_EMBD:
      return h->n_layer_embd;
    case DIM_LAYERS_EMBD:
      return h->n_layer_embd * h->n_layers;
    case DIM_STREAMS:
      return h->n_streams;
    case DIM_STREAM_PAIRS:
      return h->n_streams * h->n_streams;
    case DIM_OTHER_STREAMS:
      return h->n_streams - 1;
    case DIM_STREAMS_EMBD:
      return (h->n_streams - 1) * h->n_embd;
    case DIM_LAUREL:
      return h->laurel_rank;
    case DIM_QUERY_RANK:
      return h->latent.query_rank;
    case DIM_QUERY_INPUT:
      return h->latent.query_rank > 0 ? h->latent.query_rank : h->n_embd;
    case DIM_UNROTATED:
      return h->latent.kv_rank > 0 ? h->latent.query_dim - h->rope_dim : 0;
    case DIM_KV_RANK:
      return h->latent.kv_rank;
    case DIM_HEADS_RANK:
      return l->n_heads * h->latent.kv_rank;
    case DIM_EXPERT_FF:
      return l->n_expert_ff;
    }
  g_return_val_if_reached (0);
}

const char *
llm_operator_get_name (LlmOperator op)
{
  return operators[op].name;
}

gboolean
llm_operator_is_layered (LlmOperator op)
{
  return operators[op].is_per_layer;
}

gboolean
llm_operator_is_matrix (LlmOperator op)
{
  return operators[op].out != DIM_ONE;
}

void
llm_operator_get_shape (const LlmHparams *hparams,
                        LlmOperator       op,
                        guint             layer,
                        guint            *n_in,
                        guint            *n_out)
{
  *n_in = get_dim (hparams, layer, operators[op].in);
  *n_out = get_dim (hparams, layer, operators[op].out);
}

/* Writes the tensor's name into @name, and returns the tensor if there is one. */
static const LlmGgufTensor *
look_up (LlmGguf    *gguf,
         const char *tensor,
         gboolean    is_per_layer,
         guint       layer,
         char        name[MAX_NAME])
{
  if (is_per_layer)
    g_snprintf (name, MAX_NAME, "blk.%u.%s", layer, tensor);
  else
    g_strlcpy (name, tensor, MAX_NAME);
  return llm_gguf_find_tensor (gguf, name);
}

/* Shape and type of a tensor as a whole, which may be cut into several matrices. */
static gboolean
check_tensor (LlmGguf              *gguf,
              const LlmGgufTensor  *tensor,
              guint64               n_in,
              guint64               n_out,
              guint64               n_cuts,
              gboolean              is_matrix,
              GError              **error)
{
  const guint64 *dims = tensor->dims;

  if (!is_matrix)
    {
      n_in /= n_cuts;
      n_out = n_cuts;
      n_cuts = 1;
    }
  if (dims[0] != n_in || dims[1] != n_out / n_cuts || dims[2] != n_cuts || dims[3] != 1)
    return n_cuts > 1
             ? llm_gguf_fail (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                              "the tensor %s has the shape %ju × %ju × %ju × %ju, "
                              "%ju × %ju × %ju is needed",
                              tensor->name, dims[0], dims[1], dims[2], dims[3], n_in,
                              n_out / n_cuts, n_cuts)
             : llm_gguf_fail (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                              "the tensor %s has the shape %ju × %ju × %ju × %ju, %ju × %ju is "
                              "needed",
                              tensor->name, dims[0], dims[1], dims[2], dims[3], n_in, n_out);
  if (!is_matrix && tensor->type != LLK_F32)
    return llm_gguf_fail (gguf, error, LLMSVC_ERROR_UNSUPPORTED,
                          "the tensor %s is of type %s, only F32 is supported for it", tensor->name,
                          llk_type_name (tensor->type));
  return TRUE;
}

/* Tensors of some models have other names than elsewhere. */
static const char *
get_tensor_name (const LlmHparams *hparams,
                 LlmOperator       op,
                 guint             layer)
{
  gboolean has_experts = llm_operator_is_in_layer (hparams, LLM_OP_EXPERT_ROUTER, layer);

  if (op == LLM_OP_KEY && hparams->latent.kv_rank > 0)
    return "attn_kv_a_mqa.weight";
  if (op == LLM_OP_QUERY_UP && hparams->latent.query_rank == 0)
    return "attn_q.weight";
  if (op == LLM_OP_EXPERT_ROUTER_BIAS && hparams->experts.has_choice_bias)
    return "exp_probs_b.bias";
  if (op == LLM_OP_FFN_GATE && has_experts)
    return "ffn_gate_shexp.weight";
  if (op == LLM_OP_FFN_UP && has_experts)
    return "ffn_up_shexp.weight";
  if (op == LLM_OP_FFN_DOWN && has_experts)
    return "ffn_down_shexp.weight";
  /* Named for its place behind attention, where other models have a norm before the sum. */
  if (op == LLM_OP_FFN_NORM && hparams->norms.is_ffn_renamed)
    op = LLM_OP_ATTENTION_POST_NORM;
  return operators[op].tensor;
}

/* Rows of a fused tensor before those of @op, and of all; values of a vector. */
static void
measure_fused (const LlmHparams *hparams,
               const Fused      *fused,
               LlmOperator       op,
               guint             layer,
               guint            *n_before,
               guint64          *n_all)
{
  *n_all = 0;
  for (guint i = 0; i < fused->n_ops; i++)
    {
      const OperatorInfo *info = &operators[fused->ops[i]];

      if (fused->ops[i] == op)
        *n_before = (guint) *n_all;
      *n_all += get_dim (hparams, layer, info->out == DIM_ONE ? info->in : info->out);
    }
}

gboolean
llm_operator_find (LlmGguf           *gguf,
                   const LlmHparams  *hparams,
                   LlmOperator        op,
                   guint              layer,
                   LlmTensorPart     *part,
                   GError           **error)
{
  const OperatorInfo *info;
  const LlmGgufTensor *tensor = NULL;
  char name[MAX_NAME];
  gboolean is_matrix;
  guint64 n_in, n_out;
  guint first = 0;

  memset (part, 0, sizeof *part);
  if (op == LLM_OP_OUTPUT && hparams->has_tied_output)
    op = LLM_OP_TOKEN_EMBEDDING;
  info = &operators[op];
  if (info->is_per_layer ? !llm_operator_is_in_layer (hparams, op, layer)
                         : !llm_operator_is_used (hparams, op))
    return TRUE;

  is_matrix = llm_operator_is_matrix (op);
  llm_operator_get_shape (hparams, op, layer, &part->n_in, &part->n_out);
  n_in = part->n_in;
  n_out = part->n_out;

  if (info->fused != NULL && (info->fused != &gate_up || hparams->has_fused_gate))
    tensor = look_up (gguf, info->fused->name, TRUE, layer, name);
  if (tensor != NULL)
    measure_fused (hparams, info->fused, op, layer, &first, is_matrix ? &n_out : &n_in);
  else
    tensor = look_up (gguf, get_tensor_name (hparams, op, info->is_per_layer ? layer : 0),
                      info->is_per_layer, layer, name);
  if (tensor == NULL)
    return llm_gguf_fail (gguf, error, LLMSVC_ERROR_INVALID_MODEL, "the tensor %s is missing",
                          name);
  if (!check_tensor (gguf, tensor, n_in, n_out, get_dim (hparams, layer, info->cuts), is_matrix,
                     error))
    return FALSE;

  part->tensor = tensor;
  part->type = tensor->type;
  part->row_bytes = part->n_in / llk_type_block_size (tensor->type) *
                    llk_type_block_bytes (tensor->type);
  part->first_row = first;
  part->offset = tensor->offset +
                 first * (is_matrix ? part->row_bytes : llk_type_block_bytes (tensor->type));
  return TRUE;
}

guint64
llm_operator_find_present (LlmGguf *gguf,
                           guint64  candidates)
{
  guint64 present = 0;
  char name[MAX_NAME];

  for (guint op = 0; op < LLM_N_OPS; op++)
    {
      const OperatorInfo *info = &operators[op];

      if ((candidates & LLM_OP_BIT (op)) != 0 &&
          (look_up (gguf, info->tensor, info->is_per_layer, 0, name) != NULL ||
           (info->fused != NULL && info->fused != &gate_up &&
            look_up (gguf, info->fused->name, TRUE, 0, name) != NULL)))
        present |= LLM_OP_BIT (op);
    }
  return present;
}

guint
llm_operator_count_layers (const LlmHparams *hparams,
                           LlmOperator       op)
{
  return llm_operator_is_layered (op) ? hparams->n_layers : 1;
}

gboolean
llm_operator_is_at (const LlmHparams *hparams,
                    LlmOperator       op,
                    guint             place)
{
  if (llm_operator_is_layered (op))
    return place >= 1 && place <= hparams->n_layers;
  return place == (op < LLM_OP_STREAM_ROUTER_NORM ? 0 : hparams->n_layers + 1);
}

/* What layers have that attend to the keys and values of others, where the file keeps it all the
 * same. */
static void
add_unused (LlmGguf          *gguf,
            const LlmHparams *hparams,
            GHashTable       *used)
{
  for (guint layer = hparams->n_kv_layers; layer < hparams->n_layers; layer++)
    for (guint op = 0; op < LLM_N_OPS; op++)
      if ((LLM_OPS_OWN_KV & LLM_OP_BIT (op)) != 0)
        {
          char name[MAX_NAME];

          g_hash_table_add (used, (gpointer) look_up (gguf, operators[op].tensor, TRUE, layer, name));
        }
}

/* Whether it is of a layer behind those that compute the next token: one that predicts further
 * ones. */
static gboolean
predicts_more (const LlmHparams *hparams,
               const char       *name)
{
  return hparams->n_predicting > 0 && g_str_has_prefix (name, "blk.")
         && g_ascii_strtoull (name + strlen ("blk."), NULL, 10) >= hparams->n_layers;
}

/* A bias or a norm left out would change every answer, so there must be nothing
 * that the forward pass does not know. */
static gboolean
check_all_are_used (LlmGguf           *gguf,
                    const LlmHparams  *hparams,
                    GHashTable        *used,
                    GError           **error)
{
  for (guint i = 0; i < gguf->tensors->len; i++)
    {
      const LlmGgufTensor *tensor = llm_gguf_get_tensor (gguf, i);

      if (!g_str_has_prefix (tensor->name, OWN_PREFIX) && !predicts_more (hparams, tensor->name)
          && !g_hash_table_contains (used, tensor))
        {
          g_autofree char *quoted = llm_gguf_quote (tensor->name, strlen (tensor->name));

          return llm_gguf_fail (gguf, error, LLMSVC_ERROR_UNSUPPORTED,
                                "the tensor %s is none that a model of architecture %s with %u "
                                "layers can have here: leaving it out would change the answers",
                                quoted, hparams->architecture, hparams->n_layers);
        }
    }
  return TRUE;
}

gboolean
llm_operator_check_all (LlmGguf           *gguf,
                        const LlmHparams  *hparams,
                        GError           **error)
{
  g_autoptr(GHashTable) used = g_hash_table_new (NULL, NULL);

  for (guint op = 0; op < LLM_N_OPS; op++)
    for (guint layer = 0; layer < llm_operator_count_layers (hparams, op); layer++)
      {
        LlmTensorPart part;

        if (!llm_operator_find (gguf, hparams, op, layer, &part, error))
          return FALSE;
        if (part.tensor != NULL)
          g_hash_table_add (used, (gpointer) part.tensor);
      }
  add_unused (gguf, hparams, used);
  return check_all_are_used (gguf, hparams, used, error);
}
