/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "forward/llm-forward-private.h"

#include "base/llm-fail.h"

LlmForward *
llm_forward_new (const LlmHparams *hparams,
                 LlmWeights       *weights,
                 LlmWorkerPool    *pool,
                 const LlkOps     *kernels,
                 LlmLedger        *ledger)
{
  LlmForward *self = g_new0 (LlmForward, 1);
  guint widest = MAX (MAX (hparams->n_embd, hparams->n_ff), hparams->n_heads * hparams->head_dim);

  self->hparams = hparams;
  self->weights = weights;
  self->pool = pool;
  self->kernels = kernels;
  self->ledger = ledger != NULL ? llm_ledger_ref (ledger) : NULL;
  self->worker_bytes = llm_matmul_get_scratch (kernels, widest);
  self->row_bytes = llm_matmul_get_row_bytes (widest);
  self->segment_rows = g_new0 (guint, LLK_N_ROW_KINDS * weights->n_segments);
  self->held = g_new0 (LlmWeightView, LLM_STAGE_MAX_OPS * weights->n_segments);
  self->views = g_array_new (FALSE, FALSE, sizeof (LlmKvView));
  self->first_view = g_array_new (FALSE, FALSE, sizeof (guint));
  llm_forward_build_stages (self);
  return self;
}

void
llm_forward_free (LlmForward *self)
{
  if (self == NULL)
    return;

  llm_forward_abandon (self);
  llm_forward_free_scratch (self);
  g_clear_pointer (&self->ledger, llm_ledger_unref);
  g_array_unref (self->views);
  g_array_unref (self->first_view);
  g_free (self->frequencies);
  g_free (self->segment_rows);
  g_free (self->held);
  g_free (self);
}

void
llm_forward_set_pool (LlmForward    *self,
                      LlmWorkerPool *pool)
{
  g_return_if_fail (self->batch == NULL);

  self->pool = pool;
}

void
llm_forward_set_density (LlmForward *self,
                         gboolean    collects)
{
  g_return_if_fail (self->batch == NULL);

  self->collects_density = collects;
}

/* The step of the table that @sub_model names, n_segments when none does. */
static guint
find_sub_model (LlmForward *self,
                guint8      sub_model)
{
  guint segment = 0;

  while (segment < self->weights->n_segments
         && self->weights->segment_percent[segment] != sub_model)
    segment++;
  return segment;
}

static gboolean
check_row (LlmForward     *self,
           const LlmBatch *batch,
           guint           index,
           GError        **error)
{
  const LlmRow *row = &batch->rows[index];

  if (row->token < 0 || (guint) row->token >= self->hparams->n_vocab)
    return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "Token %d is not one of the model's %u", row->token, self->hparams->n_vocab);
  if ((guint) row->kind >= LLK_N_ROW_KINDS)
    return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "Row %u is of kind %d, which does not exist", index, row->kind);
  if (find_sub_model (self, row->sub_model) == self->weights->n_segments)
    return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "The model has no sub-model of %u percent", row->sub_model);
  if (row->sequence >= batch->n_sequences
      || row->slot >= batch->sequences[row->sequence]->length)
    return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "Row %u is for slot %u of sequence %u, which does not exist", index, row->slot,
                     row->sequence);

  return TRUE;
}

static gboolean
check_batch (LlmForward     *self,
             const LlmBatch *batch,
             GError        **error)
{
  if (batch->n_rows == 0 || batch->n_rows > LLM_BATCH_MAX_ROWS)
    return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "A step of %u rows is not possible: it has 1 to %u", batch->n_rows,
                     LLM_BATCH_MAX_ROWS);

  for (guint i = 0; i < batch->n_sequences; i++)
    {
      const LlmKvLayout *layout = &batch->sequences[i]->store->layout;

      if (layout->n_layers != self->hparams->n_layers
          || layout->n_kv_heads != self->hparams->n_kv_heads
          || layout->head_dim != self->hparams->head_dim)
        return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                         "Sequence %u was made for another model", i);
    }
  for (guint i = 0; i < batch->n_rows; i++)
    if (!check_row (self, batch, i, error))
      return FALSE;

  return TRUE;
}

/* Sorts the rows by kind and then by sub-model, the largest first, and otherwise
 * leaves their order. */
static void
sort_rows (LlmForward *self)
{
  const LlmBatch *batch = self->batch;
  guint n = 0;

  self->n_used_segments = 0;
  for (guint kind = 0; kind < LLK_N_ROW_KINDS; kind++)
    {
      self->first_row[kind] = n;
      for (guint segment = self->weights->n_segments; segment-- > 0;)
        {
          for (guint i = 0; i < batch->n_rows; i++)
            if (batch->rows[i].kind == kind
                && batch->rows[i].sub_model == self->weights->segment_percent[segment])
              self->order[n++] = i;
          self->segment_rows[segment * LLK_N_ROW_KINDS + kind] = n - self->first_row[kind];
          if (n > self->first_row[kind])
            self->n_used_segments = MAX (self->n_used_segments, segment + 1);
        }
    }

  self->n_logits = 0;
  self->n_done_rows = batch->n_rows;
  for (guint i = 0; i < batch->n_rows; i++)
    {
      guint row = self->order[i];

      self->logits_of[row] = -1;
      if (batch->rows[row].wants_logits)
        {
          self->wanting[self->n_logits] = i;
          self->logits_of[row] = (gint) self->n_logits++;
        }
    }
}

static void
count_chunks (LlmForward *self)
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

gboolean
llm_forward_begin (LlmForward     *self,
                   const LlmBatch *batch,
                   GError        **error)
{
  g_return_val_if_fail (self->batch == NULL, FALSE);

  self->n_done_rows = 0;
  if (!check_batch (self, batch, error))
    return FALSE;

  self->batch = batch;
  sort_rows (self);
  count_chunks (self);
  if (!llm_forward_reserve (self, error))
    {
      self->batch = NULL;
      self->n_done_rows = 0;
      return FALSE;
    }

  self->part = LLM_PART_ENTRY;
  self->layer = 0;
  self->stage = 0;
  return TRUE;
}

static void
end_step (LlmForward *self)
{
  llm_forward_release (self);
  self->batch = NULL;
}

void
llm_forward_abandon (LlmForward *self)
{
  if (self->batch == NULL)
    return;

  end_step (self);
  self->n_done_rows = 0;
}

/* Moves the cursor behind the stage that ended; FALSE behind the last one. */
static gboolean
advance (LlmForward *self)
{
  if (++self->stage < self->parts[self->part].n_stages)
    return TRUE;

  self->stage = 0;
  if (self->part == LLM_PART_LAYERS && ++self->layer < self->hparams->n_layers)
    return TRUE;

  self->layer = 0;
  self->part++;
  return self->part < LLM_PART_EXIT || (self->part == LLM_PART_EXIT && self->n_logits > 0);
}

LlmStatus
llm_forward_step (LlmForward *self,
                  gboolean   *waits,
                  GError    **error)
{
  const LlmStage *stage;
  LlmStatus status;

  g_return_val_if_fail (self->batch != NULL, LLM_FAILED);

  stage = self->parts[self->part].stages[self->stage];
  status = stage->run (self, stage, error);
  *waits = status == LLM_PENDING;
  if (status == LLM_PENDING)
    return LLM_PENDING;
  if (status == LLM_READY)
    {
      llm_forward_release (self);
      if (advance (self))
        return LLM_PENDING;
      if (llm_weights_check (self->weights, error))
        {
          end_step (self);
          return LLM_READY;
        }
    }

  llm_forward_abandon (self);
  return LLM_FAILED;
}

const char *
llm_forward_get_stage_name (LlmForward *self)
{
  return self->batch != NULL ? self->parts[self->part].stages[self->stage]->name : NULL;
}

LlmStatus
llm_forward_resume (LlmForward *self,
                    GError    **error)
{
  gboolean waits = FALSE;
  LlmStatus status;

  do
    status = llm_forward_step (self, &waits, error);
  while (status == LLM_PENDING && !waits);

  return status;
}

const float *
llm_forward_get_logits (LlmForward *self,
                        guint       row)
{
  if (self->batch != NULL || self->block == NULL || row >= self->n_done_rows ||
      self->logits_of[row] < 0)
    return NULL;

  return self->scratch.logits + (gsize) self->logits_of[row] * self->hparams->n_vocab;
}

guint64
llm_forward_get_scratch (LlmForward *self)
{
  return self->block_bytes;
}

guint64
llm_forward_trim (LlmForward *self)
{
  if (self->batch != NULL)
    return 0;

  return llm_forward_free_scratch (self);
}
