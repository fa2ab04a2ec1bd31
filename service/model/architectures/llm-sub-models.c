/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "model/architectures/llm-sub-models.h"

#include "base/llm-fail.h"
#include "common/llmsvc-error.h"

#include <string.h>

static LlmSubModels *
copy (const LlmHparams *hparams,
      guint             n_levels,
      const guint8     *percent,
      const guint      *n_groups,
      const guint      *n_channels)
{
  LlmSubModels *self = g_new0 (LlmSubModels, 1);
  gsize n = (gsize) hparams->n_layers * n_levels;

  self->n_levels = n_levels;
  self->n_layers = hparams->n_layers;
  memcpy (self->percent, percent, n_levels);
  self->n_groups = g_memdup2 (n_groups, n * sizeof (guint));
  self->n_channels = g_memdup2 (n_channels, n * sizeof (guint));
  return self;
}

LlmSubModels *
llm_sub_models_new_whole (const LlmHparams *hparams)
{
  static const guint8 percent = 100;
  g_autofree guint *n_groups = g_new (guint, hparams->n_layers);
  g_autofree guint *n_channels = g_new (guint, hparams->n_layers);

  for (guint i = 0; i < hparams->n_layers; i++)
    {
      n_groups[i] = hparams->layers[i].n_kv_heads;
      n_channels[i] = hparams->layers[i].n_ff;
    }
  return copy (hparams, 1, &percent, n_groups, n_channels);
}

/* Values of the queries of a KV head. */
static guint
get_group_width (const LlmHparams *hparams,
                 guint             layer)
{
  const LlmLayer *l = &hparams->layers[layer];

  return l->n_heads / l->n_kv_heads * l->head_dim;
}

static gboolean
check_counts (const char   *what,
              const guint  *counts,
              guint         n_levels,
              guint         whole,
              guint         n_inputs,
              guint         layer,
              GError      **error)
{
  for (guint i = 0; i < n_levels; i++)
    if (counts[i] == 0 || (i > 0 && counts[i] < counts[i - 1])
        || (i + 1 < n_levels ? counts[i] > whole : counts[i] != whole))
      return llm_fail (error, LLMSVC_ERROR_INVALID_MODEL,
                       "Level %u has %u %s of layer %u; levels must rise to the model's %u", i,
                       counts[i], what, layer, whole);
    else if (counts[i] != whole && counts[i] * n_inputs % LLM_SEGMENT_INPUTS != 0)
      return llm_fail (error, LLMSVC_ERROR_INVALID_MODEL,
                       "Level %u ends layer %u at %u %s, which are not a multiple of %u inputs", i,
                       layer, counts[i], what, LLM_SEGMENT_INPUTS);
  return TRUE;
}

LlmSubModels *
llm_sub_models_new (const LlmHparams  *hparams,
                    guint              n_levels,
                    const guint8      *percent,
                    const guint       *n_groups,
                    const guint       *n_channels,
                    GError           **error)
{
  gboolean rises;

  rises = n_levels >= 1 && n_levels <= LLM_MAX_LEVELS && percent[n_levels - 1] == 100;
  for (guint i = 0; rises && i < n_levels; i++)
    rises = percent[i] > (i > 0 ? percent[i - 1] : 0);
  if (!rises)
    {
      llm_fail (error, LLMSVC_ERROR_INVALID_MODEL,
                "Sub-models must be 1 to %u levels that rise to 100 percent", LLM_MAX_LEVELS);
      return NULL;
    }
  if (n_levels > 1 && hparams->experts.n > 0)
    {
      llm_fail (error, LLMSVC_ERROR_INVALID_MODEL, "A model with experts has no sub-models");
      return NULL;
    }
  for (guint layer = 0; layer < hparams->n_layers; layer++)
    if (!check_counts ("groups of heads", n_groups + (gsize) layer * n_levels, n_levels,
                       hparams->layers[layer].n_kv_heads, get_group_width (hparams, layer), layer,
                       error)
        || !check_counts ("channels", n_channels + (gsize) layer * n_levels, n_levels,
                          hparams->layers[layer].n_ff, 1, layer, error))
      return NULL;
  return copy (hparams, n_levels, percent, n_groups, n_channels);
}

void
llm_sub_models_free (LlmSubModels *self)
{
  if (self == NULL)
    return;
  g_free (self->n_groups);
  g_free (self->n_channels);
  g_free (self);
}

/* The part from the count below @segment on, in units of @size. */
static void
cut (const guint *counts,
     guint        segment,
     guint        size,
     guint       *first,
     guint       *count)
{
  *first = segment > 0 ? counts[segment - 1] * size : 0;
  *count = counts[segment] * size - *first;
}

guint
llm_sub_models_find_level (const LlmSubModels *self,
                           guint               percent)
{
  guint level = 0;

  while (level + 1 < self->n_levels && self->percent[level] < percent)
    level++;
  return level;
}

LlmSegmentShape
llm_sub_models_get_shape (const LlmSubModels *self,
                          const LlmHparams   *hparams,
                          LlmOperator         op,
                          guint               layer,
                          guint               segment)
{
  const guint *n_groups = self->n_groups + (gsize) layer * self->n_levels;
  const guint *n_channels = self->n_channels + (gsize) layer * self->n_levels;
  guint n_kv_heads = hparams->layers[layer].n_kv_heads;
  LlmSegmentShape shape = { 0 };

  llm_operator_get_shape (hparams, op, layer, &shape.in_count, &shape.out_count);
  switch (op)
    {
    case LLM_OP_QUERY:
      cut (n_groups, segment, shape.out_count / n_kv_heads, &shape.out_first, &shape.out_count);
      break;
    case LLM_OP_ATTENTION_OUT:
      cut (n_groups, segment, shape.in_count / n_kv_heads, &shape.in_first, &shape.in_count);
      break;
    case LLM_OP_FFN_GATE:
    case LLM_OP_FFN_UP:
      cut (n_channels, segment, 1, &shape.out_first, &shape.out_count);
      break;
    case LLM_OP_FFN_DOWN:
      cut (n_channels, segment, 1, &shape.in_first, &shape.in_count);
      break;
    default:
      if (segment > 0)
        shape = (LlmSegmentShape) { 0 };
    }
  return shape;
}

/* Of one operator of one layer, as many inputs and outputs as the level has. */
static void
add_cost (const LlmTensorPart   *part,
          LlmOperator            op,
          const LlmHparams      *hparams,
          guint64                n_in,
          guint64                n_out,
          LlmSubModelCost       *cost)
{
  guint64 bytes = n_in / llk_type_block_size (part->type) * llk_type_block_bytes (part->type)
                  * n_out;

  /* a tied output is the embedding, which is held once */
  if (op != LLM_OP_OUTPUT || !hparams->has_tied_output)
    cost->weights += n_in * n_out;
  if (llm_operator_is_looked_up (op))
    return;
  cost->bytes += bytes;
  if (llm_operator_is_matrix (op))
    cost->operations += n_in * n_out;
}

gboolean
llm_sub_models_measure (const LlmSubModels  *self,
                        LlmGguf             *gguf,
                        const LlmHparams    *hparams,
                        guint                level,
                        LlmSubModelCost     *cost,
                        GError             **error)
{
  *cost = (LlmSubModelCost) { 0 };
  for (guint op = 0; op < LLM_N_OPS; op++)
    for (guint layer = 0; layer < llm_operator_count_layers (hparams, op); layer++)
      {
        LlmTensorPart part;
        guint64 n_in, n_out;

        if (!llm_operator_find (gguf, hparams, op, layer, &part, error))
          return FALSE;
        if (part.tensor == NULL)
          continue;
        n_in = part.n_in;
        n_out = part.n_out;
        for (guint segment = level + 1; segment < self->n_levels; segment++)
          {
            LlmSegmentShape shape =
              llm_sub_models_get_shape (self, hparams, op, layer, segment);

            n_in -= shape.in_count < part.n_in ? shape.in_count : 0;
            n_out -= shape.out_count < part.n_out ? shape.out_count : 0;
          }
        add_cost (&part, op, hparams, n_in, n_out, cost);
      }
  for (guint layer = 0; layer < hparams->n_layers; layer++)
    cost->operations += 2 * (guint64) llm_sub_models_get_groups (self, layer, level)
                        * get_group_width (hparams, layer) * LLM_SUB_MODEL_DEPTH;
  return TRUE;
}
