/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-engine"

#include "accounts/llm-db.h"

#include "accounts/llm-db-file.h"
#include "base/llm-clock.h"
#include "base/llm-fail.h"
#include "base/llm-mailbox.h"

/* A database that could not be opened is tried again after this time. */
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
  const LlmDbSchema *schema;
  LlmDbLost lost;        /* (nullable): main's */
  LlmDbMakeRoom make_room; /* (nullable) */
  gpointer data;         /* of both */
  GError *loss;          /* (owned) (nullable): for main, not told yet; atomic */

  /* the thread's own */
  LlmDbFile *file;       /* (nullable): why it is not open */
  GError *open_error;    /* (nullable): why there is none */
  gint64 retry_us;       /* not before */
  gboolean is_damaged;   /* the file was found to be so */
  GPtrArray *waiting;    /* (element-type GTask) (owned): transactions to be made together */
  gboolean is_ending;
};

/* The data of a task. */
typedef struct
{
  LlmDb *db;       /* (unowned) */
  LlmDbFunc func;
  gpointer data;
  GDestroyNotify destroy; /* (nullable) */
  GError *error;   /* (owned) (nullable): of its own part */
} Transaction;

static void
transaction_free (Transaction *transaction)
{
  if (transaction->destroy != NULL)
    transaction->destroy (transaction->data);
  g_clear_error (&transaction->error);
  g_free (transaction);
}

/* --- the file --- */

static gboolean
has_made_room (LlmDb *self,
               guint  n_tries)
{
  return self->make_room != NULL && n_tries < MAX_TRIES &&
         self->make_room ((guint64) ROOM_BYTES << n_tries, self->data) > 0;
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
          self->file = llm_db_file_open (self->folder, self->schema, self->is_damaged, &fault,
                                         &self->open_error);
          self->is_damaged = FALSE;
        }
      while (self->file == NULL && fault == LLM_DB_FAULT_FULL && has_made_room (self, n_tries++));
      self->retry_us = llm_clock_now_us () + RETRY_US;
    }
  if (self->file != NULL)
    return TRUE;
  g_propagate_error (error, g_error_copy (self->open_error));
  return FALSE;
}

static void
tell_lost (gpointer data)
{
  LlmDb *self = data;
  g_autoptr(GError) loss = __atomic_exchange_n (&self->loss, NULL, __ATOMIC_ACQ_REL);

  if (loss != NULL && self->lost != NULL)
    self->lost (loss, self->data);
}

static void
lose (LlmDb        *self,
      const GError *error)
{
  g_autoptr(GError) untold =
    __atomic_exchange_n (&self->loss, g_error_copy (error), __ATOMIC_ACQ_REL);

  g_clear_pointer (&self->file, llm_db_file_close);
  g_clear_error (&self->open_error);
  llm_mailbox_post (self->outbox, tell_lost, self, NULL);
}

/* --- transactions --- */

/* Its own part of what is made together: what it has changed when it fails is undone alone. */
static void
run_part (sqlite3     *db,
          Transaction *part,
          LlmDbFault  *fault)
{
  g_clear_error (&part->error);
  if (!llm_db_run_script (db, "SAVEPOINT part", &part->error) ||
      !part->func (db, part->data, &part->error))
    {
      *fault = llm_db_find_fault (db);
      sqlite3_exec (db, "ROLLBACK TO part", NULL, NULL, NULL);
    }
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
  sqlite3 *db = self->file->db;
  gboolean is_good = llm_db_run_script (db, "BEGIN IMMEDIATE", error);

  *fault = is_good ? LLM_DB_FAULT_NONE : llm_db_find_fault (db);
  for (guint i = 0; is_good && i < self->waiting->len; i++)
    {
      Transaction *part = g_task_get_task_data (g_ptr_array_index (self->waiting, i));

      run_part (db, part, fault);
      /* a full disk, or one that fails, may end the transaction and undo what was before as well */
      is_good = !sqlite3_get_autocommit (db) && *fault != LLM_DB_FAULT_DAMAGED &&
                (*fault != LLM_DB_FAULT_FULL || when_full);
      if (!is_good && part->error != NULL)
        g_propagate_error (error, g_error_copy (part->error));
      else if (!is_good)
        llm_fail (error, LLMSVC_ERROR_STORAGE, "The context database can't be written");
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
      /* a journal whose content is in the database is written again from its beginning */
      has_room = (n_tries == 0 && sqlite3_wal_checkpoint_v2 (self->file->db, NULL,
                                                             SQLITE_CHECKPOINT_RESTART, NULL,
                                                             NULL) == SQLITE_OK)
                 || has_made_room (self, MAX (n_tries, 1) - 1);
    }
  return TRUE;
}

/* Nothing counts as written before it is seen to be where the next start looks for it. */
static gboolean
run_transactions (LlmDb   *self,
                  GError **error)
{
  g_autoptr(GError) moved = NULL;
  LlmDbFault fault = LLM_DB_FAULT_NONE;
  gboolean is_good;

  if (!ensure_open (self, error))
    return FALSE;
  is_good = llm_db_file_check (self->file, &moved) && run_with_room (self, &fault, error);
  if (moved == NULL && fault != LLM_DB_FAULT_DAMAGED)
    llm_db_file_check (self->file, &moved);
  if (moved != NULL)
    {
      g_clear_error (error);
      g_propagate_error (error, g_error_copy (moved));
    }
  self->is_damaged = fault == LLM_DB_FAULT_DAMAGED;
  if (moved != NULL || self->is_damaged)
    lose (self, *error);
  return is_good && moved == NULL;
}

/* Reports results only when all transactions of the batch have run. */
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
      GTask *task = g_ptr_array_index (self->waiting, i);
      Transaction *part = g_task_get_task_data (task);

      if (part->error != NULL && (is_good || self->file != NULL))
        g_task_return_error (task, g_steal_pointer (&part->error));
      else if (!is_good)
        g_task_return_error (task, g_error_copy (error));
      else
        g_task_return_boolean (task, TRUE);
    }
  g_ptr_array_set_size (self->waiting, 0);
}

/* @data: (transfer full): the task */
static void
add_waiting (gpointer data)
{
  Transaction *part = g_task_get_task_data (data);

  g_ptr_array_add (part->db->waiting, data);
}

static void
salvage_file (gpointer data)
{
  LlmDb *self = data;

  g_clear_pointer (&self->file, llm_db_file_close);
  self->is_damaged = TRUE;
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
llm_db_new (const char        *folder,
            const LlmDbSchema *schema)
{
  LlmDb *self = g_new0 (LlmDb, 1);

  self->folder = g_strdup (folder);
  self->schema = schema;
  self->inbox = llm_mailbox_new ();
  self->outbox = llm_mailbox_new ();
  self->waiting = g_ptr_array_new_with_free_func (g_object_unref);
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
  g_clear_error (&self->loss);
  g_clear_error (&self->open_error);
  g_free (self->folder);
  g_free (self);
}

void
llm_db_connect (LlmDb        *self,
                LlmDbLost     lost,
                LlmDbMakeRoom make_room,
                gpointer      data)
{
  self->lost = lost;
  self->make_room = make_room;
  self->data = data;
  llm_mailbox_attach (self->outbox);
}

void
llm_db_salvage_file (LlmDb *self)
{
  llm_mailbox_post (self->inbox, salvage_file, self, NULL);
}

void
llm_db_run_async (LlmDb              *self,
                  LlmDbFunc           func,
                  gpointer            data,
                  GDestroyNotify      destroy,
                  GAsyncReadyCallback callback,
                  gpointer            user_data)
{
  GTask *task = g_task_new (NULL, NULL, callback, user_data);
  Transaction *transaction = g_new (Transaction, 1);

  *transaction = (Transaction) { self, func, data, destroy, NULL };
  g_task_set_task_data (task, transaction, (GDestroyNotify) transaction_free);
  llm_mailbox_post (self->inbox, add_waiting, task, NULL);
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
