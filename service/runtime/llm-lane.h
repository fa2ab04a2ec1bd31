/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A lane of the executor: one step that may be under way, with its rows and a
 * forward pass of its own. Several lanes can be in the middle of a step; between
 * two stages any of them may go on. So an answer does not wait for somebody
 * else's long prompt, and no work is lost. The executor's thread owns lanes.
 */

#pragma once

#include "forward/llm-forward.h"
#include "sched/llm-scheduler.h"

G_BEGIN_DECLS

typedef struct
{
  LlmForward *forward;   /* (nullable) (owned): NULL without a model */
  GArray *rows;          /* (element-type LlmRow) (owned) */
  GPtrArray *sequences;  /* (element-type LlmKvSeq) (owned), of (unowned) */
  LlmShare *shares;      /* (owned) */
  guint n_shares;
  LlmBatch batch;
  gboolean is_active;    /* a step is under way */
  gboolean teaches;      /* how long it takes says what such steps cost */
  gint64 spent_us;       /* on it */
  guint n_stages;        /* of it that have run */
  gint64 waited_us;      /* when it last had to wait for context memory or weights, 0: never */
} LlmLane;

void      llm_lane_init   (LlmLane      *self,
                           guint         max_rows);
void      llm_lane_clear  (LlmLane      *self);

/* Empties the lane for the next step. */
void      llm_lane_reset  (LlmLane      *self);
/* Begins a step of the rows and sequences that were put into the lane. */
gboolean  llm_lane_begin  (LlmLane      *self,
                           GError      **error);
/* Runs stages until the step has ended or failed, must wait, or @until_us has
 * passed; at least one. PENDING in the last two cases. It does not wait itself: n_stages
 * tells whether anything was computed. */
LlmStatus llm_lane_run    (LlmLane      *self,
                           gint64        until_us,
                           GError      **error);
/* Leaves the step in the middle. */
void      llm_lane_abandon (LlmLane     *self);

G_END_DECLS
