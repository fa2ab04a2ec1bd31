/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Prompts in W8A8: which calls want it, and the weights for it, which are prepared beside those of the
 * model and are the first memory that goes.
 */

#define G_LOG_DOMAIN "llm-engine"

#include "base/llm-clock.h"
#include "base/llm-fail.h"
#include "common/llmsvc-error.h"
#include "engine/models/llm-engine-models.h"
#include "memory/llm-memory-policy.h"

/* After a failure, of the disk most likely. */
#define RETRY_US (600 * G_USEC_PER_SEC)

/* --- what a call wants --- */

/* @name: (nullable). */
static LlmPrefill
find_way (const char *name)
{
  for (guint i = 0; name != NULL && llm_prefill_names[i] != NULL; i++)
    if (g_str_equal (llm_prefill_names[i], name))
      return (LlmPrefill) i;
  return LLM_PREFILL_AUTO;
}

/* Of the model in use. */
static LlmPrefill
get_configured (const LlmEngine *self)
{
  return find_way (llm_settings_find_for (self->settings->prefill, self->use.active->id));
}

static const LlmCalibration *
get_calibration (const LlmEngine *self)
{
  return self->use.companion != NULL ? self->use.companion->calibration : NULL;
}

gboolean
llm_engine_choose_prefill (LlmEngine       *self,
                           LlmRequest      *request,
                           LlmCallOptions  *options,
                           GError         **error)
{
  const char *name = llm_call_options_get_string (options, LLMSVC_OPTION_PREFILL, NULL);

  if (self->settings->script != NULL || self->use.active == NULL)
    return TRUE;
  request->model.prefill = name != NULL ? find_way (name) : get_configured (self);
  if (request->model.prefill != LLM_PREFILL_W8)
    return TRUE;
  if (name != NULL && self->use.companion == NULL && self->use.levels_error != NULL)
    return llm_fail (error, LLMSVC_ERROR_UNSUPPORTED,
                     "prefill: the companion of the model “%s” can't be used: %s; leave the option out",
                     self->use.active->id, self->use.levels_error->message);
  if (name != NULL && get_calibration (self) == NULL)
    return llm_fail (error, LLMSVC_ERROR_UNSUPPORTED,
                     "prefill: the model “%s” is not calibrated for prompts with 8 bits; run “llmsvc-tool "
                     "calibrate -m %s”, or leave the option out", self->use.active->id,
                     self->use.active->path);
  llm_engine_prepare_prefill (self);
  return TRUE;
}

static const char *
find_exact_reason (LlmEngine            *self,
                   const LlmCalibration *calibration,
                   double                speedup)
{
  LlmPrefill way = get_configured (self);

  if (way == LLM_PREFILL_EXACT)
    return "asked-for";
  if (calibration == NULL)
    return "not-calibrated";
  if (speedup == 0)
    return "not-prepared";
  if (way == LLM_PREFILL_W8)
    return "";
  if (!llm_calibration_is_near (calibration))
    return "loss";
  return speedup < 1 ? "slower" : "";
}

LlmPrefillState
llm_engine_explain_prefill (LlmEngine          *self,
                            const LlmModelInfo *info)
{
  const LlmCalibration *calibration = get_calibration (self);
  LlmPrefillState state = { "", "", 0, 0, 0 };

  if (info != self->use.active || self->use.model == NULL)
    return state;
  if (calibration != NULL)
    {
      state.growth = llm_calibration_get_growth (calibration);
      state.divergence = calibration->loss.divergence;
    }
  state.speedup = llm_engine_get_figures (self).w8_speedup;
  state.reason = find_exact_reason (self, calibration, state.speedup);
  state.way = *state.reason == '\0' ? "w8a8" : "exact";
  return state;
}

/* --- the weights --- */

/* Beside the work of calls, all weights and a reserve, in what the service may hold, the machine has
 * and its group has. */
static gboolean
has_room (const LlmEngine *self,
          guint64          bytes)
{
  const LlmGovernorState *state = llm_governor_get_state (self->memory.governor);
  const LlmMemoryReading *reading = &state->reading;
  const LlmModelInfo *info = self->use.active;
  guint64 weights = bytes + llm_ledger_get_used_backed (self->ledger);
  guint64 anonymous = MAX (llm_ledger_get_anonymous (self->ledger), info->footprint.work);
  guint64 reserve = llm_memory_policy_get_reserve (reading->total, TRUE, reading->swap_free > 0);
  guint64 group_reserve = llm_memory_policy_get_reserve (reading->group.limit, FALSE, FALSE);

  if (state->allowed > 0 && weights + anonymous > state->allowed)
    return FALSE;
  if (reading->group.limit > 0
      && weights + 2 * group_reserve > llm_group_usage_get_room (&reading->group))
    return FALSE;
  return weights + 2 * reserve <= reading->available;
}

/* Prepares them on a thread, which reads nothing of the engine but the settings and the ledger. */
typedef struct
{
  LlmModel *model;         /* (owned) */
  LlmCompanion *companion; /* (owned) */
  LlmW8Weights *weights;   /* (nullable) (owned) */
} Preparation;

static void
preparation_free (Preparation *preparation)
{
  llm_model_unref (preparation->model);
  llm_companion_unref (preparation->companion);
  g_clear_pointer (&preparation->weights, llm_w8_weights_free);
  g_free (preparation);
}

static const LlmSubModels *
get_table (const LlmCompanion *companion)
{
  return companion->has_sub_models ? companion->sub_models : NULL;
}

static void
prepare (GTask        *task,
         gpointer      source,
         gpointer      data,
         GCancellable *cancellable)
{
  const LlmEngine *self = source;
  const LlmSettings *settings = self->settings;
  Preparation *preparation = data;
  g_autoptr(LlmRepackedCache) cache = llm_engine_open_cache (settings);
  GError *error = NULL;

  /* one thread: calls go on meanwhile */
  preparation->weights =
    llm_w8_weights_new (llm_model_get_gguf (preparation->model),
                        llm_model_get_hparams (preparation->model),
                        get_table (preparation->companion), preparation->companion->calibration,
                        cache, 1, self->ledger, &error);
  if (preparation->weights != NULL)
    g_task_return_boolean (task, TRUE);
  else
    g_task_return_error (task, error);
}

void
llm_engine_wake_prefill (LlmEngine *self)
{
  llm_engine_end_waiting (&self->prefill.waiting, NULL, NULL);
}

static void
on_prepared (GObject      *source,
             GAsyncResult *result,
             gpointer      data)
{
  LlmEngine *self = (LlmEngine *) source;
  Preparation *preparation = g_task_get_task_data (G_TASK (result));
  g_autoptr(GError) error = NULL;

  self->prefill.is_preparing = FALSE;
  if (!g_task_propagate_boolean (G_TASK (result), &error))
    {
      g_message ("Prompts are computed exactly: %s", error->message);
      llm_engine_forget_prefill (self);
      self->prefill.retry_us = llm_clock_now_us () + RETRY_US;
    }
  else if (preparation->model == self->use.model)
    llm_executor_set_w8_weights (self->executor, 0, g_steal_pointer (&preparation->weights));
  llm_engine_wake_prefill (self);
}

/* (out) of the prepared file; FALSE where prompts can't be computed so, or are not wanted so. */
static gboolean
find_bytes (LlmEngine *self,
            guint64   *bytes)
{
  const LlmCalibration *calibration = get_calibration (self);

  if (calibration == NULL || self->use.model == NULL || self->settings->is_exact
      || self->settings->cache_folder == NULL || self->prefill.is_preparing
      || get_configured (self) == LLM_PREFILL_EXACT)
    return FALSE;
  *bytes = llm_w8_weights_measure (llm_model_get_gguf (self->use.model),
                                   llm_model_get_hparams (self->use.model),
                                   get_table (self->use.companion), calibration, NULL);
  return *bytes > 0;
}

void
llm_engine_prepare_prefill (LlmEngine *self)
{
  g_autoptr(GTask) task = NULL;
  Preparation *preparation;
  guint64 bytes;

  if (self->prefill.model == self->use.model || llm_clock_now_us () < self->prefill.retry_us
      || !find_bytes (self, &bytes) || !has_room (self, bytes))
    return;
  preparation = g_new0 (Preparation, 1);
  preparation->model = llm_model_ref (self->use.model);
  preparation->companion = llm_companion_ref (self->use.companion);
  self->prefill.model = llm_model_ref (self->use.model);
  self->prefill.is_preparing = TRUE;
  task = g_task_new (self, NULL, on_prepared, NULL);
  g_task_set_task_data (task, preparation, (GDestroyNotify) preparation_free);
  g_task_run_in_thread (task, prepare);
}

gboolean
llm_engine_delays_prefill (LlmEngine            *self,
                           const LlmCallOptions *options)
{
  const char *name = llm_call_options_get_string (options, LLMSVC_OPTION_PREFILL, "");

  if (!g_str_equal (name, llm_prefill_names[LLM_PREFILL_W8]))
    return FALSE;
  llm_engine_prepare_prefill (self);
  return self->prefill.is_preparing && self->prefill.model == self->use.model;
}

void
llm_engine_await_prefill (LlmEngine          *self,
                          GAsyncReadyCallback callback,
                          gpointer            data)
{
  g_queue_push_tail (&self->prefill.waiting, g_task_new (self, NULL, callback, data));
}

void
llm_engine_take_prefill (LlmEngine    *self,
                         LlmW8Weights *weights)
{
  guint64 bytes;

  llm_engine_forget_prefill (self);
  self->prefill.retry_us = 0;
  if (weights == NULL)
    {
      llm_engine_prepare_prefill (self);
      return;
    }
  self->prefill.model = llm_model_ref (self->use.model);
  llm_executor_set_w8_weights (self->executor, 0, weights);
  if (find_bytes (self, &bytes) && has_room (self, bytes))
    llm_executor_take_w8 (self->executor, bytes);
}

void
llm_engine_forget_prefill (LlmEngine *self)
{
  g_clear_pointer (&self->prefill.model, llm_model_unref);
}

/* --- as memory --- */

static guint64
get_bytes (gpointer holder)
{
  return llm_engine_get_figures (holder).w8_bytes;
}

static void
give (gpointer       holder,
      guint64        bytes,
      gint64         deadline_us,
      LlmReclaimDone done,
      gpointer       data)
{
  LlmEngine *self = holder;

  llm_executor_give_w8 (self->executor, bytes, deadline_us, done, data);
}

/* Memory is there again: what was released is read, what was never prepared is. */
static void
take (gpointer holder,
      guint64  bytes)
{
  LlmEngine *self = holder;

  llm_engine_prepare_prefill (self);
  if (self->prefill.model != NULL && !self->prefill.is_preparing
      && llm_engine_get_figures (self).w8_bytes == 0)
    llm_executor_take_w8 (self->executor, bytes);
}

void
llm_engine_add_prefill_reclaimer (LlmEngine *self)
{
  const LlmReclaimer reclaimer = {
    "prompt-weights", LLM_RECLAIM_FREE, get_bytes, give, take, .holder = self,
  };

  llm_ledger_add_reclaimer (self->ledger, &reclaimer);
}
