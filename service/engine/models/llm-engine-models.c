/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which model is in use, and when it is loaded. */

#define G_LOG_DOMAIN "llm-engine"

#include "base/llm-fail.h"
#include "engine/calls/llm-call.h"

#include "base/llm-clock.h"
#include "common/llmsvc-error-private.h"
#include "engine/contexts/llm-engine-contexts.h"
#include "engine/models/llm-crash-mark.h"
#include "engine/models/llm-engine-models.h"
#include "forward/llm-forward.h"
#include "weights/llm-levels.h"
#include "weights/llm-repacked-cache.h"

/* After a crash while all of a model was in memory, so many times its bytes must be free to do so
 * again. */
#define CRASHED_MARGIN 3

/* The order of choice: the configured file, broken or not, as the administrator asked for it; the
 * model that SelectModel chose; the one in use, which a new file does not displace; the first
 * usable one that is not only a draft. A broken one only when no other is left, so that its error
 * is reported. */
static LlmModelInfo *
choose_model (LlmEngine *self,
              GPtrArray *all)
{
  LlmModelInfo *chosen = self->use.chosen != NULL ? llm_catalogue_find (all, self->use.chosen)
    : NULL;
  LlmModelInfo *active = self->use.active != NULL ? llm_catalogue_find (all, self->use.active->id)
    : NULL;
  LlmModelInfo *good = NULL;

  if (all->len == 0)
    return NULL;
  if (self->settings->model_file != NULL)
    return g_ptr_array_index (all, 0);
  if (chosen != NULL && chosen->error == NULL)
    return chosen;
  if (active != NULL && active->error == NULL)
    return active;
  for (guint i = 0; i < all->len; i++)
    {
      LlmModelInfo *info = g_ptr_array_index (all, i);

      if (info->error == NULL && !llm_engine_is_draft (self, info->id))
        return info;
      if (info->error == NULL && good == NULL)
        good = info;
    }
  return good != NULL ? good : g_ptr_array_index (all, 0);
}

/* The loaded model is listed as it was when it was loaded, whatever has happened to its file. */
static void
list_models (LlmEngine *self,
             gboolean   is_loaded)
{
  gboolean is_listed = !is_loaded || self->use.active == NULL;

  g_ptr_array_set_size (self->catalogue.models, 0);
  for (guint i = 0; i < self->catalogue.found->len; i++)
    {
      LlmModelInfo *info = g_ptr_array_index (self->catalogue.found, i);

      if (!is_listed && g_str_equal (info->id, self->use.active->id))
        {
          info = self->use.active;
          is_listed = TRUE;
        }
      g_ptr_array_add (self->catalogue.models, llm_model_info_ref (info));
    }
  if (!is_listed)
    g_ptr_array_add (self->catalogue.models, llm_model_info_ref (self->use.active));
}

void
llm_engine_models_settle (LlmEngine *self)
{
  gboolean is_loaded = self->use.model != NULL || self->loading.is_loading;
  g_autofree char *was = self->use.active != NULL ? g_strdup (self->use.active->id) : NULL;

  if (!llm_engine_has_started (self))
    return;

  /* A loaded model stays in use, whatever the scan found; a script decides by itself. */
  if (!is_loaded || (self->settings->script != NULL && !self->loading.is_loading))
    {
      LlmModelInfo *chosen = choose_model (self, self->catalogue.found);

      if (chosen != self->use.active)
        g_clear_error (&self->loading.load_error);
      g_clear_pointer (&self->use.active, llm_model_info_unref);
      self->use.active = chosen != NULL ? llm_model_info_ref (chosen) : NULL;
      is_loaded = FALSE;
    }
  list_models (self, is_loaded);
  llm_engine_check_drafts (self);
  g_signal_emit_by_name (self, "models-changed");
  llm_engine_update_availability (self);
  if (g_strcmp0 (was, self->use.active != NULL ? self->use.active->id : NULL) != 0)
    g_signal_emit_by_name (self, "availability-changed");
  llm_engine_end_waiting (&self->start.waiting_start, NULL, NULL);
}

const char *
llm_engine_get_availability (LlmEngine *self)
{
  return self->use.availability;
}

const GError *
llm_engine_get_availability_reason (LlmEngine *self)
{
  return self->use.reason;
}

LlmModelInfo *
llm_engine_get_active_model (LlmEngine *self)
{
  return self->use.active;
}

GPtrArray *
llm_engine_get_models (LlmEngine *self)
{
  return self->catalogue.models;
}

/* --- loading --- */

/* The thread that loads reads the settings, which do not change, and counts in the ledger. */
typedef struct
{
  LlmModelInfo *info;      /* (owned) */
  guint ratio;             /* of contexts, at the time of the load */
  guint margin;            /* how many times its bytes must fit */
  GTask *select;           /* (nullable) (owned): the call of SelectModel to answer */
  LlmModel *model;         /* (nullable) (owned) */
  LlmWeights *weights;     /* (nullable) (owned) */
  LlmW8Weights *w8;        /* (nullable) (owned): for prompts, where they are prepared already */
  GError *levels_error;    /* (nullable) (owned): why its companion can't be used */
} Load;

gboolean
llm_engine_check_ratio (guint              percent,
                        const LlmHparams  *hparams,
                        guint              chunk_tokens,
                        GError           **error)
{
  LlmKvLayer layers[LLM_MAX_LAYERS];
  LlmKvLayout layout = llm_forward_get_layout (hparams, LLK_KV_F16, chunk_tokens, layers);
  guint least = llm_kv_layout_get_least_ratio (&layout);

  return percent == 0 || percent >= least
         || llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                      "Contexts of this model can't be packed to %u percent of their bytes with 8 "
                      "bits: “ratio” of [contexts] is at least %u", percent, least);
}

static void
load_free (Load *load)
{
  llm_model_info_unref (load->info);
  g_clear_object (&load->select);
  g_clear_pointer (&load->model, llm_model_unref);
  g_clear_pointer (&load->w8, llm_w8_weights_free);
  g_clear_pointer (&load->weights, llm_weights_free);
  g_clear_error (&load->levels_error);
  g_free (load);
}

static void
run_load (GTask        *task,
          gpointer      source,
          gpointer      data,
          GCancellable *cancellable)
{
  LlmEngine *self = source;
  const LlmSettings *settings = self->settings;
  Load *load = data;
  g_autoptr(LlmRepackedCache) cache = llm_engine_open_cache (settings);
  GError *error = NULL;

  llm_repacked_cache_set_progress (cache, &self->loading.load);
  llm_repacked_cache_set_margin (cache, load->margin);
  load->model = llm_model_info_open (load->info, &error);
  /* this reads weights: not on the executor's thread */
  if (load->model != NULL
      && llm_engine_check_ratio (load->ratio, llm_model_get_hparams (load->model),
                                 settings->chunk_tokens, &error)
      && llm_model_get_weight_identity (load->model) != NULL)
    {
      LlmGguf *gguf = llm_model_get_gguf (load->model);
      const LlmHparams *hparams = llm_model_get_hparams (load->model);
      g_autoptr(LlmLevels) levels =
        llm_levels_open (load->model, self->ledger, &load->levels_error);
      const LlmSubModels *table = llm_levels_get_table (levels);

      load->weights = settings->is_exact
                        ? llm_weights_new_mapped (gguf, hparams, table, self->ledger, &error)
                        : llm_weights_new_repacked (gguf, hparams, table, cache,
                                                    settings->n_threads, self->ledger, &error);
      if (load->weights != NULL && levels != NULL && levels->companion->calibration != NULL
          && !settings->is_exact)
        load->w8 = llm_w8_weights_find_file (gguf, hparams, table, levels->companion->calibration, cache,
                                             self->ledger);
      if (load->weights != NULL)
        load->weights->levels = g_steal_pointer (&levels);
    }
  if (load->weights != NULL)
    g_task_return_boolean (task, TRUE);
  else
    g_task_return_error (task, error);
}

static void begin_load (LlmEngine    *self,
                        LlmModelInfo *info,
                        GTask        *select);

static void
take_model (LlmEngine *self,
            Load      *load)
{
  g_clear_error (&self->loading.load_error);
  g_clear_pointer (&self->use.model, llm_model_unref);
  self->use.model = g_steal_pointer (&load->model);
  llm_constraint_cache_set_model (self->use.constraints, self->use.model);
  g_free (self->store.identity);
  self->store.identity = g_strdup (llm_model_get_identity (self->use.model));
  llm_engine_take_levels (self, load->weights->levels, g_steal_pointer (&load->levels_error));
  llm_crash_mark_loaded (self->loading.crash_mark,
                         load->weights->backed <= load->weights->bytes / 2);
  llm_governor_set_work (self->memory.governor, load->info->footprint.work);
  llm_executor_set_model (self->executor, 0, self->use.model, g_steal_pointer (&load->weights),
                          NULL,
                          NULL);
  self->counters.model_loads++;
  self->use.idle_since_us = llm_clock_now_us ();
  if (load->select != NULL)
    {
      llm_model_info_unref (self->use.active);
      self->use.active = llm_model_info_ref (load->info);
      g_free (self->use.chosen);
      self->use.chosen = g_strdup (load->info->id);
      llm_engine_models_settle (self);
      llm_call_store (load->select, llm_store_set_model, g_strdup (load->info->id), g_free,
                      llm_call_end);
    }
  llm_engine_take_prefill (self, g_steal_pointer (&load->w8));
  llm_engine_forget_channels (self);
  self->channels.retry_us = 0;
  if (self->drafts.draft_id != NULL)
    llm_engine_drop_draft (self);
  g_clear_error (&self->drafts.draft_error);
  llm_engine_load_draft (self);
}

static void
on_load_done (GObject      *source,
              GAsyncResult *result,
              gpointer      data)
{
  LlmEngine *self = (LlmEngine *) source;
  Load *load = g_task_get_task_data (G_TASK (result));
  GError *error = NULL;

  self->loading.is_loading = FALSE;
  llm_engine_end_load_progress (self);
  if (g_task_propagate_boolean (G_TASK (result), &error))
    {
      take_model (self, load);
    }
  else if (load->select != NULL)
    {
      if (self->use.model == NULL || llm_engine_get_figures (self).is_backed)
        llm_crash_mark_ended (self->loading.crash_mark);
      /* the old model stays: waiting calls get it */
      llm_call_fail (load->select, g_steal_pointer (&error));
    }
  else
    {
      llm_crash_mark_ended (self->loading.crash_mark);
      g_clear_error (&self->loading.load_error);
      self->loading.load_error = error;
      g_message ("The model can't be loaded: %s", error->message);
    }
  llm_engine_update_availability (self);
  if (error != NULL || self->use.model != NULL)
    llm_engine_end_waiting (&self->loading.waiting_model, self->use.model, error);
  else if (!g_queue_is_empty (&self->loading.waiting_model))
    begin_load (self, self->use.active, NULL);
  if (error == NULL && self->use.model != NULL)
    llm_engine_count_all (self);
  if (self->use.model == NULL)
    llm_engine_models_settle (self);
}

/* @select: (nullable): the call of SelectModel to answer */
static void
begin_load (LlmEngine    *self,
            LlmModelInfo *info,
            GTask        *select)
{
  g_autoptr(GTask) task = g_task_new (self, NULL, on_load_done, NULL);
  Load *load = g_new0 (Load, 1);

  load->info = llm_model_info_ref (info);
  load->ratio = self->memory.context_ratio;
  load->margin = llm_crash_mark_begin (self->loading.crash_mark, info->id) ? CRASHED_MARGIN : 1;
  load->select = select != NULL ? g_object_ref (select) : NULL;
  g_task_set_task_data (task, load, (GDestroyNotify) load_free);
  self->loading.is_loading = TRUE;
  llm_engine_begin_load_progress (self);
  llm_engine_update_availability (self);
  g_task_run_in_thread (task, run_load);
}

static gboolean
check_room (LlmEngine    *self,
            LlmModelInfo *info,
            GError      **error)
{
  guint64 budget = llm_ledger_get_budget (self->ledger);
  guint64 limit = llm_governor_get_state (self->memory.governor)->reading.group.limit;
  guint64 wanted =
    info->footprint.work + llm_memory_policy_get_reserve (limit, FALSE, FALSE);

  /* with more, the kernel would kill the service */
  if (limit > 0 && limit < wanted)
    return llm_fail (error, LLMSVC_ERROR_NO_MEMORY,
                     "The model %s needs %ju bytes in the service's control group, whose limit is %ju; "
                     "raise the limit (MemoryMax= of the unit) or choose a smaller model", info->id,
                     wanted, limit);
  if (budget == 0 || info->footprint.least <= budget)
    return TRUE;
  return llm_fail (error, LLMSVC_ERROR_NO_MEMORY,
                   "The model %s needs a budget of %ju bytes, the service may hold %ju; raise the "
                   "budget or choose a smaller model", info->id, info->footprint.least, budget);
}

static void
ignore_freed (guint64  freed,
              gpointer data)
{
}

/* The error of the model in use. */
static void
set_unusable (LlmEngine *self,
              GError   **error)
{
  *error = g_error_copy (self->use.active != NULL ? self->use.active->error : self->use.reason);
  /* "not found" is reserved for names that a caller gives */
  if (self->use.active == NULL || g_error_matches (*error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_FOUND))
    (*error)->code = LLMSVC_ERROR_NO_MODEL;
}

static void
on_looked (GObject      *source,
           GAsyncResult *result,
           gpointer      data)
{
  g_autoptr(GTask) task = data;
  GError *error = NULL;

  g_task_propagate_boolean (G_TASK (result), &error);
  llm_call_go_on (task, error);
}

/* A model may have been added meanwhile: scans again, once. */
static void
look_again (GTask       *task,
            LlmCallStep  step)
{
  LlmCall *call = g_task_get_task_data (task);

  call->has_looked = TRUE;
  call->step = step;
  llm_engine_await_scan (call->engine, on_looked, g_object_ref (task));
}

static void
get_model (GTask   *task,
           LlmCall *call)
{
  LlmEngine *self = call->engine;
  gboolean is_usable;
  GError *error = NULL;

  if (self->use.is_suspect && self->calls.n_requests_running == 0 && !self->loading.is_loading)
    {
      self->use.is_suspect = FALSE;
      llm_engine_unload (self, ignore_freed, NULL);
    }
  is_usable = self->use.active != NULL && self->use.active->error == NULL;
  if (!is_usable && !call->has_looked)
    {
      look_again (task, get_model);
      return;
    }
  if (!is_usable)
    set_unusable (self, &error);
  else if (!self->loading.is_loading)
    check_room (self, self->use.active, &error);

  if (error != NULL)
    {
      g_task_return_error (task, error);
    }
  else if (self->use.model != NULL && !self->loading.is_loading)
    {
      g_task_return_pointer (task, llm_model_ref (self->use.model),
                             (GDestroyNotify) llm_model_unref);
    }
  else
    {
      g_queue_push_tail (&self->loading.waiting_model, g_object_ref (task));
      if (!self->loading.is_loading)
        begin_load (self, self->use.active, NULL);
    }
}

void
llm_engine_await_model (LlmEngine          *self,
                        GAsyncReadyCallback callback,
                        gpointer            data)
{
  g_autoptr(GTask) task = llm_call_new (self, NULL, NULL, NULL, callback, data);

  llm_call_await_start (task, get_model);
}

void
llm_engine_fail_waiting (LlmEngine *self)
{
  g_autoptr(GError) error =
    llmsvc_error_new (LLMSVC_ERROR_CANCELLED, NULL, "The service is ending");

  llm_engine_end_waiting (&self->start.waiting_start, NULL, error);
  llm_engine_end_waiting (&self->catalogue.waiting_scan, NULL, error);
  llm_engine_end_waiting (&self->catalogue.waiting_next_scan, NULL, error);
  llm_engine_end_waiting (&self->loading.waiting_model, NULL, error);
  llm_engine_end_waiting (&self->prefill.waiting, NULL, error);
}

static void
on_model_for_prewarm (GObject      *source,
                      GAsyncResult *result,
                      gpointer      data)
{
  g_autoptr(GTask) task = data;
  GError *error = NULL;
  g_autoptr(LlmModel) model = g_task_propagate_pointer (G_TASK (result), &error);

  if (model != NULL)
    g_task_return_boolean (task, TRUE);
  else
    g_task_return_error (task, error);
}

void
llm_engine_prewarm_async (LlmEngine          *self,
                          GAsyncReadyCallback callback,
                          gpointer            data)
{
  llm_engine_await_model (self, on_model_for_prewarm, g_task_new (self, NULL, callback, data));
}

/* --- another model --- */

static void
choose (GTask   *task,
        LlmCall *call)
{
  LlmEngine *self = call->engine;
  LlmModelInfo *info = llm_catalogue_find (self->catalogue.found, call->name);
  GError *error = NULL;

  if ((info == NULL || info->error != NULL) && !call->has_looked)
    {
      look_again (task, choose);
      return;
    }
  if (info != NULL && info->error != NULL)
    {
      error = g_error_copy (info->error);
    }
  else if (info == NULL)
    {
      g_autofree char *folders = llm_engine_describe_folders (self);

      llm_fail (&error, LLMSVC_ERROR_NOT_FOUND,
                "There is no model “%s” in the folders “%s”", call->name, folders);
    }
  else if (self->calls.n_requests_running > 0 || self->loading.is_loading)
    {
      llm_fail (&error, LLMSVC_ERROR_OVERLOADED,
                "Answers are under way; change the model when they have ended");
    }
  else if (check_room (self, info, &error))
    {
      begin_load (self, info, task);
      return;
    }
  llm_call_fail (task, error);
}

void
llm_engine_select_model_async (LlmEngine          *self,
                               const char         *id,
                               GAsyncReadyCallback callback,
                               gpointer            data)
{
  g_autoptr(GTask) task = llm_call_new (self, NULL, NULL, NULL, callback, data);

  ((LlmCall *) g_task_get_task_data (task))->name = g_strdup (id);
  llm_call_await_stored (task, choose);
}

/* --- unloading --- */

void
llm_engine_unload (LlmEngine     *self,
                   LlmReclaimDone done,
                   gpointer       data)
{
  if (self->calls.n_requests_running > 0 || self->loading.is_loading || self->use.model == NULL)
    {
      done (0, data);
      return;
    }
  g_clear_pointer (&self->use.model, llm_model_unref);
  llm_engine_take_levels (self, NULL, NULL);
  llm_engine_forget_prefill (self);
  llm_engine_forget_channels (self);
  if (self->drafts.draft_id != NULL)
    llm_engine_drop_draft (self);
  llm_constraint_cache_set_model (self->use.constraints, NULL);
  llm_crash_mark_ended (self->loading.crash_mark);
  self->counters.model_unloads++;
  llm_executor_set_model (self->executor, 0, NULL, NULL, done, data);
  /* its file may have changed, or be gone */
  llm_engine_models_settle (self);
}
