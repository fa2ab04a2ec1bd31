/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a call that comes now will have to wait. */

#include "sched/llm-scheduler-private.h"

/* Whether @other is read before @ticket, which comes now; at the @latest: whether it may be, as
 * those that come later go before @ticket, too. */
static gboolean
is_before (LlmScheduler    *self,
           const LlmTicket *other,
           const LlmTicket *ticket,
           gboolean         latest)
{
  if (!latest || self->kind == LLM_SCHEDULER_FIFO)
    return llm_scheduler_compare (&other, &ticket, self) < 0;
  return other->slo.class < ticket->slo.class
         || (other->slo.class == ticket->slo.class && other->is_ahead <= ticket->is_ahead);
}

/* What is left of the steps that come before in any case: that of its own class, and of the
 * writers. */
static double
get_running_us (LlmScheduler *self,
                LlmSloClass   slo_class)
{
  const LlmSchedulerStep *reading =
      &self->steps[LLM_LANE_READING + (self->kind == LLM_SCHEDULER_FIFO ? 0 : slo_class)];

  return reading->is_active ? MAX (reading->expected_us - reading->spent_us, 0) : 0;
}

static double
get_lower_share (LlmScheduler *self,
                 LlmSloClass   slo_class)
{
  double share = 0;

  for (guint i = 0; i < LLM_N_READERS; i++)
    if (i != slo_class && self->n_readers[i] > 0)
      share += llm_scheduler_get_guaranteed (i);
  return share;
}

/* FIFO gives the writers as much as the readers. */
static double
get_others_share (LlmScheduler *self,
                  LlmSloClass   slo_class)
{
  double writing = llm_scheduler_get_writing_share (self);

  if (self->kind == LLM_SCHEDULER_FIFO)
    return writing > 0 ? 0.5 : 0;
  return MIN (writing + get_lower_share (self, slo_class), 0.85);
}

/* Rows of each application's calls of this class that would be read before @ticket; returns those
 * of higher classes. */
static guint
sum_rows (LlmScheduler    *self,
          const LlmTicket *ticket,
          gboolean         latest,
          gint64           now_us)
{
  guint n_rows = 0;
  GHashTableIter iter;
  LlmSchedulerApp *app;

  g_hash_table_iter_init (&iter, self->apps);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &app))
    app->n_rows = 0;
  for (guint i = 0; i < self->tickets->len; i++)
    {
      const LlmTicket *other = g_ptr_array_index (self->tickets, i);
      guint n = other->n_prompt - MIN (other->n_running, other->n_prompt);

      if (!llm_scheduler_may_run (self, other, now_us)
          || !is_before (self, other, ticket, latest))
        continue;
      if (other->slo.class == ticket->slo.class && self->kind == LLM_SCHEDULER_DEADLINE)
        other->app->n_rows += n;
      else
        n_rows += n;
    }
  return n_rows;
}

/* An application has no more before @ticket, of @app (nullable), than makes it one that is
 * ahead. */
static guint
count_fair_rows (LlmScheduler          *self,
                 const LlmTicket       *ticket,
                 const LlmSchedulerApp *app)
{
  LlmSloClass slo_class = ticket->slo.class;
  double row_us = llm_cost_model_get_row_us (&self->costs);
  guint n_own = ticket->n_prompt + (app != NULL ? app->n_rows : 0);
  guint n_rows = 0;
  GHashTableIter iter;
  LlmSchedulerApp *other;

  g_hash_table_iter_init (&iter, self->apps);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &other))
    {
      double lead_us = ticket->app->served_us[slo_class] + LLM_LEAD_US
                       - other->served_us[slo_class];

      if (other != app && other->n_tickets[slo_class] > 0)
        n_rows += (guint) MIN (other->n_rows, n_own + MAX (lead_us, 0) / row_us);
    }
  return n_rows + n_own;
}

static double
find_wait (LlmScheduler          *self,
           const LlmTicket       *ticket,
           const LlmSchedulerApp *app,
           gboolean               latest,
           gint64                 now_us)
{
  double work_us = get_running_us (self, ticket->slo.class);
  guint n_rows = sum_rows (self, ticket, latest, now_us);

  n_rows += self->kind == LLM_SCHEDULER_DEADLINE ? count_fair_rows (self, ticket, app)
                                                 : ticket->n_prompt;
  work_us += llm_cost_model_predict_prompt (&self->costs, n_rows, ticket->depth, self->max_rows);
  return work_us / (1 - get_others_share (self, ticket->slo.class));
}

void
llm_scheduler_forecast (LlmScheduler          *self,
                        const LlmTicketConfig *config,
                        gint64                 now_us,
                        LlmForecast           *forecast)
{
  LlmSloClass slo_class = config->slo.class;
  double restore_us = llm_cost_model_predict_restore (&self->costs, config->restore_bytes);
  const LlmSchedulerApp *known = g_hash_table_lookup (self->apps, config->app);
  LlmSchedulerApp app = { 0 };
  LlmTicket ticket = {
    .app = &app,
    .slo = config->slo,
    .arrived_us = config->arrived_us,
    .n_prompt = MAX (config->n_prompt, 1),
    .depth = config->n_before,
    .restore_bytes = config->restore_bytes,
    .arrival = self->n_arrived,
    .last_turn = self->n_steps,
  };

  llm_scheduler_look (self, now_us);
  app.served_us[slo_class] = llm_scheduler_get_served (self, known, slo_class);
  llm_scheduler_look_at (self, &ticket, now_us);

  forecast->alone_us = ticket.left_us;
  forecast->first_us = find_wait (self, &ticket, known, FALSE, now_us) + restore_us;
  forecast->latest_us = find_wait (self, &ticket, known, TRUE, now_us) + restore_us;
  forecast->token_us = llm_cost_model_predict (&self->costs, LLM_COST_WRITE, 1,
                                               config->n_before + config->n_prompt);
}
