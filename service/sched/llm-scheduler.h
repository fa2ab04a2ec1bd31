/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Schedules the rows of requests. Requests that decode share a step, one row each or more. Requests
 * that prefill run in steps of many rows, one SLO class at a time. A step of each class of
 * prefills, one of those that are far ahead, and one of the decodes may be under way at once, each
 * in its batch queue: a request waits for no step of one that is far ahead. The executor asks
 * before each turn, which is some stages long, which queue has it. So no request waits for the end
 * of another's step, and no work is lost.
 *
 * The first token of a call is due at its arrival plus its TTFT, each further one its TPOT after
 * the one before. Inside a class the earliest deadline comes first, as long as no user, and of a
 * user's applications none, is ahead of the others in the service it received (llm-account.h), in
 * time and not in tokens or calls. One that is far ahead prefills beside decodes of the others no
 * more than its fair part, and has one row of each of their steps. Classes come in order, but a
 * prefill may go before a higher class if it would be late otherwise and makes none late, and each
 * class has a guaranteed part of the time. Between users no class counts: who is ahead of another
 * goes behind it in any. Prefills have what is left until the tokens of the
 * decodes are due. The cost of steps is learned (llm-cost-model.h); the wait of a new request is
 * forecast from it.
 *
 * Knows numbers only: no tensors, and no clock, times are given by the caller. The executor's
 * thread owns it.
 */

#pragma once

#include "sched/llm-account.h"
#include "sched/llm-level-costs.h"
#include "sched/llm-sched-entry.h"

G_BEGIN_DECLS

typedef enum
{
  LLM_SCHEDULER_DEADLINE,
  LLM_SCHEDULER_FIFO,       /* in the order of arrival, whatever the targets are: for comparisons */
} LlmSchedulerKind;

/* How background requests run. */
typedef enum
{
  LLM_PACE_RUN,
  LLM_PACE_SLOW,            /* half of the time at most */
  LLM_PACE_WAIT,            /* nothing */
} LlmPace;

/* The rows that one request gets in the next step. */
typedef struct
{
  LlmSchedEntry *entry;
  guint n_rows;
} LlmRowBudget;

/* µs. */
typedef struct
{
  double first_us;          /* until its first token, if no other request arrives */
  double latest_us;         /* when all that wait in its class, and above it, go before it, of other
                             * users as much as is fair: the wait if more calls arrive */
  double alone_us;          /* of its own work until then, with its sub-model */
  double token_us;          /* each further token, if it ran alone */
} LlmForecast;

/* Prefills by class, those that can still be in time before those that can't. */
typedef enum
{
  LLM_PREFILL_IN_TIME,      /* + LlmSloClass */
  LLM_PREFILL_LOST = LLM_N_SLO_CLASSES,  /* + LlmSloClass */
  LLM_N_PREFILL_GROUPS = 2 * LLM_N_SLO_CLASSES,
} LlmPrefillGroup;

/* A step under way. */
typedef struct
{
  gboolean is_active;
  gboolean is_background; /* all its requests are of class BACKGROUND */
  guint prefills;         /* LlmPrefillGroup: those it was begun for */
  guint n_rows;
  double depth;
  guint lacking;          /* of its rows, as in LlmSchedEntry; with several levels, the largest */
  gboolean is_sparse;     /* it has rows of decode that leave out weights */
  gboolean is_mixed;      /* it has rows of several levels */
  double expected_us;
  double spent_us;
} LlmSchedulerStep;

#define LLM_READ_TIMES_MAX 16

/* What a step waits for storage, beside which it computes; all zero where weights do not stream. */
typedef struct
{
  double whole_us;        /* for all that streams of the whole model */
  double sparse_us[LLM_READ_TIMES_MAX]; /* for what rows of decode do not leave out, by the entry's
                           * “sparse” less 1 */
} LlmReadTimes;

/* Others read what is above "private". */
struct _LlmScheduler
{
  LlmCostModel costs;     /* step costs of the whole model: the owner loads and saves them */
  LlmLevelCosts levels;   /* and of its sub-models: likewise; the owner adds these */
  LlmReadTimes reads;     /* of a step, where weights stream: set by the owner */
  GPtrArray *entries;     /* (element-type LlmSchedEntry): (unowned) */
  gint64 wake_us;         /* when no queue ran: time of the next turn, 0 for when something
                           * changes */

  /*< private >*/
  LlmSchedulerKind kind;
  LlmPace pace;
  guint max_rows;
  LlmAccount *accounts;   /* (unowned): of all users */
  guint64 n_arrived;
  guint64 n_steps;

  LlmSchedulerStep steps[LLM_N_QUEUES];
  double decoded_us;      /* duration of the last decode step */
  double prefilled_us;    /* time of prefills since */
  double owed_us[LLM_N_PREFILL_GROUPS]; /* to prefills that others overtook */
  gboolean is_paying[LLM_N_PREFILL_GROUPS]; /* they get turns until nothing is owed */
  gint64 rest_until_us;   /* of background requests that run slowly */

  /* as of the last look, llm_scheduler_look() */
  gboolean is_dirty;      /* something changed since */
  gint64 looked_us;
  guint n_prefills[LLM_N_PREFILL_GROUPS]; /* that may run */
  guint decode_class;     /* LlmSloClass, the highest of the decodes that are not over their fair
                           * part; LLM_N_SLO_CLASSES: none */
};

/* @max_rows: of one step. @accounts: (unowned): the root; schedulers of several instances may share
 * one. */
LlmScheduler *llm_scheduler_new          (LlmSchedulerKind     kind,
                                          guint                max_rows,
                                          LlmAccount          *accounts);
void          llm_scheduler_free         (LlmScheduler        *self);
/* For calls of class BACKGROUND, from the next turn on. */
void          llm_scheduler_set_pace     (LlmScheduler        *self,
                                          LlmPace              pace);

/* Number of requests that are prefilled before @entry, which was added. */
guint         llm_scheduler_count_ahead  (LlmScheduler        *self,
                                          const LlmSchedEntry *entry);
/* Forecasts the wait of a request like @entry, which is not added, if it arrives @now_us. */
void          llm_scheduler_forecast     (LlmScheduler        *self,
                                          const LlmSchedEntry *entry,
                                          gint64               now_us,
                                          LlmForecast         *forecast);

/* µs that @entry takes until its first token, and then for each further one, if it ran alone with
 * the sub-model that lacks @lacking levels, as sparse as @entry. */
void          llm_scheduler_price        (LlmScheduler        *self,
                                          const LlmSchedEntry *entry,
                                          guint                lacking,
                                          double              *alone_us,
                                          double              *token_us);

/* Admits a request. */
void          llm_scheduler_add          (LlmScheduler        *self,
                                          LlmSchedEntry       *entry);
/* Does nothing when it was not added. */
void          llm_scheduler_remove       (LlmScheduler        *self,
                                          LlmSchedEntry       *entry);

/* The least service of a user whose requests may run; G_MAXDOUBLE: none may. */
double        llm_scheduler_get_least_us (LlmScheduler        *self,
                                          gint64               now_us);
/* The highest class of the requests that may run, of users that are not ahead of one that was
 * served @least_us; LLM_N_SLO_CLASSES: none. */
guint         llm_scheduler_get_class    (LlmScheduler        *self,
                                          gint64               now_us,
                                          double               least_us);
/* The queue that runs next, or NONE when no request may run. @waiting: queues (bits
 * 1 << LlmQueueKind) that could not go on. */
LlmQueueKind  llm_scheduler_choose       (LlmScheduler        *self,
                                          gint64               now_us,
                                          guint                waiting);

/* Fills in @budgets for a step of @queue with at most @n_max_budgets entries of at least one row
 * each; returns their number. Nothing is charged yet. */
guint         llm_scheduler_plan         (LlmScheduler        *self,
                                          LlmQueueKind         queue,
                                          gint64               now_us,
                                          LlmRowBudget        *budgets,
                                          guint                n_max_budgets);
/* The step of @queue has begun, with these budgets. */
void          llm_scheduler_begin_step   (LlmScheduler        *self,
                                          LlmQueueKind         queue,
                                          const LlmRowBudget  *budgets,
                                          guint                n_budgets);
/* It had a turn of @spent_us that ended at @now_us, which is charged to the users and applications
 * of its rows. */
void          llm_scheduler_note_turn    (LlmScheduler        *self,
                                          LlmQueueKind         queue,
                                          gint64               now_us,
                                          gint64               spent_us);
/* All rows of the step were computed. @teaches: its time counts in the cost model. */
void          llm_scheduler_end_step     (LlmScheduler        *self,
                                          LlmQueueKind         queue,
                                          const LlmRowBudget  *budgets,
                                          guint                n_budgets,
                                          gboolean             teaches);
/* The step was abandoned: the time that it took stays charged. */
void          llm_scheduler_abandon_step (LlmScheduler        *self,
                                          LlmQueueKind         queue,
                                          const LlmRowBudget  *budgets,
                                          guint                n_budgets);
/* Whether any request, suspended ones excepted, is not of class BACKGROUND. */
gboolean      llm_scheduler_is_awaited   (LlmScheduler        *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmScheduler, llm_scheduler_free)

G_END_DECLS
