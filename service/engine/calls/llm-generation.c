/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-engine"

#include "engine/calls/llm-generation-private.h"
#include "engine/models/llm-engine-models.h"

#include "common/llmsvc-error-private.h"

/* Ended answers that are kept, so that late queries and cancels find them. */
#define MAX_ENDED 64

static guint done_signal;

G_DEFINE_FINAL_TYPE (LlmGeneration, llm_generation, G_TYPE_OBJECT)

/* --- the end --- */

void
llm_generation_settle (LlmGeneration *self,
                       GVariant      *results,
                       const GError  *error)
{
  g_autoptr(GTask) hold = g_steal_pointer (&self->task);
  LlmCall *call = self->call;
  LlmEngine *engine = self->engine;
  GTask *task;

  g_assert (!self->is_done);
  self->is_done = TRUE;
  g_clear_handle_id (&self->stall_timer, g_source_remove);
  llm_generation_end_progress (self);
  llm_sink_listen (call->answer.sink, NULL, NULL, NULL);
  call->answer.generation = NULL;
  call->step = NULL;
  if (call->has_claimed)
    call->context->generation = NULL;
  llm_call_release (hold);
  g_clear_pointer (&self->reader, llm_call_reader_free);
  if (error != NULL && g_error_matches (error, LLMSVC_ERROR, LLMSVC_ERROR_CANCELLED))
    engine->counters.cancelled++;
  else if (error != NULL)
    engine->counters.failed++;

  llm_generation_send_record (self, error);
  if (!self->is_admitted)
    g_task_return_error (hold, g_error_copy (error));
  else if (self->exits && results != NULL)
    llm_engine_script_exit (engine, g_steal_pointer (&call->answer.sink));
  else
    llm_sink_finish (call->answer.sink, results, error);
  while ((task = g_queue_pop_head (&self->waiting_end)) != NULL)
    {
      g_task_return_boolean (task, TRUE);
      g_object_unref (task);
    }
  g_signal_emit (self, done_signal, 0);

  /* A cancel may come after the end and must find the object; its other data is not needed. */
  self->call = NULL;
  self->result = NULL;
  g_clear_pointer (&self->request, llm_request_unref);
  g_queue_push_head (&engine->calls.ended, g_object_ref (self));
  if (engine->calls.ended.length > MAX_ENDED)
    g_object_unref (g_queue_pop_tail (&engine->calls.ended));
  g_hash_table_remove (engine->calls.generations, self->id);
}

/* --- while it runs --- */

static void
request_stop (LlmGeneration *self,
              LlmFinish      end)
{
  guint running = LLM_FINISH_RUNNING;

  if (self->request == NULL)
    return;
  __atomic_compare_exchange_n (&self->request->progress.stop_request, &running, end, FALSE,
                               __ATOMIC_RELEASE, __ATOMIC_RELAXED);
  llm_executor_poke (self->engine->executor);
}

static gboolean
on_stalled (gpointer data)
{
  LlmGeneration *self = data;

  self->stall_timer = 0;
  request_stop (self, LLM_FINISH_STALLED);
  return G_SOURCE_REMOVE;
}

/* The sink is full. */
static void
wait_for_reader (LlmGeneration *self)
{
  __atomic_store_n (&self->request->progress.is_blocked, TRUE, __ATOMIC_RELEASE);
  if (self->stall_timer == 0)
    self->stall_timer =
      g_timeout_add_seconds (self->engine->settings->stall_timeout_s, on_stalled, self);
}

void
llm_generation_request_text (LlmRequest *request,
                             const char *text,
                             gsize       length,
                             gpointer    data)
{
  LlmGeneration *self = data;

  llm_generation_end_progress (self);
  if (!self->is_done && !self->is_left && !llm_sink_accept (self->call->answer.sink, text, length))
    wait_for_reader (self);
}

void
llm_generation_request_reasoning (LlmRequest *request,
                                  const char *text,
                                  gsize       length,
                                  gpointer    data)
{
  LlmGeneration *self = data;

  llm_generation_end_progress (self);
  if (!self->is_done && !self->is_left
      && !llm_sink_accept_reasoning (self->call->answer.sink, text, length))
    wait_for_reader (self);
}

void
llm_generation_request_logprobs (LlmRequest *request,
                                 const char *items,
                                 gpointer    data)
{
  LlmGeneration *self = data;

  llm_generation_end_progress (self);
  if (self->is_done || self->is_left)
    return;
  if (!llm_sink_takes_logprobs (self->call->answer.sink))
    g_string_append_printf (self->logprobs, "%s%s", self->logprobs->len > 0 ? "," : "", items);
  else if (!llm_sink_accept_logprobs (self->call->answer.sink, items))
    wait_for_reader (self);
}

void
llm_generation_request_bytes (LlmRequest *request,
                              const char *bytes,
                              gsize       length,
                              gpointer    data)
{
  LlmGeneration *self = data;
  guint n_calls;

  if (self->is_done || self->is_left)
    return;
  n_calls = llm_call_reader_push (self->reader, bytes, length);
  for (; self->n_calls < n_calls; self->n_calls++)
    if (!llm_sink_call (self->call->answer.sink, llm_call_reader_get (self->reader, self->n_calls)))
      wait_for_reader (self);
}

static void
on_sink_drained (gpointer data)
{
  LlmGeneration *self = data;

  g_clear_handle_id (&self->stall_timer, g_source_remove);
  if (self->request != NULL)
    {
      __atomic_store_n (&self->request->progress.is_blocked, FALSE, __ATOMIC_RELEASE);
      llm_executor_poke (self->engine->executor);
    }
}

static void
cancel (LlmGeneration *self)
{
  if (self->is_done)
    return;
  self->call->answer.is_cancelled = TRUE;
  if (self->call->answer.compiling != NULL)
    g_cancellable_cancel (self->call->answer.compiling);
  llm_engine_wake_prefill (self->engine);
  request_stop (self, LLM_FINISH_CANCELLED);
}

static void
on_sink_closed (gpointer data)
{
  llm_generation_leave (data);
}

/* The executor took the request. */
void
llm_generation_request_admitted (LlmRequest *request,
                                 gpointer    data)
{
  LlmGeneration *self = data;

  if (self->is_done)
    return;
  self->is_admitted = TRUE;
  llm_sink_listen (self->call->answer.sink, on_sink_drained, on_sink_closed, self);
  llm_generation_begin_progress (self);
  g_task_return_pointer (self->task, g_object_ref (self), g_object_unref);
}

void
llm_generation_leave (LlmGeneration *self)
{
  self->is_left = TRUE;
  cancel (self);
}

LlmGeneration *
llm_generation_new_settled (LlmCaller *caller)
{
  LlmGeneration *self = g_object_new (LLM_TYPE_GENERATION, NULL);

  self->id = llm_stored_context_new_id ();
  self->caller = llm_caller_ref (caller);
  self->is_done = TRUE;
  return self;
}

void
llm_generation_abandon (LlmGeneration *self)
{
  g_autoptr(LlmGeneration) hold = g_object_ref (self);
  g_autoptr(GError) error =
    llmsvc_error_new (LLMSVC_ERROR_CANCELLED, NULL, "The service is ending");

  if (!self->is_done)
    llm_generation_settle (self, NULL, error);
}

/* --- the object --- */

static void
llm_generation_finalize (GObject *object)
{
  LlmGeneration *self = LLM_GENERATION (object);

  g_clear_handle_id (&self->stall_timer, g_source_remove);
  llm_generation_end_progress (self);
  g_clear_object (&self->task);
  g_clear_pointer (&self->request, llm_request_unref);
  g_clear_pointer (&self->results, g_variant_unref);
  llm_caller_unref (self->caller);
  g_clear_pointer (&self->reader, llm_call_reader_free);
  g_free (self->calls);
  g_string_free (self->logprobs, TRUE);
  g_free (self->id);
  G_OBJECT_CLASS (llm_generation_parent_class)->finalize (object);
}

static void
llm_generation_class_init (LlmGenerationClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = llm_generation_finalize;
  done_signal = g_signal_new ("done", LLM_TYPE_GENERATION, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                              G_TYPE_NONE, 0);
}

static void
llm_generation_init (LlmGeneration *self)
{
  g_queue_init (&self->waiting_end);
  self->logprobs = g_string_new (NULL);
}

const char *
llm_generation_get_id (LlmGeneration *self)
{
  return self->id;
}

LlmGenerationState
llm_generation_get_state (LlmGeneration *self)
{
  LlmRequest *request = self->request;

  if (self->is_done)
    return LLM_GENERATION_DONE;
  if (request == NULL)
    return LLM_GENERATION_QUEUED;
  if (__atomic_load_n (&request->progress.is_blocked, __ATOMIC_ACQUIRE))
    return LLM_GENERATION_STALLED;
  if (__atomic_load_n (&request->progress.has_first, __ATOMIC_ACQUIRE))
    return LLM_GENERATION_DECODE;
  if (__atomic_load_n (&request->progress.has_started, __ATOMIC_ACQUIRE))
    return LLM_GENERATION_PREFILL;
  return LLM_GENERATION_QUEUED;
}

const char *
llm_generation_state_to_string (LlmGenerationState state)
{
  static const char *const names[] = { "queued", "prefill", "decode", "stalled", "done" };

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
