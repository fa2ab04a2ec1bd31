/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Calls of a context, and its end. */

#define G_LOG_DOMAIN "llm-engine"

#include "base/llm-fail.h"
#include "engine/apps/llm-engine-apps.h"
#include "engine/calls/llm-call.h"

#include <string.h>

#include "common/llmsvc-error-private.h"
#include "contexts/llm-request-id.h"
#include "engine/calls/llm-generation-private.h"

/* Keeps a reply of messages well below the limit of the bus. */
#define MAX_REPLY_BYTES (4 * 1024 * 1024)

/* --- generate --- */

/* For a repeated request: returns the stored answer, and changes nothing. */
static void
repeat_answer (GTask         *task,
               LlmCall       *call,
               const LlmTurn *turn)
{
  const char *answer = llm_turn_get_answer (turn);
  g_autoptr(GVariant) results = llm_request_id_get_results (turn);

  llm_call_release (task);
  g_task_return_pointer (task, llm_generation_new_settled (call->caller), g_object_unref);
  llm_sink_accept (call->answer.sink, answer, strlen (answer));
  llm_sink_finish (call->answer.sink, results, NULL);
}

static void
generate (GTask   *task,
          LlmCall *call)
{
  LlmContext *self = call->context;
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
  else if (error == NULL
           && llm_call_options_get_boolean (call->options, LLMSVC_OPTION_CONTINUE, FALSE))
    (void) llm_call_check_continue (call, &error);
  else if (error == NULL && g_variant_n_children (call->messages) == 0
           && self->conversation->messages->len == 0)
    llm_fail (&error, LLMSVC_ERROR_INVALID_ARGUMENT,
              "There is nothing to answer: the context is empty and no message was given");
  if (error != NULL)
    llm_call_fail (task, error);
  else
    llm_generation_start (task);
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
  g_autoptr(GTask) task = llm_call_new (self, caller, messages, options, callback, data);

  ((LlmCall *) g_task_get_task_data (task))->answer.sink = llm_sink_ref (sink);
  llm_call_begin (task, generate);
}

/* --- messages --- */

static void
return_messages (GTask   *task,
                 LlmCall *call)
{
  LlmConversation *conversation = call->context->conversation;
  guint n_messages = conversation->messages->len;
  GVariantBuilder builder;
  gsize bytes = 0;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a(ssa{sv})"));
  for (guint i = call->first; i < n_messages && (call->count == 0 || i - call->first < call->count);
       i++)
    {
      const LlmStoredMessage *message = g_ptr_array_index (conversation->messages, i);

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
  g_autoptr(GTask) task = llm_call_new (self, NULL, NULL, NULL, callback, data);
  LlmCall *call = g_task_get_task_data (task);

  call->first = first;
  call->count = count;
  llm_call_load (task, return_messages);
}

/* --- rollback --- */

static void
roll_back (GTask   *task,
           LlmCall *call)
{
  LlmConversation *conversation = call->context->conversation;
  guint n_removable = llm_conversation_get_n_removable (conversation);

  if (call->count == 0 || call->count > n_removable)
    llm_call_fail (task, llmsvc_error_new (LLMSVC_ERROR_INVALID_ARGUMENT, NULL,
                                           "%u turns can't be rolled back: the context has %u",
                                           call->count, n_removable));
  else
    llm_call_commit (task, conversation->turns->len - call->count, NULL,
                     llm_call_end);
}

void
llm_context_rollback_async (LlmContext         *self,
                            guint               turns,
                            LlmCallOptions     *options,
                            GAsyncReadyCallback callback,
                            gpointer            data)
{
  g_autoptr(GTask) task = llm_call_new (self, NULL, NULL, options, callback, data);

  ((LlmCall *) g_task_get_task_data (task))->count = turns;
  llm_call_begin (task, roll_back);
}

/* --- memory --- */

/* A context without chunks at the executor. */
typedef struct
{
  char *folder;           /* (owned) */
  char *id;               /* (owned) */
  LlmContextMemory *memory; /* (owned): what is known without reading files */
} StoredMemory;

static void
stored_memory_free (gpointer data)
{
  StoredMemory *self = data;

  llm_context_memory_free (self->memory);
  g_free (self->folder);
  g_free (self->id);
  g_free (self);
}

static void
read_memory (GTask        *task,
             gpointer      source,
             gpointer      data,
             GCancellable *cancellable)
{
  const StoredMemory *stored = data;
  LlmContextMemory *memory = llm_context_memory_read (stored->folder, stored->id);

  memory->residency = stored->memory->residency;
  memory->folder_bytes = stored->memory->folder_bytes;
  g_task_return_pointer (task, memory, (GDestroyNotify) llm_context_memory_free);
}

/* If no call ran since the start, or all of the KV cache was evicted, the files on storage are
 * read. */
static void
return_memory (LlmContextMemory *memory,
               gpointer          data)
{
  g_autoptr(GTask) task = data;
  LlmContext *self = g_task_get_source_object (task);
  StoredMemory *stored;

  if (memory->n_chunks == 0)
    memory->residency = llm_context_get_residency (self);
  if (memory->n_chunks > 0 || memory->folder_bytes == 0)
    {
      g_task_return_pointer (task, memory, (GDestroyNotify) llm_context_memory_free);
      return;
    }
  stored = g_new0 (StoredMemory, 1);
  stored->folder = llm_settings_get_chunks_folder (self->engine->settings);
  stored->id = g_strdup (self->id);
  stored->memory = memory;
  g_task_set_task_data (task, stored, stored_memory_free);
  g_task_run_in_thread (task, read_memory);
}

void
llm_context_get_memory_async (LlmContext         *self,
                              GAsyncReadyCallback callback,
                              gpointer            data)
{
  llm_executor_ask_memory (self->engine->executor, self->session, self->id, return_memory,
                           g_task_new (self, NULL, callback, data));
}

/* --- the end --- */

/* Ends it at once, and leaves stored data alone. */
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

/* Cancels its call; TRUE when it is still running: @callback is called at its end. */
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
end_closed (GTask   *task,
            LlmCall *call)
{
  end (call->context, "closed");
  llm_call_end (task, call);
}

static void
on_idle_for_close (GObject      *source,
                   GAsyncResult *result,
                   gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmCall *call = g_task_get_task_data (task);
  GError *error = NULL;

  call->has_claimed = llm_context_claim (call->context, NULL, &error);
  if (!call->has_claimed)
    llm_call_fail (task, error);
  else if (llm_context_is_named (call->context))
    llm_call_store (task, llm_store_delete_context, g_strdup (call->context->id), g_free,
                    end_closed);
  else
    end_closed (task, call);
}

void
llm_context_close_async (LlmContext         *self,
                         GAsyncReadyCallback callback,
                         gpointer            data)
{
  GTask *task = llm_call_new (self, NULL, NULL, NULL, callback, data);

  if (!cancel_call (self, on_idle_for_close, task))
    on_idle_for_close (G_OBJECT (self), NULL, task);
}
