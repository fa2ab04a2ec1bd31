/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "weights/llm-weights.h"

#include <math.h>
#include <string.h>

#include "common/llmsvc-error.h"

typedef struct
{
  LlmWeights parent;

  LlmGguf *gguf;
  LlmLedger *ledger;        /* (nullable) */
  guint n_layers;
  gboolean has_tied_output; /* the output is the embedding, which has its place */
  LlmTensorPart *parts;     /* (owned): [n_layers × LLM_N_OPS], shared ones in layer 0 */
  guint64 kept;             /* bytes of the file that were not dropped, from its beginning */
} MappedWeights;

static const guint8 whole_model[] = { 100 };

static const void *
get_data (LlmGguf             *gguf,
          const LlmTensorPart *part)
{
  return llm_file_map_get_data (gguf->map) + part->offset;
}

/* They divide. */
static gboolean
check_rope_factors (LlmGguf              *gguf,
                    const LlmTensorPart  *part,
                    GError              **error)
{
  const guint8 *data = get_data (gguf, part);

  for (guint64 i = 0; i < part->n_in; i++)
    {
      float factor;

      memcpy (&factor, data + i * sizeof factor, sizeof factor);
      if (!isfinite (factor) || factor <= 0)
        return llm_gguf_fail (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                              "the tensor %s holds %g as its item %ju, numbers above 0 are needed",
                              part->tensor->name, (double) factor, i);
    }
  return TRUE;
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
  MappedWeights *self = (MappedWeights *) weights;
  const LlmTensorPart *part;

  g_return_val_if_fail ((guint) op < LLM_N_OPS, LLM_FAILED);
  g_return_val_if_fail (!llm_operator_is_layered (op) || layer < self->n_layers, LLM_FAILED);
  g_return_val_if_fail (segment == 0, LLM_FAILED);

  part = &self->parts[(llm_operator_is_layered (op) ? layer : 0) * LLM_N_OPS + op];
  memset (view, 0, sizeof *view);
  if (part->tensor != NULL)
    {
      view->data = get_data (self->gguf, part);
      view->type = part->type;
      view->layout = LLM_LAYOUT_ROWS;
      view->row_bytes = part->row_bytes;
      view->in_count = part->n_in;
      view->out_count = part->n_out;
    }
  return LLM_READY;
}

static void
release (LlmWeights    *weights,
         LlmWeightView *view)
{
  memset (view, 0, sizeof *view);
}

static gboolean
check (LlmWeights  *weights,
       GError     **error)
{
  MappedWeights *self = (MappedWeights *) weights;

  if (llm_file_map_is_damaged (self->gguf->map))
    return llm_gguf_fail (self->gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "the file was changed while it was in use: answers made with it since "
                          "are worthless");
  return TRUE;
}

/* Of the file's bytes those that are weights are nearly all: so much of them as of it. */
static void
tell_held (MappedWeights *self,
           guint64        absent)
{
  guint64 size = llm_file_map_get_size (self->gguf->map);
  guint64 held = (guint64) ((double) self->parent.bytes * ((double) self->kept / (double) size));

  if (self->kept == size)
    held = self->parent.bytes;
  llm_weights_set_held (&self->parent, self->ledger, held, held, absent);
}

static guint64
drop (LlmWeights *weights,
      guint64     bytes)
{
  MappedWeights *self = (MappedWeights *) weights;
  LlmFileMap *map = self->gguf->map;
  guint64 kept = self->kept;
  guint64 gone, resident;
  LlmFileIdentity identity;

  if (bytes == 0 || !llm_file_map_get_identity (map, &identity))
    return 0;
  self->kept = llm_file_map_find_resident_tail (map, kept, bytes, &resident);
  gone = kept - self->kept;
  llm_file_map_drop (map, self->kept, gone);
  tell_held (self, weights->absent - MIN (weights->absent, gone - resident));
  return resident;
}

/* What was given is not there before it is read. */
static LlmStatus
take (LlmWeights *weights)
{
  MappedWeights *self = (MappedWeights *) weights;
  guint64 resident = llm_weights_get_resident (weights);

  self->kept = llm_file_map_get_size (self->gguf->map);
  tell_held (self, weights->bytes - resident);
  return LLM_READY;
}

static void
list_pieces (LlmWeights *weights,
             GArray     *pieces)
{
  MappedWeights *self = (MappedWeights *) weights;

  for (guint i = 0; i < self->n_layers * LLM_N_OPS; i++)
    {
      const LlmTensorPart *part = &self->parts[i];

      if (part->tensor != NULL && part->offset < self->kept
          && (i != LLM_OP_OUTPUT || !self->has_tied_output))
        llm_weights_add_piece (pieces, self->gguf->map, part->offset,
                               MIN ((guint64) part->row_bytes * part->n_out,
                                    self->kept - part->offset));
    }
}

static gboolean
read_ahead (LlmWeights *weights,
            guint64     at,
            guint64     bytes)
{
  LlmFileMap *map = ((MappedWeights *) weights)->gguf->map;

  llm_file_map_prefetch (map, at, bytes);
  return at + bytes < llm_file_map_get_size (map);
}

static void
free_weights (LlmWeights *weights)
{
  MappedWeights *self = (MappedWeights *) weights;
  LlmFileMap *map = self->gguf->map;

  llm_weights_set_held (weights, self->ledger, 0, 0, 0);
  g_clear_pointer (&self->ledger, llm_ledger_unref);
  if (!weights->keeps_cache)
    llm_file_map_drop (map, 0, llm_file_map_get_size (map));
  llm_gguf_unref (self->gguf);
  g_free (self->parts);
  g_free (self);
}

static const LlmWeightProvider mapped_provider = {
  .acquire = acquire,
  .release = release,
  .check = check,
  .drop = drop,
  .take = take,
  .read_ahead = read_ahead,
  .list_pieces = list_pieces,
  .free = free_weights,
};

/* Fills in @parts, [n_layers × LLM_N_OPS], of a file whose tensors are checked. */
static gboolean
find_parts (LlmGguf           *gguf,
            const LlmHparams  *hparams,
            LlmTensorPart     *parts,
            GError           **error)
{
  static const LlmOperator factors[] = {
    LLM_OP_ROPE_FACTORS, LLM_OP_ROPE_FACTORS_SHORT, LLM_OP_ROPE_FACTORS_LONG,
  };

  for (guint op = 0; op < LLM_N_OPS; op++)
    for (guint layer = 0; layer < llm_operator_count_layers (hparams, op); layer++)
      if (!llm_operator_find (gguf, hparams, op, layer, &parts[layer * LLM_N_OPS + op], error))
        return FALSE;

  for (guint i = 0; i < G_N_ELEMENTS (factors); i++)
    if (parts[factors[i]].tensor != NULL && !check_rope_factors (gguf, &parts[factors[i]], error))
      return FALSE;
  return TRUE;
}

/* A tensor that several operators share counts for each part of it; an output that
 * is the embedding does not count again. */
static guint64
count_bytes (const LlmHparams    *hparams,
             const LlmTensorPart *parts)
{
  guint64 bytes = 0;

  for (guint op = 0; op < LLM_N_OPS; op++)
    for (guint layer = 0; layer < llm_operator_count_layers (hparams, op); layer++)
      if (op != LLM_OP_OUTPUT || !hparams->has_tied_output)
        bytes += (guint64) parts[layer * LLM_N_OPS + op].row_bytes *
                 parts[layer * LLM_N_OPS + op].n_out;
  return bytes;
}

LlmWeights *
llm_weights_new_mapped (LlmGguf           *gguf,
                        const LlmHparams  *hparams,
                        LlmLedger         *ledger,
                        GError           **error)
{
  g_autofree LlmTensorPart *parts = NULL;
  MappedWeights *self;

  g_return_val_if_fail (gguf != NULL, NULL);
  g_return_val_if_fail (hparams != NULL, NULL);

  parts = g_new0 (LlmTensorPart, (gsize) hparams->n_layers * LLM_N_OPS);
  if (!llm_operator_check_all (gguf, hparams, error) ||
      !find_parts (gguf, hparams, parts, error))
    return NULL;

  self = g_new0 (MappedWeights, 1);
  self->parent.provider = &mapped_provider;
  self->parent.n_segments = G_N_ELEMENTS (whole_model);
  self->parent.segment_percent = whole_model;
  self->parent.bytes = count_bytes (hparams, parts);
  self->gguf = llm_gguf_ref (gguf);
  self->n_layers = hparams->n_layers;
  self->has_tied_output = hparams->has_tied_output;
  self->parts = g_steal_pointer (&parts);

  if (ledger != NULL)
    self->ledger = llm_ledger_ref (ledger);
  /* in memory, as long as nobody has asked the kernel */
  self->kept = llm_file_map_get_size (gguf->map);
  tell_held (self, 0);
  return &self->parent;
}
