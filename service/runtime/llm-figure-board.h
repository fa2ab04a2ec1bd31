/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The executor's figures, where any thread may read them. What steps and answers add up to is counted
 * here; the rest is what the executor last showed. */

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
  LlmKvCounters earlier;      /* of stores that are gone */
  LlmStreamFigures earlier_stream; /* counted, of instances that are gone */
} LlmFigureBoard;

void llm_figure_board_init        (LlmFigureBoard           *self);
void llm_figure_board_clear       (LlmFigureBoard           *self);
/* All but what is counted here. */
void llm_figure_board_show        (LlmFigureBoard           *self,
                                   const LlmExecutorFigures *figures);
/* Any thread. */
void llm_figure_board_get         (LlmFigureBoard           *self,
                                   LlmExecutorFigures       *figures);
/* A step of @n_rows, of them @n_prompt of prompts. */
void llm_figure_board_count_step  (LlmFigureBoard           *self,
                                   guint                     n_rows,
                                   guint                     n_prompt,
                                   guint64                   n_multiplied);
void llm_figure_board_count_token (LlmFigureBoard           *self);

G_END_DECLS
