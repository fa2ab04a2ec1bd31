/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-engine"

#include "engine/llm-context-private.h"

#include "base/llm-clock.h"
#include "common/llmsvc-error.h"
#include "common/llmsvc-names.h"
#include "engine/llm-generation-private.h"

enum
{
  CLOSED,
  N_SIGNALS
};

static guint signals[N_SIGNALS];

G_DEFINE_FINAL_TYPE (LlmContext, llm_context, G_TYPE_OBJECT)

/* --- the object --- */

static void
llm_context_finalize (GObject *object)
{
  LlmContext *self = LLM_CONTEXT (object);

  g_clear_pointer (&self->conversation, llm_conversation_free);
  llm_context_count (self);
  llm_ledger_unref (self->ledger);
  g_free (self->id);
  g_free (self->name);
  g_clear_pointer (&self->app, llm_app_unref);
  g_free (self->connection);
  g_free (self->slo);
  g_free (self->counted_by);
  g_free (self->damage);
  G_OBJECT_CLASS (llm_context_parent_class)->finalize (object);
}

static void
llm_context_class_init (LlmContextClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = llm_context_finalize;
  signals[CLOSED] = g_signal_new ("closed", LLM_TYPE_CONTEXT, G_SIGNAL_RUN_LAST, 0, NULL, NULL,
                                  NULL, G_TYPE_NONE, 1, G_TYPE_STRING);
}

static void
llm_context_init (LlmContext *self)
{
  g_queue_init (&self->waiting_idle);
}

LlmContext *
llm_context_new (LlmEngine  *engine,
                 LlmApp     *app,
                 const char *id)
{
  LlmContext *self = g_object_new (LLM_TYPE_CONTEXT, NULL);

  self->engine = engine;
  self->ledger = llm_ledger_ref (engine->ledger);
  self->app = llm_app_ref (app);
  self->id = g_strdup (id);
  self->name = g_strdup ("");
  self->slo = g_strdup ("responsive");
  self->session = llm_engine_new_session (engine);
  self->created = self->used = llm_clock_wall_s ();
  return self;
}

const char *
llm_context_get_id (LlmContext *self)
{
  return self->id;
}

const char *
llm_context_get_name (LlmContext *self)
{
  return self->name;
}

gboolean
llm_context_is_named (LlmContext *self)
{
  return *self->name != '\0';
}

guint64
llm_context_get_revision (LlmContext *self)
{
  return self->revision;
}

guint
llm_context_get_tokens (LlmContext *self)
{
  return self->conversation != NULL
           ? llm_conversation_count_tokens (self->conversation, self->engine->identity)
           : self->n_counted;
}

gboolean
llm_context_is_counted (LlmContext *self)
{
  const char *identity = self->engine->identity;

  return self->conversation != NULL
           ? llm_conversation_is_counted (self->conversation, identity)
           : identity != NULL && g_strcmp0 (self->counted_by, identity) == 0;
}

guint64
llm_context_get_bytes (LlmContext *self)
{
  return self->conversation != NULL ? llm_conversation_get_bytes (self->conversation)
                                    : self->stored_bytes;
}

void
llm_context_count (LlmContext *self)
{
  guint64 bytes = self->conversation != NULL ? llm_conversation_get_bytes (self->conversation) : 0;

  llm_ledger_add (self->ledger, LLM_HOLDER_TEXT, bytes);
  llm_ledger_remove (self->ledger, LLM_HOLDER_TEXT, self->counted_bytes);
  self->counted_bytes = bytes;
}

guint64
llm_context_get_forgettable (LlmContext *self)
{
  return llm_context_is_named (self) && !self->is_busy && self->n_loading == 0
           ? self->counted_bytes
           : 0;
}

void
llm_context_forget (LlmContext *self)
{
  g_assert (llm_context_is_named (self) && !self->is_busy && self->n_loading == 0);
  self->n_counted = llm_context_get_tokens (self);
  g_free (self->counted_by);
  self->counted_by = llm_context_is_counted (self) ? g_strdup (self->engine->identity) : NULL;
  self->stored_bytes = llm_context_get_bytes (self);
  g_clear_pointer (&self->conversation, llm_conversation_free);
  llm_context_count (self);
}

const char *
llm_context_get_residency (LlmContext *self)
{
  return self->damage != NULL ? "damaged" : llm_residency_to_string (self->residency);
}

void
llm_context_set_session (LlmContext *self,
                         LlmRequest     *request)
{
  request->session_id = self->session;
  request->context = g_strdup (self->id);
  request->is_named = llm_context_is_named (self);
}

static void
return_memory (LlmContextMemory *memory,
               gpointer          data)
{
  g_autoptr(GTask) task = data;

  /* nobody used it yet: what is known is what storage was found to have */
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

guint
llm_context_get_limit (LlmContext *self,
                       LlmModel   *model)
{
  guint n_ctx = llm_model_get_hparams (model)->n_ctx;

  return self->max_tokens > 0 ? MIN (self->max_tokens, n_ctx) : n_ctx;
}

gboolean
llm_context_may_see (LlmContext *self,
                     LlmCaller  *caller)
{
  return caller->app == self->app;
}

/* --- one call at a time --- */

gboolean
llm_context_claim (LlmContext    *self,
                   LlmCallOptions *options,
                   GError       **error)
{
  if (self->is_closed)
    {
      g_set_error_literal (error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_FOUND, "The context was closed");
      return FALSE;
    }
  if (self->is_busy)
    {
      g_set_error_literal (error, LLMSVC_ERROR, LLMSVC_ERROR_CONTEXT_BUSY,
                           "Another call of this context runs; wait for its end or cancel it");
      return FALSE;
    }
  if (options != NULL && llm_call_options_has (options, LLMSVC_OPTION_IF_REVISION))
    {
      guint64 wanted = llm_call_options_get_uint (options, LLMSVC_OPTION_IF_REVISION, 0);

      if (wanted != self->revision)
        {
          g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_CONFLICT,
                       "The context is at revision %ju, not %ju; read its messages again",
                       self->revision, wanted);
          return FALSE;
        }
    }
  self->is_busy = TRUE;
  return TRUE;
}

void
llm_context_release (LlmContext *self)
{
  GTask *task;

  self->is_busy = FALSE;
  while (!self->is_busy && (task = g_queue_pop_head (&self->waiting_idle)) != NULL)
    {
      g_task_return_boolean (task, TRUE);
      g_object_unref (task);
    }
}

typedef struct
{
  LlmContextBegin begin;
  GTask *task;
} Beginning;

static void
on_idle_for_begin (GObject      *source,
                   GAsyncResult *result,
                   gpointer      data)
{
  g_autofree Beginning *beginning = data;

  beginning->begin (beginning->task);
}

void
llm_context_stop_ahead (LlmContext *self)
{
  if (self->ahead == NULL)
    return;
  __atomic_store_n (&self->ahead->stop_request, LLM_FINISH_CANCELLED, __ATOMIC_RELEASE);
  llm_executor_poke (self->engine->executor);
}

void
llm_context_begin (LlmContext      *self,
                   LlmContextBegin  begin,
                   GTask           *task)
{
  Beginning *beginning;

  if (self->ahead == NULL)
    {
      begin (task);
      return;
    }
  llm_context_stop_ahead (self);
  beginning = g_new0 (Beginning, 1);
  beginning->begin = begin;
  beginning->task = task;
  g_queue_push_tail (&self->waiting_idle, g_task_new (self, NULL, on_idle_for_begin, beginning));
}

/* --- reading what is stored --- */

gboolean
llm_context_check (LlmContext *self,
                   GError    **error)
{
  if (self->damage == NULL)
    return TRUE;
  if (*self->damage == '\0')
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE,
                 "The stored data of the context “%s” is damaged, so it can't be used. Close the "
                 "context to delete what is left of it and to use its name again: %s/%s",
                 self->name, LLMSVC_CONTEXTS_PATH, self->id);
  else
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE,
                 "The text of the context “%s” was lost when the context database was damaged; the "
                 "damaged database was kept as %s. Close the context to use its name again: %s/%s",
                 self->name, self->damage, LLMSVC_CONTEXTS_PATH, self->id);
  return FALSE;
}

static void
on_loaded (GObject      *source,
           GAsyncResult *result,
           gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmContext *self = g_task_get_source_object (task);
  GError *error = NULL;
  gpointer loaded;
  gboolean is_read = llm_db_run_finish (result, &loaded, &error);
  LlmStoredContext *stored = loaded;

  if (stored->damage != NULL && self->damage == NULL && self->conversation == NULL)
    {
      self->damage = g_steal_pointer (&stored->damage);
      g_warning ("The stored data of the context %s is damaged; it can't be used", self->id);
    }
  if (self->damage != NULL)
    {
      is_read = FALSE;
      g_clear_error (&error);
      llm_context_check (self, &error);
    }
  if (!is_read)
    {
      g_task_return_error (task, error);
      return;
    }
  if (self->conversation == NULL)
    self->conversation = g_steal_pointer (&stored->turns);
  llm_context_count (self);
  g_task_return_boolean (task, TRUE);
}

void
llm_context_load (LlmContext         *self,
                  GAsyncReadyCallback callback,
                  gpointer            data)
{
  GTask *task = g_task_new (self, NULL, callback, data);
  GError *error = NULL;

  self->n_loading++;
  if (!llm_context_check (self, &error))
    {
      g_task_return_error (task, error);
      g_object_unref (task);
    }
  else if (self->conversation != NULL)
    {
      g_task_return_boolean (task, TRUE);
      g_object_unref (task);
    }
  else
    {
      LlmStoredContext *stored = llm_stored_context_new ();

      stored->id = g_strdup (self->id);
      llm_db_run_async (self->engine->db, llm_store_load_turns, stored,
                        (GDestroyNotify) llm_stored_context_free, on_loaded, task);
    }
}

gboolean
llm_context_load_finish (LlmContext   *self,
                         GAsyncResult *result,
                         GError      **error)
{
  self->n_loading--;
  return g_task_propagate_boolean (G_TASK (result), error);
}

/* --- changing it --- */

typedef struct
{
  guint n_turns;
  LlmTurn *turn;    /* (nullable) (owned) */
} Commit;

static void
commit_free (Commit *commit)
{
  g_clear_pointer (&commit->turn, llm_turn_free);
  g_free (commit);
}

static void
apply_commit (LlmContext *self,
              Commit     *commit)
{
  guint n_now = llm_conversation_get_n_turns (self->conversation);

  llm_conversation_rollback (self->conversation, n_now - commit->n_turns);
  if (commit->turn != NULL)
    llm_conversation_add_turn (self->conversation, g_steal_pointer (&commit->turn));
  llm_context_count (self);
  self->revision++;
  self->used = llm_clock_wall_s ();
  llm_engine_count_later (self->engine, self);
}

static void
on_stored (GObject      *source,
           GAsyncResult *result,
           gpointer      data)
{
  g_autoptr(GTask) task = data;
  GError *error = NULL;

  if (!llm_db_run_finish (result, NULL, &error))
    {
      g_task_return_error (task, error);
      return;
    }
  apply_commit (g_task_get_source_object (task), g_task_get_task_data (task));
  g_task_return_boolean (task, TRUE);
}

void
llm_context_commit (LlmContext         *self,
                    guint               n_turns,
                    LlmTurn            *turn,
                    GAsyncReadyCallback callback,
                    gpointer            data)
{
  GTask *task = g_task_new (self, NULL, callback, data);
  Commit *commit = g_new (Commit, 1);
  guint dropped = llm_conversation_take_dropped (self->conversation);

  g_assert (self->is_busy);
  *commit = (Commit) { n_turns, turn };
  g_task_set_task_data (task, commit, (GDestroyNotify) commit_free);

  if (llm_context_is_named (self))
    {
      LlmStoredChange *change = llm_stored_change_new (self->id);

      change->revision = self->revision + 1;
      change->used = llm_clock_wall_s ();
      change->n_turns = n_turns;
      change->dropped = turn != NULL && turn->is_whole ? 0 : dropped;
      change->turn = turn;
      llm_db_run_async (self->engine->db, llm_store_change, change,
                        (GDestroyNotify) llm_stored_change_free, on_stored, task);
    }
  else
    {
      apply_commit (self, commit);
      g_task_return_boolean (task, TRUE);
      g_object_unref (task);
    }
}

gboolean
llm_context_commit_finish (LlmContext   *self,
                           GAsyncResult *result,
                           GError      **error)
{
  return g_task_propagate_boolean (G_TASK (result), error);
}

LlmPrepareInput *
llm_context_make_input (LlmContext *self,
                        LlmModel   *model,
                        GVariant   *messages,
                        gboolean    opens_answer)
{
  LlmPrepareInput *input = llm_prepare_input_new ();
  guint first;

  if (!llm_conversation_check_tokens (self->conversation, llm_model_get_identity (model),
                                      llm_model_get_hparams (model)->n_vocab))
    g_warning ("Stored tokens of the context %s are damaged; its text is used instead", self->id);
  input->opens_answer = opens_answer;
  input->point = llm_conversation_get_settled (self->conversation, llm_model_get_identity (model),
                                               input->settled, &first);
  for (guint i = first; i < llm_conversation_get_n_messages (self->conversation); i++)
    {
      const LlmStoredMessage *message = llm_conversation_get_message (self->conversation, i);

      llm_prepare_input_add_message (input, message->role, message->text);
    }
  if (messages != NULL)
    llm_prepare_input_add_messages (input, messages);
  return input;
}

/* --- the end --- */

void
llm_context_end (LlmContext *self,
                 const char *reason)
{
  g_autoptr(LlmContext) hold = g_object_ref (self);

  if (self->is_closed)
    return;
  self->is_closed = TRUE;
  if (self->engine->executor != NULL)
    llm_executor_drop_session (self->engine->executor, self->session, self->id);
  llm_engine_remove_context (self->engine, self);
  g_signal_emit (self, signals[CLOSED], 0, reason);
}

static void
on_idle_for_leave (GObject      *source,
                   GAsyncResult *result,
                   gpointer      data)
{
  llm_context_end (LLM_CONTEXT (source), data);
}

void
llm_context_leave (LlmContext *self,
                   const char *reason)
{
  if (self->generation != NULL)
    llm_generation_leave (self->generation);
  llm_context_stop_ahead (self);
  if (self->is_busy)
    g_queue_push_tail (&self->waiting_idle, g_task_new (self, NULL, on_idle_for_leave, (gpointer) reason));
  else
    llm_context_end (self, reason);
}
