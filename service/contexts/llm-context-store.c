/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "contexts/llm-context-store.h"

#include "base/llm-fail.h"

LlmStoredContext *
llm_stored_context_new (void)
{
  LlmStoredContext *self = g_new0 (LlmStoredContext, 1);

  self->dropped = G_MAXUINT;
  return self;
}

void
llm_stored_context_free (LlmStoredContext *self)
{
  g_free (self->id);
  g_free (self->app);
  g_free (self->name);
  g_free (self->slo);
  g_free (self->counted_by);
  g_free (self->damage);
  g_clear_pointer (&self->turns, llm_conversation_free);
  g_free (self);
}

char *
llm_stored_context_new_id (void)
{
  return g_strdup_printf ("%08x%08x%08x%08x", g_random_int (), g_random_int (), g_random_int (),
                          g_random_int ());
}

LlmStoredIndex *
llm_stored_index_new (void)
{
  LlmStoredIndex *self = g_new0 (LlmStoredIndex, 1);

  self->contexts = g_ptr_array_new_with_free_func ((GDestroyNotify) llm_stored_context_free);
  self->quotas = g_ptr_array_new_with_free_func ((GDestroyNotify) llm_stored_quota_free);
  return self;
}

void
llm_stored_index_free (LlmStoredIndex *self)
{
  g_ptr_array_unref (self->contexts);
  g_ptr_array_unref (self->quotas);
  g_free (self->model);
  g_free (self);
}

LlmStoredQuota *
llm_stored_quota_new (guint32     uid,
                      const char *app,
                      const char *key,
                      double      value)
{
  LlmStoredQuota *self = g_new (LlmStoredQuota, 1);

  *self = (LlmStoredQuota) { uid, g_strdup (app), g_strdup (key), value };
  return self;
}

void
llm_stored_quota_free (LlmStoredQuota *self)
{
  g_free (self->app);
  g_free (self->key);
  g_free (self);
}

/* --- writing --- */

static gboolean
insert_turn (sqlite3       *db,
             const char    *context,
             guint          number,
             const LlmTurn *turn,
             GError       **error)
{
  g_autofree char *results = turn->results != NULL ? g_variant_print (turn->results, TRUE) : NULL;
  g_autoptr(GPtrArray) extras = g_ptr_array_new_with_free_func (g_free);

  for (guint i = 0; i < turn->messages->len; i++)
    {
      const LlmStoredMessage *message = g_ptr_array_index (turn->messages, i);

      g_ptr_array_add (extras, g_variant_print (message->extras, TRUE));
    }
  if (!llm_db_execute (db, error,
                       "INSERT INTO turns"
                       " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, nullif (?, -1), ?, nullif (?, 100),"
                       " nullif (?, 0), nullif (?, 0), nullif (?, 0))",
                       "siiiibsssiiisiiii", context, (gint64) number, (gint64) turn->is_base,
                       (gint64) turn->is_closed, (gint64) turn->n_tokens,
                       (const void *) (turn->tokens != NULL ? turn->tokens->data : NULL),
                       turn->tokens != NULL ? turn->tokens->len * sizeof (gint32) : (gsize) 0,
                       turn->identity, turn->request_id, results,
                       llm_checksum_of_turn (context, number, turn, results, extras),
                       llm_checksum_of_tokens (context, number, turn),
                       turn->counted_by != NULL ? (gint64) turn->n_total : (gint64) -1,
                       turn->counted_by, (gint64) turn->sub_model, (gint64) turn->sparsity,
                       (gint64) turn->n_sparse, (gint64) turn->n_w8))
    return FALSE;
  for (guint i = 0; i < turn->messages->len; i++)
    {
      const LlmStoredMessage *message = g_ptr_array_index (turn->messages, i);

      if (!llm_db_execute (db, error,
                           "INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?)", "siisss", context,
                           (gint64) number, (gint64) i, message->role, message->text,
                           extras->pdata[i]))
        return FALSE;
    }
  return TRUE;
}

gboolean
llm_store_insert_context (sqlite3  *db,
                          gpointer  data,
                          GError  **error)
{
  LlmStoredContext *context = data;

  context->n_turns = context->turns != NULL ? context->turns->turns->len : 0;
  if (!llm_db_execute (db, error,
                       "INSERT INTO contexts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                       "sissiiiisiiis", context->id, (gint64) context->uid, context->app,
                       context->name, (gint64) context->revision, context->created, context->used,
                       (gint64) context->max_tokens, context->slo, (gint64) context->n_turns,
                       llm_checksum_of_owner (context), llm_checksum_of_context (context),
                       context->damage))
    {
      if (sqlite3_extended_errcode (db) != SQLITE_CONSTRAINT_UNIQUE)
        return FALSE;
      g_clear_error (error);
      return llm_fail (error, LLMSVC_ERROR_ALREADY_EXISTS,
                       "There is a context named “%s” already; open that one, or take another name",
                       context->name);
    }
  if (context->traits != 0 && !llm_store_set_traits (db, context, error))
    return FALSE;
  for (guint i = 0; i < context->n_turns; i++)
    if (!insert_turn (db, context->id, i, g_ptr_array_index (context->turns->turns, i), error))
      return FALSE;
  return TRUE;
}

gboolean
llm_store_delete_context (sqlite3  *db,
                          gpointer  id,
                          GError  **error)
{
  return llm_db_execute (db, error, "DELETE FROM contexts WHERE id = ?", "s", id)
         && llm_db_execute (db, error, "DELETE FROM traits WHERE context = ?", "s", id);
}

gboolean
llm_store_set_traits (sqlite3  *db,
                      gpointer  data,
                      GError  **error)
{
  const LlmStoredContext *context = data;

  return llm_db_execute (db, error,
                         "INSERT OR REPLACE INTO traits SELECT id, ? FROM contexts WHERE id = ?",
                         "is", (gint64) context->traits, context->id);
}

/* Writes what changes in the row of a context. It is read before: a new checksum must not cover up
 * what is damaged. */
static gboolean
change_context (sqlite3                *db,
                const LlmStoredContext *change,
                GError                **error)
{
  g_autoptr(LlmStoredContext) context = llm_stored_context_new ();
  g_autoptr(sqlite3_stmt) row =
    llm_db_query (db, error, "SELECT * FROM contexts WHERE id = ?", "s", change->id);

  if (!llm_db_next (row, error))
    return *error == NULL && llm_fail (error, LLMSVC_ERROR_NOT_FOUND, "The context was closed");
  if (!llm_stored_context_read (context, row) || context->damage != NULL)
    return llm_fail (error, LLMSVC_ERROR_STORAGE, "The stored data of the context is damaged");
  /* it is what it was when the call began, unless others put another database there */
  if (context->revision + 1 != change->revision)
    return llm_fail (error, LLMSVC_ERROR_NOT_FOUND, "The context was closed");
  context->revision = change->revision;
  context->used = change->used;
  context->n_turns = change->n_turns + (change->added != NULL ? 1 : 0);
  return llm_db_execute (db, error,
                         "UPDATE contexts SET revision = ?, used = ?, n_turns = ?, checksum = ?"
                         " WHERE id = ?", "iiiis", (gint64) context->revision, context->used,
                         (gint64) context->n_turns, llm_checksum_of_context (context),
                         context->id);
}

gboolean
llm_store_change (sqlite3  *db,
                  gpointer  data,
                  GError  **error)
{
  const LlmStoredContext *change = data;

  if (!change_context (db, change, error) ||
      !llm_db_execute (db, error, "DELETE FROM turns WHERE context = ? AND number >= ?", "si",
                       change->id, (gint64) change->n_turns))
    return FALSE;
  if (change->dropped < change->n_turns &&
      !llm_db_execute (db, error,
                       "UPDATE turns SET tokens = NULL, identity = NULL, is_closed = 0,"
                       " token_checksum = NULL, n_total = NULL, counted_by = NULL, sub_model = NULL,"
                       " sparsity = NULL, n_sparse = NULL, n_w8 = NULL"
                       " WHERE context = ? AND number >= ?", "si", change->id,
                       (gint64) change->dropped))
    return FALSE;
  return change->added == NULL ||
         insert_turn (db, change->id, change->n_turns, change->added, error);
}

gboolean
llm_store_set_count (sqlite3  *db,
                     gpointer  data,
                     GError  **error)
{
  const LlmStoredContext *context = data;

  return llm_db_execute (db, error,
                         "UPDATE turns SET n_total = ?, counted_by = ?"
                         " WHERE context = ? AND number = ?", "issi", (gint64) context->n_tokens,
                         context->counted_by, context->id, (gint64) context->n_turns - 1);
}

gboolean
llm_store_set_quota (sqlite3  *db,
                     gpointer  data,
                     GError  **error)
{
  LlmStoredQuota *quota = data;

  return llm_db_execute (db, error, "INSERT OR REPLACE INTO quotas VALUES (?, ?, ?, ?)", "issd",
                         (gint64) quota->uid, quota->app, quota->key, quota->value);
}

gboolean
llm_store_set_model (sqlite3  *db,
                     gpointer  id,
                     GError  **error)
{
  return llm_db_execute (db, error, "INSERT OR REPLACE INTO settings VALUES ('model', ?)", "s", id);
}
