/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How contexts come to be, are found and forked. */

#define G_LOG_DOMAIN "llm-engine"

#include "base/llm-fail.h"
#include "engine/llm-call.h"

#include <string.h>

#include "base/llm-clock.h"
#include "common/llmsvc-error-private.h"
#include "engine/llm-generation-private.h"

static LlmContext *
find_named (LlmEngine  *self,
            LlmCaller  *caller,
            const char *name)
{
  GHashTableIter iter;
  LlmContext *context;

  g_hash_table_iter_init (&iter, self->contexts);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &context))
    if (llm_context_may_see (context, caller) && g_str_equal (context->name, name))
      return context;
  return NULL;
}

static void
on_started (GObject      *source,
            GAsyncResult *result,
            gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmCall *call = g_task_get_task_data (task);
  GError *error = NULL;

  if (llm_engine_await_start_finish (result, &error))
    call->step (task, call);
  else
    g_task_return_error (task, error);
}

/* Takes @task. */
static void
await_start (GTask      *task,
             LlmCallStep step)
{
  ((LlmCall *) g_task_get_task_data (task))->step = step;
  llm_engine_await_start (g_task_get_source_object (task), on_started, task);
}

static void open_or_make (GTask   *task,
                          LlmCall *call);

/* --- create and fork --- */

/* (nullable): the call that makes a context of this name, which is not in the table yet. */
static LlmCall *
find_making (LlmEngine  *self,
             LlmCaller  *caller,
             const char *name)
{
  for (guint i = 0; i < self->making->len; i++)
    {
      LlmCall *call = g_task_get_task_data (g_ptr_array_index (self->making, i));

      if (llm_context_may_see (call->context, caller) && g_str_equal (call->context->name, name))
        return call;
    }
  return NULL;
}

/* It is made, or it is not going to be: those who waited for it look again. */
static void
end_making (GTask *task)
{
  LlmCall *call = g_task_get_task_data (task);
  GTask *waiting;

  g_clear_pointer (&call->place, llm_pass_free);
  g_ptr_array_remove (call->context->engine->making, task);
  while ((waiting = g_queue_pop_head (&call->waiting)) != NULL)
    {
      open_or_make (waiting, g_task_get_task_data (waiting));
      g_object_unref (waiting);
    }
}

/* Takes @error. */
static void
fail_making (GTask  *task,
             GError *error)
{
  end_making (task);
  g_task_return_error (task, error);
}

static void
return_new_context (GTask *task)
{
  LlmCall *call = g_task_get_task_data (task);
  LlmContext *context = call->context;

  llm_engine_add_context (context->engine, context);
  end_making (task);
  llm_context_count (context);
  if (call->source != NULL && !call->source->is_busy)
    llm_executor_fork_session (context->engine->executor, call->source->session, context->session,
                               context->id, llm_context_is_named (context));
  g_task_return_pointer (task, g_object_ref (context), g_object_unref);
}

static void
on_inserted (GObject      *source,
             GAsyncResult *result,
             gpointer      data)
{
  g_autoptr(GTask) task = data;
  GError *error = NULL;

  if (llm_db_run_finish (result, NULL, &error))
    return_new_context (task);
  else
    fail_making (task, error);
}

static void
store_new_context (GTask *task)
{
  LlmCall *call = g_task_get_task_data (task);
  LlmContext *context = call->context;
  LlmStoredContext *stored;

  if (!llm_context_is_named (context))
    {
      return_new_context (task);
      return;
    }
  stored = llm_stored_context_new ();
  stored->id = g_strdup (context->id);
  stored->uid = context->app->uid;
  stored->app = g_strdup (context->app->id);
  stored->name = g_strdup (context->name);
  stored->revision = context->revision;
  stored->created = context->created;
  stored->used = context->used;
  stored->max_tokens = context->max_tokens;
  stored->slo = g_strdup (context->slo);
  stored->turns = llm_conversation_copy (context->conversation);
  llm_db_run_async (context->engine->db, llm_store_insert_context, stored,
                    (GDestroyNotify) llm_stored_context_free, on_inserted, g_object_ref (task));
}

/* --- what a context begins with, counted --- */

/* Counting is a service, not a condition: a model that is missing or can't express
 * the messages is told by the first call. */
static void
on_base_prepared (GObject      *source,
                  GAsyncResult *result,
                  gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmCall *call = g_task_get_task_data (task);
  LlmContext *context = call->context;
  g_autoptr(GArray) tokens = llm_prepare_finish (result, NULL, NULL);
  guint limit = llm_context_get_limit (context, call->model);
  guint n_held = llm_context_get_tokens (context);
  guint n_added = tokens != NULL && tokens->len > n_held ? tokens->len - n_held : 0;
  guint n_turns = llm_conversation_get_n_turns (context->conversation);
  GError *error = NULL;

  if (tokens != NULL && tokens->len >= limit)
    {
      fail_making (task, llmsvc_error_new (LLMSVC_ERROR_CONTEXT_FULL, NULL,
                                           "The context would begin with %u tokens and has room "
                                           "for %u; shorten its system text and messages",
                                           tokens->len, limit));
      return;
    }
  if (tokens != NULL && !llm_engine_admit_tokens (context->engine, context->app,
                                                  0, tokens->len, &error))
    {
      fail_making (task, error);
      return;
    }
  if (tokens != NULL)
    {
      llm_conversation_get_turn (context->conversation, n_turns - 1)->n_tokens = n_added;
      llm_conversation_set_count (context->conversation, llm_model_get_identity (call->model),
                                  tokens->len);
    }
  store_new_context (task);
}

static void
on_model_for_base (GObject      *source,
                   GAsyncResult *result,
                   gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmCall *call = g_task_get_task_data (task);

  call->model = g_task_propagate_pointer (G_TASK (result), NULL);
  if (call->model == NULL)
    store_new_context (task);
  else
    llm_prepare_async (call->model,
                       llm_context_make_input (call->context, call->model, NULL, FALSE),
                       on_base_prepared, g_object_ref (task));
}

static void
count_and_store (GTask *task)
{
  LlmCall *call = g_task_get_task_data (task);
  LlmContext *context = call->context;
  GError *error = NULL;

  if (llm_conversation_get_n_messages (context->conversation) == 0)
    {
      store_new_context (task);
      return;
    }
  call->pass = llm_engine_take_call (context->engine, call->caller, &error);
  if (call->pass == NULL)
    fail_making (task, error);
  else
    llm_engine_await_model (context->engine, on_model_for_base, g_object_ref (task));
}

/* What the context begins with, as a turn that no rollback takes; of a fork, what it has behind
 * the turns of its source. */
static void
add_base (LlmContext     *context,
          LlmCallOptions *options)
{
  const char *system = llm_call_options_get_string (options, LLMSVC_OPTION_SYSTEM, NULL);
  GVariant *messages = llm_call_options_get_variant (options, LLMSVC_OPTION_MESSAGES);
  LlmTurn *turn;

  if (system == NULL && messages == NULL)
    return;
  turn = llm_turn_new ();
  turn->is_base = llm_conversation_get_n_turns (context->conversation) == 0;
  if (system != NULL)
    g_ptr_array_add (turn->messages, llm_stored_message_new ("system", system, NULL));
  if (messages != NULL)
    llm_turn_add_messages (turn, messages);
  llm_conversation_add_turn (context->conversation, turn);
}

/* Makes the context of @task, like its source where there is one. */
static gboolean
build_context (LlmEngine *self,
               GTask     *task,
               GError   **error)
{
  LlmCall *call = g_task_get_task_data (task);
  LlmCaller *caller = call->caller;
  const char *name =
      call->name != NULL ? call->name
                         : llm_call_options_get_string (call->options, LLMSVC_OPTION_NAME, "");
  g_autofree char *id = llm_stored_context_new_id ();
  LlmContext *context;
  char *slo = NULL;

  call->place = llm_engine_take_context (self, caller, *name != '\0', error);
  if (call->place == NULL)
    return FALSE;
  if (*name != '\0' && find_named (self, caller, name) != NULL)
    return llm_fail (error, LLMSVC_ERROR_ALREADY_EXISTS,
                     "There is a context named “%s” already; open it with OpenContext()", name);

  context = call->context = llm_engine_new_context (self, caller->app, id);
  g_free (context->name);
  context->name = g_strdup (name);
  g_ptr_array_add (self->making, task);
  if (*name == '\0')
    context->connection = g_strdup (caller->connection);
  if (call->source != NULL)
    {
      context->conversation = llm_conversation_copy (call->source->conversation);
      context->revision = call->source->revision;
      context->max_tokens = call->source->max_tokens;
      slo = call->source->slo;
    }
  else
    context->conversation = llm_conversation_new ();
  context->max_tokens = llm_call_options_get_uint (call->options, LLMSVC_OPTION_MAX_TOKENS,
                                                   context->max_tokens);
  slo = g_strdup (llm_call_options_get_string (call->options, LLMSVC_OPTION_SLO,
                                               slo != NULL ? slo : context->slo));
  g_free (context->slo);
  context->slo = slo;
  add_base (context, call->options);
  return TRUE;
}

static void
create (GTask   *task,
        LlmCall *call)
{
  GError *error = NULL;

  if (build_context (g_task_get_source_object (task), task, &error))
    count_and_store (task);
  else
    g_task_return_error (task, error);
}

void
llm_engine_create_context_async (LlmEngine          *self,
                                 LlmCaller          *caller,
                                 LlmCallOptions     *options,
                                 GAsyncReadyCallback callback,
                                 gpointer            data)
{
  await_start (llm_call_new (self, caller, NULL, options, callback, data), create);
}

static void
on_loaded_for_fork (GObject      *source,
                    GAsyncResult *result,
                    gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmContext *self = LLM_CONTEXT (source);
  LlmCall *call = g_task_get_task_data (task);
  GError *error = NULL;

  if (!llm_context_load_finish (self, result, &error) ||
      !build_context (self->engine, task, &error))
    g_task_return_error (task, error);
  else if (llm_call_options_has (call->options, LLMSVC_OPTION_SYSTEM) ||
           llm_call_options_has (call->options, LLMSVC_OPTION_MESSAGES))
    count_and_store (task);
  else
    store_new_context (task);
}

void
llm_context_fork_async (LlmContext         *self,
                        LlmCaller          *caller,
                        LlmCallOptions     *options,
                        GAsyncReadyCallback callback,
                        gpointer            data)
{
  GTask *task = llm_call_new (self, caller, NULL, options, callback, data);

  ((LlmCall *) g_task_get_task_data (task))->source = g_object_ref (self);
  llm_context_load (self, on_loaded_for_fork, task);
}

/* --- open --- */

/* Several calls may open a new name at once: the first one makes it, the others wait for that, as
 * they would fail for what it takes, or make another one. */
static void
open_or_make (GTask   *task,
              LlmCall *call)
{
  LlmEngine *self = g_task_get_source_object (task);
  LlmContext *context = find_named (self, call->caller, call->name);
  LlmCall *making;
  GError *error = NULL;

  if (*call->name == '\0')
    g_task_return_new_error (task, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                             "The name is empty");
  else if (context != NULL && !llm_context_check (context, &error))
    g_task_return_error (task, error);
  else if (context != NULL)
    g_task_return_pointer (task, g_object_ref (context), g_object_unref);
  else if (!llm_call_options_get_boolean (call->options, LLMSVC_OPTION_CREATE, FALSE))
    g_task_return_error (task, llmsvc_error_new (LLMSVC_ERROR_NOT_FOUND, NULL,
                                                 "This application has no context named “%s”; the "
                                                 "option create = true would make it", call->name));
  else if ((making = find_making (self, call->caller, call->name)) != NULL)
    g_queue_push_tail (&making->waiting, g_object_ref (task));
  else
    create (task, call);
}

void
llm_engine_open_context_async (LlmEngine          *self,
                               LlmCaller          *caller,
                               const char         *name,
                               LlmCallOptions     *options,
                               GAsyncReadyCallback callback,
                               gpointer            data)
{
  GTask *task = llm_call_new (self, caller, NULL, options, callback, data);

  ((LlmCall *) g_task_get_task_data (task))->name = g_strdup (name);
  await_start (task, open_or_make);
}

/* --- list and look up --- */

static void
list (GTask   *task,
      LlmCall *call)
{
  g_task_return_pointer (task,
                         llm_engine_get_contexts (g_task_get_source_object (task), call->caller),
                         (GDestroyNotify) g_ptr_array_unref);
}

void
llm_engine_list_contexts_async (LlmEngine          *self,
                                LlmCaller          *caller,
                                GAsyncReadyCallback callback,
                                gpointer            data)
{
  await_start (llm_call_new (self, caller, NULL, NULL, callback, data), list);
}

GPtrArray *
llm_engine_list_contexts_finish (LlmEngine    *self,
                                 GAsyncResult *result,
                                 GError      **error)
{
  return g_task_propagate_pointer (G_TASK (result), error);
}

LlmContext *
llm_engine_lookup_context (LlmEngine  *self,
                           LlmCaller  *caller,
                           const char *id)
{
  LlmContext *context = g_hash_table_lookup (self->contexts, id);

  return context != NULL && llm_context_may_see (context, caller) ? context : NULL;
}

static int
compare_contexts (gconstpointer a,
                  gconstpointer b)
{
  const LlmContext *left = *(LlmContext *const *) a;
  const LlmContext *right = *(LlmContext *const *) b;
  int by_name = g_strcmp0 (left->name, right->name);

  return by_name != 0 ? by_name : g_strcmp0 (left->id, right->id);
}

GPtrArray *
llm_engine_get_contexts (LlmEngine *self,
                         LlmCaller *caller)
{
  GPtrArray *contexts = g_ptr_array_new_with_free_func (g_object_unref);
  GHashTableIter iter;
  LlmContext *context;

  g_hash_table_iter_init (&iter, self->contexts);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &context))
    if (llm_context_may_see (context, caller))
      g_ptr_array_add (contexts, g_object_ref (context));
  g_ptr_array_sort (contexts, compare_contexts);
  return contexts;
}

LlmGeneration *
llm_engine_lookup_generation (LlmEngine  *self,
                              LlmCaller  *caller,
                              const char *id)
{
  LlmGeneration *generation = g_hash_table_lookup (self->generations, id);

  for (GList *link = self->ended.head; generation == NULL && link != NULL; link = link->next)
    if (g_str_equal (((LlmGeneration *) link->data)->id, id))
      generation = link->data;
  return generation != NULL && generation->caller->app == caller->app ? generation : NULL;
}

GPtrArray *
llm_engine_get_generations (LlmEngine *self,
                            LlmCaller *caller)
{
  GPtrArray *generations = g_ptr_array_new_with_free_func (g_object_unref);
  GHashTableIter iter;
  LlmGeneration *generation;

  g_hash_table_iter_init (&iter, self->generations);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &generation))
    if (generation->caller->app == caller->app)
      g_ptr_array_add (generations, g_object_ref (generation));
  return generations;
}

/* --- a connection that left --- */

void
llm_engine_caller_gone (LlmEngine  *self,
                        const char *connection)
{
  g_autoptr(GPtrArray) ended = g_ptr_array_new_with_free_func (g_object_unref);
  GHashTableIter iter;
  LlmGeneration *generation;
  LlmContext *context;

  g_hash_table_iter_init (&iter, self->generations);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &generation))
    if (g_str_equal (generation->caller->connection, connection))
      llm_generation_leave (generation);

  g_hash_table_iter_init (&iter, self->contexts);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &context))
    if (g_strcmp0 (context->connection, connection) == 0)
      g_ptr_array_add (ended, g_object_ref (context));
  for (guint i = 0; i < ended->len; i++)
    llm_context_leave (g_ptr_array_index (ended, i), "disconnected");

  g_hash_table_remove (self->holds, connection);
}
