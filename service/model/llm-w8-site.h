/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Sites: the places in a layer whose activations have a scale of their own in W8A8, as several
 * products may read the same rows. Immutable; any thread.
 */

#pragma once

#include "kernels/llk-w8.h"
#include "model/architectures/llm-operator.h"

typedef enum
{
  LLM_W8_ATTENTION_INPUT,   /* of Q, K and V */
  LLM_W8_ATTENTION_OUTPUT,
  LLM_W8_FFN_INPUT,         /* of gate and up */
  LLM_W8_FFN_OUTPUT,        /* of down */
  LLM_W8_N_KINDS,
} LlmW8Kind;

/* What is done at a site. */
typedef struct
{
  float scale;              /* of activations; 0: its products are not computed in int8 */
  gboolean has_shadow;      /* what the scale does not reach is added in floats */
  const guint16 *hot_of;    /* (nullable) (unowned): of each channel, 1 + its place among the hot ones,
                             * which are multiplied in floats; 0: not hot */
} LlmW8Site;

/* LLM_W8_N_KINDS for an operator at none. */
LlmW8Kind   llm_w8_kind_of       (LlmOperator       op);
/* "ffn-output" */
const char *llm_w8_kind_get_name (LlmW8Kind         kind);
/* Channels of a site: inputs of its operators. */
guint       llm_w8_kind_get_size (LlmW8Kind         kind,
                                  const LlmHparams *hparams);

/* (transfer full) (nullable): hot_of for the channels from @first on, @count of them, counted anew;
 * @n_hot: how many they are. */
guint16    *llm_w8_cut_hot       (const LlmW8Site  *site,
                                  guint             first,
                                  guint             count,
                                  guint            *n_hot);

/* The place of a site in tables of [n_layers × LLM_W8_N_KINDS]. */
static inline guint
llm_w8_site_at (guint     layer,
                LlmW8Kind kind)
{
  return layer * LLM_W8_N_KINDS + kind;
}
