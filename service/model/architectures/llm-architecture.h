/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What an architecture is: what its files may hold beside what all have in
 * common, and the values that none of their keys gives: an entry in the table of
 * llm-architecture.c. Neither the forward pass nor anything else asks for a name.
 *
 * All of them are: embedding; in each layer RMS norm, attention with grouped
 * queries, RMS norm, a gated feed-forward network, both added to the residual
 * stream; RMS norm, logits. Constant; any thread.
 */

#pragma once

#include "model/architectures/llm-operator.h"

typedef struct
{
  const char *name;             /* general.architecture, and the prefix of its keys */

  guint64 needed;               /* operators beside LLM_OPS_COMMON */
  guint64 optional;             /* those that a file may have or not */
  gboolean has_fused_gate;      /* ffn_up.weight holds gate and up */
  /* Keys that other architectures refuse, without the prefix; NULL-terminated. */
  const char *keys[4];

  LlmRopeKind rope_kind;
  guint no_rope_period;         /* every n-th layer is not rotated; 0: all are */
  double window_rope_base;      /* of layers with a window, without scaling; 0: as the others */

  /* Where the key attention.sliding_window is read. */
  guint window;                 /* in a file without the key; 0: none */
  guint window_period;          /* every n-th layer has none; 0: all have it */

  LlmGate gate;
  gboolean scales_embedding;    /* by the root of n_embd */
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
