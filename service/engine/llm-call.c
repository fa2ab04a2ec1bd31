/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "engine/llm-call.h"

static void
call_free (LlmCall *call)
{
  g_clear_pointer (&call->caller, llm_caller_unref);
  g_clear_pointer (&call->messages, g_variant_unref);
  g_clear_pointer (&call->options, llm_call_options_unref);
  g_clear_pointer (&call->sink, llm_sink_unref);
  g_clear_pointer (&call->model, llm_model_unref);
  g_clear_pointer (&call->pass, llm_pass_free);
  g_free (call->name);
  g_clear_object (&call->source);
  g_clear_object (&call->context);
  g_clear_pointer (&call->place, llm_pass_free);
  g_free (call);
}

GTask *
llm_call_new (gpointer            source,
              LlmCaller          *caller,
              GVariant           *messages,
              LlmCallOptions     *options,
              GAsyncReadyCallback callback,
              gpointer            data)
{
  GTask *task = g_task_new (source, NULL, callback, data);
  LlmCall *call = g_new0 (LlmCall, 1);

  call->caller = caller != NULL ? llm_caller_ref (caller) : NULL;
  call->messages = messages != NULL ? g_variant_ref_sink (messages) : NULL;
  call->options = options != NULL ? llm_call_options_ref (options) : NULL;
  g_task_set_task_data (task, call, (GDestroyNotify) call_free);
  return task;
}

void
llm_call_fail (GTask  *task,
               GError *error)
{
  llm_context_release (g_task_get_source_object (task));
  g_task_return_error (task, error);
}

static void
on_loaded (GObject      *source,
           GAsyncResult *result,
           gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmCall *call = g_task_get_task_data (task);
  GError *error = NULL;

  if (llm_context_load_finish (LLM_CONTEXT (source), result, &error))
    call->step (task, call);
  else
    llm_call_fail (task, error);
}

static void
on_idle (GObject      *source,
         GAsyncResult *result,
         gpointer      data)
{
  GTask *task = data;
  LlmContext *self = LLM_CONTEXT (source);
  LlmCall *call = g_task_get_task_data (task);
  GError *error = NULL;

  /* An answer counts itself, and its revision is checked later: a repeated request must not fail
   * for it. */
  if (call->sink != NULL)
    llm_engine_admit_call (self->engine, call->caller, &error);
  else if (call->caller != NULL)
    call->pass = llm_engine_take_call (self->engine, call->caller, &error);
  if (error == NULL)
    llm_context_claim (self, call->sink == NULL ? call->options : NULL, &error);

  if (error == NULL)
    {
      llm_context_load (self, on_loaded, task);
      return;
    }
  g_task_return_error (task, error);
  g_object_unref (task);
}

void
llm_call_begin (GTask      *task,
                LlmCallStep step)
{
  LlmContext *self = g_task_get_source_object (task);

  ((LlmCall *) g_task_get_task_data (task))->step = step;
  if (self->ahead == NULL)
    {
      on_idle (G_OBJECT (self), NULL, task);
      return;
    }
  llm_context_stop_ahead (self);
  g_queue_push_tail (&self->waiting_idle, g_task_new (self, NULL, on_idle, task));
}

static void
on_committed (GObject      *source,
              GAsyncResult *result,
              gpointer      data)
{
  g_autoptr(GTask) task = data;
  GError *error = NULL;
  gboolean is_committed = g_task_propagate_boolean (G_TASK (result), &error);

  llm_context_release (LLM_CONTEXT (source));
  if (is_committed)
    g_task_return_boolean (task, TRUE);
  else
    g_task_return_error (task, error);
}

void
llm_call_commit (GTask   *task,
                 guint    n_turns,
                 LlmTurn *turn)
{
  llm_context_commit (g_task_get_source_object (task), n_turns, turn, on_committed,
                      g_object_ref (task));
}
