/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-kv"

#include "kv/llm-kv-private.h"

typedef struct
{
  LlmKvChunk *chunk;    /* pinned */
  LlmKvForm form;
  guint number;
  guint64 hash;
} Part;

/* An extent that is being written. */
typedef struct
{
  LlmKvSeq *seq;
  guint n;
  Part parts[LLM_KV_BATCH_CHUNKS];
} Batch;

gboolean
llm_kv_work_can_write (LlmKvSeq        *self,
                       const LlmKvHold *hold)
{
  LlmKvStore *store = self->store;
  guint chunk = (guint) (hold - llm_kv_seq_hold (self, 0));

  return store->policy.swaps && self->folder != NULL && !self->write_failed && hold->hash != 0
         && !hold->is_moved && chunk < llm_kv_seq_n_full (self)
         && hold->chunk->state == LLM_KV_PRESENT && store->arenas[hold->chunk->form].bytes > 0;
}

/* A chunk that will be quantized is written only after that. */
static gboolean
is_to_write (LlmKvSeq        *self,
             const LlmKvHold *hold)
{
  const LlmKvPolicy *policy = &self->store->policy;

  return llm_kv_work_can_write (self, hold) && !hold->is_writing && !llm_kv_hold_is_written (hold)
         && (policy->writes_ahead || hold->chunk->leaves)
         && (policy->compression == LLM_KV_KEEP || !llm_kv_chunk_is_float (hold->chunk));
}

static void
drop_leaving (LlmKvStore *store,
              LlmKvChunk *chunk)
{
  if (!chunk->leaves || chunk->state != LLM_KV_PRESENT || chunk->n_pins > 0 || chunk->n_locks > 0)
    return;

  store->counters.n_evicted++;
  store->counters.evicted_bytes += store->arenas[chunk->form].bytes;
  llm_kv_chunk_drop (store, chunk);
}

/* A chunk whose memory is wanted goes when the last sequence has written it, or could not. */
static void
let_go (LlmKvStore *store,
        LlmKvChunk *chunk)
{
  gboolean is_held = chunk->n_holders > 0;

  llm_kv_chunk_unpin (store, chunk);
  if (is_held)
    drop_leaving (store, chunk);
}

static gboolean
is_about_to_be_written (LlmKvStore       *store,
                        const LlmKvChunk *chunk)
{
  for (GList *l = store->sequences.head; l != NULL; l = l->next)
    {
      LlmKvSeq *seq = l->data;

      if (seq->stage == LLM_KV_IDLE)
        continue;
      LLM_EACH_IN (const LlmKvHold, hold, seq->holds)
        if (hold->chunk == chunk && !llm_kv_hold_is_written (hold)
            && llm_kv_work_can_write (seq, hold))
          return TRUE;
    }
  return FALSE;
}

void
llm_kv_work_let_leave (LlmKvStore *store,
                       LlmKvChunk *chunk)
{
  if (chunk->leaves && !is_about_to_be_written (store, chunk))
    drop_leaving (store, chunk);
}

/* Frees chunks that wait for a write which is not needed any more: quantization brought them to the
 * form that is on storage, or they can't be written. Only another sequence that is about to write
 * such a chunk keeps it until then. */
static void
let_go_unwritten (LlmKvSeq *self)
{
  LlmKvStore *store = self->store;
  gboolean is_any = FALSE;

  LLM_EACH_IN (LlmKvHold, hold, self->holds)
    {
      hold->chunk->can_be_written = FALSE;
      is_any |= hold->chunk->leaves;
    }
  if (!is_any)
    return;

  for (GList *l = store->sequences.head; l != NULL; l = l->next)
    {
      LlmKvSeq *seq = l->data;

      if (seq == self || seq->stage == LLM_KV_IDLE)
        continue;
      LLM_EACH_IN (LlmKvHold, hold, seq->holds)
        if (!llm_kv_hold_is_written (hold) && llm_kv_work_can_write (seq, hold))
          hold->chunk->can_be_written = TRUE;
    }
  LLM_EACH_IN (LlmKvHold, hold, self->holds)
    if (!hold->chunk->can_be_written)
      drop_leaving (store, hold->chunk);
}

static void
end_batch (Batch *batch)
{
  LlmKvStore *store = batch->seq->store;

  batch->seq->batches = g_list_remove (batch->seq->batches, batch);
  store->n_batches--;
  for (guint i = 0; i < batch->n; i++)
    let_go (store, batch->parts[i].chunk);
  g_free (batch);
}

/* The hold of the part now, if it is still the same chunk. */
static LlmKvHold *
find_hold (LlmKvSeq   *self,
           const Part *part)
{
  LlmKvHold *hold;
  guint chunk;

  if (!llm_kv_seq_find_number (self, part->number, &chunk))
    return NULL;

  hold = llm_kv_seq_hold (self, chunk);
  return hold->chunk == part->chunk && hold->hash == part->hash && hold->is_writing ? hold : NULL;
}

static void
finish_write (const LlmKvSlot *slots,
              const GError    *error,
              gpointer         data)
{
  Batch *batch = data;
  LlmKvSeq *self = batch->seq;

  if (slots == NULL)
    self->write_failed = TRUE;
  for (guint i = 0; i < batch->n; i++)
    {
      const Part *part = &batch->parts[i];
      LlmKvHold *hold = find_hold (self, part);

      if (hold != NULL)
        hold->is_writing = FALSE;
      if (slots == NULL)
        continue;

      self->store->counters.n_written++;
      self->store->counters.written_bytes
          += self->store->shape.offsets[part->form][self->store->layout.n_layers];
      if (hold != NULL)
        {
          hold->slot = slots[i];
          hold->slot_form = part->form;
        }
      else
        {
          llm_kv_folder_forget (self->folder, slots[i]);
        }
    }
  end_batch (batch);
}

gboolean
llm_kv_work_write (LlmKvSeq *self)
{
  Batch *batch = g_new0 (Batch, 1);
  LlmKvRecord records[LLM_KV_BATCH_CHUNKS];
  const guint8 *data[LLM_KV_BATCH_CHUNKS];

  batch->seq = self;
  for (; self->at < llm_kv_seq_n_full (self) && batch->n < LLM_KV_BATCH_CHUNKS; self->at++)
    {
      LlmKvHold *hold = llm_kv_seq_hold (self, self->at);
      Part part = { hold->chunk, hold->chunk->form, llm_kv_seq_chunk_number (self, self->at),
                    hold->hash };

      if (!is_to_write (self, hold))
        continue;

      records[batch->n] = (LlmKvRecord) {
        .number = part.number,
        .hash = part.hash,
        .form = part.form,
        .density = llm_kv_seq_get_density (self, self->at),
        .n_rows = llm_kv_seq_count_density_rows (self, self->at),
      };
      data[batch->n] = part.chunk->data;
      if (llm_kv_folder_adopt (self->folder, &records[batch->n], data[batch->n], &hold->slot))
        {
          hold->slot_form = part.form;
          continue;
        }
      hold->is_writing = TRUE;
      hold->chunk->n_pins++;
      batch->parts[batch->n++] = part;
    }
  if (batch->n == 0)
    {
      let_go_unwritten (self);
      g_free (batch);
      return FALSE;
    }

  self->batches = g_list_prepend (self->batches, batch);
  self->store->n_batches++;
  llm_kv_folder_write (self->folder, records, data, batch->n, finish_write, batch);
  return TRUE;
}

void
llm_kv_work_cancel_writes (LlmKvSeq *self)
{
  while (self->batches != NULL)
    end_batch (self->batches->data);
}
