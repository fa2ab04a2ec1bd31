/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A step of one batch queue: its rows, and how far it has come. Steps of several queues may be
 * under way; between two stages any of them may continue. So an answer does not wait for the end of
 * another request's long prompt, and no work is lost. The executor's thread owns steps.
 */

#pragma once

#include "forward/llm-forward.h"
#include "sched/llm-scheduler.h"

G_BEGIN_DECLS

/* Arithmetic of all rows of a step. */
typedef enum
{
  LLM_STEP_ANY,
  LLM_STEP_EXACT,
  LLM_STEP_W8,
} LlmStepKind;

typedef struct
{
  LlmForward *forward;   /* (unowned): of the queue */
  GArray *rows;          /* (element-type LlmRow) (owned) */
  GPtrArray *sequences;  /* (element-type LlmKvSeq) (owned), of (unowned) */
  LlmRowBudget *budgets; /* (owned) */
  guint n_budgets;
  LlmBatch batch;
  gboolean is_active;    /* under way */
  LlmStepKind skipped;   /* of requests that had other rows than the last step: they come first */
  gboolean teaches;      /* its duration is a measurement of the cost of such steps */
  guint n_stages;        /* that have run */
  gint64 waited_us;      /* when it last had to wait for chunks or weights, 0: never */
  guint n_ahead;         /* draft steps taken while it waited */
  double ahead_us;       /* duration of the last one, until it is known whether the step waited for
                          * it */
  double late_us;        /* time that the step waited for draft steps */
  guint64 n_multiplied;  /* by @forward, as far as it was counted */
} LlmQueueStep;

void      llm_queue_step_init     (LlmQueueStep *self,
                                   LlmForward   *forward,
                                   guint         max_rows);
void      llm_queue_step_clear    (LlmQueueStep *self);

/* Empties it for the next batch. */
void      llm_queue_step_reset    (LlmQueueStep *self);
/* Begins the step with the rows and sequences that were added. */
gboolean  llm_queue_step_begin    (LlmQueueStep *self,
                                   GError      **error);
/* Runs stages until the step has ended or failed, must wait, or @until_us has
 * passed; at least one. PENDING in the last two cases. It does not wait itself: n_stages
 * tells whether anything was computed. */
LlmStatus llm_queue_step_run      (LlmQueueStep *self,
                                   gint64        until_us,
                                   GError      **error);
/* Leaves it in the middle. */
void      llm_queue_step_abandon  (LlmQueueStep *self);

G_END_DECLS
