/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The line that a person types on a terminal: editing, completion, and the history of earlier
 * chats, which is a file for its owner only, an entry a line with newlines and backslashes
 * escaped; a chat goes on without it. The main context goes on meanwhile. The only file that knows
 * readline. Main thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef enum
{
  LLMCTL_CHAT_LINE_READ,
  LLMCTL_CHAT_LINE_INTERRUPTED, /* Ctrl-C: what was typed is dropped */
  LLMCTL_CHAT_LINE_END,         /* Ctrl-D, the terminal is gone, or SIGTERM */
} LlmctlChatLine;

/* Adds to @candidates (element-type utf8, owned) what could stand for the last word of @before. */
typedef void (*LlmctlChatLineComplete) (const char *before,
                                        GPtrArray  *candidates,
                                        gpointer    data);

/* Reads the history. @complete is called until the end of the process. */
void           llmctl_chat_line_begin    (LlmctlChatLineComplete   complete,
                                          gpointer                 data);
/* For the arrow keys, now and in later chats. */
void           llmctl_chat_line_remember (const char              *entry);
/* @prompt: ASCII. @line: (out) (transfer full): without its newline; a pasted one may
 * have others inside. */
LlmctlChatLine llmctl_chat_line_read     (const char              *prompt,
                                          char                   **line);

G_END_DECLS
