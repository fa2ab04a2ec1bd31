/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Lines of text for a screen: no wider than it, aligned by columns, with styles, and without
 * anything in them that would be more than text to a terminal. Plain data; one thread.
 */

#pragma once

#include "llmctl/output/llmctl-output.h"

G_BEGIN_DECLS

typedef struct
{
  guint columns;
  gboolean has_styles;
  GPtrArray *lines;    /* (element-type utf8) (owned): without a newline */
  GString *line;       /* (owned): the one being written */
  guint column;
} LlmctlFrame;

/* In a line the byte that stands before text of a style; no other control character is in it. */
#define LLMCTL_FRAME_MARK(style) ((char) ((style) + 1))

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

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmctlFrame, llmctl_frame_free)

G_END_DECLS
