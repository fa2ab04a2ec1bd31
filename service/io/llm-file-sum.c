/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "io/llm-file-sum.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/llm-fail.h"
#include "common/llmsvc-error.h"

struct _LlmFileSum
{
  LlmDisk *disk;         /* (unowned) */
  LlmFileMap *map;       /* (owned) */
  guint part;            /* of its files, the one that is read */
  int fd;                /* -1: not open */
  LlmFileIdentity identity; /* of that file as it was mapped */
  gboolean is_direct;    /* past the page cache */
  gboolean was_cached;   /* the piece under way */
  gboolean is_reading;
  gboolean is_ended;     /* the owner has gone */
  guint64 at;            /* bytes of it that were summed */
  int code;              /* errno of what failed, or 0 */
  XXH3_state_t *state;   /* (owned) */
};

static void
sum_free (LlmFileSum *self)
{
  if (self->fd >= 0)
    close (self->fd);
  llm_file_map_unref (self->map);
  XXH3_freeState (self->state);
  g_free (self);
}

/* Opens the file by its mapping, because another file may have its name by now. */
static gboolean
open_part (LlmFileSum  *self,
           GError     **error)
{
  guint64 offset;
  int mapped = llm_file_map_get_part (self->map, self->part, &offset, &self->identity);
  g_autofree char *path = g_strdup_printf ("/proc/self/fd/%d", mapped);

  if (self->fd >= 0)
    close (self->fd);
  self->at = 0;
  self->fd = llm_disk_open (self->disk, AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (self->fd < 0)
    return llm_fail (error, LLMSVC_ERROR_FAILED, "It can't be opened: %s",
                     g_strerror (-self->fd));
  self->is_direct = (fcntl (self->fd, F_GETFL) & O_DIRECT) != 0;
  /* read-ahead would stay in the page cache */
  if (!self->is_direct)
    posix_fadvise (self->fd, 0, 0, POSIX_FADV_RANDOM);
  return TRUE;
}

LlmFileSum *
llm_file_sum_new (LlmDisk     *disk,
                  LlmFileMap  *map,
                  GError     **error)
{
  g_autoptr(LlmFileSum) self = NULL;

  g_return_val_if_fail (llm_file_map_get_fd (map) >= 0, NULL);

  self = g_new0 (LlmFileSum, 1);
  self->disk = disk;
  self->map = llm_file_map_ref (map);
  self->fd = -1;
  self->state = XXH3_createState ();
  XXH3_128bits_reset (self->state);
  return open_part (self, error) ? g_steal_pointer (&self) : NULL;
}

void
llm_file_sum_free (LlmFileSum *self)
{
  if (self == NULL)
    return;

  self->is_ended = TRUE;
  if (self->is_reading)
    llm_disk_cancel (self->disk, self);
  else
    sum_free (self);
}

static gsize
get_piece (const LlmFileSum *self)
{
  return (gsize) MIN (self->identity.size - self->at, LLM_DISK_MAX_BYTES);
}

/* Not by mincore(), which is correct only for those who may write the file. */
static gboolean
is_cached (LlmFileSum *self)
{
  guint8 byte;
  struct iovec part = { &byte, sizeof byte };

  return preadv2 (self->fd, &part, 1, (off_t) self->at, RWF_NOWAIT) > 0;
}

static void
on_read (gssize        n,
         const guint8 *buffer,
         gpointer      data)
{
  LlmFileSum *self = data;
  gsize piece = get_piece (self);

  self->is_reading = FALSE;
  if (!self->is_direct && !self->was_cached)
    posix_fadvise (self->fd, (off_t) self->at, (off_t) piece, POSIX_FADV_DONTNEED);
  if (self->is_ended)
    {
      sum_free (self);
      return;
    }
  if (n < (gssize) piece)
    {
      self->code = n < 0 ? (int) -n : EIO;
      return;
    }
  XXH3_128bits_update (self->state, buffer, piece);
  self->at += piece;
}

/* Whether the file that was read is the mapped one, unchanged: its times tell. */
static gboolean
check_part (LlmFileSum  *self,
            GError     **error)
{
  LlmFileIdentity now;

  if (llm_file_identity_read (self->fd, &now)
      && llm_file_identity_equal (&now, &self->identity, TRUE))
    return TRUE;
  return llm_fail (error, LLMSVC_ERROR_FAILED, "It was changed while it was in use");
}

static LlmStatus
end_sum (LlmFileSum *self,
         char       *digits)
{
  XXH128_hash_t sum = XXH3_128bits_digest (self->state);

  g_snprintf (digits, LLM_FILE_SUM_DIGITS + 1,
              "%016" G_GINT64_MODIFIER "x%016" G_GINT64_MODIFIER "x", (guint64) sum.high64,
              (guint64) sum.low64);
  return LLM_READY;
}

LlmStatus
llm_file_sum_work (LlmFileSum  *self,
                   char        *digits,
                   GError     **error)
{
  LlmFileIdentity next;
  guint64 offset;
  gsize length;

  if (self->is_reading)
    return LLM_PENDING;
  if (self->code != 0)
    {
      llm_fail (error, LLMSVC_ERROR_FAILED, "It can't be read: %s", g_strerror (self->code));
      return LLM_FAILED;
    }
  while (self->at == self->identity.size)
    {
      if (!check_part (self, error))
        return LLM_FAILED;
      if (llm_file_map_get_part (self->map, self->part + 1, &offset, &next) < 0)
        return end_sum (self, digits);
      self->part++;
      if (!open_part (self, error))
        return LLM_FAILED;
    }

  length = (get_piece (self) + LLM_DISK_BLOCK - 1) / LLM_DISK_BLOCK * LLM_DISK_BLOCK;
  self->was_cached = !self->is_direct && is_cached (self);
  self->is_reading = TRUE;
  llm_disk_read (self->disk, LLM_DISK_AHEAD, self->fd, self->at, length, on_read, self);
  return LLM_PENDING;
}
