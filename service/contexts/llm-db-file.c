/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-engine"

#include "contexts/llm-db-file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/llm-fail.h"
#include "common/llmsvc-error.h"
#include "contexts/llm-db-salvage.h"

/* Whoever else has it may be about to end. */
#define BUSY_TIMEOUT_MS 2000

#define DB_NAME "contexts.db"

/* What is compared: the database, and the journal that has what is not in it yet. Neither becomes
 * shorter while it is open. */
static const char *const names[] = { DB_NAME, DB_NAME "-wal" };
#define N_NAMES G_N_ELEMENTS (names)

struct _LlmDbFile
{
  sqlite3 *db;
  char *path;                    /* (nullable): NULL for one in memory */
  char *folder;                  /* (nullable): as it was given */
  int fd;                        /* of the folder, or -1 */
  struct stat folder_status;
  struct stat statuses[N_NAMES]; /* as last seen */
};

/* --- what its name stands for --- */

static gboolean
is_same (const struct stat *a,
         const struct stat *b)
{
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static gboolean
look_up (LlmDbFile   *self,
         struct stat *statuses)
{
  for (guint i = 0; i < N_NAMES; i++)
    if (fstatat (self->fd, names[i], &statuses[i], AT_SYMLINK_NOFOLLOW) < 0)
      return FALSE;
  return TRUE;
}

static gboolean
is_in_place (LlmDbFile   *self,
             struct stat *statuses)
{
  struct stat folder;

  if (stat (self->folder, &folder) < 0 || !is_same (&folder, &self->folder_status) ||
      !look_up (self, statuses))
    return FALSE;
  for (guint i = 0; i < N_NAMES; i++)
    if (!is_same (&statuses[i], &self->statuses[i]) ||
        statuses[i].st_size < self->statuses[i].st_size)
      return FALSE;
  return TRUE;
}

gboolean
llm_db_file_check (LlmDbFile *self,
                   GError   **error)
{
  struct stat statuses[N_NAMES];

  if (self->path == NULL)
    return TRUE;
  if (is_in_place (self, statuses))
    {
      memcpy (self->statuses, statuses, sizeof statuses);
      return TRUE;
    }
  return llm_fail (error, LLMSVC_ERROR_STORAGE,
                   "The context database “%s” was removed, replaced or truncated while the service "
                   "used it; it is opened again, and the call may be tried again", self->path);
}

/* --- opening --- */

static gboolean
set_up (sqlite3 *db,
        GError **error)
{
  /* With the lock taken before the journal is looked at, its index is memory of this process: there
   * is no file for it that others could truncate under our feet. */
  return llm_db_run_script (db, "PRAGMA locking_mode=EXCLUSIVE; PRAGMA mmap_size=0;", error) &&
         /* An acknowledged turn must survive a power cut: WAL with a sync at commit. */
         llm_db_run_script (db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
                                "PRAGMA foreign_keys=ON; PRAGMA trusted_schema=OFF;"
                                "PRAGMA secure_delete=ON; PRAGMA wal_autocheckpoint=256;"
                                "PRAGMA journal_size_limit=-1;", error) &&
         llm_db_prepare_schema (db, error);
}

/* It was damaged when it was last used: the rest of it may be sound. */
static gboolean
look_through (sqlite3    *db,
              LlmDbFault *fault,
              GError    **error)
{
  g_autoptr(sqlite3_stmt) row = llm_db_query (db, error, "PRAGMA integrity_check(1)", "");

  if (row != NULL && llm_db_next (row, error))
    {
      if (g_strcmp0 ((const char *) sqlite3_column_text (row, 0), "ok") == 0)
        return TRUE;
      llm_fail (error, LLMSVC_ERROR_STORAGE, "The context database is damaged");
      *fault = LLM_DB_FAULT_DAMAGED;
    }
  return FALSE;
}

/* Names the file where SQLite says only that something does not work. */
static void
set_open_error (LlmDbFile *self,
                int        code,
                GError   **error)
{
  int number = self->db != NULL ? sqlite3_system_errno (self->db) : 0;

  g_clear_error (error);
  if ((code & 0xff) == SQLITE_BUSY)
    llm_fail (error, LLMSVC_ERROR_STORAGE,
              "The context database “%s” is in use by another process; end that, or give this "
              "service a state folder of its own", self->path);
  else
    llm_fail (error, LLMSVC_ERROR_STORAGE, "%s can't be opened: %s", self->path,
              number != 0 ? g_strerror (number) : sqlite3_errstr (code));
}

static gboolean
open_db (LlmDbFile  *self,
         gboolean    is_suspect,
         LlmDbFault *fault,
         GError    **error)
{
  const char *path = self->path != NULL ? self->path : ":memory:";
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
                    SQLITE_OPEN_NOFOLLOW;
  int code = sqlite3_open_v2 (path, &self->db, flags, NULL);
  gboolean is_open = FALSE;

  *fault = LLM_DB_FAULT_NONE;
  if (code == SQLITE_OK)
    {
      sqlite3_busy_timeout (self->db, BUSY_TIMEOUT_MS);
      is_open = set_up (self->db, error);
      code = is_open ? SQLITE_OK : sqlite3_extended_errcode (self->db);
      *fault = is_open ? LLM_DB_FAULT_NONE : llm_db_find_fault (self->db);
      is_open = is_open && (!is_suspect || look_through (self->db, fault, error));
    }
  else if (self->db != NULL)
    {
      *fault = llm_db_find_fault (self->db);
    }
  if (is_open)
    return TRUE;
  if (error != NULL && (*error == NULL || (code & 0xff) == SQLITE_BUSY))
    set_open_error (self, code, error);
  g_clear_pointer (&self->db, sqlite3_close);
  return FALSE;
}

/* A link in the folder may lead to another user's file, and so may anything that is not a file. */
static gboolean
check_names (LlmDbFile *self,
             GError   **error)
{
  static const char *const used[] = { DB_NAME, DB_NAME "-wal", DB_NAME "-journal" };

  for (guint i = 0; i < G_N_ELEMENTS (used); i++)
    {
      struct stat status;

      if (fstatat (self->fd, used[i], &status, AT_SYMLINK_NOFOLLOW) < 0 ||
          S_ISREG (status.st_mode))
        continue;
      return llm_fail (error, LLMSVC_ERROR_STORAGE,
                       "“%s” in the state folder “%s” is a symbolic link or another special file, "
                       "which the service does not follow; remove it, or put the file itself there",
                       used[i], self->folder);
    }
  return TRUE;
}

static gboolean
open_path (LlmDbFile  *self,
           gboolean    is_suspect,
           LlmDbFault *fault,
           GError    **error)
{
  if (!check_names (self, error) || !open_db (self, is_suspect, fault, error))
    return FALSE;
  if (look_up (self, self->statuses))
    return TRUE;
  return llm_fail (error, LLMSVC_ERROR_STORAGE, "%s can't be opened: %s", self->path,
                   g_strerror (errno));
}

/* --- the folder --- */

static gboolean
open_folder (LlmDbFile  *self,
             const char *folder,
             GError    **error)
{
  struct stat status;
  char *path;

  self->folder = g_strdup (folder);
  if (g_mkdir_with_parents (folder, S_IRWXU) < 0)
    return llm_fail (error, LLMSVC_ERROR_STORAGE, "The folder %s can't be made: %s", folder,
                     g_strerror (errno));
  /* Administrators move folders to other disks so, and systemd does for dynamic users. */
  if (lstat (folder, &status) == 0 && S_ISLNK (status.st_mode) && status.st_uid != 0 &&
      status.st_uid != geteuid ())
    return llm_fail (error, LLMSVC_ERROR_STORAGE,
                     "The state folder “%s” is a symbolic link of another user, which the service "
                     "does not follow; remove it, or give the service another state folder",
                     folder);
  self->fd = open (folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  path = self->fd >= 0 && fstat (self->fd, &self->folder_status) == 0 ? realpath (folder, NULL)
                                                                       : NULL;
  if (path == NULL)
    return llm_fail (error, LLMSVC_ERROR_STORAGE, "%s can't be opened: %s", folder,
                     g_strerror (errno));
  self->path = g_build_filename (path, DB_NAME, NULL);
  free (path);
  return TRUE;
}

LlmDbFile *
llm_db_file_open (const char *folder,
                  gboolean    is_suspect,
                  LlmDbFault *fault,
                  GError    **error)
{
  g_autoptr(LlmDbFile) self = g_new0 (LlmDbFile, 1);
  g_autoptr(GError) local = NULL;

  self->fd = -1;
  *fault = LLM_DB_FAULT_NONE;
  if (folder == NULL)
    return open_db (self, FALSE, fault, error) ? g_steal_pointer (&self) : NULL;
  if (!open_folder (self, folder, error))
    return NULL;
  if (open_path (self, is_suspect, fault, &local))
    return g_steal_pointer (&self);
  if (*fault == LLM_DB_FAULT_DAMAGED)
    return llm_db_replace (self->path, error) && open_path (self, FALSE, fault, error)
             ? g_steal_pointer (&self)
             : NULL;
  g_propagate_error (error, g_steal_pointer (&local));
  return NULL;
}

gboolean
llm_db_file_salvage (const char *folder,
                     GError    **error)
{
  g_autoptr(LlmDbFile) self = g_new0 (LlmDbFile, 1);

  self->fd = -1;
  return open_folder (self, folder, error) && check_names (self, error) &&
         llm_db_salvage (self->path, error);
}

void
llm_db_file_close (LlmDbFile *self)
{
  if (self == NULL)
    return;

  /* SQLite removes the journal by its name. */
  if (self->db != NULL && !llm_db_file_check (self, NULL))
    sqlite3_db_config (self->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
  sqlite3_close (self->db);
  if (self->fd >= 0)
    close (self->fd);
  g_free (self->path);
  g_free (self->folder);
  g_free (self);
}

sqlite3 *
llm_db_file_get_db (LlmDbFile *self)
{
  return self->db;
}
