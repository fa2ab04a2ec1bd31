/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The list of models: read from the folders in another thread, and again when files there are
 * added, removed or changed. */

#define G_LOG_DOMAIN "llm-engine"

#include "engine/models/llm-engine-models.h"

/* Input of the thread; the settings do not change. */
typedef struct
{
  const LlmSettings *settings;  /* (unowned) */
  GPtrArray *known;             /* (element-type LlmModelInfo) (owned) */
  gboolean shall_watch;
  LlmFolderWatch *watch;        /* (nullable) (owned) */
} Scan;

static void
scan_free (Scan *scan)
{
  g_ptr_array_unref (scan->known);
  g_clear_pointer (&scan->watch, llm_folder_watch_free);
  g_free (scan);
}

static LlmFolderWatch *
watch_folders (const LlmSettings *settings)
{
  g_autoptr(GStrvBuilder) builder = g_strv_builder_new ();
  g_autofree char *folder =
    settings->model_file != NULL ? g_path_get_dirname (settings->model_file) : NULL;
  g_auto(GStrv) folders = NULL;

  if (folder != NULL)
    g_strv_builder_add (builder, folder);
  if (settings->model_folders != NULL)
    g_strv_builder_addv (builder, (const char **) settings->model_folders);
  folders = g_strv_builder_end (builder);
  return llm_folder_watch_new ((const char *const *) folders, LLM_MODEL_SUFFIX);
}

static void
run_scan (GTask        *task,
          gpointer      source,
          gpointer      data,
          GCancellable *cancellable)
{
  Scan *scan = data;

  /* watched before they are read, so that no change is missed */
  if (scan->shall_watch)
    scan->watch = watch_folders (scan->settings);
  g_task_return_pointer (
    task,
    llm_catalogue_scan ((const char *const *) scan->settings->model_folders,
                        scan->settings->model_file, scan->settings->takes_any_tokenizer,
                        scan->known),
    (GDestroyNotify) g_ptr_array_unref);
}

void
llm_engine_take_models (LlmEngine *self,
                        GPtrArray *models)
{
  g_autoptr(GPtrArray) known = self->catalogue.found;

  self->start.has_catalogue = models != NULL;
  if (models == NULL)
    {
      self->catalogue.found = g_steal_pointer (&known);
      llm_engine_update_availability (self);
      return;
    }
  for (guint i = 0; i < models->len; i++)
    {
      const LlmModelInfo *info = g_ptr_array_index (models, i);

      if (known != NULL && g_ptr_array_find (known, (gpointer) info, NULL))
        continue;
      if (info->error != NULL)
        g_message ("A model can't be used: %s", info->error->message);
      for (guint j = 0; j < info->warnings->len; j++)
        g_message ("%s", ((GError *) g_ptr_array_index (info->warnings, j))->message);
    }
  self->catalogue.found = models;
  llm_engine_models_settle (self);
}

static void begin_scan (LlmEngine *self);

static void
on_folders_changed (gpointer data)
{
  llm_engine_models_start (data);
}

static void
on_scanned (GObject      *source,
            GAsyncResult *result,
            gpointer      data)
{
  LlmEngine *self = (LlmEngine *) source;
  Scan *scan = g_task_get_task_data (G_TASK (result));

  self->catalogue.is_scanning = FALSE;
  if (scan->watch != NULL)
    {
      g_clear_pointer (&self->catalogue.watch, llm_folder_watch_free);
      self->catalogue.watch = g_steal_pointer (&scan->watch);
      llm_folder_watch_start (self->catalogue.watch, on_folders_changed, self);
    }
  llm_engine_take_models (self, g_task_propagate_pointer (G_TASK (result), NULL));
  llm_engine_end_waiting (&self->catalogue.waiting_scan, NULL, NULL);
  if (self->catalogue.shall_scan && !self->catalogue.is_scanning)
    begin_scan (self);
}

static void
begin_scan (LlmEngine *self)
{
  g_autoptr(GTask) task = g_task_new (self, NULL, on_scanned, NULL);
  Scan *scan = g_new0 (Scan, 1);

  scan->settings = self->settings;
  scan->known = g_ptr_array_ref (self->catalogue.found);
  scan->shall_watch = self->catalogue.watch == NULL
    || llm_folder_watch_is_stale (self->catalogue.watch);
  g_task_set_task_data (task, scan, (GDestroyNotify) scan_free);
  self->catalogue.is_scanning = TRUE;
  self->catalogue.shall_scan = FALSE;
  self->catalogue.waiting_scan = self->catalogue.waiting_next_scan;
  g_queue_init (&self->catalogue.waiting_next_scan);
  g_task_run_in_thread (task, run_scan);
}

void
llm_engine_models_start (LlmEngine *self)
{
  if (self->settings->script != NULL)
    llm_engine_models_settle (self);
  else if (self->catalogue.is_scanning)
    self->catalogue.shall_scan = TRUE;
  else
    begin_scan (self);
}

void
llm_engine_await_scan (LlmEngine          *self,
                       GAsyncReadyCallback callback,
                       gpointer            data)
{
  if (self->settings->script != NULL || !llm_engine_has_started (self))
    {
      llm_engine_await_start (self, callback, data);
      return;
    }
  g_queue_push_tail (&self->catalogue.waiting_next_scan, g_task_new (self, NULL, callback, data));
  llm_engine_models_start (self);
}

void
llm_engine_models_stop (LlmEngine *self)
{
  g_clear_pointer (&self->catalogue.watch, llm_folder_watch_free);
}
