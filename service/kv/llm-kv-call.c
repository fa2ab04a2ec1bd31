/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Begin and end of sequences, and the end of a call. */

#define G_LOG_DOMAIN "llm-kv"

#include "kv/llm-kv-private.h"

#include <math.h>

/* Weight of the rows of earlier calls: it falls by this factor with each call (L3). */
#define DENSITY_DECAY 0.8f

LlmKvSeq *
llm_kv_seq_new (LlmKvStore *store,
                const char *app,
                const char *id)
{
  LlmKvSeq *self = g_new0 (LlmKvSeq, 1);

  self->store = store;
  self->app = app != NULL ? g_str_hash (app) + G_GUINT64_CONSTANT (1) : 0;
  self->first_rounded = G_MAXUINT;
  self->link.data = self;
  self->work_link.data = self;
  self->holds = g_array_new (FALSE, FALSE, sizeof (LlmKvHold));
  self->targets = g_array_new (FALSE, FALSE, sizeof (LlmKvRestored));
  if (store->storage != NULL && app != NULL && id != NULL)
    self->folder = llm_kv_folder_open (store->storage, app, id, &store->shape);
  llm_kv_reuse_add (&store->reuse, &self->reuse, app, id);
  g_queue_push_tail_link (&store->sequences, &self->link);
  g_queue_push_tail_link (&store->stages[LLM_KV_IDLE], &self->work_link);
  return self;
}

gboolean
llm_kv_seq_is_open (LlmKvSeq *self)
{
  return self->folder == NULL || llm_kv_folder_is_open (self->folder);
}

void
llm_kv_seq_free (LlmKvSeq *self)
{
  if (self == NULL)
    return;

  g_assert (!self->is_locked || self->is_branch);

  llm_kv_work_stop (self);
  llm_kv_restore_end (self);
  if (self->is_branch)
    llm_kv_seq_unlock (self);
  else if (!self->is_kept)
    llm_kv_reuse_remove (&self->store->reuse, &self->reuse);
  g_clear_pointer (&self->folder, llm_kv_folder_close);
  llm_kv_work_cancel_writes (self);
  llm_kv_seq_drop_chunks (self, 0, self->holds->len);
  g_array_unref (self->holds);
  g_array_unref (self->targets);
  g_queue_unlink (&self->store->sequences, &self->link);
  g_queue_unlink (&self->store->stages[self->stage], &self->work_link);
  g_free (self);
}

/* --- the end of a call --- */

static void
decay_densities (LlmKvSeq *self)
{
  for (guint i = 0; i < self->holds->len; i++)
    llm_kv_seq_decay_density (self, i, DENSITY_DECAY);
}

/* Each chunk's hash is of all tokens up to its end, slid ones included. */
static void
name_chunks (LlmKvSeq     *self,
             const gint32 *tokens,
             guint         n_tokens)
{
  guint slots = self->store->layout.chunk_slots;
  guint64 hash = 0;

  for (guint number = 0; number < n_tokens / slots; number++)
    {
      guint chunk;

      hash = llm_kv_hash_tokens (hash, tokens + (gsize) number * slots, slots);
      if (!llm_kv_seq_find_number (self, number, &chunk) || chunk >= llm_kv_seq_n_full (self))
        continue;

      if (llm_kv_seq_hold (self, chunk)->hash != hash)
        llm_kv_seq_forget_slot (self, chunk);
      llm_kv_seq_hold (self, chunk)->hash = hash;
      llm_kv_seq_name_content (self, chunk, hash);
    }
}

void
llm_kv_seq_end_call (LlmKvSeq     *self,
                     const gint32 *tokens,
                     guint         n_tokens)
{
  g_return_if_fail (self->is_locked);

  llm_kv_seq_preempt (self);
  decay_densities (self);
  name_chunks (self, tokens, n_tokens);
  self->write_failed = FALSE;
  self->is_called = FALSE;
  llm_kv_work_begin (self);
}

/* --- what a call has to compute --- */

void
llm_kv_seq_get_missing (LlmKvSeq *self,
                        GArray   *slots)
{
  guint chunk_slots = self->store->layout.chunk_slots;

  self->has_fault = FALSE;
  for (guint i = 0; i < self->holds->len; i++)
    {
      LlmKvChunk *chunk = llm_kv_seq_hold (self, i)->chunk;

      if (chunk->state != LLM_KV_COMPUTING || chunk->restorer != self)
        continue;

      for (guint s = 0; s < llm_kv_seq_chunk_length (self, i); s++)
        {
          guint slot = i * chunk_slots + s;

          if ((chunk->todo >> s & 1) != 0)
            g_array_append_val (slots, slot);
        }
    }
}

/* --- what storage has --- */

/* Values that were read from storage are checked. */
static void
take_record (LlmKvHold         *hold,
             const LlmKvSlot   *slot,
             const LlmKvRecord *record)
{
  hold->slot = *slot;
  hold->slot_form = record->form;
  if (isfinite (record->density) && record->density >= 0 && isfinite (record->n_rows)
      && record->n_rows >= 0 && isfinite (record->density * record->n_rows))
    {
      hold->n_rows = record->n_rows;
      hold->received = record->density * record->n_rows;
      hold->received_now = hold->n_slots_now = 0;
    }
}

static gboolean
find_record (LlmKvSeq  *self,
             guint      number,
             LlmKvHold *hold)
{
  LlmKvRecord record;
  LlmKvSlot slot;

  if (!llm_kv_folder_find (self->folder, number, hold->hash, &slot, &record)
      || !llm_kv_store_has_form (self->store, record.form))
    return FALSE;

  take_record (hold, &slot, &record);
  hold->is_fixed = self->n_slid > 0;
  return TRUE;
}

/* After the window slid, the sinks are in memory only, never on storage. */
guint
llm_kv_seq_attach (LlmKvSeq     *self,
                   const gint32 *tokens,
                   guint         n_tokens)
{
  LlmKvStore *store = self->store;
  guint slots = store->layout.chunk_slots;
  guint n_sinks = self->n_sinks / slots;
  guint n_kept = n_sinks;
  guint n_hashes = n_tokens / slots;
  g_autofree guint64 *hashes = g_new (guint64, n_hashes + 1);
  guint64 hash = 0;
  guint n;

  g_return_val_if_fail (self->length == self->n_sinks && !self->is_locked, self->length);
  g_return_val_if_fail (llm_kv_seq_is_open (self), self->length);

  if (self->folder == NULL || !store->policy.swaps)
    return self->length;

  for (guint number = 0; number < n_hashes; number++)
    hashes[number] = hash = llm_kv_hash_tokens (hash, tokens + (gsize) number * slots, slots);
  /* forgets chunks of other tokens, and of other contexts in shared files */
  llm_kv_folder_keep (self->folder, hashes, n_hashes);
  n = MIN (n_hashes, llm_kv_folder_get_end (self->folder));
  for (guint number = n_sinks + self->n_slid / slots; number < n; number++)
    {
      LlmKvHold hold = { 0 };

      hold.hash = hashes[number];
      hold.chunk = llm_kv_chunk_new (store);
      if (find_record (self, number, &hold))
        n_kept = self->holds->len + 1;
      g_array_append_val (self->holds, hold);
    }
  llm_kv_seq_drop_chunks (self, n_kept, self->holds->len);
  self->length = n_kept * slots;
  return self->length;
}
