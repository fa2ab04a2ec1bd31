/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Provider: the tensors of a model file, memory-mapped; with repacked weights, the matrices that
 * products read come from there. */

#include <string.h>

#include "common/llmsvc-error.h"
#include "weights/llm-repacked-private.h"

/* Of panels that don't stay, so many bytes are read ahead of those in use: two of the largest
 * matrices of a small model, and about what is read while one is multiplied. */
#define PASS_AHEAD_BYTES ((guint64) 16 << 20)

typedef struct
{
  LlmWeights parent;
  LlmSubModels *own_sub_models;   /* (owned) */

  LlmGguf *gguf;            /* (owned), as all of these */
  LlmLedger *ledger;        /* (nullable) */
  guint n_layers;
  gboolean has_tied_output; /* the output is the embedding, which has its place */
  LlmTensorPart *parts;     /* [n_layers × LLM_N_OPS], shared ones in layer 0 */
  guint64 file_bytes;       /* of tensors that are read from the file */
  guint64 file_kept;        /* bytes of the file that were not dropped, from its beginning */

  LlmRepacked *repacked;    /* (nullable): NULL for weights as the file has them */
  guint n_threads;          /* that pack */
  guint64 kept;             /* bytes of the panels that were not dropped, from their beginning */
  guint64 staying;          /* bytes of the panels that stay after their use, likewise */
  GThread *packing;         /* (nullable): packs into memory again */
  LlmStatus packed;         /* atomic: PENDING while memory is dropped or being packed */
  GError *error;            /* (nullable): why it could not be, once packed is FAILED */
} FileWeights;


/* Whether the kernel can take the panels' memory by itself. */
static gboolean
has_panel_file (const FileWeights *self)
{
  return self->repacked != NULL && self->repacked->map != NULL;
}

/* Of the file's bytes those that are weights are nearly all: so much of them as of it. */
static guint64
get_file_held (const FileWeights *self)
{
  guint64 size = llm_file_map_get_size (self->gguf->map);

  return self->file_kept == size
           ? self->file_bytes
           : (guint64) ((double) self->file_bytes * ((double) self->file_kept / (double) size));
}

static void
tell_held (FileWeights *self,
           guint64      absent)
{
  guint64 in_file = get_file_held (self);

  llm_weights_set_held (&self->parent, self->ledger, in_file + self->kept,
                        in_file + (has_panel_file (self) ? self->kept : 0), absent);
}

/* Whether the tensor is read from the file, and counts: an output that is the embedding does
 * not count again. */
static gboolean
is_in_file (const FileWeights *self,
            LlmOperator        op,
            guint              layer)
{
  return self->parts[layer * LLM_N_OPS + op].tensor != NULL
         && (op != LLM_OP_OUTPUT || !self->has_tied_output)
         && (self->repacked == NULL
             || llm_repacked_plan_find (self->repacked->plan, op, layer) == NULL);
}

/* (element-type LlmWeightPiece) (transfer full) */
static GArray *
list_file_pieces (FileWeights *self)
{
  GArray *pieces = llm_weights_new_pieces ();

  for (guint i = 0; i < self->n_layers * LLM_N_OPS; i++)
    {
      const LlmTensorPart *part = &self->parts[i];

      if (part->offset < self->file_kept && is_in_file (self, i % LLM_N_OPS, i / LLM_N_OPS))
        llm_weights_add_piece (pieces, self->gguf->map, part->offset,
                               MIN ((guint64) part->row_bytes * part->n_out,
                                    self->file_kept - part->offset));
    }
  return pieces;
}

GArray *
llm_weights_list_pieces (LlmWeights *weights)
{
  FileWeights *self = (FileWeights *) weights;
  GArray *pieces = list_file_pieces (self);

  if (has_panel_file (self) && self->kept > 0)
    llm_weights_add_piece (pieces, self->repacked->map, self->repacked->plan->data_offset,
                           self->kept);
  return pieces;
}

/* --- dropping and taking --- */

static gpointer
pack_again (gpointer data)
{
  FileWeights *self = data;
  gboolean is_packed = llm_repack_in_memory (self->repacked->plan, self->n_threads,
                                             self->repacked->data, &self->error);

  __atomic_store_n (&self->packed, is_packed ? LLM_READY : LLM_FAILED, __ATOMIC_RELEASE);
  return NULL;
}

static void
end_packing (FileWeights *self)
{
  if (self->packing != NULL)
    g_thread_join (g_steal_pointer (&self->packing));
}

/* Panels in memory are good for something only all together. */
static guint64
drop_memory (FileWeights *self)
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

/* The end of what is kept of a file's @map, of which @first bytes are others: @bytes that are in
 * memory, or a little more. @kept: (inout). Returns the bytes in memory that go. */
static guint64
find_tail (LlmFileMap *map,
           guint64     first,
           guint64     bytes,
           guint64    *kept,
           guint64    *absent)
{
  guint64 resident;
  guint64 tail = llm_file_map_find_resident_tail (map, first + *kept, bytes, &resident);
  guint64 gone = first + *kept - MAX (tail, first);

  resident = MIN (resident, gone);
  *absent -= MIN (*absent, gone - resident);
  *kept -= gone;
  return resident;
}

/* What is read from the file, all of it. */
static guint64
drop_file (FileWeights *self,
           guint64     *absent)
{
  g_autoptr(GArray) pieces = list_file_pieces (self);
  guint64 resident;

  if (self->file_kept == 0 || llm_file_map_get_fd (self->gguf->map) < 0)
    return 0;
  resident = llm_weights_count_resident (pieces);
  resident = MIN (resident, self->file_bytes);
  *absent -= MIN (*absent, self->file_bytes - resident);
  llm_file_map_drop (self->gguf->map, 0, self->file_kept);
  self->file_kept = 0;
  return resident;
}

/* The end of the panels, and when that is not enough what is only in the file. */
guint64
llm_weights_drop (LlmWeights *weights,
                  guint64     bytes)
{
  FileWeights *self = (FileWeights *) weights;
  guint64 absent = weights->absent;
  guint64 before, resident = 0;

  if (bytes == 0)
    return 0;
  if (self->repacked == NULL)
    {
      if (llm_file_map_get_fd (self->gguf->map) < 0)
        return 0;
      before = self->file_kept;
      resident = find_tail (self->gguf->map, 0, bytes, &self->file_kept, &absent);
      llm_file_map_drop (self->gguf->map, self->file_kept, before - self->file_kept);
    }
  else if (!has_panel_file (self))
    {
      resident = drop_memory (self) + drop_file (self, &absent);
    }
  else
    {
      if (self->kept > 0)
        {
          before = self->kept;
          resident = find_tail (self->repacked->map, self->repacked->plan->data_offset, bytes,
                                &self->kept, &absent);
          llm_repacked_drop (self->repacked, self->kept, before - self->kept);
        }
      if (resident < bytes)
        resident += drop_file (self, &absent);
    }
  tell_held (self, absent);
  return resident;
}

/* What was reclaimed is not there before it is read. */
LlmStatus
llm_weights_take (LlmWeights *weights)
{
  FileWeights *self = (FileWeights *) weights;
  LlmStatus packed = __atomic_load_n (&self->packed, __ATOMIC_ACQUIRE);
  guint64 absent = weights->absent + self->file_bytes - get_file_held (self);

  self->file_kept = llm_file_map_get_size (self->gguf->map);
  if (self->repacked != NULL)
    {
      if (has_panel_file (self))
        absent += self->repacked->plan->bytes - self->kept;
      self->kept = self->repacked->plan->bytes;
      if (self->staying == self->repacked->plan->bytes)
        llm_repacked_set_dropped (self->repacked, FALSE);
    }
  tell_held (self, absent);
  if (packed == LLM_PENDING && self->packing == NULL)
    self->packing = g_thread_new ("llm-pack", pack_again, self);
  else if (packed != LLM_PENDING)
    end_packing (self);
  return packed;
}

/* --- in use --- */

/* The panels alone, as that is what most of the time is spent with. */
gboolean
llm_weights_read_ahead (LlmWeights *weights,
                        guint64     at,
                        guint64     bytes)
{
  FileWeights *self = (FileWeights *) weights;

  if (self->repacked == NULL)
    {
      llm_file_map_prefetch (self->gguf->map, at, bytes);
      return at + bytes < llm_file_map_get_size (self->gguf->map);
    }
  if (!has_panel_file (self) || at >= self->repacked->plan->bytes)
    return FALSE;
  llm_file_map_prefetch (self->repacked->map, self->repacked->plan->data_offset + at, bytes);
  return at + bytes < self->repacked->plan->bytes;
}

void
llm_weights_keep (LlmWeights *weights,
                  guint64     bytes)
{
  FileWeights *self = (FileWeights *) weights;
  guint64 before = self->staying;

  if (!has_panel_file (self))
    return;
  self->staying = MIN (bytes, self->repacked->plan->bytes);
  if (self->staying < before)
    llm_repacked_drop (self->repacked, self->staying, before - self->staying);
  else if (self->staying > before && self->staying == self->kept)
    llm_repacked_set_dropped (self->repacked, FALSE);
}

/* What of @matrix does not stay. */
static guint64
get_passing (const FileWeights       *self,
             const LlmRepackedMatrix *matrix,
             guint64                 *offset)
{
  guint64 end = matrix->offset + (guint64) matrix->n_panels * matrix->panel_bytes;

  *offset = MAX (matrix->offset, self->staying);
  return end > *offset ? end - *offset : 0;
}

static void
view_panels (FileWeights             *self,
             const LlmRepackedMatrix *matrix,
             LlmWeightView           *view)
{
  guint64 offset;
  guint64 passing = get_passing (self, matrix, &offset);

  *view = (LlmWeightView) {
    .data = self->repacked->data + matrix->offset,
    .type = matrix->part.type,
    .layout = LLM_LAYOUT_PANELS,
    .in_count = matrix->part.n_in,
    .out_count = matrix->part.n_out,
  };
  if (passing > 0)
    {
      llm_file_map_prefetch (self->repacked->map, self->repacked->plan->data_offset + offset,
                             passing + PASS_AHEAD_BYTES);
      view->lease = (gpointer) matrix;
    }
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
  FileWeights *self = (FileWeights *) weights;
  LlmStatus packed = __atomic_load_n (&self->packed, __ATOMIC_ACQUIRE);
  const LlmRepackedMatrix *matrix = NULL;
  const LlmTensorPart *part;

  g_return_val_if_fail ((guint) op < LLM_N_OPS, LLM_FAILED);
  g_return_val_if_fail (!llm_operator_is_layered (op) || layer < self->n_layers, LLM_FAILED);
  g_return_val_if_fail (segment == 0, LLM_FAILED);

  /* packing may end between this look and take(): then the weights are there */
  if (packed == LLM_PENDING)
    packed = llm_weights_take (weights);
  if (packed == LLM_PENDING)
    return packed;
  if (packed == LLM_FAILED)
    {
      end_packing (self);
      g_propagate_error (error, g_error_copy (self->error));
      return LLM_FAILED;
    }

  if (!llm_operator_is_layered (op))
    layer = 0;
  if (self->repacked != NULL)
    matrix = llm_repacked_plan_find (self->repacked->plan, op, layer);
  part = &self->parts[layer * LLM_N_OPS + op];
  memset (view, 0, sizeof *view);
  if (matrix != NULL)
    view_panels (self, matrix, view);
  else if (part->tensor != NULL)
    *view = (LlmWeightView) {
      .data = llm_file_map_get_data (self->gguf->map) + part->offset,
      .type = part->type,
      .layout = LLM_LAYOUT_ROWS,
      .row_bytes = part->row_bytes,
      .in_count = part->n_in,
      .out_count = part->n_out,
    };
  return LLM_READY;
}

static void
release (LlmWeights    *weights,
         LlmWeightView *view)
{
  FileWeights *self = (FileWeights *) weights;

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
  FileWeights *self = (FileWeights *) weights;

  if (has_panel_file (self) && llm_file_map_is_damaged (self->repacked->map))
    return llm_gguf_fail (self->gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "the prepared copy of the file was changed while it was in use: answers "
                          "made with it since are worthless");
  if (llm_file_map_is_damaged (self->gguf->map))
    return llm_gguf_fail (self->gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "the file was changed while it was in use: answers made with it since "
                          "are worthless");
  return TRUE;
}

static void
free_weights (LlmWeights *weights)
{
  FileWeights *self = (FileWeights *) weights;
  LlmFileMap *map = self->gguf->map;

  end_packing (self);
  g_clear_error (&self->error);
  llm_weights_set_held (weights, self->ledger, 0, 0, 0);
  g_clear_pointer (&self->ledger, llm_ledger_unref);
  if (self->repacked != NULL)
    llm_repacked_end (self->repacked, weights->keeps_cache);
  if (!weights->keeps_cache)
    llm_file_map_drop (map, 0, llm_file_map_get_size (map));
  llm_gguf_unref (self->gguf);
  g_free (self->parts);
  llm_sub_models_free (self->own_sub_models);
  g_free (self);
}

static const LlmWeightProvider file_provider = {
  .acquire = acquire,
  .release = release,
  .check = check,
  .free = free_weights,
};

/* --- making --- */

/* @repacked: (transfer full) (nullable). A tensor that several operators share counts for
 * each part of it. */
static LlmWeights *
new_weights (LlmGguf           *gguf,
             const LlmHparams  *hparams,
             LlmTensorPart     *parts,
             LlmRepacked       *repacked,
             guint              n_threads,
             LlmLedger         *ledger)
{
  FileWeights *self = g_new0 (FileWeights, 1);

  self->parent.provider = &file_provider;
  self->own_sub_models = llm_sub_models_new_whole (hparams);
  self->parent.sub_models = self->own_sub_models;
  self->gguf = llm_gguf_ref (gguf);
  self->ledger = ledger != NULL ? llm_ledger_ref (ledger) : NULL;
  self->n_layers = hparams->n_layers;
  self->has_tied_output = hparams->has_tied_output;
  self->parts = parts;
  self->repacked = repacked;
  self->n_threads = n_threads;
  self->packed = LLM_READY;
  for (guint i = 0; i < self->n_layers * LLM_N_OPS; i++)
    if (is_in_file (self, i % LLM_N_OPS, i / LLM_N_OPS))
      self->file_bytes += (guint64) parts[i].row_bytes * parts[i].n_out;
  /* in memory, as long as nobody has asked the kernel */
  self->file_kept = llm_file_map_get_size (gguf->map);
  self->staying = self->kept = repacked != NULL ? repacked->plan->bytes : 0;
  self->parent.bytes = self->file_bytes + self->kept;
  tell_held (self, 0);
  return &self->parent;
}

LlmWeights *
llm_weights_new_mapped (LlmGguf           *gguf,
                        const LlmHparams  *hparams,
                        LlmLedger         *ledger,
                        GError           **error)
{
  LlmTensorPart *parts = llm_weights_find_parts (gguf, hparams, error);

  return parts != NULL ? new_weights (gguf, hparams, parts, NULL, 0, ledger) : NULL;
}

LlmWeights *
llm_weights_new_repacked (LlmGguf           *gguf,
                          const LlmHparams  *hparams,
                          LlmRepackedCache  *cache,
                          guint              n_threads,
                          LlmLedger         *ledger,
                          GError           **error)
{
  g_autofree LlmTensorPart *parts = llm_weights_find_parts (gguf, hparams, error);
  g_autoptr(LlmRepackedPlan) plan = NULL;
  LlmRepacked *repacked = NULL;

  if (parts != NULL)
    plan = llm_repacked_plan_new (gguf, hparams, error);
  if (plan != NULL)
    repacked = llm_repacked_cache_get (cache, plan, n_threads, error);
  return repacked != NULL ? new_weights (gguf, hparams, g_steal_pointer (&parts), repacked,
                                         n_threads, ledger)
                          : NULL;
}
