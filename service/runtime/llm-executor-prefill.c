/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-engine"

#include "runtime/llm-executor-prefill.h"

#include "backends/llm-w8-trial.h"
#include "runtime/llm-executor-private.h"
#include "weights/llm-levels.h"

/* New tokens of a prompt that is worth another arithmetic. */
#define LEAST_TOKENS 64
/* What is read at a time: a request never waits for more. */
#define AHEAD_BYTES ((guint64) 16 << 20)

static const LlmCalibration *
get_calibration (const LlmWeights *weights)
{
  return weights->levels != NULL ? weights->levels->companion->calibration : NULL;
}

void
llm_runner_init_prefill (LlmRunner        *self,
                         const LlmWeights *weights,
                         const LlmHparams *hparams)
{
  const LlmCalibration *calibration = get_calibration (weights);

  self->prefill.ahead = G_MAXUINT64;
  if (calibration != NULL)
    self->prefill.backend =
      llm_backend_w8_new (self->executor->instance_config.kernels,
                          &(LlmW8Config) { .hparams = hparams, .sites = calibration->sites });
}

void
llm_runner_clear_prefill (LlmRunner *self,
                          gboolean   keeps_cache)
{
  g_clear_pointer (&self->prefill.backend, llm_backend_free);
  llm_w8_weights_end (g_steal_pointer (&self->prefill.weights), keeps_cache);
}

gboolean
llm_runner_has_w8 (const LlmRunner *self)
{
  return self->prefill.weights != NULL && !self->prefill.backend->is_lost;
}

/* --- which arithmetic --- */

static guint
count_new (const LlmRequest *request)
{
  guint n_settled = request->model.levels != NULL ? request->model.levels->len : 0;

  return request->prompt->len - MIN (n_settled, request->prompt->len);
}

/* Why the prompt is computed exactly, as results tell it; NULL where it is not. */
static const char *
find_exact_reason (const LlmRequest *request)
{
  const LlmRunner *runner = request->runner;
  const LlmCalibration *calibration = get_calibration (runner->instance->weights);

  if (request->model.goes_on)
    return "continued";
  if (request->model.prefill == LLM_PREFILL_EXACT)
    return "asked-for";
  if (calibration == NULL)
    return "not-calibrated";
  if (!llm_runner_has_w8 (runner))
    return "not-prepared";
  if (request->model.prefill == LLM_PREFILL_W8)
    return NULL;
  if (count_new (request) < LEAST_TOKENS)
    return "short";
  if (!llm_calibration_is_near (calibration))
    return "loss";
  if (runner->prefill.speedup < 1)
    return "slower";
  return llm_w8_weights_are_held (runner->prefill.weights) ? NULL : "memory";
}

void
llm_request_choose_prefill (LlmRequest *request)
{
  request->result.exact_reason = find_exact_reason (request);
  request->result.is_w8 = request->result.exact_reason == NULL;
  /* those that were released are counted again while they are used */
  if (request->result.is_w8)
    llm_w8_weights_take (request->runner->prefill.weights);
}

/* --- the weights --- */

/* Of the first layer; floats are slower in any case. */
static double
try_speed (LlmRunner *self)
{
  const LlmInstance *instance = self->instance;
  const LlmCalibration *calibration = get_calibration (instance->weights);
  const LlmActivation none = { 0 };
  LlmWeightView views[LLM_N_OPS] = { 0 };
  double share = calibration->loss.shadow_share, speedup;

  /* reads would go on behind it */
  if (llm_weights_are_streaming (instance->weights))
    return 1;
  for (LlmOperator op = 0; op < LLM_N_OPS; op++)
    {
      LlkW8Matrix matrix;

      if (llm_w8_kind_of (op) == LLM_W8_N_KINDS
          || !llm_w8_weights_find (self->prefill.weights, op, 0, 0, &matrix)
          || llm_weights_acquire (instance->weights, op, 0, 0, &none, &views[op], NULL) != LLM_READY)
        continue;
      /* what is hot is no shadow */
      share = MIN (share, MAX (calibration->loss.shadow_share
                                 - (double) matrix.n_hot / (double) matrix.n_in, 0));
    }
  speedup = llm_w8_trial (self->prefill.backend, instance->config.kernels, instance->config.pool, 0,
                          views, calibration->sites, share);
  for (LlmOperator op = 0; op < LLM_N_OPS; op++)
    if (views[op].in_count > 0)
      llm_weights_release (instance->weights, &views[op]);
  return speedup;
}

typedef struct
{
  LlmCommand base;
  guint instance;
  LlmW8Weights *weights;    /* (nullable) (owned) */
} NewWeights;

static void
clear_weights (LlmCommand *base)
{
  g_clear_pointer (&((NewWeights *) base)->weights, llm_w8_weights_free);
}

static void
set_weights (LlmCommand *base)
{
  NewWeights *command = (NewWeights *) base;
  LlmRunner *runner = llm_executor_find_runner (base->executor, command->instance);

  if (runner == NULL || runner->prefill.backend == NULL || runner->prefill.weights != NULL)
    return;
  runner->prefill.weights = g_steal_pointer (&command->weights);
  llm_backend_w8_set_weights (runner->prefill.backend, runner->prefill.weights);
  runner->prefill.speedup = try_speed (runner);
  llm_backend_w8_set_speedup (runner->prefill.backend, runner->prefill.speedup);
  g_info ("Prompts can be computed in W8A8: %" G_GUINT64_FORMAT " bytes of weights, products %.2f "
          "times as fast", llm_w8_weights_get_bytes (runner->prefill.weights),
          runner->prefill.speedup);
  llm_executor_publish (base->executor);
}

void
llm_executor_set_w8_weights (LlmExecutor  *self,
                             guint         instance,
                             LlmW8Weights *weights)
{
  NewWeights *command = llm_command_new_of (NewWeights, self, set_weights, clear_weights);

  command->instance = instance;
  command->weights = weights;
  llm_command_send (&command->base);
}

static void
give_w8 (LlmCommand *base)
{
  guint64 freed = 0;

  LLM_EACH (LlmRunner, runner, base->executor->runners)
    {
      if (llm_runner_get_w8_bytes (runner) == 0)
        continue;
      freed += llm_w8_weights_drop (runner->prefill.weights);
      llm_backend_w8_trim (runner->prefill.backend);
      llm_backend_count (runner->prefill.backend, base->executor->ledger);
      runner->prefill.ahead = G_MAXUINT64;
    }
  llm_executor_report ((LlmReclaim *) base, freed);
}

void
llm_executor_give_w8 (gpointer       executor,
                      guint64        bytes,
                      gint64         deadline_us,
                      LlmReclaimDone done,
                      gpointer       data)
{
  llm_executor_send_reclaim (executor, give_w8, bytes, deadline_us, done, data);
}

static void
take_w8 (LlmCommand *base)
{
  guint64 room = ((LlmReclaim *) base)->bytes;

  LLM_EACH (LlmRunner, runner, base->executor->runners)
    {
      LlmW8Weights *weights = runner->prefill.weights;

      if (!llm_runner_has_w8 (runner) || llm_w8_weights_are_held (weights)
          || llm_w8_weights_get_bytes (weights) > room)
        continue;
      room -= llm_w8_weights_get_bytes (weights);
      llm_w8_weights_take (weights);
      runner->prefill.ahead = 0;
    }
  llm_executor_publish (base->executor);
}

void
llm_executor_take_w8 (LlmExecutor *self,
                      guint64      bytes)
{
  llm_executor_send_reclaim (self, take_w8, bytes, 0, NULL, NULL);
}

gboolean
llm_executor_read_w8_ahead (LlmExecutor *self)
{
  LLM_EACH (LlmRunner, runner, self->runners)
    {
      LlmRunnerPrefill *prefill = &runner->prefill;

      if (prefill->ahead == G_MAXUINT64)
        continue;
      if (llm_w8_weights_read_ahead (prefill->weights, prefill->ahead, AHEAD_BYTES))
        {
          prefill->ahead += AHEAD_BYTES;
          return TRUE;
        }
      prefill->ahead = G_MAXUINT64;
    }
  return FALSE;
}
