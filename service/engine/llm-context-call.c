/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "engine/llm-context-call.h"

static void
call_free (LlmContextCall *call)
{
  g_clear_pointer (&call->caller, llm_caller_unref);
  g_clear_pointer (&call->messages, g_variant_unref);
  g_clear_pointer (&call->options, llm_call_options_unref);
  g_clear_object (&call->sink);
  g_clear_pointer (&call->model, llm_model_unref);
  g_clear_pointer (&call->pass, llm_pass_free);
  g_free (call);
}

GTask *
llm_context_call_new (LlmContext         *self,
                      LlmCaller          *caller,
                      GVariant           *messages,
                      LlmCallOptions     *options,
                      GAsyncReadyCallback callback,
                      gpointer            data)
{
  GTask *task = g_task_new (self, NULL, callback, data);
  LlmContextCall *call = g_new0 (LlmContextCall, 1);

  call->caller = caller != NULL ? llm_caller_ref (caller) : NULL;
  call->messages = messages != NULL ? g_variant_ref_sink (messages) : NULL;
  call->options = options != NULL ? llm_call_options_ref (options) : NULL;
  g_task_set_task_data (task, call, (GDestroyNotify) call_free);
  return task;
}

void
llm_context_call_fail (GTask  *task,
                       GError *error)
{
  llm_context_release (g_task_get_source_object (task));
  g_task_return_error (task, error);
}

void
llm_context_call_on_committed (GObject      *source,
                               GAsyncResult *result,
                               gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmContext *self = LLM_CONTEXT (source);
  GError *error = NULL;
  gboolean is_committed = llm_context_commit_finish (self, result, &error);

  llm_context_release (self);
  if (is_committed)
    g_task_return_boolean (task, TRUE);
  else
    g_task_return_error (task, error);
}
