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
} SplitWeights;

/* The lease of a copy. */
typedef struct
{
  float *values;
  guint32 *channels;
} Copy;

static const guint8 percents[] = { 50, 100 };

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

/* The first half of the heads and of the network comes first; keys and values
 * all come with it. */
static void
cut (SplitWeights  *self,
     LlmOperator    op,
     guint          segment,
     LlmWeightView *view)
{
  guint query = self->hparams->n_heads / 2 * self->hparams->head_dim;
  guint ff = self->hparams->n_ff / 64 * 32;
  guint embd = self->hparams->n_embd / 2;

  if (op == LLM_OP_QUERY && self->config.cuts_query_inputs)
    {
      cut_inputs (view, segment * embd, embd);
      return;
    }

  switch ((int) op)
    {
    case LLM_OP_QUERY:
      cut_outputs (view, segment * query, segment == 0 ? query : view->out_count - query);
      break;
    case LLM_OP_FFN_GATE:
    case LLM_OP_FFN_UP:
      cut_outputs (view, segment * ff, segment == 0 ? ff : view->out_count - ff);
      break;
    case LLM_OP_ATTENTION_OUT:
      cut_inputs (view, segment * query, segment == 0 ? query : view->in_count - query);
      break;
    case LLM_OP_FFN_DOWN:
      cut_inputs (view, segment * ff, segment == 0 ? ff : view->in_count - ff);
      break;
    case LLM_OP_KEY:
    case LLM_OP_VALUE:
      if (segment == 1)
        cut_outputs (view, view->out_count, 0);
      break;
    default:
      g_assert (segment == 0);
    }
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
  if (self->config.n_segments == 2)
    cut (self, op, segment, view);
  if (self->config.has_channels && op == LLM_OP_FFN_DOWN)
    {
      g_assert (activation != NULL && activation->values != NULL);
      copy_with_channels (view);
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
  Copy *copy = view->lease;

  g_assert (self->counts->n_held > 0);
  self->counts->n_held--;
  if (copy != NULL)
    {
      g_free (copy->values);
      g_free (copy->channels);
      g_free (copy);
      view->lease = NULL;
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
  g_free (self);
}

static const LlmWeightProvider split_provider = {
  .acquire = acquire,
  .release = release,
  .check = check,
  .free = free_weights,
};

LlmWeights *
split_weights_new (LlmWeights        *inner,
                   const LlmHparams  *hparams,
                   const SplitConfig *config,
                   SplitCounts       *counts)
{
  SplitWeights *self = g_new0 (SplitWeights, 1);

  self->parent.provider = &split_provider;
  self->parent.n_segments = config->n_segments;
  self->parent.segment_percent = percents + 2 - config->n_segments;
  self->parent.bytes = inner->bytes;
  self->inner = inner;
  self->hparams = hparams;
  self->config = *config;
  self->counts = counts;
  return &self->parent;
}
