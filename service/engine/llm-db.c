/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-engine"

#include "engine/llm-db.h"

#include <errno.h>
#include <glib/gi18n.h>
#include <glib/gstdio.h>

#include "base/llm-clock.h"
#include "base/llm-mailbox.h"
#include "common/llmsvc-error.h"

#define SCHEMA_VERSION 1

struct _LlmDb
{
  GThread *thread;
  LlmMailbox *inbox;
  char *folder;        /* (nullable) */

  /* the thread's own */
  sqlite3 *db;         /* (nullable) */
  GError *open_error;  /* (nullable): why there is none */
  GPtrArray *waiting;  /* (element-type Request) (unowned): transactions to be made together */
  gboolean is_ending;
};

typedef struct
{
  LlmDbFunc func;
  gpointer data;
  GDestroyNotify destroy; /* (nullable) */
} Transaction;

static const char schema[] =
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

static void
set_sqlite_error (GError    **error,
                  sqlite3    *db,
                  const char *what)
{
  int code = sqlite3_extended_errcode (db);

  if ((code & 0xff) == SQLITE_FULL)
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE,
                 "%s: %s (make room on the disk that holds the service's state)", what,
                 sqlite3_errmsg (db));
  else
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE, "%s: %s (%s)", what,
                 sqlite3_errmsg (db), sqlite3_errstr (code));
}

/* --- statements --- */

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

  if (sqlite3_prepare_v2 (db, sql, -1, &statement, NULL) != SQLITE_OK ||
      !bind_values (statement, types, values))
    {
      set_sqlite_error (error, db, N_("The context database refused a statement"));
      return NULL;
    }
  return g_steal_pointer (&statement);
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
  int code = sqlite3_step (statement);

  if (code == SQLITE_ROW)
    return TRUE;
  if (code != SQLITE_DONE)
    set_sqlite_error (error, sqlite3_db_handle (statement),
                      N_("Reading or writing the context database failed"));
  return FALSE;
}

gboolean
llm_db_execute (sqlite3    *db,
                GError    **error,
                const char *sql,
                const char *types,
                ...)
{
  g_autoptr(sqlite3_stmt) statement = NULL;
  g_autoptr(GError) local = NULL;
  va_list values;

  va_start (values, types);
  statement = prepare (db, error, sql, types, values);
  va_end (values);
  if (statement == NULL)
    return FALSE;

  while (llm_db_next (statement, &local))
    ;
  if (local != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local));
      return FALSE;
    }
  return TRUE;
}

/* --- the thread --- */

static gboolean
run_script (sqlite3    *db,
            const char *sql,
            GError    **error)
{
  if (sqlite3_exec (db, sql, NULL, NULL, NULL) == SQLITE_OK)
    return TRUE;
  set_sqlite_error (error, db, N_("The context database can't be used"));
  return FALSE;
}

static gboolean
read_version (sqlite3 *db,
              int     *version,
              GError **error)
{
  g_autoptr(GError) local = NULL;
  g_autoptr(sqlite3_stmt) statement = llm_db_query (db, error, "PRAGMA user_version", "");

  if (statement == NULL)
    return FALSE;
  if (!llm_db_next (statement, &local))
    {
      if (local != NULL)
        g_propagate_error (error, g_steal_pointer (&local));
      return FALSE;
    }
  *version = sqlite3_column_int (statement, 0);
  return TRUE;
}

static gboolean
set_up (sqlite3 *db,
        GError **error)
{
  int version;

  /* An acknowledged turn must survive a power cut: WAL with a sync at commit. */
  if (!run_script (db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
                       "PRAGMA foreign_keys=ON; PRAGMA trusted_schema=OFF;"
                       "PRAGMA secure_delete=ON; PRAGMA wal_autocheckpoint=256;", error) ||
      !read_version (db, &version, error))
    return FALSE;
  if (version == SCHEMA_VERSION)
    return TRUE;
  if (version != 0)
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE,
                   "The context database has version %d; this service knows version %d. "
                   "Start the service that wrote it", version, SCHEMA_VERSION);
      return FALSE;
    }
  return run_script (db, "BEGIN IMMEDIATE", error) &&
         run_script (db, schema, error) &&
         run_script (db, "PRAGMA user_version = " G_STRINGIFY (SCHEMA_VERSION), error) &&
         run_script (db, "COMMIT", error);
}

static gboolean
open_file (LlmDb      *self,
           const char *path,
           gboolean   *is_damaged,
           GError    **error)
{
  int code =
    sqlite3_open_v2 (path, &self->db,
                     SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);

  if (code == SQLITE_OK)
    {
      sqlite3_busy_timeout (self->db, 2000);
      if (set_up (self->db, error))
        return TRUE;
      code = sqlite3_errcode (self->db);
    }
  else
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE, "%s can't be opened: %s", path,
                   sqlite3_errstr (code));
    }
  *is_damaged = code == SQLITE_NOTADB || code == SQLITE_CORRUPT;
  g_clear_pointer (&self->db, sqlite3_close);
  return FALSE;
}

/* The file and its journal, which would otherwise be played into the next file. */
static gboolean
move_aside (const char *path,
            GError    **error)
{
  static const char *const suffixes[] = { "", "-wal", "-shm" };
  g_autofree char *target =
    g_strdup_printf ("%s.damaged-%" G_GINT64_FORMAT, path, llm_clock_wall_s ());

  for (guint i = 0; i < G_N_ELEMENTS (suffixes); i++)
    {
      g_autofree char *from = g_strconcat (path, suffixes[i], NULL);
      g_autofree char *to = g_strconcat (target, suffixes[i], NULL);

      if (g_rename (from, to) != 0 && errno != ENOENT)
        {
          g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE,
                       "The damaged context database %s can't be moved aside: %s", path,
                       g_strerror (errno));
          return FALSE;
        }
    }
  g_warning ("The context database %s is damaged; it was kept as %s, and a new one begins", path,
             target);
  return TRUE;
}

static gboolean
open_in_folder (LlmDb   *self,
                GError **error)
{
  g_autofree char *path = g_build_filename (self->folder, "contexts.db", NULL);
  g_autoptr(GError) first_error = NULL;
  gboolean is_damaged = FALSE;

  if (g_mkdir_with_parents (self->folder, 0700) != 0)
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE, "The folder %s can't be made: %s",
                   self->folder, g_strerror (errno));
      return FALSE;
    }
  if (open_file (self, path, &is_damaged, &first_error))
    return TRUE;
  if (is_damaged)
    return move_aside (path, error) && open_file (self, path, &is_damaged, error);
  g_propagate_error (error, g_steal_pointer (&first_error));
  return FALSE;
}

static void
open_database (gpointer data)
{
  LlmDb *self = data;
  gboolean is_damaged;
  gboolean is_open = self->folder != NULL
                       ? open_in_folder (self, &self->open_error)
                       : open_file (self, ":memory:", &is_damaged, &self->open_error);

  if (!is_open)
    g_warning ("%s", self->open_error->message);
}

typedef struct
{
  LlmDb *db;       /* (unowned) */
  GTask *task;     /* (owned) */
  GError *error;   /* (owned) (nullable): of its own part */
} Request;

static void
request_free (Request *request)
{
  g_object_unref (request->task);
  g_clear_error (&request->error);
  g_free (request);
}

/* Its own part of what is made together: what it has changed when it fails is undone alone. */
static void
run_part (sqlite3 *db,
          Request *request)
{
  Transaction *transaction = g_task_get_task_data (request->task);

  if (!run_script (db, "SAVEPOINT part", &request->error))
    return;
  if (!transaction->func (db, transaction->data, &request->error))
    sqlite3_exec (db, "ROLLBACK TO part", NULL, NULL, NULL);
  sqlite3_exec (db, "RELEASE part", NULL, NULL, NULL);
}

/* All that came while the one before was written go to the disk with one sync, which is what a
 * transaction takes its time for. Nobody hears of his own before all are there. */
static void
run_waiting (LlmDb *self)
{
  g_autoptr(GError) error = NULL;
  gboolean is_good;

  if (self->waiting->len == 0)
    return;
  is_good = run_script (self->db, "BEGIN IMMEDIATE", &error);
  for (guint i = 0; is_good && i < self->waiting->len; i++)
    {
      Request *request = g_ptr_array_index (self->waiting, i);

      run_part (self->db, request);
      /* a full disk, or one that fails, ends the transaction and undoes what was before as well */
      if (sqlite3_get_autocommit (self->db))
        {
          is_good = FALSE;
          error = request->error != NULL
                    ? g_error_copy (request->error)
                    : g_error_new_literal (LLMSVC_ERROR, LLMSVC_ERROR_STORAGE,
                                           "The context database can't be written");
        }
    }
  is_good = is_good && run_script (self->db, "COMMIT", &error);
  if (!is_good && !sqlite3_get_autocommit (self->db))
    sqlite3_exec (self->db, "ROLLBACK", NULL, NULL, NULL);

  for (guint i = 0; i < self->waiting->len; i++)
    {
      Request *request = g_ptr_array_index (self->waiting, i);

      if (request->error != NULL)
        g_task_return_error (request->task, g_steal_pointer (&request->error));
      else if (!is_good)
        g_task_return_error (request->task, g_error_copy (error));
      else
        g_task_return_boolean (request->task, TRUE);
      request_free (request);
    }
  g_ptr_array_set_size (self->waiting, 0);
}

static void
run_request (gpointer data)
{
  Request *request = data;

  if (request->db->db != NULL)
    {
      g_ptr_array_add (request->db->waiting, request);
      return;
    }
  g_task_return_error (request->task, g_error_copy (request->db->open_error));
  request_free (request);
}

static void
end_thread (gpointer data)
{
  LlmDb *self = data;

  self->is_ending = TRUE;
}

static gpointer
run_thread (gpointer data)
{
  LlmDb *self = data;

  while (!self->is_ending)
    {
      llm_mailbox_dispatch (self->inbox, -1);
      run_waiting (self);
    }
  g_clear_pointer (&self->db, sqlite3_close);
  return NULL;
}

/* --- the main thread --- */

LlmDb *
llm_db_new (const char *folder)
{
  LlmDb *self = g_new0 (LlmDb, 1);

  self->folder = g_strdup (folder);
  self->inbox = llm_mailbox_new ();
  self->waiting = g_ptr_array_new ();
  llm_mailbox_post (self->inbox, open_database, self, NULL);
  self->thread = g_thread_new ("llm-db", run_thread, self);
  return self;
}

void
llm_db_free (LlmDb *self)
{
  llm_mailbox_post (self->inbox, end_thread, self, NULL);
  g_thread_join (self->thread);
  llm_mailbox_free (self->inbox);
  g_ptr_array_unref (self->waiting);
  g_clear_error (&self->open_error);
  g_free (self->folder);
  g_free (self);
}

static void
transaction_free (Transaction *transaction)
{
  if (transaction->destroy != NULL)
    transaction->destroy (transaction->data);
  g_free (transaction);
}

void
llm_db_run_async (LlmDb              *self,
                  LlmDbFunc           func,
                  gpointer            data,
                  GDestroyNotify      destroy,
                  GAsyncReadyCallback callback,
                  gpointer            user_data)
{
  Request *request = g_new0 (Request, 1);
  Transaction *transaction = g_new (Transaction, 1);

  *transaction = (Transaction) { func, data, destroy };
  request->db = self;
  request->task = g_task_new (NULL, NULL, callback, user_data);
  g_task_set_task_data (request->task, transaction, (GDestroyNotify) transaction_free);
  llm_mailbox_post (self->inbox, run_request, request, NULL);
}

gboolean
llm_db_run_finish (GAsyncResult *result,
                   gpointer     *data,
                   GError      **error)
{
  if (data != NULL)
    *data = ((Transaction *) g_task_get_task_data (G_TASK (result)))->data;
  return g_task_propagate_boolean (G_TASK (result), error);
}
