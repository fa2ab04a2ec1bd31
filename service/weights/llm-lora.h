/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * An adapter (LoRA) of a model: a GGUF file as llama.cpp's convert_lora_to_gguf.py writes it. For
 * some matrices W of the model it has two of low rank, so that the product becomes W x + scale × B
 * (A x). The file is untrusted, like a model's; a part that can't be applied is an error, because
 * leaving it out would change the answers. Immutable, and memory-mapped; any thread.
 */

#pragma once

#include "model/llm-companion.h"
#include "weights/llm-weights.h"

#define LLM_LORA_MAX_RANK 256

/* The pair of one operator of one layer, of all inputs and outputs. A level of the sub-models has
 * the first inputs of @a, or the first outputs of @b. */
typedef struct
{
  LlmWeightView a;       /* inputs of the operator, @rank outputs */
  LlmWeightView b;       /* @rank inputs, outputs of the operator */
  guint rank;            /* 0: the operator is not adapted */
  float scale;
} LlmLoraPair;

typedef struct
{
  gatomicrefcount ref_count;
  LlmGguf *gguf;         /* (owned) */
  LlmLedger *ledger;     /* (nullable) (owned) */
  guint64 counted_bytes; /* in it */
  LlmLoraPair *pairs;    /* (owned) [n_layers × LLM_N_OPS], shared ones in layer 0 */
  guint max_rank;        /* of all pairs, at least 1 */
} LlmLora;

/* For the model of the file @model. Counts the file's bytes in @ledger (nullable) as
 * LLM_HOLDER_WEIGHTS until freed; they can't be reclaimed meanwhile. Fails with INVALID_MODEL for a
 * file that is no adapter, or not of this model, and with UNSUPPORTED if it adapts an embedding,
 * norms or experts. */
LlmLora *llm_lora_open         (const char       *path,
                                LlmGguf          *model,
                                const LlmHparams *hparams,
                                LlmLedger        *ledger,
                                GError          **error) G_GNUC_WARN_UNUSED_RESULT;
/* Of an opened file. */
LlmLora *llm_lora_new_for_gguf (LlmGguf          *gguf,
                                LlmGguf          *model,
                                const LlmHparams *hparams,
                                LlmLedger        *ledger,
                                GError          **error) G_GNUC_WARN_UNUSED_RESULT;
/* (nullable): of one level of the sub-models, from the companion of @model; NULL without @error if
 * it has none. Its halves have the level's size, so rows of other levels can't use it. Fails as
 * above, and with UNSUPPORTED if the model keeps several operators in one tensor. */
LlmLora *llm_lora_new_for_level (const LlmCompanion *companion,
                                LlmModel         *model,
                                guint             level,
                                LlmLedger        *ledger,
                                GError          **error) G_GNUC_WARN_UNUSED_RESULT;
LlmLora *llm_lora_ref          (LlmLora          *self);
void     llm_lora_unref        (LlmLora          *self);

/* FALSE when the file was damaged while bytes of it were used. */
gboolean llm_lora_check        (LlmLora          *self,
                                GError          **error);

static inline const LlmLoraPair *
llm_lora_get_pair (const LlmLora *self,
                   LlmOperator    op,
                   guint          layer)
{
  return &self->pairs[layer * LLM_N_OPS + op];
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmLora, llm_lora_unref)
