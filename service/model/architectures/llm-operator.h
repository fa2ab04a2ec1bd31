/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Operators: what the forward pass multiplies with, adds and divides by, and
 * where a GGUF file keeps it. One table names them all; which of them a model
 * has is written in its hyper-parameters. A file may keep several operators in
 * one tensor, each then is a part of its rows. Immutable; any thread.
 */

#pragma once

#include "model/architectures/llm-hparams.h"

/* In the order in which the forward pass comes to them. Matrices are
 * [inputs × outputs]; the others are vectors, F32 in a file. */
typedef enum
{
  LLM_OP_TOKEN_EMBEDDING,     /* [n_embd × n_vocab], read by rows */
  LLM_OP_LAYER_EMBEDDING,     /* [n_layers·n_layer_embd × n_vocab], likewise: what each layer knows
                               * of a token by itself */
  LLM_OP_LAYER_PROJECTION,    /* [n_embd × n_layers·n_layer_embd], of the embedding, added to
                               * that */
  LLM_OP_LAYER_PROJECTION_NORM, /* [n_layer_embd], for each layer alike */
  LLM_OP_STREAM_PROJECTION,   /* [n_embd × (n_streams - 1)·n_embd], of the embedding: what the other
                               * residual streams begin with */

  LLM_OP_STREAM_ROUTER_NORM,  /* [n_embd], at the beginning of a layer and again at its end */
  LLM_OP_STREAM_ROUTER,       /* [n_embd × n_streams], likewise: how streams are mixed */
  LLM_OP_STREAM_PREDICT,      /* [n_streams × n_streams²], of that: what each gets of each before
                               * the layer */

  LLM_OP_ATTENTION_NORM,      /* [n_embd] */
  LLM_OP_QUERY,               /* [n_embd × n_heads·head_dim] */
  LLM_OP_KEY,                 /* [n_embd × n_kv_heads·head_dim] */
  LLM_OP_VALUE,               /* [n_embd × n_kv_heads·head_dim] */
  /* In the place of QUERY and VALUE, where K and V are of one latent vector of kv_rank values that
   * all heads share, and rope_dim more that are rotated (MLA): */
  LLM_OP_QUERY_LOW,           /* [n_embd × query_rank] */
  LLM_OP_QUERY_LOW_NORM,      /* [query_rank] */
  LLM_OP_QUERY_UP,            /* [query_rank or n_embd × n_heads·query_dim] */
  LLM_OP_KEY_LOW_NORM,        /* [kv_rank], of what KEY gives, [n_embd × kv_rank + rope_dim] */
  LLM_OP_QUERY_ABSORB,        /* [query_dim - rope_dim × n_heads·kv_rank], a part for each head:
                               * queries for latent vectors */
  LLM_OP_QUERY_BIAS,          /* [n_heads·head_dim] */
  LLM_OP_KEY_BIAS,            /* [n_kv_heads·head_dim] */
  LLM_OP_VALUE_BIAS,          /* [n_kv_heads·head_dim] */
  LLM_OP_QUERY_NORM,          /* [head_dim], for each head alike; or [n_heads·head_dim] */
  LLM_OP_KEY_NORM,            /* [head_dim]; or [n_kv_heads·head_dim] */
  LLM_OP_ATTENTION_SINKS,     /* [n_heads], scores of nothing, which take a share of attention */
  LLM_OP_VALUE_UP,            /* [kv_rank × n_heads·value_dim], a part for each head: values of
                               * latent vectors */
  LLM_OP_ATTENTION_OUT,       /* [n_heads·head_dim × n_embd]; or [n_heads·value_dim × n_embd] */
  LLM_OP_ATTENTION_OUT_BIAS,  /* [n_embd] */
  LLM_OP_ATTENTION_POST_NORM, /* [n_embd], before the sum with the residual stream */
  LLM_OP_LAUREL_IN,           /* [n_embd × laurel_rank], a short way around attention */
  LLM_OP_LAUREL_OUT,          /* [laurel_rank × n_embd] */
  LLM_OP_LAUREL_POST_NORM,    /* [n_embd] */

  LLM_OP_FFN_NORM,            /* [n_embd] */
  LLM_OP_FFN_GATE,            /* [n_embd × n_ff] */
  LLM_OP_FFN_UP,              /* [n_embd × n_ff] */
  LLM_OP_FFN_GATE_BIAS,       /* [n_ff] */
  LLM_OP_FFN_UP_BIAS,         /* [n_ff] */
  LLM_OP_FFN_DOWN,            /* [n_ff × n_embd] */
  LLM_OP_FFN_DOWN_BIAS,       /* [n_embd] */
  /* In the place of the last six, where each row goes through some of many networks; or beside
   * them, which then are the network of all rows. Outputs of the first expert, then of the second,
   * … */
  LLM_OP_EXPERT_ROUTER,       /* [n_embd × n_experts] */
  LLM_OP_EXPERT_ROUTER_BIAS,  /* [n_experts] */
  LLM_OP_EXPERT_GATE,         /* [n_embd × n_experts·n_expert_ff] */
  LLM_OP_EXPERT_UP,           /* [n_embd × n_experts·n_expert_ff] */
  LLM_OP_EXPERT_DOWN,         /* [n_expert_ff × n_experts·n_embd] */
  LLM_OP_EXPERT_GATE_BIAS,    /* [n_experts·n_expert_ff] */
  LLM_OP_EXPERT_UP_BIAS,      /* [n_experts·n_expert_ff] */
  LLM_OP_EXPERT_DOWN_BIAS,    /* [n_experts·n_embd] */
  LLM_OP_FFN_POST_NORM,       /* [n_embd], before the sum with the residual stream */

  LLM_OP_STREAM_CORRECT,      /* [n_streams × n_streams], of what the router says: what each stream
                               * gets of that which the layer changed in the first */
  LLM_OP_STREAM_CORRECT_SCALE, /* [n_embd], of what the next one reads of the first stream */
  LLM_OP_LAYER_GATE,          /* [n_embd × n_layer_embd], of what the layer knows of the token */
  LLM_OP_LAYER_OUT,           /* [n_layer_embd × n_embd] */
  LLM_OP_LAYER_POST_NORM,     /* [n_embd], before the sum with the residual stream */
  LLM_OP_LAYER_SCALE,         /* [1], of the residual stream behind the layer */

  LLM_OP_STREAM_UNPROJECTION, /* [n_embd × (n_streams - 1)·n_embd], a part for each of the other
                               * streams, before their mean with the first is the output */
  LLM_OP_OUTPUT_NORM,         /* [n_embd] */
  LLM_OP_OUTPUT,              /* [n_embd × n_vocab], the embedding where tied */
  LLM_OP_OUTPUT_BIAS,         /* [n_vocab] */

  LLM_OP_ROPE_FACTORS,        /* [rope_dim / 2], divide the frequencies; as the two below */
  LLM_OP_ROPE_FACTORS_SHORT,  /* for contexts as long as at first in training */
  LLM_OP_ROPE_FACTORS_LONG,   /* for longer ones */

  LLM_N_OPS,
} LlmOperator;

/* Sets of operators. */
#define LLM_OP_BIT(op) (G_GUINT64_CONSTANT (1) << (op))
/* What every model has, but for what its architecture says that it lacks. */
#define LLM_OPS_COMMON                                                                      \
  (LLM_OP_BIT (LLM_OP_TOKEN_EMBEDDING) | LLM_OP_BIT (LLM_OP_ATTENTION_NORM) |               \
   LLM_OP_BIT (LLM_OP_QUERY) | LLM_OP_BIT (LLM_OP_KEY) | LLM_OP_BIT (LLM_OP_VALUE) |        \
   LLM_OP_BIT (LLM_OP_ATTENTION_OUT) | LLM_OP_BIT (LLM_OP_FFN_NORM) |                       \
   LLM_OP_BIT (LLM_OP_FFN_GATE) | LLM_OP_BIT (LLM_OP_FFN_UP) | LLM_OP_BIT (LLM_OP_FFN_DOWN) | \
   LLM_OP_BIT (LLM_OP_OUTPUT_NORM))

/* What of that stands before the halves of a layer. */
#define LLM_OPS_PRE_NORM                                                                    \
  (LLM_OP_BIT (LLM_OP_ATTENTION_NORM) | LLM_OP_BIT (LLM_OP_FFN_NORM))

#define LLM_OPS_QKV_BIAS                                                                    \
  (LLM_OP_BIT (LLM_OP_QUERY_BIAS) | LLM_OP_BIT (LLM_OP_KEY_BIAS) |                          \
   LLM_OP_BIT (LLM_OP_VALUE_BIAS))
/* Where layers have an embedding of tokens each. */
#define LLM_OPS_LAYER_EMBEDDING                                                             \
  (LLM_OP_BIT (LLM_OP_LAYER_EMBEDDING) | LLM_OP_BIT (LLM_OP_LAYER_PROJECTION) |             \
   LLM_OP_BIT (LLM_OP_LAYER_PROJECTION_NORM) | LLM_OP_BIT (LLM_OP_LAYER_GATE) |             \
   LLM_OP_BIT (LLM_OP_LAYER_OUT) | LLM_OP_BIT (LLM_OP_LAYER_POST_NORM))
/* Where there are several residual streams. */
#define LLM_OPS_STREAMS                                                                     \
  (LLM_OP_BIT (LLM_OP_STREAM_PROJECTION) | LLM_OP_BIT (LLM_OP_STREAM_ROUTER_NORM) |         \
   LLM_OP_BIT (LLM_OP_STREAM_ROUTER) | LLM_OP_BIT (LLM_OP_STREAM_PREDICT) |                 \
   LLM_OP_BIT (LLM_OP_STREAM_CORRECT) | LLM_OP_BIT (LLM_OP_STREAM_CORRECT_SCALE) |          \
   LLM_OP_BIT (LLM_OP_STREAM_UNPROJECTION))
/* Where K and V are of one latent vector. */
#define LLM_OPS_LATENT                                                                      \
  (LLM_OP_BIT (LLM_OP_QUERY_UP) | LLM_OP_BIT (LLM_OP_KEY_LOW_NORM) |                        \
   LLM_OP_BIT (LLM_OP_QUERY_ABSORB) | LLM_OP_BIT (LLM_OP_VALUE_UP))
#define LLM_OPS_QUERY_LOW                                                                   \
  (LLM_OP_BIT (LLM_OP_QUERY_LOW) | LLM_OP_BIT (LLM_OP_QUERY_LOW_NORM))
#define LLM_OPS_LAUREL                                                                      \
  (LLM_OP_BIT (LLM_OP_LAUREL_IN) | LLM_OP_BIT (LLM_OP_LAUREL_OUT) |                         \
   LLM_OP_BIT (LLM_OP_LAUREL_POST_NORM))
/* What a layer lacks that attends to the keys and values of another. */
#define LLM_OPS_OWN_KV                                                                      \
  (LLM_OP_BIT (LLM_OP_KEY) | LLM_OP_BIT (LLM_OP_VALUE) | LLM_OP_BIT (LLM_OP_KEY_BIAS) |     \
   LLM_OP_BIT (LLM_OP_VALUE_BIAS) | LLM_OP_BIT (LLM_OP_KEY_NORM))
#define LLM_OPS_FFN_BIAS                                                                    \
  (LLM_OP_BIT (LLM_OP_FFN_GATE_BIAS) | LLM_OP_BIT (LLM_OP_FFN_UP_BIAS) |                    \
   LLM_OP_BIT (LLM_OP_FFN_DOWN_BIAS))
#define LLM_OPS_FFN                                                                         \
  (LLM_OP_BIT (LLM_OP_FFN_GATE) | LLM_OP_BIT (LLM_OP_FFN_UP) | LLM_OP_BIT (LLM_OP_FFN_DOWN))
#define LLM_OPS_EXPERTS                                                                     \
  (LLM_OP_BIT (LLM_OP_EXPERT_ROUTER) | LLM_OP_BIT (LLM_OP_EXPERT_GATE) |                    \
   LLM_OP_BIT (LLM_OP_EXPERT_UP) | LLM_OP_BIT (LLM_OP_EXPERT_DOWN))
#define LLM_OPS_EXPERT_BIAS                                                                 \
  (LLM_OP_BIT (LLM_OP_EXPERT_ROUTER_BIAS) | LLM_OP_BIT (LLM_OP_EXPERT_GATE_BIAS) |          \
   LLM_OP_BIT (LLM_OP_EXPERT_UP_BIAS) | LLM_OP_BIT (LLM_OP_EXPERT_DOWN_BIAS))
#define LLM_OPS_QK_NORM                                                                     \
  (LLM_OP_BIT (LLM_OP_QUERY_NORM) | LLM_OP_BIT (LLM_OP_KEY_NORM))
#define LLM_OPS_POST_NORM                                                                   \
  (LLM_OP_BIT (LLM_OP_ATTENTION_POST_NORM) | LLM_OP_BIT (LLM_OP_FFN_POST_NORM))
#define LLM_OPS_LONG_ROPE                                                                   \
  (LLM_OP_BIT (LLM_OP_ROPE_FACTORS_SHORT) | LLM_OP_BIT (LLM_OP_ROPE_FACTORS_LONG))

/* Where an operator of a layer lies in the file. */
typedef struct
{
  const LlmGgufTensor *tensor;  /* (nullable): NULL when the model lacks the operator */
  guint64 offset;               /* bytes from the start of the file */
  guint first_row;              /* of the tensor; of a vector the first value */
  LlkType type;
  gsize row_bytes;
  guint n_in;
  guint n_out;                  /* 1 for vectors */
} LlmTensorPart;

/* Whether the model has it; of those that layers have, whether any layer does. */
static inline gboolean
llm_operator_is_used (const LlmHparams *hparams,
                      LlmOperator       op)
{
  return (hparams->operators & LLM_OP_BIT (op)) != 0;
}

/* Whether that layer has it. */
static inline gboolean
llm_operator_is_in_layer (const LlmHparams *hparams,
                          LlmOperator       op,
                          guint             layer)
{
  return (hparams->layers[layer].operators & LLM_OP_BIT (op)) != 0;
}

/* Whether it holds the matrices of all experts, those of the first first. */
static inline gboolean
llm_operator_is_of_experts (LlmOperator op)
{
  return op == LLM_OP_EXPERT_GATE || op == LLM_OP_EXPERT_UP || op == LLM_OP_EXPERT_DOWN;
}

/* Whether only the rows of tokens are read of it. */
static inline gboolean
llm_operator_is_looked_up (LlmOperator op)
{
  return op == LLM_OP_TOKEN_EMBEDDING || op == LLM_OP_LAYER_EMBEDDING;
}

/* "attention-norm" */
const char *llm_operator_get_name  (LlmOperator        op);
/* Whether each layer has its own. */
gboolean    llm_operator_is_layered (LlmOperator       op);
/* Whether the forward pass comes to @op at @place: 0 is before the layers, then each layer is a
 * place, and n_layers + 1 is behind them. */
gboolean    llm_operator_is_at     (const LlmHparams  *hparams,
                                    LlmOperator        op,
                                    guint              place);
/* How many tensors of @op the model has at most: one for each layer, or one. */
guint       llm_operator_count_layers (const LlmHparams *hparams,
                                    LlmOperator        op);
/* Whether products read it, so that it can be packed into panels; others are vectors. */
gboolean    llm_operator_is_matrix (LlmOperator        op);
/* Inputs and outputs of the whole operator, where layers have their own of that of @layer: n values
 * and 1 for a vector. */
void        llm_operator_get_shape (const LlmHparams  *hparams,
                                    LlmOperator        op,
                                    guint              layer,
                                    guint             *n_in,
                                    guint             *n_out);

/* Finds and checks the tensor of @op; of layer @layer where layers have their own.
 * An operator that the model lacks is no error. Fails with INVALID_MODEL or
 * UNSUPPORTED for a missing tensor and for one of another shape or type. Needs no
 * bytes of weights. */
gboolean    llm_operator_find      (LlmGguf           *gguf,
                                    const LlmHparams  *hparams,
                                    LlmOperator        op,
                                    guint              layer,
                                    LlmTensorPart     *part,
                                    GError           **error) G_GNUC_WARN_UNUSED_RESULT;

/* Which operators of @candidates, a set, the file has a tensor for; of those that
 * layers have, whether the first layer has one. */
guint64     llm_operator_find_present (LlmGguf        *gguf,
                                    guint64            candidates);
/* Whether the file has every tensor of the forward pass and none that it would leave out: a bias or
 * a norm left out would change every answer. Needs no bytes of weights. */
gboolean    llm_operator_check_all (LlmGguf           *gguf,
                                    const LlmHparams  *hparams,
                                    GError           **error) G_GNUC_WARN_UNUSED_RESULT;
