/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The hyper-parameters of a model, read from GGUF keys and checked against each
 * other. A table in the source describes the architectures: adding one is an
 * entry there, not a branch in the forward pass. Plain data.
 */

#pragma once

#include "model/llm-gguf.h"

G_BEGIN_DECLS

typedef enum
{
  LLM_ROPE_NORM, /* turns neighbouring pairs (2i, 2i+1) */
  LLM_ROPE_NEOX, /* turns (i, i + dim/2) */
} LlmRopeKind;

typedef enum
{
  LLM_ROPE_SCALING_NONE,
  LLM_ROPE_SCALING_LINEAR, /* positions divided by rope_scale */
} LlmRopeScaling;

typedef struct
{
  char architecture[32];
  guint n_layers;
  guint n_embd;
  guint n_heads;
  guint n_kv_heads;      /* divides n_heads */
  guint head_dim;        /* of queries, keys and values */
  guint n_ff;
  guint n_vocab;
  guint n_ctx;           /* positions the model was trained for */
  float rms_eps;
  LlmRopeKind rope_kind;
  guint rope_dim;        /* even, at most head_dim */
  float rope_base;
  LlmRopeScaling rope_scaling;
  float rope_scale;      /* 1 for none */
  gboolean has_tied_output; /* no output.weight: the embedding is used */
} LlmHparams;

/* Fails with INVALID_MODEL or UNSUPPORTED, naming file, key, value and what is supported. */
gboolean llm_hparams_read (LlmGguf     *gguf,
                           LlmHparams  *hparams,
                           GError     **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
