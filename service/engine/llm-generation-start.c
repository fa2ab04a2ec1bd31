/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The way of an answer to the executor: the model, the prompt as tokens, the request. */

#define G_LOG_DOMAIN "llm-engine"

#include "base/llm-fail.h"
#include "engine/llm-generation-private.h"

#include "base/llm-clock.h"
#include "common/llmsvc-error.h"
#include "engine/llm-context-private.h"
#include "runtime/llm-window.h"

static gboolean
wants_to_slide (LlmGeneration *self)
{
  return g_str_equal (
    llm_call_options_get_string (self->options, LLMSVC_OPTION_ON_OVERFLOW, "error"), "slide");
}

/* Whether the model goes on with the first @n_system tokens and the newest part of a text that is
 * longer than @n_ctx. */
static gboolean
slides_past (LlmGeneration *self,
             guint          n_ctx,
             guint          n_system)
{
  guint chunk_slots = self->engine->settings->chunk_tokens;

  return wants_to_slide (self)
         && llm_window_is_possible (n_ctx, llm_window_get_sinks (n_system, chunk_slots),
                                    chunk_slots);
}

static gboolean
check_length (LlmGeneration *self,
              guint          n_prompt,
              guint          n_ctx,
              guint          n_system,
              GError       **error)
{
  if (n_prompt == 0)
    {
      /* a raw prompt, and a model whose texts begin with no token of their own */
    return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "The prompt is empty: there is nothing to go on from");
    }
  if (n_prompt < n_ctx || slides_past (self, n_ctx, n_system))
    return TRUE;
  if (wants_to_slide (self) && slides_past (self, n_ctx, 0))
    {
      guint chunk_slots = self->engine->settings->chunk_tokens;

      return llm_fail (error, LLMSVC_ERROR_CONTEXT_FULL,
                       "The prompt has %u tokens with what the context holds; the context has room "
                       "for %u. It can't slide: the system message, which stays, takes %u tokens "
                       "with the model's template, and %u are the most that leave room for the "
                       "rest. Shorten the system message, or begin a new context", n_prompt, n_ctx,
                       n_system, n_ctx / 2 / chunk_slots * chunk_slots);
    }
  return llm_fail (error, LLMSVC_ERROR_CONTEXT_FULL,
                   "The prompt has %u tokens with what the context holds; the context has room for "
                   "%u, and the answer needs at least one of them. Shorten it, roll turns back, or "
                   "begin a new context", n_prompt, n_ctx);
}

static gboolean
submit (LlmGeneration *self,
        GArray        *tokens,
        guint          n_system,
        GError       **error)
{
  LlmEngine *engine = self->engine;
  LlmContext *context = self->context;
  g_autoptr(LlmRequest) request = llm_request_new (self->caller->app);
  guint n_ctx = context != NULL ? llm_context_get_limit (context, self->model)
                                : llm_model_get_hparams (self->model)->n_ctx;

  request->arrived_us = self->arrived_us;
  if (!check_length (self, tokens->len, n_ctx, n_system, error)
      || (context != NULL
          && !llm_engine_admit_tokens (engine, context->app, llm_context_get_tokens (context),
                                       tokens->len, error))
      || !llm_engine_fill_request (engine, request, self->options,
                                   context != NULL ? context->slo : NULL, error))
    return FALSE;
  g_array_append_vals (request->prompt, tokens->data, tokens->len);
  if (context != NULL)
    {
      llm_conversation_get_generated (context->conversation, llm_model_get_identity (self->model),
                                      request->generated);
      llm_context_set_session (context, request);
    }
  request->n_ctx = n_ctx;
  request->slides = slides_past (self, n_ctx, n_system);
  request->n_system = n_system;
  request->strips_space = self->raw == NULL;
  request->on_admitted = llm_generation_request_admitted;
  request->on_text = llm_generation_request_text;
  request->on_done = llm_generation_request_done;
  if (engine->settings->script != NULL
        ? !llm_engine_script_reply (engine, context, self->messages, self->raw, request,
                                    &self->exits, error)
        : !llm_engine_fill_decoder (engine, request, self->options, error))
    return FALSE;

  request->data = g_object_ref (self);
  self->request = g_steal_pointer (&request);
  llm_engine_submit (engine, self->request);
  return TRUE;
}

static void on_model (GObject      *source,
                      GAsyncResult *result,
                      gpointer      data);

static void
on_prepared (GObject      *source,
             GAsyncResult *result,
             gpointer      data)
{
  g_autoptr(LlmGeneration) self = data;
  g_autoptr(GError) error = NULL;
  guint n_system;
  g_autoptr(GArray) tokens = llm_prepare_finish (result, &n_system, &error);

  if (self->is_cancelled && error == NULL)
    llm_fail (&error, LLMSVC_ERROR_CANCELLED, "The answer was cancelled");

  /* The model may have been unloaded or changed while the text was prepared:
   * these tokens are then worth nothing, and the call begins anew. */
  if (error == NULL && (self->engine->model != self->model || self->engine->is_loading))
    {
      g_clear_pointer (&self->model, llm_model_unref);
      llm_engine_await_model (self->engine, on_model, g_object_ref (self));
      return;
    }

  if (error != NULL || !submit (self, tokens, n_system, &error))
    llm_generation_settle (self, NULL, error);
}

/* The system messages that all begins with: a window that slides keeps them. */
static void
add_system (LlmGeneration   *self,
            LlmPrepareInput *input)
{
  LlmConversation *conversation =
    self->context != NULL ? self->context->conversation : NULL;
  guint n_known = conversation != NULL ? llm_conversation_get_n_messages (conversation) : 0;
  GVariantIter iter;
  const char *role;
  const char *text;

  llm_prepare_input_count_system (input);
  for (guint i = 0; i < n_known; i++)
    {
      const LlmStoredMessage *message = llm_conversation_get_message (conversation, i);

      if (!g_str_equal (message->role, "system"))
        return;
      llm_prepare_input_add_system (input, message->text);
    }
  g_variant_iter_init (&iter, self->messages);
  while (g_variant_iter_next (&iter, "(&s&s@a{sv})", &role, &text, NULL)
         && g_str_equal (role, "system"))
    llm_prepare_input_add_system (input, text);
}

static void
on_model (GObject      *source,
          GAsyncResult *result,
          gpointer      data)
{
  g_autoptr(LlmGeneration) self = data;
  g_autoptr(GError) error = NULL;
  LlmPrepareInput *input;

  self->model = g_task_propagate_pointer (G_TASK (result), &error);
  if (self->model != NULL && self->is_cancelled)
    llm_fail (&error, LLMSVC_ERROR_CANCELLED, "The answer was cancelled");
  if (error != NULL)
    {
      llm_generation_settle (self, NULL, error);
      return;
    }

  if (self->context != NULL)
    {
      input = llm_context_make_input (self->context, self->model, self->messages, TRUE);
    }
  else
    {
      input = llm_prepare_input_new ();
      input->opens_answer = TRUE;
      input->raw = g_strdup (self->raw);
      llm_prepare_input_add_messages (input, self->messages);
    }
  if (wants_to_slide (self))
    add_system (self, input);
  llm_prepare_async (self->model, input, on_prepared, g_object_ref (self));
}

void
llm_generation_start (LlmEngine      *engine,
                      LlmContext     *context,
                      LlmCaller      *caller,
                      GVariant       *messages,
                      const char     *raw,
                      LlmCallOptions *options,
                      LlmSink        *sink,
                      GTask          *admission)
{
  g_autoptr(LlmGeneration) self = g_object_new (LLM_TYPE_GENERATION, NULL);
  LlmAppAccount *app = llm_engine_get_app (engine, caller->app);

  self->id = llm_stored_context_new_id ();
  self->engine = engine;
  self->caller = llm_caller_ref (caller);
  self->options = llm_call_options_ref (options);
  self->sink = llm_sink_ref (sink);
  self->messages = g_variant_ref_sink (messages);
  self->raw = g_strdup (raw);
  self->arrived_us = llm_clock_now_us ();
  self->admission = admission;
  if (context != NULL)
    {
      self->context = g_object_ref (context);
      context->generation = self;
    }

  app->n_calls++;
  app->n_requests++;
  app->last_used = llm_clock_wall_s ();
  engine->counters.requests++;
  g_hash_table_insert (engine->generations, self->id, g_object_ref (self));
  llm_engine_await_model (engine, on_model, g_object_ref (self));
}
