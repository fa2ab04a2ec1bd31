/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reading the index: which contexts there are, quotas and settings. Nothing of it is trusted: a bad
 * value costs the row that it is in, and is told. */

#include "base/llm-fail.h"
#include "contexts/llm-context-store.h"

#include <math.h>
#include <string.h>

#include "common/llmsvc-error.h"
#include "contexts/llm-checksum.h"
#include "sched/llm-slo.h"

/* As options allow them. */
#define MAX_NAME_BYTES 128
#define MAX_MAX_TOKENS 16777216

/* An application's id: what the bus takes is shorter. */
#define MAX_APP_BYTES 512

/* The last part of an object path, and the name of a folder. */
#define MAX_ID_BYTES 64

static gboolean
is_good_id (const char *id)
{
  if (id == NULL || *id == '\0' || strlen (id) > MAX_ID_BYTES)
    return FALSE;
  for (const char *p = id; *p != '\0'; p++)
    if (!g_ascii_isalnum (*p) && *p != '_')
      return FALSE;
  return TRUE;
}

static gboolean
is_good_name (const char *name)
{
  if (name == NULL || *name == '\0' || strlen (name) > MAX_NAME_BYTES)
    return FALSE;
  for (const char *p = name; *p != '\0'; p = g_utf8_next_char (p))
    if (*p == '/' || !g_unichar_isprint (g_utf8_get_char (p)))
      return FALSE;
  return TRUE;
}

/* A name to show: as much of the stored one as can be, unlike all others with @id. */
static char *
make_name (const char *stored,
           const char *id)
{
  g_autofree char *valid = g_utf8_make_valid (stored != NULL ? stored : "", -1);
  GString *name = g_string_new (NULL);

  for (const char *p = valid; *p != '\0' && name->len < MAX_NAME_BYTES / 2; p = g_utf8_next_char (p))
    if (*p != '/' && g_unichar_isprint (g_utf8_get_char (p)))
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

/* What the index is read with. */
typedef struct
{
  LlmStoredIndex *index;
  GHashTable *ids;     /* (element-type utf8) (unowned) */
  GHashTable *names;   /* (element-type utf8) (owned): "UID/APP/NAME" */
  GPtrArray *repairs;  /* (element-type Repair) (owned) */
} Reading;

static char *
make_key (const LlmStoredContext *context)
{
  return g_strdup_printf ("%u/%s/%s", context->uid, context->app, context->name);
}

/* NULL when it can't be told whose it is: then nobody may see it. */
static LlmStoredContext *
read_owner (sqlite3_stmt *row)
{
  g_autoptr(LlmStoredContext) context = llm_stored_context_new ();
  const char *app = llm_db_get_text (row, 2);
  gint64 uid;

  if (!llm_db_get_number (row, 1, 0, G_MAXUINT32, &uid) || app == NULL || strlen (app) > MAX_APP_BYTES)
    return NULL;
  context->uid = (guint32) uid;
  context->app = g_strdup (app);
  return llm_db_check_sum (row, 10, llm_checksum_of_owner (context)) ? g_steal_pointer (&context) : NULL;
}

/* Fills in the rest; FALSE when something of it is damaged. */
static gboolean
read_context (sqlite3_stmt     *row,
              LlmStoredContext *context)
{
  gboolean has_numbers;
  gint64 revision, max_tokens, n_turns, n_tokens, bytes;
  LlmSloClass slo_class;
  char *damage;

  context->id = g_strdup (llm_db_get_text (row, 0));
  context->name = g_strdup (llm_db_get_text (row, 3));
  context->slo = g_strdup (llm_db_get_text (row, 8));
  has_numbers = llm_db_get_number (row, 4, 0, G_MAXINT64, &revision);
  has_numbers &= llm_db_get_number (row, 5, 0, G_MAXINT64, &context->created);
  has_numbers &= llm_db_get_number (row, 6, 0, G_MAXINT64, &context->used);
  has_numbers &= llm_db_get_number (row, 7, 0, MAX_MAX_TOKENS, &max_tokens);
  has_numbers &= llm_db_get_number (row, 9, 0, G_MAXINT, &n_turns)
                 || sqlite3_column_type (row, 9) == SQLITE_NULL;
  context->revision = (guint64) revision;
  context->max_tokens = (guint) max_tokens;
  context->n_turns = (guint) n_turns;
  if (!llm_db_dup_text (row, 12, &damage))
    damage = g_strdup ("");
  context->damage = damage;

  /* only counts */
  llm_db_get_number (row, 13, 0, G_MAXINT, &n_tokens);
  llm_db_get_number (row, 15, 0, G_MAXINT64, &bytes);
  context->n_tokens = (guint) n_tokens;
  context->counted_by = g_strdup (llm_db_get_text (row, 14));
  context->bytes = (guint64) bytes;

  return has_numbers && is_good_id (context->id) && is_good_name (context->name)
         && context->slo != NULL && llm_slo_class_parse (context->slo, &slo_class)
         && llm_db_check_sum (row, 11, llm_checksum_of_context (context));
}

/* Gives a damaged row what it needs to be listed and closed. */
static void
make_listable (Reading          *reading,
               sqlite3_stmt     *row,
               LlmStoredContext *context)
{
  Repair *repair = g_new (Repair, 1);
  LlmSloClass slo_class;

  *repair = (Repair) { sqlite3_value_dup (sqlite3_column_value (row, 0)), context,
                       sqlite3_column_int64 (row, 11) };
  g_ptr_array_add (reading->repairs, repair);
  if (!is_good_id (context->id) || g_hash_table_contains (reading->ids, context->id))
    {
      g_free (context->id);
      context->id = llm_stored_context_new_id ();
    }
  if (is_good_name (context->name))
    {
      g_autofree char *key = make_key (context);

      if (g_hash_table_contains (reading->names, key))
        g_clear_pointer (&context->name, g_free);
    }
  if (!is_good_name (context->name))
    {
      g_free (context->name);
      context->name = make_name ((const char *) sqlite3_column_text (row, 3), context->id);
    }
  if (context->slo == NULL || !llm_slo_class_parse (context->slo, &slo_class))
    {
      g_free (context->slo);
      context->slo = g_strdup ("responsive");
    }
  if (context->damage == NULL)
    context->damage = g_strdup ("");
}

static void
take_row (Reading      *reading,
          sqlite3_stmt *row)
{
  LlmStoredIndex *index = reading->index;
  LlmStoredContext *context = read_owner (row);
  g_autofree char *key = NULL;
  gboolean is_good;

  if (context == NULL)
    {
      index->n_unowned++;
      return;
    }
  g_ptr_array_add (index->contexts, context);
  is_good = read_context (row, context) && !g_hash_table_contains (reading->ids, context->id);
  if (is_good)
    {
      key = make_key (context);
      is_good = !g_hash_table_contains (reading->names, key);
    }
  if (!is_good)
    {
      index->n_damaged++;
      make_listable (reading, row, context);
      g_free (key);
      key = make_key (context);
    }
  g_hash_table_add (reading->ids, context->id);
  g_hash_table_add (reading->names, g_steal_pointer (&key));
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

  while (row != NULL && *error == NULL && llm_db_next (row, error))
    {
      context->id = g_strdup (llm_db_get_text (row, 0));
      if (is_good_id (context->id) && llm_checksum_of_context (context) == repair->checksum)
        return TRUE;
      g_free (context->id);
    }
  context->id = g_steal_pointer (&made);
  context->damage = g_steal_pointer (&damage);
  return row != NULL && *error == NULL;
}

static gboolean
rename_rows (sqlite3             *db,
             const char          *sql,
             const char          *id,
             const sqlite3_value *old,
             GError             **error)
{
  g_autoptr(sqlite3_stmt) statement = llm_db_query (db, error, sql, "s", id);

  if (statement == NULL || sqlite3_bind_value (statement, 2, old) != SQLITE_OK)
    return FALSE;
  llm_db_next (statement, error);
  return *error == NULL;
}

static gboolean
repair_row (sqlite3       *db,
            LlmStoredIndex *index,
            const Repair  *repair,
            GError       **error)
{
  const LlmStoredContext *context = repair->context;

  if (repair->checksum != 0 && !find_id (db, repair, error))
    return FALSE;
  index->n_damaged -= context->damage == NULL;
  if (!rename_rows (db, "UPDATE contexts SET id = ?1 WHERE id IS ?2", context->id, repair->id,
                    error))
    return FALSE;
  if (sqlite3_changes (db) != 1)
    {
      /* it is there when all are read, and not when it is looked for */
      index->is_corrupt = TRUE;
      return llm_fail (error, LLMSVC_ERROR_STORAGE, "The context database is damaged");
    }
  return rename_rows (db, "UPDATE turns SET context = ?1 WHERE context IS ?2 AND context <> ?1",
                      context->id, repair->id, error)
         && rename_rows (db,
                         "UPDATE messages SET context = ?1 WHERE context IS ?2 AND context <> ?1",
                         context->id, repair->id, error)
         && llm_db_execute (db, error,
                            "UPDATE contexts SET name = ?, revision = ?, created = ?, used = ?,"
                            " max_tokens = ?, slo = ?, n_turns = ?, checksum = ?, damage = ?"
                            " WHERE id = ?", "siiiisiiss", context->name,
                            (gint64) context->revision, context->created, context->used,
                            (gint64) context->max_tokens, context->slo, (gint64) context->n_turns,
                            llm_checksum_of_context (context), context->damage, context->id);
}

static gboolean
load_contexts (sqlite3        *db,
               LlmStoredIndex *index,
               GError        **error)
{
  g_autoptr(GHashTable) ids = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr(GHashTable) names = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr(GPtrArray) repairs = g_ptr_array_new_with_free_func ((GDestroyNotify) repair_free);
  Reading reading = { index, ids, names, repairs };
  g_autoptr(sqlite3_stmt) row = llm_db_query (db, error,
    "SELECT c.id, c.uid, c.app, c.name, c.revision, c.created, c.used, c.max_tokens, c.slo,"
    "  c.n_turns, c.owner_checksum, c.checksum, c.damage,"
    "  coalesce ((SELECT t.n_total FROM turns t WHERE t.context = c.id"
    "              ORDER BY t.number DESC LIMIT 1),"
    "            (SELECT sum (t.n_tokens) FROM turns t WHERE t.context = c.id), 0),"
    "  (SELECT t.counted_by FROM turns t WHERE t.context = c.id ORDER BY t.number DESC LIMIT 1),"
    "  coalesce ((SELECT sum (length (m.text)) FROM messages m WHERE m.context = c.id), 0) +"
    "  coalesce ((SELECT sum (length (t.tokens)) FROM turns t WHERE t.context = c.id), 0)"
    " FROM contexts c", "");

  if (row == NULL)
    return FALSE;
  while (llm_db_next (row, error))
    take_row (&reading, row);
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

  if (row == NULL)
    return FALSE;
  while (llm_db_next (row, error))
    {
      const char *app = llm_db_get_text (row, 1);
      const char *key = llm_db_get_text (row, 2);
      double value = sqlite3_column_double (row, 3);
      gint64 uid;

      if (!llm_db_get_number (row, 0, 0, G_MAXUINT32, &uid) || app == NULL || strlen (app) > MAX_APP_BYTES
          || key == NULL || sqlite3_column_type (row, 3) == SQLITE_NULL || !isfinite (value)
          || value < 0)
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

  if (row == NULL)
    return FALSE;
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
  return llm_db_execute (db, error, "SELECT sum (uid + length (app) + length (name)) FROM contexts"
                                    " INDEXED BY sqlite_autoindex_contexts_2", "")
         && llm_db_execute (db, error, "SELECT sum (length (slo)) FROM contexts"
                                       " INDEXED BY contexts_copy", "");
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

  if (check_indexes (db, error) && load_contexts (db, index, error) && load_quotas (db, index, error)
      && load_settings (db, index, error))
    return TRUE;
  index->is_corrupt |= sqlite3_errcode (db) == SQLITE_CORRUPT;
  return FALSE;
}

