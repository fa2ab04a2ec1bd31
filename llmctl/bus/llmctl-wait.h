/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Straight code over the library's asynchronous calls: each is waited for in the
 * default main context, where Ctrl-C, SIGTERM and --timeout are noticed and end it.
 *
 *   g_autoptr(GAsyncResult) result = NULL;
 *
 *   llmsvc_context_close_async (context, llmctl_wait_get_cancellable (),
 *                               llmctl_wait_take, &result);
 *   if (!llmsvc_context_close_finish (context, llmctl_wait (&result), &error))
 *     return llmctl_wait_fail (error);
 *
 * Main thread.
 */

#pragma once

#include "llmctl/llmctl.h"

G_BEGIN_DECLS

/* Takes the signals over, with a new cancellable; again for each turn of a conversation.
 * @is_timed: starts the clock of --timeout. */
void           llmctl_wait_begin           (gboolean        is_timed);
/* (transfer none): cancelled by what ends the waiting; of the latest llmctl_wait_begin(). */
GCancellable  *llmctl_wait_get_cancellable (void);

/* A GAsyncReadyCallback; @slot is a GAsyncResult ** that is NULL so far. */
void           llmctl_wait_take            (GObject        *source,
                                            GAsyncResult   *result,
                                            gpointer        slot);
/* (transfer none): what has come into @slot, which goes on owning it. */
GAsyncResult  *llmctl_wait                 (GAsyncResult  **slot);
/* The same, but FALSE as soon as something ends the waiting; for calls that are not to be
 * cancelled by it. */
gboolean       llmctl_wait_or_end          (GAsyncResult  **slot);

/* What ended the waiting, if anything: LLMCTL_EXIT_INTERRUPTED, LLMCTL_EXIT_TIME_LIMIT
 * or LLMCTL_EXIT_OK. */
LlmctlExit     llmctl_wait_get_end         (void);
/* Whether it was SIGTERM or SIGHUP, which end a program that goes on after Ctrl-C. */
gboolean       llmctl_wait_is_terminated   (void);
/* As llmctl_fail(), but says of a call that was ended from here what ended it. */
LlmctlExit     llmctl_wait_fail            (GError         *error);

/* (transfer full): the library's client on the bus that the options name. Begins. */
LlmsvcClient  *llmctl_wait_client          (GError        **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
