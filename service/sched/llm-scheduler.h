/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Decides whose rows run next. Calls that write go together, one row each. Calls that read
 * their prompt go in steps of many rows, one SLO class at a time. A step of each class of readers,
 * one of those that are far ahead, and one of the writers, may be under way at once, each in its
 * lane: so who is far ahead keeps nobody waiting for its end. The executor asks before each
 * turn, which is some stages long, which lane has it. So a call never waits for the end of somebody
 * else's step, and no work is lost.
 *
 * The first token of a call is due at its arrival plus its TTFT, each further one its TPOT after
 * the one before. Inside a class the earliest deadline comes first, as long as no user, and of a
 * user's applications none, is ahead of the others in what it was served (llm-account.h), in time
 * and not in tokens or calls. Who is far ahead reads beside answers of the others no more than is
 * its share, and has one row of each of their steps. Classes come in order, but one that waits may
 * go before if it would be late otherwise and nobody is late for it, and each has a part of the
 * time in any case. Readers have what is left until the writers' tokens are due. What steps cost is
 * learned (llm-cost-model.h), and what a newcomer will have to wait is forecast from that.
 *
 * Knows numbers only: no tensors, and no clock, times are given by the caller. The executor's
 * thread owns it.
 */

#pragma once

#include "sched/llm-cost-model.h"
#include "sched/llm-slo.h"

G_BEGIN_DECLS

typedef struct _LlmScheduler LlmScheduler;
typedef struct _LlmTicket LlmTicket;

typedef enum
{
  LLM_SCHEDULER_DEADLINE,
  LLM_SCHEDULER_FIFO,       /* in the order of arrival, whatever was asked for: for comparisons */
} LlmSchedulerKind;

/* What is done of the work that nobody waits for. */
typedef enum
{
  LLM_PACE_RUN,
  LLM_PACE_SLOW,            /* half of the time at most */
  LLM_PACE_WAIT,            /* nothing */
} LlmPace;

/* Those who write go together; those who read, by class, or apart when they are far ahead. */
typedef enum
{
  LLM_LANE_WRITING,
  LLM_LANE_READING,         /* + LlmSloClass */
  LLM_LANE_AHEAD = LLM_LANE_READING + LLM_N_SLO_CLASSES,
  LLM_N_LANES,
  LLM_LANE_NONE = LLM_N_LANES,
} LlmLaneKind;

/* What one call gets in the next step. */
typedef struct
{
  LlmTicket *ticket;
  guint n_rows;
} LlmShare;

typedef struct
{
  guint32 user;             /* whose call it is, for accounting */
  const char *app;          /* a key for the same among the user's */
  LlmSlo slo;
  gint64 arrived_us;
  guint n_prompt;           /* rows to read */
  guint n_before;           /* slots before them */
  guint64 restore_bytes;    /* to be read from storage before */
} LlmTicketConfig;

/* µs. */
typedef struct
{
  double first_us;          /* until its first token, if nobody else comes */
  double latest_us;         /* when all that wait in its class, and above it, go before it: what
                             * comes of it when more and more calls do */
  double alone_us;          /* of its own work until then */
  double token_us;          /* each further token, if nobody else were there */
} LlmForecast;

/* @max_rows: of one step. */
LlmScheduler *llm_scheduler_new         (LlmSchedulerKind kind,
                                         guint          max_rows);
void          llm_scheduler_free        (LlmScheduler  *self);
/* What steps cost: to be filled from what was kept, or kept. */
LlmCostModel *llm_scheduler_get_costs   (LlmScheduler  *self);
/* For calls of class BACKGROUND, from the next turn on. */
void          llm_scheduler_set_pace    (LlmScheduler  *self,
                                         LlmPace        pace);

/* What a call that comes @now_us would have to wait. */
void          llm_scheduler_forecast    (LlmScheduler  *self,
                                         const LlmTicketConfig *config,
                                         gint64         now_us,
                                         LlmForecast   *forecast);

/* Admits a call. @data is the owner's. The ticket lives until llm_scheduler_remove(). */
LlmTicket    *llm_scheduler_add         (LlmScheduler  *self,
                                         const LlmTicketConfig *config,
                                         gpointer       data);
void          llm_scheduler_remove      (LlmScheduler  *self,
                                         LlmTicket     *ticket);
gpointer      llm_ticket_get_data       (LlmTicket     *ticket);
guint         llm_ticket_get_n_prompt   (LlmTicket     *ticket);
/* What it read before has to be read again, or less has to be read than was thought. */
void          llm_ticket_set_n_prompt   (LlmTicket     *ticket,
                                         guint          n_prompt);
/* A parked call gets no rows; nothing else changes for it or others. */
void          llm_ticket_set_parked     (LlmTicket     *ticket,
                                         gboolean       is_parked);
/* What had to be read from storage is there. */
void          llm_ticket_set_restored   (LlmTicket     *ticket);
/* A token of its answer came. */
void          llm_ticket_note_token     (LlmTicket     *ticket,
                                         gint64         now_us);

/* The lane whose turn it is, or NONE when nobody has anything to run. @waiting: lanes (bits
 * 1 << LlmLaneKind) that could not go on. */
LlmLaneKind   llm_scheduler_choose      (LlmScheduler  *self,
                                         gint64         now_us,
                                         guint          waiting);
/* When there was NONE: the time of the next turn, 0 for when something changes. */
gint64        llm_scheduler_get_wake    (LlmScheduler  *self);

/* Fills in @shares for a step of @lane with at most @n_max_shares entries of at least one row each;
 * returns how many. Nothing is charged yet. */
guint         llm_scheduler_plan        (LlmScheduler  *self,
                                         LlmLaneKind    lane,
                                         gint64         now_us,
                                         LlmShare      *shares,
                                         guint          n_max_shares);
/* The step of @lane has begun, with these. */
void          llm_scheduler_begin_step  (LlmScheduler  *self,
                                         LlmLaneKind    lane,
                                         const LlmShare *shares,
                                         guint          n_shares);
/* It had a turn of @spent_us that ended at @now_us, which is charged to the users and applications
 * of its rows. */
void          llm_scheduler_note_turn   (LlmScheduler  *self,
                                         LlmLaneKind    lane,
                                         gint64         now_us,
                                         gint64         spent_us);
/* All its rows were computed. @teaches: the time says what such a step costs. */
void          llm_scheduler_end_step    (LlmScheduler  *self,
                                         LlmLaneKind    lane,
                                         const LlmShare *shares,
                                         guint          n_shares,
                                         gboolean       teaches);
/* It was left in the middle: what it took stays charged. */
void          llm_scheduler_abandon_step (LlmScheduler *self,
                                         LlmLaneKind    lane,
                                         const LlmShare *shares,
                                         guint          n_shares);
guint         llm_scheduler_get_n_calls (LlmScheduler  *self);
/* Whether somebody waits for any call, running or not: all are of class BACKGROUND if not. */
gboolean      llm_scheduler_is_awaited  (LlmScheduler  *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmScheduler, llm_scheduler_free)

G_END_DECLS
