/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Messages that are added before their question (Append), and their prefill. */

#define G_LOG_DOMAIN "llm-engine"

#include "base/llm-fail.h"
#include "engine/apps/llm-engine-apps.h"
#include "engine/calls/llm-call.h"

#include "common/llmsvc-error-private.h"
#include "contexts/llm-request-id.h"
#include "engine/calls/llm-engine-calls.h"

/* After all existing turns. */
static void
commit (GTask      *task,
        LlmCall    *call,
        LlmCallStep step)
{
  LlmTurn *turn = llm_turn_new ();

  llm_turn_add_messages (turn, call->messages);
  turn->n_tokens = call->n_added;
  turn->n_total = call->tokens->len;
  turn->counted_by = g_strdup (llm_model_get_identity (call->model));
  llm_request_id_note (turn, LLM_REQUEST_APPEND, call->messages, call->options, NULL);
  llm_call_commit (task, call->context->conversation->turns->len, turn, step);
}

static void
ignore_text (LlmRequest *request,
             const char *text,
             gsize       length,
             gpointer    data)
{
}

static void
note_end (LlmContext             *self,
          const LlmRequestResult *result)
{
  LlmEngineCounters *counters = &self->engine->counters;

  llm_engine_request_ended (self->engine);
  llm_context_note_result (self, result);
  counters->prompt_tokens += result->n_prompt;
  counters->cached_tokens += result->n_reused;
}

/* The text was prefilled: it is in the context's KV cache. */
static void
on_read_in (LlmRequest             *request,
            const LlmRequestResult *result,
            gpointer                data)
{
  g_autoptr(GTask) task = data;
  LlmCall *call = g_task_get_task_data (task);

  note_end (call->context, result);
  if (result->finish == LLM_FINISH_FAILED)
    llm_call_fail (task, g_error_copy (result->error));
  else if (result->finish == LLM_FINISH_STOP)
    commit (task, call, llm_call_return_count);
  else
    llm_call_fail (task, llmsvc_error_new (result->finish == LLM_FINISH_DEADLINE
                                             ? LLMSVC_ERROR_DEADLINE_EXCEEDED
                                             : LLMSVC_ERROR_CANCELLED, NULL,
                                           "The text was not read in; the context is as before"));
}

/* The same in the background: the text is stored already. */
static void
on_read_ahead (LlmRequest             *request,
               const LlmRequestResult *result,
               gpointer                data)
{
  g_autoptr(LlmContext) self = data;

  note_end (self, result);
  g_clear_pointer (&self->ahead, llm_request_unref);
  llm_context_release (self);
}

static void
read_ahead (GTask   *task,
            LlmCall *call)
{
  LlmContext *self = call->context;

  /* without a model nothing is prefilled; the text is rendered again by the next call */
  if (call->engine->use.model != call->model || call->engine->loading.is_loading || self->is_closed)
    {
      llm_call_return_count (task, call);
      return;
    }
  call->request->sink.on_done = on_read_ahead;
  call->request->sink.data = g_object_ref (self);
  self->ahead = g_steal_pointer (&call->request);
  call->has_claimed = FALSE;
  llm_engine_submit (call->engine, self->ahead);
  llm_call_return_count (task, call);
}

static LlmRequest *
new_prefill (LlmCall *call,
             GError **error)
{
  LlmContext *self = call->context;
  g_autoptr(LlmRequest) request = llm_request_new (self->app);

  if (!llm_engine_fill_request (call->engine, request, call->options, self->slo, error))
    return NULL;
  g_array_append_vals (request->prompt, call->tokens->data, call->tokens->len);
  request->window.n_ctx = llm_context_get_limit (self, call->model);
  llm_context_set_session (self, request);
  llm_context_set_levels (self, call, request);
  request->sink.on_text = ignore_text;
  return g_steal_pointer (&request);
}

static void
submit (GTask   *task,
        LlmCall *call)
{
  LlmContext *self = call->context;
  const char *identity = llm_model_get_identity (call->model);
  guint n_ctx = llm_context_get_limit (self, call->model);
  guint n_tokens = call->tokens->len;
  guint n_held;
  GError *error = NULL;

  /* the tokens of the context may have been counted by another model */
  if (call->counts_held)
    llm_conversation_set_count (self->conversation, identity, n_tokens);
  if (call->counts_held || !llm_conversation_is_counted (self->conversation, identity))
    {
      call->counts_held = !call->counts_held;
      llm_call_tokenize (task, submit);
      return;
    }

  n_held = llm_context_get_tokens (self);
  call->n_added = n_tokens > n_held ? n_tokens - n_held : 0;
  if (n_tokens >= n_ctx)
    llm_fail (&error, LLMSVC_ERROR_CONTEXT_FULL,
              "With this text the context would hold %u tokens; it has room for %u. Shorten it, "
              "take turns back, or begin a new context", n_tokens, n_ctx);
  else if (llm_engine_admit_tokens (call->engine, self->app, n_held, n_tokens, &error))
    call->request = new_prefill (call, &error);
  if (call->request == NULL)
    {
      llm_call_fail (task, error);
    }
  else if (llm_call_options_get_boolean (call->options, LLMSVC_OPTION_WAIT, FALSE))
    {
      call->request->sink.on_done = on_read_in;
      call->request->sink.data = g_object_ref (task);
      llm_engine_submit (call->engine, call->request);
    }
  else
    {
      /* the next call probably leaves words out, too */
      commit (task, call, llm_conversation_is_shortened (self->conversation)
                            ? llm_call_return_count : read_ahead);
    }
}

static void
append (GTask   *task,
        LlmCall *call)
{
  GError *error = NULL;
  LlmTurn *turn;

  if (!llm_request_id_find (call->context->conversation, LLM_REQUEST_APPEND, call->messages,
                            call->options, &turn, &error))
    {
      llm_call_fail (task, error);
    }
  else if (turn != NULL)
    {
      /* the turn is there already: the first call began to prefill it */
      call->n_added = turn->n_tokens;
      llm_call_return_count (task, call);
    }
  else
    {
      llm_call_tokenize (task, submit);
    }
}

void
llm_context_append_async (LlmContext         *self,
                          LlmCaller          *caller,
                          GVariant           *messages,
                          LlmCallOptions     *options,
                          GAsyncReadyCallback callback,
                          gpointer            data)
{
  g_autoptr(GTask) task = llm_call_new (self, caller, messages, options, callback, data);

  if (g_variant_n_children (messages) > 0)
    llm_call_begin (task, append);
  else
    g_task_return_new_error (task, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                             "No message was given");
}
