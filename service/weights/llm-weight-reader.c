/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "weights/llm-weight-reader.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gi18n.h>
#include <unistd.h>

#include "base/llm-fail.h"
#include "common/llmsvc-error.h"

/* Size of a request: enough for the disk to read at full speed, and for the requests under way to
 * last while a stage computes. */
#define READ_BYTES ((gsize) 512 << 10)

G_STATIC_ASSERT (READ_BYTES <= LLM_DISK_MAX_INTO);

struct _LlmWeightReader
{
  int fd;                /* (owned) */
  char *name;
  gboolean is_direct;    /* bytes that are read do not stay in the page cache */
  LlmWeightSource source;
  gboolean has_source;
  GPtrArray *under_way;  /* (element-type LlmReadPiece) */
  guint n_reading;       /* requests */
  guint64 n_bytes;
};

void
llm_read_piece_init (LlmReadPiece *piece,
                     guint64       offset,
                     guint64       length,
                     gsize         block,
                     gpointer      owner)
{
  *piece = (LlmReadPiece) { .offset = offset / block * block, .owner = owner };
  piece->skipped = (gsize) (offset - piece->offset);
  piece->needed = piece->skipped + (gsize) length;
  piece->bytes = (piece->needed + block - 1) / block * block;
}

static void
end_piece (LlmReadPiece *piece)
{
  LlmWeightReader *self = piece->reader;
  LlmReadPiece *last = g_ptr_array_index (self->under_way, self->under_way->len - 1);

  last->place = piece->place;
  g_ptr_array_remove_index_fast (self->under_way, piece->place);
  if (!self->is_direct)
    (void) posix_fadvise (self->fd, (off_t) piece->offset, (off_t) piece->bytes, POSIX_FADV_DONTNEED);
  if (piece->code == 0 && piece->n_read < piece->needed)
    piece->code = ENODATA;
  piece->done (piece);
}

static void
on_read (gssize        n,
         const guint8 *buffer,
         gpointer      data)
{
  LlmReadPiece *piece = data;

  piece->reader->n_reading--;
  if (n < 0)
    piece->code = (int) -n;
  else
    {
      piece->n_read += (gsize) n;
      piece->reader->n_bytes += (guint64) n;
    }
  if (--piece->n_reading == 0)
    end_piece (piece);
}

void
llm_weight_reader_read (LlmWeightReader  *self,
                        LlmReadPiece     *piece,
                        guint8           *memory,
                        LlmReadPieceDone  done)
{
  g_return_if_fail (self->has_source && piece->n_reading == 0);

  piece->reader = self;
  piece->done = done;
  piece->code = 0;
  piece->n_read = 0;
  piece->n_reading = (guint) ((piece->bytes + READ_BYTES - 1) / READ_BYTES);
  piece->place = self->under_way->len;
  g_ptr_array_add (self->under_way, piece);
  self->n_reading += piece->n_reading;
  for (gsize at = 0; at < piece->bytes; at += READ_BYTES)
    self->source.read (self->source.data, self->fd, piece->offset + at, memory + at,
                       MIN (READ_BYTES, piece->bytes - at), on_read, piece);
}

void
llm_weight_reader_poll (LlmWeightReader *self)
{
  if (self->n_reading > 0)
    self->source.poll (self->source.data, 0);
}

void
llm_weight_reader_wait (LlmWeightReader *self)
{
  self->source.poll (self->source.data, G_USEC_PER_SEC);
}

void
llm_weight_reader_stop (LlmWeightReader *self)
{
  for (guint i = self->under_way->len; i-- > 0;)
    self->source.cancel (self->source.data, g_ptr_array_index (self->under_way, i));
  while (self->n_reading > 0)
    llm_weight_reader_wait (self);
}

guint
llm_weight_reader_count (LlmWeightReader *self)
{
  return self->n_reading;
}

guint64
llm_weight_reader_get_bytes (LlmWeightReader *self)
{
  return self->n_bytes;
}

LlmStatus
llm_weight_reader_fail (LlmWeightReader     *self,
                        const LlmReadPiece  *piece,
                        GError             **error)
{
  llm_fail (error, LLMSVC_ERROR_FAILED,
            "The model's weights can't be read from “%s”: %s. Try again; if it fails each time, "
            "remove that file, which is made anew when the model is loaded", self->name,
            piece->code == ENODATA ? N_("the file is shorter than it was") : g_strerror (piece->code));
  return LLM_FAILED;
}

void
llm_weight_reader_set_source (LlmWeightReader       *self,
                              const LlmWeightSource *source)
{
  g_return_if_fail (self->n_reading == 0);
  self->has_source = source != NULL;
  if (source != NULL)
    self->source = *source;
}

gboolean
llm_weight_reader_has_source (LlmWeightReader *self)
{
  return self->has_source;
}

LlmWeightReader *
llm_weight_reader_new (int         fd,
                       const char *name)
{
  g_autofree char *path = g_strdup_printf ("/proc/self/fd/%d", fd);
  int opened = open (path, O_RDONLY | O_CLOEXEC | O_DIRECT);
  gboolean is_direct = opened >= 0;
  LlmWeightReader *self;

  if (opened < 0)
    opened = open (path, O_RDONLY | O_CLOEXEC);
  if (opened < 0)
    return NULL;
  self = g_new0 (LlmWeightReader, 1);
  self->fd = opened;
  self->is_direct = is_direct;
  self->name = g_strdup (name);
  self->under_way = g_ptr_array_new ();
  return self;
}

void
llm_weight_reader_free (LlmWeightReader *self)
{
  if (self == NULL)
    return;
  llm_weight_reader_stop (self);
  g_ptr_array_unref (self->under_way);
  close (self->fd);
  g_free (self->name);
  g_free (self);
}
