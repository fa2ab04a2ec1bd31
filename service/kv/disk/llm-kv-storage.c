/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-kv"

#include "kv/disk/llm-kv-storage-private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/llmsvc-error.h"

/* Bytes of a unit of stat.st_blocks. */
#define STAT_BLOCK 512

static gboolean
fail (GError    **error,
      const char *path,
      int         saved_errno)
{
  g_autofree char *shown = g_filename_display_name (path);

  g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE,
               "Contexts can't be kept in “%s”: %s", shown, g_strerror (saved_errno));
  return FALSE;
}

static gboolean
parse_name (const char *name,
            guint64    *number)
{
  char again[LLM_KV_NAME_BYTES];

  *number = g_ascii_strtoull (name, NULL, 16);
  llm_kv_extent_name (*number, LLM_KV_EXTENT_SUFFIX, again);
  return *number > 0 && *number < G_MAXUINT64 && strcmp (name, again) == 0;
}

/* Some have become smaller. */
static void
update_files (LlmKvStorage *self)
{
  guint64 inode, bytes;

  while (llm_kv_cleaner_take_result (self->cleaner, &inode, &bytes))
    {
      LlmKvFile *file = g_hash_table_lookup (self->files, &inode);

      if (file == NULL)
        continue;
      self->bytes = self->bytes - file->bytes + bytes;
      file->bytes = bytes;
    }
}

/* --- room --- */

/* (nullable): whose extents go first: of @app, or 0 for any. */
static LlmKvHome *
find_oldest (LlmKvStorage *self,
             guint64       app,
             LlmKvHome    *except)
{
  LlmKvHome *oldest = NULL;
  GHashTableIter iter;
  gpointer value;

  g_hash_table_iter_init (&iter, self->homes);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    {
      LlmKvHome *home = value;

      if (home != except && home->links->len > 0 && (app == 0 || home->app == app) &&
          (oldest == NULL || home->used < oldest->used))
        oldest = home;
    }
  return oldest;
}

static gboolean
evict (LlmKvStorage *self,
       guint64       app,
       LlmKvHome    *except)
{
  LlmKvHome *home = find_oldest (self, app, except);

  if (home == NULL)
    return FALSE;
  /* The oldest extent has the lowest chunks, which are the cheapest to compute again. */
  llm_kv_home_remove_link (home, g_ptr_array_index (home->links, 0));
  llm_kv_home_remove_if_empty (home);
  return TRUE;
}

gboolean
llm_kv_storage_evict (LlmKvStorage *self,
                      LlmKvHome    *except)
{
  return evict (self, 0, except);
}

guint64
llm_kv_storage_trim (LlmKvStorage *self,
                     guint64       bytes)
{
  guint64 before;

  g_return_val_if_fail (self != NULL, 0);

  update_files (self);
  before = self->bytes;
  while (before - self->bytes < bytes && evict (self, 0, NULL))
    ;
  return before - self->bytes;
}

void
llm_kv_storage_settle (LlmKvStorage *self,
                       LlmKvSettled  func,
                       gpointer      data)
{
  g_return_if_fail (self != NULL);
  g_return_if_fail (func != NULL);

  llm_kv_cleaner_call (self->cleaner, func, data);
}

static guint64
count_app_bytes (LlmKvStorage *self,
                 guint64       app)
{
  GHashTableIter iter;
  guint64 bytes = 0;
  gpointer value;

  g_hash_table_iter_init (&iter, self->files);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    {
      const LlmKvFile *file = value;

      if (file->app == app)
        bytes += file->bytes;
    }
  return bytes;
}

/* Bytes that may be taken in all; @available: that the disk has now. */
static gboolean
get_limit (LlmKvStorage *self,
           guint64      *limit,
           guint64      *available)
{
  struct statvfs status;

  if (fstatvfs (self->fd, &status) < 0)
    return FALSE;
  *available = (guint64) status.f_bavail * status.f_frsize;
  *limit = self->limit > 0 ? self->limit : (*available + self->bytes) / 2;
  return TRUE;
}

gboolean
llm_kv_storage_make_room (LlmKvStorage  *self,
                          LlmKvHome     *home,
                          guint64        bytes,
                          GError       **error)
{
  guint64 limit, available;

  update_files (self);
  if (!get_limit (self, &limit, &available))
    return fail (error, self->path, errno);
  /* What never fits costs nobody anything. */
  if (bytes > limit || (self->app_limit > 0 && bytes > self->app_limit))
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE,
                   "%ju bytes of a context are more than the storage limits allow; raise them, or "
                   "do without", bytes);
      return FALSE;
    }

  while (self->app_limit > 0 && count_app_bytes (self, home->app) + bytes > self->app_limit)
    if (!evict (self, home->app, home))
      {
        g_set_error_literal (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE,
                             "A context takes all the storage that its application may have");
        return FALSE;
      }
  while (self->bytes + bytes > limit || bytes > available)
    {
      guint64 before = self->bytes;

      if (!evict (self, 0, home))
        {
          g_set_error_literal (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE,
                               "The storage of contexts is full; raise its limit, or free space on "
                               "the disk");
          return FALSE;
        }
      available += before - self->bytes;
    }
  return TRUE;
}

/* --- what is there at the start --- */

typedef struct
{
  LlmKvHome *home;
  struct timespec used;
} Found;

static int
compare_used (gconstpointer a,
              gconstpointer b)
{
  const Found *x = a;
  const Found *y = b;

  if (x->used.tv_sec != y->used.tv_sec)
    return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
  return (x->used.tv_nsec > y->used.tv_nsec) - (x->used.tv_nsec < y->used.tv_nsec);
}

static void
scan_home (LlmKvHome *self,
           DIR       *dir)
{
  int fd = dirfd (dir);
  struct dirent *entry;

  self->app = llm_kv_home_read_app (fd);
  while ((entry = readdir (dir)) != NULL)
    {
      struct stat status;
      guint64 number;

      if (g_str_has_suffix (entry->d_name, LLM_KV_PART_SUFFIX))
        unlinkat (fd, entry->d_name, 0);
      else if (parse_name (entry->d_name, &number) &&
               fstatat (fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
               S_ISREG (status.st_mode))
        {
          guint64 bytes = (guint64) status.st_blocks * STAT_BLOCK;

          llm_kv_home_add_link (self, llm_kv_link_new (number,
                                                       llm_kv_storage_hold_file (self->storage,
                                                                                 status.st_ino,
                                                                                 bytes,
                                                                                 self->app)));
        }
    }
}

static void
scan (LlmKvStorage *self)
{
  g_autoptr(GArray) found = g_array_new (FALSE, FALSE, sizeof (Found));
  DIR *dir = fdopendir (openat (self->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct dirent *entry;

  while (dir != NULL && (entry = readdir (dir)) != NULL)
    {
      DIR *below;
      struct stat status;
      Found one;
      int fd;

      if (!llm_kv_is_id (entry->d_name))
        continue;
      fd = openat (self->fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
      if (fd < 0)
        continue;
      if (fstat (fd, &status) < 0 || (below = fdopendir (fd)) == NULL)
        {
          close (fd);
          continue;
        }
      one.home = llm_kv_home_new (self, entry->d_name);
      one.used = status.st_mtim;
      scan_home (one.home, below);
      closedir (below);
      g_array_append_val (found, one);
    }
  if (dir != NULL)
    closedir (dir);

  g_array_sort (found, compare_used);
  for (guint i = 0; i < found->len; i++)
    llm_kv_home_touch (g_array_index (found, Found, i).home, -1);
}

static gboolean
open_root (LlmKvStorage *self,
           GError      **error)
{
  struct stat status;

  if (g_mkdir_with_parents (self->path, S_IRWXU) < 0)
    return fail (error, self->path, errno);
  if (lstat (self->path, &status) == 0 && S_ISLNK (status.st_mode))
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE,
                   "Contexts can't be kept in “%s”: it is a symbolic link, which the service does "
                   "not follow; remove it", self->path);
      return FALSE;
    }
  self->fd = open (self->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (self->fd < 0)
    return fail (error, self->path, errno);
  if (flock (self->fd, LOCK_EX | LOCK_NB) == 0)
    return TRUE;
  if (errno != EWOULDBLOCK)
    return fail (error, self->path, errno);
  g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE,
               "Contexts can't be kept in “%s”: another process keeps its own there",
               self->path);
  return FALSE;
}

LlmKvStorage *
llm_kv_storage_new (const char  *folder,
                    LlmDisk     *disk,
                    guint64      limit,
                    guint64      app_limit,
                    GError     **error)
{
  g_autoptr(LlmKvStorage) self = NULL;

  g_return_val_if_fail (folder != NULL, NULL);
  g_return_val_if_fail (disk != NULL, NULL);

  self = g_new0 (LlmKvStorage, 1);
  self->path = g_strdup (folder);
  self->fd = -1;
  self->disk = disk;
  self->cleaner = llm_kv_cleaner_new ();
  self->limit = limit;
  self->app_limit = app_limit;
  self->homes = g_hash_table_new_full (g_str_hash, g_str_equal, NULL,
                                       (GDestroyNotify) llm_kv_home_free);
  self->files = g_hash_table_new_full (g_int64_hash, g_int64_equal, NULL, g_free);
  if (!open_root (self, error))
    return NULL;
  scan (self);
  return g_steal_pointer (&self);
}

gboolean
llm_kv_storage_is_in_place (LlmKvStorage *self)
{
  struct stat used, there;

  g_return_val_if_fail (self != NULL, FALSE);

  return fstat (self->fd, &used) == 0 && lstat (self->path, &there) == 0 &&
         used.st_dev == there.st_dev && used.st_ino == there.st_ino;
}

static gboolean
is_open (gpointer key,
         gpointer value,
         gpointer data)
{
  return ((LlmKvHome *) value)->folder != NULL;
}

void
llm_kv_storage_free (LlmKvStorage *self)
{
  if (self == NULL)
    return;

  g_return_if_fail (g_hash_table_find (self->homes, is_open, NULL) == NULL);
  /* What ends now gives its files back. */
  llm_disk_free (self->disk);
  g_hash_table_unref (self->homes);
  llm_kv_cleaner_free (self->cleaner);
  g_hash_table_unref (self->files);
  if (self->fd >= 0)
    close (self->fd);
  g_free (self->path);
  g_free (self);
}

LlmDisk *
llm_kv_storage_get_disk (LlmKvStorage *self)
{
  g_return_val_if_fail (self != NULL, NULL);

  return self->disk;
}

guint64
llm_kv_storage_get_bytes (LlmKvStorage *self)
{
  g_return_val_if_fail (self != NULL, 0);

  update_files (self);
  return self->bytes;
}

guint64
llm_kv_storage_get_folder_bytes (LlmKvStorage *self,
                                 const char   *id)
{
  LlmKvHome *home;

  g_return_val_if_fail (self != NULL, 0);
  g_return_val_if_fail (id != NULL, 0);

  update_files (self);
  home = g_hash_table_lookup (self->homes, id);
  return home != NULL ? llm_kv_home_count_bytes (home) : 0;
}

void
llm_kv_storage_sweep (LlmKvStorage *self,
                      GHashTable   *ids)
{
  g_autoptr(GList) homes = NULL;

  g_return_if_fail (self != NULL);
  g_return_if_fail (ids != NULL);

  homes = g_hash_table_get_values (self->homes);
  for (GList *item = homes; item != NULL; item = item->next)
    {
      LlmKvHome *home = item->data;

      if (home->folder == NULL && !g_hash_table_contains (ids, home->id))
        llm_kv_home_remove (home);
    }
}

void
llm_kv_storage_remove (LlmKvStorage *self,
                       const char   *id)
{
  LlmKvHome *home;

  g_return_if_fail (self != NULL);
  g_return_if_fail (id != NULL);

  home = g_hash_table_lookup (self->homes, id);
  if (home == NULL)
    return;
  g_return_if_fail (home->folder == NULL);
  llm_kv_home_remove (home);
}
