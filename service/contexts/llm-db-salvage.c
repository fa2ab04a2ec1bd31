/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-engine"

#include "contexts/llm-db-salvage.h"

#include <glib/gstdio.h>
#include <sys/stat.h>

#include "base/llm-clock.h"
#include "base/llm-fail.h"
#include "common/llmsvc-error.h"
#include "contexts/llm-checksum.h"
#include "contexts/llm-db-pages.h"

/* A table, whose columns are the same in all versions, but for those that came behind. */
typedef struct
{
  const char *name;
  const char *types;   /* of its first values, a letter each: `t`ext, `i`nteger, `n`umber */
  guint n_min;         /* columns of version 1 */
  guint n_max;
} Table;

/* What table a row is of shows in its values: none of ours looks like another, but the copy of the
 * contexts, which may be taken for them. */
typedef enum
{
  TURNS,
  MESSAGES,
  CONTEXTS,
  QUOTAS,
  SETTINGS,
  N_TABLES
} TableId;

static const Table tables[N_TABLES] = {
  [TURNS] = { "turns", "tiiii", 9, 13 },
  [MESSAGES] = { "messages", "tiittt", 6, 6 },
  [CONTEXTS] = { "contexts", "titt", 9, 13 },
  [QUOTAS] = { "quotas", "ittn", 4, 4 },
  [SETTINGS] = { "settings", "tt", 2, 2 },
};

typedef struct
{
  const char *path;
  char *copy;          /* where the damaged one is kept */
  char *target_path;
  sqlite3 *source;     /* (nullable) */
  sqlite3 *target;     /* (nullable) */
  sqlite3_stmt *inserts[N_TABLES]; /* (nullable): a row of each, with all its columns */
  gboolean has_tables; /* SQLite finds the tables of source; else there are only pages */
  GHashTable *partial; /* (element-type utf8) (owned): ids of contexts that SQLite can't read all of */
  guint n_lost;        /* contexts without their text now */
} Salvage;

static void
close_databases (Salvage *self)
{
  for (guint i = 0; i < N_TABLES; i++)
    g_clear_pointer (&self->inserts[i], sqlite3_finalize);
  g_clear_pointer (&self->source, sqlite3_close);
  g_clear_pointer (&self->target, sqlite3_close);
}

static void
salvage_clear (Salvage *self)
{
  close_databases (self);
  g_hash_table_unref (self->partial);
  g_free (self->copy);
  g_free (self->target_path);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Salvage, salvage_clear)

/* --- rows --- */

/* The statement that inserts a row, with nothing bound to it: what a row does not have is NULL. */
static sqlite3_stmt *
begin_insert (Salvage *self,
              TableId  id)
{
  static const char marks[] = "?,?,?,?,?,?,?,?,?,?,?,?,?";

  if (self->inserts[id] == NULL)
    {
      g_autofree char *sql = g_strdup_printf ("INSERT OR IGNORE INTO %s VALUES (%.*s)",
                                              tables[id].name, (int) tables[id].n_max * 2 - 1,
                                              marks);

      self->inserts[id] = llm_db_query (self->target, NULL, sql, "");
    }
  if (self->inserts[id] != NULL)
    sqlite3_clear_bindings (self->inserts[id]);
  return self->inserts[id];
}

/* Copies the rows that a query over columns of a table gives, the first ones in order. FALSE when they end with an error:
 * those before it are copied. A row that the new database refuses is left out. */
static gboolean
copy_rows (Salvage       *self,
           TableId        table,
           const char    *sql,
           sqlite3_value *id)
{
  g_autoptr(sqlite3_stmt) row = NULL;
  int code;

  if (sqlite3_prepare_v2 (self->source, sql, -1, &row, NULL) != SQLITE_OK)
    return FALSE;
  if (id != NULL)
    sqlite3_bind_value (row, 1, id);
  while ((code = sqlite3_step (row)) == SQLITE_ROW)
    {
      sqlite3_stmt *insert = begin_insert (self, table);

      if (insert == NULL)
        return FALSE;
      for (int i = 0; i < sqlite3_column_count (row); i++)
        sqlite3_bind_value (insert, i + 1, sqlite3_column_value (row, i));
      sqlite3_step (insert);
      sqlite3_reset (insert);
    }
  return code == SQLITE_DONE;
}

/* From both ends, where the way through the middle is barred. FALSE when it is. */
static gboolean
copy_table (Salvage    *self,
            TableId     table,
            const char *columns,
            const char *key)
{
  g_autofree char *up = g_strdup_printf ("SELECT %s FROM %s ORDER BY %s", columns,
                                        tables[table].name, key);
  g_autofree char *down = g_strdup_printf ("%s DESC", up);

  if (copy_rows (self, table, up, NULL))
    return TRUE;
  copy_rows (self, table, down, NULL);
  return FALSE;
}

/* --- contexts --- */

/* All of the text of a context, or none. */
static void
copy_text (Salvage       *self,
           sqlite3_value *id)
{
  if (sqlite3_exec (self->target, "SAVEPOINT one", NULL, NULL, NULL) != SQLITE_OK)
    return;
  if (!copy_rows (self, TURNS, "SELECT * FROM turns WHERE context IS ? ORDER BY number", id)
      || !copy_rows (self, MESSAGES,
                     "SELECT * FROM messages WHERE context IS ? ORDER BY turn, number", id))
    {
      sqlite3_exec (self->target, "ROLLBACK TO one", NULL, NULL, NULL);
      if (sqlite3_value_type (id) == SQLITE_TEXT)
        g_hash_table_add (self->partial, g_strdup ((const char *) sqlite3_value_text (id)));
    }
  sqlite3_exec (self->target, "RELEASE one", NULL, NULL, NULL);
}

/* Adds the ids of a query to @ids (element-type sqlite3_value), in its order and once. */
static gboolean
collect_ids (sqlite3    *db,
             const char *sql,
             GPtrArray  *ids)
{
  g_autoptr(sqlite3_stmt) row = NULL;
  int code;

  if (sqlite3_prepare_v2 (db, sql, -1, &row, NULL) != SQLITE_OK)
    return FALSE;
  while ((code = sqlite3_step (row)) == SQLITE_ROW)
    g_ptr_array_add (ids, sqlite3_value_dup (sqlite3_column_value (row, 0)));
  return code == SQLITE_DONE;
}

/* Its text is lost. */
static void
note_lost (Salvage    *self,
           const char *id)
{
  if (llm_db_execute (self->target, NULL, "UPDATE contexts SET damage = ? WHERE id = ?", "ss",
                      self->copy, id))
    self->n_lost += (guint) sqlite3_changes (self->target);
}

/* Of a database of version 1 the index over the names is all that has owner and name of a context
 * once more. */
static void
add_lost_contexts (Salvage *self)
{
  static const char *const orders[] = { "ASC", "DESC" };
  gboolean is_whole = FALSE;

  for (guint i = 0; i < G_N_ELEMENTS (orders) && !is_whole; i++)
    {
      g_autofree char *sql =
        g_strdup_printf ("SELECT uid, app, name FROM contexts INDEXED BY"
                         " sqlite_autoindex_contexts_2 ORDER BY uid %1$s, app %1$s, name %1$s",
                         orders[i]);
      g_autoptr(sqlite3_stmt) row = llm_db_query (self->source, NULL, sql, "");
      int code = SQLITE_DONE;

      while (row != NULL && (code = sqlite3_step (row)) == SQLITE_ROW)
        {
          g_autoptr(LlmStoredContext) lost = llm_stored_context_new ();
          g_autoptr(GError) error = NULL;
          gint64 uid;

          if (!llm_db_get_number (row, 0, 0, G_MAXUINT32, &uid)
              || !llm_db_dup_text (row, 1, &lost->app)
              || !llm_db_dup_text (row, 2, &lost->name))
            continue;
          lost->id = llm_stored_context_new_id ();
          lost->uid = (guint32) uid;
          lost->created = lost->used = llm_clock_wall_s ();
          lost->slo = g_strdup ("responsive");
          /* refused where the context is known */
          if (llm_store_insert_context (self->target, lost, &error))
            note_lost (self, lost->id);
        }
      is_whole = code == SQLITE_DONE;
    }
}

static void
copy_contexts (Salvage *self)
{
  g_autoptr(GPtrArray) ids = g_ptr_array_new_with_free_func ((GDestroyNotify) sqlite3_value_free);
  gboolean is_whole = copy_table (self, CONTEXTS, "*", "id")
                      /* these are in an index, which is read instead */
                      || copy_table (self, CONTEXTS,
                                     "id, uid, app, name, revision, created, used, max_tokens,"
                                     " slo, n_turns, owner_checksum, checksum", "id");

  collect_ids (self->target, "SELECT id FROM contexts", ids);
  /* text of a context whose id is damaged: it may be found by it */
  if (!collect_ids (self->source, "SELECT DISTINCT context FROM turns ORDER BY context", ids))
    collect_ids (self->source, "SELECT DISTINCT context FROM turns ORDER BY context DESC", ids);
  for (guint i = 0; i < ids->len; i++)
    copy_text (self, g_ptr_array_index (ids, i));
  if (!is_whole)
    add_lost_contexts (self);
}

/* --- what can't be reached through the trees --- */

static void
insert_values (Salvage          *self,
               TableId           table,
               const LlmDbValue *values,
               guint             n)
{
  sqlite3_stmt *insert = begin_insert (self, table);

  if (insert == NULL)
    return;
  for (int i = 0; i < (int) n; i++)
    {
      const LlmDbValue *value = &values[i];

      if (value->type == LLM_DB_INTEGER)
        sqlite3_bind_int64 (insert, i + 1, value->integer);
      else if (value->type == LLM_DB_REAL)
        sqlite3_bind_double (insert, i + 1, value->real);
      else if (value->type == LLM_DB_TEXT)
        sqlite3_bind_text (insert, i + 1, (const char *) value->bytes, (int) value->n_bytes,
                           SQLITE_TRANSIENT);
      else if (value->type == LLM_DB_BLOB)
        sqlite3_bind_blob (insert, i + 1, value->bytes, (int) value->n_bytes, SQLITE_TRANSIENT);
    }
  sqlite3_step (insert);
  sqlite3_reset (insert);
}

static gboolean
is_row_of (const Table      *table,
           const LlmDbValue *values,
           guint             n)
{
  static const char letters[] = { [LLM_DB_NULL] = '0', [LLM_DB_INTEGER] = 'i', [LLM_DB_REAL] = 'n',
                                  [LLM_DB_TEXT] = 't', [LLM_DB_BLOB] = 'b' };

  if (n < table->n_min || n > table->n_max)
    return FALSE;
  for (guint i = 0; table->types[i] != '\0'; i++)
    if (letters[values[i].type] != table->types[i]
        && !(table->types[i] == 'n' && values[i].type == LLM_DB_INTEGER))
      return FALSE;
  return TRUE;
}

static gboolean
is_wanted (Salvage          *self,
           const LlmDbValue *id)
{
  g_autofree char *text = g_strndup ((const char *) id->bytes, id->n_bytes);

  return !self->has_tables || g_hash_table_contains (self->partial, text);
}

static void
take_row (const LlmDbValue *values,
          guint             n,
          gpointer          data)
{
  Salvage *self = data;
  TableId table = TURNS;

  while (table < N_TABLES && !is_row_of (&tables[table], values, n))
    table++;
  if (table == N_TABLES || (table <= MESSAGES ? !is_wanted (self, &values[0]) : self->has_tables))
    return;
  if (table == CONTEXTS)
    g_hash_table_add (self->partial,
                      g_strndup ((const char *) values[0].bytes, values[0].n_bytes));
  insert_values (self, table, values, n);
}

/* Whether all turns of a context were found, and are what they were. */
static gboolean
is_complete (Salvage    *self,
             const char *id)
{
  g_autoptr(LlmStoredContext) context = llm_stored_context_new ();
  g_autoptr(GError) error = NULL;
  g_autoptr(sqlite3_stmt) row =
    llm_db_query (self->target, NULL,
                  "SELECT 1 FROM contexts WHERE id = ?1 AND n_turns NOT NULL AND NOT EXISTS"
                  " (SELECT 1 FROM turns WHERE context = ?1 AND checksum IS NULL)", "s", id);

  if (row == NULL || sqlite3_step (row) != SQLITE_ROW)
    return FALSE;
  context->id = g_strdup (id);
  return llm_store_load_turns (self->target, context, &error);
}

/* What is left of @partial when the pages were looked through is lost. */
static void
scan_pages (Salvage *self)
{
  GHashTableIter iter;
  const char *id;

  if (self->has_tables && g_hash_table_size (self->partial) == 0)
    return;
  llm_db_pages_scan (self->path, take_row, self);
  g_hash_table_iter_init (&iter, self->partial);
  while (g_hash_table_iter_next (&iter, (gpointer *) &id, NULL))
    {
      if (is_complete (self, id))
        continue;
      llm_db_execute (self->target, NULL, "DELETE FROM messages WHERE context = ?", "s", id);
      llm_db_execute (self->target, NULL, "DELETE FROM turns WHERE context = ?", "s", id);
      note_lost (self, id);
    }
}

/* --- files --- */

/* Whether all of the database is in its file. */
static gboolean
has_no_journal (Salvage *self)
{
  g_autofree char *path = g_strconcat (self->path, "-wal", NULL);
  GStatBuf status;

  return g_stat (path, &status) != 0 || status.st_size == 0;
}

static gboolean
open_databases (Salvage *self,
                GError **error)
{
  g_autoptr(GError) local = NULL;

  g_unlink (self->target_path);
  if (sqlite3_open_v2 (self->path, &self->source,
                       SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW, NULL)
        != SQLITE_OK
      || sqlite3_open_v2 (self->target_path, &self->target,
                          SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX
                            | SQLITE_OPEN_NOFOLLOW, NULL) != SQLITE_OK)
    return llm_fail (error, LLMSVC_ERROR_STORAGE,
                     "The damaged context database %s can't be copied: %s", self->path,
                     sqlite3_errmsg (self->target != NULL ? self->target : self->source));
  /* what is in the journal belongs to it: afterwards it has none */
  sqlite3_exec (self->source, "PRAGMA trusted_schema=OFF; PRAGMA locking_mode=EXCLUSIVE;"
                              "PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL);
  self->has_tables = llm_db_execute (self->source, &local,
                                     "SELECT 1 FROM contexts, turns, messages LIMIT 0", "");
  if (!self->has_tables && !has_no_journal (self))
    {
      g_propagate_error (error, g_steal_pointer (&local));
      return FALSE;
    }
  /* nothing of a journal stays behind for the next try */
  return llm_db_execute (self->target, error, "PRAGMA journal_mode = MEMORY", "")
         && llm_db_execute (self->target, error, "PRAGMA synchronous = FULL", "")
         && llm_db_prepare_schema (self->target, error);
}

gboolean
llm_db_replace (const char *path,
                GError    **error)
{
  g_autofree char *copy = NULL;

  if (llm_db_salvage (path, NULL))
    return TRUE;
  copy = llm_db_find_copy_path (path);
  if (!llm_db_put_aside (path, copy, NULL, error))
    return FALSE;
  g_warning ("The context database %s is damaged; it was kept as %s, and a new one begins", path,
             copy);
  return TRUE;
}

gboolean
llm_db_salvage (const char *path,
                GError    **error)
{
  g_auto(Salvage) self = {
    .path = path,
    .copy = llm_db_find_copy_path (path),
    .target_path = g_strconcat (path, ".salvage", NULL),
    .partial = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL),
  };
  gboolean is_written;

  if (!open_databases (&self, error) || !llm_db_execute (self.target, error, "BEGIN", ""))
    {
      g_unlink (self.target_path);
      return FALSE;
    }
  if (self.has_tables)
    {
      copy_contexts (&self);
      copy_table (&self, QUOTAS, "*", "uid, app, key");
      copy_table (&self, SETTINGS, "*", "key");
    }
  scan_pages (&self);
  if (!self.has_tables && g_hash_table_size (self.partial) == 0)
    {
      llm_fail (error, LLMSVC_ERROR_STORAGE,
                "There is nothing in the damaged context database %s that can be read", path);
      close_databases (&self);
      g_unlink (self.target_path);
      return FALSE;
    }
  is_written = llm_db_execute (self.target, error, "COMMIT", "");
  close_databases (&self);
  if (!is_written || !llm_db_put_aside (path, self.copy, self.target_path, error))
    {
      g_unlink (self.target_path);
      return FALSE;
    }
  g_warning ("The context database %s is damaged: what could be read was copied to a new one; the "
             "text of %u contexts was lost. The damaged one was kept as %s", path, self.n_lost,
             self.copy);
  return TRUE;
}
