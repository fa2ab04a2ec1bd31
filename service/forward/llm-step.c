/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "forward/llm-forward-private.h"

#include <stdlib.h>
#include <string.h>

#include "base/llm-fail.h"

LlmStep *
llm_step_new (LlmPlan       *plan,
              LlmWorkerPool *pool,
              LlmLedger     *ledger)
{
  LlmStep *self = g_new0 (LlmStep, 1);

  self->plan = llm_plan_ref (plan);
  self->hparams = plan->hparams;
  self->weights = plan->weights;
  self->sub_models = plan->weights->sub_models;
  self->kernels = plan->config.kernels;
  self->pool = pool;
  self->ledger = ledger != NULL ? llm_ledger_ref (ledger) : NULL;
  for (guint i = 0; i < LLM_STEP_MAX_HOLDS; i++)
    {
      self->holds[i].views = g_new0 (LlmWeightView, LLM_STAGE_MAX_OPS * self->sub_models->n_levels);
      self->holds[i].adapted = g_array_new (FALSE, FALSE, sizeof (LlmAdapted));
    }
  self->views = g_array_new (FALSE, FALSE, sizeof (LlmKvView));
  self->first_view = g_array_new (FALSE, FALSE, sizeof (guint));
  self->drafted = g_array_new (FALSE, FALSE, sizeof (LlmDrafted));
  self->adapter_runs = g_array_new (FALSE, FALSE, sizeof (LlmAdapterRun));
  self->logit_runs = g_array_new (FALSE, FALSE, sizeof (LlmAdapterRun));
  return self;
}

void
llm_step_free (LlmStep *self)
{
  if (self == NULL)
    return;

  llm_step_abandon (self);
  llm_step_free_scratch (self);
  g_clear_pointer (&self->ledger, llm_ledger_unref);
  g_array_unref (self->views);
  g_array_unref (self->first_view);
  g_array_unref (self->drafted);
  g_array_unref (self->adapter_runs);
  g_array_unref (self->logit_runs);
  g_free (self->frequencies);
  for (guint i = 0; i < LLM_STEP_MAX_HOLDS; i++)
    {
      g_free (self->holds[i].views);
      g_array_unref (self->holds[i].adapted);
    }
  llm_plan_unref (self->plan);
  g_free (self);
}

/* --- the batch --- */

/* The level of the table that @sub_model names, n_levels when none does. */
static guint
find_level (LlmStep *self,
            guint8   sub_model)
{
  guint level = 0;

  while (level < self->sub_models->n_levels && self->sub_models->percent[level] != sub_model)
    level++;
  return level;
}

static gboolean
has_sparsity (const LlmThresholds *thresholds,
              guint                percent)
{
  return thresholds != NULL && llm_thresholds_find (thresholds, percent) < thresholds->n_sparsities;
}

static gboolean
check_row (LlmStep        *self,
           const LlmBatch *batch,
           guint           index,
           GError        **error)
{
  const LlmRow *row = &batch->rows[index];

  if (row->token < 0 || (guint) row->token >= self->hparams->n_vocab)
    return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "Token %d is not one of the model's %u", row->token, self->hparams->n_vocab);
  if (find_level (self, row->sub_model) == self->sub_models->n_levels)
    return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "The model has no sub-model of %u percent", row->sub_model);
  if (row->sparsity > 0 && !has_sparsity (self->plan->config.thresholds, row->sparsity))
    return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "The model has no thresholds for a sparsity of %u percent", row->sparsity);
  if (row->is_w8 && self->plan->config.w8 == NULL)
    return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "Row %u is in W8A8, for which the model has no backend", index);
  if (row->is_w8 != batch->rows[0].is_w8)
    return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "All rows of a step are in W8A8 or none; row %u is unlike the first", index);
  if (row->adapter > self->plan->config.n_adapters)
    return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "Row %u is for adapter %u of %u", index, row->adapter,
                     self->plan->config.n_adapters);
  if (row->sequence >= batch->n_sequences
      || row->slot >= batch->sequences[row->sequence]->length)
    return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "Row %u is for slot %u of sequence %u, which does not exist", index, row->slot,
                     row->sequence);
  if (row->adapter > 0 && batch->sequences[row->sequence]->folder != NULL)
    return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "Row %u is for adapter %u in a sequence that is kept on storage, where chunks "
                     "of adapters and of none look alike", index, row->adapter);
  if (!llm_visibility_is_valid (&row->visibility, row->slot))
    return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "Row %u is not the end of its path in the tree behind slot %u", index,
                     row->visibility.base);

  return TRUE;
}

/* Whether sequences of the layout are for the model. */
static gboolean
is_layout_of (const LlmKvStore *store,
              const LlmHparams *hparams)
{
  gboolean is_same = store->layout.n_layers == hparams->n_kv_layers;

  for (guint i = 0; is_same && i < hparams->n_kv_layers; i++)
    is_same = store->layers[i].n_kv_heads == hparams->layers[i].n_kv_heads
              && store->layers[i].head_dim == hparams->layers[i].head_dim;
  return is_same;
}

static gboolean
check_batch (LlmStep        *self,
             const LlmBatch *batch,
             GError        **error)
{
  if (batch->n_rows == 0 || batch->n_rows > LLM_BATCH_MAX_ROWS)
    return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "A step of %u rows is not possible: it has 1 to %u", batch->n_rows,
                     LLM_BATCH_MAX_ROWS);

  for (guint i = 0; i < batch->n_sequences; i++)
    if (!is_layout_of (batch->sequences[i]->store, self->hparams))
      return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                       "Sequence %u was made for another model", i);
  for (guint i = 0; i < batch->n_rows; i++)
    if (!check_row (self, batch, i, error))
      return FALSE;

  return TRUE;
}

static int
compare_keys (const void *a,
              const void *b)
{
  guint32 left = *(const guint32 *) a, right = *(const guint32 *) b;

  return (left > right) - (left < right);
}

/* Sorts the rows by level, the largest first, as a segment of weights is multiplied for the first
 * rows only; those of a level by adapter; and otherwise leaves their order. */
static void
sort_rows (LlmStep *self)
{
  const LlmBatch *batch = self->batch;
  guint highest = self->sub_models->n_levels - 1;
  guint32 keys[LLM_BATCH_MAX_ROWS];

  G_STATIC_ASSERT (LLM_BATCH_MAX_ROWS <= 1 << 16);
  for (guint i = 0; i < batch->n_rows; i++)
    keys[i] = (highest - find_level (self, batch->rows[i].sub_model)) << 24
              | (guint32) batch->rows[i].adapter << 16 | i;
  qsort (keys, batch->n_rows, sizeof keys[0], compare_keys);

  memset (self->rows.level_rows, 0, sizeof self->rows.level_rows);
  for (guint i = 0; i < batch->n_rows; i++)
    {
      self->rows.levels[i] = (guint8) (highest - (keys[i] >> 24));
      self->rows.order[i] = keys[i] & 0xffff;
      for (guint level = 0; level <= self->rows.levels[i]; level++)
        self->rows.level_rows[level] = i + 1;
    }
  self->rows.n_used_levels = self->rows.levels[0] + 1u;

  self->rows.has_sparse_rows = FALSE;
  self->rows.least_sparsity = batch->rows[0].is_w8 ? 0 : 100;
  self->rows.is_w8 = batch->rows[0].is_w8;
  self->rows.n_logits = 0;
  self->rows.n_done_rows = batch->n_rows;
  for (guint i = 0; i < batch->n_rows; i++)
    {
      guint row = self->rows.order[i];

      self->rows.has_sparse_rows = self->rows.has_sparse_rows || batch->rows[row].sparsity > 0;
      self->rows.least_sparsity = MIN (self->rows.least_sparsity, batch->rows[row].sparsity);
      self->rows.logits_of[row] = -1;
      if (batch->rows[row].wants_logits)
        {
          self->rows.wanting[self->rows.n_logits] = i;
          self->rows.logits_of[row] = (gint) self->rows.n_logits++;
        }
    }
}

/* @rows: (nullable): those that are neighbours, by place in the order of rows; NULL for all. */
static void
find_runs (LlmStep     *self,
           const guint *rows,
           guint        n_rows,
           GArray      *runs)
{
  guint adapter_before = 0, level_before = 0;

  g_array_set_size (runs, 0);
  for (guint i = 0; i < n_rows && self->plan->n_adapters > 0; i++)
    {
      guint row = rows != NULL ? rows[i] : i;
      guint level = self->rows.levels[row];
      guint own = llm_step_get_row (self, row)->adapter;
      guint adapter = own > 0 ? own : self->plan->level_adapters[level];

      if (adapter > 0 && adapter == adapter_before && level == level_before)
        g_array_index (runs, LlmAdapterRun, runs->len - 1).n_rows++;
      else if (adapter > 0)
        {
          LlmAdapterRun run = { i, 1, level, self->plan->adapters[adapter - 1] };

          g_array_append_val (runs, run);
        }
      adapter_before = adapter;
      level_before = level;
    }
}

static void
count_chunks (LlmStep *self)
{
  guint n = 0;

  g_array_set_size (self->first_view, self->batch->n_sequences + 1);
  for (guint i = 0; i < self->batch->n_sequences; i++)
    {
      guint n_chunks = self->batch->sequences[i]->holds->len;

      g_array_index (self->first_view, guint, i) = n;
      n += n_chunks;
    }
  g_array_index (self->first_view, guint, self->batch->n_sequences) = n;
  g_array_set_size (self->views, n);
}

static void
find_groups (LlmStep *self,
             guint    layer)
{
  for (guint r = 0; r < self->batch->n_rows; r++)
    self->rows.n_groups[r] = llm_sub_models_get_groups (self->sub_models, layer,
                                                        self->rows.levels[r]);
  self->rows.groups_layer = layer;
}

gboolean
llm_step_begin (LlmStep        *self,
                const LlmBatch *batch,
                GError        **error)
{
  g_return_val_if_fail (self->batch == NULL, FALSE);

  self->rows.n_done_rows = 0;
  if (!check_batch (self, batch, error))
    return FALSE;

  self->batch = batch;
  sort_rows (self);
  find_runs (self, NULL, batch->n_rows, self->adapter_runs);
  find_runs (self, self->rows.wanting, self->rows.n_logits, self->logit_runs);
  find_groups (self, 0);
  count_chunks (self);
  llm_step_place_masses (self);
  if (!llm_step_reserve (self, error))
    {
      self->batch = NULL;
      self->rows.n_done_rows = 0;
      return FALSE;
    }
  return TRUE;
}

/* --- its stages --- */

guint
llm_step_get_n_nodes (LlmStep *self)
{
  return self->rows.n_logits > 0 ? self->plan->n_nodes : self->plan->first_exit;
}

/* The hold of @node, or a free place; NULL without one. */
static LlmHold *
find_hold (LlmStep           *self,
           const LlmPlanNode *node)
{
  LlmHold *place = NULL;

  for (guint i = LLM_STEP_MAX_HOLDS; i-- > 0;)
    if (self->holds[i].node == node)
      return &self->holds[i];
    else if (self->holds[i].node == NULL)
      place = &self->holds[i];
  return place;
}

static LlmStatus
acquire (LlmStep           *self,
         const LlmPlanNode *node,
         gboolean           is_early,
         GError           **error)
{
  self->layer = node->layer;
  self->hold = find_hold (self, node);
  if (self->hold == NULL)
    return LLM_PENDING;
  self->hold->node = node;
  return llm_step_hold (self, is_early, error);
}

LlmStatus
llm_step_acquire (LlmStep           *self,
                  const LlmPlanNode *node,
                  GError           **error)
{
  return acquire (self, node, TRUE, error);
}

LlmStatus
llm_step_run (LlmStep           *self,
              const LlmPlanNode *node,
              GError           **error)
{
  LlmStatus status = acquire (self, node, FALSE, error);

  if (status != LLM_READY)
    return status;
  if (self->rows.groups_layer != node->layer)
    find_groups (self, node->layer);
  do
    {
      status = llm_step_poll (self, error);
      if (status != LLM_READY)
        return status;
      status = node->stage->run (self, node->stage, error);
    }
  while (status == LLM_PENDING && self->hold->n_ops > 0);
  if (status == LLM_READY)
    llm_step_release (self, self->hold);
  return status;
}

static void
end_step (LlmStep *self)
{
  for (guint i = 0; i < LLM_STEP_MAX_HOLDS; i++)
    llm_step_release (self, &self->holds[i]);
  self->batch = NULL;
}

void
llm_step_abandon (LlmStep *self)
{
  if (self->batch == NULL)
    return;

  end_step (self);
  self->rows.n_done_rows = 0;
}

gboolean
llm_step_end (LlmStep *self,
              GError **error)
{
  gboolean is_intact = llm_weights_check (self->weights, error);

  for (guint i = 0; is_intact && i < self->plan->n_adapters; i++)
    is_intact = llm_lora_check (self->plan->adapters[i], error);
  if (!is_intact)
    {
      llm_step_abandon (self);
      return FALSE;
    }
  if (self->collects_density)
    llm_step_add_densities (self);
  end_step (self);
  return TRUE;
}

const float *
llm_step_get_logits (LlmStep *self,
                     guint    row)
{
  if (self->batch != NULL || self->block == NULL || row >= self->rows.n_done_rows
      || self->rows.logits_of[row] < 0)
    return NULL;

  return self->scratch.logits + (gsize) self->rows.logits_of[row] * self->hparams->n_vocab;
}
