/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Forecasts the wait of a request that arrives now. */

#include "sched/llm-scheduler-private.h"

#include <math.h>

/* Whether @other is prefilled before @entry, which arrives now; with @latest: whether it may be,
 * because requests that arrive later go before @entry, too. */
static gboolean
is_before (LlmScheduler        *self,
           const LlmSchedEntry *other,
           const LlmSchedEntry *entry,
           gboolean             latest)
{
  if (!latest || self->kind == LLM_SCHEDULER_FIFO)
    return llm_scheduler_compare (&other, &entry, self) < 0;
  if ((other->ahead == LLM_AHEAD_USER) != (entry->ahead == LLM_AHEAD_USER))
    return entry->ahead == LLM_AHEAD_USER;
  return other->slo.class < entry->slo.class
         || (other->slo.class == entry->slo.class && other->ahead <= entry->ahead);
}

/* The rest of the step that runs before in any case: that of its own queue. */
static double
get_running_us (LlmScheduler        *self,
                const LlmSchedEntry *entry)
{
  const LlmSchedulerStep *reading = &self->steps[llm_scheduler_find_queue (self, entry)];

  return reading->is_active ? MAX (reading->expected_us - reading->spent_us, 0) : 0;
}

static double
get_lower_share (LlmScheduler *self,
                 LlmSloClass   slo_class)
{
  double share = 0;

  for (guint i = 0; i < LLM_N_PREFILL_GROUPS; i++)
    if (i != slo_class && self->n_prefills[i] > 0)
      share += llm_scheduler_guaranteed[i];
  return share;
}

/* FIFO gives decodes as much time as prefills. */
static double
get_others_share (LlmScheduler *self,
                  LlmSloClass   slo_class)
{
  double writing = llm_scheduler_get_decode_share (self);

  if (self->kind == LLM_SCHEDULER_FIFO)
    return writing > 0 ? 0.5 : 0;
  return MIN (writing + get_lower_share (self, slo_class), 0.85);
}

/* Rows of the whole model that take as long as @n of the sub-model of @entry. */
static guint
weigh_rows (LlmScheduler        *self,
            const LlmSchedEntry *entry,
            guint                n)
{
  return (guint) ceil (n * llm_level_costs_get_ratio (&self->levels, LLM_COST_PREFILL,
                                                      entry->lacking));
}

/* Counts rows that would be prefilled before @entry, in the accounts of their applications and
 * users; returns those of other classes of @user (nullable: unknown), which no fairness limits. */
static guint
sum_rows (LlmScheduler        *self,
          const LlmSchedEntry *entry,
          const LlmAccount    *user,
          gboolean             latest,
          gint64               now_us)
{
  guint n_rows = 0;

  LLM_EACH (LlmSchedEntry, other, self->entries)
    other->account->n_rows = other->account->parent->n_rows = 0;
  LLM_EACH (const LlmSchedEntry, other, self->entries)
    {
      guint n = weigh_rows (self, other, other->n_prompt - MIN (other->n_running, other->n_prompt));

      if (!llm_scheduler_may_run (self, other, now_us)
          || !is_before (self, other, entry, latest))
        continue;
      if (self->kind != LLM_SCHEDULER_DEADLINE
          || (other->account->parent == user && other->slo.class != entry->slo.class))
        {
          n_rows += n;
          continue;
        }
      other->account->n_rows += n;
      other->account->parent->n_rows += n;
    }
  return n_rows;
}

/* Rows before @entry of the children of @parent except @own (nullable: unknown), which has @n_own
 * rows and was served @served_us: each counts only until it would be ahead. */
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

  LLM_EACH_VALUE (const LlmAccount, other, parent->children)
    {
      double lead_us = served_us + llm_scheduler_get_lead_us (self) - other->served_us[slo_class];

      if (other != own && other->n_active[slo_class] > 0)
        n_rows += (guint) MIN (other->n_rows, n_own + MAX (lead_us, 0) / row_us);
    }
  return n_rows;
}

/* Number of decodes for which @entry would be over its share: of other users than @user, or of
 * other applications of @user than @app (nullable: unknown). */
static guint
count_decodes (LlmScheduler        *self,
               const LlmSchedEntry *entry,
               const LlmAccount    *app,
               const LlmAccount    *user,
               gboolean             of_users)
{
  guint n = 0;

  LLM_EACH (const LlmSchedEntry, other, self->entries)
    {
      if (other->n_prompt > 0 || other->is_suspended || other->is_held)
        continue;
      if (of_users)
        n += other->account->parent != user;
      else
        n += other->account->parent == user && other->account != app
             && other->slo.class == entry->slo.class;
    }
  return n;
}

/* When @account (with @entry added) gets over its share, the rest of its @own_us of prefill runs
 * beside the @n_decodes decodes of others: how many µs longer it takes then. */
static double
find_yielding (LlmScheduler        *self,
               const LlmSchedEntry *entry,
               const LlmAccount    *account,
               double               own_us,
               guint                n_decodes)
{
  double least_us = account->parent->least_us[entry->slo.class];
  double credit_us = least_us + self->accounts->burst_us - account->served_us[entry->slo.class];

  if (n_decodes == 0 || least_us >= G_MAXDOUBLE)
    return 0;
  return MAX (own_us - MAX (credit_us, 0), 0) * MAX (n_decodes, LLM_SCHEDULER_MIN_SHARERS);
}

/* µs by which @entry is faster than with the whole model. */
static double
find_saved (LlmScheduler        *self,
            const LlmSchedEntry *entry)
{
  double ratio = llm_level_costs_get_ratio (&self->levels, LLM_COST_PREFILL, entry->lacking);

  return (1 - ratio) * llm_cost_model_predict_prompt (&self->costs, entry->n_prompt, entry->depth,
                                                      self->max_rows);
}

/* @app, @user (nullable): of @entry, where they are known. @latest: a call is not refused for its
 * own length, so that does not count as over a share. */
static double
find_wait (LlmScheduler        *self,
           const LlmSchedEntry *entry,
           const LlmAccount    *app,
           const LlmAccount    *user,
           gboolean             latest,
           gint64               now_us)
{
  LlmSloClass slo_class = entry->slo.class;
  double row_us = llm_cost_model_get_row_us (&self->costs);
  double work_us = get_running_us (self, entry);
  double yielding_us = 0;
  guint n_rows = sum_rows (self, entry, user, latest, now_us);
  guint n_counted = latest ? 0 : entry->n_prompt;
  guint n_own = entry->n_prompt;

  if (self->kind == LLM_SCHEDULER_DEADLINE)
    {
      n_own += app != NULL ? app->n_rows : 0;
      yielding_us = find_yielding (self, entry, entry->account,
                                   (n_own - entry->n_prompt + n_counted) * row_us,
                                   count_decodes (self, entry, app, user, FALSE));
      if (user != NULL)
        n_own += count_fair_rows (self, user, app, slo_class, n_own,
                                  entry->account->served_us[slo_class]);
      /* all rows of its user before it count in the user's fair part */
      n_own += n_rows;
      yielding_us = MAX (yielding_us,
                         find_yielding (self, entry, entry->account->parent,
                                        (n_own - entry->n_prompt + n_counted) * row_us,
                                        count_decodes (self, entry, app, user, TRUE)));
      n_rows = count_fair_rows (self, self->accounts, user, slo_class, n_own,
                                entry->account->parent->served_us[slo_class]);
    }
  work_us += llm_cost_model_predict_prompt (&self->costs, n_rows + n_own, entry->depth,
                                            self->max_rows)
             - find_saved (self, entry);
  return work_us / (1 - get_others_share (self, slo_class)) + yielding_us;
}

void
llm_scheduler_forecast (LlmScheduler        *self,
                        const LlmSchedEntry *like,
                        gint64               now_us,
                        LlmForecast         *forecast)
{
  LlmSloClass slo_class = like->slo.class;
  double restore_us = llm_cost_model_predict_restore (&self->costs, like->restore_bytes);
  LlmAccount *known_user = llm_account_find_user (self->accounts, like->app->uid);
  LlmAccount *known_app = llm_account_find_app (self->accounts, like->app);
  LlmAccount user = { .parent = self->accounts };
  LlmAccount app = { .parent = &user };
  LlmSchedEntry entry = {
    .account = &app,
    .slo = like->slo,
    .arrived_us = like->arrived_us,
    .n_prompt = MAX (like->n_prompt, 1),
    .depth = like->depth,
    .lacking = like->lacking,
    .sparse = like->sparse,
    .restore_bytes = like->restore_bytes,
    .arrival = self->n_arrived,
    .last_turn = self->n_steps,
  };

  llm_scheduler_look (self, now_us);
  llm_account_settle (self->accounts);
  /* reset the counts that were made with the call */
  if (known_user != NULL)
    user = *known_user;
  else
    user.least_us[slo_class] = G_MAXDOUBLE;
  user.served_us[slo_class] = llm_account_get_served (known_user, self->accounts, slo_class);
  app.served_us[slo_class] = llm_account_get_served (known_app, &user, slo_class);
  llm_scheduler_look_at (self, &entry, now_us);

  forecast->first_us = find_wait (self, &entry, known_app, known_user, FALSE, now_us) + restore_us;
  forecast->latest_us = find_wait (self, &entry, known_app, known_user, TRUE, now_us) + restore_us;
  llm_scheduler_price (self, &entry, entry.lacking, &forecast->alone_us, &forecast->token_us);
  /* what others wait for storage is not known */
  forecast->first_us = MAX (forecast->first_us, forecast->alone_us);
  forecast->latest_us = MAX (forecast->latest_us, forecast->alone_us);
}

/* What a step waits for storage. A smaller level reads its part of the bytes, or less, as what it has of
 * them stays first. */
static double
get_read_us (const LlmScheduler *self,
             guint               lacking,
             guint               sparse)
{
  g_assert (sparse <= LLM_READ_TIMES_MAX);
  return sparse > 0 && self->reads.whole_us > 0
           ? self->reads.sparse_us[sparse - 1]
           : self->reads.whole_us * self->levels.guesses[LLM_COST_DECODE][lacking];
}

void
llm_scheduler_price (LlmScheduler        *self,
                     const LlmSchedEntry *entry,
                     guint                lacking,
                     double              *alone_us,
                     double              *token_us)
{
  const LlmLevelCosts *levels = &self->levels;
  guint n_prompt = MAX (entry->n_prompt, 1);
  guint n_steps = (n_prompt + self->max_rows - 1) / self->max_rows;
  double prompt_us = llm_level_costs_get_ratio (levels, LLM_COST_PREFILL, lacking)
                     * llm_cost_model_predict_prompt (&self->costs, n_prompt, entry->depth,
                                                      self->max_rows);

  *alone_us = MAX (prompt_us, n_steps * get_read_us (self, lacking, 0))
              + llm_cost_model_predict_restore (&self->costs, entry->restore_bytes);
  *token_us = llm_level_costs_get_ratio (levels, LLM_COST_DECODE, lacking)
              * llm_cost_model_predict (&self->costs, LLM_COST_DECODE, 1,
                                        entry->depth + n_prompt);
  *token_us = MAX (*token_us, get_read_us (self, lacking, entry->sparse));
}
