/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-engine"

#include "contexts/llm-db.h"

#include "base/llm-clock.h"
#include "base/llm-mailbox.h"
#include "common/llmsvc-error.h"
#include "contexts/llm-db-file.h"

/* A database that could not be opened is left alone for so long. */
#define RETRY_US G_USEC_PER_SEC
/* Room to ask for when the disk is full; each time more, as it may not have been enough. */
#define ROOM_BYTES (1024 * 1024)
#define MAX_TRIES 24

struct _LlmDb
{
  GThread *thread;
  LlmMailbox *inbox;
  LlmMailbox *outbox;    /* to main */
  char *folder;          /* (nullable) */
  LlmDbLost lost;        /* (nullable): main's */
  gpointer lost_data;
  LlmDbMakeRoom make_room; /* (nullable): set before the first transaction */
  gpointer make_room_data;

  /* the thread's own */
  LlmDbFile *file;       /* (nullable) */
  GError *open_error;    /* (nullable): why there is none */
  gint64 retry_us;       /* not before */
  gboolean is_suspect;   /* the file was found damaged */
  GPtrArray *waiting;    /* (element-type Request) (unowned): transactions to be made together */
  gboolean is_ending;
};

typedef struct
{
  LlmDbFunc func;
  gpointer data;
  GDestroyNotify destroy; /* (nullable) */
} Transaction;

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

/* --- the file --- */

static gboolean
has_made_room (LlmDb *self,
               guint  n_tries)
{
  return self->make_room != NULL && n_tries < MAX_TRIES &&
         self->make_room ((guint64) ROOM_BYTES << n_tries, self->make_room_data) > 0;
}

static gboolean
ensure_open (LlmDb   *self,
             GError **error)
{
  if (self->file == NULL && (self->open_error == NULL || llm_clock_now_us () >= self->retry_us))
    {
      LlmDbFault fault;
      guint n_tries = 0;

      do
        {
          g_clear_error (&self->open_error);
          self->file = llm_db_file_open (self->folder, self->is_suspect, &fault,
                                         &self->open_error);
        }
      while (self->file == NULL && fault == LLM_DB_FAULT_FULL && has_made_room (self, n_tries++));
      self->is_suspect = self->is_suspect && self->file == NULL;
      self->retry_us = llm_clock_now_us () + RETRY_US;
    }
  if (self->file != NULL)
    return TRUE;
  g_propagate_error (error, g_error_copy (self->open_error));
  return FALSE;
}

typedef struct
{
  LlmDb *db;       /* (unowned): has the mailbox */
  GError *error;   /* (owned) */
} Loss;

static void
loss_free (Loss *loss)
{
  g_error_free (loss->error);
  g_free (loss);
}

static void
tell_lost (gpointer data)
{
  const Loss *loss = data;

  if (loss->db->lost != NULL)
    loss->db->lost (loss->error, loss->db->lost_data);
}

static void
lose (LlmDb        *self,
      const GError *error)
{
  Loss *loss = g_new (Loss, 1);

  *loss = (Loss) { self, g_error_copy (error) };
  g_clear_pointer (&self->file, llm_db_file_close);
  g_clear_error (&self->open_error);
  llm_mailbox_post (self->outbox, tell_lost, loss, (GDestroyNotify) loss_free);
}

/* --- transactions --- */

/* Its own part of what is made together: what it has changed when it fails is undone alone. */
static void
run_part (sqlite3    *db,
          Request    *request,
          LlmDbFault *fault)
{
  Transaction *transaction = g_task_get_task_data (request->task);

  g_clear_error (&request->error);
  if (llm_db_run_script (db, "SAVEPOINT part", &request->error) &&
      transaction->func (db, transaction->data, &request->error))
    {
      sqlite3_exec (db, "RELEASE part", NULL, NULL, NULL);
      return;
    }
  *fault = llm_db_find_fault (db);
  sqlite3_exec (db, "ROLLBACK TO part", NULL, NULL, NULL);
  sqlite3_exec (db, "RELEASE part", NULL, NULL, NULL);
}

/* All that came while the one before was written go to the disk with one sync, which is what a
 * transaction takes its time for. @when_full: a part that finds the disk full fails alone. */
static gboolean
run_parts (LlmDb      *self,
           gboolean    when_full,
           LlmDbFault *fault,
           GError    **error)
{
  sqlite3 *db = llm_db_file_get_db (self->file);
  gboolean is_good = llm_db_run_script (db, "BEGIN IMMEDIATE", error);

  *fault = is_good ? LLM_DB_FAULT_NONE : llm_db_find_fault (db);
  for (guint i = 0; is_good && i < self->waiting->len; i++)
    {
      Request *request = g_ptr_array_index (self->waiting, i);

      run_part (db, request, fault);
      /* a full disk, or one that fails, may end the transaction and undo what was before as well */
      if (sqlite3_get_autocommit (db) || *fault == LLM_DB_FAULT_DAMAGED ||
          (*fault == LLM_DB_FAULT_FULL && !when_full))
        {
          is_good = FALSE;
          g_propagate_error (error, request->error != NULL
                                      ? g_error_copy (request->error)
                                      : g_error_new_literal (LLMSVC_ERROR, LLMSVC_ERROR_STORAGE,
                                                             "The context database can't be "
                                                             "written"));
        }
    }
  if (is_good && !llm_db_run_script (db, "COMMIT", error))
    {
      is_good = FALSE;
      *fault = llm_db_find_fault (db);
    }
  if (!is_good && !sqlite3_get_autocommit (db))
    sqlite3_exec (db, "ROLLBACK", NULL, NULL, NULL);
  return is_good;
}

/* A journal whose content is in the database is written anew from its beginning. */
static gboolean
has_emptied_journal (LlmDb *self)
{
  return sqlite3_wal_checkpoint_v2 (llm_db_file_get_db (self->file), NULL,
                                    SQLITE_CHECKPOINT_RESTART, NULL, NULL) == SQLITE_OK;
}

/* What of a full disk is context memory can be computed again, and goes before anything fails. */
static gboolean
run_with_room (LlmDb      *self,
               LlmDbFault *fault,
               GError    **error)
{
  gboolean has_room = TRUE;

  for (guint n_tries = 0; !run_parts (self, !has_room, fault, error); n_tries++)
    {
      if (*fault != LLM_DB_FAULT_FULL || !has_room)
        return FALSE;
      g_clear_error (error);
      has_room = n_tries == 0 ? has_emptied_journal (self) || has_made_room (self, 0)
                              : has_made_room (self, n_tries - 1);
    }
  return TRUE;
}

/* Nothing counts as written before it is seen to be where the next start looks for it. */
static gboolean
run_transactions (LlmDb   *self,
                  GError **error)
{
  g_autoptr(GError) local = NULL;
  LlmDbFault fault = LLM_DB_FAULT_NONE;
  gboolean is_in_place, is_good;

  if (!ensure_open (self, error))
    return FALSE;
  is_in_place = llm_db_file_check (self->file, &local);
  is_good = is_in_place && run_with_room (self, &fault, &local);
  if (is_in_place && fault != LLM_DB_FAULT_DAMAGED)
    {
      g_autoptr(GError) moved = NULL;

      is_in_place = llm_db_file_check (self->file, &moved);
      if (!is_in_place)
        {
          g_clear_error (&local);
          local = g_steal_pointer (&moved);
        }
    }
  self->is_suspect = fault == LLM_DB_FAULT_DAMAGED;
  if (!is_in_place || self->is_suspect)
    lose (self, local);
  if (is_good && is_in_place)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&local));
  return FALSE;
}

/* Nobody hears of his own before all are there. */
static void
run_waiting (LlmDb *self)
{
  g_autoptr(GError) error = NULL;
  gboolean is_good;

  if (self->waiting->len == 0)
    return;
  is_good = run_transactions (self, &error);
  for (guint i = 0; i < self->waiting->len; i++)
    {
      Request *request = g_ptr_array_index (self->waiting, i);

      if (!is_good && self->file == NULL)
        g_task_return_error (request->task, g_error_copy (error));
      else if (request->error != NULL)
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

  g_ptr_array_add (request->db->waiting, request);
}

static void
salvage_database (gpointer data)
{
  LlmDb *self = data;
  g_autoptr(GError) error = NULL;

  g_clear_pointer (&self->file, llm_db_file_close);
  self->is_suspect = FALSE;
  if (self->folder != NULL && !llm_db_file_salvage (self->folder, &error))
    g_warning ("%s", error->message);
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
  g_clear_pointer (&self->file, llm_db_file_close);
  return NULL;
}

/* --- the main thread --- */

LlmDb *
llm_db_new (const char *folder)
{
  LlmDb *self = g_new0 (LlmDb, 1);

  self->folder = g_strdup (folder);
  self->inbox = llm_mailbox_new ();
  self->outbox = llm_mailbox_new ();
  self->waiting = g_ptr_array_new ();
  self->thread = g_thread_new ("llm-db", run_thread, self);
  return self;
}

void
llm_db_free (LlmDb *self)
{
  llm_mailbox_post (self->inbox, end_thread, self, NULL);
  g_thread_join (self->thread);
  llm_mailbox_free (self->inbox);
  llm_mailbox_free (self->outbox);
  g_ptr_array_unref (self->waiting);
  g_clear_error (&self->open_error);
  g_free (self->folder);
  g_free (self);
}

void
llm_db_set_lost (LlmDb    *self,
                 LlmDbLost lost,
                 gpointer  data)
{
  self->lost = lost;
  self->lost_data = data;
  llm_mailbox_attach (self->outbox);
}

void
llm_db_salvage_file (LlmDb *self)
{
  llm_mailbox_post (self->inbox, salvage_database, self, NULL);
}

void
llm_db_set_make_room (LlmDb        *self,
                      LlmDbMakeRoom make_room,
                      gpointer      data)
{
  self->make_room = make_room;
  self->make_room_data = data;
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
