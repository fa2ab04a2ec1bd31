/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A call that changes a context, and whether it did when the service went away under it: the
 * revision of the context is asked for right before the call, without waiting (messages of
 * one sender keep their order), and again afterwards from whatever service there is. Any
 * thread, for one turn at a time.
 */

#pragma once

#include "calls/llmsvc-call.h"
#include "llmsvc-context.h"

G_BEGIN_DECLS

/* The context before the call: a revision never comes back, so that one which was read
 * earlier still tells that nothing has changed since, if nothing has. */
typedef struct
{
  guint64 revision;
  gboolean is_exact;  /* read right before the call */
} LlmsvcTurn;

/* A method of @context; @arguments: (transfer floating). */
void         llmsvc_turn_call_async   (LlmsvcContext       *context,
                                       const char          *method,
                                       const char          *reply_type,
                                       GVariant            *arguments,
                                       GCancellable        *cancellable,
                                       GAsyncReadyCallback  callback,
                                       gpointer             user_data);
/* @before: (out) (optional). */
LlmsvcReply *llmsvc_turn_call_finish  (GAsyncResult        *result,
                                       LlmsvcTurn          *before,
                                       GError             **error);

/* For a call that broke off: what is to be told of it. */
void         llmsvc_turn_judge_async  (LlmsvcContext       *context,
                                       const LlmsvcTurn    *before,
                                       GCancellable        *cancellable,
                                       GAsyncReadyCallback  callback,
                                       gpointer             user_data);
/* (transfer full): LOST, LOST_KEPT, LOST_UNKNOWN, or CANCELLED: the judging itself was. */
GError      *llmsvc_turn_judge_finish (GAsyncResult        *result);

G_END_DECLS
