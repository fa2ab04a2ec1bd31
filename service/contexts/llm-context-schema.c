/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The tables of the context database, how older ones become today's, and what is taken of a damaged
 * one. Database thread. */

#include "contexts/llm-context-store.h"

/* Version 1. What later versions add is in checks[] only, so that a new database and an upgraded
 * one are the same. */
static const char tables[] =
  "CREATE TABLE contexts ("
  "  id TEXT PRIMARY KEY,"
  "  uid INTEGER NOT NULL,"
  "  app TEXT NOT NULL,"
  "  name TEXT NOT NULL,"
  "  revision INTEGER NOT NULL,"
  "  created INTEGER NOT NULL,"
  "  used INTEGER NOT NULL,"
  "  max_tokens INTEGER NOT NULL,"
  "  slo TEXT NOT NULL,"
  "  UNIQUE (uid, app, name)"
  ") WITHOUT ROWID;"
  "CREATE TABLE turns ("
  "  context TEXT NOT NULL REFERENCES contexts (id) ON DELETE CASCADE,"
  "  number INTEGER NOT NULL,"
  "  is_base INTEGER NOT NULL,"
  "  is_closed INTEGER NOT NULL,"
  "  n_tokens INTEGER NOT NULL,"
  "  tokens BLOB,"
  "  identity TEXT,"
  "  request_id TEXT,"
  "  results TEXT,"
  "  PRIMARY KEY (context, number)"
  ") WITHOUT ROWID;"
  "CREATE TABLE messages ("
  "  context TEXT NOT NULL,"
  "  turn INTEGER NOT NULL,"
  "  number INTEGER NOT NULL,"
  "  role TEXT NOT NULL,"
  "  text TEXT NOT NULL,"
  "  extras TEXT NOT NULL,"
  "  PRIMARY KEY (context, turn, number),"
  "  FOREIGN KEY (context, turn) REFERENCES turns (context, number) ON DELETE CASCADE"
  ") WITHOUT ROWID;"
  "CREATE TABLE quotas ("
  "  uid INTEGER NOT NULL,"
  "  app TEXT NOT NULL,"
  "  key TEXT NOT NULL,"
  "  value REAL NOT NULL,"
  "  PRIMARY KEY (uid, app, key)"
  ") WITHOUT ROWID;"
  "CREATE TABLE settings ("
  "  key TEXT PRIMARY KEY,"
  "  value TEXT NOT NULL"
  ") WITHOUT ROWID;";

/* Checksums of what a row says and, for contexts, of how many turns there are; NULL in rows of
 * version 1. damage: not NULL when the context can't be used, see llm-context-store.h. n_total,
 * counted_by: tokens of the context up to this turn, and the model that counted them. */
static const char checks[] =
  "ALTER TABLE contexts ADD COLUMN n_turns INTEGER;"
  "ALTER TABLE contexts ADD COLUMN owner_checksum INTEGER;"
  "ALTER TABLE contexts ADD COLUMN checksum INTEGER;"
  "ALTER TABLE contexts ADD COLUMN damage TEXT;"
  "ALTER TABLE turns ADD COLUMN checksum INTEGER;"
  "ALTER TABLE turns ADD COLUMN token_checksum INTEGER;"
  "ALTER TABLE turns ADD COLUMN n_total INTEGER;"
  "ALTER TABLE turns ADD COLUMN counted_by TEXT;"
  /* Never needed for a query: few rows say whose all the text is, so they are kept twice, in pages
   * of their own, for a damaged database. Without damage, or SQLite would read nothing else. */
  "CREATE INDEX contexts_copy ON contexts (id, uid, app, name, revision, created, used,"
  " max_tokens, slo, n_turns, owner_checksum, checksum);";

/* What was chosen for a context, in a table of its own: few have anything there, and a damaged row
 * costs the choice and no more. */
static const char traits[] =
  "CREATE TABLE traits (context TEXT PRIMARY KEY, traits INTEGER NOT NULL) WITHOUT ROWID;";

/* Percent of the model that computed the turn's tokens; NULL: all of it. */
static const char levels[] = "ALTER TABLE turns ADD COLUMN sub_model INTEGER;";

/* Percent of the weights that the last n_sparse tokens of the turn left out; NULL: none did. */
static const char sparsities[] = "ALTER TABLE turns ADD COLUMN sparsity INTEGER;"
                                 "ALTER TABLE turns ADD COLUMN n_sparse INTEGER;";

/* How many of the turn's first tokens were computed in W8A8; NULL: none. */
static const char w8[] = "ALTER TABLE turns ADD COLUMN n_w8 INTEGER;";

/* What kind a row is of shows in its values: none of ours looks like another. Of what is there more
 * than once the first counts. */
static const LlmDbRows rows[] = {
  { "tii", 9, 17, "INSERT OR IGNORE INTO turns VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)" },
  { "tii", 6, 6, "INSERT OR IGNORE INTO messages VALUES (?,?,?,?,?,?)" },
  { "tit", 13, 13, "INSERT OR IGNORE INTO contexts VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)" },
  /* of version 1, or of contexts_copy */
  { "tit", 9, 12, "INSERT OR IGNORE INTO contexts VALUES (?,?,?,?,?,?,?,?,?,?,?,?,NULL)" },
  /* the index over names: all that is left of its context, whose text can't be told to be whole */
  { "ittt", 4, 4, "INSERT OR IGNORE INTO contexts (uid, app, name, id, revision, created, used,"
                  " max_tokens, slo, n_turns) VALUES (?, ?, ?, ?, 0, unixepoch (), unixepoch (), 0,"
                  " 'responsive', -1)" },
  { "ittn", 4, 4, "INSERT OR IGNORE INTO quotas VALUES (?,?,?,?)" },
  { "ti", 2, 2, "INSERT OR IGNORE INTO traits VALUES (?,?)" },
  { "tt", 2, 2, "INSERT OR IGNORE INTO settings VALUES (?,?)" },
  { NULL, 0, 0, NULL }
};

/* -1 where SQLite can't find them all. */
static gint64
count_rows (sqlite3    *db,
            const char *id)
{
  g_autoptr(sqlite3_stmt) row =
    llm_db_query (db, NULL, "SELECT (SELECT count (*) FROM turns WHERE context = ?1) +"
                            " (SELECT count (*) FROM messages WHERE context = ?1)", "s", id);

  return llm_db_next (row, NULL) ? sqlite3_column_int64 (row, 0) : -1;
}

/* Whether all turns of a context were found, and are what they were. Without checksums, as in
 * version 1, they are when SQLite finds as many. */
static gboolean
is_whole (sqlite3    *db,
          sqlite3    *damaged,
          const char *id,
          gboolean    has_sums)
{
  g_autoptr(LlmStoredContext) context = llm_stored_context_new ();
  g_autoptr(GError) error = NULL;

  context->id = g_strdup (id);
  return llm_store_load_turns (db, context, &error)
         && (has_sums || count_rows (damaged, id) == count_rows (db, id));
}

/* Text of a context whose id is damaged stays: it may be found by it. */
static guint
set_aside (sqlite3    *db,
           sqlite3    *damaged,
           const char *copy)
{
  g_autoptr(GPtrArray) lost = g_ptr_array_new_with_free_func (g_free);
  g_autoptr(sqlite3_stmt) row = llm_db_query (db, NULL,
    "SELECT id, n_turns NOT NULL AND NOT EXISTS (SELECT 1 FROM turns WHERE context = id"
    " AND turns.checksum IS NULL) FROM contexts WHERE damage IS NULL", "");

  while (llm_db_next (row, NULL))
    {
      const char *id = (const char *) sqlite3_column_text (row, 0);

      if (!is_whole (db, damaged, id, sqlite3_column_int (row, 1) != 0))
        g_ptr_array_add (lost, g_strdup (id));
    }
  for (guint i = 0; i < lost->len; i++)
    {
      const char *id = lost->pdata[i];

      llm_db_execute (db, NULL, "DELETE FROM messages WHERE context = ?", "s", id);
      llm_db_execute (db, NULL, "DELETE FROM turns WHERE context = ?", "s", id);
      llm_db_execute (db, NULL, "UPDATE contexts SET damage = ? WHERE id = ?", "ss", copy, id);
    }
  return lost->len;
}

static const char *const upgrades[] = { tables, checks, traits, levels, sparsities, w8 };

const LlmDbSchema llm_context_schema = { G_N_ELEMENTS (upgrades), upgrades, rows, set_aside };
