/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What was typed in earlier chats, in a file for its owner only, a line each with
 * newlines and backslashes escaped. Bounded; what can't be read or written is left
 * alone, since a chat goes on without it. Main thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define LLMCTL_CHAT_HISTORY_MAX_ENTRIES 1000

/* (transfer full): $XDG_STATE_HOME/llmsvc/chat-history. */
char      *llmctl_chat_history_get_path (void);
/* (element-type utf8) (transfer full): the latest entries, oldest first. */
GPtrArray *llmctl_chat_history_read     (const char *path);
/* Adds one at the end; makes file and folder. */
void       llmctl_chat_history_append   (const char *path,
                                         const char *entry);

G_END_DECLS
