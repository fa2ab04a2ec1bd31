/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-engine"

#include "accounts/llm-db-file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/llm-fail.h"

/* Time for another process that has the database open to end. */
#define BUSY_TIMEOUT_MS 2000

#define DB_NAME "contexts.db"

/* What is compared: the database, and the journal that has what is not in it yet. Neither becomes
 * shorter while it is open. */
static const char *const names[LLM_DB_N_FILES] = { DB_NAME, DB_NAME "-wal" };

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
  for (guint i = 0; i < LLM_DB_N_FILES; i++)
    if (fstatat (self->fd, names[i], &statuses[i], AT_SYMLINK_NOFOLLOW) < 0)
      return FALSE;
  return TRUE;
}

gboolean
llm_db_file_check (LlmDbFile *self,
                   GError   **error)
{
  struct stat statuses[LLM_DB_N_FILES];
  struct stat folder;
  gboolean is_in_place;

  if (self->path == NULL)
    return TRUE;
  is_in_place = stat (self->folder, &folder) == 0 && is_same (&folder, &self->folder_status) &&
                look_up (self, statuses);
  for (guint i = 0; is_in_place && i < LLM_DB_N_FILES; i++)
    is_in_place = is_same (&statuses[i], &self->statuses[i]) &&
                  statuses[i].st_size >= self->statuses[i].st_size;
  if (!is_in_place)
    return llm_fail (error, LLMSVC_ERROR_STORAGE,
                     "The context database “%s” was removed, replaced or truncated while the "
                     "service used it; it is opened again, and the call may be tried again",
                     self->path);
  memcpy (self->statuses, statuses, sizeof statuses);
  return TRUE;
}

/* --- opening --- */

static gboolean
set_up (sqlite3           *db,
        const char        *path,
        const LlmDbSchema *schema,
        GError           **error)
{
  int version;

  sqlite3_busy_timeout (db, BUSY_TIMEOUT_MS);
  /* With the lock taken before the journal is looked at, its index is memory of this process: there
   * is no file for it that others could truncate under our feet. */
  return llm_db_run_script (db, "PRAGMA locking_mode=EXCLUSIVE; PRAGMA mmap_size=0;"
                                "PRAGMA trusted_schema=OFF;", error) &&
         /* Reading takes the lock. What it finds damaged is salvaged afterwards. */
         sqlite3_exec (db, "SELECT 1 FROM sqlite_schema", NULL, NULL, NULL) != SQLITE_BUSY &&
         llm_db_check_journal (path, db, error) &&
         /* before the journal's mode, which is in the file: what is refused is not changed */
         llm_db_check_schema (db, schema, &version, error) &&
         /* An acknowledged turn must survive a power cut: WAL with a sync at commit. */
         llm_db_run_script (db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
                                "PRAGMA foreign_keys=ON;"
                                "PRAGMA secure_delete=ON; PRAGMA wal_autocheckpoint=256;"
                                "PRAGMA journal_size_limit=-1;"
                                /* a journal is made when it is first read */
                                "PRAGMA user_version;", error) &&
         llm_db_upgrade_schema (db, schema, version, error);
}

/* Names the file where SQLite says only that something does not work. */
static gboolean
open_db (LlmDbFile         *self,
         const LlmDbSchema *schema,
         LlmDbFault        *fault,
         GError           **error)
{
  const char *path = self->path != NULL ? self->path : ":memory:";
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
                    SQLITE_OPEN_NOFOLLOW;
  int code = sqlite3_open_v2 (path, &self->db, flags, NULL);
  int number = self->db != NULL ? sqlite3_system_errno (self->db) : 0;
  g_autoptr(GError) local = NULL;

  if (code == SQLITE_OK && set_up (self->db, path, schema, &local))
    return TRUE;
  if (self->db != NULL)
    *fault = llm_db_find_fault (self->db);
  if (self->db != NULL && sqlite3_errcode (self->db) == SQLITE_BUSY)
    llm_fail (error, LLMSVC_ERROR_STORAGE,
              "The context database “%s” is in use by another process; end that, or give this "
              "service a state folder of its own", self->path);
  else if (local != NULL)
    g_propagate_error (error, g_steal_pointer (&local));
  else
    llm_fail (error, LLMSVC_ERROR_STORAGE, "%s can't be opened: %s", self->path,
              number != 0 ? g_strerror (number) : sqlite3_errstr (code));
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
open_path (LlmDbFile         *self,
           const LlmDbSchema *schema,
           LlmDbFault        *fault,
           GError           **error)
{
  return check_names (self, error) && open_db (self, schema, fault, error)
         && (look_up (self, self->statuses)
             || llm_fail (error, LLMSVC_ERROR_STORAGE, "%s can't be opened: %s", self->path,
                          g_strerror (errno)));
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
llm_db_file_open (const char        *folder,
                  const LlmDbSchema *schema,
                  gboolean           is_damaged,
                  LlmDbFault        *fault,
                  GError           **error)
{
  g_autoptr(LlmDbFile) self = g_new0 (LlmDbFile, 1);
  gboolean is_open;

  self->fd = -1;
  *fault = is_damaged ? LLM_DB_FAULT_DAMAGED : LLM_DB_FAULT_NONE;
  if (folder == NULL)
    return open_db (self, schema, fault, error) ? g_steal_pointer (&self) : NULL;
  if (!open_folder (self, folder, error))
    return NULL;
  is_open = !is_damaged && open_path (self, schema, fault, error);
  if (!is_open && *fault == LLM_DB_FAULT_DAMAGED)
    {
      g_clear_error (error);
      is_open = check_names (self, error) && llm_db_salvage (self->path, schema, error)
                && open_path (self, schema, fault, error);
    }
  return is_open ? g_steal_pointer (&self) : NULL;
}

void
llm_db_file_close (LlmDbFile *self)
{
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
