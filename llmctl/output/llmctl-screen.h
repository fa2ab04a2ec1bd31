/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The whole terminal for one command: drawn anew in place, with keys read as they are pressed.
 * However the program ends, by a signal or a crash, the terminal is as it was before; while
 * it is stopped, too. One at a time, as there is one terminal; the only file that knows ncurses.
 * Main thread.
 */

#pragma once

#include "llmctl/output/llmctl-frame.h"

G_BEGIN_DECLS

/* @key: a byte that was typed; 0 when the screen has to be drawn again, as it has another size or
 * another program wrote on it; LLMCTL_SCREEN_GONE when the terminal has gone. */
typedef void (*LlmctlScreenEvent) (int      key,
                                   gpointer data);

#define LLMCTL_SCREEN_GONE (-1)

/* FALSE when stdin and stdout are no terminals that can place text. To be called when the signals
 * that are to end the program orderly have their handlers. */
gboolean llmctl_screen_open  (LlmctlScreenEvent  event,
                              gpointer           data);
void     llmctl_screen_close (void);

void     llmctl_screen_get_size (guint          *columns,
                                 guint          *rows);
/* Shows as many lines of @frame as there is room for. */
void     llmctl_screen_show  (LlmctlFrame       *frame);

G_END_DECLS
