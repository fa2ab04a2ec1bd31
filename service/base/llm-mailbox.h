/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A queue of messages to one thread: how threads meet. Any thread posts; one
 * thread receives, either by waiting (executor, db) or from its main loop
 * (main). Messages are calls: a function and its data, run by the receiver in
 * the order they were posted.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct _LlmMailbox LlmMailbox;

typedef void (*LlmMessageFunc) (gpointer data);

LlmMailbox *llm_mailbox_new      (void);
void        llm_mailbox_free     (LlmMailbox *self);

/* Posts @func (@data) to the receiver. @destroy (nullable) frees @data when the
 * message has run, or when the mailbox is freed with the message still in it. */
void        llm_mailbox_post     (LlmMailbox    *self,
                                  LlmMessageFunc func,
                                  gpointer       data,
                                  GDestroyNotify destroy);

/* Runs what is there; with nothing there, first waits up to @timeout_us
 * (0: not at all, -1: for ever). Returns how many messages ran. */
guint       llm_mailbox_dispatch (LlmMailbox *self,
                                  gint64      timeout_us);

/* Lets the default main context dispatch the mailbox: for the main thread. */
void        llm_mailbox_attach   (LlmMailbox *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmMailbox, llm_mailbox_free)

G_END_DECLS
