/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A model that drafts for itself: its smallest sub-model guesses, which has its weights in memory
 * where those of the whole model stream, and begins with the K and V of the text that the model itself
 * computed. So it needs no second model and no second cache (C9), only the slots of its guesses. It
 * has no guesses while weights of that sub-model don't stay in memory.
 */

#pragma once

#include "base/llm-worker-pool.h"
#include "decoding/draft/llm-draft-source.h"
#include "forward/llm-instance.h"
#include "runtime/llm-session.h"

G_BEGIN_DECLS

LlmDraftSource *llm_own_draft_new  (void);
/* Before begin(): what it drafts for, an answer of @sub_model percent of @instance, whose text is in
 * @session. All outlive its use; @pool computes. The executor's thread. */
void            llm_own_draft_bind (LlmDraftSource *source,
                                    LlmInstance    *instance,
                                    LlmSession     *session,
                                    guint           sub_model,
                                    LlmWorkerPool  *pool);

G_END_DECLS
