/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-engine"

#include "runtime/llm-figure-board.h"

#include "base/llm-clock.h"

void
llm_figure_board_init (LlmFigureBoard *self)
{
  *self = (LlmFigureBoard) { .figures.sub_model = 100 };
  g_mutex_init (&self->lock);
}

void
llm_figure_board_clear (LlmFigureBoard *self)
{
  g_mutex_clear (&self->lock);
}

/* Logs each once, however often the figures are updated. */
static void
log_narrow (LlmFigureBoard           *self,
            const LlmExecutorFigures *figures)
{
  if (figures->n_narrow > 0 && !self->is_narrow)
    g_message ("Memory is short: chunks of contexts are quantized further (%" G_GUINT64_FORMAT
               " so far)", figures->n_narrow);
  else if (figures->n_narrow == 0 && self->is_narrow)
    g_message ("No chunk of a context has fewer bits than it should any more (wide copies read "
               "back since the start: %" G_GUINT64_FORMAT ")", figures->kv.n_widened);
  self->is_narrow = figures->n_narrow > 0;
}

void
llm_figure_board_show (LlmFigureBoard           *self,
                       const LlmExecutorFigures *figures)
{
  LlmExecutorFigures shown = *figures;

  log_narrow (self, figures);
  g_mutex_lock (&self->lock);
  shown.n_steps = self->figures.n_steps;
  shown.n_rows = self->figures.n_rows;
  shown.n_prompt = self->figures.n_prompt;
  shown.n_prompt_w8 = self->figures.n_prompt_w8;
  shown.n_generated = self->figures.n_generated;
  shown.n_multiplied = self->figures.n_multiplied;
  self->figures = shown;
  g_mutex_unlock (&self->lock);
  self->shown_us = llm_clock_now_us ();
}

void
llm_figure_board_get (LlmFigureBoard     *self,
                      LlmExecutorFigures *figures)
{
  g_mutex_lock (&self->lock);
  *figures = self->figures;
  g_mutex_unlock (&self->lock);
}

void
llm_figure_board_count_step (LlmFigureBoard *self,
                             guint           n_rows,
                             guint           n_prompt,
                             gboolean        is_w8,
                             guint64         n_multiplied)
{
  g_mutex_lock (&self->lock);
  self->figures.n_steps++;
  self->figures.n_rows += n_rows;
  self->figures.n_prompt += n_prompt;
  self->figures.n_prompt_w8 += is_w8 ? n_rows : 0;
  self->figures.n_multiplied += n_multiplied;
  g_mutex_unlock (&self->lock);
}

void
llm_figure_board_count_token (LlmFigureBoard *self)
{
  g_mutex_lock (&self->lock);
  self->figures.n_generated++;
  g_mutex_unlock (&self->lock);
}
