/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What callers do with a context. */

#define G_LOG_DOMAIN "llm-engine"

#include "engine/llm-context-call.h"

#include <string.h>

#include "common/llmsvc-error.h"
#include "engine/llm-generation-private.h"
#include "contexts/llm-request-id.h"

/* One reply of messages stays well below what a bus lets through. */
#define MAX_REPLY_BYTES (4 * 1024 * 1024)

/* --- generate --- */

static void
on_admitted (GObject      *source,
             GAsyncResult *result,
             gpointer      data)
{
  g_autoptr(GTask) task = data;
  GError *error = NULL;
  LlmGeneration *generation = llm_generation_start_finish (result, &error);

  if (generation != NULL)
    g_task_return_pointer (task, generation, g_object_unref);
  else
    g_task_return_error (task, error);
}

/* The same request came again: its answer is given again, nothing is changed. */
static void
repeat_answer (GTask         *task,
               const LlmTurn *turn)
{
  LlmContextCall *call = g_task_get_task_data (task);
  const char *answer = llm_turn_get_answer (turn);
  g_autoptr(GVariant) results = llm_request_id_get_results (turn);
  g_autoptr(LlmSink) sink = g_object_ref (call->sink);

  llm_context_release (g_task_get_source_object (task));
  g_task_return_pointer (task, llm_generation_new_settled (call->caller), g_object_unref);
  llm_sink_accept (sink, answer, strlen (answer));
  llm_sink_finish (sink, results, NULL);
}

static void
on_loaded_for_generate (GObject      *source,
                        GAsyncResult *result,
                        gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmContext *self = LLM_CONTEXT (source);
  LlmContextCall *call = g_task_get_task_data (task);
  GError *error = NULL;
  LlmTurn *turn;

  if (!llm_context_load_finish (self, result, &error) ||
      !llm_request_id_find (self->conversation, LLM_REQUEST_ANSWER, call->messages, call->options,
                            &turn, &error))
    {
      llm_context_call_fail (task, error);
      return;
    }
  if (turn != NULL)
    {
      repeat_answer (task, turn);
      return;
    }
  if (llm_call_options_has (call->options, LLMSVC_OPTION_IF_REVISION) &&
      llm_call_options_get_uint (call->options, LLMSVC_OPTION_IF_REVISION, 0) != self->revision)
    {
      llm_context_call_fail (task,
                             g_error_new (LLMSVC_ERROR, LLMSVC_ERROR_CONFLICT,
                                          "The context is at revision %ju; read its messages again",
                                          self->revision));
      return;
    }
  if (g_variant_n_children (call->messages) == 0 &&
      llm_conversation_get_n_messages (self->conversation) == 0)
    {
      llm_context_call_fail (task, g_error_new_literal (LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                                               "There is nothing to answer: the context is empty "
                                               "and no message was given"));
      return;
    }
  llm_generation_start (self->engine, self, call->caller, call->messages, NULL, call->options,
                        call->sink, on_admitted, g_object_ref (task));
}

static void
begin_generate (GTask *task)
{
  LlmContext *self = g_task_get_source_object (task);
  LlmContextCall *call = g_task_get_task_data (task);
  GError *error = NULL;

  /* The revision is looked at later: a repeated request must not fail for it. */
  if (!llm_engine_admit_call (self->engine, call->caller, &error) ||
      !llm_context_claim (self, NULL, &error))
    {
      g_task_return_error (task, error);
      g_object_unref (task);
      return;
    }
  llm_context_load (self, on_loaded_for_generate, task);
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
  GTask *task = llm_context_call_new (self, caller, messages, options, callback, data);

  ((LlmContextCall *) g_task_get_task_data (task))->sink = g_object_ref (sink);
  llm_context_begin (self, begin_generate, task);
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
  LlmContextCall *call = g_task_get_task_data (task);
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
  GTask *task = llm_context_call_new (self, NULL, NULL, NULL, callback, data);
  LlmContextCall *call = g_task_get_task_data (task);

  call->first = first;
  call->count = count;
  llm_context_load (self, on_loaded_for_messages, task);
}

GVariant *
llm_context_get_messages_finish (LlmContext   *self,
                                 GAsyncResult *result,
                                 GError      **error)
{
  return g_task_propagate_pointer (G_TASK (result), error);
}

/* --- rollback --- */

static void
on_loaded_for_rollback (GObject      *source,
                        GAsyncResult *result,
                        gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmContext *self = LLM_CONTEXT (source);
  LlmContextCall *call = g_task_get_task_data (task);
  GError *error = NULL;
  guint n_removable;

  if (!llm_context_load_finish (self, result, &error))
    {
      llm_context_call_fail (task, error);
      return;
    }
  n_removable = llm_conversation_get_n_removable (self->conversation);
  if (call->count == 0 || call->count > n_removable)
    {
      llm_context_call_fail (task, g_error_new (LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                                       "%u turns can't be rolled back: the context has %u",
                                       call->count, n_removable));
      return;
    }
  llm_context_commit (self, llm_conversation_get_n_turns (self->conversation) - call->count, NULL,
                      llm_context_call_on_committed, g_object_ref (task));
}

static void
begin_rollback (GTask *task)
{
  LlmContext *self = g_task_get_source_object (task);
  LlmContextCall *call = g_task_get_task_data (task);
  GError *error = NULL;

  if (!llm_context_claim (self, call->options, &error))
    {
      g_task_return_error (task, error);
      g_object_unref (task);
      return;
    }
  llm_context_load (self, on_loaded_for_rollback, task);
}

void
llm_context_rollback_async (LlmContext         *self,
                            guint               turns,
                            LlmCallOptions     *options,
                            GAsyncReadyCallback callback,
                            gpointer            data)
{
  GTask *task = llm_context_call_new (self, NULL, NULL, options, callback, data);

  ((LlmContextCall *) g_task_get_task_data (task))->count = turns;
  llm_context_begin (self, begin_rollback, task);
}

gboolean
llm_context_rollback_finish (LlmContext   *self,
                             GAsyncResult *result,
                             GError      **error)
{
  return g_task_propagate_boolean (G_TASK (result), error);
}

/* --- close --- */

static void
on_deleted (GObject      *source,
            GAsyncResult *result,
            gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmContext *self = g_task_get_source_object (task);
  GError *error = NULL;

  if (!llm_db_run_finish (result, NULL, &error))
    {
      llm_context_call_fail (task, error);
      return;
    }
  llm_context_end (self, "closed");
  llm_context_release (self);
  g_task_return_boolean (task, TRUE);
}

static void
on_idle_for_close (GObject      *source,
                   GAsyncResult *result,
                   gpointer      data)
{
  GTask *task = data;
  LlmContext *self = LLM_CONTEXT (source);
  GError *error = NULL;

  if (!llm_context_claim (self, NULL, &error))
    {
      g_task_return_error (task, error);
      g_object_unref (task);
    }
  else if (llm_context_is_named (self))
    {
      llm_db_run_async (self->engine->db, llm_store_delete_context, g_strdup (self->id), g_free,
                        on_deleted, task);
    }
  else
    {
      llm_context_end (self, "closed");
      llm_context_release (self);
      g_task_return_boolean (task, TRUE);
      g_object_unref (task);
    }
}

void
llm_context_close_async (LlmContext         *self,
                         GAsyncReadyCallback callback,
                         gpointer            data)
{
  GTask *task = llm_context_call_new (self, NULL, NULL, NULL, callback, data);
  GTask *idle = g_task_new (self, NULL, on_idle_for_close, task);

  if (self->generation != NULL)
    llm_generation_leave (self->generation);
  llm_context_stop_ahead (self);
  if (self->is_busy)
    {
      g_queue_push_tail (&self->waiting_idle, idle);
      return;
    }
  g_task_return_boolean (idle, TRUE);
  g_object_unref (idle);
}

gboolean
llm_context_close_finish (LlmContext   *self,
                          GAsyncResult *result,
                          GError      **error)
{
  return g_task_propagate_boolean (G_TASK (result), error);
}
