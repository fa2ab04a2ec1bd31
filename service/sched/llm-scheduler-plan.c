/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The row budgets of a step. */

#include "sched/llm-scheduler-private.h"

/* A prefill step: newcomers of its class wait for its end. */
#define STEP_PART (1.0 / 8)
#define MIN_STEP_US 60e3
#define MAX_STEP_US 400e3
/* Enough rows to use each weight often; a smaller step costs more per row. */
#define MIN_ROWS 64

static guint
plan_decodes (LlmScheduler *self,
              gint64        now_us,
              LlmRowBudget *budgets,
              guint         n_max_budgets)
{
  guint n_max = MIN (n_max_budgets, self->max_rows);
  guint n_prefills = 0;
  guint n = 0;
  gint64 latest_us;
  LlmSloClass slo_class;

  for (guint i = 0; i < LLM_N_PREFILL_GROUPS; i++)
    n_prefills += self->n_prefills[i];
  if (self->kind == LLM_SCHEDULER_DEADLINE)
    n = llm_scheduler_choose_decodes (self, now_us, n_prefills > 0, budgets, n_max, &latest_us,
                                      &slo_class);
  LLM_EACH (LlmSchedEntry, entry, self->entries)
    if (self->kind == LLM_SCHEDULER_FIFO && n < n_max && entry->n_prompt == 0
        && !entry->is_suspended)
      budgets[n++] = (LlmRowBudget) { entry, 1 };
  if (self->kind == LLM_SCHEDULER_FIFO)
    llm_scheduler_spread_rows (budgets, n, n_max - n);
  return n;
}

/* How many rows a step with these prefills should have: newcomers of their class wait for its end,
 * and their target says how long they can. */
static guint
find_prefill_rows (LlmScheduler *self,
                   GPtrArray    *prefills)
{
  double step_us = MAX_STEP_US;
  guint n_all = 0;
  guint n_rows;

  LLM_EACH (LlmSchedEntry, entry, prefills)
    {
      n_all = MIN (n_all + entry->n_prompt, self->max_rows);
      if (self->kind == LLM_SCHEDULER_DEADLINE)
        step_us = MIN (step_us, llm_sched_entry_get_ttft_us (entry) * STEP_PART);
    }
  n_rows = MIN_ROWS;
  if (self->costs.curves[LLM_COST_PREFILL].n_steps > 0)
    n_rows = llm_cost_model_find_rows (&self->costs, LLM_COST_PREFILL, MAX (step_us, MIN_STEP_US),
                                       ((LlmSchedEntry *) g_ptr_array_index (prefills, 0))->depth);
  n_rows = MAX (n_rows, MIN_ROWS);
  /* a small rest does not get a step of its own */
  if (n_all <= n_rows + MIN_ROWS)
    n_rows = n_all;
  return MIN (n_rows, self->max_rows);
}

/* Of one class: the prefills that are due within the step decide its length. */
static gboolean
fits (LlmScheduler  *self,
      GPtrArray     *prefills,
      LlmSchedEntry *entry,
      LlmQueueKind   queue,
      gint64         now_us)
{
  const LlmSchedEntry *first = prefills->len > 0 ? g_ptr_array_index (prefills, 0) : entry;

  if (entry->n_prompt == 0 || entry->n_running > 0)
    return FALSE;
  if (self->kind == LLM_SCHEDULER_FIFO)
    return !entry->is_suspended;
  return llm_scheduler_find_queue (self, entry) == queue && entry->slo.class == first->slo.class
         && llm_scheduler_may_run (self, entry, now_us);
}

static guint
plan_prefills (LlmScheduler *self,
               LlmQueueKind  queue,
               gint64        now_us,
               LlmRowBudget *budgets,
               guint         n_max_budgets)
{
  g_autoptr(GPtrArray) prefills = g_ptr_array_new ();
  gboolean is_urgent;
  LlmSchedEntry *first = NULL;
  guint n_budgets = 0;
  guint n_rows;

  if (self->kind == LLM_SCHEDULER_DEADLINE)
    first = llm_scheduler_find_prefill (self, now_us, 0, &is_urgent);
  if (first != NULL && fits (self, prefills, first, queue, now_us))
    g_ptr_array_add (prefills, first);
  LLM_EACH (LlmSchedEntry, entry, self->entries)
    if (entry != first && fits (self, prefills, entry, queue, now_us))
      g_ptr_array_add (prefills, entry);
  if (prefills->len == 0)
    return 0;

  n_rows = find_prefill_rows (self, prefills);
  LLM_EACH (LlmSchedEntry, entry, prefills)
    {
      guint n = MIN (entry->n_prompt, n_rows);

      if (n == 0 || n_budgets == n_max_budgets)
        break;
      budgets[n_budgets++] = (LlmRowBudget) { entry, n };
      n_rows -= n;
    }
  return n_budgets;
}

guint
llm_scheduler_plan (LlmScheduler *self,
                    LlmQueueKind  queue,
                    gint64        now_us,
                    LlmRowBudget *budgets,
                    guint         n_max_budgets)
{
  g_assert (queue < LLM_N_QUEUES && !self->steps[queue].is_active);
  llm_scheduler_look (self, now_us);
  if (queue == LLM_QUEUE_DECODE)
    return plan_decodes (self, now_us, budgets, n_max_budgets);
  return plan_prefills (self, queue, now_us, budgets, n_max_budgets);
}
