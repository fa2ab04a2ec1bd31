/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A second, smaller model that drafts tokens for another one of the same vocabulary (C1). Its
 * weights are shared; each answer has a source with a KV cache of its own, which ends with the
 * answer. A source runs the draft model's steps itself, in the executor's thread, between two steps
 * of the target model. It computes a long prompt in slices, and says PENDING until it has caught
 * up.
 */

#pragma once

#include "decoding/draft/llm-draft-source.h"
#include "kernels/llk.h"
#include "memory/llm-ledger.h"
#include "model/llm-model.h"
#include "weights/llm-weights.h"

G_BEGIN_DECLS

typedef struct _LlmDraftModel LlmDraftModel;

/* References @model, takes @weights. @n_threads: 0 for as many as the process may use. @ledger
 * counts the KV caches. Any thread; then used by the thread of one executor only. */
LlmDraftModel  *llm_draft_model_new        (LlmModel       *model,
                                            LlmWeights     *weights,
                                            const LlkOps   *kernels,
                                            guint           n_threads,
                                            LlmLedger      *ledger);
LlmDraftModel  *llm_draft_model_ref        (LlmDraftModel  *self);
void            llm_draft_model_unref      (LlmDraftModel  *self);
/* Of its weights. */
guint64         llm_draft_model_get_bytes  (LlmDraftModel  *self);
/* Whether its tokens are those of @target; UNSUPPORTED names the first that is not. Any thread. */
gboolean        llm_draft_model_check      (LlmDraftModel  *self,
                                            LlmModel       *target,
                                            GError        **error) G_GNUC_WARN_UNUSED_RESULT;
LlmDraftSource *llm_draft_model_new_source (LlmDraftModel  *self);

G_END_DECLS
