/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The sub-models of a model (E1): level after level takes more groups of heads
 * and more channels of the feed-forward network of each layer, the last takes
 * all. What a level adds to the one below is its segment: of the weights, the
 * outputs of QUERY, FFN_GATE and FFN_UP, and the inputs of ATTENTION_OUT and
 * FFN_DOWN. Everything else is whole in segment 0: KEY and VALUE too, so that a
 * KV cache is good for every level. Immutable; any thread.
 */

#pragma once

#include "model/architectures/llm-operator.h"

#define LLM_MAX_LEVELS 16

typedef struct
{
  guint n_levels;                      /* at least 1 */
  guint8 percent[LLM_MAX_LEVELS];      /* rising; the last is 100 */
  guint n_layers;
  guint *n_groups;                     /* (owned) [n_layers × n_levels]: KV heads, with their
                                        * queries, up to and with each level */
  guint *n_channels;                   /* (owned) [n_layers × n_levels]: of the feed-forward
                                        * network, likewise */
} LlmSubModels;

/* A part of an operator, of all its inputs or of all its outputs. Empty where
 * the level adds nothing. */
typedef struct
{
  guint in_first, in_count;
  guint out_first, out_count;
} LlmSegmentShape;

/* What a level costs. */
typedef struct
{
  guint64 weights;      /* values that it holds: embedding, norms and K and V with them */
  guint64 operations;   /* multiplications of one token: of matrices, the output's with them, and of
                         * attention to LLM_SUB_MODEL_DEPTH positions */
  guint64 bytes;        /* of weights read for one token */
} LlmSubModelCost;

#define LLM_SUB_MODEL_DEPTH 512

/* One level: the whole model. */
LlmSubModels   *llm_sub_models_new_whole (const LlmHparams   *hparams);
/* From arrays as above, which are copied. Fails with INVALID_MODEL where they
 * don't rise to the whole model, where a border isn't a multiple of
 * LLM_SEGMENT_INPUTS inputs of ATTENTION_OUT or FFN_DOWN, or with several levels
 * for a model with experts. */
LlmSubModels   *llm_sub_models_new       (const LlmHparams   *hparams,
                                          guint               n_levels,
                                          const guint8       *percent,
                                          const guint        *n_groups,
                                          const guint        *n_channels,
                                          GError            **error) G_GNUC_WARN_UNUSED_RESULT;
void            llm_sub_models_free      (LlmSubModels       *self);

/* Borders of segments are multiples of it, so that packed weights can be cut there. */
#define LLM_SEGMENT_INPUTS 64

/* What @segment adds to @op of @layer. */
LlmSegmentShape llm_sub_models_get_shape (const LlmSubModels *self,
                                          const LlmHparams   *hparams,
                                          LlmOperator         op,
                                          guint               layer,
                                          guint               segment);

/* The level for @percent of the model: the smallest that has no less. */
guint           llm_sub_models_find_level (const LlmSubModels *self,
                                          guint               percent);
/* What @level of the model in the file @gguf costs. Fails as llm_operator_find() does. */
gboolean        llm_sub_models_measure   (const LlmSubModels *self,
                                          LlmGguf            *gguf,
                                          const LlmHparams   *hparams,
                                          guint               level,
                                          LlmSubModelCost    *cost,
                                          GError            **error) G_GNUC_WARN_UNUSED_RESULT;

static inline guint
llm_sub_models_get_groups (const LlmSubModels *self,
                           guint               layer,
                           guint               level)
{
  return self->n_groups[layer * self->n_levels + level];
}

static inline guint
llm_sub_models_get_channels (const LlmSubModels *self,
                             guint               layer,
                             guint               level)
{
  return self->n_channels[layer * self->n_levels + level];
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmSubModels, llm_sub_models_free)
