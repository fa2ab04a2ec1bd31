/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Stored data, as the engine knows it: the index of contexts, quotas, and the chosen model. It is
 * read at the start, and again when the database was lost and is back. Until it is read, calls that
 * need it fail with the database's error, and the database is tried again; other calls run with the
 * quotas and the model of the configuration. */

#define G_LOG_DOMAIN "llm-engine"

#include "engine/calls/llm-call.h"

#include "engine/apps/llm-engine-apps.h"
#include "engine/calls/llm-generation-private.h"
#include "engine/contexts/llm-engine-contexts.h"
#include "engine/models/llm-engine-models.h"

#define RETRY_S 1

static void load_index (LlmEngine *self);

/* --- contexts --- */

static void
take_stored (LlmContext             *context,
             const LlmStoredContext *stored)
{
  g_clear_pointer (&context->conversation, llm_conversation_free);
  llm_context_count (context);
  context->revision = stored->revision;
  context->created = stored->created;
  context->used = stored->used;
  context->max_tokens = stored->max_tokens;
  g_free (context->slo);
  context->slo = g_strdup (stored->slo);
  context->traits = stored->traits;
  context->n_counted = stored->n_tokens;
  g_free (context->counted_by);
  context->counted_by = g_strdup (stored->counted_by);
  g_free (context->damage);
  context->damage = g_strdup (stored->damage);
  context->stored_bytes = stored->bytes;
}

static void
add_stored_context (LlmEngine              *self,
                    const LlmStoredContext *stored)
{
  g_autoptr(LlmApp) app = llm_app_intern (stored->uid, stored->app);
  g_autoptr(LlmContext) context = llm_engine_new_context (self, app, stored->id);

  g_free (context->name);
  context->name = g_strdup (stored->name);
  take_stored (context, stored);
  llm_engine_add_context (self, context);
}

static void
on_idle_for_stored (GObject      *source,
                    GAsyncResult *result,
                    gpointer      data)
{
  LlmStoredContext *stored = data;

  take_stored (LLM_CONTEXT (source), stored);
  llm_stored_context_free (stored);
}

/* Updates a known context with its stored data. A call under way can't be committed any more, and
 * fails at its end. @stored: (transfer full) */
static void
update_context (LlmContext       *context,
                LlmStoredContext *stored)
{
  if (context->revision != stored->revision && context->is_busy)
    {
      g_queue_push_tail (&context->waiting_idle,
                         g_task_new (context, NULL, on_idle_for_stored, stored));
      return;
    }
  if (context->revision != stored->revision)
    take_stored (context, stored);
  llm_stored_context_free (stored);
}

static gboolean
is_same_context (LlmContext             *context,
                 const LlmStoredContext *stored)
{
  return context->app->uid == stored->uid && g_str_equal (context->app->id, stored->app) &&
         g_str_equal (context->name, stored->name);
}

static void
end_contexts (LlmEngine        *self,
              const GHashTable *stored)
{
  g_autoptr(GPtrArray) gone = g_ptr_array_new_with_free_func (g_object_unref);
  GHashTableIter iter;
  LlmContext *context;

  g_hash_table_iter_init (&iter, self->store.contexts);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &context))
    {
      const LlmStoredContext *there = g_hash_table_lookup ((GHashTable *) stored, context->id);

      if (llm_context_is_named (context) && (there == NULL || !is_same_context (context, there)))
        g_ptr_array_add (gone, g_object_ref (context));
    }
  for (guint i = 0; i < gone->len; i++)
    llm_context_leave (g_ptr_array_index (gone, i), "administrator");
}

/* Empties @contexts. */
static void
take_contexts (LlmEngine *self,
               GPtrArray *contexts)
{
  g_autoptr(GHashTable) stored = g_hash_table_new (g_str_hash, g_str_equal);

  for (guint i = 0; i < contexts->len; i++)
    g_hash_table_insert (stored, ((LlmStoredContext *) g_ptr_array_index (contexts, i))->id,
                         g_ptr_array_index (contexts, i));
  end_contexts (self, stored);
  while (contexts->len > 0)
    {
      LlmStoredContext *one = g_ptr_array_steal_index_fast (contexts, contexts->len - 1);
      LlmContext *context = g_hash_table_lookup (self->store.contexts, one->id);

      if (context == NULL)
        add_stored_context (self, one);
      if (context == NULL || !is_same_context (context, one))
        llm_stored_context_free (one);
      else
        update_context (context, one);
    }
}

/* --- quotas --- */

static void
take_quotas (LlmEngine       *self,
             const GPtrArray *quotas)
{
  GHashTableIter iter;
  LlmAppAccount *app;

  llm_engine_reset_default_quota (self);
  g_hash_table_iter_init (&iter, self->accounts.apps);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &app))
    memset (app->quota, 0, sizeof app->quota);
  llm_engine_take_quotas (self, quotas);
}

/* --- chunks of contexts that are not there any more --- */

/* Contexts that were not used since the start: their cached tokens are on storage. */
static void
on_storage_swept (GHashTable *stored,
                  gpointer    data)
{
  LlmEngine *self = data;
  GHashTableIter iter;
  LlmContext *context;

  g_hash_table_iter_init (&iter, self->store.contexts);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &context))
    if (context->residency == LLM_RESIDENCY_TEXT && g_hash_table_contains (stored, context->id))
      context->residency = LLM_RESIDENCY_STORAGE;
}

/* Without the index the owners are unknown: everything is left as it is. */
static void
sweep_storage (LlmEngine *self)
{
  GHashTable *ids = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  GHashTableIter iter;
  const char *id;

  g_hash_table_iter_init (&iter, self->store.contexts);
  while (g_hash_table_iter_next (&iter, (gpointer *) &id, NULL))
    g_hash_table_add (ids, g_strdup (id));
  llm_executor_sweep_storage (self->executor, ids, on_storage_swept, self);
}

/* --- the index --- */

/* Logs numbers only: names are private. */
static void
tell_damage (const LlmStoredIndex *index)
{
  if (index->n_damaged > 0)
    g_warning ("Damaged contexts in the database: %u. Their applications get an error when they "
               "open them", index->n_damaged);
  if (index->n_unowned > 0)
    g_warning ("Contexts in the database whose owner is damaged: %u. They stay there, and no "
               "application can use them", index->n_unowned);
  if (index->n_bad_settings > 0)
    g_warning ("Damaged quotas or settings in the database: %u. They are ignored; set them again",
               index->n_bad_settings);
}

static gboolean
on_retry (gpointer data)
{
  LlmEngine *self = data;

  self->store.retry_timer = 0;
  load_index (self);
  return G_SOURCE_REMOVE;
}

/* @error: (transfer full): why it could not be read */
static void
fail (LlmEngine *self,
      GError    *error)
{
  gboolean is_first = self->store.db_error == NULL;

  /* logged once, not with each try */
  if (self->store.db_error == NULL || !g_str_equal (self->store.db_error->message, error->message))
    g_warning ("What is stored can't be used: %s", error->message);
  g_clear_error (&self->store.db_error);
  self->store.db_error = error;
  self->start.has_index = FALSE;
  if (self->store.retry_timer == 0)
    self->store.retry_timer = g_timeout_add_seconds (RETRY_S, on_retry, self);
  if (is_first)
    llm_engine_models_settle (self);
  else
    llm_engine_update_availability (self);
}

static void
on_index_loaded (GObject      *source,
                 GAsyncResult *result,
                 gpointer      data)
{
  g_autoptr(LlmEngine) self = data;
  gboolean is_stale = self->store.is_index_stale;
  LlmStoredIndex *index;
  GError *error = NULL;

  self->store.is_loading_index = FALSE;
  self->store.is_index_stale = FALSE;
  if (!llm_db_run_finish (result, (gpointer *) &index, &error))
    {
      if (index->is_corrupt && !self->store.is_salvaged)
        {
          self->store.is_salvaged = TRUE;
          llm_db_salvage_file (self->store.db);
          load_index (self);
          g_error_free (error);
          return;
        }
      fail (self, error);
      return;
    }
  if (is_stale)
    {
      load_index (self);
      return;
    }
  self->store.is_salvaged = FALSE;
  tell_damage (index);
  take_contexts (self, index->contexts);
  llm_engine_count_all (self);
  take_quotas (self, index->quotas);
  g_free (self->use.chosen);
  self->use.chosen = g_steal_pointer (&index->model);
  sweep_storage (self);
  self->start.has_index = TRUE;
  if (self->store.db_error != NULL)
    g_message ("What is stored can be used again");
  if (self->store.db_error != NULL && self->start.has_catalogue)
    {
      g_clear_error (&self->store.db_error);
      llm_engine_models_start (self);
      return;
    }
  g_clear_error (&self->store.db_error);
  llm_engine_models_settle (self);
}

static void
load_index (LlmEngine *self)
{
  if (self->store.is_loading_index || self->store.db == NULL)
    return;
  self->store.is_loading_index = TRUE;
  g_clear_handle_id (&self->store.retry_timer, g_source_remove);
  llm_db_run_async (self->store.db, llm_store_load_index, llm_stored_index_new (),
                    (GDestroyNotify) llm_stored_index_free, on_index_loaded, g_object_ref (self));
}

static void
on_lost (const GError *error,
         gpointer      data)
{
  LlmEngine *self = data;

  /* an index that is being read fails the same way, or is of the earlier database */
  if (self->store.is_loading_index)
    {
      self->store.is_index_stale = TRUE;
      return;
    }
  fail (self, g_error_copy (error));
  load_index (self);
}

static guint64
make_room (guint64  bytes,
           gpointer data)
{
  LlmEngine *self = data;
  guint64 freed = llm_executor_trim_storage (self->executor, bytes);

  if (freed > 0)
    g_message ("The disk is full: %" G_GUINT64_FORMAT " bytes of context memory were removed from "
               "it, and will be computed again", freed);
  return freed;
}

void
llm_engine_store_start (LlmEngine *self)
{
  self->store.db = llm_db_new (self->settings->state_folder, &llm_context_schema);
  llm_db_connect (self->store.db, on_lost, make_room, self);
  load_index (self);
}

void
llm_engine_store_stop (LlmEngine *self)
{
  g_clear_handle_id (&self->store.retry_timer, g_source_remove);
  g_clear_pointer (&self->store.db, llm_db_free);
}
