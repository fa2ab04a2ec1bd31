/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "weights/llm-weights.h"

#include <math.h>
#include <string.h>

#include "common/llmsvc-error.h"
#include "weights/llm-levels.h"

void
llm_weights_free (LlmWeights *self)
{
  LlmLevels *levels = self->levels;

  self->provider->free (self);
  g_clear_pointer (&levels, llm_levels_free);
}

static void
clear_piece (gpointer data)
{
  llm_file_map_unref (((LlmWeightPiece *) data)->map);
}

GArray *
llm_weights_new_pieces (void)
{
  GArray *pieces = g_array_new (FALSE, FALSE, sizeof (LlmWeightPiece));

  g_array_set_clear_func (pieces, clear_piece);
  return pieces;
}

void
llm_weights_add_piece (GArray     *pieces,
                       LlmFileMap *map,
                       guint64     offset,
                       guint64     length)
{
  LlmWeightPiece *last =
    pieces->len > 0 ? &g_array_index (pieces, LlmWeightPiece, pieces->len - 1) : NULL;
  LlmWeightPiece piece = { map, offset, length };

  if (length == 0)
    return;
  if (last != NULL && last->map == map && last->offset + last->length == offset)
    {
      last->length += length;
      return;
    }
  llm_file_map_ref (map);
  g_array_append_val (pieces, piece);
}

guint64
llm_weights_count_resident (GArray *pieces)
{
  guint64 resident = 0;

  for (guint i = 0; i < pieces->len; i++)
    {
      const LlmWeightPiece *piece = &g_array_index (pieces, LlmWeightPiece, i);

      resident += llm_file_map_count_resident (piece->map, piece->offset, piece->length);
    }
  return resident;
}

void
llm_weights_set_resident (LlmWeights *self,
                          LlmLedger  *ledger,
                          guint64     bytes)
{
  llm_weights_set_held (self, ledger, self->held, self->backed,
                        self->backed - MIN (bytes, self->backed));
}

/* Ordered so that a concurrent reader of the ledger never takes file-backed memory for anonymous
 * memory. */
void
llm_weights_set_held (LlmWeights *self,
                      LlmLedger  *ledger,
                      guint64     held,
                      guint64     backed,
                      guint64     absent)
{
  guint64 held_before = self->held;
  guint64 backed_before = self->backed;
  guint64 absent_before = self->absent;

  self->held = held;
  self->backed = backed;
  self->absent = MIN (absent, backed);
  if (ledger == NULL)
    return;
  if (self->absent > absent_before)
    llm_ledger_add (ledger, LLM_LEDGER_ABSENT, self->absent - absent_before);
  if (backed > backed_before)
    llm_ledger_add (ledger, LLM_LEDGER_BACKED, backed - backed_before);
  if (held > held_before)
    llm_ledger_add (ledger, LLM_HOLDER_WEIGHTS, held - held_before);
  else
    llm_ledger_remove (ledger, LLM_HOLDER_WEIGHTS, held_before - held);
  if (backed < backed_before)
    llm_ledger_remove (ledger, LLM_LEDGER_BACKED, backed_before - backed);
  if (self->absent < absent_before)
    llm_ledger_remove (ledger, LLM_LEDGER_ABSENT, absent_before - self->absent);
}

/* They divide. */
static gboolean
check_rope_factors (LlmGguf              *gguf,
                    const LlmTensorPart  *part,
                    GError              **error)
{
  const guint8 *data = llm_file_map_get_data (gguf->map) + part->offset;

  for (guint64 i = 0; part->tensor != NULL && i < part->n_in; i++)
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

LlmTensorPart *
llm_weights_find_parts (LlmGguf           *gguf,
                        const LlmHparams  *hparams,
                        GError           **error)
{
  g_autofree LlmTensorPart *parts = g_new0 (LlmTensorPart, (gsize) hparams->n_layers * LLM_N_OPS);

  if (!llm_operator_check_all (gguf, hparams, error))
    return NULL;
  for (guint op = 0; op < LLM_N_OPS; op++)
    for (guint layer = 0; layer < llm_operator_count_layers (hparams, op); layer++)
      if (!llm_operator_find (gguf, hparams, op, layer, &parts[layer * LLM_N_OPS + op], error))
        return NULL;
  if (!check_rope_factors (gguf, &parts[LLM_OP_ROPE_FACTORS], error) ||
      !check_rope_factors (gguf, &parts[LLM_OP_ROPE_FACTORS_SHORT], error) ||
      !check_rope_factors (gguf, &parts[LLM_OP_ROPE_FACTORS_LONG], error))
    return NULL;
  return g_steal_pointer (&parts);
}
