/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* For the engine: how an answer is begun and what it is made of. Main thread. */

#pragma once

#include "engine/llm-engine-private.h"

G_BEGIN_DECLS

/**
 * llm_generation_start:
 * @context: (nullable): loaded, and marked as busy until the answer has ended
 * @messages: `a(ssa{sv})`: what is asked, history included when there is no context
 * @raw: (nullable): this prompt as it is, instead of messages
 *
 * The result of @callback (source object: the engine) comes with the admission,
 * through llm_generation_start_finish().
 */
void           llm_generation_start         (LlmEngine          *engine,
                                             LlmContext         *context,
                                             LlmCaller          *caller,
                                             GVariant           *messages,
                                             const char         *raw,
                                             LlmCallOptions     *options,
                                             LlmSink            *sink,
                                             GAsyncReadyCallback callback,
                                             gpointer            data);
/* (transfer full) */
LlmGeneration *llm_generation_start_finish  (GAsyncResult       *result,
                                             GError            **error);

/* One that is done already: for an answer that is only repeated. (transfer full) */
LlmGeneration *llm_generation_new_settled   (LlmCaller          *caller);

/* Ends it for good: the service ends. Calls nobody back. */
void           llm_generation_abandon       (LlmGeneration      *self);
/* The reader or caller has left: nothing of it is kept. */
void           llm_generation_leave         (LlmGeneration      *self);

G_END_DECLS
