/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* From a call to the executor: the model, the prompt as tokens, the request. */

#define G_LOG_DOMAIN "llm-engine"

#include "base/llm-fail.h"
#include "engine/apps/llm-engine-apps.h"
#include "engine/calls/llm-engine-calls.h"
#include "engine/calls/llm-generation-private.h"

#include "base/llm-clock.h"
#include "common/llmsvc-error.h"
#include "runtime/llm-window.h"

/* Whether the window slides for a text that is longer than @n_ctx: the first @n_system tokens and
 * the newest part stay. */
static gboolean
slides_past (LlmCall *call,
             guint    n_ctx,
             guint    n_system)
{
  guint chunk_slots = call->engine->settings->chunk_tokens;

  return call->slides
         && llm_window_is_possible (n_ctx, llm_window_get_sinks (n_system, chunk_slots),
                                    chunk_slots);
}

static gboolean
check_length (LlmCall *call,
              guint    n_ctx,
              GError **error)
{
  guint chunk_slots = call->engine->settings->chunk_tokens;
  guint n_prompt = call->tokens->len;

  /* an empty raw prompt, with a model whose texts begin with no special token */
  if (n_prompt == 0)
    return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "The prompt is empty: there is nothing to go on from");
  if (n_prompt < n_ctx || slides_past (call, n_ctx, call->n_system))
    return TRUE;
  if (slides_past (call, n_ctx, 0))
    return llm_fail (error, LLMSVC_ERROR_CONTEXT_FULL,
                     "The prompt has %u tokens with what the context holds; the context has room "
                     "for %u. It can't slide: the system message, which stays, takes %u tokens "
                     "with the model's template, and %u are the most that leave room for the "
                     "rest. Shorten the system message, or begin a new context", n_prompt, n_ctx,
                     call->n_system, n_ctx / 2 / chunk_slots * chunk_slots);
  return llm_fail (error, LLMSVC_ERROR_CONTEXT_FULL,
                   "The prompt has %u tokens with what the context holds; the context has room for "
                   "%u, and the answer needs at least one of them. Shorten it, take turns back, or "
                   "begin a new context", n_prompt, n_ctx);
}

/* The text ends where tool calls begin. */
static void
set_tools (LlmGeneration *self,
           LlmRequest    *request)
{
  LlmCall *call = self->call;
  const char *choice =
    llm_call_options_get_string (call->options, LLMSVC_OPTION_TOOL_CHOICE, "auto");
  LlmTemplate *template;

  if (!llm_call_options_has (call->options, LLMSVC_OPTION_TOOLS) || g_str_equal (choice, "none"))
    return;
  template = llm_call_get_template (call);
  call->format =
    llm_call_format_new (template != NULL ? llm_template_get_features (template) : NULL,
                         llm_model_get_tokenizer (call->model));
  self->reader = llm_call_reader_new (
    call->format, call->masks != NULL ? llm_mask_table_get_grammar (call->masks) : NULL);
  request->sink.on_bytes = llm_generation_request_bytes;
  request->answer.calls_marker = g_strdup (call->format->marker);
  request->answer.calls_at_start = call->format->is_at_start;
}

/* Reasoning is no part of the text. */
static void
set_reasoning (LlmCall    *call,
               LlmRequest *request)
{
  LlmTemplate *template = llm_call_get_template (call);

  if (call->raw != NULL || template == NULL || call->thought == LLM_THOUGHT_OVER)
    return;
  request->answer.reasoning =
    llm_reasoning_new (llm_model_get_tokenizer (call->model),
                       llm_template_get_features (template)->think_begin,
                       llm_template_get_features (template)->think_end, call->thought,
                       llm_engine_read_thinking_budget (call->options));
}

static gboolean
fill_request (LlmGeneration *self,
              LlmRequest    *request,
              GError       **error)
{
  LlmCall *call = self->call;
  LlmContext *context = call->context;
  GArray *tokens = call->tokens;
  guint n_ctx = context != NULL ? llm_context_get_limit (context, call->model)
                                : llm_model_get_hparams (call->model)->n_ctx;

  request->arrived_us = self->arrived_us;
  if (!check_length (call, n_ctx, error)
      || (context != NULL
          && !llm_engine_admit_tokens (call->engine, context->app, llm_context_get_tokens (context),
                                       tokens->len, error))
      || !llm_engine_fill_request (call->engine, request, call->options,
                                   context != NULL ? context->slo : NULL, error))
    return FALSE;
  g_array_append_vals (request->prompt, tokens->data, tokens->len);
  if (context != NULL)
    {
      llm_context_set_session (context, request);
      llm_context_set_levels (context, call, request);
    }
  request->window.n_ctx = n_ctx;
  request->window.slides = slides_past (call, n_ctx, call->n_system);
  request->window.n_system = call->n_system;
  request->answer.strips_space = call->raw == NULL;
  if (call->continues)
    llm_call_fill_continue (call, request);
  set_tools (self, request);
  set_reasoning (call, request);
  request->sink.on_admitted = llm_generation_request_admitted;
  request->sink.on_text = llm_generation_request_text;
  request->sink.on_reasoning = llm_generation_request_reasoning;
  request->sink.on_logprobs = llm_generation_request_logprobs;
  request->sink.on_done = llm_generation_request_done;
  return call->engine->settings->script != NULL
           ? llm_engine_script_reply (call, request, error)
           : llm_engine_fill_decoder (call->engine, request, call->options, call->masks,
                                      call->continues ? llm_call_get_continued (call) : NULL,
                                      error);
}

static void
submit (GTask   *task,
        LlmCall *call)
{
  LlmGeneration *self = call->answer.generation;
  g_autoptr(LlmRequest) request = llm_request_new (self->caller->app);
  GError *error = NULL;

  if (!fill_request (self, request, &error))
    {
      llm_call_fail (task, error);
      return;
    }
  request->sink.data = g_object_ref (self);
  self->request = g_steal_pointer (&request);
  llm_engine_submit (call->engine, self->request);
}

static void
fail (LlmCall      *call,
      const GError *error)
{
  llm_generation_settle (call->answer.generation, NULL, error);
}

void
llm_generation_start (GTask *task)
{
  g_autoptr(LlmGeneration) self = g_object_new (LLM_TYPE_GENERATION, NULL);
  LlmCall *call = g_task_get_task_data (task);
  LlmEngine *engine = call->engine;

  self->id = llm_stored_context_new_id ();
  self->engine = engine;
  self->caller = llm_caller_ref (call->caller);
  self->task = g_object_ref (task);
  self->call = call;
  self->arrived_us = llm_clock_now_us ();
  call->answer.generation = self;
  call->answer.failed = fail;
  call->slides = g_str_equal (
    llm_call_options_get_string (call->options, LLMSVC_OPTION_ON_OVERFLOW, "error"), "slide");
  if (call->context != NULL)
    call->context->generation = self;

  llm_engine_get_app (engine, call->caller->app)->n_requests++;
  engine->counters.requests++;
  g_hash_table_insert (engine->calls.generations, self->id, g_object_ref (self));
  llm_call_tokenize (task, submit);
}
