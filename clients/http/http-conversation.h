/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A client of the endpoint sends the whole conversation each time. Here it gets the context that has
 * its beginning already, so that only what is new is computed: one whose messages, the answer
 * included, are the first of the request's. Contexts have names and stay at the service, so they are
 * found again after a restart of either program. The oldest go when there are many, or when the
 * service has no room for a new one. Of one caller. Main thread.
 */

#pragma once

#include <llmsvc.h>

G_BEGIN_DECLS

typedef struct _HttpConversations HttpConversations;

/* A context that a request uses, alone. */
typedef struct
{
  LlmsvcContext *context;  /* (owned) */
  guint n_known;           /* messages that it has already */
  guint64 revision;        /* of the context with these; 0: it has none */

  /*< private >*/
  guint64 number;
} HttpConversation;

HttpConversations *http_conversations_new      (void);
void               http_conversations_free     (HttpConversations   *self);
gboolean           http_conversations_are_in_use (const HttpConversations *self);

/* Finds what the service has of them. @client outlives this. */
void               http_conversations_load_async  (HttpConversations   *self,
                                                   LlmsvcClient        *client,
                                                   GAsyncReadyCallback  callback,
                                                   gpointer             data);
gboolean           http_conversations_load_finish (HttpConversations   *self,
                                                   GAsyncResult        *result,
                                                   GError             **error);

/* The context for @messages (element-type LlmsvcMessage), which has a beginning of them, or none. With
 * @name (nullable) it is that of the caller, and fails with CONFLICT where that has other messages. */
void               http_conversations_take_async  (HttpConversations   *self,
                                                   GPtrArray           *messages,
                                                   const char          *name,
                                                   GCancellable        *cancellable,
                                                   GAsyncReadyCallback  callback,
                                                   gpointer             data);
HttpConversation  *http_conversations_take_finish (HttpConversations   *self,
                                                   GAsyncResult        *result,
                                                   GError             **error)
                                                   G_GNUC_WARN_UNUSED_RESULT;
/* The request has ended. @messages: those of it; @answer: (nullable): behind them, NULL where the
 * context has neither. Takes @conversation. */
void               http_conversations_give_back   (HttpConversations   *self,
                                                   HttpConversation    *conversation,
                                                   GPtrArray           *messages,
                                                   LlmsvcAnswer        *answer);
/* The request goes without it: its context is no longer what it was. Likewise. */
void               http_conversations_forget      (HttpConversations   *self,
                                                   HttpConversation    *conversation);

G_END_DECLS
