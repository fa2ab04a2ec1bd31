/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the files of the scheduler share; all of it belongs to the scheduler, and is of its thread.
 * llm-scheduler.c has tickets and what came of steps, llm-account.h what users had of it, -order.c
 * who goes first, -writers.c who writes, -plan.c the shares of a step, -forecast.c when a call
 * would begin. */

#pragma once

#include "sched/llm-account.h"
#include "sched/llm-scheduler.h"

G_BEGIN_DECLS

/* Readers by class, those that can still be in time before those that can't. */
typedef enum
{
  LLM_READERS_IN_TIME,      /* + LlmSloClass */
  LLM_READERS_LOST = LLM_N_SLO_CLASSES,  /* + LlmSloClass */
  LLM_N_READERS = 2 * LLM_N_SLO_CLASSES,
} LlmReaders;

struct _LlmTicket
{
  LlmScheduler *scheduler; /* (unowned) */
  LlmAccount *app;        /* (unowned): its parent is the user's */
  LlmSlo slo;
  gint64 arrived_us;
  guint n_prompt;         /* rows still to be read; 0: it writes */
  guint depth;            /* slots before the next row */
  guint64 restore_bytes;  /* still on their way */
  guint n_running;        /* rows in a step under way */
  LlmLaneKind lane;       /* of that step */
  gboolean is_parked;
  gint64 parked_us;       /* since when, 0: it is not, or was not seen so yet */
  guint64 arrival;        /* running number */
  guint64 last_turn;      /* running number of the step that served it last */
  gint64 first_us;        /* of the first token, 0 before */
  gint64 last_us;
  guint n_tokens;
  gpointer data;

  /* as of the last look, llm_scheduler_look() */
  double left_us;         /* of work, until its prompt is read */
  gint64 due_us;          /* when its next token is */
  guint ahead;            /* LlmAhead */
  gboolean is_held;       /* it writes, but its user or application has its row of the step */
  gboolean is_lost;       /* its first token will be late in any case */
  gboolean is_taken;      /* while writers are chosen */
};

/* Who was served so much more than others that wait that deadlines decide no longer. */
typedef enum
{
  LLM_AHEAD_NONE,
  LLM_AHEAD_APP,            /* the application, of those of its user */
  LLM_AHEAD_USER,
} LlmAhead;

/* A step under way. */
typedef struct
{
  gboolean is_active;
  gboolean is_background; /* nobody waits for any of its calls */
  guint readers;          /* LlmReaders: those it was begun for */
  guint n_rows;
  double depth;
  double expected_us;
  double spent_us;
} LlmSchedulerStep;

struct _LlmScheduler
{
  LlmSchedulerKind kind;
  LlmPace pace;
  guint max_rows;
  LlmCostModel costs;
  GPtrArray *tickets;     /* (element-type LlmTicket) (owned) */
  LlmAccount *accounts;   /* (owned): of all users */
  guint64 n_arrived;
  guint64 n_steps;

  LlmSchedulerStep steps[LLM_N_LANES];
  double written_us;      /* the writers' last step took */
  double read_us;         /* readers had since */
  double owed_us[LLM_N_READERS]; /* to readers that had to wait for others */
  gboolean is_paying[LLM_N_READERS]; /* they have a turn for it, until nothing is owed */
  gint64 rest_until_us;   /* of background work that goes slowly */
  gint64 wake_us;

  /* as of the last look, llm_scheduler_look() */
  gboolean is_dirty;      /* something changed since */
  gint64 looked_us;
  guint n_readers[LLM_N_READERS]; /* that may run */
  guint writing_class;    /* LlmSloClass, the highest of those that write and are not over their
                           * share; LLM_N_SLO_CLASSES: nobody is */
};

/* Brings what tickets say of themselves up to date, and puts those that may run in order: readers
 * and writers, each the most urgent first. */
void     llm_scheduler_look            (LlmScheduler    *self,
                                        gint64           now_us);
/* The same for one that is not among them yet. */
void     llm_scheduler_look_at         (LlmScheduler    *self,
                                        LlmTicket       *ticket,
                                        gint64           now_us);
guint    llm_ticket_get_readers        (const LlmTicket *ticket);
/* A step of answers reads the weights once for all that write: a call that writes is charged such a
 * part of it at most. So who reads prompts all the time makes the answers of one other user longer
 * by a quarter, and not twice as long. */
#define LLM_SCHEDULER_MIN_SHARERS 5

/* How much more than others that wait one may be served, user or application, until it is over its
 * share: it takes no more then of the time that answers of the others need. */
double   llm_scheduler_get_burst_us    (LlmScheduler    *self);
/* The same until it is ahead: deadlines decide as long as none is. */
double   llm_scheduler_get_lead_us     (LlmScheduler    *self);
/* The lane in which a reader is read. */
LlmLaneKind llm_scheduler_find_lane    (LlmScheduler    *self,
                                        const LlmTicket *ticket);
/* A reader of a user, or an application, that had more than its share, while others write. */
gboolean llm_scheduler_must_yield      (LlmScheduler    *self,
                                        const LlmTicket *ticket);
/* Of the time, for readers (LlmReaders) that others go before. */
double   llm_scheduler_get_guaranteed  (guint            readers);
/* Neither parked, nor of a class that rests now. */
gboolean llm_scheduler_may_run         (LlmScheduler    *self,
                                        const LlmTicket *ticket,
                                        gint64           now_us);
/* (nullable): the reader whose turn it is, as of the last look; of those whose lane is not in
 * @waiting. @is_urgent: it would be late if it waited. */
LlmTicket *llm_scheduler_find_reader   (LlmScheduler    *self,
                                        gint64           now_us,
                                        guint            waiting,
                                        gboolean        *is_urgent);
/* Of the writers that may run: how many go into the next step, in order from @writers (nullable),
 * what it costs, and when it must begin for all tokens to be in time (G_MAXINT64: nobody waits for
 * one). */
guint    llm_scheduler_choose_writers  (LlmScheduler    *self,
                                        gint64           now_us,
                                        gboolean         has_readers,
                                        LlmTicket      **writers,
                                        guint            n_max,
                                        gint64          *latest_us,
                                        LlmSloClass     *slo_class);
/* The part of the time that tokens of answers need which somebody waits for. */
double   llm_scheduler_get_writing_share (LlmScheduler  *self);
/* µs between two tokens that a call should have, so that its TPOT holds. */
double   llm_ticket_get_pace_us        (const LlmTicket *ticket);
/* µs from its arrival in which its first token should come. */
double   llm_ticket_get_ttft_us        (const LlmTicket *ticket);
/* Of two tickets (LlmTicket **) the one that goes first, as of the last look. */
int      llm_scheduler_compare         (gconstpointer    a,
                                        gconstpointer    b,
                                        gpointer         scheduler);

G_END_DECLS
