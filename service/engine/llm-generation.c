/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-engine"

#include "engine/llm-generation-private.h"

#include "base/llm-clock.h"
#include "common/llmsvc-error.h"
#include "engine/llm-answer-record.h"
#include "engine/llm-context-private.h"
#include "engine/llm-window.h"

/* Ended answers that can still be asked for their state or be cancelled in vain. */
#define MAX_ENDED 64

struct _LlmGeneration
{
  GObject parent_instance;

  char *id;
  LlmEngine *engine;        /* (unowned): outlives it */
  LlmContext *context;      /* (nullable) (owned) */
  LlmCaller *caller;
  LlmCallOptions *options;
  LlmSink *sink;            /* (owned) */
  GVariant *messages;
  char *raw;                /* (nullable) */
  gint64 arrived_us;

  GTask *admission;         /* (nullable) (owned): until admitted or refused */
  LlmModel *model;          /* (nullable) (owned): from then on */
  LlmJob *job;              /* (nullable) (owned) */
  GQueue waiting_end;       /* (element-type GTask) (owned): of cancel calls */
  GVariant *results;        /* (nullable): while being committed */
  LlmAnswerRecord record;   /* for the journal */
  guint stall_timer;        /* source */
  gboolean is_cancelled;
  gboolean is_left;         /* nobody is there to take the rest */
  gboolean is_done;
};

enum
{
  DONE,
  N_SIGNALS
};

static guint signals[N_SIGNALS];

G_DEFINE_FINAL_TYPE (LlmGeneration, llm_generation, G_TYPE_OBJECT)

/* --- the end --- */

static void
send_record (LlmGeneration *self,
             const GError  *error)
{
  LlmAnswerRecord *record = &self->record;

  record->caller = self->caller;
  record->context = self->context != NULL ? self->context->id : NULL;
  record->model = self->engine->active != NULL ? self->engine->active->id : NULL;
  record->total_ms = (llm_clock_now_us () - self->arrived_us) / 1000.0;
  llm_answer_record_send (record, error, self->engine->journal);
}

static void
settle (LlmGeneration *self,
        GVariant      *results,
        const GError  *error)
{
  LlmApp *app = llm_engine_get_app (self->engine, self->caller->uid, self->caller->app_id);
  GTask *task;

  g_assert (!self->is_done);
  self->is_done = TRUE;
  g_clear_handle_id (&self->stall_timer, g_source_remove);
  g_signal_handlers_disconnect_by_data (self->sink, self);
  app->n_calls--;
  if (self->context != NULL)
    {
      self->context->generation = NULL;
      llm_context_release (self->context);
    }
  if (error != NULL && g_error_matches (error, LLMSVC_ERROR, LLMSVC_ERROR_CANCELLED))
    self->engine->counters.cancelled++;
  else if (error != NULL)
    self->engine->counters.failed++;

  send_record (self, error);
  if (self->admission != NULL)
    {
      g_autoptr(GTask) admission = g_steal_pointer (&self->admission);

      g_task_return_error (admission, g_error_copy (error));
    }
  else
    {
      llm_sink_finish (self->sink, results, error);
    }
  while ((task = g_queue_pop_head (&self->waiting_end)) != NULL)
    {
      g_task_return_boolean (task, TRUE);
      g_object_unref (task);
    }
  g_signal_emit (self, signals[DONE], 0);

  /* A cancel may come after the end and must find what it is for; nothing else of it
   * is needed. */
  g_clear_object (&self->context);
  g_clear_object (&self->sink);
  g_clear_pointer (&self->job, llm_job_unref);
  g_clear_pointer (&self->model, llm_model_unref);
  g_clear_pointer (&self->messages, g_variant_unref);
  g_clear_pointer (&self->raw, g_free);
  g_queue_push_head (&self->engine->ended, g_object_ref (self));
  if (self->engine->ended.length > MAX_ENDED)
    g_object_unref (g_queue_pop_tail (&self->engine->ended));
  g_hash_table_remove (self->engine->generations, self->id);
}

static void
count_answer (LlmEngineCounters  *counters,
              const LlmJobResult *result,
              gboolean            is_met)
{
  LlmSloCounters *of_class = &counters->slo[result->slo.class];

  of_class->calls++;
  if (is_met)
    of_class->met++;
  else
    of_class->missed++;
  if (result->forecast_ms > 0 && result->ttft_ms > 0)
    {
      counters->forecasts++;
      counters->forecast_error_ms += ABS (result->ttft_ms - result->forecast_ms);
    }
}

static void
count_refusal (LlmGeneration *self,
               const GError  *error)
{
  LlmSloCounters *of_class = &self->engine->counters.slo[self->job->slo.class];

  if (!g_error_matches (error, LLMSVC_ERROR, LLMSVC_ERROR_OVERLOADED))
    return;
  of_class->calls++;
  of_class->refused++;
}

static GVariant *
make_results (LlmGeneration      *self,
              const LlmJobResult *result)
{
  GVariantDict dict;
  gboolean is_met = llm_slo_is_met (&result->slo, result->ttft_ms, result->tpot_ms);
  LlmModelInfo *info = self->engine->active;

  count_answer (&self->engine->counters, result, is_met);

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "finish-reason", "s", llm_job_end_to_string (result->end));
  g_variant_dict_insert (&dict, "prompt-tokens", "u", result->n_prompt);
  g_variant_dict_insert (&dict, "reused-tokens", "u", result->n_reused);
  g_variant_dict_insert (&dict, "output-tokens", "u", result->tokens->len);
  if (result->n_slid > 0)
    g_variant_dict_insert (&dict, "kept-tokens", "u",
                           result->n_prompt + result->tokens->len - result->n_slid);
  g_variant_dict_insert (&dict, "ttft-ms", "d", result->ttft_ms);
  g_variant_dict_insert (&dict, "tpot-ms", "d", result->tpot_ms);
  g_variant_dict_insert (&dict, "queue-ms", "d", result->queue_ms);
  g_variant_dict_insert (&dict, "slo", "s", llm_slo_class_to_string (result->slo.class));
  g_variant_dict_insert (&dict, "slo-met", "b", is_met);
  g_variant_dict_insert (&dict, "ttft-target-ms", "d", result->slo.ttft_ms);
  g_variant_dict_insert (&dict, "tpot-target-ms", "d", result->slo.tpot_ms);
  if (result->forecast_ms > 0)
    g_variant_dict_insert (&dict, "ttft-forecast-ms", "d", result->forecast_ms);
  g_variant_dict_insert (&dict, "sub-model", "u", 100);
  g_variant_dict_insert (&dict, "prompt-level", "u", 100);
  g_variant_dict_insert (&dict, "ignored", "^as", llm_call_options_get_ignored (self->options));
  if (info != NULL)
    g_variant_dict_insert (&dict, "model", "s", info->id);
  if (self->context != NULL)
    g_variant_dict_insert (&dict, "revision", "t", self->context->revision + 1);
  return g_variant_ref_sink (g_variant_dict_end (&dict));
}

static void
on_committed (GObject      *source,
              GAsyncResult *result,
              gpointer      data)
{
  g_autoptr(LlmGeneration) self = data;
  g_autoptr(GError) error = NULL;

  if (llm_context_commit_finish (self->context, result, &error))
    {
      if (!llm_engine_script_exits (self->engine, self->job, LLM_REPLY_EXIT_AFTER_KEEP))
        settle (self, self->results, NULL);
    }
  else
    settle (self, NULL, error);
}

/* The turn: what was asked, and the answer. */
static LlmTurn *
make_turn (LlmGeneration      *self,
           const LlmJobResult *result)
{
  LlmTurn *turn = llm_turn_new ();
  const char *request_id =
      llm_call_options_get_string (self->options, LLMSVC_OPTION_REQUEST_ID, NULL);

  llm_turn_add_messages (turn, self->messages);
  g_ptr_array_add (turn->messages, llm_stored_message_new ("assistant", result->text->str, NULL));
  turn->request_id = g_strdup (request_id);
  turn->results = g_variant_ref (self->results);

  /* Tokens that hold exactly the text settle the turn. Behind a stop string or
   * a cancel there are tokens whose text was not kept. */
  if (result->end == LLM_JOB_STOP || result->end == LLM_JOB_LENGTH ||
      result->end == LLM_JOB_CONTEXT_FULL)
    {
      g_autoptr(GArray) settled = g_array_new (FALSE, FALSE, sizeof (gint32));
      const char *identity = llm_model_get_identity (self->model);
      guint first_message;

      llm_conversation_get_settled (self->context->conversation, identity, settled, &first_message);
      turn->tokens = g_array_new (FALSE, FALSE, sizeof (gint32));
      g_array_append_vals (turn->tokens, &g_array_index (self->job->prompt, gint32, settled->len),
                           self->job->prompt->len - settled->len);
      g_array_append_vals (turn->tokens, result->tokens->data, result->tokens->len);
      turn->identity = g_strdup (identity);
      turn->is_closed = result->is_closed;
      turn->n_tokens = turn->tokens->len;
    }
  else
    {
      turn->n_tokens = result->tokens->len;
    }
  return turn;
}

static void
finish_well (LlmGeneration      *self,
             const LlmJobResult *result)
{
  LlmEngineCounters *counters = &self->engine->counters;

  if (llm_engine_script_exits (self->engine, self->job, LLM_REPLY_EXIT_BEFORE_KEEP))
    return;
  counters->prompt_tokens += result->n_prompt;
  counters->reused_tokens += result->n_reused;
  counters->output_tokens += result->tokens->len;
  self->results = make_results (self, result);
  if (self->context != NULL)
    llm_context_commit (self->context, llm_conversation_get_n_turns (self->context->conversation),
                        make_turn (self, result), on_committed, g_object_ref (self));
  else if (!llm_engine_script_exits (self->engine, self->job, LLM_REPLY_EXIT_AFTER_KEEP))
    settle (self, self->results, NULL);
}

static gboolean
keeps_partial (LlmGeneration *self)
{
  return self->context != NULL && !self->is_left &&
         g_str_equal (
           llm_call_options_get_string (self->options, LLMSVC_OPTION_ON_CANCEL, "discard"), "keep");
}

static void
on_job_done (LlmJob             *job,
             const LlmJobResult *result,
             gpointer            data)
{
  g_autoptr(LlmGeneration) self = data;
  g_autoptr(GError) error = NULL;

  llm_engine_job_ended (self->engine);
  if (self->is_done)
    return;
  llm_answer_record_take (&self->record, result);

  switch (result->end)
    {
    case LLM_JOB_STOP:
    case LLM_JOB_STOP_STRING:
    case LLM_JOB_LENGTH:
    case LLM_JOB_CONTEXT_FULL:
      if (!self->is_left)
        {
          finish_well (self, result);
          return;
        }
      g_set_error_literal (&error, LLMSVC_ERROR, LLMSVC_ERROR_CANCELLED, "The caller left");
      break;
    case LLM_JOB_CANCELLED:
    case LLM_JOB_STALLED:
      if (keeps_partial (self) && result->text->len > 0)
        {
          finish_well (self, result);
          return;
        }
      if (result->end == LLM_JOB_STALLED)
        g_set_error_literal (&error, LLMSVC_ERROR, LLMSVC_ERROR_CANCELLED,
                             "The reader left the pipe full for too long (stalled)");
      else
        g_set_error_literal (&error, LLMSVC_ERROR, LLMSVC_ERROR_CANCELLED,
                             "The answer was cancelled");
      break;
    case LLM_JOB_DEADLINE:
      g_set_error (&error, LLMSVC_ERROR, LLMSVC_ERROR_DEADLINE_EXCEEDED,
                   "The answer was not whole within deadline-ms = %ju",
                   llm_call_options_get_uint (self->options, LLMSVC_OPTION_DEADLINE_MS, 0));
      break;
    case LLM_JOB_FAILED:
      error = g_error_copy (result->error);
      count_refusal (self, error);
      if (g_error_matches (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_MODEL))
        self->engine->is_suspect = TRUE;
      break;
    case LLM_JOB_RUNNING:
    default:
      g_assert_not_reached ();
    }
  settle (self, NULL, error);
}

/* --- while it runs --- */

static void
request_stop (LlmGeneration *self,
              LlmJobEnd      end)
{
  guint running = LLM_JOB_RUNNING;

  if (self->job == NULL)
    return;
  __atomic_compare_exchange_n (&self->job->stop_request, &running, end, FALSE, __ATOMIC_RELEASE,
                               __ATOMIC_RELAXED);
  llm_executor_poke (self->engine->executor);
}

static gboolean
on_stalled (gpointer data)
{
  LlmGeneration *self = data;

  self->stall_timer = 0;
  request_stop (self, LLM_JOB_STALLED);
  return G_SOURCE_REMOVE;
}

static void
on_job_text (LlmJob     *job,
             const char *text,
             gsize       length,
             gpointer    data)
{
  LlmGeneration *self = data;

  if (self->is_done || self->is_left || llm_sink_accept (self->sink, text, length))
    return;
  __atomic_store_n (&job->is_parked, TRUE, __ATOMIC_RELEASE);
  if (self->stall_timer == 0)
    self->stall_timer =
      g_timeout_add_seconds (self->engine->settings->stall_timeout_s, on_stalled, self);
}

static void
on_sink_drained (LlmSink *sink,
                 gpointer data)
{
  LlmGeneration *self = data;

  g_clear_handle_id (&self->stall_timer, g_source_remove);
  if (self->job != NULL)
    {
      __atomic_store_n (&self->job->is_parked, FALSE, __ATOMIC_RELEASE);
      llm_executor_poke (self->engine->executor);
    }
}

static void
cancel (LlmGeneration *self)
{
  if (self->is_done)
    return;
  self->is_cancelled = TRUE;
  request_stop (self, LLM_JOB_CANCELLED);
}

static void
on_sink_closed (LlmSink *sink,
                gpointer data)
{
  llm_generation_leave (data);
}

void
llm_generation_leave (LlmGeneration *self)
{
  self->is_left = TRUE;
  cancel (self);
}

/* --- the beginning --- */

static gboolean
check_length (LlmGeneration *self,
              guint          n_prompt,
              guint          n_ctx,
              gboolean       slides,
              GError       **error)
{
  if (n_prompt == 0)
    {
      /* a raw prompt, and a model whose texts begin with no token of their own */
      g_set_error_literal (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                           "The prompt is empty: there is nothing to go on from");
      return FALSE;
    }
  if (n_prompt < n_ctx || slides)
    return TRUE;
  g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_CONTEXT_FULL,
               "The prompt has %u tokens with what the context holds; the context has room for %u, "
               "and the answer needs at least one of them. Shorten it, roll turns back, "
               "or begin a new context",
               n_prompt, n_ctx);
  return FALSE;
}

/* Whether the model goes on with the beginning and the newest part of a text that is longer than
 * @n_ctx. */
static gboolean
slides_past (LlmGeneration *self,
             guint          n_ctx)
{
  const char *choice =
      llm_call_options_get_string (self->options, LLMSVC_OPTION_ON_OVERFLOW, "error");

  return g_str_equal (choice, "slide")
         && llm_window_is_possible (n_ctx, self->engine->settings->chunk_tokens);
}

/* The executor took the job. */
static void
on_job_admitted (LlmJob  *job,
                 gpointer data)
{
  LlmGeneration *self = data;
  g_autoptr(GTask) task = NULL;

  if (self->is_done)
    return;
  task = g_steal_pointer (&self->admission);
  g_signal_connect (self->sink, "drained", G_CALLBACK (on_sink_drained), self);
  g_signal_connect (self->sink, "closed", G_CALLBACK (on_sink_closed), self);
  g_task_return_pointer (task, g_object_ref (self), g_object_unref);
}

static gboolean
submit (LlmGeneration *self,
        GArray        *tokens,
        GError       **error)
{
  LlmEngine *engine = self->engine;
  guint n_ctx = llm_model_get_hparams (self->model)->n_ctx;
  g_autoptr(LlmJob) job = llm_job_new ();
  LlmContext *context = self->context;
  gboolean slides;

  if (context != NULL)
    n_ctx = llm_context_get_limit (context, self->model);
  slides = slides_past (self, n_ctx);
  if (!check_length (self, tokens->len, n_ctx, slides, error))
    return FALSE;
  if (context != NULL)
    {
      guint n_held = llm_context_get_tokens (context);

      if (!llm_engine_admit_tokens (engine, context->uid, context->app_id,
                                    tokens->len > n_held ? tokens->len - n_held : 0, error))
        return FALSE;
    }

  job->arrived_us = self->arrived_us;
  if (!llm_engine_fill_job (engine, job, self->options, context != NULL ? context->slo : NULL,
                            error))
    return FALSE;
  g_array_append_vals (job->prompt, tokens->data, tokens->len);
  if (context != NULL)
    llm_conversation_get_generated (context->conversation, llm_model_get_identity (self->model),
                                    job->generated);
  job->generates = TRUE;
  job->n_ctx = n_ctx;
  job->slides = slides;
  if (context != NULL)
    llm_context_set_session (context, job);
  job->strips_space = self->raw == NULL;
  job->app = llm_app_make_key (self->caller->uid, self->caller->app_id);
  job->on_admitted = on_job_admitted;
  job->on_text = on_job_text;
  job->on_done = on_job_done;
  if (engine->settings->script != NULL &&
      !llm_engine_script_reply (engine, context, self->messages, self->raw, job, error))
    return FALSE;

  job->data = g_object_ref (self);
  self->job = g_steal_pointer (&job);
  llm_engine_submit (engine, self->job);
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
  g_autoptr(GArray) tokens = llm_prepare_finish (result, &error);

  if (self->is_cancelled && error == NULL)
    g_set_error_literal (&error, LLMSVC_ERROR, LLMSVC_ERROR_CANCELLED, "The answer was cancelled");

  /* The model may have been unloaded or changed while the text was prepared:
   * these tokens are then worth nothing, and the call begins anew. */
  if (error == NULL && (self->engine->model != self->model || self->engine->is_loading))
    {
      g_clear_pointer (&self->model, llm_model_unref);
      llm_engine_await_model (self->engine, on_model, g_object_ref (self));
      return;
    }

  if (error != NULL || !submit (self, tokens, &error))
    settle (self, NULL, error);
}

static void
on_model (GObject      *source,
          GAsyncResult *result,
          gpointer      data)
{
  g_autoptr(LlmGeneration) self = data;
  g_autoptr(GError) error = NULL;
  LlmPrepareInput *input;

  self->model = llm_engine_await_model_finish (result, &error);
  if (self->model != NULL && self->is_cancelled)
    g_set_error_literal (&error, LLMSVC_ERROR, LLMSVC_ERROR_CANCELLED, "The answer was cancelled");
  if (error != NULL)
    {
      settle (self, NULL, error);
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
  llm_prepare_async (self->model, input, on_prepared, g_object_ref (self));
}

void
llm_generation_start (LlmEngine          *engine,
                      LlmContext         *context,
                      LlmCaller          *caller,
                      GVariant           *messages,
                      const char         *raw,
                      LlmCallOptions     *options,
                      LlmSink            *sink,
                      GAsyncReadyCallback callback,
                      gpointer            data)
{
  g_autoptr(LlmGeneration) self = g_object_new (LLM_TYPE_GENERATION, NULL);
  LlmApp *app = llm_engine_get_app (engine, caller->uid, caller->app_id);

  self->id = llm_engine_new_id ();
  self->engine = engine;
  self->caller = llm_caller_ref (caller);
  self->options = llm_call_options_ref (options);
  self->sink = g_object_ref (sink);
  self->messages = g_variant_ref_sink (messages);
  self->raw = g_strdup (raw);
  self->arrived_us = llm_clock_now_us ();
  self->admission = g_task_new (engine, NULL, callback, data);
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

LlmGeneration *
llm_generation_start_finish (GAsyncResult *result,
                             GError      **error)
{
  return g_task_propagate_pointer (G_TASK (result), error);
}

LlmGeneration *
llm_generation_new_settled (LlmCaller *caller)
{
  LlmGeneration *self = g_object_new (LLM_TYPE_GENERATION, NULL);

  self->id = llm_engine_new_id ();
  self->caller = llm_caller_ref (caller);
  self->is_done = TRUE;
  return self;
}

void
llm_generation_abandon (LlmGeneration *self)
{
  g_autoptr(LlmGeneration) hold = g_object_ref (self);
  g_autoptr(GError) error = g_error_new_literal (LLMSVC_ERROR, LLMSVC_ERROR_CANCELLED,
                                                 "The service is ending");

  if (!self->is_done)
    settle (self, NULL, error);
}

/* --- the object --- */

static void
llm_generation_finalize (GObject *object)
{
  LlmGeneration *self = LLM_GENERATION (object);

  g_clear_handle_id (&self->stall_timer, g_source_remove);
  g_clear_object (&self->context);
  g_clear_object (&self->sink);
  g_clear_pointer (&self->job, llm_job_unref);
  g_clear_pointer (&self->model, llm_model_unref);
  g_clear_pointer (&self->messages, g_variant_unref);
  g_clear_pointer (&self->results, g_variant_unref);
  llm_caller_unref (self->caller);
  g_clear_pointer (&self->options, llm_call_options_unref);
  g_free (self->raw);
  g_free (self->id);
  G_OBJECT_CLASS (llm_generation_parent_class)->finalize (object);
}

static void
llm_generation_class_init (LlmGenerationClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = llm_generation_finalize;
  signals[DONE] = g_signal_new ("done", LLM_TYPE_GENERATION, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                                G_TYPE_NONE, 0);
}

static void
llm_generation_init (LlmGeneration *self)
{
  g_queue_init (&self->waiting_end);
}

const char *
llm_generation_get_id (LlmGeneration *self)
{
  return self->id;
}

LlmCaller *
llm_generation_get_caller (LlmGeneration *self)
{
  return self->caller;
}

LlmGenerationState
llm_generation_get_state (LlmGeneration *self)
{
  LlmJob *job = self->job;

  if (self->is_done)
    return LLM_GENERATION_DONE;
  if (job == NULL)
    return LLM_GENERATION_QUEUED;
  if (__atomic_load_n (&job->is_parked, __ATOMIC_ACQUIRE))
    return LLM_GENERATION_PARKED;
  if (__atomic_load_n (&job->has_first, __ATOMIC_ACQUIRE))
    return LLM_GENERATION_WRITING;
  if (__atomic_load_n (&job->has_started, __ATOMIC_ACQUIRE))
    return LLM_GENERATION_READING;
  return LLM_GENERATION_QUEUED;
}

const char *
llm_generation_state_to_string (LlmGenerationState state)
{
  static const char *const names[] = { "queued", "reading", "writing", "parked", "done" };

  g_assert (state < G_N_ELEMENTS (names));
  return names[state];
}

void
llm_generation_cancel_async (LlmGeneration      *self,
                             GAsyncReadyCallback callback,
                             gpointer            data)
{
  GTask *task = g_task_new (self, NULL, callback, data);

  if (self->is_done)
    {
      g_task_return_boolean (task, TRUE);
      g_object_unref (task);
      return;
    }
  g_queue_push_tail (&self->waiting_end, task);
  cancel (self);
}

gboolean
llm_generation_cancel_finish (LlmGeneration *self,
                              GAsyncResult  *result,
                              GError       **error)
{
  return g_task_propagate_boolean (G_TASK (result), error);
}
