/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * One answer under way: pieces of text as they come, or a stream of them. Nothing is read
 * ahead: an app that does not read makes the service wait, and after its time limit end the
 * answer.
 * Dropping the last reference before the end cancels. Same thread as its context.
 */

#pragma once

#include <gio/gio.h>

#include "llmsvc-answer.h"
#include "llmsvc-version.h"

G_BEGIN_DECLS

#define LLMSVC_TYPE_GENERATION (llmsvc_generation_get_type ())
LLMSVC_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (LlmsvcGeneration, llmsvc_generation, LLMSVC, GENERATION, GObject)

/* Properties: "context", "request-id", "is-done" (notify), "answer" (notify, nullable). Signal:
 * "tool-call" (string): a call of a tool is complete. */

/* (transfer full) (nullable): the next piece of text, at least one character and never
 * part of one; NULL without @error at the end. One at a time, and not together with the stream. */
LLMSVC_AVAILABLE_IN_0_1
void          llmsvc_generation_next_async       (LlmsvcGeneration     *self,
                                                  GCancellable         *cancellable,
                                                  GAsyncReadyCallback   callback,
                                                  gpointer              user_data);
LLMSVC_AVAILABLE_IN_0_1
char         *llmsvc_generation_next_finish      (LlmsvcGeneration     *self,
                                                  GAsyncResult         *result,
                                                  GError              **error)
                                                  G_GNUC_WARN_UNUSED_RESULT;
/* (transfer none): plain UTF-8 text; its end is the end of the answer, a failed answer is
 * an error of LLMSVC_ERROR when reading; closing it before the end cancels. */
LLMSVC_AVAILABLE_IN_0_1
GInputStream *llmsvc_generation_get_input_stream (LlmsvcGeneration     *self);
/* Reads to the end. */
LLMSVC_AVAILABLE_IN_0_1
void          llmsvc_generation_finish_async     (LlmsvcGeneration     *self,
                                                  GCancellable         *cancellable,
                                                  GAsyncReadyCallback   callback,
                                                  gpointer              user_data);
LLMSVC_AVAILABLE_IN_0_1
LlmsvcAnswer *llmsvc_generation_finish_finish    (LlmsvcGeneration     *self,
                                                  GAsyncResult         *result,
                                                  GError              **error)
                                                  G_GNUC_WARN_UNUSED_RESULT;
/* Stops the answer; ready when the turn is settled: whether it stays in the context is what
 * the option "on-cancel" said. A cancel after the end changes nothing and is no error. */
LLMSVC_AVAILABLE_IN_0_1
void          llmsvc_generation_cancel_async     (LlmsvcGeneration     *self,
                                                  GCancellable         *cancellable,
                                                  GAsyncReadyCallback   callback,
                                                  gpointer              user_data);
LLMSVC_AVAILABLE_IN_0_1
gboolean      llmsvc_generation_cancel_finish    (LlmsvcGeneration     *self,
                                                  GAsyncResult         *result,
                                                  GError              **error);
/* (transfer none) (nullable): the whole answer once it has been read to its end. */
LLMSVC_AVAILABLE_IN_0_1
LlmsvcAnswer *llmsvc_generation_get_answer       (LlmsvcGeneration     *self);
/* The name of this request: the option "request-id", or one made for it. Asking again with
 * it after LLMSVC_ERROR_LOST_UNKNOWN never does the turn twice. */
LLMSVC_AVAILABLE_IN_0_1
const char   *llmsvc_generation_get_request_id   (LlmsvcGeneration     *self);
LLMSVC_AVAILABLE_IN_0_1
gboolean      llmsvc_generation_get_is_done      (LlmsvcGeneration     *self);

G_END_DECLS
