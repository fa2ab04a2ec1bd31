/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The holds of a sequence, chunk by chunk, and the work left for it between calls. */

#define G_LOG_DOMAIN "llm-kv"

#include "kv/llm-kv-private.h"

guint
llm_kv_seq_chunk_length (LlmKvSeq *self,
                         guint     chunk)
{
  guint slots = self->store->layout.chunk_slots;

  return MIN (slots, self->length - chunk * slots);
}

gboolean
llm_kv_seq_is_full (LlmKvSeq *self,
                    guint     chunk)
{
  return llm_kv_seq_chunk_length (self, chunk) == self->store->layout.chunk_slots;
}

guint
llm_kv_seq_chunk_number (LlmKvSeq *self,
                         guint     chunk)
{
  guint slots = self->store->layout.chunk_slots;

  return chunk < self->n_sinks / slots ? chunk : chunk + self->n_slid / slots;
}

gboolean
llm_kv_seq_find_number (LlmKvSeq *self,
                        guint     number,
                        guint    *chunk)
{
  guint slots = self->store->layout.chunk_slots;
  guint n_sinks = self->n_sinks / slots;

  if (number >= n_sinks && number < n_sinks + self->n_slid / slots)
    return FALSE;

  *chunk = number < n_sinks ? number : number - self->n_slid / slots;
  return *chunk < self->holds->len;
}

/* In such a layer a row sees its own slot and window - 1 before it. */
gboolean
llm_kv_seq_is_behind (LlmKvSeq *self,
                      guint     chunk,
                      guint     slot)
{
  guint64 end = ((guint64) chunk + 1) * self->store->layout.chunk_slots;

  return self->store->window > 0 && end + self->store->window <= (guint64) slot + 1;
}

gboolean
llm_kv_seq_is_enough (LlmKvSeq *self,
                      guint     chunk,
                      LlmKvForm form,
                      guint     slot)
{
  return !LLM_KV_FORM_IS_BEHIND (form) || llm_kv_seq_is_behind (self, chunk, slot);
}

LlmKvHold *
llm_kv_seq_find_hold (LlmKvSeq         *self,
                      const LlmKvChunk *chunk)
{
  LlmKvHold *hold =
      chunk->index < self->holds->len ? llm_kv_seq_hold (self, chunk->index) : NULL;

  return hold != NULL && hold->chunk == chunk ? hold : NULL;
}

gboolean
llm_kv_hold_has_wide (const LlmKvHold *hold)
{
  const LlmKvChunk *chunk = hold->chunk;

  return hold->slot.extent != 0 && chunk->is_narrow
         && LLM_KV_FORM_FORMAT (hold->slot_form) < LLM_KV_FORM_FORMAT (chunk->form)
         && (!LLM_KV_FORM_IS_BEHIND (hold->slot_form) || LLM_KV_FORM_IS_BEHIND (chunk->form));
}

gboolean
llm_kv_hold_is_written (const LlmKvHold *hold)
{
  return hold->slot.extent != 0
         && (hold->slot_form == hold->chunk->form || llm_kv_hold_has_wide (hold));
}

void
llm_kv_seq_replace (LlmKvSeq   *self,
                    guint       chunk,
                    LlmKvChunk *with)
{
  LlmKvHold *hold = llm_kv_seq_hold (self, chunk);
  LlmKvChunk *old = hold->chunk;

  hold->chunk = with;
  hold->is_writing = FALSE;
  if (old->restorer == self)
    llm_kv_chunk_abandon (self->store, old);
  if (self->is_locked)
    {
      llm_kv_chunk_lock (self->store, with);
      llm_kv_chunk_unlock (self->store, old);
    }
  llm_kv_chunk_queue (self->store, with, TRUE);
  llm_kv_chunk_unref (self->store, old);
}

void
llm_kv_seq_forget_slot (LlmKvSeq *self,
                        guint     chunk)
{
  LlmKvHold *hold = llm_kv_seq_hold (self, chunk);

  if (hold->slot.extent != 0)
    llm_kv_folder_forget (self->folder, hold->slot);
  hold->slot = (LlmKvSlot) { 0 };
  hold->hash = 0;
}

void
llm_kv_seq_find_slot (LlmKvSeq *self,
                      guint     chunk)
{
  LlmKvHold *hold = llm_kv_seq_hold (self, chunk);
  LlmKvRecord record;
  LlmKvSlot slot;

  hold->slot = (LlmKvSlot) { 0 };
  if (self->folder == NULL || hold->hash == 0 || hold->is_moved || !self->store->policy.swaps)
    return;

  if (llm_kv_folder_find (self->folder, llm_kv_seq_chunk_number (self, chunk), hold->hash, &slot,
                          &record)
      && llm_kv_store_has_form (self->store, record.form))
    {
      hold->slot = slot;
      hold->slot_form = record.form;
    }
}

void
llm_kv_seq_vacate (LlmKvSeq *self,
                   guint     chunk,
                   gboolean  changes)
{
  LlmKvChunk *held = llm_kv_seq_hold (self, chunk)->chunk;

  if (held->n_pins == 0 && held->n_holders == 1)
    llm_kv_chunk_drop (self->store, held);
  else if (held->state != LLM_KV_GONE || changes)
    llm_kv_seq_replace (self, chunk, llm_kv_chunk_new (self->store));
}

/* A chunk that others hold is restored for all of them, if it has the same slots for them. */
gboolean
llm_kv_seq_compute (LlmKvSeq *self,
                    guint     chunk)
{
  LlmKvHold *hold = llm_kv_seq_hold (self, chunk);
  guint n_slots = llm_kv_seq_chunk_length (self, chunk);

  llm_kv_seq_vacate (self, chunk, n_slots < self->store->layout.chunk_slots);
  if (!llm_kv_chunk_allocate (self->store, hold->chunk, llm_kv_store_float_form (self->store),
                              LLM_KV_COMPUTING))
    return FALSE;

  hold->chunk->todo = G_MAXUINT64 >> (64 - n_slots);
  hold->chunk->restorer = self;
  hold->is_fixed = FALSE;
  self->is_whole = FALSE;
  return TRUE;
}

void
llm_kv_seq_drop_chunks (LlmKvSeq *self,
                        guint     first,
                        guint     end)
{
  for (guint i = first; i < end; i++)
    {
      LlmKvChunk *chunk = llm_kv_seq_hold (self, i)->chunk;

      if (chunk->restorer == self)
        llm_kv_chunk_abandon (self->store, chunk);
      if (self->is_locked)
        llm_kv_chunk_unlock (self->store, chunk);
      if (self->is_kept)
        chunk->n_keepers--;
      llm_kv_chunk_unref (self->store, chunk);
    }
  if (end > first)
    g_array_remove_range (self->holds, first, end - first);
}

LlmKvChunk *
llm_kv_seq_add_chunk (LlmKvSeq *self)
{
  LlmKvHold hold = { .chunk = llm_kv_chunk_new (self->store) };

  if (self->is_locked)
    llm_kv_chunk_lock (self->store, hold.chunk);
  g_array_append_val (self->holds, hold);
  return hold.chunk;
}

/* From the end on, so that the chunks that others may share are the last to go. */
void
llm_kv_seq_unlock (LlmKvSeq *self)
{
  self->is_locked = FALSE;
  self->is_whole = FALSE;
  self->has_fault = FALSE;
  for (guint i = self->holds->len; i-- > 0;)
    llm_kv_chunk_unlock (self->store, llm_kv_seq_hold (self, i)->chunk);
  g_queue_unlink (&self->store->sequences, &self->link);
  g_queue_push_tail_link (&self->store->sequences, &self->link);
}

void
llm_kv_seq_lock (LlmKvSeq *self)
{
  self->is_locked = TRUE;
  self->is_whole = FALSE;
  self->has_fault = FALSE;
  LLM_EACH_IN (LlmKvHold, hold, self->holds)
    llm_kv_chunk_lock (self->store, hold->chunk);
}

/* --- what is as it was computed --- */

void
llm_kv_seq_find_rounded (LlmKvSeq *self)
{
  guint i = 0;

  while (i < self->holds->len && !llm_kv_seq_hold (self, i)->chunk->is_rounded)
    i++;
  self->first_rounded = i < self->holds->len ? i : G_MAXUINT;
}

/* Content that was computed exactly follows from the application's tokens; any other content equals
 * no other chunk's. */
void
llm_kv_seq_name_content (LlmKvSeq *self,
                         guint     chunk,
                         guint64   hash)
{
  LlmKvChunk *held = llm_kv_seq_hold (self, chunk)->chunk;
  guint64 origin = self->app;

  if (held->content != 0 || held->state != LLM_KV_PRESENT)
    return;

  if (held->is_rounded || self->app == 0 || self->n_slid > 0)
    {
      hash = ++self->store->n_contents;
      origin = 0;
    }
  held->content = llm_kv_hash_tokens (hash, (const gint32 *) (gpointer) &origin,
                                      sizeof origin / sizeof (gint32));
}

/* --- work that is left --- */

void
llm_kv_work_set_stage (LlmKvSeq  *self,
                       LlmKvStage stage)
{
  g_queue_unlink (&self->store->stages[self->stage], &self->work_link);
  g_queue_push_tail_link (&self->store->stages[stage], &self->work_link);
  self->stage = stage;
  self->at = 0;
}

void
llm_kv_work_stop (LlmKvSeq *self)
{
  llm_kv_work_set_stage (self, LLM_KV_IDLE);
  g_clear_pointer (&self->formats, g_free);
}

void
llm_kv_work_begin (LlmKvSeq *self)
{
  llm_kv_work_stop (self);
  if (!self->is_locked && !self->is_kept && self->holds->len > 0)
    llm_kv_work_set_stage (self, LLM_KV_TO_PACK);
}

void
llm_kv_work_restart (LlmKvSeq *self)
{
  if (self->stage != LLM_KV_IDLE)
    llm_kv_work_begin (self);
}
