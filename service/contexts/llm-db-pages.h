/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The rows of a database file page by page, without its trees: where an inner page is damaged, the
 * rows below it are still there. Tables without a rowid and indexes only, as all of ours are. What
 * is found may be out of date, or no row at all: whoever takes it checks it. Any thread.
 */

#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

#define LLM_DB_MAX_COLUMNS 16

typedef enum
{
  LLM_DB_NULL,
  LLM_DB_INTEGER,
  LLM_DB_REAL,
  LLM_DB_TEXT,
  LLM_DB_BLOB,
} LlmDbType;

typedef struct
{
  LlmDbType type;
  gint64 integer;
  double real;
  const guint8 *bytes;   /* of TEXT and BLOB; good during the call */
  gsize n_bytes;
} LlmDbValue;

typedef void (*LlmDbRow) (const LlmDbValue *values,
                          guint             n_values,
                          gpointer          data);

/* Calls @func with each row of the file @path that can be read. */
void llm_db_pages_scan (const char *path,
                        LlmDbRow    func,
                        gpointer    data);

G_END_DECLS
