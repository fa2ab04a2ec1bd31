/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Limits of storage, which extents are removed when it is full, and the blocks of dead chunks. */

#define G_LOG_DOMAIN "llm-kv"

#include "base/llm-fail.h"
#include "kv/disk/llm-kv-storage-private.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/llmsvc-error.h"

/* The part of a file that must be dead before its blocks are released: one in so many. */
#define MIN_WASTE 3

/* --- what dead chunks take --- */

static void
add_range (GArray  *ranges,
           guint64  begin,
           guint64  end)
{
  /* Only whole blocks: their neighbours are in use. */
  LlmKvRange range = { (begin + LLM_DISK_BLOCK - 1) / LLM_DISK_BLOCK * LLM_DISK_BLOCK,
                       end / LLM_DISK_BLOCK * LLM_DISK_BLOCK };

  if (range.begin < range.end)
    g_array_append_val (ranges, range);
}

static void
add_ranges (LlmKvFolder *self,
            LlmKvLink   *link,
            guint        group,
            GArray      *ranges)
{
  const LlmKvExtent *extent = link->extent;
  guint64 at = extent->group_offsets[group];
  guint64 begin = at;

  for (guint i = 0; i < extent->n_chunks; i++)
    {
      gsize bytes = llm_kv_extent_get_part (extent, self->shape, i, group, NULL);

      at += bytes;
      if (!link->dead[i])
        {
          add_range (ranges, begin, at - bytes);
          begin = at;
        }
    }
  add_range (ranges, begin, extent->group_offsets[group + 1]);
}

/* Releases the blocks of dead chunks, if that is worth it. */
static void
punch (LlmKvFolder *self,
       LlmKvLink   *link)
{
  const LlmKvExtent *extent = link->extent;
  guint8 *header;
  GArray *ranges;
  int folder, fd;

  /* Chunks that are dead here may live in other folders that share the file. */
  if (link->file->n_holders > 1 || link->waste * MIN_WASTE < extent->file_bytes)
    return;
  link->waste = 0;
  folder = llm_kv_folder_open_fd (self);
  if (folder < 0)
    return;
  fd = llm_kv_extent_open_fd (folder, link->number, O_RDWR);
  close (folder);
  if (fd < 0)
    return;
  header = g_malloc (extent->header_bytes);
  llm_kv_extent_print (extent, self->shape, link->dead, header);
  ranges = g_array_new (FALSE, FALSE, sizeof (LlmKvRange));
  for (guint i = 0; i < extent->n_groups; i++)
    add_ranges (self, link, i, ranges);
  llm_kv_cleaner_punch (self->storage->cleaner, fd,
                        g_bytes_new_take (header, extent->header_bytes), ranges);
}

void
llm_kv_folder_tidy (LlmKvFolder *self)
{
  if (!self->is_untidy)
    return;
  for (guint i = self->links->len; i-- > 0;)
    {
      LlmKvLink *link = g_ptr_array_index (self->links, i);

      if (!link->is_untidy)
        continue;
      link->is_untidy = FALSE;
      if (link->n_live == 0)
        llm_kv_folder_remove_link (self, link);
      else
        punch (self, link);
    }
  self->is_untidy = FALSE;
  g_queue_remove (&self->storage->untidy, self);
}

void
llm_kv_storage_update (LlmKvStorage *self)
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

gboolean
llm_kv_storage_tidy (LlmKvStorage *self)
{
  LlmKvFolder *folder = g_queue_peek_head (&self->untidy);

  if (folder != NULL)
    llm_kv_folder_tidy (folder);
  return !g_queue_is_empty (&self->untidy);
}

gboolean
llm_kv_storage_is_tidy (LlmKvStorage *self)
{
  return g_queue_is_empty (&self->untidy);
}

/* --- limits --- */

/* (nullable): the folder whose extents are removed first: of @app, or 0 for any. */
static LlmKvFolder *
find_oldest (LlmKvStorage *self,
             guint64       app,
             LlmKvFolder  *except)
{
  LlmKvFolder *oldest = NULL;

  LLM_EACH_VALUE (LlmKvFolder, folder, self->folders)
    if (folder != except && folder->links->len > 0 && (app == 0 || folder->app == app)
        && (oldest == NULL || folder->used < oldest->used))
      oldest = folder;
  return oldest;
}

gboolean
llm_kv_storage_evict (LlmKvStorage *self,
                      guint64       app,
                      LlmKvFolder  *except)
{
  LlmKvFolder *folder = find_oldest (self, app, except);

  if (folder == NULL)
    return FALSE;
  /* The oldest extent has the lowest chunks, which are the cheapest to compute again. */
  llm_kv_folder_remove_link (folder, g_ptr_array_index (folder->links, 0));
  llm_kv_folder_remove_if_empty (folder);
  return TRUE;
}

guint64
llm_kv_storage_trim (LlmKvStorage *self,
                     guint64       bytes)
{
  guint64 before;

  llm_kv_storage_update (self);
  before = self->bytes;
  while (llm_kv_storage_tidy (self))
    ;
  while (before - self->bytes < bytes && llm_kv_storage_evict (self, 0, NULL))
    ;
  return before - self->bytes;
}

static guint64
count_app_bytes (LlmKvStorage *self,
                 guint64       app)
{
  guint64 bytes = 0;

  LLM_EACH_VALUE (const LlmKvFile, file, self->files)
    if (file->app == app)
      bytes += file->bytes;
  return bytes;
}

gboolean
llm_kv_storage_make_room (LlmKvStorage  *self,
                          LlmKvFolder   *folder,
                          guint64        bytes,
                          GError       **error)
{
  guint64 limit, available;
  struct statvfs status;

  llm_kv_storage_update (self);
  while (llm_kv_storage_tidy (self))
    ;
  if (fstatvfs (self->fd, &status) < 0)
    {
      int saved_errno = errno;
      g_autofree char *shown = g_filename_display_name (self->path);

      return llm_fail (error, LLMSVC_ERROR_STORAGE, "Contexts can't be kept in “%s”: %s", shown,
                       g_strerror (saved_errno));
    }
  available = (guint64) status.f_bavail * status.f_frsize;
  limit = self->limit > 0 ? self->limit : (available + self->bytes) / 2;
  /* For an extent that never fits, nothing is removed. */
  if (bytes > limit || (self->app_limit > 0 && bytes > self->app_limit))
    return llm_fail (error, LLMSVC_ERROR_STORAGE,
                     "%ju bytes of a context are more than the storage limits allow; raise them, "
                     "or do without", bytes);

  while (self->app_limit > 0 && count_app_bytes (self, folder->app) + bytes > self->app_limit)
    if (!llm_kv_storage_evict (self, folder->app, folder))
      return llm_fail (error, LLMSVC_ERROR_STORAGE,
                       "A context takes all the storage that its application may have");
  while (self->bytes + bytes > limit || bytes > available)
    {
      guint64 before = self->bytes;

      if (!llm_kv_storage_evict (self, 0, folder))
        return llm_fail (error, LLMSVC_ERROR_STORAGE,
                         "The storage of contexts is full; raise its limit, or free space on "
                         "the disk");
      available += before - self->bytes;
    }
  return TRUE;
}
