/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "weights/llm-repacked-private.h"

#include <errno.h>
#include <string.h>
#include <xxhash.h>

#include "base/llm-fail.h"
#include "base/llm-worker-pool.h"
#include "io/llm-cache-folder.h"
#include "kernels/llk.h"

/* How far ahead of the repacking the model file is read: enough to keep a disk busy while threads
 * work. */
#define READ_AHEAD_PIECES 16

typedef struct
{
  const LlmRepackedPlan *plan;
  const LlkOps *kernels;   /* (unowned) */
  gsize panel_bytes;       /* of the largest panel */

  guint64 first, end;      /* bytes of the matrices that are packed */
  guint8 *memory;          /* (nullable): where all of it goes, or */
  int fd;                  /* the file, by way of */
  guint8 *buffers;         /* a piece for each worker */
  guint64 *checksums;

  guint8 *panels;          /* a panel for each worker */
  gsize n_floats;          /* of sixteen outputs, the most, for W8A8 */
  float *floats;           /* (nullable): so many for each worker */
  gsize chunk_bytes;       /* of channels that are taken apart together, the most */
  guint8 *chunks;          /* (nullable): so many for each worker */
  int saved_errno;         /* atomic: of the first write that failed, 0 before */
} Run;

static const LlmRepackedMatrix *
get_matrix (const LlmRepackedPlan *plan,
            guint                  index)
{
  return &g_array_index (plan->matrices, LlmRepackedMatrix, index);
}

static guint
get_first_piece (const Run *run)
{
  return (guint) (run->first / LLM_REPACKED_PIECE);
}

/* The panels of @matrix that overlap [@begin, @end) of all matrices. FALSE for none. */
static gboolean
find_panels (const LlmRepackedMatrix *matrix,
             guint64                  begin,
             guint64                  end,
             guint64                 *first,
             guint64                 *last)
{
  guint64 behind = matrix->offset + (guint64) matrix->n_panels * matrix->panel_bytes;

  if (matrix->offset >= end || behind <= begin)
    return FALSE;
  *first = begin > matrix->offset ? (begin - matrix->offset) / matrix->panel_bytes : 0;
  *last = (MIN (end, behind) - 1 - matrix->offset) / matrix->panel_bytes;
  return TRUE;
}

/* Calls @use for the rows that a piece is made from, in ranges of the model file. */
static void
for_each_source (const Run *run,
                 guint      piece,
                 void     (*use) (LlmFileMap *source, guint64 offset, guint64 length))
{
  const LlmRepackedPlan *plan = run->plan;
  guint64 begin = piece * LLM_REPACKED_PIECE;
  guint64 end, first, last;

  if (piece >= plan->n_pieces)
    return;
  end = begin + llm_repacked_plan_get_piece (plan, piece);
  for (guint i = 0; i < plan->matrices->len; i++)
    {
      const LlmRepackedMatrix *matrix = get_matrix (plan, i);

      if (!find_panels (matrix, begin, end, &first, &last))
        continue;
      first *= LLK_PANEL_OUTPUTS;
      last = MIN ((last + 1) * LLK_PANEL_OUTPUTS, matrix->shape.out_count);
      use (plan->gguf->map,
           matrix->part.offset + (matrix->shape.out_first + first) * matrix->part.row_bytes,
           (last - first) * matrix->part.row_bytes);
    }
  /* an input's weights are in all rows */
  for (guint i = 0; i < plan->matrices->len && plan->bundles->len > 0; i++)
    {
      const LlmRepackedMatrix *matrix = get_matrix (plan, i);
      const LlmRepackedBundle *bundle =
        &g_array_index (plan->bundles, LlmRepackedBundle, matrix->bundle);

      if (bundle->offset < end
          && bundle->offset + (guint64) bundle->in_count * bundle->record_bytes > begin)
        use (plan->gguf->map,
             matrix->part.offset + matrix->shape.out_first * matrix->part.row_bytes,
             matrix->shape.out_count * matrix->part.row_bytes);
    }
}

/* @floats has room for all inputs of sixteen outputs. */
static void
pack_w8 (const Run               *run,
         const LlmRepackedMatrix *matrix,
         guint64                  panel,
         guint8                  *target,
         float                   *floats)
{
  const LlmTensorPart *part = &matrix->part;
  const LlmSegmentShape *shape = &matrix->shape;
  guint first = (guint) panel * LLK_W8_OUTPUTS;
  guint n = MIN (LLK_W8_OUTPUTS, shape->out_count - first);
  const guint8 *rows = llm_file_map_get_data (run->plan->gguf->map) + part->offset
                       + (shape->out_first + first) * part->row_bytes;

  for (guint o = 0; o < n; o++)
    run->kernels->vector->unpack (part->type, rows + o * part->row_bytes,
                                  floats + (gsize) o * part->n_in, part->n_in);
  llk_w8_pack (&matrix->w8, floats + shape->in_first, part->n_in, n, (int8_t *) target);
}

static void
pack_outputs (const Run               *run,
              const LlmRepackedMatrix *matrix,
              guint64                  panel,
              guint8                  *target,
              float                   *floats)
{
  const LlmTensorPart *part = &matrix->part;
  const LlmSegmentShape *shape = &matrix->shape;
  guint8 *heads = NULL;

  if (run->plan->form == LLM_REPACKED_W8)
    {
      pack_w8 (run, matrix, panel, target, floats);
      return;
    }
  if (run->plan->form == LLM_REPACKED_CHANNELS)
    {
      heads = target;
      target = (guint8 *) floats;
    }
  llk_panel_pack (part->type, llm_file_map_get_data (run->plan->gguf->map) + part->offset,
                  part->row_bytes, part->n_in, shape->out_first + shape->out_count,
                  shape->out_first + panel * LLK_PANEL_OUTPUTS, shape->in_first, shape->in_count,
                  target);
  if (heads != NULL)
    {
      llk_channels_split (part->type, target, shape->in_first, shape->in_count, heads, NULL, 0);
      llm_repacked_seal_heads (matrix, heads);
    }
}

/* Writes the part of one panel that is in [@begin, @end) of all matrices to @piece, which begins at
 * @begin. A panel that is there only in part is packed in @scratch first. */
static void
pack_panel (const Run               *run,
            const LlmRepackedMatrix *matrix,
            guint64                  panel,
            guint64                  begin,
            guint64                  end,
            guint8                  *piece,
            guint8                  *scratch,
            float                   *floats)
{
  guint64 at = matrix->offset + panel * matrix->panel_bytes;
  gboolean is_whole = at >= begin && at + matrix->panel_bytes <= end;
  guint8 *target = is_whole ? piece + (at - begin) : scratch;

  pack_outputs (run, matrix, panel, target, floats);
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
            guint8    *scratch,
            float     *floats,
            guint8    *chunk)
{
  const LlmRepackedPlan *plan = run->plan;
  guint64 begin = index * LLM_REPACKED_PIECE;
  guint64 end = MIN (begin + llm_repacked_plan_get_piece (plan, index), run->end);
  guint64 filled = begin = MAX (begin, run->first);
  guint64 first, last;

  for (guint i = 0; i < plan->matrices->len; i++)
    {
      const LlmRepackedMatrix *matrix = get_matrix (plan, i);

      if (!find_panels (matrix, begin, end, &first, &last))
        continue;
      /* the gap between two segments */
      if (matrix->offset > filled)
        memset (piece + (filled - begin), 0, matrix->offset - filled);
      for (guint64 panel = first; panel <= last; panel++)
        pack_panel (run, matrix, panel, begin, end, piece, scratch, floats);
      filled = MIN (matrix->offset + (last + 1) * matrix->panel_bytes, end);
    }
  memset (piece + (filled - begin), 0, end - filled);
  if (chunk != NULL)
    llm_repacked_pack_bundles (plan, begin, end, piece, chunk);
}

static void
pack_pieces (guint    first,
             guint    end,
             guint    worker,
             gpointer data)
{
  Run *run = data;
  guint8 *scratch = run->panels + worker * run->panel_bytes;
  float *floats = run->floats != NULL ? run->floats + worker * run->n_floats : NULL;
  guint8 *chunk = run->chunks != NULL ? run->chunks + worker * run->chunk_bytes : NULL;

  for (guint i = get_first_piece (run) + first;
       i < get_first_piece (run) + end && g_atomic_int_get (&run->saved_errno) == 0; i++)
    {
      gsize size = llm_repacked_plan_get_piece (run->plan, i);
      guint64 offset = i * LLM_REPACKED_PIECE;
      guint8 *piece = run->memory != NULL ? run->memory + MAX (offset, run->first)
                                          : run->buffers + worker * LLM_REPACKED_PIECE;

      for_each_source (run, i + READ_AHEAD_PIECES, llm_file_map_prefetch);
      for_each_source (run, i, llm_file_map_populate);
      pack_piece (run, i, piece, scratch, floats, chunk);
      if (run->plan->progress != NULL)
        __atomic_fetch_add (&run->plan->progress->done_bytes, size, __ATOMIC_RELAXED);
      if (run->memory != NULL)
        continue;

      run->checksums[i] = XXH3_64bits (piece, size);
      if (!llm_cache_folder_write (run->fd, piece, size, run->plan->data_offset + offset))
        g_atomic_int_set (&run->saved_errno, errno);
    }
}

static gboolean
run_all (Run      *run,
         guint     n_threads,
         GError  **error)
{
  g_autoptr(LlmWorkerPool) pool = llm_worker_pool_new (n_threads);
  guint n_pieces = (guint) ((run->end + LLM_REPACKED_PIECE - 1) / LLM_REPACKED_PIECE);

  n_threads = llm_worker_pool_get_n_threads (pool);
  for (guint i = 0; i < run->plan->matrices->len; i++)
    {
      const LlmRepackedMatrix *matrix = get_matrix (run->plan, i);

      run->panel_bytes = MAX (run->panel_bytes, matrix->panel_bytes);
      /* by channel, of a whole panel */
      run->n_floats = MAX (run->n_floats,
                           run->plan->form == LLM_REPACKED_W8
                             ? (gsize) matrix->part.n_in * LLK_W8_OUTPUTS
                             : llk_panel_bytes (matrix->part.type, matrix->shape.in_first,
                                                matrix->shape.in_count) / sizeof (float));
    }
  run->panels = g_aligned_alloc (n_threads, run->panel_bytes, LLK_PANEL_ALIGNMENT);
  if (run->plan->form != LLM_REPACKED_PANELS)
    run->floats = g_new (float, n_threads * run->n_floats);
  if (run->plan->bundles->len > 0)
    {
      run->chunk_bytes = llm_repacked_measure_channels (run->plan);
      run->chunks = g_malloc (n_threads * run->chunk_bytes);
    }
  if (run->memory == NULL)
    run->buffers = g_aligned_alloc (n_threads, LLM_REPACKED_PIECE, LLK_PANEL_ALIGNMENT);

  if (run->plan->progress != NULL)
    {
      __atomic_store_n (&run->plan->progress->done_bytes, 0, __ATOMIC_RELAXED);
      __atomic_store_n (&run->plan->progress->total_bytes, run->end - run->first,
                        __ATOMIC_RELAXED);
    }
  for (guint i = 0; i < READ_AHEAD_PIECES; i++)
    for_each_source (run, get_first_piece (run) + i, llm_file_map_prefetch);
  llm_worker_pool_run (pool, n_pieces - get_first_piece (run), 1, pack_pieces, run);

  g_aligned_free (run->panels);
  g_aligned_free (run->buffers);
  g_free (run->floats);
  g_free (run->chunks);
  if (llm_file_map_is_damaged (run->plan->gguf->map))
    return llm_gguf_fail (run->plan->gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "the file was changed while it was in use: what was computed with it "
                          "since is worthless");
  return TRUE;
}

gboolean
llm_repack_in_memory (const LlmRepackedPlan  *plan,
                      guint                   n_threads,
                      guint64                 first,
                      guint64                 end,
                      guint8                 *memory,
                      GError                **error)
{
  Run run = { .plan = plan, .kernels = llk_ops_best (), .first = first, .end = end, .memory = memory };

  return run_all (&run, n_threads, error);
}

gboolean
llm_repack_in_file (const LlmRepackedPlan  *plan,
                    guint                   n_threads,
                    int                     fd,
                    const char             *path,
                    guint64                *checksums,
                    GError                **error)
{
  Run run = { .plan = plan, .kernels = llk_ops_best (), .end = plan->bytes, .fd = fd,
              .checksums = checksums };

  if (!run_all (&run, n_threads, error))
    return FALSE;
  return run.saved_errno == 0 ||
         llm_cache_folder_fail_write (path, run.saved_errno, error);
}
