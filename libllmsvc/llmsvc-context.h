/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * One conversation. A named one lives until it is closed, over restarts of app, service
 * and machine; an unnamed one as long as the app's connection, or until the service goes
 * away. Dropping the last reference closes an unnamed one. Same thread as its client.
 */

#pragma once

#include "llmsvc-client.h"
#include "llmsvc-context-memory.h"
#include "llmsvc-generation.h"

G_BEGIN_DECLS

#define LLMSVC_TYPE_CONTEXT (llmsvc_context_get_type ())
LLMSVC_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (LlmsvcContext, llmsvc_context, LLMSVC, CONTEXT, GObject)

/* Properties: "client", "name" ("" for an unnamed one), "path" (the object on the bus),
 * "tokens", "revision", "residency", "is-exact" (as of the last call or refresh; notify),
 * "is-closed" (notify).
 * Signal: "closed" (const char *reason): "closed", "disconnected", "administrator", or
 * "lost" when the service went away with an unnamed one. */

LLMSVC_AVAILABLE_IN_0_1
LlmsvcClient     *llmsvc_context_get_client      (LlmsvcContext        *self);
LLMSVC_AVAILABLE_IN_0_1
const char       *llmsvc_context_get_name        (LlmsvcContext        *self);
LLMSVC_AVAILABLE_IN_0_1
const char       *llmsvc_context_get_path        (LlmsvcContext        *self);
LLMSVC_AVAILABLE_IN_0_1
guint             llmsvc_context_get_tokens      (LlmsvcContext        *self);
LLMSVC_AVAILABLE_IN_0_1
guint64           llmsvc_context_get_revision    (LlmsvcContext        *self);
LLMSVC_AVAILABLE_IN_0_1
const char       *llmsvc_context_get_residency   (LlmsvcContext        *self);
LLMSVC_AVAILABLE_IN_0_1
gboolean          llmsvc_context_get_is_exact    (LlmsvcContext        *self);
LLMSVC_AVAILABLE_IN_0_1
gboolean          llmsvc_context_get_is_closed   (LlmsvcContext        *self);

/* Reads "tokens", "revision", "residency" and "is-exact" anew. */
LLMSVC_AVAILABLE_IN_0_1
void              llmsvc_context_refresh_async   (LlmsvcContext        *self,
                                                  GCancellable         *cancellable,
                                                  GAsyncReadyCallback   callback,
                                                  gpointer              user_data);
LLMSVC_AVAILABLE_IN_0_1
gboolean          llmsvc_context_refresh_finish  (LlmsvcContext        *self,
                                                  GAsyncResult         *result,
                                                  GError              **error);
/* Where the service keeps what it remembers, chunk by chunk; brings "residency", too. */
LLMSVC_AVAILABLE_IN_0_1
void              llmsvc_context_get_memory_async  (LlmsvcContext        *self,
                                                    GCancellable         *cancellable,
                                                    GAsyncReadyCallback   callback,
                                                    gpointer              user_data);
LLMSVC_AVAILABLE_IN_0_1
LlmsvcContextMemory *llmsvc_context_get_memory_finish (LlmsvcContext        *self,
                                                       GAsyncResult         *result,
                                                       GError              **error)
                                                       G_GNUC_WARN_UNUSED_RESULT;
/* Begins an answer to @messages; ready when the service has taken the call. */
LLMSVC_AVAILABLE_IN_0_1
void              llmsvc_context_generate_async  (LlmsvcContext        *self,
                                                  LlmsvcMessage       **messages,
                                                  gsize                 n_messages,
                                                  LlmsvcOptions        *options,
                                                  GCancellable         *cancellable,
                                                  GAsyncReadyCallback   callback,
                                                  gpointer              user_data);
LLMSVC_AVAILABLE_IN_0_1
LlmsvcGeneration *llmsvc_context_generate_finish (LlmsvcContext        *self,
                                                  GAsyncResult         *result,
                                                  GError              **error)
                                                  G_GNUC_WARN_UNUSED_RESULT;
/* The same for one message of the user. */
LLMSVC_AVAILABLE_IN_0_1
void              llmsvc_context_prompt_async    (LlmsvcContext        *self,
                                                  const char           *prompt,
                                                  LlmsvcOptions        *options,
                                                  GCancellable         *cancellable,
                                                  GAsyncReadyCallback   callback,
                                                  gpointer              user_data);
LLMSVC_AVAILABLE_IN_0_1
LlmsvcGeneration *llmsvc_context_prompt_finish   (LlmsvcContext        *self,
                                                  GAsyncResult         *result,
                                                  GError              **error)
                                                  G_GNUC_WARN_UNUSED_RESULT;
/* One message of the user, and the whole answer. Cancelling stops it at the service. */
LLMSVC_AVAILABLE_IN_0_1
void              llmsvc_context_ask_async       (LlmsvcContext        *self,
                                                  const char           *prompt,
                                                  LlmsvcOptions        *options,
                                                  GCancellable         *cancellable,
                                                  GAsyncReadyCallback   callback,
                                                  gpointer              user_data);
LLMSVC_AVAILABLE_IN_0_1
LlmsvcAnswer     *llmsvc_context_ask_finish      (LlmsvcContext        *self,
                                                  GAsyncResult         *result,
                                                  GError              **error)
                                                  G_GNUC_WARN_UNUSED_RESULT;
/* Adds messages without an answer. @tokens: (out) (optional): tokens added. */
LLMSVC_AVAILABLE_IN_0_1
void              llmsvc_context_append_async    (LlmsvcContext        *self,
                                                  LlmsvcMessage       **messages,
                                                  gsize                 n_messages,
                                                  LlmsvcOptions        *options,
                                                  GCancellable         *cancellable,
                                                  GAsyncReadyCallback   callback,
                                                  gpointer              user_data);
LLMSVC_AVAILABLE_IN_0_1
gboolean          llmsvc_context_append_finish   (LlmsvcContext        *self,
                                                  GAsyncResult         *result,
                                                  guint                *tokens,
                                                  GError              **error);
/* A context with the same content; options as for llmsvc_client_create_context_async(). */
LLMSVC_AVAILABLE_IN_0_1
void              llmsvc_context_fork_async      (LlmsvcContext        *self,
                                                  LlmsvcOptions        *options,
                                                  GCancellable         *cancellable,
                                                  GAsyncReadyCallback   callback,
                                                  gpointer              user_data);
LLMSVC_AVAILABLE_IN_0_1
LlmsvcContext    *llmsvc_context_fork_finish     (LlmsvcContext        *self,
                                                  GAsyncResult         *result,
                                                  GError              **error)
                                                  G_GNUC_WARN_UNUSED_RESULT;
/* Forgets the last @n_turns turns. */
LLMSVC_AVAILABLE_IN_0_1
void              llmsvc_context_rollback_async  (LlmsvcContext        *self,
                                                  guint                 n_turns,
                                                  LlmsvcOptions        *options,
                                                  GCancellable         *cancellable,
                                                  GAsyncReadyCallback   callback,
                                                  gpointer              user_data);
LLMSVC_AVAILABLE_IN_0_1
gboolean          llmsvc_context_rollback_finish (LlmsvcContext        *self,
                                                  GAsyncResult         *result,
                                                  GError              **error);
/* All messages, read in as many calls as it takes. (element-type LlmsvcMessage)
 * (transfer container) */
LLMSVC_AVAILABLE_IN_0_1
void              llmsvc_context_list_messages_async  (LlmsvcContext        *self,
                                                       GCancellable         *cancellable,
                                                       GAsyncReadyCallback   callback,
                                                       gpointer              user_data);
LLMSVC_AVAILABLE_IN_0_1
GPtrArray        *llmsvc_context_list_messages_finish (LlmsvcContext        *self,
                                                       GAsyncResult         *result,
                                                       GError              **error)
                                                       G_GNUC_WARN_UNUSED_RESULT;
/* Ends the context and forgets its content, stored or not. */
LLMSVC_AVAILABLE_IN_0_1
void              llmsvc_context_close_async     (LlmsvcContext        *self,
                                                  GCancellable         *cancellable,
                                                  GAsyncReadyCallback   callback,
                                                  gpointer              user_data);
LLMSVC_AVAILABLE_IN_0_1
gboolean          llmsvc_context_close_finish    (LlmsvcContext        *self,
                                                  GAsyncResult         *result,
                                                  GError              **error);

G_END_DECLS
