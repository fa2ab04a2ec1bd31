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
         || (other->slo.class == ticket->slo.class && other->ahead <= ticket->ahead);
}

/* What is left of the step that comes before in any case: that of its own lane. */
static double
get_running_us (LlmScheduler    *self,
                const LlmTicket *ticket)
{
  const LlmSchedulerStep *reading = &self->steps[llm_scheduler_find_lane (self, ticket)];

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

/* Counts rows of calls of this class that would be read before @ticket, in the accounts of their
 * applications and users; returns those of higher classes. */
static guint
sum_rows (LlmScheduler    *self,
          const LlmTicket *ticket,
          gboolean         latest,
          gint64           now_us)
{
  guint n_rows = 0;

  for (guint i = 0; i < self->tickets->len; i++)
    {
      LlmAccount *app = ((LlmTicket *) g_ptr_array_index (self->tickets, i))->app;

      app->n_rows = app->parent->n_rows = 0;
    }
  for (guint i = 0; i < self->tickets->len; i++)
    {
      const LlmTicket *other = g_ptr_array_index (self->tickets, i);
      guint n = other->n_prompt - MIN (other->n_running, other->n_prompt);

      if (!llm_scheduler_may_run (self, other, now_us)
          || !is_before (self, other, ticket, latest))
        continue;
      if (other->slo.class != ticket->slo.class || self->kind != LLM_SCHEDULER_DEADLINE)
        {
          n_rows += n;
          continue;
        }
      other->app->n_rows += n;
      other->app->parent->n_rows += n;
    }
  return n_rows;
}

/* Of the children of @parent all but @own (nullable: not known), which has @n_own rows and was
 * served @served_us: none has more before them than makes it one that is ahead. */
static guint
count_fair_rows (LlmScheduler     *self,
                 const LlmAccount *parent,
                 const LlmAccount *own,
                 LlmSloClass       slo_class,
                 guint             n_own,
                 double            served_us)
{
  double row_us = llm_cost_model_get_row_us (&self->costs);
  guint n_rows = 0;
  GHashTableIter iter;
  LlmAccount *other;

  g_hash_table_iter_init (&iter, parent->children);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &other))
    {
      double lead_us = served_us + llm_scheduler_get_lead_us (self) - other->served_us[slo_class];

      if (other != own && other->n_active[slo_class] > 0)
        n_rows += (guint) MIN (other->n_rows, n_own + MAX (lead_us, 0) / row_us);
    }
  return n_rows;
}

/* Calls that write beside which @ticket would be over its share: of other users than @user, or of
 * other applications than @app of the same one (nullable: not known). */
static guint
count_writers (LlmScheduler     *self,
               const LlmTicket  *ticket,
               const LlmAccount *app,
               const LlmAccount *user,
               gboolean          of_users)
{
  guint n = 0;

  for (guint i = 0; i < self->tickets->len; i++)
    {
      const LlmTicket *other = g_ptr_array_index (self->tickets, i);

      if (other->n_prompt > 0 || other->is_parked || other->is_held)
        continue;
      if (of_users)
        n += other->app->parent != user && other->slo.class <= ticket->slo.class;
      else
        n += other->app->parent == user && other->app != app
             && other->slo.class == ticket->slo.class;
    }
  return n;
}

/* Beyond what makes @account (as it would be with @ticket) one that is over its share, its @own_us
 * of reading take their time beside the answers of @n_writers others: µs more. */
static double
find_yielding (LlmScheduler     *self,
               const LlmTicket  *ticket,
               const LlmAccount *account,
               double            own_us,
               guint             n_writers)
{
  double least_us = account->parent->least_us[ticket->slo.class];
  double credit_us = least_us + self->accounts->burst_us - account->served_us[ticket->slo.class];

  if (n_writers == 0 || least_us >= G_MAXDOUBLE)
    return 0;
  return MAX (own_us - MAX (credit_us, 0), 0) * MAX (n_writers, LLM_SCHEDULER_MIN_SHARERS);
}

/* @app, @user (nullable): of @ticket, where they are known. @latest: a call is not refused for its
 * own length, so that does not count as something that is over a share. */
static double
find_wait (LlmScheduler     *self,
           const LlmTicket  *ticket,
           const LlmAccount *app,
           const LlmAccount *user,
           gboolean          latest,
           gint64            now_us)
{
  LlmSloClass slo_class = ticket->slo.class;
  double row_us = llm_cost_model_get_row_us (&self->costs);
  double work_us = get_running_us (self, ticket);
  double yielding_us = 0;
  guint n_rows = sum_rows (self, ticket, latest, now_us);
  guint n_counted = latest ? 0 : ticket->n_prompt;
  guint n_own = ticket->n_prompt;

  if (self->kind == LLM_SCHEDULER_DEADLINE)
    {
      n_own += app != NULL ? app->n_rows : 0;
      yielding_us = find_yielding (self, ticket, ticket->app,
                                   (n_own - ticket->n_prompt + n_counted) * row_us,
                                   count_writers (self, ticket, app, user, FALSE));
      if (user != NULL)
        n_own += count_fair_rows (self, user, app, slo_class, n_own,
                                  ticket->app->served_us[slo_class]);
      yielding_us = MAX (yielding_us,
                         find_yielding (self, ticket, ticket->app->parent,
                                        (n_own - ticket->n_prompt + n_counted) * row_us,
                                        count_writers (self, ticket, app, user, TRUE)));
      n_rows += count_fair_rows (self, self->accounts, user, slo_class, n_own,
                                 ticket->app->parent->served_us[slo_class]);
    }
  work_us += llm_cost_model_predict_prompt (&self->costs, n_rows + n_own, ticket->depth,
                                            self->max_rows);
  return work_us / (1 - get_others_share (self, slo_class)) + yielding_us;
}

void
llm_scheduler_forecast (LlmScheduler          *self,
                        const LlmTicketConfig *config,
                        gint64                 now_us,
                        LlmForecast           *forecast)
{
  LlmSloClass slo_class = config->slo.class;
  double restore_us = llm_cost_model_predict_restore (&self->costs, config->restore_bytes);
  g_autofree char *key = g_strdup_printf ("%u", config->user);
  LlmAccount *known_user = g_hash_table_lookup (self->accounts->children, key);
  LlmAccount *known_app =
      known_user != NULL ? g_hash_table_lookup (known_user->children, config->app) : NULL;
  LlmAccount user = { .parent = self->accounts };
  LlmAccount app = { .parent = &user };
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
  llm_account_settle (self->accounts);
  /* what stands for them with the call, and no longer */
  if (known_user != NULL)
    user = *known_user;
  else
    user.least_us[slo_class] = G_MAXDOUBLE;
  user.served_us[slo_class] = llm_account_get_served (known_user, self->accounts, slo_class);
  app.served_us[slo_class] = llm_account_get_served (known_app, &user, slo_class);
  llm_scheduler_look_at (self, &ticket, now_us);

  forecast->alone_us = ticket.left_us;
  forecast->first_us = find_wait (self, &ticket, known_app, known_user, FALSE, now_us) + restore_us;
  forecast->latest_us = find_wait (self, &ticket, known_app, known_user, TRUE, now_us) + restore_us;
  forecast->token_us = llm_cost_model_predict (&self->costs, LLM_COST_WRITE, 1,
                                               config->n_before + config->n_prompt);
}
