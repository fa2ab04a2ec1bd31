/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Weights by channel, for calls that leave a part of them out (“active”) while the model's weights
 * stream: prepared beside those of the model when the first such call comes. It does not wait: until
 * they are there, and where they can't be, whole weights are read, for the same text.
 */

#define G_LOG_DOMAIN "llm-engine"

#include "base/llm-clock.h"
#include "engine/models/llm-engine-models.h"
#include "weights/llm-channels.h"

/* After a failure, of the disk most likely. */
#define RETRY_US (600 * G_USEC_PER_SEC)

/* On a thread, which reads nothing of the engine but the settings and the ledger. */
typedef struct
{
  LlmModel *model;         /* (owned) */
  LlmCompanion *companion; /* (owned) */
  LlmChannels *channels;   /* (nullable) (owned) */
} Preparation;

static void
preparation_free (Preparation *preparation)
{
  llm_model_unref (preparation->model);
  llm_companion_unref (preparation->companion);
  g_clear_pointer (&preparation->channels, llm_channels_free);
  g_free (preparation);
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
  const LlmCompanion *companion = preparation->companion;
  g_autoptr(LlmRepackedCache) cache = llm_engine_open_cache (settings);
  GError *error = NULL;

  /* one thread: calls go on meanwhile */
  preparation->channels =
    llm_channels_new (llm_model_get_gguf (preparation->model),
                      llm_model_get_hparams (preparation->model),
                      companion->has_sub_models ? companion->sub_models : NULL, cache, 1,
                      self->ledger, &error);
  if (preparation->channels != NULL)
    g_task_return_boolean (task, TRUE);
  else
    g_task_return_error (task, error);
}

static void
on_prepared (GObject      *source,
             GAsyncResult *result,
             gpointer      data)
{
  LlmEngine *self = (LlmEngine *) source;
  Preparation *preparation = g_task_get_task_data (G_TASK (result));
  g_autoptr(GError) error = NULL;

  self->channels.is_preparing = FALSE;
  if (!g_task_propagate_boolean (G_TASK (result), &error))
    {
      g_message ("Weights are not read by channel: %s", error->message);
      if (preparation->model != self->channels.model)
        return;
      llm_engine_forget_channels (self);
      self->channels.retry_us = llm_clock_now_us () + RETRY_US;
    }
  else if (preparation->model == self->use.model)
    llm_executor_set_channels (self->executor, 0, g_steal_pointer (&preparation->channels));
}

void
llm_engine_prepare_channels (LlmEngine *self)
{
  g_autoptr(GTask) task = NULL;
  Preparation *preparation;

  if (self->use.model == NULL || self->channels.is_preparing || self->channels.model == self->use.model
      || llm_clock_now_us () < self->channels.retry_us || self->settings->is_exact
      || self->settings->cache_folder == NULL
      || llm_engine_get_figures (self).stream.pass_bytes == 0)
    return;
  llm_engine_forget_channels (self);
  self->channels.model = llm_model_ref (self->use.model);
  self->channels.is_preparing = TRUE;
  preparation = g_new0 (Preparation, 1);
  preparation->model = llm_model_ref (self->use.model);
  preparation->companion = llm_companion_ref (self->use.companion);
  task = g_task_new (self, NULL, on_prepared, NULL);
  g_task_set_task_data (task, preparation, (GDestroyNotify) preparation_free);
  g_task_run_in_thread (task, prepare);
}

void
llm_engine_forget_channels (LlmEngine *self)
{
  g_clear_pointer (&self->channels.model, llm_model_unref);
}
