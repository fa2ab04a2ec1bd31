/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reads the headers of a context's extents, on threads of the disk's queue: a context with a long
 * history has many files, and each may take a slow disk a while. The extents are entered when all
 * headers have been read. */

#define G_LOG_DOMAIN "llm-kv"

#include "kv/disk/llm-kv-storage-private.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A first read of this size has most headers whole. */
#define FIRST_BYTES (4 * LLM_KV_EXTENT_MIN_BYTES)

/* A request to the queue: one header. */
typedef struct
{
  LlmKvOpening *opening; /* (unowned) */
  LlmKvLink *link;       /* (owned): only the owner's thread uses it, but for its number */
  LlmKvExtent *extent;   /* (nullable) (owned) */
  const char *reason;    /* (nullable): why @extent is NULL */
} Header;

struct _LlmKvOpening
{
  LlmKvFolder *folder;   /* (nullable) (unowned): NULL when it is closed */
  LlmKvStorage *storage; /* (unowned): the threads only look at its fd */
  guint n_pending;       /* headers */

  /* read by the threads: */
  char *id;              /* (owned) */
  LlmKvShape *shape;     /* (owned) */
  Header *headers;       /* (owned) */
  guint n_headers;
};

static void
opening_free (LlmKvOpening *self)
{
  for (guint i = 0; i < self->n_headers; i++)
    {
      llm_kv_extent_unref (self->headers[i].extent);
      llm_kv_link_unref (self->headers[i].link);
    }
  g_free (self->headers);
  g_rc_box_release (self->shape);
  g_free (self->id);
  g_free (self);
}

/* --- threads of the queue --- */

/* (nullable) (transfer full) */
static LlmKvExtent *
read_header (const LlmKvShape *shape,
             int               fd,
             const char      **reason)
{
  g_autofree guint8 *bytes = g_malloc (FIRST_BYTES);
  struct stat status;
  gsize wanted;
  gssize n;

  *reason = "it can't be read";
  if (fstat (fd, &status) < 0 || !S_ISREG (status.st_mode) || status.st_size < 0)
    return NULL;
  n = pread (fd, bytes, FIRST_BYTES, 0);
  if (n < 0)
    return NULL;
  wanted = llm_kv_extent_peek (bytes, (gsize) n);
  if (wanted > FIRST_BYTES)
    {
      bytes = g_realloc (bytes, wanted);
      n = pread (fd, bytes, wanted, 0);
      if (n < 0)
        return NULL;
    }
  return llm_kv_extent_parse (bytes, (gsize) n, (guint64) status.st_size, shape, reason);
}

static gssize
open_header (gpointer data)
{
  Header *header = data;
  const LlmKvOpening *self = header->opening;
  int folder = llm_kv_folder_open_id (self->storage->fd, self->id);
  int fd = folder < 0 ? folder : llm_kv_extent_open_fd (folder, header->link->number, O_RDONLY);

  if (fd >= 0)
    {
      header->extent = read_header (self->shape, fd, &header->reason);
      close (fd);
    }
  else
    header->reason = g_strerror (-fd);
  if (folder >= 0)
    close (folder);
  return 0;
}

/* --- the owner's thread --- */

/* Invalid extents are removed when the folder is tidied. */
static void
take_headers (LlmKvOpening *self,
              LlmKvFolder  *folder)
{
  const char *first = NULL;
  guint n_bad = 0;

  for (guint i = 0; i < self->n_headers; i++)
    {
      Header *header = &self->headers[i];

      /* the file may have been removed meanwhile to make room */
      if (header->link->file == NULL)
        continue;
      if (header->extent == NULL && n_bad++ == 0)
        first = header->reason;
      llm_kv_link_set_extent (header->link, g_steal_pointer (&header->extent));
      llm_kv_folder_index (folder, header->link);
    }
  /* extents that were written meanwhile are later */
  LLM_EACH (const LlmKvLink, link, folder->links)
    if (link->number > self->headers[self->n_headers - 1].link->number)
      llm_kv_folder_supersede (folder, link);
  if (n_bad > 0)
    g_message ("%u extents of a context are not used, the first since %s", n_bad, first);
}

static void
on_header (gssize        n,
           const guint8 *buffer,
           gpointer      data)
{
  LlmKvOpening *self = ((const Header *) data)->opening;

  if (--self->n_pending > 0)
    return;
  if (self->folder != NULL)
    {
      self->folder->opening = NULL;
      take_headers (self, self->folder);
    }
  opening_free (self);
}

void
llm_kv_folder_begin_opening (LlmKvFolder *folder)
{
  LlmKvOpening *self;

  if (folder->links->len == 0)
    return;

  self = g_new0 (LlmKvOpening, 1);
  self->folder = folder;
  self->storage = folder->storage;
  self->id = g_strdup (folder->id);
  self->shape = g_rc_box_acquire (folder->shape);
  self->n_headers = self->n_pending = folder->links->len;
  self->headers = g_new0 (Header, self->n_headers);
  for (guint i = 0; i < self->n_headers; i++)
    self->headers[i] = (Header) {
      .opening = self,
      .link = g_rc_box_acquire (g_ptr_array_index (folder->links, i)),
    };
  folder->opening = self;
  for (guint i = 0; i < self->n_headers; i++)
    llm_disk_run (self->storage->disk, LLM_DISK_RESTORE, open_header, on_header,
                  &self->headers[i]);
}

void
llm_kv_folder_end_opening (LlmKvFolder *folder)
{
  LlmKvOpening *self = g_steal_pointer (&folder->opening);

  if (self == NULL)
    return;

  self->folder = NULL;
  for (guint i = 0; i < self->n_headers; i++)
    llm_disk_cancel (self->storage->disk, &self->headers[i]);
}
