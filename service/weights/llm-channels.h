/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Weights by channel (A1–A3): for rows that leave some inputs out, the weights of the others are
 * read from a prepared file, one bundle at a time: all operators that have an input in common, with the
 * heads of their panels. Nothing is predicted and nothing cached: what is active is known when the row
 * is, and memory holds whole layers instead.
 *
 * Nothing here has to succeed: where most inputs are active, a bundle is in use for another step,
 * or something could not be read, the whole weights are used instead, with the same bits.
 *
 * Made on any thread; then one: that of the queue that reads.
 */

#pragma once

#include "weights/llm-repacked-cache.h"

/* Blocks while the file is made, if it is missing. Checks are those of llm_weights_new_repacked(),
 * whose @sub_models these are; all of it outlives this. Counts what it holds in @ledger (nullable) as
 * LLM_HOLDER_WEIGHTS. Fails with UNSUPPORTED for a model without such weights, and where no file can
 * be kept. */
LlmChannels *llm_channels_new         (LlmGguf              *gguf,
                                       const LlmHparams     *hparams,
                                       const LlmSubModels   *sub_models,
                                       LlmRepackedCache     *cache,
                                       guint                 n_threads,
                                       LlmLedger            *ledger,
                                       GError              **error) G_GNUC_WARN_UNUSED_RESULT;
/* Nothing may be leased. Waits for reads under way. */
void         llm_channels_free        (LlmChannels          *self);

/* Where it reads from now on, @source (copied); NULL: it is not used, and holds nothing but what is
 * leased. @always: for tests: whatever reading costs, what is left out is not read. */
void         llm_channels_set_source  (LlmChannels          *self,
                                       const LlmWeightSource *source,
                                       gboolean              always);
/* Whether there is a source. */
gboolean     llm_channels_are_used    (LlmChannels          *self);
/* Whether something could not be read: then nothing is, any more. */
gboolean     llm_channels_are_broken  (LlmChannels          *self);

/* Whether there are channels of it, and can be read. */
gboolean     llm_channels_have        (LlmChannels          *self,
                                       LlmOperator           op,
                                       guint                 layer,
                                       guint                 segment);
/* READY with @view filled in, or with no data in it where the whole weights must be used; or
 * PENDING. */
LlmStatus    llm_channels_acquire     (LlmChannels          *self,
                                       LlmOperator           op,
                                       guint                 layer,
                                       guint                 segment,
                                       const LlmActivation  *activation,
                                       LlmWeightView        *view);
void         llm_channels_release     (LlmChannels          *self);
/* Frees what is read and not leased. Returns the bytes. */
guint64      llm_channels_trim        (LlmChannels          *self);
void         llm_channels_add_figures (LlmChannels          *self,
                                       LlmStreamFigures     *figures);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmChannels, llm_channels_free)
