/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the other objects know of a context. Its thread, unless said otherwise. */

#pragma once

#include "calls/llmsvc-call.h"
#include "context/llmsvc-reader.h"
#include "llmsvc-context.h"

G_BEGIN_DECLS

/* @name: "" for none; @owner: the unique name of the service that has it; @is_ours: whether an
 * unnamed one ends with this object. */
LlmsvcContext *llmsvc_context_new           (LlmsvcClient        *client,
                                             const char          *path,
                                             const char          *name,
                                             const char          *owner,
                                             gboolean             is_ours);
LlmsvcPeer    *llmsvc_context_get_peer      (LlmsvcContext       *self);
gboolean       llmsvc_context_is_named      (LlmsvcContext       *self);

/* A context that was made by the call with @reply; @name: (nullable). */
LlmsvcContext *llmsvc_context_new_made      (LlmsvcClient        *client,
                                             LlmsvcReply         *reply,
                                             const char          *name);
/* Ends @task with a context that was made or opened, when its properties are read. */
void           llmsvc_context_return        (GTask               *task,
                                             LlmsvcClient        *client,
                                             LlmsvcReply         *reply,
                                             const char          *name);

/* Takes the values of @values, an a{sv}. Any thread; in another one nothing happens. */
void           llmsvc_context_apply         (LlmsvcContext       *self,
                                             GVariant            *values);
/* It has ended. Any thread: the signal is emitted in the context's. */
void           llmsvc_context_mark_closed   (LlmsvcContext       *self,
                                             const char          *reason);
/* The service has no such object: (transfer full) the error of the call. Any thread. */
GError        *llmsvc_context_take_gone     (LlmsvcContext       *self);
/* The process @owner that had the service's name has left; NULL for any. */
void           llmsvc_context_service_gone  (LlmsvcContext       *self,
                                             const char          *owner);
/* Makes itself known to a new service, in the thread-default main context. */
void           llmsvc_context_reopen        (LlmsvcContext       *self);

/* A method of the context; fails at once when it is closed. The result of its task, whose source
 * is the context, is the reply. */
void           llmsvc_context_call_async    (LlmsvcContext       *self,
                                             const char          *method,
                                             const char          *reply_type,
                                             LlmsvcCallFlags      flags,
                                             GVariant            *arguments,
                                             GCancellable        *cancellable,
                                             GAsyncReadyCallback  callback,
                                             gpointer             user_data);
/* Reads the properties and applies them. */
void           llmsvc_context_read_async    (LlmsvcContext       *self,
                                             LlmsvcCallFlags      flags,
                                             GCancellable        *cancellable,
                                             GAsyncReadyCallback  callback,
                                             gpointer             user_data);
/* Ends a reading, without which things go on; @when it was, for programmers. */
void           llmsvc_context_read_done     (GAsyncResult        *result,
                                             const char          *when);
/* FALSE with @error set when it is closed. */
gboolean       llmsvc_context_check_open    (LlmsvcContext       *self,
                                             GError             **error);

/* @messages: (transfer floating): a(ssa{sv}); @options: changed by this. */
void           llmsvc_context_begin_async   (LlmsvcContext       *self,
                                             GVariant            *messages,
                                             GVariantDict        *options,
                                             gboolean             is_standalone,
                                             GCancellable        *cancellable,
                                             GAsyncReadyCallback  callback,
                                             gpointer             user_data);
LlmsvcReader  *llmsvc_context_begin_finish  (GAsyncResult        *result,
                                             GError             **error);

G_END_DECLS
