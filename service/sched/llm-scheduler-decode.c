/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The requests of the next decode step, and when it must begin. */

#include "sched/llm-scheduler-private.h"

/* Part of the time between two tokens that the decode step may take: the rest is for prefills. */
#define DECODE_PART 0.55
#define DECODE_ONLY_PART 0.9
/* A step of background decodes. */
#define BACKGROUND_STEP_US 250e3
/* Rows of a decode step for requests of lower classes that have waited too long. */
#define LATE_ROWS 8
/* Turns end a little late, because stages can't be interrupted. */
#define SLACK_US 4000

double
llm_scheduler_get_decode_share (LlmScheduler *self)
{
  double least_us = G_MAXDOUBLE;
  double depth = 0;
  guint n = 0;

  LLM_EACH (LlmSchedEntry, entry, self->entries)
    {
      if (entry->is_suspended || entry->is_held || entry->n_prompt > 0
          || entry->over == LLM_AHEAD_USER || entry->slo.class == LLM_SLO_BACKGROUND)
        continue;
      least_us = MIN (least_us, llm_sched_entry_get_pace_us (entry));
      depth += (double) entry->n_decode * entry->depth;
      n += entry->n_decode;
    }
  if (n == 0)
    return 0;
  return MIN (llm_cost_model_predict (&self->costs, LLM_COST_DECODE, n, depth) / least_us, 0.75);
}

/* How many rows a decode step may have so that all its tokens come in time. */
static guint
find_decode_rows (LlmScheduler *self,
                  double        least_us,
                  double        mean_depth,
                  gboolean      has_prefills)
{
  double row_us = llm_cost_model_predict (&self->costs, LLM_COST_DECODE, 1, mean_depth);
  double budget_us = BACKGROUND_STEP_US;

  if (least_us < G_MAXDOUBLE)
    budget_us = least_us * (has_prefills ? DECODE_PART : DECODE_ONLY_PART);
  /* when a step can't be in time even with one request, it takes all of them */
  if (MAX (row_us, self->reads.whole_us) > budget_us)
    return self->max_rows;
  return MIN (llm_cost_model_find_rows (&self->costs, LLM_COST_DECODE, budget_us, mean_depth),
              self->max_rows);
}

static gboolean
is_decoding (LlmScheduler        *self,
             const LlmSchedEntry *entry,
             gint64               now_us)
{
  return entry->n_prompt == 0 && !entry->is_held
         && llm_scheduler_may_run (self, entry, now_us);
}

/* Gives a row each: to at most @n_late of lower classes that are due, then in order. */
static void
choose_entries (LlmScheduler *self,
                gint64        now_us,
                LlmSloClass   slo_class,
                guint         n_late,
                LlmRowBudget *decodes,
                guint         n_rows)
{
  guint n = 0;

  for (guint pass = 0; pass < 2; pass++)
    LLM_EACH (LlmSchedEntry, entry, self->entries)
      {
        gboolean is_late = entry->slo.class > slo_class && entry->due_us <= now_us;

        if (n >= (pass == 0 ? n_late : n_rows) || !is_decoding (self, entry, now_us)
            || (pass == 0 ? !is_late : entry->is_taken))
          continue;
        entry->is_taken = pass == 0;
        decodes[n++] = (LlmRowBudget) { entry, 1 };
      }
  for (guint i = 0; i < n; i++)
    decodes[i].entry->is_taken = FALSE;
}

void
llm_scheduler_spread_rows (LlmRowBudget *budgets,
                           guint         n_budgets,
                           guint         n_rows)
{
  for (guint i = 0; i < n_budgets && n_rows > 0; i++)
    {
      guint n = MIN (n_rows, budgets[i].entry->n_decode - budgets[i].n_rows);

      budgets[i].n_rows += n;
      n_rows -= n;
    }
}

guint
llm_scheduler_choose_decodes (LlmScheduler *self,
                              gint64        now_us,
                              gboolean      has_prefills,
                              LlmRowBudget *decodes,
                              guint         n_max,
                              gint64       *latest_us,
                              LlmSloClass  *slo_class)
{
  double least_us = G_MAXDOUBLE;
  double depth = 0;
  gint64 due_us = G_MAXINT64;
  guint n_all = 0, n_wanted = 0;
  guint n_rows, n_late, n;

  *slo_class = LLM_SLO_BACKGROUND;
  *latest_us = G_MAXINT64;
  LLM_EACH (LlmSchedEntry, entry, self->entries)
    {
      if (!is_decoding (self, entry, now_us))
        continue;
      n_all++;
      n_wanted += entry->n_decode;
      depth += entry->depth;
      /* the requests of a user that is ahead of others get rows, but do not affect when a step
       * begins and how long it is */
      if (entry->ahead == LLM_AHEAD_USER)
        continue;
      due_us = MIN (due_us, entry->due_us);
      *slo_class = MIN (*slo_class, entry->slo.class);
      if (entry->slo.class < LLM_SLO_BACKGROUND)
        least_us = MIN (least_us, llm_sched_entry_get_pace_us (entry));
    }
  if (n_all == 0)
    return 0;

  depth /= n_all;
  n_rows = MIN (find_decode_rows (self, least_us, depth, has_prefills), n_max);
  n_late = n_all > n_rows ? MAX (n_rows / LATE_ROWS, 1) : 0;
  if (decodes != NULL)
    choose_entries (self, now_us, *slo_class, n_late, decodes, n_rows);
  n = MIN (n_all, n_rows);
  n_rows = MIN (n_rows, n_wanted);
  if (decodes != NULL)
    llm_scheduler_spread_rows (decodes, n, n_rows - n);
  if (due_us == G_MAXINT64)
    return n;
  *latest_us = due_us - SLACK_US
               - (gint64) (llm_cost_model_predict (&self->costs, LLM_COST_DECODE, n_rows,
                                                   n_rows * depth)
                           * (1 + self->costs.curves[LLM_COST_DECODE].spread));
  return n;
}
