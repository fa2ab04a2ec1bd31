/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "weights/llm-repacked-private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/llmsvc-error.h"

/* Checksums are compared slowly, and when the first answers are likely to be over. */
#define VERIFY_DELAY_US (10 * G_USEC_PER_SEC)
#define VERIFY_PAUSE_US 5000
#define POPULATE_BYTES ((guint64) 64 << 20)

/* New files of this process that have no name yet. */
static GMutex parts_lock;
static GCond parts_changed;
static guint n_parts;

static LlmRepacked *
new_for_plan (LlmRepackedPlan *plan)
{
  LlmRepacked *self = g_new0 (LlmRepacked, 1);

  g_atomic_ref_count_init (&self->ref_count);
  g_mutex_init (&self->lock);
  g_cond_init (&self->woken);
  self->plan = llm_repacked_plan_ref (plan);
  return self;
}

LlmRepacked *
llm_repacked_new_in_memory (LlmRepackedPlan  *plan,
                            guint             n_threads,
                            GError          **error)
{
  g_autoptr(LlmRepacked) self = NULL;
  gsize size = plan->bytes + LLM_FILE_MAP_HUGE;
  guint8 *memory = MAP_FAILED;

  if (plan->bytes <= G_MAXSIZE / 2)
    memory = mmap (NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return llm_gguf_fail_null (plan->gguf, error, LLMSVC_ERROR_NO_MEMORY,
                               "there is no memory for its %ju bytes of weights", plan->bytes);

  self = new_for_plan (plan);
  self->memory = memory;
  self->memory_bytes = size;
  self->n_threads = n_threads;
  self->n_packed = plan->bytes;
  self->packed = LLM_READY;
  self->data =
    memory + (LLM_FILE_MAP_HUGE - (guintptr) memory % LLM_FILE_MAP_HUGE) % LLM_FILE_MAP_HUGE;
  madvise (self->data, plan->bytes, MADV_HUGEPAGE);
  /* Memory that can be computed again is left out of core dumps. */
  madvise (memory, size, MADV_DONTDUMP);
  return llm_repack_in_memory (plan, n_threads, 0, plan->bytes, self->data, error) ? g_steal_pointer (&self)
                                                                      : NULL;
}

LlmRepacked *
llm_repacked_new_for_map (LlmRepackedPlan *plan,
                          LlmFileMap      *map,
                          const char      *path)
{
  LlmRepacked *self = new_for_plan (plan);

  self->map = llm_file_map_ref (map);
  self->data = (guint8 *) llm_file_map_get_data (map) + plan->data_offset;
  self->path = g_strdup (path);
  /* by channel, nothing is read from the mapping */
  self->is_dropped = plan->form == LLM_REPACKED_CHANNELS;
  return self;
}

/* Releases the pages of the file once more: pages that were still to be written could not be
 * released before. */
static void
unref (LlmRepacked *self)
{
  if (!g_atomic_ref_count_dec (&self->ref_count))
    return;

  if (self->memory != NULL)
    munmap (self->memory, self->memory_bytes);
  if (self->map != NULL && !self->keeps_cache)
    llm_file_map_drop (self->map, 0, llm_file_map_get_size (self->map));
  g_clear_pointer (&self->map, llm_file_map_unref);
  llm_repacked_plan_unref (self->plan);
  g_mutex_clear (&self->lock);
  g_cond_clear (&self->woken);
  g_free (self->checksums);
  g_free (self->path);
  g_free (self->part);
  g_free (self);
}

static void
end_packing (LlmRepacked *self)
{
  if (self->packing == NULL)
    return;
  g_thread_join (g_steal_pointer (&self->packing));
  if (self->packed != LLM_READY)
    return;
  self->packed_again += self->packing_end - self->n_packed;
  self->n_packed = self->packing_end;
}

void
llm_repacked_end (LlmRepacked *self,
                  gboolean     keeps_cache)
{
  end_packing (self);
  g_clear_error (&self->error);
  g_mutex_lock (&self->lock);
  self->is_closing = TRUE;
  self->keeps_cache = keeps_cache;
  g_cond_signal (&self->woken);
  g_mutex_unlock (&self->lock);
  if (self->map != NULL && !keeps_cache)
    llm_file_map_drop (self->map, 0, llm_file_map_get_size (self->map));
  unref (self);
}

void
llm_repacked_set_dropped (LlmRepacked *self,
                          gboolean     is_dropped)
{
  g_mutex_lock (&self->lock);
  self->is_dropped = is_dropped;
  g_cond_broadcast (&self->woken);
  g_mutex_unlock (&self->lock);
}

/* --- memory that is packed again --- */

void
llm_repacked_drop_memory (LlmRepacked *self,
                          guint64      first)
{
  end_packing (self);
  g_clear_error (&self->error);
  self->n_packed = MIN (first, self->n_packed);
  __atomic_store_n (&self->packed, LLM_READY, __ATOMIC_RELEASE);
  /* Otherwise the kernel fills the rest of a huge page again, with zeros. */
  (void) madvise (self->data + first, self->plan->bytes - first, MADV_NOHUGEPAGE);
  (void) madvise (self->data + first, self->plan->bytes - first, MADV_DONTNEED);
}

static gpointer
pack_again (gpointer data)
{
  LlmRepacked *self = data;
  gboolean is_packed = llm_repack_in_memory (self->plan, self->n_threads, self->n_packed,
                                             self->packing_end, self->data, &self->error);

  __atomic_store_n (&self->packed, is_packed ? LLM_READY : LLM_FAILED, __ATOMIC_RELEASE);
  return NULL;
}

LlmStatus
llm_repacked_pack_again (LlmRepacked *self,
                         guint64      bytes)
{
  LlmStatus packed = __atomic_load_n (&self->packed, __ATOMIC_ACQUIRE);

  bytes = MIN (bytes, self->plan->bytes);
  if (packed == LLM_PENDING)
    return LLM_PENDING;
  end_packing (self);
  if (packed == LLM_FAILED || bytes <= self->n_packed)
    return packed;
  self->packing_end = bytes;
  (void) madvise (self->data + self->n_packed, bytes - self->n_packed, MADV_HUGEPAGE);
  __atomic_store_n (&self->packed, LLM_PENDING, __ATOMIC_RELEASE);
  self->packing = g_thread_new ("llm-pack", pack_again, self);
  return LLM_PENDING;
}

LlmStatus
llm_repacked_await (LlmRepacked  *self,
                    guint64       bytes,
                    GError      **error)
{
  LlmStatus packed = __atomic_load_n (&self->packed, __ATOMIC_ACQUIRE);

  if (packed != LLM_PENDING)
    end_packing (self);
  if (bytes <= self->n_packed)
    return LLM_READY;
  if (packed == LLM_FAILED)
    g_propagate_error (error, g_error_copy (self->error));
  return packed == LLM_FAILED ? LLM_FAILED : LLM_PENDING;
}

/* --- the thread --- */

/* Waits for so long, and then, with @until_taken, while the memory is dropped. FALSE when the
 * weights are not used any more. @is_dropped: (out) (optional): whether it is dropped now. */
static gboolean
wait_a_while (LlmRepacked *self,
              gint64       duration_us,
              gboolean     until_taken,
              gboolean    *is_dropped)
{
  gint64 end = g_get_monotonic_time () + duration_us;
  gboolean is_used;

  g_mutex_lock (&self->lock);
  while (!self->is_closing && g_cond_wait_until (&self->woken, &self->lock, end))
    ;
  while (!self->is_closing && until_taken && self->is_dropped)
    g_cond_wait (&self->woken, &self->lock);
  is_used = !self->is_closing;
  if (is_dropped != NULL)
    *is_dropped = self->is_dropped;
  g_mutex_unlock (&self->lock);
  return is_used;
}

/* In the order of use, so that the first layers arrive first. Pages that were reclaimed meanwhile
 * are read when they are used. */
static void
populate (LlmRepacked *self)
{
  guint64 end = self->plan->file_bytes;
  gboolean is_dropped = FALSE;

  for (guint64 at = self->plan->data_offset;
       at < end && wait_a_while (self, 0, FALSE, &is_dropped) && !is_dropped; at += POPULATE_BYTES)
    llm_file_map_populate (self->map, at, POPULATE_BYTES);
}

/* Another process may have been faster: then later starts share its file. */
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

/* It is not read again, and is not counted. */
static void
drop_head (LlmRepacked *self)
{
  llm_file_map_drop (self->map, 0, self->plan->data_offset);
}

/* A file that could not be written may lose its pages at any time. */
static void
finish (LlmRepacked *self)
{
  if (fsync (llm_file_map_get_fd (self->map)) < 0)
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
  if (self->plan->form == LLM_REPACKED_CHANNELS)
    llm_file_map_drop (self->map, 0, llm_file_map_get_size (self->map));
  else
    drop_head (self);

  g_mutex_lock (&parts_lock);
  n_parts--;
  g_cond_broadcast (&parts_changed);
  g_mutex_unlock (&parts_lock);
}

void
llm_repacked_set_damaged (LlmRepacked *self)
{
  g_message ("“%s” is damaged, and made again", self->path);
  unlink (self->path);
  llm_file_map_set_damaged (self->map);
}

void
llm_repacked_verify (LlmRepacked *self)
{
  static const char value[] = "1";

  if (self->checksums == NULL)
    return;
  for (guint i = 0; i < self->plan->n_pieces; i++)
    {
      if (!wait_a_while (self, i > 0 ? VERIFY_PAUSE_US : 0, TRUE, NULL))
        return;
      if (XXH3_64bits (self->data + i * LLM_REPACKED_PIECE,
                       llm_repacked_plan_get_piece (self->plan, i)) != self->checksums[i])
        {
          llm_repacked_set_damaged (self);
          return;
        }
    }
  /* If it can't be recorded, it is done again after the next boot. */
  (void) !fsetxattr (llm_file_map_get_fd (self->map), LLM_REPACKED_VERIFIED, value, sizeof value,
                     0);
}

static gpointer
run (gpointer data)
{
  LlmRepacked *self = data;

  if (self->map != NULL)
    populate (self);
  for (guint i = 0; i < self->plan->rows->len; i++)
    {
      const LlmRepackedRows *rows = &g_array_index (self->plan->rows, LlmRepackedRows, i);

      llm_file_map_drop_exactly (self->plan->gguf->map, rows->offset, rows->length);
    }
  if (self->part != NULL)
    finish (self);
  else if (self->map != NULL)
    drop_head (self);
  if (self->checksums != NULL && wait_a_while (self, VERIFY_DELAY_US, FALSE, NULL))
    llm_repacked_verify (self);
  unref (self);
  return NULL;
}

void
llm_repacked_start (LlmRepacked *self)
{
  if (self->part != NULL)
    {
      g_mutex_lock (&parts_lock);
      n_parts++;
      g_mutex_unlock (&parts_lock);
    }
  g_atomic_ref_count_inc (&self->ref_count);
  g_thread_unref (g_thread_new ("llm-repacked", run, self));
}

void
llm_repacked_wait_for_all (void)
{
  g_mutex_lock (&parts_lock);
  while (n_parts > 0)
    g_cond_wait (&parts_changed, &parts_lock);
  g_mutex_unlock (&parts_lock);
}
