/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Text that comes ahead of its question. */

#define G_LOG_DOMAIN "llm-engine"

#include "engine/llm-context-call.h"

#include "common/llmsvc-error.h"
#include "contexts/llm-request-id.h"

/* (transfer full) */
static LlmTurn *
make_turn (const LlmContextCall *call)
{
  LlmTurn *turn = llm_turn_new ();

  llm_turn_add_messages (turn, call->messages);
  turn->n_tokens = call->n_added;
  turn->n_total = call->n_tokens;
  turn->counted_by = g_strdup (llm_model_get_identity (call->model));
  llm_request_id_note (turn, LLM_REQUEST_APPEND, call->messages, call->options, NULL);
  return turn;
}

static void
commit_append (GTask *task)
{
  LlmContext *self = g_task_get_source_object (task);

  llm_context_commit (self, llm_conversation_get_n_turns (self->conversation),
                      make_turn (g_task_get_task_data (task)), llm_context_call_on_committed,
                      g_object_ref (task));
}

static void
ignore_text (LlmRequest     *request,
             const char *text,
             gsize       length,
             gpointer    data)
{
}

/* The text was read in: the context's memory holds it. */
static void
on_read_in (LlmRequest             *request,
            const LlmRequestResult *result,
            gpointer            data)
{
  g_autoptr(GTask) task = data;
  LlmContext *self = g_task_get_source_object (task);

  llm_engine_request_ended (self->engine);
  self->engine->counters.prompt_tokens += result->n_prompt;
  self->engine->counters.reused_tokens += result->n_reused;
  if (result->finish == LLM_FINISH_FAILED)
    llm_context_call_fail (task, g_error_copy (result->error));
  else if (result->finish == LLM_FINISH_STOP)
    commit_append (task);
  else
    llm_context_call_fail (task, g_error_new_literal (LLMSVC_ERROR,
                                             result->finish == LLM_FINISH_DEADLINE
                                               ? LLMSVC_ERROR_DEADLINE_EXCEEDED
                                               : LLMSVC_ERROR_CANCELLED,
                                             "The text was not read in; the context is as before"));
}

/* The same without a caller that waits: the text is committed, this is a favour. */
static void
on_read_ahead (LlmRequest             *request,
               const LlmRequestResult *result,
               gpointer            data)
{
  g_autoptr(LlmContext) self = data;

  llm_engine_request_ended (self->engine);
  g_clear_pointer (&self->ahead, llm_request_unref);
  self->engine->counters.prompt_tokens += result->n_prompt;
  self->engine->counters.reused_tokens += result->n_reused;
  llm_context_release (self);
}

static LlmRequest *
new_read_job (LlmContext     *self,
              LlmContextCall *call,
              GArray         *tokens,
              GError        **error)
{
  g_autoptr(LlmRequest) request = llm_request_new (self->app);

  if (!llm_engine_fill_request (self->engine, request, call->options, self->slo, error))
    return NULL;
  g_array_append_vals (request->prompt, tokens->data, tokens->len);
  llm_conversation_get_generated (self->conversation, llm_model_get_identity (call->model),
                                  request->generated);
  request->n_ctx = llm_context_get_limit (self, call->model);
  llm_context_set_session (self, request);
  request->on_text = ignore_text;
  return g_steal_pointer (&request);
}

static void
on_ahead_committed (GObject      *source,
                    GAsyncResult *result,
                    gpointer      data)
{
  LlmRequest *request = data;
  LlmContext *self = LLM_CONTEXT (source);
  g_autoptr(GTask) task = request->data;
  GError *error = NULL;

  if (!llm_context_commit_finish (self, result, &error))
    {
      llm_context_call_fail (task, error);
    }
  else if (self->engine->model != ((LlmContextCall *) g_task_get_task_data (task))->model ||
           self->engine->is_loading || self->is_closed)
    {
      llm_context_release (self);
      g_task_return_boolean (task, TRUE);
    }
  else
    {
      request->on_done = on_read_ahead;
      request->data = g_object_ref (self);
      self->ahead = llm_request_ref (request);
      llm_engine_submit (self->engine, request);
      g_task_return_boolean (task, TRUE);
    }
  llm_request_unref (request);
}

static void on_model_for_append (GObject      *source,
                                 GAsyncResult *result,
                                 gpointer      data);

static void
on_prepared_for_append (GObject      *source,
                        GAsyncResult *result,
                        gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmContext *self = g_task_get_source_object (task);
  LlmContextCall *call = g_task_get_task_data (task);
  LlmEngine *engine = self->engine;
  GError *error = NULL;
  g_autoptr(GArray) tokens = llm_prepare_finish (result, NULL, &error);
  guint n_held = llm_context_get_tokens (self);
  guint n_ctx;
  LlmRequest *request;

  if (tokens == NULL)
    {
      llm_context_call_fail (task, error);
      return;
    }
  if (engine->model != call->model || engine->is_loading)
    {
      g_clear_pointer (&call->model, llm_model_unref);
      llm_engine_await_model (engine, on_model_for_append, g_object_ref (task));
      return;
    }
  n_ctx = llm_context_get_limit (self, call->model);
  call->n_tokens = tokens->len;
  call->n_added = tokens->len > n_held ? tokens->len - n_held : 0;
  if (tokens->len >= n_ctx)
    {
      llm_context_call_fail (task, g_error_new (LLMSVC_ERROR, LLMSVC_ERROR_CONTEXT_FULL,
                                       "With this text the context would hold %u tokens; it has "
                                       "room for %u. Shorten it, roll turns back, or begin "
                                       "a new context",
                                       tokens->len, n_ctx));
      return;
    }
  if (!llm_engine_admit_tokens (engine, self->app, n_held, tokens->len, &error) ||
      (request = new_read_job (self, call, tokens, &error)) == NULL)
    {
      llm_context_call_fail (task, error);
      return;
    }

  if (llm_call_options_get_boolean (call->options, LLMSVC_OPTION_WAIT, FALSE))
    {
      request->on_done = on_read_in;
      request->data = g_object_ref (task);
      llm_engine_submit (engine, request);
      llm_request_unref (request);
    }
  else
    {
      request->data = g_object_ref (task);
      llm_context_commit (self, llm_conversation_get_n_turns (self->conversation), make_turn (call),
                          on_ahead_committed, request);
    }
}

static void
prepare_append (GTask *task)
{
  LlmContext *self = g_task_get_source_object (task);
  LlmContextCall *call = g_task_get_task_data (task);

  llm_prepare_async (call->model,
                     llm_context_make_input (self, call->model, call->messages, FALSE),
                     on_prepared_for_append, g_object_ref (task));
}

/* What the context held before was counted by another model. */
static void
on_held_prepared (GObject      *source,
                  GAsyncResult *result,
                  gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmContext *self = g_task_get_source_object (task);
  LlmContextCall *call = g_task_get_task_data (task);
  GError *error = NULL;
  g_autoptr(GArray) tokens = llm_prepare_finish (result, NULL, &error);

  if (tokens == NULL)
    {
      llm_context_call_fail (task, error);
      return;
    }
  llm_conversation_set_count (self->conversation, llm_model_get_identity (call->model),
                              tokens->len);
  prepare_append (task);
}

static void
on_model_for_append (GObject      *source,
                     GAsyncResult *result,
                     gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmContext *self = g_task_get_source_object (task);
  LlmContextCall *call = g_task_get_task_data (task);
  GError *error = NULL;

  call->model = llm_engine_await_model_finish (result, &error);
  if (call->model == NULL)
    llm_context_call_fail (task, error);
  else if (llm_conversation_is_counted (self->conversation, llm_model_get_identity (call->model)))
    prepare_append (task);
  else
    llm_prepare_async (call->model, llm_context_make_input (self, call->model, NULL, FALSE),
                       on_held_prepared, g_object_ref (task));
}

static void
on_loaded_for_append (GObject      *source,
                      GAsyncResult *result,
                      gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmContext *self = LLM_CONTEXT (source);
  LlmContextCall *call = g_task_get_task_data (task);
  GError *error = NULL;
  LlmTurn *turn;

  if (!llm_context_load_finish (self, result, &error) ||
      !llm_request_id_find (self->conversation, LLM_REQUEST_APPEND, call->messages, call->options,
                            &turn, &error))
    {
      llm_context_call_fail (task, error);
    }
  else if (turn != NULL)
    {
      /* it is there already: to read it in ahead was the first call's favour */
      call->n_added = turn->n_tokens;
      llm_context_release (self);
      g_task_return_boolean (task, TRUE);
    }
  else
    llm_engine_await_model (self->engine, on_model_for_append, g_object_ref (task));
}

static void
begin_append (GTask *task)
{
  LlmContext *self = g_task_get_source_object (task);
  LlmContextCall *call = g_task_get_task_data (task);
  GError *error = NULL;

  call->pass = llm_engine_take_call (self->engine, call->caller, &error);
  if (call->pass == NULL ||
      !llm_context_claim (self, call->options, &error))
    {
      g_task_return_error (task, error);
      g_object_unref (task);
      return;
    }
  llm_context_load (self, on_loaded_for_append, task);
}

void
llm_context_append_async (LlmContext         *self,
                          LlmCaller          *caller,
                          GVariant           *messages,
                          LlmCallOptions     *options,
                          GAsyncReadyCallback callback,
                          gpointer            data)
{
  GTask *task = llm_context_call_new (self, caller, messages, options, callback, data);

  if (g_variant_n_children (messages) == 0)
    {
      g_task_return_new_error (task, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                               "No message was given");
      g_object_unref (task);
      return;
    }
  llm_context_begin (self, begin_append, task);
}

gboolean
llm_context_append_finish (LlmContext   *self,
                           GAsyncResult *result,
                           guint        *tokens,
                           GError      **error)
{
  *tokens = ((LlmContextCall *) g_task_get_task_data (G_TASK (result)))->n_added;
  return g_task_propagate_boolean (G_TASK (result), error);
}
