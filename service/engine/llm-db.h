/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The database and its thread: what must survive. A transaction's fsync waits
 * there, never on main. Functions are called on main; the transactions they are
 * given run in the thread, in order.
 */

#pragma once

#include <gio/gio.h>
#include <sqlite3.h>

G_BEGIN_DECLS

typedef struct _LlmDb LlmDb;

/* One transaction: committed when it returns TRUE, rolled back otherwise. Those that wait at the
 * same time are committed together, each told of its own end. */
typedef gboolean (*LlmDbFunc) (sqlite3  *db,
                               gpointer  data,
                               GError  **error);

/* Opens FOLDER/contexts.db in the thread, making both; NULL for a database in
 * memory that ends with the process. A damaged file is moved aside with a
 * warning, never deleted. */
LlmDb   *llm_db_new        (const char          *folder);
/* Waits for all transactions given so far. */
void     llm_db_free       (LlmDb               *self);

/* Runs @func (@data); @data lives until after @callback. */
void     llm_db_run_async  (LlmDb               *self,
                            LlmDbFunc            func,
                            gpointer             data,
                            GDestroyNotify       destroy,
                            GAsyncReadyCallback  callback,
                            gpointer             user_data);
/* FALSE with LLMSVC_ERROR_STORAGE (or what @func set); @data (nullable) gets the
 * @data of the call, still owned by it. */
gboolean llm_db_run_finish (GAsyncResult        *result,
                            gpointer            *data,
                            GError             **error);

/* --- for LlmDbFuncs --- */

/* Runs one statement with its values bound in order: `i` gint64, `d` double, `s`
 * const char * (nullable), `b` const void * and gsize. */
gboolean      llm_db_execute (sqlite3    *db,
                              GError    **error,
                              const char *sql,
                              const char *types,
                              ...);
/* The same for a query; rows come by llm_db_next(). */
sqlite3_stmt *llm_db_query   (sqlite3    *db,
                              GError    **error,
                              const char *sql,
                              const char *types,
                              ...);
/* FALSE at the end, or with @error set. */
gboolean      llm_db_next    (sqlite3_stmt *statement,
                              GError      **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmDb, llm_db_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (sqlite3_stmt, sqlite3_finalize)

G_END_DECLS
