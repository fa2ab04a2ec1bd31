/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-model"

#include "model/llm-weights-prepared.h"

#include <string.h>

#include "common/llmsvc-error.h"

typedef struct
{
  LlmWeights parent;

  LlmGguf *gguf;
  LlmLedger *ledger;        /* (nullable) */
  LlmWeights *mapped;       /* what is not packed */
  LlmPreparedPlan *plan;
  LlmPreparedCopy *copy;
} PreparedWeights;

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

  g_return_val_if_fail ((guint) op < LLM_N_OPS, LLM_FAILED);
  g_return_val_if_fail (segment == 0, LLM_FAILED);

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

  if (self->ledger != NULL)
    {
      llm_ledger_remove (self->ledger, LLM_HOLDER_WEIGHTS, weights->bytes);
      llm_ledger_unref (self->ledger);
    }
  self->mapped->keeps_cache = weights->keeps_cache;
  llm_prepared_copy_end (g_steal_pointer (&self->copy), weights->keeps_cache);
  g_clear_pointer (&self->plan, llm_prepared_plan_free);
  g_clear_pointer (&self->mapped, llm_weights_free);
  g_clear_pointer (&self->gguf, llm_gguf_unref);
  g_free (self);
}

static const LlmWeightProvider prepared_provider = {
  .acquire = acquire,
  .release = release,
  .check = check,
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
  self->mapped = g_steal_pointer (&mapped);
  self->plan = g_steal_pointer (&plan);
  self->copy = copy;
  if (ledger != NULL)
    {
      self->ledger = llm_ledger_ref (ledger);
      llm_ledger_add (ledger, LLM_HOLDER_WEIGHTS, self->parent.bytes);
    }
  return &self->parent;
}
