/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Who writes in the next step, and when it must begin. */

#include "sched/llm-scheduler-private.h"

/* Of the time between two tokens, for the step that makes them: the rest is for readers. */
#define WRITING_PART 0.55
#define WRITING_ONLY_PART 0.9
/* A step of answers that nobody waits for. */
#define BACKGROUND_STEP_US 250e3
/* Of the rows of a step of answers, for those of lower classes that waited too long. */
#define LATE_ROWS 8
/* Turns end a little late, and stages can't be cut. */
#define SLACK_US 4000

double
llm_scheduler_get_writing_share (LlmScheduler *self)
{
  double least_us = G_MAXDOUBLE;
  double depth = 0;
  guint n = 0;

  for (guint i = 0; i < self->tickets->len; i++)
    {
      LlmTicket *ticket = g_ptr_array_index (self->tickets, i);

      if (ticket->is_parked || ticket->is_held || ticket->n_prompt > 0
          || ticket->slo.class == LLM_SLO_BACKGROUND)
        continue;
      least_us = MIN (least_us, llm_ticket_get_pace_us (ticket));
      depth += ticket->depth;
      n++;
    }
  if (n == 0)
    return 0;
  return MIN (llm_cost_model_predict (&self->costs, LLM_COST_WRITE, n, depth) / least_us, 0.75);
}

/* How many rows a step of the writers may have so that all of them come in time. */
static guint
find_writing_rows (LlmScheduler *self,
                   double        least_us,
                   double        mean_depth,
                   gboolean      has_readers)
{
  double budget_us = BACKGROUND_STEP_US;

  if (least_us < G_MAXDOUBLE)
    budget_us = least_us * (has_readers ? WRITING_PART : WRITING_ONLY_PART);
  /* what can't be in time even alone is done as quickly as it can be for all */
  if (llm_cost_model_predict (&self->costs, LLM_COST_WRITE, 1, mean_depth) > budget_us)
    return self->max_rows;
  return MIN (llm_cost_model_find_rows (&self->costs, LLM_COST_WRITE, budget_us, mean_depth),
              self->max_rows);
}

static gboolean
is_writer (LlmScheduler    *self,
           const LlmTicket *ticket,
           gint64           now_us)
{
  return ticket->n_prompt == 0 && !ticket->is_held
         && llm_scheduler_may_run (self, ticket, now_us);
}

guint
llm_scheduler_choose_writers (LlmScheduler *self,
                              gint64        now_us,
                              gboolean      has_readers,
                              LlmTicket   **writers,
                              guint         n_max,
                              gint64       *latest_us,
                              LlmSloClass  *slo_class)
{
  double least_us = G_MAXDOUBLE;
  double depth = 0;
  gint64 due_us = G_MAXINT64;
  guint n_all = 0;
  guint n_rows, n_late, n = 0;

  *slo_class = LLM_SLO_BACKGROUND;
  *latest_us = G_MAXINT64;
  for (guint i = 0; i < self->tickets->len; i++)
    {
      LlmTicket *ticket = g_ptr_array_index (self->tickets, i);

      if (!is_writer (self, ticket, now_us))
        continue;
      n_all++;
      depth += ticket->depth;
      due_us = MIN (due_us, ticket->due_us);
      *slo_class = MIN (*slo_class, ticket->slo.class);
      if (ticket->slo.class < LLM_SLO_BACKGROUND)
        least_us = MIN (least_us, llm_ticket_get_pace_us (ticket));
    }
  if (n_all == 0)
    return 0;

  depth /= n_all;
  n_rows = MIN (find_writing_rows (self, least_us, depth, has_readers), n_max);
  n_late = n_all > n_rows ? MAX (n_rows / LATE_ROWS, 1) : 0;
  for (guint i = 0; i < self->tickets->len && writers != NULL && n < n_late; i++)
    {
      LlmTicket *ticket = g_ptr_array_index (self->tickets, i);

      ticket->is_taken = is_writer (self, ticket, now_us) && ticket->slo.class > *slo_class
                         && ticket->due_us <= now_us;
      if (ticket->is_taken)
        writers[n++] = ticket;
    }
  for (guint i = 0; i < self->tickets->len && writers != NULL && n < n_rows; i++)
    {
      LlmTicket *ticket = g_ptr_array_index (self->tickets, i);

      if (is_writer (self, ticket, now_us) && !ticket->is_taken)
        writers[n++] = ticket;
    }
  for (guint i = 0; i < self->tickets->len; i++)
    ((LlmTicket *) g_ptr_array_index (self->tickets, i))->is_taken = FALSE;

  n = MIN (n_all, n_rows);
  *latest_us = due_us - SLACK_US
               - (gint64) (llm_cost_model_predict (&self->costs, LLM_COST_WRITE, n, n * depth)
                           * (1 + self->costs.curves[LLM_COST_WRITE].spread));
  return n;
}
