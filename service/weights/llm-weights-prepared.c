/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-model"

#include "weights/llm-weights-prepared.h"

#include <string.h>

#include "common/llmsvc-error.h"
#include "weights/llm-prepare-weights.h"

/* Of weights that don't stay, so many bytes are read ahead of those in use: two of the largest
 * matrices of a small model, and about what is read while one is multiplied. */
#define PASS_AHEAD_BYTES ((guint64) 16 << 20)

typedef struct
{
  LlmWeights parent;

  LlmGguf *gguf;
  LlmLedger *ledger;        /* (nullable) */
  LlmWeights *mapped;       /* what is not packed */
  LlmPreparedPlan *plan;
  LlmPreparedCopy *copy;
  guint n_threads;          /* that pack */
  guint64 kept;             /* bytes of the copy that were not dropped, from its beginning */
  guint64 staying;          /* bytes of the copy, from its beginning, that stay after their use */
  GArray *rest;             /* (owned) (element-type LlmWeightPiece): of the file, not in the copy */
  GThread *packing;         /* (nullable): makes a copy in memory again */
  LlmStatus packed;         /* atomic: PENDING while it is dropped or being made */
  GError *error;            /* (nullable): why it could not be, once packed is FAILED */
} PreparedWeights;

/* What is held besides the copy: of the file, what is not in it. */
static guint64
get_rest (const PreparedWeights *self)
{
  return self->parent.bytes - self->plan->bytes;
}

static void
tell_held (PreparedWeights *self,
           guint64          absent)
{
  guint64 mapped = self->mapped->held > 0 ? get_rest (self) : 0;

  llm_weights_set_held (&self->parent, self->ledger, self->kept + mapped,
                        llm_prepared_copy_is_file (self->copy) ? self->kept + mapped : mapped,
                        absent);
}

static gpointer
pack_again (gpointer data)
{
  PreparedWeights *self = data;
  gboolean is_packed = llm_prepare_in_memory (self->plan, self->gguf, self->n_threads,
                                              llm_prepared_copy_get_memory (self->copy),
                                              &self->error);

  __atomic_store_n (&self->packed, is_packed ? LLM_READY : LLM_FAILED, __ATOMIC_RELEASE);
  return NULL;
}

static void
end_packing (PreparedWeights *self)
{
  if (self->packing != NULL)
    g_thread_join (g_steal_pointer (&self->packing));
}

/* Packed panels are good for something only all together. */
static guint64
drop_packed (PreparedWeights *self)
{
  guint64 gone = self->kept;

  end_packing (self);
  g_clear_error (&self->error);
  __atomic_store_n (&self->packed, LLM_PENDING, __ATOMIC_RELEASE);
  self->kept = 0;
  if (gone > 0)
    llm_prepared_copy_drop (self->copy, 0, gone);
  return gone;
}

static guint64
drop_rest (PreparedWeights *self,
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

/* The end of the copy, and when that is not enough what is only in the file. */
static guint64
drop (LlmWeights *weights,
      guint64     bytes)
{
  PreparedWeights *self = (PreparedWeights *) weights;
  gboolean is_file = llm_prepared_copy_is_file (self->copy);
  guint64 absent = weights->absent;
  guint64 resident = 0;

  if (bytes == 0)
    return 0;
  if (!is_file)
    resident = drop_packed (self);
  else if (self->kept > 0)
    {
      guint64 kept = llm_prepared_copy_find_tail (self->copy, self->kept, bytes, &resident);
      guint64 gone = self->kept - kept;

      resident = MIN (resident, gone);
      absent -= MIN (absent, gone - resident);
      llm_prepared_copy_drop (self->copy, kept, gone);
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
  PreparedWeights *self = (PreparedWeights *) weights;
  LlmStatus packed = __atomic_load_n (&self->packed, __ATOMIC_ACQUIRE);
  guint64 absent = weights->absent;

  if (self->mapped->held == 0)
    absent += get_rest (self);
  if (llm_prepared_copy_is_file (self->copy))
    absent += self->plan->bytes - self->kept;
  llm_weights_take (self->mapped);
  self->kept = self->plan->bytes;
  if (self->staying == self->plan->bytes)
    llm_prepared_copy_take (self->copy);
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
  PreparedWeights *self = (PreparedWeights *) weights;

  if (llm_prepared_copy_is_file (self->copy) && self->kept > 0)
    llm_prepared_copy_list_piece (self->copy, self->kept, pieces);
  for (guint i = 0; self->mapped->held > 0 && i < self->rest->len; i++)
    {
      const LlmWeightPiece *piece = &g_array_index (self->rest, LlmWeightPiece, i);

      llm_weights_add_piece (pieces, piece->map, piece->offset, piece->length);
    }
}

/* The copy first, as that is what most of the time is spent with. */
static gboolean
read_ahead (LlmWeights *weights,
            guint64     at,
            guint64     bytes)
{
  PreparedWeights *self = (PreparedWeights *) weights;

  if (!llm_prepared_copy_is_file (self->copy) || at >= self->plan->bytes)
    return FALSE;
  llm_prepared_copy_prefetch (self->copy, at, bytes);
  return at + bytes < self->plan->bytes;
}

static void
keep (LlmWeights *weights,
      guint64     bytes)
{
  PreparedWeights *self = (PreparedWeights *) weights;
  guint64 before = self->staying;

  if (!llm_prepared_copy_is_file (self->copy))
    return;
  self->staying = MIN (bytes, self->plan->bytes);
  if (self->staying < before)
    llm_prepared_copy_drop (self->copy, self->staying, before - self->staying);
  else if (self->staying > before && self->staying == self->kept)
    llm_prepared_copy_take (self->copy);
}

/* What of @matrix does not stay. */
static guint64
get_passing (const PreparedWeights   *self,
             const LlmPreparedMatrix *matrix,
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
  PreparedWeights *self = (PreparedWeights *) weights;
  const LlmPreparedMatrix *matrix;
  guint64 offset, passing;
  LlmStatus status;

  g_return_val_if_fail ((guint) op < LLM_N_OPS, LLM_FAILED);
  g_return_val_if_fail (segment == 0, LLM_FAILED);

  /* packing may end between this look and take(): then the weights are there */
  status = __atomic_load_n (&self->packed, __ATOMIC_ACQUIRE);
  if (status == LLM_PENDING)
    status = take (weights);
  if (status == LLM_PENDING)
    return status;
  if (status == LLM_FAILED)
    {
      end_packing (self);
      g_propagate_error (error, g_error_copy (self->error));
      return status;
    }
  matrix = llm_prepared_plan_find (self->plan, op, llm_operator_is_layered (op) ? layer : 0);
  if (matrix == NULL)
    return llm_weights_acquire (self->mapped, op, layer, segment, activation, view, error);

  *view = (LlmWeightView) {
    .data = llm_prepared_copy_get_data (self->copy) + matrix->offset,
    .type = matrix->part.type,
    .layout = LLM_LAYOUT_PANELS,
    .in_count = matrix->part.n_in,
    .out_count = matrix->part.n_out,
  };
  passing = get_passing (self, matrix, &offset);
  if (passing > 0)
    {
      llm_prepared_copy_prefetch (self->copy, offset, passing + PASS_AHEAD_BYTES);
      view->lease = (gpointer) matrix;
    }
  return LLM_READY;
}

static void
release (LlmWeights    *weights,
         LlmWeightView *view)
{
  PreparedWeights *self = (PreparedWeights *) weights;

  if (view->lease != NULL)
    {
      guint64 offset;
      guint64 passing = get_passing (self, view->lease, &offset);

      if (passing > 0)
        llm_prepared_copy_drop (self->copy, offset, passing);
    }
  memset (view, 0, sizeof *view);
}

static gboolean
check (LlmWeights  *weights,
       GError     **error)
{
  PreparedWeights *self = (PreparedWeights *) weights;

  if (!llm_prepared_copy_is_good (self->copy))
    return llm_gguf_fail (self->gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "the prepared copy of the file was changed while it was in use: answers "
                          "made with it since are worthless");
  return llm_weights_check (self->mapped, error);
}

static void
free_weights (LlmWeights *weights)
{
  PreparedWeights *self = (PreparedWeights *) weights;

  end_packing (self);
  g_clear_error (&self->error);
  llm_weights_set_held (weights, self->ledger, 0, 0, 0);
  g_clear_pointer (&self->ledger, llm_ledger_unref);
  self->mapped->keeps_cache = weights->keeps_cache;
  llm_prepared_copy_end (g_steal_pointer (&self->copy), weights->keeps_cache);
  g_clear_pointer (&self->plan, llm_prepared_plan_free);
  g_clear_pointer (&self->rest, g_array_unref);
  g_clear_pointer (&self->mapped, llm_weights_free);
  g_clear_pointer (&self->gguf, llm_gguf_unref);
  g_free (self);
}

static const LlmWeightProvider prepared_provider = {
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

/* What is held instead of the file's bytes: the copy, and those that are not in it. */
static guint64
count_bytes (const LlmPreparedPlan *plan,
             const LlmWeights      *mapped)
{
  guint64 bytes = plan->bytes + mapped->bytes;

  for (guint i = 0; i < plan->matrices->len; i++)
    {
      const LlmTensorPart *part = &g_array_index (plan->matrices, LlmPreparedMatrix, i).part;

      if (part->tensor != plan->embedding)
        bytes -= (guint64) part->row_bytes * part->n_out;
    }
  return bytes;
}

static gboolean
is_packed (const LlmPreparedPlan *plan,
           const LlmWeightPiece  *piece)
{
  for (guint i = 0; i < plan->matrices->len; i++)
    {
      const LlmTensorPart *part = &g_array_index (plan->matrices, LlmPreparedMatrix, i).part;

      if (part->offset == piece->offset && part->tensor != plan->embedding)
        return TRUE;
    }
  return FALSE;
}

/* (transfer full) */
static GArray *
list_rest (const LlmPreparedPlan *plan,
           LlmWeights            *mapped)
{
  GArray *pieces = llm_weights_list_pieces (mapped);

  for (guint i = pieces->len; i-- > 0;)
    if (is_packed (plan, &g_array_index (pieces, LlmWeightPiece, i)))
      g_array_remove_index_fast (pieces, i);
  return pieces;
}

LlmWeights *
llm_weights_new_prepared (LlmGguf           *gguf,
                          const LlmHparams  *hparams,
                          LlmPreparedCache  *cache,
                          guint              n_threads,
                          LlmLedger         *ledger,
                          GError           **error)
{
  g_autoptr(LlmWeights) mapped = NULL;
  g_autoptr(LlmPreparedPlan) plan = NULL;
  LlmPreparedCopy *copy;
  PreparedWeights *self;

  g_return_val_if_fail (gguf != NULL, NULL);
  g_return_val_if_fail (hparams != NULL, NULL);

  mapped = llm_weights_new_mapped (gguf, hparams, NULL, error);
  if (mapped == NULL)
    return NULL;
  plan = llm_prepared_plan_new (gguf, hparams, error);
  if (plan == NULL)
    return NULL;
  copy = llm_prepared_cache_get (cache, plan, gguf, n_threads, error);
  if (copy == NULL)
    return NULL;

  self = g_new0 (PreparedWeights, 1);
  self->parent.provider = &prepared_provider;
  self->parent.n_segments = mapped->n_segments;
  self->parent.segment_percent = mapped->segment_percent;
  self->parent.bytes = count_bytes (plan, mapped);
  self->gguf = llm_gguf_ref (gguf);
  self->rest = list_rest (plan, mapped);
  self->mapped = g_steal_pointer (&mapped);
  self->plan = g_steal_pointer (&plan);
  self->copy = copy;
  self->n_threads = n_threads;
  self->packed = LLM_READY;
  self->staying = self->plan->bytes;
  if (ledger != NULL)
    self->ledger = llm_ledger_ref (ledger);
  /* in memory, as long as nobody has asked the kernel */
  self->kept = self->plan->bytes;
  tell_held (self, 0);
  return &self->parent;
}
