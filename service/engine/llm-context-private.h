/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* For the engine: contexts from the inside. Main thread. */

#pragma once

#include "engine/llm-engine-private.h"
#include "engine/llm-prepare.h"

G_BEGIN_DECLS

/* Says whose memory @request uses. */
void             llm_context_set_session (LlmContext         *self,
                                          LlmRequest         *request);

/* Makes sure that the conversation is in memory, and is there in @callback, which must call
 * llm_context_load_finish(). */
void             llm_context_load        (LlmContext         *self,
                                          GAsyncReadyCallback callback,
                                          gpointer            data);
gboolean         llm_context_load_finish (LlmContext         *self,
                                          GAsyncResult       *result,
                                          GError            **error);

/* Asks a prefill ahead to end; what it has computed stays. */
void             llm_context_stop_ahead  (LlmContext         *self);

/* Cancels its call, and ends it when that has ended. @reason: static, as for the signal. */
void             llm_context_leave       (LlmContext         *self,
                                          const char         *reason);

/* The prompt for @messages (nullable) after what @self (nullable) holds. @counts_system: the tokens
 * of the system messages that all begins with are counted. */
LlmPrepareInput *llm_context_make_input  (LlmContext         *self,
                                          LlmModel           *model,
                                          GVariant           *messages,
                                          gboolean            counts_system);

G_END_DECLS
