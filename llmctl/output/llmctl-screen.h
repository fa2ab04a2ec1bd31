/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The whole terminal for one command: drawn anew in place, with keys read as they are pressed.
 * However the program ends, by a signal or a crash, the terminal is as it was before; while
 * it is stopped, too. One at a time, as there is one terminal; the only file that knows ncurses.
 * What it shows is a frame, lines of text that are printed without it as well. Main thread.
 */

#pragma once

#include "llmctl/output/llmctl-output.h"

G_BEGIN_DECLS

/* Lines no wider than the screen, aligned by columns, with styles, and without anything in them that
 * would be more than text to a terminal. */
typedef struct
{
  guint columns;
  gboolean has_styles;
  GPtrArray *lines;    /* (element-type utf8) (owned): without a newline */
  GString *line;       /* (owned): the one being written */
  guint column;
} LlmctlFrame;

/* @has_styles: whether lines have marks. */
LlmctlFrame *llmctl_frame_new       (guint        columns,
                                     gboolean     has_styles);
void         llmctl_frame_free      (LlmctlFrame *self);

/* What does not fit into the line is left out. */
void         llmctl_frame_put       (LlmctlFrame *self,
                                     LlmctlStyle  style,
                                     const char  *text);
G_GNUC_PRINTF (3, 4)
void         llmctl_frame_printf    (LlmctlFrame *self,
                                     LlmctlStyle  style,
                                     const char  *format,
                                     ...);
/* Goes on at @column, or one column behind what is there. */
void         llmctl_frame_move      (LlmctlFrame *self,
                                     guint        column);
/* Puts @text so that it ends before @column. */
void         llmctl_frame_put_right (LlmctlFrame *self,
                                     LlmctlStyle  style,
                                     guint        column,
                                     const char  *text);
void         llmctl_frame_end_line  (LlmctlFrame *self);

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

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmctlFrame, llmctl_frame_free)

G_END_DECLS
