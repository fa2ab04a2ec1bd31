/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The hyper-parameters of a model, read from GGUF keys and checked against each
 * other; what an architecture adds to the keys is in llm-architecture.h. The
 * forward pass asks here, never for the name of an architecture. Plain data.
 */

#pragma once

#include "gguf/llm-gguf.h"

#define LLM_MAX_LAYERS 1024
#define LLM_MAX_STREAMS 4
#define LLM_MAX_EMBD 65536

/* Which values of a head a rotation turns together. */
typedef enum
{
  LLM_ROPE_NORM, /* neighbouring pairs (2i, 2i+1) */
  LLM_ROPE_NEOX, /* (i, i + dim/2) */
} LlmRopeKind;

typedef enum
{
  LLM_ROPE_SCALING_NONE,
  LLM_ROPE_SCALING_LINEAR, /* positions divided by the scale */
  LLM_ROPE_SCALING_YARN,   /* the more so, the slower a pair turns */
} LlmRopeScaling;

/* One rotary embedding: angles of pairs by position. */
typedef struct
{
  float base;
  LlmRopeScaling scaling;
  float scale;             /* 1 for none */
  float magnitude;         /* cosine and sine are multiplied by it */
  float attention;         /* queries and keys are, all of them, where that is not done by
                            * magnitude */
  guint n_ctx;             /* YARN: positions of the first training */
  float beta_fast;         /* YARN: pairs that turn more often in n_ctx are not scaled */
  float beta_slow;         /* YARN: pairs that turn less often are scaled like LINEAR */
  gint factors;            /* the LlmOperator that divides the frequencies, or -1 */
  guint dim;               /* values of a head that it turns: even, at most head_dim */
} LlmRope;

/* All layers but those with a window; those with one, where theirs is another. */
#define LLM_MAX_ROPES 2
#define LLM_NO_ROPE (-1)

/* What tells a layer from others. */
typedef struct
{
  guint64 operators;       /* those of LlmHparams.operators that layers have and that this one
                            * has */
  guint window;            /* positions that attention sees, the row's own with them; 0: all */
  gint rope;               /* index of LlmHparams.ropes, or LLM_NO_ROPE */
  guint n_heads;
  guint n_kv_heads;        /* divides n_heads */
  guint head_dim;          /* of queries, keys and values */
  guint n_ff;              /* of the network that all rows go through; 0: it has experts alone */
  guint n_expert_ff;       /* of each of its experts; 0: it has none */
  float gate_cutoff;       /* of the gate, what is not so many standard deviations above the mean
                            * counts as 0; -INFINITY: all counts */
  guint kv_layer;          /* whose K and V it attends to: its own number, or that of an earlier
                            * one, which has some of the same heads */
} LlmLayer;

/* What the gate of the feed-forward network goes through. */
typedef enum
{
  LLM_GATE_SILU,
  LLM_GATE_GELU,           /* by the tanh form */
  LLM_GATE_CAPPED_SILU,    /* x / (1 + exp (-1.702 x)) × (up + 1), x up to 7 and up from -7 to 7 */
} LlmGate;

/* What an expert's part in a row is by the router's product: the softmax over all experts, or each
 * by itself. */
typedef enum
{
  LLM_EXPERT_SOFTMAX,
  LLM_EXPERT_SIGMOID,
} LlmExpertScore;

/* K and V made of one latent vector. */
typedef struct
{
  guint kv_rank;           /* values of that vector; 0: K and V are not latent */
  guint query_rank;        /* of what queries are made of; 0: of n_embd */
  guint query_dim;         /* of a head's query before it is one for latent vectors, rope_dim with
                            * it */
  guint value_dim;         /* of a head's value that was made of a latent vector */
} LlmLatent;

typedef struct
{
  guint n;                 /* 0: one feed-forward network for all rows */
  guint n_used;            /* of each row */
  LlmExpertScore score;
  gboolean has_choice_bias; /* the router's bias decides which experts, not how much of each */
  gboolean has_sum;        /* the shares of a row's experts are 1 together */
  float scale;             /* of what the experts give together */
} LlmExperts;

typedef struct
{
  float eps;
  gboolean is_wide;        /* those of queries and keys are of all heads at once */
  gboolean has_values;     /* values are normalized, without weights */
  gboolean is_centered;    /* they take the mean away first */
  gboolean is_ffn_renamed; /* the norm before it is post_attention_norm.weight */
} LlmNorms;

typedef struct
{
  float embedding;
  float residual;          /* of what is added to the residual stream */
  float logits;
  float attention;         /* of the products of queries and keys */
  float attention_softcap; /* 0: none; else scores become cap × tanh (score / cap) */
  float logit_softcap;     /* the same for logits */
  /* Queries at position p are multiplied by 1 + temperature × ln (1 + floor (p / length)); 0 is
   * none. */
  float temperature;
  guint temperature_length;
} LlmScales;

typedef struct
{
  char architecture[32];
  guint n_layers;
  guint n_embd;
  /* Of layers that differ, the largest of each. */
  guint n_heads;
  guint n_kv_heads;
  guint head_dim;
  guint n_ff;              /* of all networks, experts with them */
  guint query_width;       /* of the layer where n_heads × head_dim is largest */
  guint kv_width;          /* likewise n_kv_heads × head_dim */
  guint n_kv_layers;       /* the first so many layers have K and V of their own */
  LlmLatent latent;
  LlmExperts experts;
  guint n_predicting;      /* layers of the file behind n_layers, which predict further tokens: left
                            * out */
  guint n_layer_embd;      /* of the embedding that each layer has; 0: none has */
  guint n_streams;         /* residual streams, of which layers compute the first; 1: no others */
  guint laurel_rank;       /* of the short way around attention; 0: the model has none */
  guint n_vocab;
  guint n_ctx;             /* positions the model was trained for */
  LlmNorms norms;

  /* A set, LLM_OP_BIT() each: what the forward pass has to do beside what all models
   * have in common follows from it. */
  guint64 operators;
  gboolean has_tied_output;   /* no output.weight: the embedding is used */
  gboolean has_fused_gate;    /* ffn_up.weight holds gate and up */
  gboolean has_parallel_ffn;  /* it has the input of attention, and both are added */

  LlmScales scales;
  LlmGate gate;

  LlmRopeKind rope_kind;
  guint rope_dim;             /* the largest of ropes */
  LlmRope ropes[LLM_MAX_ROPES];
  guint n_ropes;
  LlmLayer layers[LLM_MAX_LAYERS];
} LlmHparams;

/* Fails with INVALID_MODEL or UNSUPPORTED, naming file, key, value and what is supported. */
gboolean llm_hparams_read (LlmGguf     *gguf,
                           LlmHparams  *hparams,
                           GError     **error) G_GNUC_WARN_UNUSED_RESULT;
