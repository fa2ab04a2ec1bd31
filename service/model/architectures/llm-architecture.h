/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What an architecture is: what its files may hold beside what all have in
 * common, and the values that none of their keys gives: an entry in the table of
 * llm-architecture.c. Neither the forward pass nor anything else asks for a name.
 *
 * All of them are: embedding; in each layer attention with grouped queries and a gated
 * feed-forward network, each with a norm before it, behind it or both, and added to
 * the residual stream; norm, logits. Constant; any thread.
 */

#pragma once

#include "model/architectures/llm-operator.h"

typedef struct
{
  const char *name;             /* general.architecture, and the prefix of its keys */

  guint64 needed;               /* operators beside LLM_OPS_COMMON */
  guint64 lacking;              /* those of LLM_OPS_COMMON that its files don't have */
  guint64 optional;             /* those that a file may have or not */
  gboolean has_fused_gate;      /* ffn_up.weight holds gate and up */
  gboolean has_wide_head_norms; /* norms of queries and keys are of all heads at once */
  gboolean has_value_norms;     /* values are normalized, without weights */
  gboolean has_latent_kv;       /* K and V are of one latent vector */
  gboolean has_dense_lead;      /* the first layers may have a network for all rows in the place of
                                 * experts */
  gboolean has_streams;         /* several residual streams, mixed by each layer, and a short way
                                 * around attention */
  guint n_kv_layers;            /* in a file without attention.shared_kv_layers; 0: all */
  gboolean has_optional_values; /* a layer without values takes its keys for them */
  gboolean has_centered_norms;  /* norms take the mean away first; none is of heads, or behind */
  gboolean has_parallel_ffn;    /* attention and feed-forward network have the same input */
  gboolean has_renamed_ffn_norm; /* the norm before the latter is post_attention_norm.weight */
  /* Keys that other architectures refuse, without the prefix; NULL-terminated. */
  const char *keys[16];

  LlmRopeKind rope_kind;
  guint no_rope_period;         /* every n-th layer is not rotated; 0: all are */
  gboolean rotates_windows_only; /* where some layers have a window, the others are not rotated */
  gboolean has_rope_switch;     /* by rope.scaling.finetuned; without the key it is on */
  double window_rope_base;      /* of layers with a window, without scaling; 0: as the others */

  /* Where the key attention.sliding_window is read. */
  guint window;                 /* in a file without the key; 0: none */
  guint window_period;          /* every n-th layer has none; 0: all have it */
  guint window_layers;          /* models of so many layers have windows, others none; 0: all */

  LlmGate gate;
  gboolean multiplies_logits;   /* by logit_scale, where others divide by it */
  gboolean scales_embedding;    /* by the root of n_embd */
  /* Where a file lacks the keys embedding_scale, residual_scale and logit_scale, MiniCPM's: 12,
   * 1.4 / root of n_layers, n_embd / 256. */
  gboolean has_minicpm_scales;
  gboolean has_no_attention_scale; /* norms of heads do that */
  guint wide_scale_layers;      /* models of so many layers scale attention by the root of
                                 * n_embd / n_heads, not of head_dim; 0: none does */
  double attention_softcap;     /* in a file without the key */
  double logit_softcap;         /* the same */
} LlmArchitecture;

/* NULL when @name is not supported. */
const LlmArchitecture *llm_architecture_find       (const char            *name);
/* (transfer full): the names of all, for a message. */
char                  *llm_architecture_list_names (void);
/* Whether files of it may have the key, one of those that others refuse. */
gboolean               llm_architecture_has_key    (const LlmArchitecture *self,
                                                    const char            *suffix);
