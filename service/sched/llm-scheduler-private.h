/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the files of the scheduler share; all of it belongs to the scheduler, and is of its thread.
 * llm-scheduler.c has entries and the accounting of steps, llm-account.h the service of users,
 * -order.c the order, -decode.c the requests of a decode step, -plan.c the row budgets of a step,
 * -forecast.c the time to first token of a new request. */

#pragma once

#include "base/llm-each.h"
#include "sched/llm-scheduler.h"

G_BEGIN_DECLS

/* Who was served so much more than others that wait that deadlines decide no longer. */
typedef enum
{
  LLM_AHEAD_NONE,
  LLM_AHEAD_APP,            /* the application, of those of its user */
  LLM_AHEAD_USER,
} LlmAhead;

/* Brings what entries say of themselves up to date, and puts those that may run in order: prefills
 * and decodes, each the most urgent first. */
void           llm_scheduler_look             (LlmScheduler        *self,
                                               gint64               now_us);
/* The same for one that is not among them yet. */
void           llm_scheduler_look_at          (LlmScheduler        *self,
                                               LlmSchedEntry       *entry,
                                               gint64               now_us);
guint          llm_sched_entry_get_group      (const LlmSchedEntry *entry);
/* A step of decodes reads the weights once for all: a request is charged such a part of it at most.
 * So one that prefills all the time makes the answers of another user longer by a quarter, and not
 * twice as long. */
#define LLM_SCHEDULER_MIN_SHARERS 5

/* How much more than others that wait one may be served, user or application, until it is over its
 * share: it takes no more then of the time that answers of the others need. */
double         llm_scheduler_get_burst_us     (LlmScheduler        *self);
/* The same until it is ahead: deadlines decide as long as none is. */
double         llm_scheduler_get_lead_us      (LlmScheduler        *self);
/* The batch queue of a prefill. */
LlmQueueKind   llm_scheduler_find_queue       (LlmScheduler        *self,
                                               const LlmSchedEntry *entry);
/* A prefill of a user, or an application, that had more than its fair part, while others decode. */
gboolean       llm_scheduler_must_yield       (LlmScheduler        *self,
                                               const LlmSchedEntry *entry);
/* Of the time, for prefills (LlmPrefillGroup) that others go before. */
extern const double llm_scheduler_guaranteed[LLM_N_PREFILL_GROUPS];
/* Neither suspended, nor of a class that rests now. */
gboolean       llm_scheduler_may_run          (LlmScheduler        *self,
                                               const LlmSchedEntry *entry,
                                               gint64               now_us);
/* (nullable): the prefill whose turn it is, as of the last look; of those whose queue is not in
 * @waiting. @is_urgent: it would be late if it waited. */
LlmSchedEntry *llm_scheduler_find_prefill     (LlmScheduler        *self,
                                               gint64               now_us,
                                               guint                waiting,
                                               gboolean            *is_urgent);
/* Of those that decode and may run: how many go into the next step, with their rows in @decodes
 * (nullable), at most @n_max in all, and when it must begin for all tokens to be in time
 * (G_MAXINT64: none is due). */
guint          llm_scheduler_choose_decodes   (LlmScheduler        *self,
                                               gint64               now_us,
                                               gboolean             has_prefills,
                                               LlmRowBudget        *decodes,
                                               guint                n_max,
                                               gint64              *latest_us,
                                               LlmSloClass         *slo_class);
/* Gives @n_rows more to requests that would have more than one, in order. */
void           llm_scheduler_spread_rows      (LlmRowBudget        *budgets,
                                               guint                n_budgets,
                                               guint                n_rows);
/* The part of the time that decodes above class BACKGROUND need. */
double         llm_scheduler_get_decode_share (LlmScheduler        *self);
/* µs between two tokens that a call should have, so that its TPOT holds. */
double         llm_sched_entry_get_pace_us    (const LlmSchedEntry *entry);
/* µs from its arrival in which its first token should come. */
double         llm_sched_entry_get_ttft_us    (const LlmSchedEntry *entry);
/* Of two entries (LlmSchedEntry **) the one that goes first, as of the last look. */
int            llm_scheduler_compare          (gconstpointer        a,
                                               gconstpointer        b,
                                               gpointer             scheduler);

G_END_DECLS
