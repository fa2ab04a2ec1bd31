/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "weights/llm-repacked-private.h"

#include <string.h>

#include "common/llmsvc-error.h"

/* Of weights that don't stay, so many bytes are read ahead of those in use: two of the largest
 * matrices of a small model, and about what is read while one is multiplied. */
#define PASS_AHEAD_BYTES ((guint64) 16 << 20)

typedef struct
{
  LlmWeights parent;

  LlmLedger *ledger;        /* (nullable) */
  LlmWeights *mapped;       /* what is not packed */
  LlmRepackedPlan *plan;
  LlmRepacked *repacked;
  guint n_threads;          /* that pack */
  guint64 kept;             /* bytes of the panels that were not dropped, from their beginning */
  guint64 staying;          /* bytes of the panels, from their beginning, that stay after their use */
  GArray *rest;             /* (owned) (element-type LlmWeightPiece): of the file, not in panels */
  GThread *packing;         /* (nullable): packs into memory again */
  LlmStatus packed;         /* atomic: PENDING while it is dropped or being made */
  GError *error;            /* (nullable): why it could not be, once packed is FAILED */
} RepackedWeights;

/* What is held besides the panels: of the file, what is not in them. */
static guint64
get_rest (const RepackedWeights *self)
{
  return self->parent.bytes - self->plan->bytes;
}

static void
tell_held (RepackedWeights *self,
           guint64          absent)
{
  guint64 mapped = self->mapped->held > 0 ? get_rest (self) : 0;

  llm_weights_set_held (&self->parent, self->ledger, self->kept + mapped,
                        self->repacked->map != NULL ? self->kept + mapped : mapped,
                        absent);
}

static gpointer
pack_again (gpointer data)
{
  RepackedWeights *self = data;
  gboolean is_packed = llm_repack_in_memory (self->plan, self->n_threads,
                                             self->repacked->data, &self->error);

  __atomic_store_n (&self->packed, is_packed ? LLM_READY : LLM_FAILED, __ATOMIC_RELEASE);
  return NULL;
}

static void
end_packing (RepackedWeights *self)
{
  if (self->packing != NULL)
    g_thread_join (g_steal_pointer (&self->packing));
}

/* Packed panels are good for something only all together. */
static guint64
drop_packed (RepackedWeights *self)
{
  guint64 gone = self->kept;

  end_packing (self);
  g_clear_error (&self->error);
  __atomic_store_n (&self->packed, LLM_PENDING, __ATOMIC_RELEASE);
  self->kept = 0;
  if (gone > 0)
    llm_repacked_drop (self->repacked, 0, gone);
  return gone;
}

static guint64
drop_rest (RepackedWeights *self,
           guint64         *absent)
{
  guint64 rest = get_rest (self);
  guint64 resident;

  if (self->mapped->held == 0)
    return 0;
  resident = MIN (llm_weights_count_resident (self->rest), rest);
  *absent -= MIN (*absent, rest - resident);
  llm_weights_drop (self->mapped, G_MAXUINT64);
  return resident;
}

/* Where the last @bytes that are in memory of what is kept begin, or a little before. @resident:
 * (out): bytes in memory from there on. */
static guint64
find_tail (RepackedWeights *self,
           guint64          bytes,
           guint64         *resident)
{
  guint64 first = self->plan->data_offset;
  guint64 tail = llm_file_map_find_resident_tail (self->repacked->map, first + self->kept, bytes,
                                                  resident);

  return tail > first ? tail - first : 0;
}

/* The end of the panels, and when that is not enough what is only in the file. */
static guint64
drop (LlmWeights *weights,
      guint64     bytes)
{
  RepackedWeights *self = (RepackedWeights *) weights;
  gboolean is_file = self->repacked->map != NULL;
  guint64 absent = weights->absent;
  guint64 resident = 0;

  if (bytes == 0)
    return 0;
  if (!is_file)
    resident = drop_packed (self);
  else if (self->kept > 0)
    {
      guint64 kept = find_tail (self, bytes, &resident);
      guint64 gone = self->kept - kept;

      resident = MIN (resident, gone);
      absent -= MIN (absent, gone - resident);
      llm_repacked_drop (self->repacked, kept, gone);
      self->kept = kept;
    }
  if (!is_file || resident < bytes)
    resident += drop_rest (self, &absent);
  tell_held (self, absent);
  return resident;
}

/* What was given is not there before it is read. */
static LlmStatus
take (LlmWeights *weights)
{
  RepackedWeights *self = (RepackedWeights *) weights;
  LlmStatus packed = __atomic_load_n (&self->packed, __ATOMIC_ACQUIRE);
  guint64 absent = weights->absent;

  if (self->mapped->held == 0)
    absent += get_rest (self);
  if (self->repacked->map != NULL)
    absent += self->plan->bytes - self->kept;
  llm_weights_take (self->mapped);
  self->kept = self->plan->bytes;
  if (self->staying == self->plan->bytes)
    llm_repacked_take (self->repacked);
  tell_held (self, absent);
  if (packed == LLM_PENDING && self->packing == NULL)
    self->packing = g_thread_new ("llm-pack", pack_again, self);
  else if (packed != LLM_PENDING)
    end_packing (self);
  return packed;
}

static void
list_pieces (LlmWeights *weights,
             GArray     *pieces)
{
  RepackedWeights *self = (RepackedWeights *) weights;

  if (self->repacked->map != NULL && self->kept > 0)
    llm_weights_add_piece (pieces, self->repacked->map, self->plan->data_offset, self->kept);
  for (guint i = 0; self->mapped->held > 0 && i < self->rest->len; i++)
    {
      const LlmWeightPiece *piece = &g_array_index (self->rest, LlmWeightPiece, i);

      llm_weights_add_piece (pieces, piece->map, piece->offset, piece->length);
    }
}

/* Has the system read the range of the file's matrices. */
static void
prefetch (RepackedWeights *self,
          guint64          offset,
          guint64          length)
{
  llm_file_map_prefetch (self->repacked->map, self->plan->data_offset + offset, length);
}

/* The panels first, as that is what most of the time is spent with. */
static gboolean
read_ahead (LlmWeights *weights,
            guint64     at,
            guint64     bytes)
{
  RepackedWeights *self = (RepackedWeights *) weights;

  if (self->repacked->map == NULL || at >= self->plan->bytes)
    return FALSE;
  prefetch (self, at, bytes);
  return at + bytes < self->plan->bytes;
}

static void
keep (LlmWeights *weights,
      guint64     bytes)
{
  RepackedWeights *self = (RepackedWeights *) weights;
  guint64 before = self->staying;

  if (self->repacked->map == NULL)
    return;
  self->staying = MIN (bytes, self->plan->bytes);
  if (self->staying < before)
    llm_repacked_drop (self->repacked, self->staying, before - self->staying);
  else if (self->staying > before && self->staying == self->kept)
    llm_repacked_take (self->repacked);
}

/* What of @matrix does not stay. */
static guint64
get_passing (const RepackedWeights   *self,
             const LlmRepackedMatrix *matrix,
             guint64                 *offset)
{
  guint64 end = matrix->offset + (guint64) matrix->n_panels * matrix->panel_bytes;

  *offset = MAX (matrix->offset, self->staying);
  return end > *offset ? end - *offset : 0;
}

static LlmStatus
acquire (LlmWeights           *weights,
         LlmOperator           op,
         guint                 layer,
         guint                 segment,
         const LlmActivation  *activation,
         LlmWeightView        *view,
         GError              **error)
{
  RepackedWeights *self = (RepackedWeights *) weights;
  const LlmRepackedMatrix *matrix;
  guint64 offset, passing;

  switch (__atomic_load_n (&self->packed, __ATOMIC_ACQUIRE))
    {
    case LLM_PENDING:
      return take (weights);
    case LLM_FAILED:
      end_packing (self);
      g_propagate_error (error, g_error_copy (self->error));
      return LLM_FAILED;
    case LLM_READY:
    default:
      break;
    }
  matrix = llm_repacked_plan_find (self->plan, op, llm_operator_is_layered (op) ? layer : 0);
  if (matrix == NULL)
    return llm_weights_acquire (self->mapped, op, layer, segment, activation, view, error);

  *view = (LlmWeightView) {
    .data = self->repacked->data + matrix->offset,
    .type = matrix->part.type,
    .layout = LLM_LAYOUT_PANELS,
    .in_count = matrix->part.n_in,
    .out_count = matrix->part.n_out,
  };
  passing = get_passing (self, matrix, &offset);
  if (passing > 0)
    {
      prefetch (self, offset, passing + PASS_AHEAD_BYTES);
      view->lease = (gpointer) matrix;
    }
  return LLM_READY;
}

static void
release (LlmWeights    *weights,
         LlmWeightView *view)
{
  RepackedWeights *self = (RepackedWeights *) weights;

  if (view->lease != NULL)
    {
      guint64 offset;
      guint64 passing = get_passing (self, view->lease, &offset);

      if (passing > 0)
        llm_repacked_drop (self->repacked, offset, passing);
    }
  memset (view, 0, sizeof *view);
}

static gboolean
check (LlmWeights  *weights,
       GError     **error)
{
  RepackedWeights *self = (RepackedWeights *) weights;

  if (self->repacked->map != NULL && llm_file_map_is_damaged (self->repacked->map))
    return llm_gguf_fail (self->plan->gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "the prepared copy of the file was changed while it was in use: answers "
                          "made with it since are worthless");
  return llm_weights_check (self->mapped, error);
}

static void
free_weights (LlmWeights *weights)
{
  RepackedWeights *self = (RepackedWeights *) weights;

  end_packing (self);
  g_clear_error (&self->error);
  llm_weights_set_held (weights, self->ledger, 0, 0, 0);
  g_clear_pointer (&self->ledger, llm_ledger_unref);
  self->mapped->keeps_cache = weights->keeps_cache;
  llm_repacked_end (g_steal_pointer (&self->repacked), weights->keeps_cache);
  g_clear_pointer (&self->plan, llm_repacked_plan_unref);
  g_clear_pointer (&self->rest, g_array_unref);
  g_clear_pointer (&self->mapped, llm_weights_free);
  g_free (self);
}

static const LlmWeightProvider repacked_provider = {
  .acquire = acquire,
  .release = release,
  .check = check,
  .drop = drop,
  .take = take,
  .read_ahead = read_ahead,
  .keep = keep,
  .list_pieces = list_pieces,
  .free = free_weights,
};

static gboolean
is_packed (const LlmRepackedPlan *plan,
           const LlmWeightPiece  *piece)
{
  for (guint i = 0; i < plan->rows->len; i++)
    if (g_array_index (plan->rows, LlmRepackedRows, i).offset == piece->offset)
      return TRUE;
  return FALSE;
}

/* (transfer full) */
static GArray *
list_rest (const LlmRepackedPlan *plan,
           LlmWeights            *mapped)
{
  GArray *pieces = llm_weights_list_pieces (mapped);

  for (guint i = pieces->len; i-- > 0;)
    if (is_packed (plan, &g_array_index (pieces, LlmWeightPiece, i)))
      g_array_remove_index_fast (pieces, i);
  return pieces;
}

LlmWeights *
llm_weights_new_repacked (LlmGguf           *gguf,
                          const LlmHparams  *hparams,
                          LlmRepackedCache  *cache,
                          guint              n_threads,
                          LlmLedger         *ledger,
                          GError           **error)
{
  g_autoptr(LlmWeights) mapped = llm_weights_new_mapped (gguf, hparams, NULL, error);
  g_autoptr(LlmRepackedPlan) plan = NULL;
  LlmRepacked *repacked = NULL;
  RepackedWeights *self;

  if (mapped != NULL)
    plan = llm_repacked_plan_new (gguf, hparams, error);
  if (plan != NULL)
    repacked = llm_repacked_cache_get (cache, plan, n_threads, error);
  if (repacked == NULL)
    return NULL;

  self = g_new0 (RepackedWeights, 1);
  self->parent.provider = &repacked_provider;
  self->parent.n_segments = mapped->n_segments;
  self->parent.segment_percent = mapped->segment_percent;
  /* What is held instead of the file's bytes: the panels, and those that are not in them. */
  self->parent.bytes = plan->bytes + mapped->bytes;
  for (guint i = 0; i < plan->rows->len; i++)
    self->parent.bytes -= g_array_index (plan->rows, LlmRepackedRows, i).length;
  self->rest = list_rest (plan, mapped);
  self->mapped = g_steal_pointer (&mapped);
  self->plan = g_steal_pointer (&plan);
  self->repacked = repacked;
  self->n_threads = n_threads;
  self->packed = LLM_READY;
  /* in memory, as long as nobody has asked the kernel */
  self->staying = self->kept = self->plan->bytes;
  self->ledger = ledger != NULL ? llm_ledger_ref (ledger) : NULL;
  tell_held (self, 0);
  return &self->parent;
}
