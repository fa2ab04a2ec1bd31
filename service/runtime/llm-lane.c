/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-engine"

#include "runtime/llm-lane.h"

#include "base/llm-clock.h"

void
llm_lane_init (LlmLane *self,
               guint    max_rows)
{
  self->rows = g_array_sized_new (FALSE, FALSE, sizeof (LlmRow), max_rows);
  self->sequences = g_ptr_array_new ();
  self->shares = g_new (LlmShare, max_rows);
}

void
llm_lane_clear (LlmLane *self)
{
  g_clear_pointer (&self->forward, llm_forward_free);
  g_array_unref (self->rows);
  g_ptr_array_unref (self->sequences);
  g_free (self->shares);
}

void
llm_lane_reset (LlmLane *self)
{
  g_assert (!self->is_active);
  g_array_set_size (self->rows, 0);
  g_ptr_array_set_size (self->sequences, 0);
  self->n_shares = 0;
  self->spent_us = 0;
  self->n_stages = 0;
  self->waited_us = 0;
}

gboolean
llm_lane_begin (LlmLane *self,
                GError **error)
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
llm_lane_run (LlmLane *self,
              gint64   until_us,
              GError **error)
{
  gint64 begin_us = llm_clock_now_us ();
  gint64 now_us;
  LlmStatus status;
  gboolean waits;

  do
    {
      status = llm_forward_step (self->forward, &waits, error);
      if (!waits)
        self->n_stages++;
      now_us = llm_clock_now_us ();
    }
  while (status == LLM_PENDING && !waits && now_us < until_us);

  self->spent_us += now_us - begin_us;
  self->is_active = status == LLM_PENDING;
  return status;
}

void
llm_lane_abandon (LlmLane *self)
{
  llm_forward_abandon (self->forward);
  self->is_active = FALSE;
}
