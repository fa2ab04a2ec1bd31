/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What callers do with a context. */

#define G_LOG_DOMAIN "llm-engine"

#include "engine/llm-context-private.h"

#include <string.h>

#include "base/llm-clock.h"
#include "common/llmsvc-error.h"
#include "engine/llm-generation-private.h"

/* One reply of messages stays well below what a bus lets through. */
#define MAX_REPLY_BYTES (4 * 1024 * 1024)

/* What a call keeps while it waits. */
typedef struct
{
  LlmCaller *caller;
  GVariant *messages;       /* (nullable) */
  LlmsvcOptions *options;   /* (nullable) */
  LlmSink *sink;            /* (nullable) */
  LlmModel *model;          /* (nullable) */
  guint first;
  guint count;
  guint n_added;            /* tokens */
} Call;

static void
call_free (Call *call)
{
  g_clear_pointer (&call->caller, llm_caller_unref);
  g_clear_pointer (&call->messages, g_variant_unref);
  g_clear_pointer (&call->options, llmsvc_options_unref);
  g_clear_object (&call->sink);
  g_clear_pointer (&call->model, llm_model_unref);
  g_free (call);
}

static GTask *
new_task (LlmContext         *self,
          LlmCaller          *caller,
          GVariant           *messages,
          LlmsvcOptions      *options,
          GAsyncReadyCallback callback,
          gpointer            data)
{
  GTask *task = g_task_new (self, NULL, callback, data);
  Call *call = g_new0 (Call, 1);

  call->caller = caller != NULL ? llm_caller_ref (caller) : NULL;
  call->messages = messages != NULL ? g_variant_ref_sink (messages) : NULL;
  call->options = options != NULL ? llmsvc_options_ref (options) : NULL;
  g_task_set_task_data (task, call, (GDestroyNotify) call_free);
  return task;
}

/* Ends a call that has claimed the context. */
static void
fail_claimed (GTask  *task,
              GError *error)
{
  llm_context_release (g_task_get_source_object (task));
  g_task_return_error (task, error);
}

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
  Call *call = g_task_get_task_data (task);
  const char *answer = llm_turn_get_answer (turn);
  GVariantDict dict;
  g_autoptr(GVariant) results = NULL;
  g_autoptr(LlmSink) sink = g_object_ref (call->sink);

  g_variant_dict_init (&dict, turn->results);
  g_variant_dict_insert (&dict, "repeated", "b", TRUE);
  results = g_variant_ref_sink (g_variant_dict_end (&dict));

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
  Call *call = g_task_get_task_data (task);
  const char *request_id = llmsvc_options_get_string (call->options, LLMSVC_OPTION_REQUEST_ID, NULL);
  GError *error = NULL;
  LlmTurn *turn;

  if (!llm_context_load_finish (self, result, &error))
    {
      fail_claimed (task, error);
      return;
    }
  turn = request_id != NULL ? llm_conversation_find_request (self->conversation, request_id) : NULL;
  if (turn != NULL && llm_turn_is_answered (turn))
    {
      repeat_answer (task, turn);
      return;
    }
  if (llmsvc_options_has (call->options, LLMSVC_OPTION_IF_REVISION) &&
      llmsvc_options_get_uint (call->options, LLMSVC_OPTION_IF_REVISION, 0) != self->revision)
    {
      fail_claimed (task, g_error_new (LLMSVC_ERROR, LLMSVC_ERROR_CONFLICT,
                                       "The context is at revision %" G_GUINT64_FORMAT
                                       "; read its messages again", self->revision));
      return;
    }
  if (g_variant_n_children (call->messages) == 0 &&
      llm_conversation_get_n_messages (self->conversation) == 0)
    {
      fail_claimed (task, g_error_new_literal (LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
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
  Call *call = g_task_get_task_data (task);
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
                            LlmsvcOptions      *options,
                            LlmSink            *sink,
                            GAsyncReadyCallback callback,
                            gpointer            data)
{
  GTask *task = new_task (self, caller, messages, options, callback, data);

  ((Call *) g_task_get_task_data (task))->sink = g_object_ref (sink);
  llm_context_begin (self, begin_generate, task);
}

LlmGeneration *
llm_context_generate_finish (LlmContext   *self,
                             GAsyncResult *result,
                             GError      **error)
{
  return g_task_propagate_pointer (G_TASK (result), error);
}

/* --- append --- */

static void
on_change_committed (GObject      *source,
                     GAsyncResult *result,
                     gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmContext *self = LLM_CONTEXT (source);
  GError *error = NULL;
  gboolean is_committed = llm_context_commit_finish (self, result, &error);

  llm_context_release (self);
  if (is_committed)
    g_task_return_boolean (task, TRUE);
  else
    g_task_return_error (task, error);
}

static void
commit_append (GTask *task)
{
  LlmContext *self = g_task_get_source_object (task);
  Call *call = g_task_get_task_data (task);
  LlmTurn *turn = llm_turn_new ();

  llm_turn_add_messages (turn, call->messages);
  turn->n_tokens = call->n_added;
  llm_context_commit (self, llm_conversation_get_n_turns (self->conversation), turn,
                      on_change_committed, g_object_ref (task));
}

static void
ignore_text (LlmJob     *job,
             const char *text,
             gsize       length,
             gpointer    data)
{
}

/* The text was read in: the context's memory holds it. */
static void
on_read_in (LlmJob             *job,
            const LlmJobResult *result,
            gpointer            data)
{
  g_autoptr(GTask) task = data;
  LlmContext *self = g_task_get_source_object (task);

  llm_engine_job_ended (self->engine);
  self->session_bytes = result->session_bytes;
  self->engine->counters.prompt_tokens += result->n_prompt;
  self->engine->counters.reused_tokens += result->n_reused;
  if (result->end == LLM_JOB_FAILED)
    fail_claimed (task, g_error_copy (result->error));
  else if (result->end == LLM_JOB_STOP)
    commit_append (task);
  else
    fail_claimed (task, g_error_new_literal (LLMSVC_ERROR,
                                             result->end == LLM_JOB_DEADLINE
                                               ? LLMSVC_ERROR_DEADLINE_EXCEEDED
                                               : LLMSVC_ERROR_CANCELLED,
                                             "The text was not read in; the context is as before"));
}

/* The same without a caller that waits: the text is committed, this is a favour. */
static void
on_read_ahead (LlmJob             *job,
               const LlmJobResult *result,
               gpointer            data)
{
  g_autoptr(LlmContext) self = data;

  llm_engine_job_ended (self->engine);
  g_clear_pointer (&self->ahead, llm_job_unref);
  self->session_bytes = result->session_bytes;
  self->engine->counters.prompt_tokens += result->n_prompt;
  self->engine->counters.reused_tokens += result->n_reused;
  llm_context_release (self);
}

static LlmJob *
new_read_job (LlmContext *self,
              Call       *call,
              GArray     *tokens,
              GError    **error)
{
  g_autoptr(LlmJob) job = llm_job_new ();

  if (!llm_engine_fill_job (self->engine, job, call->options, self->slo, error))
    return NULL;
  g_array_append_vals (job->prompt, tokens->data, tokens->len);
  job->n_ctx = llm_context_get_limit (self, call->model);
  job->session = self->session;
  job->app = llm_app_make_key (self->uid, self->app_id);
  job->on_text = ignore_text;
  return g_steal_pointer (&job);
}

static void
on_ahead_committed (GObject      *source,
                    GAsyncResult *result,
                    gpointer      data)
{
  LlmJob *job = data;
  LlmContext *self = LLM_CONTEXT (source);
  g_autoptr(GTask) task = job->data;
  GError *error = NULL;

  if (!llm_context_commit_finish (self, result, &error))
    {
      fail_claimed (task, error);
    }
  else if (self->engine->model != ((Call *) g_task_get_task_data (task))->model || self->engine->is_loading ||
           self->is_closed)
    {
      llm_context_release (self);
      g_task_return_boolean (task, TRUE);
    }
  else
    {
      job->on_done = on_read_ahead;
      job->data = g_object_ref (self);
      self->ahead = llm_job_ref (job);
      llm_engine_submit (self->engine, job);
      g_task_return_boolean (task, TRUE);
    }
  llm_job_unref (job);
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
  Call *call = g_task_get_task_data (task);
  LlmEngine *engine = self->engine;
  GError *error = NULL;
  g_autoptr(GArray) tokens = llm_prepare_finish (result, &error);
  guint n_held = llm_context_get_tokens (self);
  guint n_ctx;
  LlmJob *job;

  if (tokens == NULL)
    {
      fail_claimed (task, error);
      return;
    }
  if (engine->model != call->model || engine->is_loading)
    {
      g_clear_pointer (&call->model, llm_model_unref);
      llm_engine_await_model (engine, on_model_for_append, g_object_ref (task));
      return;
    }
  n_ctx = llm_context_get_limit (self, call->model);
  call->n_added = tokens->len > n_held ? tokens->len - n_held : 0;
  if (tokens->len >= n_ctx)
    {
      fail_claimed (task, g_error_new (LLMSVC_ERROR, LLMSVC_ERROR_CONTEXT_FULL,
                                       "With this text the context would hold %u tokens; it has room "
                                       "for %u. Shorten it, roll turns back, or begin a new context",
                                       tokens->len, n_ctx));
      return;
    }
  if (!llm_engine_admit_tokens (engine, self->uid, self->app_id, call->n_added, &error) ||
      (job = new_read_job (self, call, tokens, &error)) == NULL)
    {
      fail_claimed (task, error);
      return;
    }

  if (llmsvc_options_get_boolean (call->options, LLMSVC_OPTION_WAIT, FALSE))
    {
      job->on_done = on_read_in;
      job->data = g_object_ref (task);
      llm_engine_submit (engine, job);
      llm_job_unref (job);
    }
  else
    {
      LlmTurn *turn = llm_turn_new ();

      llm_turn_add_messages (turn, call->messages);
      turn->n_tokens = call->n_added;
      job->data = g_object_ref (task);
      llm_context_commit (self, llm_conversation_get_n_turns (self->conversation), turn,
                          on_ahead_committed, job);
    }
}

static void
on_model_for_append (GObject      *source,
                     GAsyncResult *result,
                     gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmContext *self = g_task_get_source_object (task);
  Call *call = g_task_get_task_data (task);
  GError *error = NULL;

  call->model = llm_engine_await_model_finish (result, &error);
  if (call->model == NULL)
    fail_claimed (task, error);
  else
    llm_prepare_async (call->model, llm_context_make_input (self, call->model, call->messages, FALSE),
                       on_prepared_for_append, g_object_ref (task));
}

static void
on_loaded_for_append (GObject      *source,
                      GAsyncResult *result,
                      gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmContext *self = LLM_CONTEXT (source);
  GError *error = NULL;

  if (!llm_context_load_finish (self, result, &error))
    fail_claimed (task, error);
  else
    llm_engine_await_model (self->engine, on_model_for_append, g_object_ref (task));
}

static void
begin_append (GTask *task)
{
  LlmContext *self = g_task_get_source_object (task);
  Call *call = g_task_get_task_data (task);
  GError *error = NULL;

  if (!llm_engine_admit_call (self->engine, call->caller, &error) ||
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
                          LlmsvcOptions      *options,
                          GAsyncReadyCallback callback,
                          gpointer            data)
{
  GTask *task = new_task (self, caller, messages, options, callback, data);

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
  *tokens = ((Call *) g_task_get_task_data (G_TASK (result)))->n_added;
  return g_task_propagate_boolean (G_TASK (result), error);
}

/* --- messages --- */

static void
on_loaded_for_messages (GObject      *source,
                        GAsyncResult *result,
                        gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmContext *self = LLM_CONTEXT (source);
  Call *call = g_task_get_task_data (task);
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
  for (guint i = call->first; i < n_messages && (call->count == 0 || i - call->first < call->count); i++)
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
  GTask *task = new_task (self, NULL, NULL, NULL, callback, data);
  Call *call = g_task_get_task_data (task);

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
  Call *call = g_task_get_task_data (task);
  GError *error = NULL;
  guint n_removable;

  if (!llm_context_load_finish (self, result, &error))
    {
      fail_claimed (task, error);
      return;
    }
  n_removable = llm_conversation_get_n_removable (self->conversation);
  if (call->count == 0 || call->count > n_removable)
    {
      fail_claimed (task, g_error_new (LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                                       "%u turns can't be rolled back: the context has %u",
                                       call->count, n_removable));
      return;
    }
  llm_context_commit (self, llm_conversation_get_n_turns (self->conversation) - call->count, NULL,
                      on_change_committed, g_object_ref (task));
}

static void
begin_rollback (GTask *task)
{
  LlmContext *self = g_task_get_source_object (task);
  Call *call = g_task_get_task_data (task);
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
                            LlmsvcOptions      *options,
                            GAsyncReadyCallback callback,
                            gpointer            data)
{
  GTask *task = new_task (self, NULL, NULL, options, callback, data);

  ((Call *) g_task_get_task_data (task))->count = turns;
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
      fail_claimed (task, error);
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
  GTask *task = new_task (self, NULL, NULL, NULL, callback, data);
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
