/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "accounts/llm-db.h"

#include <errno.h>
#include <glib/gi18n.h>

#include "base/llm-fail.h"

#define STEP_FAILED N_("Reading or writing the context database failed")

/* @what: a sentence that says what failed */
static gboolean
fail (sqlite3    *db,
      GError    **error,
      const char *what)
{
  if (llm_db_find_fault (db) == LLM_DB_FAULT_FULL)
    return llm_fail (error, LLMSVC_ERROR_STORAGE,
                     "%s: %s (make room on the disk of “%s”)", what, sqlite3_errmsg (db),
                     sqlite3_db_filename (db, "main"));
  return llm_fail (error, LLMSVC_ERROR_STORAGE, "%s: %s (%s)", what, sqlite3_errmsg (db),
                   sqlite3_errstr (sqlite3_extended_errcode (db)));
}

LlmDbFault
llm_db_find_fault (sqlite3 *db)
{
  int code = sqlite3_errcode (db) & 0xff;
  int number = sqlite3_system_errno (db);

  if (code == SQLITE_FULL)
    return LLM_DB_FAULT_FULL;
  if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB)
    return LLM_DB_FAULT_DAMAGED;
  if ((code == SQLITE_IOERR || code == SQLITE_CANTOPEN) && (number == ENOSPC || number == EDQUOT))
    return LLM_DB_FAULT_FULL;
  return LLM_DB_FAULT_NONE;
}

static gboolean
bind_values (sqlite3_stmt *statement,
             const char   *types,
             va_list       values)
{
  for (int i = 0; types[i] != '\0'; i++)
    {
      int code = SQLITE_MISUSE;

      if (types[i] == 'i')
        code = sqlite3_bind_int64 (statement, i + 1, va_arg (values, gint64));
      else if (types[i] == 'd')
        code = sqlite3_bind_double (statement, i + 1, va_arg (values, double));
      else if (types[i] == 's')
        code = sqlite3_bind_text (statement, i + 1, va_arg (values, const char *), -1,
                                  SQLITE_TRANSIENT);
      else if (types[i] == 'v')
        code = sqlite3_bind_value (statement, i + 1, va_arg (values, const sqlite3_value *));
      else if (types[i] == 'b')
        {
          const void *bytes = va_arg (values, const void *);
          gsize length = va_arg (values, gsize);

          code = sqlite3_bind_blob64 (statement, i + 1, bytes, length, SQLITE_TRANSIENT);
        }
      if (code != SQLITE_OK)
        return FALSE;
    }
  return TRUE;
}

static sqlite3_stmt *
prepare (sqlite3    *db,
         GError    **error,
         const char *sql,
         const char *types,
         va_list     values)
{
  g_autoptr(sqlite3_stmt) statement = NULL;

  if (sqlite3_prepare_v2 (db, sql, -1, &statement, NULL) == SQLITE_OK &&
      bind_values (statement, types, values))
    return g_steal_pointer (&statement);
  fail (db, error, N_("The context database refused a statement"));
  return NULL;
}

sqlite3_stmt *
llm_db_query (sqlite3    *db,
              GError    **error,
              const char *sql,
              const char *types,
              ...)
{
  sqlite3_stmt *statement;
  va_list values;

  va_start (values, types);
  statement = prepare (db, error, sql, types, values);
  va_end (values);
  return statement;
}

gboolean
llm_db_next (sqlite3_stmt *statement,
             GError      **error)
{
  int code = statement != NULL ? sqlite3_step (statement) : SQLITE_DONE;

  if (code != SQLITE_ROW && code != SQLITE_DONE)
    return fail (sqlite3_db_handle (statement), error, STEP_FAILED);
  return code == SQLITE_ROW;
}

gboolean
llm_db_execute (sqlite3    *db,
                GError    **error,
                const char *sql,
                const char *types,
                ...)
{
  g_autoptr(sqlite3_stmt) statement = NULL;
  va_list values;
  int code;

  va_start (values, types);
  statement = prepare (db, error, sql, types, values);
  va_end (values);
  if (statement == NULL)
    return FALSE;

  do
    code = sqlite3_step (statement);
  while (code == SQLITE_ROW);
  return code == SQLITE_DONE || fail (db, error, STEP_FAILED);
}

gboolean
llm_db_run_script (sqlite3    *db,
                   const char *sql,
                   GError    **error)
{
  return sqlite3_exec (db, sql, NULL, NULL, NULL) == SQLITE_OK ||
         fail (db, error, N_("The context database can't be used"));
}

/* --- values of a row --- */

const char *
llm_db_get_text (sqlite3_stmt *row,
                 int           column)
{
  const char *text;
  gsize length;

  if (sqlite3_column_type (row, column) != SQLITE_TEXT)
    return NULL;
  text = (const char *) sqlite3_column_text (row, column);
  length = (gsize) sqlite3_column_bytes (row, column);
  return text != NULL && g_utf8_validate_len (text, length, NULL) ? text : NULL;
}

gboolean
llm_db_dup_text (sqlite3_stmt *row,
                 int           column,
                 char        **text)
{
  *text = g_strdup (llm_db_get_text (row, column));
  return *text != NULL || sqlite3_column_type (row, column) == SQLITE_NULL;
}

gboolean
llm_db_get_number (sqlite3_stmt *row,
                   int           column,
                   gint64        min,
                   gint64        max,
                   gint64       *number)
{
  gint64 stored = sqlite3_column_int64 (row, column);

  *number = CLAMP (stored, min, max);
  return sqlite3_column_type (row, column) == SQLITE_INTEGER && *number == stored;
}

gboolean
llm_db_check_sum (sqlite3_stmt *row,
                  int           column,
                  gint64        sum)
{
  return sqlite3_column_type (row, column) == SQLITE_NULL
         || llm_db_get_number (row, column, sum, sum, &sum);
}
