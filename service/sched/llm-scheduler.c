/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Requests, and the accounting of their steps. */

#include "sched/llm-scheduler-private.h"

/* Limit of owed time: no more is saved up than a short step takes, nor paid back than a long
 * one. */
#define MAX_OWED_US 60000
#define MAX_PAID_US 400000

LlmScheduler *
llm_scheduler_new (LlmSchedulerKind kind,
                   guint            max_rows,
                   LlmAccount      *accounts)
{
  LlmScheduler *self = g_new0 (LlmScheduler, 1);

  g_assert (max_rows > 0);
  self->kind = kind;
  self->max_rows = max_rows;
  llm_cost_model_init (&self->costs);
  llm_level_costs_init (&self->levels);
  self->entries = g_ptr_array_new ();
  self->accounts = accounts;
  self->accounts->burst_us = llm_scheduler_get_burst_us (self);
  return self;
}

void
llm_scheduler_free (LlmScheduler *self)
{
  g_ptr_array_unref (self->entries);
  g_free (self);
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

/* --- entries --- */

void
llm_scheduler_add (LlmScheduler  *self,
                   LlmSchedEntry *entry)
{
  g_assert (entry->scheduler == NULL);
  entry->scheduler = self;
  entry->account = llm_account_get_app (self->accounts, entry->app);
  entry->n_decode = MAX (entry->n_decode, 1);
  entry->arrival = self->n_arrived++;
  entry->last_turn = self->n_steps;
  llm_account_count_call (entry->account, 1);
  llm_account_count_active (entry->account, entry->slo.class, 1);
  g_ptr_array_add (self->entries, entry);
  self->is_dirty = TRUE;
}

void
llm_scheduler_remove (LlmScheduler  *self,
                      LlmSchedEntry *entry)
{
  if (entry->scheduler == NULL)
    return;
  if (!entry->is_suspended)
    llm_account_count_active (entry->account, entry->slo.class, -1);
  llm_account_count_call (entry->account, -1);
  g_ptr_array_remove (self->entries, entry);
  entry->scheduler = NULL;
  self->is_dirty = TRUE;
}

void
llm_sched_entry_set_n_prompt (LlmSchedEntry *entry,
                              guint          n_prompt)
{
  entry->scheduler->is_dirty = entry->scheduler->is_dirty || entry->n_prompt != n_prompt;
  entry->n_prompt = n_prompt;
}

void
llm_sched_entry_set_n_decode (LlmSchedEntry *entry,
                              guint          n_decode)
{
  entry->n_decode = n_decode;
}

void
llm_sched_entry_set_level (LlmSchedEntry *entry,
                           guint          lacking,
                           guint          sparse)
{
  entry->scheduler->is_dirty = entry->scheduler->is_dirty || entry->lacking != lacking;
  entry->lacking = lacking;
  entry->sparse = sparse;
}

void
llm_sched_entry_take_back (LlmSchedEntry *entry,
                           guint          n)
{
  entry->depth -= MIN (n, entry->depth);
}

void
llm_sched_entry_set_suspended (LlmSchedEntry *entry,
                               gboolean       is_suspended)
{
  if (entry->is_suspended == is_suspended)
    return;
  /* a suspended call gets no credit */
  llm_account_count_active (entry->account, entry->slo.class, is_suspended ? -1 : 1);
  entry->scheduler->is_dirty = TRUE;
  entry->is_suspended = is_suspended;
}

void
llm_sched_entry_set_restored (LlmSchedEntry *entry)
{
  entry->scheduler->is_dirty = TRUE;
  entry->restore_bytes = 0;
}

void
llm_sched_entry_note_token (LlmSchedEntry *entry,
                            gint64         now_us)
{
  entry->last_us = now_us;
  if (entry->n_tokens++ == 0)
    entry->first_us = now_us;
}

/* Service of its user, in all classes. */
static double
get_served_us (const LlmSchedEntry *entry)
{
  return entry->account->parent->served_us[entry->slo.class];
}

double
llm_scheduler_get_least_us (LlmScheduler *self,
                            gint64        now_us)
{
  double least_us = G_MAXDOUBLE;

  LLM_EACH (const LlmSchedEntry, entry, self->entries)
    if (llm_scheduler_may_run (self, entry, now_us))
      least_us = MIN (least_us, get_served_us (entry));
  return least_us;
}

guint
llm_scheduler_get_class (LlmScheduler *self,
                         gint64        now_us,
                         double        least_us)
{
  double most_us = least_us + llm_scheduler_get_lead_us (self);
  guint class = LLM_N_SLO_CLASSES;

  LLM_EACH (const LlmSchedEntry, entry, self->entries)
    if (llm_scheduler_may_run (self, entry, now_us) && get_served_us (entry) <= most_us)
      class = MIN (class, entry->slo.class);
  return class;
}

gboolean
llm_scheduler_is_awaited (LlmScheduler *self)
{
  LLM_EACH (LlmSchedEntry, entry, self->entries)
    if (!entry->is_suspended && entry->slo.class < LLM_SLO_BACKGROUND)
      return TRUE;
  return FALSE;
}

/* --- steps --- */

static LlmCostKind
get_kind (LlmQueueKind queue)
{
  return queue == LLM_QUEUE_DECODE ? LLM_COST_DECODE : LLM_COST_PREFILL;
}

void
llm_scheduler_begin_step (LlmScheduler       *self,
                          LlmQueueKind        queue,
                          const LlmRowBudget *budgets,
                          guint               n_budgets)
{
  LlmSchedulerStep *step = &self->steps[queue];
  double ratios = 0;

  g_assert (!step->is_active);
  *step = (LlmSchedulerStep) {
    .is_active = TRUE,
    .is_background = TRUE,
    .lacking = budgets[0].entry->lacking,
  };
  step->prefills = queue != LLM_QUEUE_DECODE ? llm_sched_entry_get_group (budgets[0].entry)
                                           : LLM_N_PREFILL_GROUPS;
  for (guint i = 0; i < n_budgets; i++)
    {
      LlmSchedEntry *entry = budgets[i].entry;
      guint n = budgets[i].n_rows;

      entry->n_running = n;
      entry->queue = queue;
      step->n_rows += n;
      step->depth += n * (entry->depth + n / 2.0);
      step->is_mixed = step->is_mixed || entry->lacking != step->lacking;
      step->lacking = MIN (step->lacking, entry->lacking);
      step->is_sparse = step->is_sparse || (queue == LLM_QUEUE_DECODE && entry->sparse > 0);
      ratios += n * llm_level_costs_get_ratio (&self->levels, LLM_COST_PREFILL, entry->lacking);
      if (entry->slo.class < LLM_SLO_BACKGROUND)
        step->is_background = FALSE;
    }
  /* a decode step takes the time to read the largest of its levels */
  step->expected_us =
      llm_cost_model_predict (&self->costs, get_kind (queue), step->n_rows, step->depth)
      * (queue == LLM_QUEUE_DECODE
           ? llm_level_costs_get_ratio (&self->levels, LLM_COST_DECODE, step->lacking)
           : ratios / MAX (step->n_rows, 1));
}

/* Charges a turn of its step, by its rows. */
static void
charge_turn (LlmScheduler           *self,
             LlmQueueKind            queue,
             const LlmSchedulerStep *step,
             double                  us)
{
  guint n_least = queue == LLM_QUEUE_DECODE ? LLM_SCHEDULER_MIN_SHARERS : 1;
  guint n_rows = MAX (step->n_rows, n_least);

  LLM_EACH (LlmSchedEntry, entry, self->entries)
    if (entry->n_running > 0 && entry->queue == queue)
      llm_account_charge (entry->account, entry->slo.class, us * entry->n_running / n_rows);
}

void
llm_scheduler_note_turn (LlmScheduler *self,
                         LlmQueueKind  queue,
                         gint64        now_us,
                         gint64        spent_us)
{
  LlmSchedulerStep *step = &self->steps[queue];
  double spent = (double) MAX (spent_us, 0);

  step->spent_us += spent;
  charge_turn (self, queue, step, spent);
  if (queue != LLM_QUEUE_DECODE)
    self->prefilled_us += spent;
  for (guint i = 0; i < LLM_N_PREFILL_GROUPS; i++)
    {
      if (step->prefills == i)
        self->owed_us[i] -= spent;
      else if (self->n_prefills[i] > 0)
        self->owed_us[i] += llm_scheduler_guaranteed[i] * spent;
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
finish_rows (LlmScheduler       *self,
             const LlmRowBudget *share)
{
  LlmSchedEntry *entry = share->entry;

  entry->last_turn = self->n_steps;
  entry->n_running = 0;
  entry->depth += share->n_rows;
  if (entry->n_prompt > 0)
    {
      g_assert (share->n_rows <= entry->n_prompt);
      entry->n_prompt -= share->n_rows;
    }
}

void
llm_scheduler_end_step (LlmScheduler       *self,
                        LlmQueueKind        queue,
                        const LlmRowBudget *budgets,
                        guint               n_budgets,
                        gboolean            teaches)
{
  LlmSchedulerStep *step = &self->steps[queue];

  g_assert (step->is_active);
  step->is_active = FALSE;
  self->n_steps++;
  if (teaches && !step->is_mixed && !step->is_sparse)
    llm_level_costs_observe (&self->levels, &self->costs, get_kind (queue), step->lacking,
                             step->n_rows, step->depth, step->spent_us);
  for (guint i = 0; i < n_budgets; i++)
    finish_rows (self, &budgets[i]);
  llm_account_settle (self->accounts);
  if (queue == LLM_QUEUE_DECODE)
    {
      self->decoded_us = step->spent_us;
      self->prefilled_us = 0;
    }
  self->is_dirty = TRUE;
}

void
llm_scheduler_abandon_step (LlmScheduler       *self,
                            LlmQueueKind        queue,
                            const LlmRowBudget *budgets,
                            guint               n_budgets)
{
  for (guint i = 0; i < n_budgets; i++)
    budgets[i].entry->n_running = 0;
  self->steps[queue].is_active = FALSE;
  self->is_dirty = TRUE;
}
