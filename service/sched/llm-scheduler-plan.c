/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Whose rows go into a step. */

#include "sched/llm-scheduler-private.h"

/* A step of readers: newcomers of their class wait for its end. */
#define STEP_PART (1.0 / 8)
#define MIN_STEP_US 60e3
#define MAX_STEP_US 400e3
/* Enough to use each weight often; fewer would cost more than they save. */
#define MIN_ROWS 64

static guint
plan_writers (LlmScheduler *self,
              gint64        now_us,
              LlmShare     *shares,
              guint         n_max_shares)
{
  guint n_max = MIN (n_max_shares, self->max_rows);
  g_autofree LlmTicket **writers = g_new (LlmTicket *, n_max);
  guint n_readers = 0;
  guint n = 0;
  gint64 latest_us;
  LlmSloClass slo_class;

  for (guint i = 0; i < LLM_N_READERS; i++)
    n_readers += self->n_readers[i];
  if (self->kind == LLM_SCHEDULER_DEADLINE)
    n = llm_scheduler_choose_writers (self, now_us, n_readers > 0, writers, n_max, &latest_us,
                                      &slo_class);
  for (guint i = 0; i < self->tickets->len && self->kind == LLM_SCHEDULER_FIFO && n < n_max; i++)
    {
      LlmTicket *ticket = g_ptr_array_index (self->tickets, i);

      if (ticket->n_prompt == 0 && !ticket->is_parked)
        writers[n++] = ticket;
    }
  for (guint i = 0; i < n; i++)
    shares[i] = (LlmShare) { writers[i], 1 };
  return n;
}

/* How many rows a step with these readers should have: newcomers of their class wait for its end,
 * and how long they can do that says their target. */
static guint
find_reading_rows (LlmScheduler *self,
                   GPtrArray    *readers)
{
  double step_us = MAX_STEP_US;
  guint n_all = 0;
  guint n_rows;

  for (guint i = 0; i < readers->len; i++)
    {
      LlmTicket *ticket = g_ptr_array_index (readers, i);

      n_all = MIN (n_all + ticket->n_prompt, self->max_rows);
      if (self->kind == LLM_SCHEDULER_DEADLINE)
        step_us = MIN (step_us, llm_ticket_get_ttft_us (ticket) * STEP_PART);
    }
  n_rows = MIN_ROWS;
  if (self->costs.curves[LLM_COST_READ].n_steps > 0)
    n_rows = llm_cost_model_find_rows (&self->costs, LLM_COST_READ, MAX (step_us, MIN_STEP_US),
                                       ((LlmTicket *) g_ptr_array_index (readers, 0))->depth);
  n_rows = MAX (n_rows, MIN_ROWS);
  /* nothing is left over that would cost a step of its own */
  if (n_all <= n_rows + MIN_ROWS)
    n_rows = n_all;
  return MIN (n_rows, self->max_rows);
}

/* Of one class: those that are due in that time decide how long the step is. */
static gboolean
fits (LlmScheduler *self,
      GPtrArray    *readers,
      LlmTicket    *ticket,
      LlmLaneKind   lane,
      gint64        now_us)
{
  const LlmTicket *first = readers->len > 0 ? g_ptr_array_index (readers, 0) : ticket;

  if (ticket->n_prompt == 0 || ticket->n_running > 0)
    return FALSE;
  if (self->kind == LLM_SCHEDULER_FIFO)
    return !ticket->is_parked;
  return llm_scheduler_find_lane (self, ticket) == lane && ticket->slo.class == first->slo.class
         && llm_scheduler_may_run (self, ticket, now_us);
}

static guint
plan_readers (LlmScheduler *self,
              LlmLaneKind   lane,
              gint64        now_us,
              LlmShare     *shares,
              guint         n_max_shares)
{
  g_autoptr(GPtrArray) readers = g_ptr_array_new ();
  gboolean is_urgent;
  LlmTicket *first = NULL;
  guint n_shares = 0;
  guint n_rows;

  if (self->kind == LLM_SCHEDULER_DEADLINE)
    first = llm_scheduler_find_reader (self, now_us, 0, &is_urgent);
  if (first != NULL && fits (self, readers, first, lane, now_us))
    g_ptr_array_add (readers, first);
  for (guint i = 0; i < self->tickets->len; i++)
    {
      LlmTicket *ticket = g_ptr_array_index (self->tickets, i);

      if (ticket != first && fits (self, readers, ticket, lane, now_us))
        g_ptr_array_add (readers, ticket);
    }
  if (readers->len == 0)
    return 0;

  n_rows = find_reading_rows (self, readers);
  for (guint i = 0; i < readers->len && n_shares < n_max_shares && n_rows > 0; i++)
    {
      LlmTicket *ticket = g_ptr_array_index (readers, i);
      guint n = MIN (ticket->n_prompt, n_rows);

      shares[n_shares++] = (LlmShare) { ticket, n };
      n_rows -= n;
    }
  return n_shares;
}

guint
llm_scheduler_plan (LlmScheduler *self,
                    LlmLaneKind   lane,
                    gint64        now_us,
                    LlmShare     *shares,
                    guint         n_max_shares)
{
  g_assert (lane < LLM_N_LANES && !self->steps[lane].is_active);
  llm_scheduler_look (self, now_us);
  if (lane == LLM_LANE_WRITING)
    return plan_writers (self, now_us, shares, n_max_shares);
  return plan_readers (self, lane, now_us, shares, n_max_shares);
}
