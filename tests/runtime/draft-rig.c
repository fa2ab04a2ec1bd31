/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "draft-rig.h"

#include "policies/bench-growths.h"
#include "runtime/llm-executor-private.h"
#include "runtime/llm-executor-residency.h"
#include "runtime/llm-executor-steps.h"

/* What has been said before is there to be found. */
static const char *const prompts[DRAFT_RIG_PROMPTS] = {
  "Red, green, blue. Red, green, blue. Red, green, blue. Red, green,",
  "List: {\"name\": \"Anna\", \"age\": 31}, {\"name\": \"Ben\", \"age\": 32}, {\"name\":",
  "I want a restaurant in San Jose. I want a restaurant in San Diego. I want a",
  "Find me a comedy movie.",
};

static const struct
{
  double temperature;
  float penalty;
  guint64 seed;
} samplers[DRAFT_RIG_SAMPLERS] = {
  { 0, 1, 0 }, { 0, 1.2f, 0 }, { 0.8, 1, 3 }, { 0.8, 1.1f, 4 }, { 1.2, 1, 5 },
};

const LlmGrowthConfig draft_rig_shapes[DRAFT_RIG_SHAPES] = {
  LLM_GROWTH_CONFIG_BEST,
  BENCH_GROWTH_PAPER,
  BENCH_GROWTH_CHAIN (5),
  BENCH_GROWTH_FIXED (4, 2, 2, 1, 1, 1),
};

typedef struct
{
  LlmCommand base;
  gboolean rows_are_free;
  int n_seen;
} Costs;

static void
set_costs (LlmCommand *base)
{
  const Costs *costs = (const Costs *) base;
  LlmRunner *runner = g_ptr_array_index (base->executor->runners, 0);
  LlmCostCurve *curve = &runner->scheduler->costs.curves[LLM_COST_DECODE];

  for (guint i = 0; i < LLM_COST_POINTS; i++)
    {
      curve->us[i] = 100000 * (costs->rows_are_free ? 1 : llm_cost_rows[LLM_COST_DECODE][i]);
      curve->n_seen[i] = costs->n_seen;
    }
  curve->depth_us = 0.01;
  curve->n_steps = 1000;
}

void
draft_rig_set_costs (Rig     *rig,
                     gboolean rows_are_free,
                     gboolean is_measured)
{
  Costs *costs = llm_command_new_of (Costs, rig->executor, set_costs, NULL);

  costs->rows_are_free = rows_are_free;
  costs->n_seen = is_measured;
  llm_command_send (&costs->base);
}

void
draft_rig_init (Rig     *rig,
                gboolean rows_are_free,
                gboolean is_measured)
{
  llm_clock_set_for_test (g_get_monotonic_time ());
  rig_init (rig, 0);
  rig_load (rig, 0);
  draft_rig_set_costs (rig, rows_are_free, is_measured);
}

void
draft_rig_clear (Rig *rig)
{
  rig_clear (rig);
  llm_clock_set_for_test (-1);
}

LlmDraftModel *
draft_rig_open (Rig        *rig,
                const char *path,
                guint       n_threads)
{
  g_autoptr(GError) error = NULL;
  LlmModel *model = llm_model_open (path, &error);
  LlmWeights *weights;
  LlmDraftModel *draft;

  g_assert_no_error (error);
  weights = llm_weights_new_repacked (llm_model_get_gguf (model), llm_model_get_hparams (model),
                                      NULL, NULL, n_threads, rig->ledger, &error);
  g_assert_no_error (error);
  draft = llm_draft_model_new (model, weights, llk_ops_best (), n_threads, rig->ledger);
  llm_model_unref (model);
  return draft;
}

void
draft_rig_submit (Rig                   *rig,
                  guint                  prompt,
                  guint                  sampler,
                  LlmDraftSource        *source,
                  const LlmGrowthConfig *shape,
                  guint64                session,
                  Outcome               *outcome)
{
  LlmDecoder *decoder;

  rig->penalty = samplers[sampler].penalty;
  decoder = rig_new_plain (rig, 0, samplers[sampler].temperature, samplers[sampler].seed + prompt);
  if (source != NULL)
    decoder = llm_decoder_new_drafting (decoder, source, shape, NULL);
  rig_submit (rig, 0, decoder, prompts[prompt], DRAFT_RIG_TOKENS, session, outcome);
}

void
outcome_assert_same (const Outcome *found,
                     const Outcome *expected)
{
  g_assert_cmpint (found->finish, ==, expected->finish);
  g_assert_cmpstr (found->text, ==, expected->text);
  g_assert_cmpmem (found->tokens->data, found->tokens->len * sizeof (gint32),
                   expected->tokens->data, expected->tokens->len * sizeof (gint32));
}

typedef struct
{
  LlmCommand base;
  guint64 at;               /* tokens generated, for the next time */
  guint *n_disturbed;       /* (unowned) */
} Disturbance;

/* In the executor's thread, whenever some tokens have come since and a tree is being verified: all
 * requests are preempted in the middle of their steps, and chunks that are not in use are lost. */
static void
disturb (LlmCommand *base)
{
  Disturbance *self = (Disturbance *) base;
  LlmExecutor *executor = base->executor;
  LlmRunner *runner = g_ptr_array_index (executor->runners, 0);
  LlmQueueStep *step = &runner->steps[LLM_QUEUE_DECODE];
  gboolean verifies = FALSE;

  LLM_EACH (LlmRequest, request, executor->requests)
    verifies = verifies || (step->is_active && request->rows.n > 1
                            && llm_request_is_in_step (request, step));
  if (verifies && executor->news.board.figures.n_generated >= self->at)
    {
      self->at = executor->news.board.figures.n_generated + 10;
      ++*self->n_disturbed;
      for (guint i = executor->requests->len; i-- > 0;)
        {
          LlmRequest *request = g_ptr_array_index (executor->requests, i);

          if (request->room.is_resident)
            llm_request_preempt (request);
          request->room.resume_us = 0;
        }
      llm_executor_evict (executor, 20000);
    }
  if (executor->requests->len > 0)
    llm_command_send (llm_command_ref (base));
}

void
draft_rig_disturb (Rig   *rig,
                   guint *n_disturbed)
{
  Disturbance *disturbance = llm_command_new_of (Disturbance, rig->executor, disturb, NULL);

  disturbance->n_disturbed = n_disturbed;
  llm_command_send (&disturbance->base);
}
