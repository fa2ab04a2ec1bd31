/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "contexts/llm-stored-row.h"

const char *
llm_stored_row_get_text (sqlite3_stmt *row,
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
llm_stored_row_dup_text (sqlite3_stmt *row,
                         int           column,
                         char        **text)
{
  *text = g_strdup (llm_stored_row_get_text (row, column));
  return *text != NULL || sqlite3_column_type (row, column) == SQLITE_NULL;
}

gboolean
llm_stored_row_get_number (sqlite3_stmt *row,
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
llm_stored_row_check (sqlite3_stmt *row,
                      int           column,
                      gint64        sum)
{
  if (sqlite3_column_type (row, column) == SQLITE_NULL)
    return TRUE;
  return sqlite3_column_type (row, column) == SQLITE_INTEGER
         && sqlite3_column_int64 (row, column) == sum;
}
