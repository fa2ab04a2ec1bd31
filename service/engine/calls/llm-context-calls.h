/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What callers do with a context. Main thread; calls that need the model or the disk are
 * asynchronous: their result is that of a GTask. A turn is a transaction: it is there as a whole
 * once it was committed, or the context is as before.
 */

#pragma once

#include <gio/gio.h>

#include "contexts/llm-context.h"
#include "engine/calls/llm-generation.h"

G_BEGIN_DECLS

/**
 * llm_context_generate_async:
 * @messages: `a(ssa{sv})`, to add before answering; may be empty
 * @options: parsed for LLMSVC_CALL_GENERATE or LLMSVC_CALL_ASK
 * @sink: gets the answer
 *
 * The result comes when the answer has been admitted, with the generation; from
 * then on the sink tells the rest. An error here means that the sink is never
 * called. Waits while the model loads.
 */
void              llm_context_generate_async     (LlmContext         *self,
                                                  LlmCaller          *caller,
                                                  GVariant           *messages,
                                                  LlmCallOptions     *options,
                                                  LlmSink            *sink,
                                                  GAsyncReadyCallback callback,
                                                  gpointer            data);
/* Options: LLMSVC_CALL_APPEND. Returns the number of tokens added. */
void              llm_context_append_async       (LlmContext         *self,
                                                  LlmCaller          *caller,
                                                  GVariant           *messages,
                                                  LlmCallOptions     *options,
                                                  GAsyncReadyCallback callback,
                                                  gpointer            data);

/* Returns `a(ssa{sv})`; @count 0 for as many as fit into one reply. */
void              llm_context_get_messages_async (LlmContext         *self,
                                                  guint               first,
                                                  guint               count,
                                                  GAsyncReadyCallback callback,
                                                  gpointer            data);

/* Forgets the last @turns turns. Options: LLMSVC_CALL_ROLLBACK. */
void              llm_context_rollback_async     (LlmContext         *self,
                                                  guint               turns,
                                                  LlmCallOptions     *options,
                                                  GAsyncReadyCallback callback,
                                                  gpointer            data);

/* Options: LLMSVC_CALL_FORK, as for llm_engine_create_context_async(). */
void              llm_context_fork_async         (LlmContext         *self,
                                                  LlmCaller          *caller,
                                                  LlmCallOptions     *options,
                                                  GAsyncReadyCallback callback,
                                                  gpointer            data);

/* Ends the context and forgets its content; a running answer is cancelled first. */
void              llm_context_close_async        (LlmContext         *self,
                                                  GAsyncReadyCallback callback,
                                                  gpointer            data);

/* --- where its memory is --- */

/* Returns an LlmContextMemory: while a call runs, too, and without loading the model. */
void              llm_context_get_memory_async   (LlmContext         *self,
                                                  GAsyncReadyCallback callback,
                                                  gpointer            data);

G_END_DECLS
