/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-engine"

#include "runtime/llm-queue-step.h"

#include "base/llm-clock.h"

void
llm_queue_step_init (LlmQueueStep *self,
                     LlmForward   *forward,
                     guint         max_rows)
{
  *self = (LlmQueueStep) { .forward = forward };
  self->rows = g_array_sized_new (FALSE, FALSE, sizeof (LlmRow), max_rows);
  self->sequences = g_ptr_array_new ();
  self->budgets = g_new (LlmRowBudget, max_rows);
}

void
llm_queue_step_clear (LlmQueueStep *self)
{
  g_array_unref (self->rows);
  g_ptr_array_unref (self->sequences);
  g_free (self->budgets);
}

void
llm_queue_step_reset (LlmQueueStep *self)
{
  g_assert (!self->is_active);
  g_array_set_size (self->rows, 0);
  g_ptr_array_set_size (self->sequences, 0);
  self->n_budgets = 0;
  self->n_stages = 0;
  self->waited_us = 0;
  self->n_ahead = 0;
  self->ahead_us = self->late_us = 0;
}

gboolean
llm_queue_step_begin (LlmQueueStep *self,
                      GError      **error)
{
  self->batch = (LlmBatch) {
    .rows = (const LlmRow *) self->rows->data,
    .n_rows = self->rows->len,
    .sequences = (LlmKvSeq *const *) self->sequences->pdata,
    .n_sequences = self->sequences->len,
  };
  self->is_active = llm_forward_begin (self->forward, &self->batch, error);
  return self->is_active;
}

LlmStatus
llm_queue_step_run (LlmQueueStep *self,
                    gint64        until_us,
                    GError      **error)
{
  LlmStatus status;
  gboolean waits;

  do
    {
      status = llm_forward_step (self->forward, &waits, error);
      if (!waits)
        self->n_stages++;
    }
  while (status == LLM_PENDING && !waits && llm_clock_now_us () < until_us);

  self->is_active = status == LLM_PENDING;
  return status;
}

void
llm_queue_step_abandon (LlmQueueStep *self)
{
  llm_forward_abandon (self->forward);
  self->is_active = FALSE;
}
