/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "engine/llm-context-store.h"

#include <string.h>

#include "common/llmsvc-error.h"

LlmStoredContext *
llm_stored_context_new (void)
{
  return g_new0 (LlmStoredContext, 1);
}

void
llm_stored_context_free (LlmStoredContext *self)
{
  g_free (self->id);
  g_free (self->app);
  g_free (self->name);
  g_free (self->slo);
  g_clear_pointer (&self->turns, llm_conversation_free);
  g_free (self);
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

LlmStoredChange *
llm_stored_change_new (const char *context)
{
  LlmStoredChange *self = g_new0 (LlmStoredChange, 1);

  self->context = g_strdup (context);
  return self;
}

void
llm_stored_change_free (LlmStoredChange *self)
{
  g_free (self->context);
  g_free (self);
}

static char *
dup_column (sqlite3_stmt *row,
            int           column)
{
  return g_strdup ((const char *) sqlite3_column_text (row, column));
}

/* --- reading --- */

static gboolean
load_contexts (sqlite3        *db,
               LlmStoredIndex *index,
               GError        **error)
{
  g_autoptr(GError) local = NULL;
  g_autoptr(sqlite3_stmt) row = llm_db_query (db, error,
    "SELECT c.id, c.uid, c.app, c.name, c.revision, c.created, c.used, c.max_tokens, c.slo,"
    "  coalesce ((SELECT sum (t.n_tokens) FROM turns t WHERE t.context = c.id), 0),"
    "  coalesce ((SELECT sum (length (m.text)) FROM messages m WHERE m.context = c.id), 0) +"
    "  coalesce ((SELECT sum (length (t.tokens)) FROM turns t WHERE t.context = c.id), 0)"
    " FROM contexts c", "");

  if (row == NULL)
    return FALSE;
  while (llm_db_next (row, &local))
    {
      LlmStoredContext *context = llm_stored_context_new ();

      context->id = dup_column (row, 0);
      context->uid = sqlite3_column_int64 (row, 1);
      context->app = dup_column (row, 2);
      context->name = dup_column (row, 3);
      context->revision = sqlite3_column_int64 (row, 4);
      context->created = sqlite3_column_int64 (row, 5);
      context->used = sqlite3_column_int64 (row, 6);
      context->max_tokens = sqlite3_column_int64 (row, 7);
      context->slo = dup_column (row, 8);
      context->n_tokens = sqlite3_column_int64 (row, 9);
      context->bytes = sqlite3_column_int64 (row, 10);
      g_ptr_array_add (index->contexts, context);
    }
  if (local != NULL)
    g_propagate_error (error, g_steal_pointer (&local));
  return *error == NULL;
}

static gboolean
load_quotas (sqlite3        *db,
             LlmStoredIndex *index,
             GError        **error)
{
  g_autoptr(GError) local = NULL;
  g_autoptr(sqlite3_stmt) row =
    llm_db_query (db, error, "SELECT uid, app, key, value FROM quotas", "");

  if (row == NULL)
    return FALSE;
  while (llm_db_next (row, &local))
    g_ptr_array_add (index->quotas,
                     llm_stored_quota_new (sqlite3_column_int64 (row, 0),
                                           (const char *) sqlite3_column_text (row, 1),
                                           (const char *) sqlite3_column_text (row, 2),
                                           sqlite3_column_double (row, 3)));
  if (local != NULL)
    g_propagate_error (error, g_steal_pointer (&local));
  return *error == NULL;
}

gboolean
llm_store_load_index (sqlite3  *db,
                      gpointer  data,
                      GError  **error)
{
  LlmStoredIndex *index = data;
  g_autoptr(sqlite3_stmt) row = NULL;

  /* it may run again */
  g_ptr_array_set_size (index->contexts, 0);
  g_ptr_array_set_size (index->quotas, 0);
  if (!load_contexts (db, index, error) || !load_quotas (db, index, error))
    return FALSE;
  row = llm_db_query (db, error, "SELECT value FROM settings WHERE key = 'model'", "");
  if (row == NULL)
    return FALSE;
  g_clear_pointer (&index->model, g_free);
  if (llm_db_next (row, error))
    index->model = dup_column (row, 0);
  return *error == NULL;
}

static gboolean
load_messages (sqlite3    *db,
               const char *context,
               gint64      number,
               LlmTurn    *turn,
               GError    **error)
{
  g_autoptr(GError) local = NULL;
  g_autoptr(sqlite3_stmt) row = llm_db_query (db, error,
    "SELECT role, text, extras FROM messages WHERE context = ? AND turn = ? ORDER BY number", "si",
    context, number);

  if (row == NULL)
    return FALSE;
  while (llm_db_next (row, &local))
    {
      g_autoptr(GVariant) extras =
        g_variant_parse (G_VARIANT_TYPE_VARDICT, (const char *) sqlite3_column_text (row, 2), NULL,
                         NULL, NULL);

      g_ptr_array_add (turn->messages, llm_stored_message_new (
                                         (const char *) sqlite3_column_text (row, 0),
                                         (const char *) sqlite3_column_text (row, 1), extras));
    }
  if (local != NULL)
    g_propagate_error (error, g_steal_pointer (&local));
  return *error == NULL;
}

gboolean
llm_store_load_turns (sqlite3  *db,
                      gpointer  data,
                      GError  **error)
{
  LlmStoredContext *context = data;
  g_autoptr(LlmConversation) turns = llm_conversation_new ();
  g_autoptr(GError) local = NULL;
  g_autoptr(sqlite3_stmt) row = llm_db_query (db, error,
    "SELECT number, is_base, is_closed, n_tokens, tokens, identity, request_id, results"
    " FROM turns WHERE context = ? ORDER BY number", "s", context->id);

  if (row == NULL)
    return FALSE;
  while (llm_db_next (row, &local))
    {
      g_autoptr(LlmTurn) turn = llm_turn_new ();
      gsize n_bytes = sqlite3_column_bytes (row, 4);
      const char *results = (const char *) sqlite3_column_text (row, 7);

      turn->is_base = sqlite3_column_int (row, 1);
      turn->is_closed = sqlite3_column_int (row, 2);
      turn->n_tokens = sqlite3_column_int64 (row, 3);
      if (n_bytes > 0 && n_bytes % sizeof (gint32) == 0)
        {
          turn->tokens = g_array_new (FALSE, FALSE, sizeof (gint32));
          g_array_append_vals (turn->tokens, sqlite3_column_blob (row, 4),
                               n_bytes / sizeof (gint32));
        }
      turn->identity = dup_column (row, 5);
      turn->request_id = dup_column (row, 6);
      if (results != NULL)
        turn->results = g_variant_parse (G_VARIANT_TYPE_VARDICT, results, NULL, NULL, NULL);
      if (!load_messages (db, context->id, sqlite3_column_int64 (row, 0), turn, error))
        return FALSE;
      llm_conversation_add_turn (turns, g_steal_pointer (&turn));
    }
  if (local != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local));
      return FALSE;
    }
  context->turns = g_steal_pointer (&turns);
  return TRUE;
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

  if (!llm_db_execute (db, error,
                       "INSERT INTO turns (context, number, is_base, is_closed, n_tokens, tokens,"
                       " identity, request_id, results) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                       "siiiibsss", context, (gint64) number, (gint64) turn->is_base,
                       (gint64) turn->is_closed, (gint64) turn->n_tokens,
                       (const void *) (turn->tokens != NULL ? turn->tokens->data : NULL),
                       turn->tokens != NULL ? turn->tokens->len * sizeof (gint32) : (gsize) 0,
                       turn->identity, turn->request_id, results))
    return FALSE;

  for (guint i = 0; i < turn->messages->len; i++)
    {
      const LlmStoredMessage *message = g_ptr_array_index (turn->messages, i);
      g_autofree char *extras = g_variant_print (message->extras, TRUE);

      if (!llm_db_execute (db, error,
                           "INSERT INTO messages (context, turn, number, role, text, extras)"
                           " VALUES (?, ?, ?, ?, ?, ?)", "siisss", context, (gint64) number,
                           (gint64) i, message->role, message->text, extras))
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
  g_autoptr(sqlite3_stmt) row = llm_db_query (db, error,
    "SELECT 1 FROM contexts WHERE uid = ? AND app = ? AND name = ?", "iss", (gint64) context->uid,
    context->app, context->name);

  if (row == NULL)
    return FALSE;
  if (llm_db_next (row, error))
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_ALREADY_EXISTS,
                   "There is a context named “%s” already; open it with OpenContext()",
                   context->name);
      return FALSE;
    }
  if (*error != NULL)
    return FALSE;

  if (!llm_db_execute (db, error,
                       "INSERT INTO contexts (id, uid, app, name, revision, created, used, "
                       "max_tokens, slo) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                       "sissiiiis", context->id, (gint64) context->uid, context->app, context->name,
                       (gint64) context->revision, context->created, context->used,
                       (gint64) context->max_tokens, context->slo))
    return FALSE;
  for (guint i = 0; context->turns != NULL && i < llm_conversation_get_n_turns (context->turns);
       i++)
    if (!insert_turn (db, context->id, i, llm_conversation_get_turn (context->turns, i), error))
      return FALSE;
  return TRUE;
}

gboolean
llm_store_delete_context (sqlite3  *db,
                          gpointer  id,
                          GError  **error)
{
  return llm_db_execute (db, error, "DELETE FROM contexts WHERE id = ?", "s", (const char *) id);
}

gboolean
llm_store_change (sqlite3  *db,
                  gpointer  data,
                  GError  **error)
{
  LlmStoredChange *change = data;

  /* what is stored is what it was when the call began, unless others put another database there */
  if (!llm_db_execute (db, error,
                       "UPDATE contexts SET revision = ?, used = ? WHERE id = ? AND revision = ?",
                       "iisi", (gint64) change->revision, change->used, change->context,
                       (gint64) change->revision - 1))
    return FALSE;
  if (sqlite3_changes (db) != 1)
    {
      g_set_error_literal (error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_FOUND, "The context was closed");
      return FALSE;
    }
  if (!llm_db_execute (db, error, "DELETE FROM turns WHERE context = ? AND number >= ?", "si",
                       change->context, (gint64) change->n_turns))
    return FALSE;
  return change->turn == NULL ||
         insert_turn (db, change->context, change->n_turns, change->turn, error);
}

gboolean
llm_store_set_quota (sqlite3  *db,
                     gpointer  data,
                     GError  **error)
{
  LlmStoredQuota *quota = data;

  return llm_db_execute (db, error,
                         "INSERT OR REPLACE INTO quotas (uid, app, key, value) VALUES (?, ?, ?, ?)",
                         "issd", (gint64) quota->uid, quota->app, quota->key, quota->value);
}

gboolean
llm_store_set_model (sqlite3  *db,
                     gpointer  id,
                     GError  **error)
{
  return llm_db_execute (db, error,
                         "INSERT OR REPLACE INTO settings (key, value) VALUES ('model', ?)", "s",
                         (const char *) id);
}
