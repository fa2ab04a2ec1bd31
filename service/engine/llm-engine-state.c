/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* State that all parts of the engine use: whether it has started, and the availability of the
 * model. */

#define G_LOG_DOMAIN "llm-engine"

#include "engine/llm-engine-private.h"

#include "common/llmsvc-error-private.h"

LlmContext *
llm_engine_new_context (LlmEngine  *self,
                        LlmApp     *app,
                        const char *id)
{
  LlmContext *context = llm_context_new (app, id, ++self->store.last_session, self->ledger,
                                         &self->store.identity);

  context->engine = self;
  return context;
}

LlmExecutorFigures
llm_engine_get_figures (LlmEngine *self)
{
  LlmExecutorFigures figures;

  llm_executor_get_figures (self->executor, &figures);
  return figures;
}

/* --- what is said about the model --- */

/* @reason: (transfer full) (nullable): NULL without a reason */
static void
set_availability (LlmEngine  *self,
                  const char *availability,
                  GError     *reason)
{
  g_autoptr(GError) old = self->use.reason;
  gboolean is_said = g_strcmp0 (old != NULL ? old->message : NULL,
                                reason != NULL ? reason->message : NULL) == 0;

  self->use.reason = reason;
  if (is_said && g_strcmp0 (self->use.availability, availability) == 0)
    return;
  self->use.availability = availability;
  g_signal_emit_by_name (self, "availability-changed");
}

/* (transfer full): as in a search path; “” only with the settings of tests. */
char *
llm_engine_describe_folders (LlmEngine *self)
{
  g_autofree char *joined = g_strjoinv (G_SEARCHPATH_SEPARATOR_S, self->settings->model_folders);

  return g_filename_display_name (joined);
}

gboolean
llm_engine_has_started (LlmEngine *self)
{
  return self->start.has_catalogue && (self->start.has_index || self->store.db_error != NULL);
}

void
llm_engine_update_availability (LlmEngine *self)
{
  g_autofree char *folders = NULL;

  if (!llm_engine_has_started (self))
    set_availability (self, "loading", llmsvc_error_new (LLMSVC_ERROR_NO_MODEL, NULL,
                                                         "The service is looking for models"));
  else if (self->loading.is_loading)
    set_availability (self, "loading", llmsvc_error_new (LLMSVC_ERROR_NO_MODEL, NULL,
                                                         "The model is being loaded"));
  else if (self->use.active == NULL)
    {
      folders = llm_engine_describe_folders (self);
      set_availability (self, "no-model",
                        llmsvc_error_new (LLMSVC_ERROR_NO_MODEL, NULL,
                                          "There is no model in the folders “%s”; put a GGUF file "
                                          "into one of them, then ask again", folders));
    }
  else if (self->use.active->error != NULL)
    set_availability (self, "failed", g_error_copy (self->use.active->error));
  else if (self->loading.load_error != NULL)
    set_availability (self, "failed", g_error_copy (self->loading.load_error));
  else
    set_availability (self, "ready",
                      self->store.db_error != NULL ? g_error_copy (self->store.db_error) : NULL);
}

/* --- waiting --- */

void
llm_engine_return_stored (GObject      *source,
                          GAsyncResult *result,
                          gpointer      data)
{
  g_autoptr(GTask) task = data;
  GError *error = NULL;

  if (llm_db_run_finish (result, NULL, &error))
    g_task_return_boolean (task, TRUE);
  else
    g_task_return_error (task, error);
}

void
llm_engine_end_waiting (GQueue       *queue,
                        LlmModel     *model,
                        const GError *error)
{
  GQueue waiting = *queue;
  GTask *task;

  /* Callbacks may add to the queue again. */
  g_queue_init (queue);
  while ((task = g_queue_pop_head (&waiting)) != NULL)
    {
      if (error != NULL)
        g_task_return_error (task, g_error_copy (error));
      else if (model != NULL)
        g_task_return_pointer (task, llm_model_ref (model), (GDestroyNotify) llm_model_unref);
      else
        g_task_return_boolean (task, TRUE);
      g_object_unref (task);
    }
}

gboolean
llm_engine_check_stored (LlmEngine *self,
                         GError   **error)
{
  if (self->store.db_error == NULL)
    return TRUE;
  g_propagate_error (error, g_error_copy (self->store.db_error));
  return FALSE;
}

void
llm_engine_await_start (LlmEngine          *self,
                        GAsyncReadyCallback callback,
                        gpointer            data)
{
  GTask *task = g_task_new (self, NULL, callback, data);

  if (!llm_engine_has_started (self))
    {
      g_queue_push_tail (&self->start.waiting_start, task);
      return;
    }
  g_task_return_boolean (task, TRUE);
  g_object_unref (task);
}

static void
on_started (GObject      *source,
            GAsyncResult *result,
            gpointer      data)
{
  g_autoptr(GTask) task = data;
  GError *error = NULL;

  if (g_task_propagate_boolean (G_TASK (result), &error)
      && llm_engine_check_stored ((LlmEngine *) source, &error))
    g_task_return_boolean (task, TRUE);
  else
    g_task_return_error (task, error);
}

void
llm_engine_await_stored (LlmEngine          *self,
                         GAsyncReadyCallback callback,
                         gpointer            data)
{
  llm_engine_await_start (self, on_started, g_task_new (self, NULL, callback, data));
}

LlmRepackedCache *
llm_engine_open_cache (const LlmSettings *settings)
{
  return llm_repacked_cache_new (settings->cache_folder, settings->shares_cache,
                                 settings->system_cache_folder, settings->cache_limit);
}
