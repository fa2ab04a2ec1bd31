/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What callers do with a context, and its end. */

#define G_LOG_DOMAIN "llm-engine"

#include "base/llm-fail.h"
#include "engine/llm-call.h"

#include <string.h>

#include "common/llmsvc-error-private.h"
#include "contexts/llm-request-id.h"
#include "engine/llm-generation-private.h"

/* One reply of messages stays well below what a bus lets through. */
#define MAX_REPLY_BYTES (4 * 1024 * 1024)

/* --- generate --- */

/* The same request came again: its answer is given again, nothing is changed. */
static void
repeat_answer (GTask         *task,
               LlmCall       *call,
               const LlmTurn *turn)
{
  const char *answer = llm_turn_get_answer (turn);
  g_autoptr(GVariant) results = llm_request_id_get_results (turn);
  g_autoptr(LlmSink) sink = llm_sink_ref (call->sink);

  llm_context_release (g_task_get_source_object (task));
  g_task_return_pointer (task, llm_generation_new_settled (call->caller), g_object_unref);
  llm_sink_accept (sink, answer, strlen (answer));
  llm_sink_finish (sink, results, NULL);
}

static void
generate (GTask   *task,
          LlmCall *call)
{
  LlmContext *self = g_task_get_source_object (task);
  GError *error = NULL;
  LlmTurn *turn = NULL;

  if (llm_request_id_find (self->conversation, LLM_REQUEST_ANSWER, call->messages, call->options,
                           &turn, &error)
      && turn != NULL)
    {
      repeat_answer (task, call, turn);
      return;
    }
  if (error == NULL && llm_call_options_has (call->options, LLMSVC_OPTION_IF_REVISION)
      && llm_call_options_get_uint (call->options, LLMSVC_OPTION_IF_REVISION, 0) != self->revision)
    llm_fail (&error, LLMSVC_ERROR_CONFLICT,
              "The context is at revision %ju; read its messages again", self->revision);
  else if (error == NULL && g_variant_n_children (call->messages) == 0
           && llm_conversation_get_n_messages (self->conversation) == 0)
    llm_fail (&error, LLMSVC_ERROR_INVALID_ARGUMENT,
              "There is nothing to answer: the context is empty and no message was given");
  if (error != NULL)
    llm_call_fail (task, error);
  else
    llm_generation_start (self->engine, self, call->caller, call->messages, NULL, call->options,
                          call->sink, g_object_ref (task));
}

void
llm_context_generate_async (LlmContext         *self,
                            LlmCaller          *caller,
                            GVariant           *messages,
                            LlmCallOptions     *options,
                            LlmSink            *sink,
                            GAsyncReadyCallback callback,
                            gpointer            data)
{
  GTask *task = llm_call_new (self, caller, messages, options, callback, data);

  ((LlmCall *) g_task_get_task_data (task))->sink = llm_sink_ref (sink);
  llm_call_begin (task, generate);
}

LlmGeneration *
llm_context_generate_finish (LlmContext   *self,
                             GAsyncResult *result,
                             GError      **error)
{
  return g_task_propagate_pointer (G_TASK (result), error);
}

/* --- messages --- */

static void
on_loaded_for_messages (GObject      *source,
                        GAsyncResult *result,
                        gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmContext *self = LLM_CONTEXT (source);
  LlmCall *call = g_task_get_task_data (task);
  GError *error = NULL;
  GVariantBuilder builder;
  guint n_messages;
  gsize bytes = 0;

  if (!llm_context_load_finish (self, result, &error))
    {
      g_task_return_error (task, error);
      return;
    }
  n_messages = llm_conversation_get_n_messages (self->conversation);
  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a(ssa{sv})"));
  for (guint i = call->first; i < n_messages && (call->count == 0 || i - call->first < call->count);
       i++)
    {
      const LlmStoredMessage *message = llm_conversation_get_message (self->conversation, i);

      bytes += strlen (message->text) + g_variant_get_size (message->extras);
      if (bytes > MAX_REPLY_BYTES && i > call->first)
        break;
      g_variant_builder_add (&builder, "(ss@a{sv})", message->role, message->text, message->extras);
    }
  g_task_return_pointer (task, g_variant_ref_sink (g_variant_builder_end (&builder)),
                         (GDestroyNotify) g_variant_unref);
}

void
llm_context_get_messages_async (LlmContext         *self,
                                guint               first,
                                guint               count,
                                GAsyncReadyCallback callback,
                                gpointer            data)
{
  GTask *task = llm_call_new (self, NULL, NULL, NULL, callback, data);
  LlmCall *call = g_task_get_task_data (task);

  call->first = first;
  call->count = count;
  llm_context_load (self, on_loaded_for_messages, task);
}

/* --- rollback --- */

static void
roll_back (GTask   *task,
           LlmCall *call)
{
  LlmContext *self = g_task_get_source_object (task);
  guint n_removable = llm_conversation_get_n_removable (self->conversation);

  if (call->count == 0 || call->count > n_removable)
    llm_call_fail (task, llmsvc_error_new (LLMSVC_ERROR_INVALID_ARGUMENT, NULL,
                                           "%u turns can't be rolled back: the context has %u",
                                           call->count, n_removable));
  else
    llm_call_commit (task, llm_conversation_get_n_turns (self->conversation) - call->count, NULL);
}

void
llm_context_rollback_async (LlmContext         *self,
                            guint               turns,
                            LlmCallOptions     *options,
                            GAsyncReadyCallback callback,
                            gpointer            data)
{
  GTask *task = llm_call_new (self, NULL, NULL, options, callback, data);

  ((LlmCall *) g_task_get_task_data (task))->count = turns;
  llm_call_begin (task, roll_back);
}

/* --- memory --- */

static void
return_memory (LlmContextMemory *memory,
               gpointer          data)
{
  g_autoptr(GTask) task = data;

  /* not used yet: what is known is what storage was found to have */
  if (memory->n_chunks == 0)
    memory->residency = llm_context_get_residency (g_task_get_source_object (task));
  g_task_return_pointer (task, memory, (GDestroyNotify) llm_context_memory_free);
}

void
llm_context_get_memory_async (LlmContext         *self,
                              GAsyncReadyCallback callback,
                              gpointer            data)
{
  llm_executor_ask_memory (self->engine->executor, self->session, self->id, return_memory,
                           g_task_new (self, NULL, callback, data));
}

LlmContextMemory *
llm_context_get_memory_finish (LlmContext   *self,
                               GAsyncResult *result,
                               GError      **error)
{
  return g_task_propagate_pointer (G_TASK (result), error);
}

/* --- the end --- */

/* Ends it at once without touching what is stored elsewhere. */
static void
end (LlmContext *self,
     const char *reason)
{
  g_autoptr(LlmContext) hold = g_object_ref (self);

  if (self->is_closed)
    return;
  self->is_closed = TRUE;
  if (self->engine->executor != NULL)
    llm_executor_drop_session (self->engine->executor, self->session, self->id);
  llm_engine_remove_context (self->engine, self);
  g_signal_emit_by_name (self, "closed", reason);
}

/* Cancels its call; TRUE when it has not ended yet: @callback comes then. */
static gboolean
cancel_call (LlmContext         *self,
             GAsyncReadyCallback callback,
             gpointer            data)
{
  if (self->generation != NULL)
    llm_generation_leave (self->generation);
  llm_context_stop_ahead (self);
  if (self->is_busy)
    g_queue_push_tail (&self->waiting_idle, g_task_new (self, NULL, callback, data));
  return self->is_busy;
}

static void
on_idle_for_leave (GObject      *source,
                   GAsyncResult *result,
                   gpointer      data)
{
  end (LLM_CONTEXT (source), data);
}

void
llm_context_leave (LlmContext *self,
                   const char *reason)
{
  if (!cancel_call (self, on_idle_for_leave, (gpointer) reason))
    end (self, reason);
}

static void
end_closed (GTask *task)
{
  LlmContext *self = g_task_get_source_object (task);

  end (self, "closed");
  llm_context_release (self);
  g_task_return_boolean (task, TRUE);
}

static void
on_deleted (GObject      *source,
            GAsyncResult *result,
            gpointer      data)
{
  g_autoptr(GTask) task = data;
  GError *error = NULL;

  if (llm_db_run_finish (result, NULL, &error))
    end_closed (task);
  else
    llm_call_fail (task, error);
}

static void
on_idle_for_close (GObject      *source,
                   GAsyncResult *result,
                   gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmContext *self = LLM_CONTEXT (source);
  GError *error = NULL;

  if (!llm_context_claim (self, NULL, &error))
    g_task_return_error (task, error);
  else if (llm_context_is_named (self))
    llm_db_run_async (self->engine->db, llm_store_delete_context, g_strdup (self->id), g_free,
                      on_deleted, g_steal_pointer (&task));
  else
    end_closed (task);
}

void
llm_context_close_async (LlmContext         *self,
                         GAsyncReadyCallback callback,
                         gpointer            data)
{
  GTask *task = g_task_new (self, NULL, callback, data);
  g_autoptr(GTask) idle = NULL;

  if (cancel_call (self, on_idle_for_close, task))
    return;
  idle = g_task_new (self, NULL, on_idle_for_close, task);
  g_task_return_boolean (idle, TRUE);
}
