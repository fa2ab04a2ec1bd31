/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Text that comes ahead of its question. */

#define G_LOG_DOMAIN "llm-engine"

#include "base/llm-fail.h"
#include "engine/llm-call.h"

#include "common/llmsvc-error.h"
#include "contexts/llm-request-id.h"

/* (transfer full) */
static LlmTurn *
make_turn (const LlmCall *call)
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
ignore_text (LlmRequest *request,
             const char *text,
             gsize       length,
             gpointer    data)
{
}

/* The text was prefilled: the KV cache of the context holds it. */
static void
on_read_in (LlmRequest             *request,
            const LlmRequestResult *result,
            gpointer                data)
{
  g_autoptr(GTask) task = data;
  LlmContext *self = g_task_get_source_object (task);

  llm_engine_request_ended (self->engine);
  self->engine->counters.prompt_tokens += result->n_prompt;
  self->engine->counters.reused_tokens += result->n_reused;
  if (result->finish == LLM_FINISH_FAILED)
    llm_call_fail (task, g_error_copy (result->error));
  else if (result->finish == LLM_FINISH_STOP)
    llm_call_commit (task, llm_conversation_get_n_turns (self->conversation),
                     make_turn (g_task_get_task_data (task)));
  else
    llm_call_fail (task,
                   g_error_new_literal (LLMSVC_ERROR,
                                        result->finish == LLM_FINISH_DEADLINE
                                          ? LLMSVC_ERROR_DEADLINE_EXCEEDED
                                          : LLMSVC_ERROR_CANCELLED,
                                        "The text was not read in; the context is as before"));
}

/* The same in the background: the text is committed already. */
static void
on_read_ahead (LlmRequest             *request,
               const LlmRequestResult *result,
               gpointer                data)
{
  g_autoptr(LlmContext) self = data;

  llm_engine_request_ended (self->engine);
  g_clear_pointer (&self->ahead, llm_request_unref);
  self->engine->counters.prompt_tokens += result->n_prompt;
  self->engine->counters.reused_tokens += result->n_reused;
  llm_context_release (self);
}

static LlmRequest *
new_prefill (LlmContext *self,
             LlmCall    *call,
             GArray     *tokens,
             GError    **error)
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

  if (!g_task_propagate_boolean (G_TASK (result), &error))
    {
      llm_call_fail (task, error);
    }
  else if (self->engine->model != ((LlmCall *) g_task_get_task_data (task))->model ||
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

static void on_model (GObject      *source,
                      GAsyncResult *result,
                      gpointer      data);
static void prepare  (GTask        *task);

static void
submit (GTask  *task,
        GArray *tokens)
{
  LlmContext *self = g_task_get_source_object (task);
  LlmCall *call = g_task_get_task_data (task);
  guint n_held = llm_context_get_tokens (self);
  guint n_ctx = llm_context_get_limit (self, call->model);
  LlmRequest *request = NULL;
  GError *error = NULL;

  call->n_tokens = tokens->len;
  call->n_added = tokens->len > n_held ? tokens->len - n_held : 0;
  if (tokens->len >= n_ctx)
    llm_fail (&error, LLMSVC_ERROR_CONTEXT_FULL,
              "With this text the context would hold %u tokens; it has room for %u. Shorten it, "
              "roll turns back, or begin a new context", tokens->len, n_ctx);
  else if (llm_engine_admit_tokens (self->engine, self->app, n_held, tokens->len, &error))
    request = new_prefill (self, call, tokens, &error);
  if (request == NULL)
    {
      llm_call_fail (task, error);
      return;
    }

  request->data = g_object_ref (task);
  if (llm_call_options_get_boolean (call->options, LLMSVC_OPTION_WAIT, FALSE))
    {
      request->on_done = on_read_in;
      llm_engine_submit (self->engine, request);
      llm_request_unref (request);
    }
  else
    llm_context_commit (self, llm_conversation_get_n_turns (self->conversation), make_turn (call),
                        on_ahead_committed, request);
}

static void
on_prepared (GObject      *source,
             GAsyncResult *result,
             gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmContext *self = g_task_get_source_object (task);
  LlmCall *call = g_task_get_task_data (task);
  GError *error = NULL;
  g_autoptr(GArray) tokens = llm_prepare_finish (result, NULL, &error);

  if (tokens == NULL)
    llm_call_fail (task, error);
  else if (call->counts_held)
    {
      llm_conversation_set_count (self->conversation, llm_model_get_identity (call->model),
                                  tokens->len);
      call->counts_held = FALSE;
      prepare (task);
    }
  else if (self->engine->model != call->model || self->engine->is_loading)
    {
      g_clear_pointer (&call->model, llm_model_unref);
      llm_engine_await_model (self->engine, on_model, g_steal_pointer (&task));
    }
  else
    submit (task, tokens);
}

static void
prepare (GTask *task)
{
  LlmContext *self = g_task_get_source_object (task);
  LlmCall *call = g_task_get_task_data (task);

  llm_prepare_async (call->model,
                     llm_context_make_input (self, call->model,
                                             call->counts_held ? NULL : call->messages, FALSE),
                     on_prepared, g_object_ref (task));
}

static void
on_model (GObject      *source,
          GAsyncResult *result,
          gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmContext *self = g_task_get_source_object (task);
  LlmCall *call = g_task_get_task_data (task);
  GError *error = NULL;

  call->model = g_task_propagate_pointer (G_TASK (result), &error);
  if (call->model == NULL)
    {
      llm_call_fail (task, error);
      return;
    }
  /* another model may have counted what the context held before */
  call->counts_held = !llm_conversation_is_counted (self->conversation,
                                                    llm_model_get_identity (call->model));
  prepare (task);
}

static void
append (GTask   *task,
        LlmCall *call)
{
  LlmContext *self = g_task_get_source_object (task);
  GError *error = NULL;
  LlmTurn *turn;

  if (!llm_request_id_find (self->conversation, LLM_REQUEST_APPEND, call->messages, call->options,
                            &turn, &error))
    llm_call_fail (task, error);
  else if (turn != NULL)
    {
      /* it is there already: the first call began to prefill it ahead */
      call->n_added = turn->n_tokens;
      llm_context_release (self);
      g_task_return_boolean (task, TRUE);
    }
  else
    llm_engine_await_model (self->engine, on_model, g_object_ref (task));
}

void
llm_context_append_async (LlmContext         *self,
                          LlmCaller          *caller,
                          GVariant           *messages,
                          LlmCallOptions     *options,
                          GAsyncReadyCallback callback,
                          gpointer            data)
{
  GTask *task = llm_call_new (self, caller, messages, options, callback, data);

  if (g_variant_n_children (messages) > 0)
    {
      llm_call_begin (task, append);
      return;
    }
  g_task_return_new_error (task, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                           "No message was given");
  g_object_unref (task);
}

gboolean
llm_context_append_finish (LlmContext   *self,
                           GAsyncResult *result,
                           guint        *tokens,
                           GError      **error)
{
  *tokens = ((LlmCall *) g_task_get_task_data (G_TASK (result)))->n_added;
  return g_task_propagate_boolean (G_TASK (result), error);
}
