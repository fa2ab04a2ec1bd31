/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Values of a row that nobody vouches for: a damaged one may have any type and any value. Database
 * thread. */

#pragma once

#include "contexts/llm-db.h"

G_BEGIN_DECLS

/* (nullable): NULL for what is no text, no UTF-8, or has a NUL inside. Good until the next row. */
const char *llm_stored_row_get_text   (sqlite3_stmt *row,
                                       int           column);
/* A copy, or NULL where the row has NULL. FALSE, and NULL, for what is neither. */
gboolean    llm_stored_row_dup_text   (sqlite3_stmt *row,
                                       int           column,
                                       char        **text);
/* FALSE, and the nearest number, for what is no whole number from @min to @max. */
gboolean    llm_stored_row_get_number (sqlite3_stmt *row,
                                       int           column,
                                       gint64        min,
                                       gint64        max,
                                       gint64       *number);
/* Whether a column has the checksum @sum, or NULL: rows of version 1 have none. */
gboolean    llm_stored_row_check      (sqlite3_stmt *row,
                                       int           column,
                                       gint64        sum);

G_END_DECLS
