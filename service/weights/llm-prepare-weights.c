/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-model"

#include "weights/llm-prepare-weights.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/llm-worker-pool.h"
#include "common/llmsvc-error.h"
#include "kernels/llk-panel.h"

/* How far ahead of the packing the model file is read: enough for a disk to be busy
 * while threads pack. */
#define READ_AHEAD_PIECES 16

typedef struct
{
  const LlmPreparedPlan *plan;
  LlmFileMap *source;
  gsize panel_bytes;       /* of the largest panel */

  guint8 *memory;          /* (nullable): where all of it goes, or */
  int fd;                  /* the file, by way of */
  guint8 *buffers;         /* a piece for each worker */
  guint64 *checksums;

  guint8 *panels;          /* a panel for each worker */
  int saved_errno;         /* atomic: of the first write that failed, 0 before */
} Run;

static guint64
get_end (const LlmPreparedMatrix *matrix)
{
  return matrix->offset + (guint64) matrix->n_panels * matrix->panel_bytes;
}

/* The first matrix that ends behind @offset. */
static guint
find_matrix (const LlmPreparedPlan *plan,
             guint64                offset)
{
  guint low = 0;
  guint high = plan->matrices->len;

  while (low < high)
    {
      guint middle = low + (high - low) / 2;

      if (get_end (&g_array_index (plan->matrices, LlmPreparedMatrix, middle)) <= offset)
        low = middle + 1;
      else
        high = middle;
    }
  return low;
}

/* Calls @use for the rows that a piece is made of, in ranges of the model file. */
static void
for_each_source (const Run *run,
                 guint      piece,
                 void     (*use) (LlmFileMap *source, guint64 offset, guint64 length))
{
  const LlmPreparedPlan *plan = run->plan;
  guint64 begin = piece * LLM_PREPARED_PIECE;
  guint64 end;

  if (piece >= plan->n_pieces)
    return;
  end = begin + llm_prepared_plan_get_piece (plan, piece);
  for (guint i = find_matrix (plan, begin); i < plan->matrices->len; i++)
    {
      const LlmPreparedMatrix *matrix = &g_array_index (plan->matrices, LlmPreparedMatrix, i);
      guint64 first, last;

      if (matrix->offset >= end)
        break;
      first = begin > matrix->offset ? (begin - matrix->offset) / matrix->panel_bytes : 0;
      last = (MIN (end, get_end (matrix)) - 1 - matrix->offset) / matrix->panel_bytes;
      first *= LLK_PANEL_OUTPUTS;
      last = MIN ((last + 1) * LLK_PANEL_OUTPUTS, matrix->part.n_out);
      use (run->source, matrix->part.offset + first * matrix->part.row_bytes,
           (last - first) * matrix->part.row_bytes);
    }
}

/* The part of one panel that lies in [@begin, @end) of all matrices, to @piece, which
 * is @begin. A panel that is not whole there goes by way of @scratch. */
static void
pack_panel (const Run               *run,
            const LlmPreparedMatrix *matrix,
            guint                    panel,
            guint64                  begin,
            guint64                  end,
            guint8                  *piece,
            guint8                  *scratch)
{
  const guint8 *rows = llm_file_map_get_data (run->source) + matrix->part.offset;
  guint64 at = matrix->offset + (guint64) panel * matrix->panel_bytes;
  gboolean is_whole = at >= begin && at + matrix->panel_bytes <= end;
  guint8 *target = is_whole ? piece + (at - begin) : scratch;

  llk_panel_pack (matrix->part.type, rows, matrix->part.row_bytes, matrix->part.n_in,
                  matrix->part.n_out, (gsize) panel * LLK_PANEL_OUTPUTS, target);
  if (!is_whole)
    {
      guint64 from = MAX (at, begin);
      guint64 to = MIN (at + matrix->panel_bytes, end);

      memcpy (piece + (from - begin), scratch + (from - at), to - from);
    }
}

static void
pack_piece (const Run *run,
            guint      index,
            guint8    *piece,
            guint8    *scratch)
{
  const LlmPreparedPlan *plan = run->plan;
  guint64 begin = index * LLM_PREPARED_PIECE;
  guint64 end = begin + llm_prepared_plan_get_piece (plan, index);
  guint64 filled = begin;

  for (guint i = find_matrix (plan, begin); i < plan->matrices->len && filled < end; i++)
    {
      const LlmPreparedMatrix *matrix = &g_array_index (plan->matrices, LlmPreparedMatrix, i);
      guint panel = 0;

      if (matrix->offset >= end)
        break;
      /* between two matrices */
      if (matrix->offset > filled)
        memset (piece + (filled - begin), 0, matrix->offset - filled);
      if (begin > matrix->offset)
        panel = (guint) ((begin - matrix->offset) / matrix->panel_bytes);
      for (; panel < matrix->n_panels &&
             matrix->offset + (guint64) panel * matrix->panel_bytes < end; panel++)
        pack_panel (run, matrix, panel, begin, end, piece, scratch);
      filled = MIN (get_end (matrix), end);
    }
  memset (piece + (filled - begin), 0, end - filled);
}

gboolean
llm_prepare_write (int           fd,
                   gconstpointer bytes,
                   gsize         size,
                   guint64       offset)
{
  for (gsize done = 0; done < size;)
    {
      gssize n = pwrite (fd, (const guint8 *) bytes + done, size - done, (off_t) (offset + done));

      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        {
          errno = n == 0 ? EIO : errno;
          return FALSE;
        }
      done += (gsize) n;
    }
  return TRUE;
}

static void
prepare_pieces (guint    first,
                guint    end,
                guint    worker,
                gpointer data)
{
  Run *run = data;
  guint8 *scratch = run->panels + worker * run->panel_bytes;

  for (guint i = first; i < end && g_atomic_int_get (&run->saved_errno) == 0; i++)
    {
      gsize size = llm_prepared_plan_get_piece (run->plan, i);
      guint64 offset = i * LLM_PREPARED_PIECE;
      guint8 *piece = run->memory != NULL ? run->memory + offset
                                          : run->buffers + worker * LLM_PREPARED_PIECE;

      for_each_source (run, i + READ_AHEAD_PIECES, llm_file_map_prefetch);
      for_each_source (run, i, llm_file_map_populate);
      pack_piece (run, i, piece, scratch);
      if (run->memory != NULL)
        continue;

      run->checksums[i] = llm_prepared_checksum (piece, size);
      if (!llm_prepare_write (run->fd, piece, size, run->plan->data_offset + offset))
        g_atomic_int_set (&run->saved_errno, errno);
    }
}

static gsize
find_largest_panel (const LlmPreparedPlan *plan)
{
  gsize largest = 0;

  for (guint i = 0; i < plan->matrices->len; i++)
    largest = MAX (largest, g_array_index (plan->matrices, LlmPreparedMatrix, i).panel_bytes);
  return largest;
}

static gboolean
run_all (Run      *run,
         LlmGguf  *gguf,
         guint     n_threads,
         GError  **error)
{
  g_autoptr(LlmWorkerPool) pool = llm_worker_pool_new (n_threads);

  n_threads = llm_worker_pool_get_n_threads (pool);
  run->source = llm_gguf_get_map (gguf);
  run->panel_bytes = find_largest_panel (run->plan);
  run->panels = g_aligned_alloc (n_threads, run->panel_bytes, LLK_PANEL_ALIGNMENT);
  if (run->memory == NULL)
    run->buffers = g_aligned_alloc (n_threads, LLM_PREPARED_PIECE, LLK_PANEL_ALIGNMENT);

  for (guint i = 0; i < READ_AHEAD_PIECES; i++)
    for_each_source (run, i, llm_file_map_prefetch);
  llm_worker_pool_run (pool, run->plan->n_pieces, 1, prepare_pieces, run);

  g_aligned_free (run->panels);
  g_aligned_free (run->buffers);
  if (llm_file_map_is_damaged (run->source))
    return llm_gguf_fail (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "the file was changed while it was in use: answers made with it since "
                          "are worthless");
  return TRUE;
}

gboolean
llm_prepare_in_memory (const LlmPreparedPlan  *plan,
                       LlmGguf                *gguf,
                       guint                   n_threads,
                       guint8                 *memory,
                       GError                **error)
{
  Run run = { .plan = plan, .memory = memory };

  g_return_val_if_fail (plan != NULL, FALSE);
  g_return_val_if_fail (memory != NULL, FALSE);

  return run_all (&run, gguf, n_threads, error);
}

gboolean
llm_prepare_in_file (const LlmPreparedPlan  *plan,
                     LlmGguf                *gguf,
                     guint                   n_threads,
                     int                     fd,
                     guint64                *checksums,
                     GError                **error)
{
  Run run = { .plan = plan, .fd = fd, .checksums = checksums };

  g_return_val_if_fail (plan != NULL, FALSE);
  g_return_val_if_fail (fd >= 0, FALSE);

  if (!run_all (&run, gguf, n_threads, error))
    return FALSE;
  if (run.saved_errno != 0)
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED, "Can't write: %s",
                   g_strerror (run.saved_errno));
      return FALSE;
    }
  return TRUE;
}
