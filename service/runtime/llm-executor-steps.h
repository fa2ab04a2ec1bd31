/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A request from its beginning to its end: admission, rows in steps, its answer, and the steps
 * themselves. */

#pragma once

#include "runtime/llm-executor-private.h"

G_BEGIN_DECLS

/* What came of a turn. */
typedef enum
{
  LLM_TURN_NONE,            /* there was nothing to run */
  LLM_TURN_RAN,
  LLM_TURN_WAITS,           /* all that could run waits for weights or chunks */
} LlmTurnEnd;

/* --- llm-executor-rows.c: the rows of a request in steps --- */

/* What a request still has to compute before its next token comes: @n_missing (nullable) positions
 * that it had, and then new ones. */
guint       llm_request_count_left   (LlmRequest    *request,
                                      guint         *n_missing);
gboolean    llm_request_is_in_step   (LlmRequest    *request,
                                      const LlmQueueStep *step);
/* Its rows of a step under way were not computed: what the step added is taken back. */
void        llm_queue_step_take_back       (LlmQueueStep       *step);
/* Abandons the steps of the request, or of all. */
void        llm_request_leave_steps  (LlmRequest    *request);
void        llm_runner_abandon_steps (LlmRunner     *self);

/* --- llm-executor-strategy.c: which level computes a request --- */

/* Tells the scheduler what levels the model has, and what they should cost. */
void        llm_runner_load_levels   (LlmRunner     *self);
/* Its prompt behind earlier turns, and its answer, are computed by what lacks so many levels of the
 * whole model. */
void        llm_request_set_lacking  (LlmRequest    *request,
                                      guint          lacking);
/* Whether a smaller sub-model than its own may compute it, to be in time. */
gboolean    llm_request_has_choice   (const LlmRequest *request);
/* What computes a request with such an entry, which the scheduler does not know yet. @may_share: its
 * session, where it has nothing of the prompt, may begin with another's memory. */
guint       llm_request_choose_lacking (LlmRequest  *request,
                                        gboolean     may_share);
/* What the whole model takes for the whole prompt, alone, nothing of it being there: parts are of
 * that. */
void        llm_request_price_whole  (const LlmRequest *request,
                                      double       *first_us,
                                      double       *token_us);
/* Tokens of the prompt that it may use again: all but the last one, whose logits choose the first
 * token of the answer. */
guint       llm_request_count_reusable (const LlmRequest *request);
/* Chooses again before its first row is computed: it may have waited longer than was forecast. */
void        llm_request_review_level (LlmRequest    *request);

/* --- llm-executor-admission.c: its beginning --- */

void        llm_executor_begin_request (LlmExecutor *self,
                                      LlmRequest    *request);
/* Goes on with requests of whose contexts it is known by now what storage has. */
void        llm_executor_open_requests (LlmExecutor *self);
/* Whether there are others. */
gboolean    llm_executor_has_opening (LlmExecutor   *self);

/* --- llm-executor-decode.c: its answer --- */

/* Has its decoder guess what comes, and notes when that will propose the rows of the next token. */
void        llm_request_await_next   (LlmRequest    *request);
/* While all steps wait: has one of the answers whose rows they are guess what may come behind them
 * (C7). FALSE when none does. */
gboolean    llm_executor_draft_ahead (LlmExecutor   *self);
/* Takes the logits of its rows of a step: of decode from row @first of @forward on; of the prompt
 * that of its last, @first. */
void        llm_request_take_logits  (LlmRequest    *request,
                                      LlmForward    *forward,
                                      guint          first);

/* --- llm-executor-end.c: the end of a request --- */

void        llm_request_end          (LlmRequest    *request,
                                      LlmFinish      finish,
                                      const GError  *error);

/* --- llm-executor-power.c: with little power, and none --- */

/* Writes what there is; TRUE when there is more. */
gboolean    llm_executor_work_suspended (LlmExecutor *self);
void        llm_executor_end_suspend (LlmExecutor   *self);
/* The threads of a step. */
void        llm_runner_choose_pool   (LlmRunner     *self,
                                      LlmQueueStep       *step);

/* --- llm-executor-step.c: steps --- */

/* Looks at what main asked of the requests, at deadlines and at full sinks. */
void        llm_executor_sweep       (LlmExecutor   *self);
/* Gives one queue of one instance a turn: some stages of its step. */
LlmTurnEnd  llm_executor_run_turn    (LlmExecutor   *self);

G_END_DECLS
