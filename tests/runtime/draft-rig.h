/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Answers with guesses in the executor, whose steps cost what a test says. */

#pragma once

#include "decoding/draft/llm-draft-decoder.h"
#include "executor-rig.h"
#include "runtime/llm-draft-model.h"

G_BEGIN_DECLS

/* Of an answer; with sanitizers, where a token takes ten times as long, fewer show as much. */
#ifdef __SANITIZE_ADDRESS__
#define DRAFT_RIG_TOKENS 60
#else
#define DRAFT_RIG_TOKENS 100
#endif
#define DRAFT_RIG_PROMPTS 4
#define DRAFT_RIG_SAMPLERS 5   /* greedy and not, with penalties and without */
#define DRAFT_RIG_SHAPES 4

extern const LlmGrowthConfig draft_rig_shapes[DRAFT_RIG_SHAPES];

/* A row costs as much as all else in a step, or, with @rows_are_free, nothing; unless @is_measured
 * the executor does not know that yet. */
void           draft_rig_set_costs (Rig                   *rig,
                                    gboolean               rows_are_free,
                                    gboolean               is_measured);
/* The same for a model that is loaded. The clock is at rest, so that nothing is learned of the time
 * that steps take. */
void           draft_rig_init      (Rig                   *rig,
                                    gboolean               rows_are_free,
                                    gboolean               is_measured);
void           draft_rig_clear     (Rig                   *rig);
LlmDraftModel *draft_rig_open      (Rig                   *rig,
                                    const char            *path,
                                    guint                  n_threads);
/* @source: (transfer full) (nullable): NULL for plain decoding, as for @shape. */
void           draft_rig_submit    (Rig                   *rig,
                                    guint                  prompt,
                                    guint                  sampler,
                                    LlmDraftSource        *source,
                                    const LlmGrowthConfig *shape,
                                    guint64                session,
                                    Outcome               *outcome);
/* As long as there are requests: whenever ten tokens have come and a tree is being verified, all of
 * them are preempted in the middle of their steps, and chunks that are not in use are lost.
 * @n_disturbed: counts, until the requests have ended. */
void           draft_rig_disturb   (Rig                   *rig,
                                    guint                 *n_disturbed);
/* Tokens, text and end. */
void           outcome_assert_same (const Outcome         *found,
                                    const Outcome         *expected);

G_END_DECLS
