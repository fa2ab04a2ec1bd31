/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Writing an extent (L7): the areas first, then the header, then the name. It needs no fsync: what
 * a power cut leaves incomplete does not pass its checksums, and is computed again. */

#define G_LOG_DOMAIN "llm-kv"

#include "kv/disk/llm-kv-storage-private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/llm-cache-folder.h"

typedef struct
{
  LlmKvWrite *write;     /* (unowned) */
  guint64 offset;
  gsize length;
} Request;

struct _LlmKvWrite
{
  LlmKvFolder *folder;   /* (nullable) (unowned): NULL when it was cancelled */
  LlmKvStorage *storage; /* (unowned) */
  LlmKvShape *shape;     /* (owned) */
  LlmKvExtent *extent;   /* (owned) */
  guint64 number;
  LlmKvFile *file;       /* (nullable) (owned): once it is there */
  int fd;
  const guint8 **data;   /* (owned): of each chunk (unowned) */
  guint8 *header;        /* (nullable) (owned): once the areas are written */
  Request *requests;     /* (owned) */
  guint n_requests;
  guint n_pending;       /* not answered */
  GError *error;         /* (nullable) (owned): the first one */
  LlmKvWritten done;
  gpointer user_data;
};

static void
write_free (LlmKvWrite *self)
{
  llm_kv_storage_drop_file (self->storage, self->file);
  if (self->fd >= 0)
    llm_kv_cleaner_close (self->storage->cleaner, self->fd);
  llm_kv_extent_unref (self->extent);
  g_rc_box_release (self->shape);
  g_clear_error (&self->error);
  g_free (self->data);
  g_free (self->header);
  g_free (self->requests);
  g_free (self);
}

static void
set_error (LlmKvWrite *self,
           int         code)
{
  if (self->error == NULL)
    llm_cache_folder_fail_write (self->storage->path, code, &self->error);
}

void
llm_kv_folder_write_cancel (LlmKvWrite *self)
{
  g_ptr_array_remove_fast (self->folder->writes, self);
  if (self->fd >= 0)
    llm_kv_folder_unlink (self->folder, self->number, LLM_KV_PART_SUFFIX);
  for (guint i = 0; i < self->n_requests; i++)
    llm_disk_cancel (self->storage->disk, &self->requests[i]);
  self->folder = NULL;
}

/* --- the end --- */

/* Links the file under the extent's name. */
static gboolean
publish (LlmKvWrite *self)
{
  char part[LLM_KV_NAME_BYTES], name[LLM_KV_NAME_BYTES];
  int folder = llm_kv_folder_open_fd (self->folder);
  gboolean is_there;

  llm_kv_extent_name (self->number, LLM_KV_PART_SUFFIX, part);
  llm_kv_extent_name (self->number, LLM_KV_EXTENT_SUFFIX, name);
  is_there = folder >= 0 && renameat (folder, part, folder, name) == 0;
  if (!is_there)
    set_error (self, folder < 0 ? -folder : errno);
  if (folder >= 0)
    close (folder);
  return is_there;
}

static void
succeed (LlmKvWrite *self)
{
  g_autofree LlmKvSlot *slots = g_new (LlmKvSlot, self->extent->n_chunks);
  LlmKvLink *link = llm_kv_link_new (self->number, g_steal_pointer (&self->file));
  LlmKvFolder *folder = self->folder;

  for (guint i = 0; i < self->extent->n_chunks; i++)
    slots[i] = (LlmKvSlot) { self->number, i };
  llm_kv_link_set_extent (link, g_rc_box_acquire (self->extent));
  llm_kv_folder_add_link (folder, link);
  llm_kv_folder_index (folder, link);
  llm_kv_folder_supersede (folder, link);
  self->storage->is_failing = FALSE;
  self->done (slots, NULL, self->user_data);
}

static void
fail (LlmKvWrite *self)
{
  /* Logged once: a full disk would fail each write. */
  if (!self->storage->is_failing)
    g_message ("%s", self->error->message);
  self->storage->is_failing = TRUE;
  self->done (NULL, self->error, self->user_data);
}

static void
end (LlmKvWrite *self)
{
  LlmKvFolder *folder = self->folder;

  if (folder != NULL)
    {
      gboolean is_there = self->error == NULL && publish (self);

      if (!is_there && self->fd >= 0)
        llm_kv_folder_unlink (folder, self->number, LLM_KV_PART_SUFFIX);
      g_ptr_array_remove_fast (folder->writes, self);
      if (is_there)
        succeed (self);
      else
        fail (self);
    }
  write_free (self);
}

/* --- the bytes --- */

/* Copies the bytes of a chunk's part that fall into the window of @buffer. */
static void
copy_part (const guint8  *part,
           guint64        part_offset,
           gsize          part_bytes,
           const Request *request,
           guint8        *buffer)
{
  guint64 begin = MAX (part_offset, request->offset);
  guint64 end = MIN (part_offset + part_bytes, request->offset + request->length);

  if (begin < end)
    memcpy (buffer + (begin - request->offset), part + (begin - part_offset), end - begin);
}

static void
fill_group (LlmKvWrite    *self,
            guint          group,
            const Request *request,
            guint8        *buffer)
{
  LlmKvExtent *extent = self->extent;
  guint64 at = extent->group_offsets[group];

  for (guint i = 0; i < extent->n_chunks; i++)
    {
      gsize begin;
      gsize bytes = llm_kv_extent_get_part (extent, self->shape, i, group, &begin);
      const guint8 *part = self->data[i] + begin;

      /* Computed once, where the part begins: its bytes are in the CPU cache then. */
      if (at >= request->offset && at < request->offset + request->length)
        extent->checksums[(gsize) i * extent->n_groups + group] =
          llm_kv_extent_compute_checksum (extent, i, group, part, bytes);
      copy_part (part, at, bytes, request, buffer);
      at += bytes;
    }
}

static void
fill (guint8   *buffer,
      gsize     length,
      gpointer  data)
{
  const Request *request = data;
  LlmKvWrite *self = request->write;
  const LlmKvExtent *extent = self->extent;

  if (self->header != NULL)
    {
      memcpy (buffer, self->header + request->offset, length);
      return;
    }
  /* the gaps between areas */
  memset (buffer, 0, length);
  for (guint i = 0; i < extent->n_groups; i++)
    if (extent->group_offsets[i] < request->offset + length &&
        extent->group_offsets[i + 1] > request->offset)
      fill_group (self, i, request, buffer);
}

static void on_written (gssize n, const guint8 *buffer, gpointer data);

static void
ask (LlmKvWrite *self,
     guint64     begin,
     guint64     end)
{
  g_free (self->requests);
  self->n_requests = (guint) ((end - begin + LLM_DISK_MAX_BYTES - 1) / LLM_DISK_MAX_BYTES);
  self->requests = g_new (Request, self->n_requests);
  self->n_pending = self->n_requests;
  for (guint i = 0; i < self->n_requests; i++)
    {
      Request *request = &self->requests[i];

      request->write = self;
      request->offset = begin + (guint64) i * LLM_DISK_MAX_BYTES;
      request->length = (gsize) MIN (end - request->offset, LLM_DISK_MAX_BYTES);
    }
  for (guint i = 0; i < self->n_requests; i++)
    llm_disk_write (self->storage->disk, LLM_DISK_AHEAD, self->fd, self->requests[i].offset,
                    self->requests[i].length, fill, on_written, &self->requests[i]);
}

static void
on_written (gssize        n,
            const guint8 *buffer,
            gpointer      data)
{
  const Request *request = data;
  LlmKvWrite *self = request->write;

  if (n != (gssize) request->length && self->folder != NULL)
    set_error (self, n < 0 ? (int) -n : EIO);
  if (--self->n_pending > 0)
    return;
  if (self->error != NULL || self->folder == NULL || self->header != NULL)
    {
      end (self);
      return;
    }
  /* The checksums are complete: now the header, which makes it an extent. */
  self->header = g_malloc (self->extent->header_bytes);
  llm_kv_extent_print (self->extent, self->shape, NULL, self->header);
  ask (self, 0, self->extent->header_bytes);
}

/* --- the beginning --- */

/* Writing past the file size limit of a process would raise a signal that ends it. */
static gboolean
is_within_limit (guint64 bytes)
{
  struct rlimit limit;

  return getrlimit (RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY ||
         bytes <= limit.rlim_cur;
}

/* Opens a file and allocates its blocks, so that writes need no more space, and may run in
 * parallel. */
static int
make_file (LlmKvWrite *self,
           int         folder)
{
  char name[LLM_KV_NAME_BYTES];
  int code = 0;
  int fd;

  if (!is_within_limit (self->extent->file_bytes))
    return -EFBIG;
  llm_kv_extent_name (self->number, LLM_KV_PART_SUFFIX, name);
  fd = llm_disk_open (self->storage->disk, folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW);
  if (fd < 0)
    return fd;
  do
    if (fallocate (fd, 0, 0, (off_t) self->extent->file_bytes) == 0)
      return fd;
    else
      code = -errno;
  while (code == -ENOSPC && llm_kv_storage_evict (self->storage, 0, self->folder));
  if (code == -EOPNOTSUPP || code == -ENOSYS)
    return fd;
  close (fd);
  unlinkat (folder, name, 0);
  return code;
}

static gboolean
begin (LlmKvWrite *self)
{
  LlmKvFolder *target = self->folder;
  struct stat status;
  int folder;

  if (!llm_kv_storage_make_room (self->storage, target, self->extent->file_bytes, &self->error))
    return FALSE;
  folder = llm_kv_folder_make_fd (target);
  if (folder < 0)
    {
      set_error (self, -folder);
      return FALSE;
    }
  self->fd = make_file (self, folder);
  llm_kv_folder_touch (target);
  llm_kv_folder_touch_fd (folder);
  close (folder);
  if (self->fd < 0)
    {
      set_error (self, -self->fd);
      return FALSE;
    }
  if (fstat (self->fd, &status) < 0)
    {
      set_error (self, errno);
      return FALSE;
    }
  self->file = llm_kv_storage_hold_file (self->storage, status.st_ino, self->extent->file_bytes,
                                         target->app);
  return TRUE;
}

void
llm_kv_folder_write (LlmKvFolder         *self,
                     const LlmKvRecord   *records,
                     const guint8 *const *data,
                     guint                n,
                     LlmKvWritten         done,
                     gpointer             user_data)
{
  LlmKvExtent *extent = llm_kv_extent_new (self->shape, records, n);
  LlmKvWrite *write;

  g_return_if_fail (extent != NULL);
  write = g_new0 (LlmKvWrite, 1);
  write->folder = self;
  write->storage = self->storage;
  write->shape = g_rc_box_acquire (self->shape);
  write->extent = extent;
  write->number = self->next++;
  write->fd = -1;
  write->data = g_memdup2 (data, n * sizeof *data);
  write->done = done;
  write->user_data = user_data;
  g_ptr_array_add (self->writes, write);

  if (begin (write) && extent->file_bytes > extent->header_bytes)
    {
      ask (write, extent->header_bytes, extent->file_bytes);
      return;
    }
  /* A request of no bytes: the result arrives later in any case. */
  write->requests = g_new0 (Request, 1);
  write->requests->write = write;
  write->n_requests = write->n_pending = 1;
  llm_disk_write (write->storage->disk, LLM_DISK_AHEAD, -1, 0, 0, fill, on_written,
                  write->requests);
}
