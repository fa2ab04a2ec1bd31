/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sharing between sequences (L15): forks, and common prefixes. Chunks are shared as they are; when
 * one sequence quantizes a chunk, the others keep theirs, so that the bits of each sequence follow
 * from its own calls. */

#define G_LOG_DOMAIN "llm-kv"

#include "kv/llm-kv-private.h"

/* --- beginnings and forks --- */

/* Holds @n chunks of @from, and links them on storage where extents can be shared. */
static void
take_chunks (LlmKvSeq *self,
             LlmKvSeq *from,
             guint     n)
{
  g_array_append_vals (self->holds, from->holds->data, n);
  for (guint i = 0; i < n; i++)
    {
      LlmKvHold *hold = llm_kv_seq_hold (self, i);

      hold->chunk->n_holders++;
      hold->slot = (LlmKvSlot) { 0 };
      hold->is_writing = FALSE;
      if (self->is_locked)
        llm_kv_chunk_lock (self->store, hold->chunk);
      if (self->is_kept)
        hold->chunk->n_keepers++;
    }
  self->n_slid = from->n_slid;
  self->n_sinks = from->n_sinks;
  self->length = MIN (from->length, n * self->store->layout.chunk_slots);
  if (n == 0 || self->folder == NULL || from->folder == NULL)
    return;

  llm_kv_folder_link (self->folder, from->folder, llm_kv_seq_chunk_number (from, n - 1) + 1);
  for (guint i = 0; i < n; i++)
    llm_kv_seq_find_slot (self, i);
}

LlmKvSeq *
llm_kv_seq_fork (LlmKvSeq   *self,
                 const char *app,
                 const char *id)
{
  LlmKvSeq *fork = llm_kv_seq_new (self->store, app, id);

  fork->took_quantized = self->took_quantized;
  take_chunks (fork, self, self->holds->len);
  llm_kv_work_begin (fork);
  return fork;
}

LlmKvSeq *
llm_kv_seq_branch (LlmKvSeq *self,
                   guint     n_slots)
{
  LlmKvSeq *branch = llm_kv_seq_new (self->store, NULL, NULL);
  guint slots = self->store->layout.chunk_slots;

  g_return_val_if_fail (self->is_locked && n_slots <= self->length, branch);

  branch->is_branch = TRUE;
  llm_kv_reuse_remove (&self->store->reuse, &branch->reuse);
  branch->is_locked = TRUE;
  take_chunks (branch, self, (n_slots + slots - 1) / slots);
  branch->length = n_slots;
  llm_kv_seq_find_rounded (branch);
  return branch;
}

/* After a window slid, positions differ from those of a new text, so nothing is shared. Density is
 * that of the sequence's own rows: those of @from continued with another text. */
void
llm_kv_seq_share (LlmKvSeq *self,
                  LlmKvSeq *from,
                  guint     n_slots)
{
  guint slots = self->store->layout.chunk_slots;

  g_return_if_fail (self->store == from->store && self->length == 0 && !self->is_locked);
  g_return_if_fail (n_slots % slots == 0 && n_slots <= from->length);

  if (from->n_slid > 0)
    return;

  self->took_quantized = n_slots > llm_kv_seq_count_exact (from);
  take_chunks (self, from, n_slots / slots);
  LLM_EACH_IN (LlmKvHold, hold, self->holds)
    {
      hold->received = hold->n_rows = 0;
      hold->received_now = hold->n_slots_now = 0;
    }
  self->store->counters.n_shared += n_slots / slots;
  llm_kv_work_begin (self);
}

/* --- what is as it was computed --- */

guint
llm_kv_seq_count_exact (LlmKvSeq *self)
{
  guint n = llm_kv_seq_n_full (self);
  guint i = 0;

  if (self->n_slid > 0)
    return 0;

  while (i < n)
    {
      const LlmKvChunk *chunk = llm_kv_seq_hold (self, i)->chunk;

      if (self->store->policy.compression != LLM_KV_KEEP
          && (chunk->state != LLM_KV_PRESENT || chunk->is_rounded))
        break;
      i++;
    }
  return i * self->store->layout.chunk_slots;
}

guint
llm_kv_seq_count_any (LlmKvSeq *self)
{
  guint n = self->n_slid == 0 ? llm_kv_seq_n_full (self) : 0;
  guint i = 0;

  while (i < n && (llm_kv_seq_hold (self, i)->chunk->state == LLM_KV_PRESENT
                   || llm_kv_seq_hold (self, i)->slot.extent != 0))
    i++;
  return i * self->store->layout.chunk_slots;
}

LlmKvSeq *
llm_kv_seq_keep (LlmKvSeq *self,
                 guint     n_slots)
{
  LlmKvSeq *kept = llm_kv_seq_new (self->store, NULL, NULL);

  g_return_val_if_fail (n_slots <= llm_kv_seq_count_exact (self), kept);

  kept->is_kept = TRUE;
  llm_kv_reuse_remove (&self->store->reuse, &kept->reuse);    /* it is never called */
  take_chunks (kept, self, n_slots / self->store->layout.chunk_slots);
  return kept;
}

guint64
llm_kv_store_count_kept (LlmKvStore *self)
{
  double bytes = 0;

  for (GList *l = self->sequences.head; l != NULL; l = l->next)
    {
      LlmKvSeq *seq = l->data;

      if (!seq->is_kept)
        continue;
      LLM_EACH_IN (const LlmKvHold, hold, seq->holds)
        if (hold->chunk->state != LLM_KV_GONE)
          bytes += (double) self->arenas[hold->chunk->form].bytes / hold->chunk->n_keepers;
    }
  return (guint64) bytes;
}

/* Drops from the end of the prefix, which the fewest sequences share. Chunks that other sequences
 * hold, too, can then be quantized in place. */
guint64
llm_kv_store_drop_kept (LlmKvStore *self,
                        guint64     bytes)
{
  guint64 before = self->bytes;

  for (GList *l = self->sequences.head; l != NULL; l = l->next)
    {
      LlmKvSeq *seq = l->data;

      for (guint i = seq->is_kept ? seq->holds->len : 0; i-- > 0 && before - self->bytes < bytes;)
        {
          llm_kv_seq_drop_chunks (seq, i, i + 1);
          seq->length = i * self->layout.chunk_slots;
        }
    }
  return before - self->bytes;
}

/* --- equal bytes --- */

/* (nullable) (transfer none): a chunk at the same place of another sequence. */
static LlmKvChunk *
find_twin (LlmKvSeq *self,
           guint     chunk,
           LlmKvForm form)
{
  const LlmKvChunk *held = llm_kv_seq_hold (self, chunk)->chunk;
  guint64 content = llm_kv_content_in_form (held->content, form);

  for (GList *l = self->store->sequences.head; l != NULL && content != 0; l = l->next)
    {
      LlmKvSeq *seq = l->data;
      LlmKvChunk *other = chunk < seq->holds->len ? llm_kv_seq_hold (seq, chunk)->chunk : NULL;

      if (other != NULL && other->content == content && other->form == form
          && other->state == LLM_KV_PRESENT)
        return other;
    }
  return NULL;
}

void
llm_kv_seq_pack (LlmKvSeq *self,
                 guint     chunk,
                 LlmKvForm form)
{
  LlmKvChunk *held = llm_kv_seq_hold (self, chunk)->chunk;
  LlmKvChunk *other = find_twin (self, chunk, form);
  gboolean is_shared = held->n_holders > 1;

  if (other != NULL)
    other->n_holders++;
  else if (held->n_holders > 1 || held->n_pins > 0)
    other = llm_kv_chunk_pack_copy (self->store, held, form);
  else
    llm_kv_chunk_pack (self->store, held, form);
  if (other == NULL)
    return;

  other->leaves |= held->leaves;
  llm_kv_seq_replace (self, chunk, other);
  /* it may have stayed only for this sequence to write it */
  if (is_shared)
    llm_kv_work_let_leave (self->store, held);
}
