/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Shared by the files of the scheduler; all of it belongs to the scheduler and its thread.
 * llm-scheduler.c has entries and the accounting of steps, llm-account.h the service of users,
 * -order.c the order, -decode.c the requests of a decode step, -plan.c the row budgets of a step,
 * -forecast.c the time to first token of a new request. */

#pragma once

#include "base/llm-each.h"
#include "sched/llm-scheduler.h"

G_BEGIN_DECLS

/* Accounts that were served so much more than others that wait that deadlines do not decide any
 * more. */
typedef enum
{
  LLM_AHEAD_NONE,
  LLM_AHEAD_APP,            /* the application, among those of its user */
  LLM_AHEAD_USER,
} LlmAhead;

/* Updates all entries, and sorts those that may run: prefills and decodes, each the most urgent
 * first. */
void           llm_scheduler_look             (LlmScheduler        *self,
                                               gint64               now_us);
/* The same for an entry that was not added yet. */
void           llm_scheduler_look_at          (LlmScheduler        *self,
                                               LlmSchedEntry       *entry,
                                               gint64               now_us);
guint          llm_sched_entry_get_group      (const LlmSchedEntry *entry);
/* A decode step reads the weights once for all its requests: a request is charged at most this part
 * of it. So a user that prefills all the time makes the answers of another user longer by a
 * quarter, not twice as long. */
#define LLM_SCHEDULER_MIN_SHARERS 5

/* How much more than others that wait a user or application may be served until it is over its
 * share: then it takes no more of the time that the answers of the others need. */
double         llm_scheduler_get_burst_us     (LlmScheduler        *self);
/* The same until it is ahead: deadlines decide as long as no account is. */
double         llm_scheduler_get_lead_us      (LlmScheduler        *self);
/* The batch queue of a prefill. */
LlmQueueKind   llm_scheduler_find_queue       (LlmScheduler        *self,
                                               const LlmSchedEntry *entry);
/* Whether it is a prefill of a user, or an application, that had more than its fair part, while
 * others decode. */
gboolean       llm_scheduler_must_yield       (LlmScheduler        *self,
                                               const LlmSchedEntry *entry);
/* Guaranteed parts of the time for prefills (LlmPrefillGroup) that others overtake. */
extern const double llm_scheduler_guaranteed[LLM_N_PREFILL_GROUPS];
/* Whether it is neither suspended, nor of a class that pauses now. */
gboolean       llm_scheduler_may_run          (LlmScheduler        *self,
                                               const LlmSchedEntry *entry,
                                               gint64               now_us);
/* (nullable): the prefill that is next, as of the last look; of those whose queue is not in
 * @waiting. @is_urgent: it would be late if it waited. */
LlmSchedEntry *llm_scheduler_find_prefill     (LlmScheduler        *self,
                                               gint64               now_us,
                                               guint                waiting,
                                               gboolean            *is_urgent);
/* Chooses the decodes of the next step: returns how many, with their rows in @decodes (nullable),
 * at most @n_max in all, and when the step must begin for all tokens to be in time (G_MAXINT64:
 * none is due). */
guint          llm_scheduler_choose_decodes   (LlmScheduler        *self,
                                               gint64               now_us,
                                               gboolean             has_prefills,
                                               LlmRowBudget        *decodes,
                                               guint                n_max,
                                               gint64              *latest_us,
                                               LlmSloClass         *slo_class);
/* Spreads @n_rows more over requests that can use more than one, in order. */
void           llm_scheduler_spread_rows      (LlmRowBudget        *budgets,
                                               guint                n_budgets,
                                               guint                n_rows);
/* The part of the time that decodes above class BACKGROUND need. */
double         llm_scheduler_get_decode_share (LlmScheduler        *self);
/* Target of the µs between two tokens, which keeps the call's TPOT. */
double         llm_sched_entry_get_pace_us    (const LlmSchedEntry *entry);
/* Target of the µs from its arrival to its first token. */
double         llm_sched_entry_get_ttft_us    (const LlmSchedEntry *entry);
/* Compares two entries (LlmSchedEntry **) by which goes first, as of the last look. */
int            llm_scheduler_compare          (gconstpointer        a,
                                               gconstpointer        b,
                                               gpointer             scheduler);

G_END_DECLS
