/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Creating, finding and forking contexts. */

#define G_LOG_DOMAIN "llm-engine"

#include "base/llm-fail.h"
#include "engine/apps/llm-engine-apps.h"
#include "engine/calls/llm-call.h"

#include <string.h>

#include "common/llmsvc-error-private.h"
#include "engine/calls/llm-generation-private.h"

/* (transfer full): @name in the form in which names are stored and compared: a letter and its
 * accent may be one character or two, and look the same. */
static char *
compose (const char *name)
{
  return g_utf8_normalize (name, -1, G_NORMALIZE_DEFAULT_COMPOSE);
}

/* Whether @name, which is composed, is that of @context, which may have been stored before names
 * were composed. */
static gboolean
is_named (const LlmContext *context,
          const char       *name)
{
  g_autofree char *own = NULL;

  if (g_str_equal (context->name, name) || g_str_is_ascii (context->name))
    return g_str_equal (context->name, name);
  own = compose (context->name);
  return g_str_equal (own, name);
}

static LlmContext *
find_named (LlmEngine  *self,
            LlmCaller  *caller,
            const char *name)
{
  GHashTableIter iter;
  LlmContext *context;

  g_hash_table_iter_init (&iter, self->store.contexts);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &context))
    if (llm_context_may_see (context, caller) && is_named (context, name))
      return context;
  return NULL;
}

/* --- create and fork --- */

/* (nullable): the call that is making a context of this name, which is not in the table yet. */
static LlmCall *
find_making (LlmEngine  *self,
             LlmCaller  *caller,
             const char *name)
{
  for (guint i = 0; i < self->store.making->len; i++)
    {
      LlmCall *call = g_task_get_task_data (g_ptr_array_index (self->store.making, i));

      if (llm_context_may_see (call->context, caller) && is_named (call->context, name))
        return call;
    }
  return NULL;
}

static void
return_new_context (GTask   *task,
                    LlmCall *call)
{
  LlmContext *context = call->context;

  llm_engine_add_context (call->engine, context);
  llm_call_release (task);
  llm_context_count (context);
  if (call->source != NULL && !call->source->is_busy)
    llm_executor_fork_session (call->engine->executor, call->source->session, context->session,
                               context->id, llm_context_is_named (context));
  g_task_return_pointer (task, g_object_ref (context), g_object_unref);
}

static void
store_new_context (GTask   *task,
                   LlmCall *call)
{
  LlmContext *context = call->context;
  LlmStoredContext *stored;

  if (!llm_context_is_named (context))
    {
      return_new_context (task, call);
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
  stored->traits = context->traits;
  stored->turns = llm_conversation_copy (context->conversation);
  llm_call_store (task, llm_store_insert_context, stored, (GDestroyNotify) llm_stored_context_free,
                  return_new_context);
}

/* Counting is optional here: if the model is missing or can't express the messages, the first call
 * reports it. */
static void
take_count (GTask   *task,
            LlmCall *call)
{
  LlmContext *context = call->context;
  guint n_held = llm_context_get_tokens (context);
  guint n_tokens = call->tokens != NULL ? call->tokens->len : 0;
  GError *error = NULL;

  if (call->tokens != NULL)
    {
      guint limit = llm_context_get_limit (context, call->model);
      LlmTurn *last;

      if (n_tokens >= limit)
        llm_fail (&error, LLMSVC_ERROR_CONTEXT_FULL,
                  "The context would begin with %u tokens and has room for %u; "
                  "shorten its system text and messages", n_tokens, limit);
      if (error != NULL
          || !llm_engine_admit_tokens (call->engine, context->app, 0, n_tokens, &error))
        {
          llm_call_fail (task, error);
          return;
        }
      last = g_ptr_array_index (context->conversation->turns,
                                context->conversation->turns->len - 1);
      last->n_tokens = n_tokens > n_held ? n_tokens - n_held : 0;
      llm_conversation_set_count (context->conversation, llm_model_get_identity (call->model),
                                  n_tokens);
    }
  store_new_context (task, call);
}

static void
count_and_store (GTask   *task,
                 LlmCall *call)
{
  GError *error = NULL;

  if (call->context->conversation->messages->len == 0)
    {
      store_new_context (task, call);
      return;
    }
  call->may_fail = TRUE;
  call->pass = llm_engine_take_call (call->engine, call->caller, &error);
  if (call->pass == NULL)
    llm_call_fail (task, error);
  else
    llm_call_tokenize (task, take_count);
}

/* The initial messages of the context, as a turn that rollback keeps; of a fork, those after the
 * turns of its source. */
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
  turn->is_base = context->conversation->turns->len == 0;
  if (system != NULL)
    g_ptr_array_add (turn->messages, llm_stored_message_new ("system", system, NULL));
  if (messages != NULL)
    llm_turn_add_messages (turn, messages);
  llm_conversation_add_turn (context->conversation, turn);
}

static LlmContextTraits
set_trait (LlmContextTraits traits,
           LlmContextTraits which,
           gboolean         is_set)
{
  return is_set ? traits | which : traits & ~which;
}

/* Traits that the options name replace the earlier ones. */
static LlmContextTraits
choose_traits (LlmContextTraits traits,
               LlmCallOptions  *options)
{
  gboolean is_exact = llm_call_options_get_boolean (options, LLMSVC_OPTION_EXACT,
                                                    (traits & LLM_CONTEXT_EXACT) != 0);
  const char *shared = llm_call_options_get_string (options, LLMSVC_OPTION_SHARED_PREFIX,
                                                    (traits & LLM_CONTEXT_SHARES_ANY) != 0
                                                      ? "any" : "exact");

  traits = set_trait (traits, LLM_CONTEXT_EXACT, is_exact);
  return set_trait (traits, LLM_CONTEXT_SHARES_ANY, g_str_equal (shared, "any"));
}

/* Makes the context of @task, as a copy of its source if it has one. */
static gboolean
build_context (GTask   *task,
               LlmCall *call,
               GError **error)
{
  LlmEngine *self = call->engine;
  LlmContext *source = call->source;
  g_autofree char *name =
    compose (call->name != NULL ? call->name
                                : llm_call_options_get_string (call->options, LLMSVC_OPTION_NAME, ""));
  g_autofree char *id = llm_stored_context_new_id ();
  g_autofree char *slo = NULL;
  LlmContext *context;

  call->place = llm_engine_take_context (self, call->caller, *name != '\0', error);
  if (call->place == NULL)
    return FALSE;
  if (*name != '\0' && find_named (self, call->caller, name) != NULL)
    return llm_fail (error, LLMSVC_ERROR_ALREADY_EXISTS,
                     "There is a context named “%s” already; open that one, or take another name", name);

  context = call->context = llm_engine_new_context (self, call->caller->app, id);
  g_free (context->name);
  context->name = g_steal_pointer (&name);
  g_ptr_array_add (self->store.making, task);
  if (*context->name == '\0')
    context->connection = g_strdup (call->caller->connection);
  context->conversation =
    source != NULL ? llm_conversation_copy (source->conversation) : llm_conversation_new ();
  context->revision = source != NULL ? source->revision : 0;
  context->max_tokens = llm_call_options_get_uint (call->options, LLMSVC_OPTION_MAX_TOKENS,
                                                   source != NULL ? source->max_tokens : 0);
  slo = g_steal_pointer (&context->slo);
  context->slo = g_strdup (llm_call_options_get_string (call->options, LLMSVC_OPTION_SLO,
                                                        source != NULL ? source->slo : slo));
  context->traits = choose_traits (source != NULL ? source->traits : 0, call->options);
  add_base (context, call->options);
  return TRUE;
}

static void
create (GTask   *task,
        LlmCall *call)
{
  GError *error = NULL;

  if (build_context (task, call, &error))
    count_and_store (task, call);
  else
    llm_call_fail (task, error);
}

void
llm_engine_create_context_async (LlmEngine          *self,
                                 LlmCaller          *caller,
                                 LlmCallOptions     *options,
                                 GAsyncReadyCallback callback,
                                 gpointer            data)
{
  g_autoptr(GTask) task = llm_call_new (self, caller, NULL, options, callback, data);

  llm_call_await_start (task, create);
}

static void
fork_loaded (GTask   *task,
             LlmCall *call)
{
  GError *error = NULL;

  call->source = g_steal_pointer (&call->context);
  if (!build_context (task, call, &error))
    llm_call_fail (task, error);
  else if (llm_call_options_has (call->options, LLMSVC_OPTION_SYSTEM)
           || llm_call_options_has (call->options, LLMSVC_OPTION_MESSAGES))
    count_and_store (task, call);
  else
    store_new_context (task, call);
}

void
llm_context_fork_async (LlmContext         *self,
                        LlmCaller          *caller,
                        LlmCallOptions     *options,
                        GAsyncReadyCallback callback,
                        gpointer            data)
{
  g_autoptr(GTask) task = llm_call_new (self, caller, NULL, options, callback, data);

  llm_call_load (task, fork_loaded);
}

/* --- open --- */

/* Several calls may open a new name at once: the first one makes the context, the others wait for
 * it. Otherwise they would exceed its quota, or make another one. */
static void
open_or_make (GTask   *task,
              LlmCall *call)
{
  LlmEngine *self = call->engine;
  LlmContext *context = find_named (self, call->caller, call->name);
  LlmCall *making;
  GError *error = NULL;

  if (*call->name == '\0')
    g_task_return_new_error (task, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                             "The name is empty");
  else if (context != NULL && !llm_context_check (context, &error))
    g_task_return_error (task, error);
  else if (context != NULL)
    {
      llm_context_set_traits (context, choose_traits (context->traits, call->options));
      g_task_return_pointer (task, g_object_ref (context), g_object_unref);
    }
  else if (!llm_call_options_get_boolean (call->options, LLMSVC_OPTION_CREATE, FALSE))
    g_task_return_error (task, llmsvc_error_new (LLMSVC_ERROR_NOT_FOUND, NULL,
                                                 "This application has no context named “%s”; the "
                                                 "option create = true would make it", call->name));
  else if ((making = find_making (self, call->caller, call->name)) != NULL)
    {
      llm_context_set_traits (making->context,
                              choose_traits (making->context->traits, call->options));
      g_queue_push_tail (&making->waiting, g_object_ref (task));
    }
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
  g_autoptr(GTask) task = llm_call_new (self, caller, NULL, options, callback, data);

  ((LlmCall *) g_task_get_task_data (task))->name = compose (name);
  llm_call_await_stored (task, open_or_make);
}

/* --- look up --- */

LlmContext *
llm_engine_lookup_context (LlmEngine  *self,
                           LlmCaller  *caller,
                           const char *id)
{
  LlmContext *context = g_hash_table_lookup (self->store.contexts, id);

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

  g_hash_table_iter_init (&iter, self->store.contexts);
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
  LlmGeneration *generation = g_hash_table_lookup (self->calls.generations, id);

  for (GList *link = self->calls.ended.head; generation == NULL && link != NULL; link = link->next)
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

  g_hash_table_iter_init (&iter, self->calls.generations);
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

  g_hash_table_iter_init (&iter, self->calls.generations);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &generation))
    if (g_str_equal (generation->caller->connection, connection))
      llm_generation_leave (generation);

  g_hash_table_iter_init (&iter, self->store.contexts);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &context))
    if (g_strcmp0 (context->connection, connection) == 0)
      g_ptr_array_add (ended, g_object_ref (context));
  for (guint i = 0; i < ended->len; i++)
    llm_context_leave (g_ptr_array_index (ended, i), "disconnected");

  g_hash_table_remove (self->memory.holds, connection);
}
