/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The companion of a model: a GGUF file beside it (NAME.llmsvc.gguf for NAME.gguf) that
 * llmsvc-elastic(1) writes. It has the table of the model's sub-models and their adapters, and is
 * for one file's weights only. Untrusted, as a model's file is. Immutable and memory-mapped; any
 * thread.
 */

#pragma once

#include "model/architectures/llm-sub-models.h"
#include "model/llm-model.h"

#define LLM_COMPANION_SUFFIX ".llmsvc.gguf"

typedef struct
{
  gatomicrefcount ref_count;
  LlmGguf *gguf;                           /* (owned) */
  LlmSubModels *sub_models;                /* (owned) */
  LlmSubModelCost costs[LLM_MAX_LEVELS];   /* of each level, with its adapters */
  gboolean has_adapters[LLM_MAX_LEVELS];
  double losses[LLM_MAX_LEVELS];           /* of each level, with its adapter, measured when it was made: mean
                                            * negative log-likelihood of a token; of a file without
                                            * them, numbers that fall in the same way */
} LlmCompanion;

/* (transfer full): where the companion of the model file @model lies. */
char         *llm_companion_get_path (const char    *model);
/* (nullable): of @model; NULL without @error where there is none. Fails with INVALID_MODEL for a
 * damaged file, one of other weights, and a table that is none of this model or whose shares of
 * weights, operations and bytes are not those of what it has; with UNSUPPORTED for a later
 * version. Reads a sample of the model's weights, see llm_model_get_weight_identity(). */
LlmCompanion *llm_companion_open     (LlmModel      *model,
                                      GError       **error) G_GNUC_WARN_UNUSED_RESULT;
/* Of an opened file. */
LlmCompanion *llm_companion_new_for_gguf (LlmGguf   *gguf,
                                      LlmModel      *model,
                                      GError       **error) G_GNUC_WARN_UNUSED_RESULT;
LlmCompanion *llm_companion_ref      (LlmCompanion  *self);
void          llm_companion_unref    (LlmCompanion  *self);

/* (transfer full): what names of a level's tensors begin with, "level.40." for one. */
char         *llm_companion_get_prefix (const LlmCompanion *self,
                                      guint          level);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmCompanion, llm_companion_unref)
