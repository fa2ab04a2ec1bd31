/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The executor's figures, which any thread may read. Sums over steps and answers are counted here;
 * the rest is what the executor last reported. */

#pragma once

#include "runtime/llm-executor.h"

G_BEGIN_DECLS

typedef struct
{
  GMutex lock;
  LlmExecutorFigures figures; /* guarded by it */

  /* the executor's thread */
  gint64 shown_us;            /* when they were last shown */
  gboolean is_narrow;         /* some chunks have fewer bits than they should, which was logged */
  LlmKvCounters earlier;      /* of stores that were closed */
  LlmStreamFigures earlier_stream; /* of instances that were unloaded */
} LlmFigureBoard;

void llm_figure_board_init        (LlmFigureBoard           *self);
void llm_figure_board_clear       (LlmFigureBoard           *self);
/* Sets all figures but those that are counted here. */
void llm_figure_board_show        (LlmFigureBoard           *self,
                                   const LlmExecutorFigures *figures);
/* Any thread. */
void llm_figure_board_get         (LlmFigureBoard           *self,
                                   LlmExecutorFigures       *figures);
/* A step of @n_rows, of them @n_prompt prompt tokens; with @is_w8 all are. */
void llm_figure_board_count_step  (LlmFigureBoard           *self,
                                   guint                     n_rows,
                                   guint                     n_prompt,
                                   gboolean                  is_w8,
                                   guint64                   n_multiplied);
void llm_figure_board_count_token (LlmFigureBoard           *self);

G_END_DECLS
