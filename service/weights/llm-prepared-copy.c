/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-model"

#include "weights/llm-prepared-copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "weights/llm-weights.h"

/* Checksums are compared when the first answers are likely to be over, and slowly. */
#define VERIFY_DELAY_US (10 * G_USEC_PER_SEC)
#define VERIFY_PAUSE_US 5000
#define POPULATE_BYTES ((guint64) 64 << 20)

/* Bytes of a file. */
typedef struct
{
  guint64 offset;
  guint64 length;
} Range;

struct _LlmPreparedCopy
{
  gatomicrefcount ref_count;   /* the user's, and the thread's */
  const guint8 *data;
  guint64 bytes;

  guint8 *memory;              /* (nullable): start of the reservation, of a copy in memory */
  gsize memory_bytes;

  LlmFileMap *map;             /* (nullable) */
  guint64 data_offset;
  guint n_pieces;
  guint64 *checksums;          /* (nullable): of the pieces, when they are to be compared */
  char *path;                  /* (nullable) */
  char *part;                  /* (nullable): of a file that is not called path yet */
  LlmGguf *packed_from;        /* (nullable) */
  GArray *rows;                /* (nullable) (element-type Range): of that file, not needed again */
  int fd;                      /* of a file with a part or with checksums, else -1 */

  GMutex lock;
  GCond woken;
  gboolean is_closing;         /* guarded by lock: nobody uses it any more */
  gboolean keeps_cache;        /* likewise */
  gboolean is_dropped;         /* likewise: reading it now would bring back what was given */
};

/* New files of this process that have no name yet. */
static GMutex parts_lock;
static GCond parts_changed;
static guint n_parts;

static LlmPreparedCopy *
copy_new (const LlmPreparedPlan *plan)
{
  LlmPreparedCopy *self = g_new0 (LlmPreparedCopy, 1);

  g_atomic_ref_count_init (&self->ref_count);
  g_mutex_init (&self->lock);
  g_cond_init (&self->woken);
  self->bytes = plan->bytes;
  self->data_offset = plan->data_offset;
  self->n_pieces = plan->n_pieces;
  self->fd = -1;
  return self;
}

LlmPreparedCopy *
llm_prepared_copy_new_in_memory (const LlmPreparedPlan *plan)
{
  LlmPreparedCopy *self;
  gsize size = plan->bytes + LLM_FILE_MAP_HUGE;
  guint8 *memory;
  gsize shift;

  if (plan->bytes > G_MAXSIZE / 2)
    return NULL;
  memory = mmap (NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return NULL;

  self = copy_new (plan);
  shift = (LLM_FILE_MAP_HUGE - (guintptr) memory % LLM_FILE_MAP_HUGE) % LLM_FILE_MAP_HUGE;
  self->memory = memory;
  self->memory_bytes = size;
  self->data = memory + shift;
  madvise (memory + shift, plan->bytes, MADV_HUGEPAGE);
  /* What can be computed again is of no use in a core file. */
  madvise (memory, size, MADV_DONTDUMP);
  return self;
}

static LlmPreparedCopy *
new_for_map (const LlmPreparedPlan *plan,
             LlmFileMap            *map,
             const char            *path)
{
  LlmPreparedCopy *self = copy_new (plan);

  self->map = llm_file_map_ref (map);
  self->data = llm_file_map_get_data (map) + plan->data_offset;
  self->path = g_strdup (path);
  return self;
}

LlmPreparedCopy *
llm_prepared_copy_new_for_file (const LlmPreparedPlan *plan,
                                LlmFileMap            *map,
                                const LlmPreparedHead *head,
                                int                    fd,
                                const char            *path)
{
  LlmPreparedCopy *self = new_for_map (plan, map, path);

  self->fd = fd;
  if (fd >= 0)
    self->checksums = g_memdup2 (head->checksums, plan->n_pieces * sizeof (guint64));
  return self;
}

LlmPreparedCopy *
llm_prepared_copy_new_for_part (const LlmPreparedPlan *plan,
                                LlmFileMap            *map,
                                int                    fd,
                                const char            *part,
                                const char            *path)
{
  LlmPreparedCopy *self = new_for_map (plan, map, path);

  self->part = g_strdup (part);
  self->fd = fd;
  return self;
}

/* What is left of the file goes out of memory once more: pages that were still to
 * be written could not go before. */
static void
unref (LlmPreparedCopy *self)
{
  if (!g_atomic_ref_count_dec (&self->ref_count))
    return;

  if (self->memory != NULL)
    munmap (self->memory, self->memory_bytes);
  if (self->map != NULL)
    {
      if (!self->keeps_cache)
        llm_file_map_drop (self->map, 0, llm_file_map_get_size (self->map));
      llm_file_map_unref (self->map);
    }
  if (self->fd >= 0)
    close (self->fd);
  g_clear_pointer (&self->packed_from, llm_gguf_unref);
  g_clear_pointer (&self->rows, g_array_unref);
  g_mutex_clear (&self->lock);
  g_cond_clear (&self->woken);
  g_free (self->checksums);
  g_free (self->path);
  g_free (self->part);
  g_free (self);
}

void
llm_prepared_copy_end (LlmPreparedCopy *self,
                       gboolean         keeps_cache)
{
  if (self == NULL)
    return;
  g_mutex_lock (&self->lock);
  self->is_closing = TRUE;
  self->keeps_cache = keeps_cache;
  g_cond_signal (&self->woken);
  g_mutex_unlock (&self->lock);
  if (self->map != NULL && !keeps_cache)
    llm_file_map_drop (self->map, 0, llm_file_map_get_size (self->map));
  unref (self);
}

const guint8 *
llm_prepared_copy_get_data (LlmPreparedCopy *self)
{
  return self->data;
}

guint8 *
llm_prepared_copy_get_memory (LlmPreparedCopy *self)
{
  return self->memory != NULL ? (guint8 *) self->data : NULL;
}

gboolean
llm_prepared_copy_is_file (LlmPreparedCopy *self)
{
  return self->map != NULL;
}

static void
set_dropped (LlmPreparedCopy *self,
             gboolean         dropped)
{
  g_mutex_lock (&self->lock);
  self->is_dropped = dropped;
  g_cond_broadcast (&self->woken);
  g_mutex_unlock (&self->lock);
}

void
llm_prepared_copy_drop (LlmPreparedCopy *self,
                        guint64          offset,
                        guint64          length)
{
  set_dropped (self, TRUE);
  if (self->map != NULL)
    llm_file_map_drop (self->map, self->data_offset + offset, length);
  else
    (void) madvise ((guint8 *) self->data + offset, length, MADV_DONTNEED);
}

void
llm_prepared_copy_take (LlmPreparedCopy *self)
{
  set_dropped (self, FALSE);
}

guint64
llm_prepared_copy_find_tail (LlmPreparedCopy *self,
                             guint64          end,
                             guint64          bytes,
                             guint64         *resident)
{
  guint64 tail = llm_file_map_find_resident_tail (self->map, self->data_offset + end, bytes,
                                                  resident);

  return tail > self->data_offset ? tail - self->data_offset : 0;
}

void
llm_prepared_copy_list_piece (LlmPreparedCopy *self,
                              guint64          end,
                              GArray          *pieces)
{
  llm_weights_add_piece (pieces, self->map, self->data_offset, end);
}

void
llm_prepared_copy_prefetch (LlmPreparedCopy *self,
                            guint64          offset,
                            guint64          length)
{
  if (self->map != NULL)
    llm_file_map_prefetch (self->map, self->data_offset + offset, length);
}

gboolean
llm_prepared_copy_is_good (LlmPreparedCopy *self)
{
  return self->map == NULL || !llm_file_map_is_damaged (self->map);
}

/* --- the thread --- */

/* FALSE when nobody uses the copy any more. */
static gboolean
sleep_a_while (LlmPreparedCopy *self,
               gint64           duration_us)
{
  gint64 end = g_get_monotonic_time () + duration_us;
  gboolean is_closing;

  g_mutex_lock (&self->lock);
  while (!self->is_closing && g_cond_wait_until (&self->woken, &self->lock, end))
    ;
  is_closing = self->is_closing;
  g_mutex_unlock (&self->lock);
  return !is_closing;
}

static gboolean
is_dropped (LlmPreparedCopy *self)
{
  gboolean dropped;

  g_mutex_lock (&self->lock);
  dropped = self->is_dropped;
  g_mutex_unlock (&self->lock);
  return dropped;
}

/* FALSE when nobody uses the copy any more. */
static gboolean
wait_until_taken (LlmPreparedCopy *self)
{
  gboolean is_closing;

  g_mutex_lock (&self->lock);
  while (self->is_dropped && !self->is_closing)
    g_cond_wait (&self->woken, &self->lock);
  is_closing = self->is_closing;
  g_mutex_unlock (&self->lock);
  return !is_closing;
}

/* In the order of use, so that the first layers are there first. What was given back meanwhile
 * comes when it is used. */
static void
populate (LlmPreparedCopy *self)
{
  guint64 end = self->data_offset + self->bytes;

  for (guint64 at = 0; at < end && sleep_a_while (self, 0) && !is_dropped (self);
       at += POPULATE_BYTES)
    llm_file_map_populate (self->map, at, POPULATE_BYTES);
}

/* Another process may have been quicker: then its file is the one that later
 * starts share. */
static int
give_name (const char *part,
           const char *path)
{
  if (renameat2 (AT_FDCWD, part, AT_FDCWD, path, RENAME_NOREPLACE) == 0)
    return 0;
  if (errno == EEXIST)
    return unlink (part);
  return errno == EINVAL || errno == ENOSYS ? rename (part, path) : -1;
}

/* A file that could not be written may lose its pages at any time. */
static void
finish (LlmPreparedCopy *self)
{
  if (fsync (self->fd) < 0)
    {
      g_message ("“%s” can't be written: %s", self->path, g_strerror (errno));
      llm_file_map_set_damaged (self->map);
      unlink (self->part);
    }
  else if (give_name (self->part, self->path) < 0)
    {
      g_message ("“%s” can't be kept: %s", self->path, g_strerror (errno));
      unlink (self->part);
    }

  g_mutex_lock (&parts_lock);
  n_parts--;
  g_cond_broadcast (&parts_changed);
  g_mutex_unlock (&parts_lock);
}

void
llm_prepared_copy_verify (LlmPreparedCopy *self)
{
  static const char value[] = "1";

  if (self->checksums == NULL)
    return;
  for (guint i = 0; i < self->n_pieces; i++)
    {
      guint64 at = i * LLM_PREPARED_PIECE;
      gsize size = (gsize) MIN (LLM_PREPARED_PIECE, self->bytes - at);

      if (!wait_until_taken (self))
        return;
      if (llm_prepared_checksum (self->data + at, size) != self->checksums[i])
        {
          g_message ("“%s” is damaged, and made again", self->path);
          unlink (self->path);
          llm_file_map_set_damaged (self->map);
          return;
        }
      if (!sleep_a_while (self, VERIFY_PAUSE_US))
        return;
    }
  /* Where it can't be noted, it is done again after the next start of the machine. */
  (void) !fsetxattr (self->fd, LLM_PREPARED_VERIFIED, value, sizeof value, 0);
}

static void
drop_rows (LlmPreparedCopy *self)
{
  for (guint i = 0; i < self->rows->len; i++)
    {
      const Range *range = &g_array_index (self->rows, Range, i);

      llm_file_map_drop (llm_gguf_get_map (self->packed_from), range->offset, range->length);
    }
}

static gpointer
run (gpointer data)
{
  LlmPreparedCopy *self = data;

  if (self->map != NULL)
    populate (self);
  if (self->packed_from != NULL)
    drop_rows (self);
  if (self->part != NULL)
    finish (self);
  if (self->checksums != NULL && sleep_a_while (self, VERIFY_DELAY_US))
    llm_prepared_copy_verify (self);
  unref (self);
  return NULL;
}

/* An output that is the embedding shares its rows, which are still read. */
static GArray *
list_rows (const LlmPreparedPlan *plan)
{
  GArray *rows = g_array_new (FALSE, FALSE, sizeof (Range));

  for (guint i = 0; i < plan->matrices->len; i++)
    {
      const LlmTensorPart *part = &g_array_index (plan->matrices, LlmPreparedMatrix, i).part;
      Range range = { part->offset, (guint64) part->row_bytes * part->n_out };

      if (part->tensor != plan->embedding)
        g_array_append_val (rows, range);
    }
  return rows;
}

void
llm_prepared_copy_start (LlmPreparedCopy       *self,
                         const LlmPreparedPlan *plan,
                         LlmGguf               *packed_from)
{
  if (packed_from != NULL)
    {
      self->packed_from = llm_gguf_ref (packed_from);
      self->rows = list_rows (plan);
    }
  else if (self->map == NULL)
    return;

  if (self->part != NULL)
    {
      g_mutex_lock (&parts_lock);
      n_parts++;
      g_mutex_unlock (&parts_lock);
    }
  g_atomic_ref_count_inc (&self->ref_count);
  g_thread_unref (g_thread_new ("llm-prepared", run, self));
}

void
llm_prepared_copy_wait_for_all (void)
{
  g_mutex_lock (&parts_lock);
  while (n_parts > 0)
    g_cond_wait (&parts_changed, &parts_lock);
  g_mutex_unlock (&parts_lock);
}
