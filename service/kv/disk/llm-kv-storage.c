/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* All folders: what is found at the start, which are open, what they share. */

#define G_LOG_DOMAIN "llm-kv"

#include "base/llm-fail.h"
#include "kv/disk/llm-kv-storage-private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "common/llmsvc-error.h"

/* Bytes of a unit of stat.st_blocks. */
#define STAT_BLOCK 512
#define MAX_ID 128
#define NS_PER_S G_GUINT64_CONSTANT (1000000000)

static gboolean
fail (GError    **error,
      const char *path,
      const char *reason)
{
  g_autofree char *shown = g_filename_display_name (path);

  return llm_fail (error, LLMSVC_ERROR_STORAGE, "Contexts can't be kept in “%s”: %s", shown,
                   reason);
}

/* --- what is there at the start --- */

/* Whether it is a name that can't lead out of the storage's folder. */
static gboolean
is_id (const char *id)
{
  gsize length = strspn (id, G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS "-_");

  return length > 0 && length <= MAX_ID && id[length] == '\0';
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

static void
scan_folder (LlmKvFolder *self,
             DIR         *dir)
{
  int fd = dirfd (dir);
  struct dirent *entry;

  self->app = llm_kv_folder_read_app (fd);
  while ((entry = readdir (dir)) != NULL)
    {
      struct stat status;
      guint64 number;

      if (g_str_has_suffix (entry->d_name, LLM_KV_PART_SUFFIX))
        unlinkat (fd, entry->d_name, 0);
      else if (parse_name (entry->d_name, &number)
               && fstatat (fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0
               && S_ISREG (status.st_mode))
        {
          LlmKvFile *file = llm_kv_storage_hold_file (self->storage, status.st_ino,
                                                      (guint64) status.st_blocks * STAT_BLOCK,
                                                      self->app);

          llm_kv_folder_add_link (self, llm_kv_link_new (number, file));
        }
    }
}

static void
scan (LlmKvStorage *self)
{
  DIR *dir = fdopendir (openat (self->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct dirent *entry;

  while (dir != NULL && (entry = readdir (dir)) != NULL)
    {
      int fd = is_id (entry->d_name) ? llm_kv_folder_open_id (self->fd, entry->d_name) : -1;
      DIR *below = fd >= 0 ? fdopendir (fd) : NULL;
      struct stat status;

      if (below != NULL && fstat (fd, &status) == 0)
        {
          LlmKvFolder *folder = llm_kv_folder_new (self, entry->d_name);

          /* folders used from now on count as later than all of these */
          folder->used = (guint64) CLAMP (status.st_mtim.tv_sec, 0, G_MAXUINT32) * NS_PER_S
                         + (guint64) status.st_mtim.tv_nsec;
          self->n_uses = MAX (self->n_uses, folder->used);
          scan_folder (folder, below);
        }
      if (below != NULL)
        closedir (below);
      else if (fd >= 0)
        close (fd);
    }
  if (dir != NULL)
    closedir (dir);
}

static gboolean
open_root (LlmKvStorage *self,
           GError      **error)
{
  struct stat status;

  if (g_mkdir_with_parents (self->path, S_IRWXU) < 0)
    return fail (error, self->path, g_strerror (errno));
  if (lstat (self->path, &status) == 0 && S_ISLNK (status.st_mode))
    return fail (error, self->path,
                 "it is a symbolic link, which the service does not follow; remove it");
  self->fd = open (self->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (self->fd < 0)
    return fail (error, self->path, g_strerror (errno));
  if (flock (self->fd, LOCK_EX | LOCK_NB) == 0)
    return TRUE;
  return fail (error, self->path,
               errno == EWOULDBLOCK ? "another process keeps its own there" : g_strerror (errno));
}

LlmKvStorage *
llm_kv_storage_new (const char  *folder,
                    LlmDisk     *disk,
                    guint64      limit,
                    guint64      app_limit,
                    GError     **error)
{
  g_autoptr(LlmKvStorage) self = g_new0 (LlmKvStorage, 1);

  self->path = g_strdup (folder);
  self->fd = -1;
  self->disk = disk;
  self->cleaner = llm_kv_cleaner_new ();
  self->limit = limit;
  self->app_limit = app_limit;
  self->folders = g_hash_table_new_full (g_str_hash, g_str_equal, NULL,
                                         (GDestroyNotify) llm_kv_folder_free);
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

  return fstat (self->fd, &used) == 0 && lstat (self->path, &there) == 0
         && used.st_dev == there.st_dev && used.st_ino == there.st_ino;
}

void
llm_kv_storage_free (LlmKvStorage *self)
{
  if (self == NULL)
    return;

  LLM_EACH_VALUE (const LlmKvFolder, folder, self->folders)
    g_return_if_fail (!folder->is_opened);
  /* Requests that end here release their files. */
  llm_disk_free (self->disk);
  g_hash_table_unref (self->folders);
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
  return self->disk;
}

guint64
llm_kv_storage_get_bytes (LlmKvStorage *self)
{
  llm_kv_storage_update (self);
  return self->bytes;
}

guint64
llm_kv_storage_get_folder_bytes (LlmKvStorage *self,
                                 const char   *id)
{
  LlmKvFolder *folder = g_hash_table_lookup (self->folders, id);

  llm_kv_storage_update (self);
  return folder != NULL ? llm_kv_folder_count_bytes (folder) : 0;
}

void
llm_kv_storage_sweep (LlmKvStorage *self,
                      GHashTable   *ids)
{
  g_autoptr(GList) folders = g_hash_table_get_values (self->folders);

  for (GList *item = folders; item != NULL; item = item->next)
    {
      LlmKvFolder *folder = item->data;

      if (!folder->is_opened && !g_hash_table_contains (ids, folder->id))
        llm_kv_folder_remove (folder);
    }
}

void
llm_kv_storage_remove (LlmKvStorage *self,
                       const char   *id)
{
  LlmKvFolder *folder = g_hash_table_lookup (self->folders, id);

  if (folder == NULL)
    return;
  g_return_if_fail (!folder->is_opened);
  llm_kv_folder_remove (folder);
}

void
llm_kv_storage_settle (LlmKvStorage *self,
                       LlmKvSettled  func,
                       gpointer      data)
{
  llm_kv_cleaner_call (self->cleaner, func, data);
}

/* --- folders in use --- */

static guint64
hash_app (const char *app)
{
  guint64 hash = XXH3_64bits (app, strlen (app));

  /* 0 stands for unknown */
  return hash != 0 ? hash : 1;
}

LlmKvFolder *
llm_kv_folder_open (LlmKvStorage     *storage,
                    const char       *app,
                    const char       *id,
                    const LlmKvShape *shape)
{
  LlmKvFolder *self = g_hash_table_lookup (storage->folders, id);

  g_return_val_if_fail (is_id (id), NULL);
  g_return_val_if_fail (shape->n_layers > 0, NULL);
  g_return_val_if_fail (self == NULL || !self->is_opened, NULL);

  /* Extents of another application under this name are not read. */
  if (self != NULL && self->app != hash_app (app))
    {
      llm_kv_folder_remove (self);
      self = NULL;
    }
  if (self == NULL)
    self = llm_kv_folder_new (storage, id);
  self->app = hash_app (app);
  self->is_opened = TRUE;
  self->places = llm_kv_folder_new_places ();
  self->writes = g_ptr_array_new ();
  self->reads = g_ptr_array_new ();
  self->shape = llm_kv_shape_copy (shape);
  llm_kv_folder_touch (self);

  self->next = 1;
  LLM_EACH (const LlmKvLink, link, self->links)
    self->next = link->number + 1;
  llm_kv_folder_begin_opening (self);
  return self;
}

void
llm_kv_folder_close (LlmKvFolder *self)
{
  if (self == NULL)
    return;

  llm_kv_folder_end_opening (self);
  while (self->writes->len > 0)
    llm_kv_folder_write_cancel (g_ptr_array_index (self->writes, self->writes->len - 1));
  while (self->reads->len > 0)
    llm_kv_folder_read_cancel (g_ptr_array_index (self->reads, self->reads->len - 1));

  llm_kv_folder_tidy (self);
  LLM_EACH (LlmKvLink, link, self->links)
    llm_kv_link_set_extent (link, NULL);
  g_ptr_array_unref (self->writes);
  g_ptr_array_unref (self->reads);
  g_hash_table_unref (self->places);
  g_rc_box_release (self->shape);
  self->is_opened = FALSE;
  llm_kv_folder_remove_if_empty (self);
}

gboolean
llm_kv_folder_is_open (LlmKvFolder *self)
{
  return self->opening == NULL;
}
