/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A request from admission to its end: its rows in steps, its answer, and the steps themselves. */

#pragma once

#include "runtime/llm-executor.h"
#include "runtime/llm-queue-step.h"
#include "runtime/llm-step-pools.h"

G_BEGIN_DECLS

/* The machine sleeps: nothing runs. */
typedef struct _LlmRunner LlmRunner;

typedef struct
{
  gboolean is_on;
  struct _LlmHold *hold;    /* (nullable) (owned): who is to be told when all is written */
  gint64 end_us;            /* and is told then in any case */
} LlmSleep;

typedef struct
{
  LlmStepPools pools;
  LlmAccount *accounts;     /* (owned): what users were served, by all instances */
  GArray *missing;          /* (element-type guint) (owned): slots, being planned */
  LlmRowBudget *budgets;    /* (owned) (array length=LLM_BATCH_MAX_ROWS): being planned */
  gint64 ran_us;            /* when a request last ran */
  guint pace;               /* atomic LlmPace: of background requests */
  LlmSleep sleep;
} LlmExecutorSteps;

/* The result of a turn. */
typedef enum
{
  LLM_TURN_NONE,            /* no request could run */
  LLM_TURN_RAN,
  LLM_TURN_WAITS,           /* all requests that could run wait for weights or chunks */
} LlmTurnEnd;

/* --- llm-executor-rows.c: the rows of a request in steps --- */

/* Rows that a request has to compute before its next token: @n_missing (nullable) positions whose K
 * and V were lost, and then new ones. */
guint       llm_request_count_left   (LlmRequest    *request,
                                      guint         *n_missing);
gboolean    llm_request_is_in_step   (LlmRequest    *request,
                                      const LlmQueueStep *step);
/* Takes back the rows of a step that were added but not computed. */
void        llm_queue_step_take_back       (LlmQueueStep       *step);
/* Abandons the steps of the request, or of all. */
void        llm_request_leave_steps  (LlmRequest    *request);
void        llm_runner_abandon_steps (LlmRunner     *self);
/* Has its decoder give back what it uses of the session. */
void        llm_request_release      (LlmRequest    *request);

/* --- llm-executor-reads.c: what steps wait for storage --- */

/* Finds how much less is read for sparse rows. */
void        llm_runner_load_channels (LlmRunner     *self);
/* Tells the scheduler what a step reads now. */
void        llm_runner_take_reads    (LlmRunner     *self);

/* --- llm-executor-strategy.c: what computes a request --- */

/* Tells the scheduler the model's levels, and their estimated costs. */
void        llm_runner_load_levels   (LlmRunner     *self);
/* The state of rows that the caller named, or the configuration for it. */
guint8      llm_request_get_named    (const LlmRequest *request);
/* Sets the state of its answer's rows, and the level of its prompt after earlier turns. */
void        llm_request_set_state    (LlmRequest    *request,
                                      guint8         state);
/* Whether less than what was named may compute it, to meet its targets. */
gboolean    llm_request_has_choice   (const LlmRequest *request);
/* Chooses the state of rows for a request with this entry, which the scheduler does not know yet.
 * @may_share: its session, if it has nothing of the prompt, may begin with a shared prefix. */
guint8      llm_request_choose_state (LlmRequest    *request,
                                      gboolean       may_share);
/* Time that the whole model takes for the whole prompt, alone, with nothing cached: fractions are
 * of that. */
void        llm_request_price_whole  (const LlmRequest *request,
                                      double       *first_us,
                                      double       *token_us);
/* Tokens of the prompt that may be reused from the cache: all but the last, whose logits choose the
 * first token of the answer. */
guint       llm_request_count_reusable (const LlmRequest *request);
/* Chooses again before its first row is computed, because it may have waited longer than
 * forecast. */
void        llm_request_review_level (LlmRequest    *request);

/* --- llm-executor-admission.c: its beginning --- */

void        llm_executor_begin_request (LlmExecutor *self,
                                      LlmRequest    *request);
/* Continues with requests for which it is now known what storage has of their contexts. */
void        llm_executor_open_requests (LlmExecutor *self);
/* Whether such requests are left. */
gboolean    llm_executor_has_opening (LlmExecutor   *self);

/* --- llm-executor-decode.c: its answer --- */

/* Has its decoder draft, and notes when it will propose the rows of the next token. */
void        llm_request_await_next   (LlmRequest    *request);
/* While all steps wait: has one of the answers in them draft the tokens after its rows (C7). FALSE
 * when none does. */
gboolean    llm_executor_draft_ahead (LlmExecutor   *self);
/* Takes the logits of its rows of a step: for decode from row @first of @forward on; for prefill
 * that of its last row, @first. */
void        llm_request_take_logits  (LlmRequest    *request,
                                      LlmForward    *forward,
                                      guint          first);

/* --- llm-executor-end.c: the end of a request --- */

void        llm_request_end          (LlmRequest    *request,
                                      LlmFinish      finish,
                                      const GError  *error);

/* --- llm-executor-power.c: with little power, and none --- */

/* Writes unwritten chunks; TRUE when more are left. */
gboolean    llm_executor_work_suspended (LlmExecutor *self);
void        llm_executor_end_suspend (LlmExecutor   *self);
/* Chooses the threads of a step. */
void        llm_runner_choose_pool   (LlmRunner     *self,
                                      LlmQueueStep       *step);

/* --- llm-executor-step.c: steps --- */

/* Checks requests for cancellation by main, deadlines and full sinks. */
void        llm_executor_sweep       (LlmExecutor   *self);
/* Gives one queue of one instance a turn: some stages of its step. */
LlmTurnEnd  llm_executor_run_turn    (LlmExecutor   *self);

G_END_DECLS
