/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What ends the waiting for the service: Ctrl-C, SIGTERM, SIGHUP and --timeout, noticed by a
 * thread of their own, so that the library's synchronous calls can be waited for:
 *
 *   if (!llmsvc_context_close_sync (context, llmctl_wait_get_cancellable (), &error))
 *     return FALSE;
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
/* (transfer full): with a new cancellable, notices Ctrl-C alone until it is destroyed. */
GSource       *llmctl_wait_watch_interrupt (void);

/* (transfer full): the library's client on the bus that the options name. Begins. */
LlmsvcClient  *llmctl_wait_client          (GError        **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
