/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "split-weights.h"

#include "kernels/llk.h"

typedef struct
{
  LlmWeights parent;
  LlmWeights *inner;           /* (owned) */
  const LlmHparams *hparams;
  SplitConfig config;
  SplitCounts *counts;
  LlmSubModels table;          /* its borders are not those that llm_sub_models_new() wants */
} SplitWeights;

/* The lease of a copy. */
typedef struct
{
  gpointer inner;        /* the lease of what was copied */
  float *values;
  guint32 *channels;
} Copy;

static void
cut_outputs (LlmWeightView *view,
             guint          first,
             guint          count)
{
  view->data = (const guint8 *) view->data + first * view->row_bytes;
  view->out_first = first;
  view->out_count = count;
}

static void
cut_inputs (LlmWeightView *view,
            guint          first,
            guint          count)
{
  gsize block = llk_type_block_size (view->type);

  g_assert (first % block == 0 && count % block == 0);
  view->data = (const guint8 *) view->data + first / block * llk_type_block_bytes (view->type);
  view->in_first = first;
  view->in_count = count;
}

static void
cut (SplitWeights  *self,
     LlmOperator    op,
     guint          layer,
     guint          segment,
     LlmWeightView *view)
{
  LlmSegmentShape shape = llm_sub_models_get_shape (&self->table, self->hparams, op, layer, segment);

  if (shape.in_count != view->in_count && shape.in_count > 0)
    cut_inputs (view, shape.in_first, shape.in_count);
  if (shape.out_count != view->out_count || shape.in_count == 0)
    cut_outputs (view, shape.out_first, shape.in_count > 0 ? shape.out_count : 0);
}

/* The same inputs, the last one first. */
static void
copy_with_channels (LlmWeightView *view)
{
  Copy *copy = g_new (Copy, 1);
  guint n = view->in_count;
  g_autofree float *row = g_new (float, n);

  copy->values = g_new (float, (gsize) n * view->out_count);
  copy->channels = g_new (guint32, n);
  for (guint i = 0; i < n; i++)
    copy->channels[i] = view->in_first + n - 1 - i;
  for (guint o = 0; o < view->out_count; o++)
    {
      llk_ops_portable ()->vector->unpack (view->type,
                                           (const guint8 *) view->data + o * view->row_bytes, row,
                                           n);
      for (guint i = 0; i < n; i++)
        copy->values[(gsize) o * n + i] = row[n - 1 - i];
    }
  view->data = copy->values;
  view->type = LLK_F32;
  view->row_bytes = n * sizeof (float);
  view->in_first = 0;
  view->channels = copy->channels;
  copy->inner = view->lease;
  view->lease = copy;
}

static LlmStatus
acquire (LlmWeights          *weights,
         LlmOperator          op,
         guint                layer,
         guint                segment,
         const LlmActivation *activation,
         LlmWeightView       *view,
         GError             **error)
{
  SplitWeights *self = (SplitWeights *) weights;
  LlmStatus status;

  if (self->config.is_pending && g_test_rand_bit ())
    {
      self->counts->n_pending++;
      return LLM_PENDING;
    }

  status = llm_weights_acquire (self->inner, op, layer, 0, activation, view, error);
  g_assert (status == LLM_READY);
  cut (self, op, layer, segment, view);
  if (self->config.has_channels && op == LLM_OP_FFN_DOWN)
    {
      g_assert (activation != NULL && activation->values != NULL);
      copy_with_channels (view);
      if (self->config.claims_panels)
        view->layout = LLM_LAYOUT_PANELS;
    }

  self->counts->n_acquired++;
  self->counts->n_held++;
  self->counts->n_most_held = MAX (self->counts->n_most_held, self->counts->n_held);
  return LLM_READY;
}

static void
release (LlmWeights    *weights,
         LlmWeightView *view)
{
  SplitWeights *self = (SplitWeights *) weights;
  g_assert (self->counts->n_held > 0);
  self->counts->n_held--;
  if (self->config.has_channels && view->channels != NULL)
    {
      Copy *copy = view->lease;

      view->lease = copy->inner;
      g_free (copy->values);
      g_free (copy->channels);
      g_free (copy);
    }
  llm_weights_release (self->inner, view);
}

static gboolean
check (LlmWeights *weights,
       GError    **error)
{
  return llm_weights_check (((SplitWeights *) weights)->inner, error);
}

static void
free_weights (LlmWeights *weights)
{
  SplitWeights *self = (SplitWeights *) weights;

  g_assert (self->counts->n_held == 0);
  llm_weights_free (self->inner);
  g_free (self->table.n_groups);
  g_free (self->table.n_channels);
  g_free (self);
}

static const LlmWeightProvider split_provider = {
  .acquire = acquire,
  .release = release,
  .check = check,
  .free = free_weights,
};

/* At least @least of @whole, rising with the level; a little earlier in each layer than in the one
 * before. */
static guint
get_count (guint level,
           guint n_levels,
           guint layer,
           guint whole)
{
  guint shift = n_levels > 2 && level + 1 < n_levels ? layer % 2 : 0;

  return MAX ((level + 1 + shift) * whole / n_levels, 1);
}

static void
fill_table (LlmSubModels     *table,
            const LlmHparams *hparams,
            guint             n_levels)
{
  table->n_levels = n_levels;
  table->n_layers = hparams->n_layers;
  table->n_groups = g_new (guint, hparams->n_layers * n_levels);
  table->n_channels = g_new (guint, hparams->n_layers * n_levels);
  for (guint level = 0; level < n_levels; level++)
    {
      table->percent[level] = (guint8) (100 * (level + 1) / n_levels);
      for (guint layer = 0; layer < hparams->n_layers; layer++)
        {
          guint at = layer * n_levels + level;

          table->n_groups[at] = get_count (level, n_levels, layer, hparams->n_kv_heads);
          table->n_channels[at] = 32 * get_count (level, n_levels, layer, hparams->n_ff / 32);
        }
    }
}

LlmWeights *
split_weights_new (LlmWeights        *inner,
                   const LlmHparams  *hparams,
                   const SplitConfig *config,
                   SplitCounts       *counts)
{
  SplitWeights *self = g_new0 (SplitWeights, 1);

  self->parent.provider = &split_provider;
  self->parent.sub_models = &self->table;
  fill_table (&self->table, hparams, config->n_levels);
  self->parent.bytes = inner->bytes;
  self->inner = inner;
  self->hparams = hparams;
  self->config = *config;
  self->counts = counts;
  return &self->parent;
}
