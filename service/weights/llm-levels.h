/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The sub-models of a model, from its companion file (E1, E4): the table, and the adapter of each
 * level, which compensates for what the level lacks. Weights hold them, because segments follow the
 * table. Immutable; any thread.
 */

#pragma once

#include "model/llm-companion.h"
#include "weights/llm-lora.h"

struct _LlmLevels
{
  LlmCompanion *companion;               /* (owned) */
  LlmLora *adapters[LLM_MAX_LEVELS];     /* (nullable) (owned) */
};

/* (nullable): of @model; NULL without @error if it has no companion. Counts adapters in @ledger
 * (nullable) as LLM_HOLDER_WEIGHTS. Fails as llm_companion_open() and llm_lora_new_for_level(). */
LlmLevels *llm_levels_open          (LlmModel         *model,
                                     LlmLedger        *ledger,
                                     GError          **error) G_GNUC_WARN_UNUSED_RESULT;
void       llm_levels_free          (LlmLevels        *self);
/* (nullable): for weights; NULL without @self, or if the companion has only thresholds. */
static inline const LlmSubModels *
llm_levels_get_table (const LlmLevels *self)
{
  return self != NULL && self->companion->has_sub_models ? self->companion->sub_models : NULL;
}
/* (nullable): for a plan; NULL without @self. */
static inline const LlmThresholds *
llm_levels_get_thresholds (const LlmLevels *self)
{
  return self != NULL ? self->companion->thresholds : NULL;
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmLevels, llm_levels_free)
