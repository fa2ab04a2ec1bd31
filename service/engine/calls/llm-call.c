/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "engine/apps/llm-engine-apps.h"
#include "engine/calls/llm-call.h"

static void
call_free (LlmCall *call)
{
  g_clear_pointer (&call->caller, llm_caller_unref);
  g_clear_pointer (&call->messages, g_variant_unref);
  g_clear_pointer (&call->options, llm_call_options_unref);
  g_clear_pointer (&call->pass, llm_pass_free);
  g_clear_pointer (&call->place, llm_pass_free);
  g_clear_object (&call->context);
  g_clear_object (&call->source);
  g_clear_pointer (&call->answer.sink, llm_sink_unref);
  g_clear_pointer (&call->model, llm_model_unref);
  g_clear_pointer (&call->tokens, g_array_unref);
  g_clear_pointer (&call->masks, llm_mask_table_unref);
  g_clear_object (&call->answer.compiling);
  g_clear_pointer (&call->format, llm_call_format_free);
  g_clear_pointer (&call->request, llm_request_unref);
  g_clear_pointer (&call->turn, llm_turn_free);
  g_clear_pointer (&call->quotas, g_ptr_array_unref);
  g_free (call->raw);
  g_free (call->name);
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

  if (LLM_IS_CONTEXT (source))
    call->context = g_object_ref (source);
  call->engine = call->context != NULL ? call->context->engine : source;
  call->caller = caller != NULL ? llm_caller_ref (caller) : NULL;
  call->messages = messages != NULL ? g_variant_ref_sink (messages) : NULL;
  call->options = options != NULL ? llm_call_options_ref (options) : NULL;
  g_task_set_task_data (task, call, (GDestroyNotify) call_free);
  return task;
}

/* --- its end --- */

void
llm_call_release (GTask *task)
{
  LlmCall *call = g_task_get_task_data (task);
  GTask *waiting;

  g_clear_pointer (&call->pass, llm_pass_free);
  g_clear_pointer (&call->place, llm_pass_free);
  g_ptr_array_remove (call->engine->store.making, task);
  if (call->has_claimed)
    {
      call->has_claimed = FALSE;
      llm_context_release (call->context);
    }
  /* the context is made, or has failed: the calls that waited for it look it up again */
  while ((waiting = g_queue_pop_head (&call->waiting)) != NULL)
    {
      LlmCall *other = g_task_get_task_data (waiting);

      other->step (waiting, other);
      g_object_unref (waiting);
    }
}

void
llm_call_fail (GTask  *task,
               GError *error)
{
  LlmCall *call = g_task_get_task_data (task);

  if (call->answer.failed != NULL)
    {
      call->answer.failed (call, error);
      g_error_free (error);
      return;
    }
  llm_call_release (task);
  g_task_return_error (task, error);
}

void
llm_call_end (GTask   *task,
              LlmCall *call)
{
  llm_call_release (task);
  g_task_return_boolean (task, TRUE);
}

void
llm_call_return_count (GTask   *task,
                       LlmCall *call)
{
  llm_call_release (task);
  g_task_return_int (task, call->n_added);
}

/* --- steps --- */

void
llm_call_go_on (GTask  *task,
                GError *error)
{
  LlmCall *call = g_task_get_task_data (task);

  if (call->step == NULL)
    g_clear_error (&error);
  else if (error != NULL)
    llm_call_fail (task, error);
  else
    call->step (task, call);
}

/* For a result that is TRUE or an error. */
static void
on_done (GObject      *source,
         GAsyncResult *result,
         gpointer      data)
{
  g_autoptr(GTask) task = data;
  GError *error = NULL;

  g_task_propagate_boolean (G_TASK (result), &error);
  llm_call_go_on (task, error);
}

static void
await (GTask      *task,
       LlmCallStep step,
       void      (*wait) (LlmEngine *engine, GAsyncReadyCallback callback, gpointer data))
{
  LlmCall *call = g_task_get_task_data (task);

  call->step = step;
  wait (call->engine, on_done, g_object_ref (task));
}

void
llm_call_await_start (GTask      *task,
                      LlmCallStep step)
{
  await (task, step, llm_engine_await_start);
}

void
llm_call_await_stored (GTask      *task,
                       LlmCallStep step)
{
  await (task, step, llm_engine_await_stored);
}

static void
on_loaded (GObject      *source,
           GAsyncResult *result,
           gpointer      data)
{
  g_autoptr(GTask) task = data;
  GError *error = NULL;

  llm_context_load_finish (LLM_CONTEXT (source), result, &error);
  llm_call_go_on (task, error);
}

void
llm_call_load (GTask      *task,
               LlmCallStep step)
{
  LlmCall *call = g_task_get_task_data (task);

  call->step = step;
  llm_context_load (call->context, on_loaded, g_object_ref (task));
}

static void
on_idle (GObject      *source,
         GAsyncResult *result,
         gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmCall *call = g_task_get_task_data (task);
  GError *error = NULL;

  /* checked before anything is computed, because nothing could be stored */
  if (llm_context_is_named (call->context))
    llm_engine_check_stored (call->engine, &error);
  if (error == NULL && call->caller != NULL)
    call->pass = llm_engine_take_call (call->engine, call->caller, &error);
  /* for an answer the revision is checked later: a repeated request must not fail for it */
  if (error == NULL)
    call->has_claimed =
      llm_context_claim (call->context, call->answer.sink == NULL ? call->options : NULL, &error);
  if (error == NULL)
    llm_call_load (task, call->step);
  else
    llm_call_fail (task, error);
}

void
llm_call_begin (GTask      *task,
                LlmCallStep step)
{
  LlmCall *call = g_task_get_task_data (task);
  LlmContext *context = call->context;

  call->step = step;
  if (context->ahead == NULL)
    {
      on_idle (G_OBJECT (context), NULL, g_object_ref (task));
      return;
    }
  llm_context_stop_ahead (context);
  g_queue_push_tail (&context->waiting_idle,
                     g_task_new (context, NULL, on_idle, g_object_ref (task)));
}

void
llm_call_store (GTask         *task,
                LlmDbFunc      func,
                gpointer       data,
                GDestroyNotify destroy,
                LlmCallStep    step)
{
  LlmCall *call = g_task_get_task_data (task);

  call->step = step;
  llm_db_run_async (call->engine->store.db, func, data, destroy, on_done, g_object_ref (task));
}
