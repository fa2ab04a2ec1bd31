/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Provider: the matrices that products read come packed into panels from a
 * prepared copy, all else from the model file. See llm-weights.h for threads.
 */

#pragma once

#include "weights/llm-prepared-cache.h"
#include "weights/llm-weights.h"

G_BEGIN_DECLS

/* The checks are those of llm_weights_new_mapped(). Packs the matrices now, on
 * @n_threads (0 for as many as the machine gives), unless @cache (nullable) has
 * them; blocks meanwhile. Counts all of it in @ledger (nullable) as
 * LLM_HOLDER_WEIGHTS until freed; freeing gives the memory of both files back. */
LlmWeights *llm_weights_new_prepared (LlmGguf           *gguf,
                                      const LlmHparams  *hparams,
                                      LlmPreparedCache  *cache,
                                      guint              n_threads,
                                      LlmLedger         *ledger,
                                      GError           **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
