/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The version of a database, and how an older one becomes today's. Database thread. */

#include "accounts/llm-db.h"

#include <glib/gi18n.h>
#include <string.h>

#include "base/llm-fail.h"

/* Indexes have no columns of their own here: the statement that makes one names those. */
#define COLUMNS                                                                                   \
  "SELECT m.name, ifnull ('.' || c.name, '') FROM sqlite_schema AS m"                             \
  " LEFT JOIN pragma_table_info (m.name) AS c WHERE m.type IN ('table', 'index')"

/* Adds TABLE.COLUMN of all tables, and the names of tables and indexes to @names (nullable). With
 * @known only of those that it has. */
static gboolean
add_columns (sqlite3    *db,
             GHashTable *columns,
             GHashTable *names,
             GHashTable *known,
             GError    **error)
{
  g_autoptr(sqlite3_stmt) row = llm_db_query (db, error, COLUMNS, "");
  GError *local = NULL;

  if (row == NULL)
    return FALSE;
  while (llm_db_next (row, &local))
    {
      const char *name = (const char *) sqlite3_column_text (row, 0);

      if (known != NULL && !g_hash_table_contains (known, name))
        continue;
      if (names != NULL)
        g_hash_table_add (names, g_strdup (name));
      g_hash_table_add (columns, g_strconcat (name, sqlite3_column_text (row, 1), NULL));
    }
  if (local == NULL)
    return TRUE;
  g_propagate_error (error, local);
  return FALSE;
}

static const char *
find_first_missing (GHashTable *columns,
                    GHashTable *there)
{
  const char *first = NULL;
  const char *column;
  GHashTableIter iter;

  g_hash_table_iter_init (&iter, columns);
  while (g_hash_table_iter_next (&iter, (gpointer *) &column, NULL))
    if (!g_hash_table_contains (there, column) && (first == NULL || strcmp (column, first) < 0))
      first = column;
  return first;
}

/* A number alone is no proof: other programs set it, and a backup may be of parts. Compared with
 * what the upgrades make of an empty database, since an upgrade of anything else fails half-way. */
static gboolean
check_version (sqlite3           *db,
               const LlmDbSchema *schema,
               int                version,
               GError           **error)
{
  g_autoptr(GHashTable) wanted = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr(GHashTable) there = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr(GHashTable) ours = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr(GHashTable) unused = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr(sqlite3) model = NULL;
  const char *missing;
  const char *surplus;

  if (sqlite3_open (":memory:", &model) != SQLITE_OK)
    return llm_fail (error, LLMSVC_ERROR_STORAGE, "The context database can't be compared: %s",
                     sqlite3_errmsg (model));
  for (int i = 0; i < schema->version; i++)
    if ((i == version && !add_columns (model, wanted, NULL, NULL, error))
        || !llm_db_run_script (model, schema->upgrades[i], error))
      return FALSE;
  if (!add_columns (model, version == schema->version ? wanted : unused, ours, NULL, error)
      || !add_columns (db, there, NULL, ours, error))
    return FALSE;
  missing = find_first_missing (wanted, there);
  surplus = find_first_missing (there, wanted);
  if (missing == NULL && surplus == NULL)
    return TRUE;
  return llm_fail (error, LLMSVC_ERROR_STORAGE,
                   missing != NULL
                   ? N_("The context database “%s” says that it has version %d, but lacks “%s”. It "
                        "was left as it is; put a backup in its place, or move it away: then a new "
                        "one begins")
                   : N_("The context database “%s” says that it has version %d, but has “%s”, "
                        "which is of a later one. It was left as it is; put a backup in its place, "
                        "or move it away: then a new one begins"),
                   sqlite3_db_filename (db, "main"), version, missing != NULL ? missing : surplus);
}

gboolean
llm_db_check_schema (sqlite3           *db,
                     const LlmDbSchema *schema,
                     int               *version,
                     GError           **error)
{
  g_autoptr(sqlite3_stmt) row = llm_db_query (db, error, "PRAGMA user_version", "");

  if (!llm_db_next (row, error))
    return FALSE;
  *version = sqlite3_column_int (row, 0);
  /* or its end would be the last one, and hide that of what fails now */
  g_clear_pointer (&row, sqlite3_finalize);
  if (*version < 0 || *version > schema->version)
    return llm_fail (error, LLMSVC_ERROR_STORAGE,
                     "The context database “%s” has version %d; this service knows version %d. "
                     "Start the service that wrote it", sqlite3_db_filename (db, "main"), *version,
                     schema->version);
  return check_version (db, schema, *version, error);
}

gboolean
llm_db_upgrade_schema (sqlite3           *db,
                       const LlmDbSchema *schema,
                       int                version,
                       GError           **error)
{
  g_autofree char *end = g_strdup_printf ("PRAGMA user_version = %d; COMMIT", schema->version);
  gboolean is_good;

  if (version == schema->version)
    return TRUE;
  is_good = llm_db_run_script (db, "BEGIN IMMEDIATE", error);
  for (int i = version; is_good && i < schema->version; i++)
    is_good = llm_db_run_script (db, schema->upgrades[i], error);
  return is_good && llm_db_run_script (db, end, error);
}
