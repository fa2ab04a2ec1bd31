/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Memory of the engine: figures, budget, trims. */

#define G_LOG_DOMAIN "llm-engine"

#include "engine/memory/llm-engine-memory.h"
#include "engine/models/llm-engine-models.h"

#include <string.h>

#include "base/llm-clock.h"
#include "base/llm-fail.h"
#include "common/llmsvc-error-private.h"
#include "engine/contexts/llm-engine-contexts.h"

void
llm_engine_get_memory (LlmEngine        *self,
                       LlmMemoryFigures *figures)
{
  guint64 held[LLM_N_HOLDERS];

  *figures = (LlmMemoryFigures) {
    .pressure =
      llm_pressure_to_string (llm_governor_get_state (self->memory.governor)->action.level),
    .budget = self->memory.budget,
    .kv_swapped = llm_engine_get_figures (self).storage_bytes,
    .sub_model = llm_engine_get_figures (self).sub_model,
  };
  /* each is read once, so that they add up */
  for (guint i = 0; i < LLM_N_HOLDERS; i++)
    {
      held[i] = llm_ledger_get (self->ledger, i);
      figures->resident += held[i];
    }
  figures->weights = held[LLM_HOLDER_WEIGHTS];
  figures->kv_resident = held[LLM_HOLDER_KV];
  figures->kv_compressed = held[LLM_HOLDER_KV_COMPRESSED];
  for (guint i = 0; i < LLM_N_RECLAIM_COSTS; i++)
    figures->reclaimable[i] = llm_ledger_get_reclaimable (self->ledger, i);
}

/* --- trims --- */

/* The caller of a critical trim waits for it: after this time holders drop what is not written. */
#define CRITICAL_PATIENCE_US 80000

static void
on_trimmed_again (const LlmReclaimResult *result,
                  gpointer                data)
{
  g_autoptr(LlmEngine) self = data;

  self->memory.is_trimming_again = FALSE;
  self->counters.trimmed_bytes += result->freed;
}

static void
trim_again (LlmEngine  *self,
            LlmPressure level,
            guint64     target)
{
  if (self->memory.is_trimming_again)
    return;
  self->memory.is_trimming_again = TRUE;
  llm_governor_reclaim (self->memory.governor, &(LlmReclaimRequest) { .level = level,
                        .target = target },
                        on_trimmed_again, g_object_ref (self));
}

/* While a caller holds a trim, what grew during a request is reclaimed again after it. */
void
llm_engine_memory_request_ended (LlmEngine *self)
{
  LlmPressure level = LLM_PRESSURE_NONE;
  GHashTableIter iter;
  gpointer held;

  g_hash_table_iter_init (&iter, self->memory.holds);
  while (g_hash_table_iter_next (&iter, NULL, &held))
    level = MAX (level, (LlmPressure) GPOINTER_TO_UINT (held));
  if (level != LLM_PRESSURE_NONE && self->calls.n_requests_running == 0)
    trim_again (self, level, 0);
}

static void
on_trimmed (const LlmReclaimResult *result,
            gpointer                data)
{
  g_autoptr(GTask) task = data;
  LlmEngine *self = g_task_get_source_object (task);
  GVariantDict dict;

  self->counters.trims++;
  self->counters.trimmed_bytes += result->freed;
  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "freed", "t", result->freed);
  g_variant_dict_insert (&dict, "duration-ms", "d", result->duration_ms);
  g_variant_dict_insert (&dict, "steps", "^as", result->steps);
  g_task_return_pointer (task, g_variant_ref_sink (g_variant_dict_end (&dict)),
                         (GDestroyNotify) g_variant_unref);
}

void
llm_engine_trim_async (LlmEngine          *self,
                       LlmCaller          *caller,
                       LlmPressure         level,
                       LlmCallOptions     *options,
                       GAsyncReadyCallback callback,
                       gpointer            data)
{
  guint64 deadline_ms = llm_call_options_get_uint (options, LLMSVC_OPTION_DEADLINE_MS, 0);
  LlmReclaimRequest request = {
    .level = level,
    .target = llm_call_options_get_uint (options, LLMSVC_OPTION_TARGET_BYTES, 0),
    .deadline_us = deadline_ms > 0 ? llm_clock_now_us () + (gint64) deadline_ms * 1000 : 0,
    .patience_us = level == LLM_PRESSURE_CRITICAL ? CRITICAL_PATIENCE_US : 0,
  };

  if (llm_call_options_get_boolean (options, LLMSVC_OPTION_HOLD, FALSE))
    g_hash_table_insert (self->memory.holds, g_strdup (caller->connection),
                         GUINT_TO_POINTER (level));
  llm_governor_reclaim (self->memory.governor, &request, on_trimmed,
                        g_task_new (self, NULL, callback, data));
}

/* --- the budget --- */

static void look_at_memory (gpointer data);

static void
apply_budget (LlmEngine *self,
              guint64    bytes)
{
  self->memory.budget = bytes;
  llm_governor_set_allowed (self->memory.governor, bytes);
}

static void
on_trimmed_to_budget (const LlmReclaimResult *result,
                      gpointer                data)
{
  g_autoptr(GTask) task = data;
  LlmEngine *self = g_task_get_source_object (task);

  self->counters.trimmed_bytes += result->freed;
  g_task_return_boolean (task, TRUE);
}

/* Sets the KV bytes of contexts: for the loaded model, or for one that is loaded later. */
static gboolean
set_ratio (LlmEngine  *self,
           guint       percent,
           GError    **error)
{
  if (self->settings->is_exact || self->settings->context_ratio == 0)
    return llm_fail (error, LLMSVC_ERROR_UNSUPPORTED,
                     "context-ratio: contexts are kept as they were computed; set “ratio” of "
                     "[contexts] in the configuration, and start the service again");
  if (self->use.model != NULL
      && !llm_engine_check_ratio (percent, llm_model_get_hparams (self->use.model),
                                  self->settings->chunk_tokens, error))
    return FALSE;

  self->memory.context_ratio = percent;
  llm_executor_set_kv_ratio (self->executor, percent / 100.0);
  return TRUE;
}

void
llm_engine_set_budget_async (LlmEngine          *self,
                             LlmCallOptions     *options,
                             GAsyncReadyCallback callback,
                             gpointer            data)
{
  g_autoptr(GTask) task = g_task_new (self, NULL, callback, data);
  LlmReclaimRequest request = { .level = LLM_PRESSURE_CRITICAL };
  GError *error = NULL;

  if (llm_call_options_has (options, LLMSVC_OPTION_APP_ID))
    {
      g_task_return_new_error (task, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED,
                               "app-id: this service shares its memory evenly; "
                               "set the budget of all");
      return;
    }
  if (llm_call_options_has (options, LLMSVC_OPTION_CONTEXT_RATIO)
      && !set_ratio (self, (guint) llm_call_options_get_uint (options, LLMSVC_OPTION_CONTEXT_RATIO,
                                                              0), &error))
    {
      g_task_return_error (task, error);
      return;
    }
  if (llm_call_options_has (options, LLMSVC_OPTION_BYTES))
    {
      apply_budget (self, llm_call_options_get_uint (options, LLMSVC_OPTION_BYTES, 0));
      look_at_memory (self);
    }
  request.target = llm_governor_get_excess (self->memory.governor, self->calls.n_requests_running > 0);
  if (request.target > 0)
    llm_governor_reclaim (self->memory.governor, &request, on_trimmed_to_budget,
                          g_steal_pointer (&task));
  else
    g_task_return_boolean (task, TRUE);
}

/* --- once a second --- */

/* Whether the difference is large enough to report: byte figures change with every call. */
static gboolean
has_changed (const LlmMemoryFigures *a,
             const LlmMemoryFigures *b)
{
  return a->pressure != b->pressure || a->budget != b->budget || a->resident != b->resident ||
         a->weights != b->weights || a->sub_model != b->sub_model ||
         a->kv_resident != b->kv_resident ||
         memcmp (a->reclaimable, b->reclaimable, sizeof a->reclaimable) != 0;
}

static void
unload_when_idle (LlmEngine *self)
{
  gint64 idle_us = llm_clock_now_us () - self->use.idle_since_us;

  if (self->settings->idle_unload_s > 0 && self->use.model != NULL
      && self->calls.n_requests_running == 0 &&
      idle_us >= (gint64) self->settings->idle_unload_s * G_USEC_PER_SEC)
    trim_again (self, LLM_PRESSURE_CRITICAL, 0);
}

/* --- when the governor wakes --- */

/* How often wide copies of chunks may be requested: storage may not have them, and each try wakes
 * the thread. */
#define WIDEN_INTERVAL_US (10 * G_USEC_PER_SEC)

static void
widen_kv (LlmEngine *self)
{
  gint64 now = llm_clock_now_us ();

  if (!llm_governor_get_state (self->memory.governor)->action.may_grow)
    self->memory.widened_us = 0;
  else if (self->calls.n_requests_running == 0 && llm_engine_get_figures (self).n_narrow > 0
           && (self->memory.widened_us == 0 || now - self->memory.widened_us >= WIDEN_INTERVAL_US))
    {
      self->memory.widened_us = now;
      llm_executor_widen_kv (self->executor);
    }
}

static void
look_at_memory (gpointer data)
{
  LlmEngine *self = data;
  const LlmGovernorState *state = llm_governor_get_state (self->memory.governor);
  LlmMemoryFigures figures;

  llm_governor_look (self->memory.governor, self->calls.n_requests_running > 0,
                     g_hash_table_size (self->memory.holds) > 0);
  llm_executor_set_pressed (self->executor,
                            self->settings->reacts_to_pressure
                                && state->action.level >= LLM_PRESSURE_MEDIUM);
  llm_executor_keep_weights (self->executor, state->action.keep_backed);
  if (self->settings->reacts_to_pressure)
    llm_engine_set_lowered (self, state->action.lowered);
  llm_executor_look_at_weights (self->executor);
  widen_kv (self);
  unload_when_idle (self);
  llm_engine_get_memory (self, &figures);
  if (has_changed (&figures, &self->memory.told))
    {
      self->memory.told = figures;
      g_signal_emit_by_name (self, "memory-changed");
    }
}

/* Of equal cost, those that were registered first go first. */
static void
add_reclaimers (LlmEngine *self)
{
  llm_engine_add_prefill_reclaimer (self);
  llm_executor_add_idle_reclaimers (self->executor);
  llm_engine_add_text_reclaimer (self);
  llm_constraint_cache_add_reclaimer (self->use.constraints);
  llm_engine_add_draft_reclaimer (self);
  llm_executor_add_busy_reclaimers (self->executor);
  llm_engine_add_weight_reclaimers (self);
}

void
llm_engine_memory_make (LlmEngine *self)
{
  LlmGovernorConfig config = {
    .root = self->settings->root,
    .reacts = self->settings->reacts_to_pressure,
    .reserve = self->settings->reserve,
  };

  add_reclaimers (self);
  self->memory.governor = llm_governor_new (self->ledger, &config, look_at_memory, self);
  apply_budget (self, self->settings->budget);
  llm_engine_get_memory (self, &self->memory.told);
}
