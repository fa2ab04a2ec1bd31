/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reading the index: which contexts there are, quotas and settings. Nothing of it is trusted: a bad
 * value costs the row that it is in, and is told. */

#include "contexts/llm-context-store.h"

#include <math.h>
#include <string.h>

#include "base/llm-fail.h"
#include "common/llmsvc-option-value.h"

/* An application's id: what the bus takes is shorter. */
#define MAX_APP_BYTES 512

/* A name to show: as much of the stored one as can be, unlike all others with @id. */
static char *
make_name (const char *stored,
           const char *id)
{
  g_autofree char *valid = g_utf8_make_valid (stored != NULL ? stored : "", -1);
  GString *name = g_string_new (NULL);

  for (const char *p = valid; *p != '\0' && name->len < LLM_STORED_MAX_NAME_BYTES / 2;
       p = g_utf8_next_char (p))
    if (llmsvc_name_may_have (g_utf8_get_char (p)))
      g_string_append_unichar (name, g_utf8_get_char (p));
  g_string_append_printf (name, " (%.8s)", id);
  return g_string_free (name, FALSE);
}

/* A row that was found damaged and is made so that it can be shown, closed, and deleted. */
typedef struct
{
  sqlite3_value *id;          /* (owned): as stored */
  LlmStoredContext *context;  /* (unowned) */
  gint64 checksum;            /* as stored; 0 for none */
} Repair;

static void
repair_free (Repair *repair)
{
  sqlite3_value_free (repair->id);
  g_free (repair);
}

/* Notes that this context has its id and its name. FALSE when another has one of them. */
static gboolean
take_names (GHashTable             *taken,
            const LlmStoredContext *context)
{
  char *name = g_strdup_printf ("%u/%s/%s", context->uid, context->app, context->name);
  gboolean is_new = !g_hash_table_contains (taken, context->id);

  if (is_new && !g_hash_table_contains (taken, name))
    return g_hash_table_add (taken, g_strdup (context->id)) && g_hash_table_add (taken, name);
  g_free (name);
  return FALSE;
}

/* NULL when the owner is unknown: then no caller may see it. */
static LlmStoredContext *
read_owner (sqlite3_stmt *row)
{
  g_autoptr(LlmStoredContext) context = llm_stored_context_new ();
  gint64 uid;

  if (!llm_db_get_number (row, 1, 0, G_MAXUINT32, &uid) || !llm_db_dup_text (row, 2, &context->app)
      || context->app == NULL || strlen (context->app) > MAX_APP_BYTES)
    return NULL;
  context->uid = (guint32) uid;
  return llm_db_check_sum (row, 10, llm_checksum_of_owner (context)) ? g_steal_pointer (&context)
                                                                     : NULL;
}

/* Gives a damaged row what it needs to be listed and closed. */
static void
make_listable (GHashTable       *taken,
               sqlite3_stmt     *row,
               LlmStoredContext *context)
{
  if (context->damage == NULL)
    context->damage = g_strdup ("");
  if (context->slo == NULL)
    context->slo = g_strdup ("responsive");
  if (context->id == NULL || g_hash_table_contains (taken, context->id))
    {
      g_free (context->id);
      context->id = llm_stored_context_new_id ();
    }
  if (context->name != NULL && take_names (taken, context))
    return;
  g_free (context->name);
  context->name = make_name ((const char *) sqlite3_column_text (row, 3), context->id);
  take_names (taken, context);
}

/* @taken: (element-type utf8) (owned): ids, and "UID/APP/NAME" */
static void
take_row (LlmStoredIndex *index,
          GHashTable     *taken,
          GPtrArray      *repairs,
          sqlite3_stmt   *row)
{
  LlmStoredContext *context = read_owner (row);
  gint64 n_tokens, bytes, traits;
  gboolean is_good;

  if (context == NULL)
    {
      index->n_unowned++;
      return;
    }
  g_ptr_array_add (index->contexts, context);
  is_good = llm_stored_context_read (context, row);

  /* only counts */
  llm_db_get_number (row, 13, 0, G_MAXINT, &n_tokens);
  llm_db_get_number (row, 15, 0, G_MAXINT64, &bytes);
  context->n_tokens = (guint) n_tokens;
  context->counted_by = g_strdup (llm_db_get_text (row, 14));
  context->bytes = (guint64) bytes;
  llm_db_get_number (row, 16, 0, LLM_CONTEXT_ALL_TRAITS, &traits);
  context->traits = (LlmContextTraits) traits;

  if (!is_good || !take_names (taken, context))
    {
      Repair *repair = g_new (Repair, 1);

      *repair = (Repair) { sqlite3_value_dup (sqlite3_column_value (row, 0)), context,
                           sqlite3_column_int64 (row, 11) };
      g_ptr_array_add (repairs, repair);
      index->n_damaged++;
      make_listable (taken, row, context);
    }
}

/* The turns of a context whose id was damaged still have the good one: it is the one of which the
 * checksum is. */
static gboolean
find_id (sqlite3       *db,
         const Repair  *repair,
         GError       **error)
{
  LlmStoredContext *context = repair->context;
  g_autofree char *made = g_steal_pointer (&context->id);
  g_autofree char *damage = g_steal_pointer (&context->damage);
  g_autoptr(sqlite3_stmt) row = llm_db_query (db, error,
    "SELECT DISTINCT context FROM turns WHERE context NOT IN (SELECT id FROM contexts)", "");

  while (llm_db_next (row, error))
    {
      context->id = g_strdup (llm_db_get_text (row, 0));
      if (context->id != NULL && llm_checksum_of_context (context) == repair->checksum)
        return TRUE;
      g_free (context->id);
    }
  context->id = g_steal_pointer (&made);
  context->damage = g_steal_pointer (&damage);
  return *error == NULL;
}

static gboolean
repair_row (sqlite3        *db,
            LlmStoredIndex *index,
            const Repair   *repair,
            GError        **error)
{
  const LlmStoredContext *context = repair->context;

  if (repair->checksum != 0 && !find_id (db, repair, error))
    return FALSE;
  index->n_damaged -= context->damage == NULL;
  if (!llm_db_execute (db, error,
                       "UPDATE contexts SET id = ?, name = ?, revision = ?, created = ?, used = ?,"
                       " max_tokens = ?, slo = ?, n_turns = ?, checksum = ?, damage = ?"
                       " WHERE id IS ?", "ssiiiisiisv", context->id, context->name,
                       (gint64) context->revision, context->created, context->used,
                       (gint64) context->max_tokens, context->slo, (gint64) context->n_turns,
                       llm_checksum_of_context (context), context->damage, repair->id))
    return FALSE;
  if (sqlite3_changes (db) != 1)
    {
      /* it is there when all are read, and not when it is looked for */
      index->is_corrupt = TRUE;
      return llm_fail (error, LLMSVC_ERROR_STORAGE, "The context database is damaged");
    }
  return llm_db_execute (db, error, "UPDATE turns SET context = ?1 WHERE context IS ?2"
                                    " AND context <> ?1", "sv", context->id, repair->id)
         && llm_db_execute (db, error, "UPDATE messages SET context = ?1 WHERE context IS ?2"
                                       " AND context <> ?1", "sv", context->id, repair->id)
         && llm_db_execute (db, error, "UPDATE OR REPLACE traits SET context = ?1 WHERE context IS ?2"
                                       " AND context <> ?1", "sv", context->id, repair->id);
}

static gboolean
load_contexts (sqlite3        *db,
               LlmStoredIndex *index,
               GError        **error)
{
  g_autoptr(GHashTable) taken = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr(GPtrArray) repairs = g_ptr_array_new_with_free_func ((GDestroyNotify) repair_free);
  g_autoptr(sqlite3_stmt) row = llm_db_query (db, error,
    "SELECT c.*,"
    "  coalesce ((SELECT t.n_total FROM turns t WHERE t.context = c.id"
    "              ORDER BY t.number DESC LIMIT 1),"
    "            (SELECT sum (t.n_tokens) FROM turns t WHERE t.context = c.id), 0),"
    "  (SELECT t.counted_by FROM turns t WHERE t.context = c.id ORDER BY t.number DESC LIMIT 1),"
    "  coalesce ((SELECT sum (length (m.text)) FROM messages m WHERE m.context = c.id), 0) +"
    "  coalesce ((SELECT sum (length (t.tokens)) FROM turns t WHERE t.context = c.id), 0),"
    "  coalesce ((SELECT traits FROM traits WHERE context = c.id), 0)"
    " FROM contexts c", "");

  while (llm_db_next (row, error))
    take_row (index, taken, repairs, row);
  if (*error != NULL)
    return FALSE;
  sqlite3_reset (row);
  /* rows below such a context have its old id */
  if (repairs->len > 0 && !llm_db_execute (db, error, "PRAGMA defer_foreign_keys = ON", ""))
    return FALSE;
  for (guint i = 0; i < repairs->len; i++)
    if (!repair_row (db, index, g_ptr_array_index (repairs, i), error))
      return FALSE;
  return TRUE;
}

static gboolean
load_quotas (sqlite3        *db,
             LlmStoredIndex *index,
             GError        **error)
{
  g_autoptr(sqlite3_stmt) row =
    llm_db_query (db, error, "SELECT uid, app, key, value FROM quotas", "");

  while (llm_db_next (row, error))
    {
      const char *app = llm_db_get_text (row, 1);
      const char *key = llm_db_get_text (row, 2);
      double value = sqlite3_column_double (row, 3);
      gint64 uid;

      if (!llm_db_get_number (row, 0, 0, G_MAXUINT32, &uid) || app == NULL
          || strlen (app) > MAX_APP_BYTES || key == NULL
          || sqlite3_column_type (row, 3) == SQLITE_NULL || !isfinite (value) || value < 0)
        index->n_bad_settings++;
      else
        g_ptr_array_add (index->quotas, llm_stored_quota_new ((guint32) uid, app, key, value));
    }
  return *error == NULL;
}

static gboolean
load_settings (sqlite3        *db,
               LlmStoredIndex *index,
               GError        **error)
{
  g_autoptr(sqlite3_stmt) row =
    llm_db_query (db, error, "SELECT value FROM settings WHERE key = 'model'", "");

  if (llm_db_next (row, error))
    {
      index->model = g_strdup (llm_db_get_text (row, 0));
      index->n_bad_settings += index->model == NULL;
    }
  return *error == NULL;
}

/* The indexes are needed when something is written: better known now. */
static gboolean
check_indexes (sqlite3 *db,
               GError **error)
{
  return llm_db_execute (db, error,
                         "SELECT (SELECT sum (uid + length (app) + length (name)) FROM contexts"
                         " INDEXED BY sqlite_autoindex_contexts_2),"
                         " (SELECT sum (length (slo)) FROM contexts INDEXED BY contexts_copy)", "");
}

gboolean
llm_store_load_index (sqlite3  *db,
                      gpointer  data,
                      GError  **error)
{
  LlmStoredIndex *index = data;

  /* it may run again */
  g_ptr_array_set_size (index->contexts, 0);
  g_ptr_array_set_size (index->quotas, 0);
  g_clear_pointer (&index->model, g_free);
  index->n_damaged = index->n_unowned = index->n_bad_settings = 0;
  index->is_corrupt = FALSE;

  if (check_indexes (db, error) && load_contexts (db, index, error)
      && load_quotas (db, index, error) && load_settings (db, index, error))
    return TRUE;
  index->is_corrupt |= sqlite3_errcode (db) == SQLITE_CORRUPT;
  return FALSE;
}

