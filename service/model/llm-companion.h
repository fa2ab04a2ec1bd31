/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The companion of a model: a GGUF file beside it (NAME.llmsvc.gguf for NAME.gguf) that
 * llmsvc-elastic(1), llmsvc-active(1) and `llmsvc-tool calibrate` write. It has some of: the table of
 * the model's sub-models and their adapters, activation thresholds, what prompts in W8A8 need; and is
 * for one file's weights only. Untrusted,
 * as a model's file is. Immutable and memory-mapped; any thread.
 */

#pragma once

#include "model/architectures/llm-sub-models.h"
#include "model/llm-calibration.h"
#include "model/llm-model.h"
#include "model/llm-quality.h"
#include "model/llm-thresholds.h"

#define LLM_COMPANION_SUFFIX ".llmsvc.gguf"
#define LLM_COMPANION_VERSION 1

typedef struct
{
  gatomicrefcount ref_count;
  LlmGguf *gguf;                           /* (owned) */
  gboolean has_sub_models;
  LlmSubModels *sub_models;                /* (owned); without sub-models, the whole model alone */
  LlmSubModelCost costs[LLM_MAX_LEVELS];   /* of each level, with its adapters */
  gboolean has_adapters[LLM_MAX_LEVELS];
  double losses[LLM_MAX_LEVELS];           /* of each level, with its adapter, measured when it was
                                            * made: mean negative log-likelihood of a token; of a
                                            * file without them, numbers that fall in the same
                                            * way */
  LlmQuality *quality;                     /* (nullable) (owned), as the next: of the sub-models */
  LlmThresholds *thresholds;
  LlmQuality *sparse_quality;              /* of their answers: the sparsest first, then of dense ones */
  LlmCalibration *calibration;
} LlmCompanion;

/* (transfer full): where the companion of the model file @model lies. */
char         *llm_companion_get_path (const char    *model);
/* (nullable): of @model; NULL without @error where there is none. Fails with INVALID_MODEL for a
 * damaged file, one of other weights, and a table that is none of this model or whose shares of
 * weights, operations and bytes are not those of what it has, as llm_thresholds_read(), and where
 * it has nothing of all that; with UNSUPPORTED for a later version. Reads a sample of
 * the model's weights, see llm_model_get_weight_identity(). */
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
/* (transfer floating): a{sv}, as org.llm.Service.Model's `Info` has it: what @level has of the whole model, and
 * how good it was measured to be. */
GVariant     *llm_companion_describe_level (const LlmCompanion *self,
                                      guint          level);
/* (transfer floating): the same of the sparsity at @place of the thresholds. */
GVariant     *llm_companion_describe_sparsity (const LlmCompanion *self,
                                      guint          place);
/* How good answers of the sparsity at @place are, as llm_quality_get() has it: 0 where that was not
 * measured. */
double        llm_companion_get_sparse_quality (const LlmCompanion *self,
                                      guint          place);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmCompanion, llm_companion_unref)
