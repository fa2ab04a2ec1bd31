/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The database and its thread: what must survive. A transaction's fsync waits
 * there, never on main. Functions are called on main; the transactions they are
 * given run in the thread, in order.
 *
 * What can't be opened is tried again with later transactions, at most once a second. A database
 * whose file is removed, replaced or truncated by others while it is open is noticed before and
 * after each transaction, which fails, and is opened again with the next one.
 */

#pragma once

#include <gio/gio.h>
#include <sqlite3.h>

G_BEGIN_DECLS

typedef struct _LlmDb LlmDb;

/* One transaction: committed when it returns TRUE, rolled back otherwise. Those that wait at the
 * same time are committed together, each told of its own end. It may be run again, from the
 * beginning, when what it did was undone. */
typedef gboolean (*LlmDbFunc) (sqlite3  *db,
                               gpointer  data,
                               GError  **error);
/* Told on main: the database that was open is not any more. What the next transaction sees may be
 * another one. */
typedef void (*LlmDbLost) (const GError *error,
                           gpointer      data);
/* Makes room on the disk, about @bytes; returns how many came free, 0 when there is nothing more to
 * give. In the database's thread, and may block. */
typedef guint64 (*LlmDbMakeRoom) (guint64  bytes,
                                  gpointer data);

/* One kind of rows, as they are found in a damaged database. What is found may be out of date, or
 * no row at all. */
typedef struct
{
  const char *types;     /* of its first values, a letter each: `t`ext, `i`nteger, `n`umber */
  guint n_min;           /* values */
  guint n_max;
  const char *insert;    /* the statement that takes it; what it does not have is NULL */
} LlmDbRows;

/* Content of a database. */
typedef struct
{
  int version;
  const char *const *upgrades; /* [N] makes version N + 1 of version N; 0 is an empty database */
  /* of tables without a rowid, and of indexes; ended by one without @insert */
  const LlmDbRows *rows;
  /* Of the rows in @db, taken from @damaged, leaves what is whole; the rest is noted as lost, but
   * kept as @copy. Returns how much that is. */
  guint (*set_aside) (sqlite3    *db,
                      sqlite3    *damaged,
                      const char *copy);
} LlmDbSchema;

/* Makes nothing before the first transaction: then FOLDER/contexts.db, see llm_db_file_open(); NULL
 * for a database in memory that ends with the process. */
LlmDb   *llm_db_new        (const char          *folder,
                            const LlmDbSchema   *schema);
/* Waits for all transactions given so far. */
void     llm_db_free       (LlmDb               *self);
/* Before the first transaction. One that finds the disk full is made again as long as @make_room
 * says that something came free. */
void     llm_db_connect    (LlmDb               *self,
                            LlmDbLost            lost,
                            LlmDbMakeRoom        make_room,
                            gpointer             data);

/* The file turned out to be damaged: what can be read of it is copied into a new one, before the
 * transactions that are given from now on. So it is too when SQLite says so in a transaction. */
void     llm_db_salvage_file (LlmDb              *self);

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

/* --- for LlmDbFuncs, in the thread --- */

/* Kind of the last failure of a statement. */
typedef enum
{
  LLM_DB_FAULT_NONE,    /* no fault of the file */
  LLM_DB_FAULT_FULL,    /* of the disk: there is no room */
  LLM_DB_FAULT_DAMAGED,
} LlmDbFault;

LlmDbFault    llm_db_find_fault (sqlite3 *db);
/* Runs statements that give nothing back. */
gboolean      llm_db_run_script (sqlite3    *db,
                              const char *sql,
                              GError    **error);

/* Runs one statement with its values bound in order: `i` gint64, `d` double, `s`
 * const char * (nullable), `b` const void * and gsize, `v` const sqlite3_value *. */
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
/* FALSE at the end, or with @error set. @statement: NULL when the query failed */
gboolean      llm_db_next    (sqlite3_stmt *statement,
                              GError      **error);

/* Values of a row that may be damaged: they may have any type and any value. */

/* (nullable): NULL for what is no text, no UTF-8, or has a NUL inside. Good until the next row. */
const char   *llm_db_get_text   (sqlite3_stmt *row,
                                 int           column);
/* A copy, or NULL where the row has NULL. FALSE, and NULL, for what is neither. */
gboolean      llm_db_dup_text   (sqlite3_stmt *row,
                                 int           column,
                                 char        **text);
/* FALSE, and the nearest number, for what is no whole number from @min to @max. */
gboolean      llm_db_get_number (sqlite3_stmt *row,
                                 int           column,
                                 gint64        min,
                                 gint64        max,
                                 gint64       *number);
/* Whether a column has the checksum @sum, or NULL: rows of version 1 have none. */
gboolean      llm_db_check_sum  (sqlite3_stmt *row,
                                 int           column,
                                 gint64        sum);

/* The version of a database, 0 for an empty one. Fails with STORAGE for one of a newer service, and
 * for one whose tables are not those of the version that it names. Changes nothing. */
gboolean      llm_db_check_schema   (sqlite3           *db,
                                     const LlmDbSchema *schema,
                                     int               *version,
                                     GError           **error);
/* Makes today's tables of those of @version, in one transaction. After a failure, closing @db
 * leaves it as it was. */
gboolean      llm_db_upgrade_schema (sqlite3           *db,
                                     const LlmDbSchema *schema,
                                     int                version,
                                     GError           **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmDb, llm_db_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (sqlite3, sqlite3_close)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (sqlite3_stmt, sqlite3_finalize)

G_END_DECLS
