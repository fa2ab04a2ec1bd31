/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Calls, and what came of their steps. */

#include "sched/llm-scheduler-private.h"

/* Of the time, for readers that others go before. */
static const double guaranteed[LLM_N_READERS] = {
  [LLM_READERS_IN_TIME + LLM_SLO_INTERACTIVE] = 0,
  [LLM_READERS_IN_TIME + LLM_SLO_RESPONSIVE] = 0.15,
  [LLM_READERS_IN_TIME + LLM_SLO_BACKGROUND] = 0.05,
  [LLM_READERS_LOST + LLM_SLO_INTERACTIVE] = 0.15,
  [LLM_READERS_LOST + LLM_SLO_RESPONSIVE] = 0.1,
  [LLM_READERS_LOST + LLM_SLO_BACKGROUND] = 0,
};
/* No more is saved up than a short step takes, nor has to be paid back than a long one. */
#define MAX_OWED_US 60000
#define MAX_PAID_US 400000

double
llm_scheduler_get_guaranteed (guint readers)
{
  return guaranteed[readers];
}

guint
llm_ticket_get_readers (const LlmTicket *ticket)
{
  return (ticket->is_lost ? LLM_READERS_LOST : LLM_READERS_IN_TIME) + ticket->slo.class;
}

LlmScheduler *
llm_scheduler_new (LlmSchedulerKind kind,
                   guint            max_rows)
{
  LlmScheduler *self = g_new0 (LlmScheduler, 1);

  g_assert (max_rows > 0);
  self->kind = kind;
  self->max_rows = max_rows;
  llm_cost_model_init (&self->costs);
  self->tickets = g_ptr_array_new_with_free_func (g_free);
  self->accounts = llm_account_new (NULL, NULL);
  self->accounts->burst_us = llm_scheduler_get_burst_us (self);
  return self;
}

void
llm_scheduler_free (LlmScheduler *self)
{
  g_ptr_array_unref (self->tickets);
  llm_account_free (self->accounts);
  g_free (self);
}

LlmCostModel *
llm_scheduler_get_costs (LlmScheduler *self)
{
  return &self->costs;
}

void
llm_scheduler_set_pace (LlmScheduler *self,
                        LlmPace       pace)
{
  if (self->pace == pace)
    return;
  self->pace = pace;
  self->rest_until_us = 0;
  self->is_dirty = TRUE;
}

/* --- tickets --- */

LlmTicket *
llm_scheduler_add (LlmScheduler          *self,
                   const LlmTicketConfig *config,
                   gpointer               data)
{
  g_autofree char *key = g_strdup_printf ("%u", config->user);
  LlmAccount *user = llm_account_get_child (self->accounts, key);
  LlmAccount *app = llm_account_get_child (user, config->app);
  LlmTicket *ticket = g_new0 (LlmTicket, 1);

  llm_account_ref (app);
  llm_account_add_call (app, config->slo.class);
  ticket->scheduler = self;
  ticket->app = app;
  ticket->slo = config->slo;
  ticket->arrived_us = config->arrived_us;
  ticket->n_prompt = config->n_prompt;
  ticket->depth = config->n_before;
  ticket->restore_bytes = config->restore_bytes;
  ticket->arrival = self->n_arrived++;
  ticket->last_turn = self->n_steps;
  ticket->data = data;
  g_ptr_array_add (self->tickets, ticket);
  self->is_dirty = TRUE;
  return ticket;
}

void
llm_scheduler_remove (LlmScheduler *self,
                      LlmTicket    *ticket)
{
  if (!ticket->is_parked)
    llm_account_remove_call (ticket->app, ticket->slo.class);
  llm_account_unref (ticket->app);
  if (!g_ptr_array_remove (self->tickets, ticket))
    g_assert_not_reached ();
  self->is_dirty = TRUE;
}

gpointer
llm_ticket_get_data (LlmTicket *ticket)
{
  return ticket->data;
}

guint
llm_ticket_get_n_prompt (LlmTicket *ticket)
{
  return ticket->n_prompt;
}

void
llm_ticket_set_n_prompt (LlmTicket *ticket,
                         guint      n_prompt)
{
  ticket->scheduler->is_dirty = ticket->scheduler->is_dirty || ticket->n_prompt != n_prompt;
  ticket->n_prompt = n_prompt;
}

void
llm_ticket_set_parked (LlmTicket *ticket,
                       gboolean   is_parked)
{
  if (ticket->is_parked == is_parked)
    return;
  /* nothing is saved up meanwhile */
  if (is_parked)
    llm_account_remove_call (ticket->app, ticket->slo.class);
  else
    llm_account_add_call (ticket->app, ticket->slo.class);
  ticket->scheduler->is_dirty = TRUE;
  ticket->is_parked = is_parked;
}

void
llm_ticket_set_restored (LlmTicket *ticket)
{
  ticket->scheduler->is_dirty = TRUE;
  ticket->restore_bytes = 0;
}

void
llm_ticket_note_token (LlmTicket *ticket,
                       gint64     now_us)
{
  ticket->last_us = now_us;
  if (ticket->n_tokens++ == 0)
    ticket->first_us = now_us;
}

guint
llm_scheduler_get_n_calls (LlmScheduler *self)
{
  return self->tickets->len;
}

gboolean
llm_scheduler_is_awaited (LlmScheduler *self)
{
  for (guint i = 0; i < self->tickets->len; i++)
    {
      LlmTicket *ticket = g_ptr_array_index (self->tickets, i);

      if (!ticket->is_parked && ticket->slo.class < LLM_SLO_BACKGROUND)
        return TRUE;
    }
  return FALSE;
}

/* --- steps --- */

void
llm_scheduler_begin_step (LlmScheduler   *self,
                          LlmLaneKind     lane,
                          const LlmShare *shares,
                          guint           n_shares)
{
  LlmSchedulerStep *step = &self->steps[lane];

  g_assert (!step->is_active);
  *step = (LlmSchedulerStep) { .is_active = TRUE, .is_background = TRUE };
  step->readers = lane != LLM_LANE_WRITING ? llm_ticket_get_readers (shares[0].ticket)
                                           : LLM_N_READERS;
  for (guint i = 0; i < n_shares; i++)
    {
      LlmTicket *ticket = shares[i].ticket;
      guint n = shares[i].n_rows;

      ticket->n_running = n;
      ticket->lane = lane;
      step->n_rows += n;
      step->depth += n * (ticket->depth + n / 2.0);
      if (ticket->slo.class < LLM_SLO_BACKGROUND)
        step->is_background = FALSE;
    }
  step->expected_us = llm_cost_model_predict (&self->costs,
                                              lane == LLM_LANE_WRITING ? LLM_COST_WRITE
                                                                       : LLM_COST_READ,
                                              step->n_rows, step->depth);
}

/* For a turn of its step, by its rows. */
static void
charge_turn (LlmScheduler           *self,
             LlmLaneKind             lane,
             const LlmSchedulerStep *step,
             double                  us)
{
  guint n_least = lane == LLM_LANE_WRITING ? LLM_SCHEDULER_MIN_SHARERS : 1;
  guint n_rows = MAX (step->n_rows, n_least);

  for (guint i = 0; i < self->tickets->len; i++)
    {
      LlmTicket *ticket = g_ptr_array_index (self->tickets, i);

      if (ticket->n_running > 0 && ticket->lane == lane)
        llm_account_charge (ticket->app, ticket->slo.class, us * ticket->n_running / n_rows);
    }
}

void
llm_scheduler_note_turn (LlmScheduler *self,
                         LlmLaneKind   lane,
                         gint64        now_us,
                         gint64        spent_us)
{
  LlmSchedulerStep *step = &self->steps[lane];
  double spent = (double) MAX (spent_us, 0);

  step->spent_us += spent;
  charge_turn (self, lane, step, spent);
  if (lane != LLM_LANE_WRITING)
    self->read_us += spent;
  for (guint i = 0; i < LLM_N_READERS; i++)
    {
      if (step->readers == i)
        self->owed_us[i] -= spent;
      else if (self->n_readers[i] > 0)
        self->owed_us[i] += guaranteed[i] * spent;
      self->owed_us[i] = CLAMP (self->owed_us[i], -MAX_PAID_US, MAX_OWED_US);
      self->is_paying[i] = self->is_paying[i] && self->owed_us[i] > 0;
    }
  if (self->pace == LLM_PACE_SLOW && step->is_background)
    {
      self->rest_until_us = now_us + (gint64) spent;
      self->is_dirty = TRUE;
    }
}

static void
finish_rows (LlmScheduler   *self,
             const LlmShare *share)
{
  LlmTicket *ticket = share->ticket;

  ticket->last_turn = self->n_steps;
  ticket->n_running = 0;
  ticket->depth += share->n_rows;
  if (ticket->n_prompt > 0)
    {
      g_assert (share->n_rows <= ticket->n_prompt);
      ticket->n_prompt -= share->n_rows;
    }
}

void
llm_scheduler_end_step (LlmScheduler   *self,
                        LlmLaneKind     lane,
                        const LlmShare *shares,
                        guint           n_shares,
                        gboolean        teaches)
{
  LlmSchedulerStep *step = &self->steps[lane];

  g_assert (step->is_active);
  step->is_active = FALSE;
  self->n_steps++;
  if (teaches)
    llm_cost_model_observe (&self->costs,
                            lane == LLM_LANE_WRITING ? LLM_COST_WRITE : LLM_COST_READ,
                            step->n_rows, step->depth, step->spent_us);
  for (guint i = 0; i < n_shares; i++)
    finish_rows (self, &shares[i]);
  llm_account_settle (self->accounts);
  if (lane == LLM_LANE_WRITING)
    {
      self->written_us = step->spent_us;
      self->read_us = 0;
    }
  self->is_dirty = TRUE;
}

void
llm_scheduler_abandon_step (LlmScheduler   *self,
                            LlmLaneKind     lane,
                            const LlmShare *shares,
                            guint           n_shares)
{
  for (guint i = 0; i < n_shares; i++)
    shares[i].ticket->n_running = 0;
  self->steps[lane].is_active = FALSE;
  self->is_dirty = TRUE;
}
