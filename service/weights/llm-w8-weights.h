/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The weights of a model in the form of W8A8 products, for its prompts: a prepared file beside the
 * repacked one, mapped. Nothing needs them: they are the first memory that goes, and come back from
 * the file. Made on any thread; then the executor's, as the ledger's part is.
 */

#pragma once

#include "model/llm-calibration.h"
#include "weights/llm-repacked-cache.h"

typedef struct _LlmW8Weights LlmW8Weights;

/* Blocks while the file is made. Checks are those of llm_weights_new_repacked(), whose @sub_models
 * these are; all of it outlives this. Counts the file in @ledger (nullable) as LLM_HOLDER_WEIGHTS,
 * backed and spare, while it is held. Fails where no file can be kept, or where the model has nothing to
 * multiply so. */
LlmW8Weights *llm_w8_weights_new       (LlmGguf              *gguf,
                                        const LlmHparams     *hparams,
                                        const LlmSubModels   *sub_models,
                                        const LlmCalibration *calibration,
                                        LlmRepackedCache     *cache,
                                        guint                 n_threads,
                                        LlmLedger            *ledger,
                                        GError              **error) G_GNUC_WARN_UNUSED_RESULT;
/* (nullable): of a file that is there already; NULL where there is none. Nothing of it is held until
 * llm_w8_weights_take(). */
LlmW8Weights *llm_w8_weights_find_file (LlmGguf              *gguf,
                                        const LlmHparams     *hparams,
                                        const LlmSubModels   *sub_models,
                                        const LlmCalibration *calibration,
                                        LlmRepackedCache     *cache,
                                        LlmLedger            *ledger);
/* Releases the memory, page cache included unless @keeps_cache. */
void          llm_w8_weights_end       (LlmW8Weights         *self,
                                        gboolean              keeps_cache);
static inline void
llm_w8_weights_free (LlmW8Weights *self)
{
  llm_w8_weights_end (self, FALSE);
}
/* Bytes that the file of such weights has. 0 with @error set. */
guint64       llm_w8_weights_measure   (LlmGguf              *gguf,
                                        const LlmHparams     *hparams,
                                        const LlmSubModels   *sub_models,
                                        const LlmCalibration *calibration,
                                        GError              **error);

/* FALSE for what is not multiplied so, or has nothing in the segment. */
gboolean      llm_w8_weights_find      (LlmW8Weights         *self,
                                        LlmOperator           op,
                                        guint                 layer,
                                        guint                 segment,
                                        LlkW8Matrix          *matrix);
guint64       llm_w8_weights_get_bytes (LlmW8Weights         *self);
/* Whether they are held: else what is used is read from the file. */
gboolean      llm_w8_weights_are_held  (LlmW8Weights         *self);
/* Releases their memory, all of it. Returns the bytes. */
guint64       llm_w8_weights_drop      (LlmW8Weights         *self);
/* Counts them as held again; read_ahead() then has the system read @bytes from @at on; FALSE past
 * the end. */
void          llm_w8_weights_take      (LlmW8Weights         *self);
gboolean      llm_w8_weights_read_ahead (LlmW8Weights        *self,
                                        guint64               at,
                                        guint64               bytes);
/* FALSE when the file was damaged while bytes of it were used. */
gboolean      llm_w8_weights_check     (LlmW8Weights         *self,
                                        GError              **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmW8Weights, llm_w8_weights_free)
