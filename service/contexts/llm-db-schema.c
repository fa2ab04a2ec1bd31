/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The tables of the context database, and how older ones become today's. Database thread. */

#include "base/llm-fail.h"
#include "contexts/llm-db.h"

#include "common/llmsvc-error.h"

#define VERSION 2

/* Version 1. What later versions add is in upgrades[] only, so that a new database and an upgraded
 * one are the same. */
static const char *const tables[] = {
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
  ") WITHOUT ROWID",
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
  ") WITHOUT ROWID",
  "CREATE TABLE messages ("
  "  context TEXT NOT NULL,"
  "  turn INTEGER NOT NULL,"
  "  number INTEGER NOT NULL,"
  "  role TEXT NOT NULL,"
  "  text TEXT NOT NULL,"
  "  extras TEXT NOT NULL,"
  "  PRIMARY KEY (context, turn, number),"
  "  FOREIGN KEY (context, turn) REFERENCES turns (context, number) ON DELETE CASCADE"
  ") WITHOUT ROWID",
  "CREATE TABLE quotas ("
  "  uid INTEGER NOT NULL,"
  "  app TEXT NOT NULL,"
  "  key TEXT NOT NULL,"
  "  value REAL NOT NULL,"
  "  PRIMARY KEY (uid, app, key)"
  ") WITHOUT ROWID",
  "CREATE TABLE settings ("
  "  key TEXT PRIMARY KEY,"
  "  value TEXT NOT NULL"
  ") WITHOUT ROWID",
  NULL,
};

/* Checksums of what a row says and, for contexts, of how many turns there are; NULL in rows of
 * version 1. damage: not NULL when the context can't be used, see llm-context-store.h. n_total,
 * counted_by: tokens of the context up to this turn, and the model that counted them. */
static const char *const checks[] = {
  "ALTER TABLE contexts ADD COLUMN n_turns INTEGER",
  "ALTER TABLE contexts ADD COLUMN owner_checksum INTEGER",
  "ALTER TABLE contexts ADD COLUMN checksum INTEGER",
  "ALTER TABLE contexts ADD COLUMN damage TEXT",
  "ALTER TABLE turns ADD COLUMN checksum INTEGER",
  "ALTER TABLE turns ADD COLUMN token_checksum INTEGER",
  "ALTER TABLE turns ADD COLUMN n_total INTEGER",
  "ALTER TABLE turns ADD COLUMN counted_by TEXT",
  /* Never needed for a query: few rows say whose all the text is, so they are kept twice, in pages
   * of their own, for llm-db-salvage.c. Without damage, for SQLite would read nothing else then. */
  "CREATE INDEX contexts_copy ON contexts (id, uid, app, name, revision, created, used,"
  " max_tokens, slo, n_turns, owner_checksum, checksum)",
  NULL,
};

/* upgrades[N] makes version N + 1 of version N. */
static const char *const *const upgrades[VERSION] = { tables, checks };

gboolean
llm_db_prepare_schema (sqlite3 *db,
                       GError **error)
{
  g_autoptr(sqlite3_stmt) row = llm_db_query (db, error, "PRAGMA user_version", "");
  gboolean is_good;
  int version;

  if (row == NULL || !llm_db_next (row, error))
    return FALSE;
  version = sqlite3_column_int (row, 0);
  g_clear_pointer (&row, sqlite3_finalize);
  if (version == VERSION)
    return TRUE;
  if (version < 0 || version > VERSION)
    return llm_fail (error, LLMSVC_ERROR_STORAGE,
                     "The context database has version %d; this service knows version %d. Start "
                     "the service that wrote it", version, VERSION);

  is_good = llm_db_execute (db, error, "BEGIN IMMEDIATE", "");
  for (int i = version; is_good && i < VERSION; i++)
    for (guint j = 0; is_good && upgrades[i][j] != NULL; j++)
      is_good = llm_db_execute (db, error, upgrades[i][j], "");
  is_good = is_good &&
            llm_db_execute (db, error, "PRAGMA user_version = " G_STRINGIFY (VERSION), "") &&
            llm_db_execute (db, error, "COMMIT", "");
  return is_good;
}
