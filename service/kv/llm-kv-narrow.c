/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Fewer bits under memory pressure (S4). Chunks that are on storage and can be restored in time are
 * evicted, which loses nothing. Chunks that could only be computed again, and those that would be
 * restored too late for the calls of their context, are quantized further: all chunks of one format
 * to the next, then all of that, so that none has lost two steps before another has lost one.
 * Storage keeps the wide copy, which a narrow one never replaces; it is restored when the pressure
 * is over.
 */

#define G_LOG_DOMAIN "llm-kv"

#include "kv/llm-kv-private.h"

/* --- fewer bits --- */

static gboolean
may_be_narrowed (LlmKvStore       *self,
                 const LlmKvChunk *chunk,
                 gboolean          in_haste)
{
  if (chunk->state != LLM_KV_PRESENT || chunk->n_locks > 0 || chunk->n_pins > 0
      || chunk->keeps_bits || self->arenas[chunk->form].bytes == 0)
    return FALSE;
  return chunk->n_unwritten > 0 ? in_haste || !chunk->can_be_written
                                : llm_kv_loss_is_late (self, chunk);
}

static gboolean
narrow_chunk (LlmKvStore *self,
              LlmKvChunk *chunk)
{
  LlkKvFormat next = LLM_KV_FORM_FORMAT (chunk->form) + 1;

  while (!llk_kv_is_packed (next))
    next++;
  if (!llm_kv_chunk_pack (self, chunk,
                          LLM_KV_FORM (next, LLM_KV_FORM_IS_BEHIND (chunk->form))))
    return FALSE;
  llm_kv_chunk_set_narrow (self, chunk, TRUE);
  self->counters.n_narrowed++;
  return TRUE;
}

/* Returns the bytes freed of the sequence's chunks in this format. */
static guint64
narrow_seq (LlmKvSeq   *self,
            LlkKvFormat format,
            guint64     bytes,
            gboolean    in_haste)
{
  LlmKvStore *store = self->store;
  guint64 freed = 0;

  for (guint i = 0; i < self->holds->len && freed < bytes; i++)
    {
      LlmKvChunk *chunk = llm_kv_seq_hold (self, i)->chunk;
      guint64 before = store->arenas[chunk->form].bytes;

      if (LLM_KV_FORM_FORMAT (chunk->form) == format && may_be_narrowed (store, chunk, in_haste)
          && narrow_chunk (store, chunk))
        freed += before - store->arenas[chunk->form].bytes;
    }
  return freed;
}

guint64
llm_kv_narrow (LlmKvStore *self,
               LlmKvSeq   *seq,
               guint64     bytes,
               gboolean    in_haste)
{
  guint64 freed = 0;

  if (!self->narrows)
    return 0;

  for (LlkKvFormat format = self->layout.format; format + 1 < LLK_N_KV_FORMATS; format++)
    {
      LlmKvSeq *next;

      llm_kv_loss_restart (self);
      next = seq != NULL ? seq : llm_kv_loss_find_cheapest (self);
      while (next != NULL && freed < bytes)
        {
          freed += narrow_seq (next, format, bytes - freed, in_haste);
          next->loss.is_done = TRUE;
          next = seq != NULL ? NULL : llm_kv_loss_find_cheapest (self);
        }
    }
  return freed;
}

/* --- wide copies come back --- */

static void
take_wide (guint         index,
           guint         first_layer,
           guint         end_layer,
           const GError *error,
           gpointer      data)
{
  LlmKvSeq *self = data;
  LlmKvStore *store = self->store;
  const LlmKvRestored *target = &g_array_index (self->targets, LlmKvRestored, index);
  LlmKvChunk *narrow = target->narrow;
  gboolean is_last = end_layer == store->layout.n_layers;

  /* a wide copy that can't be read is lost: only the narrow one is left */
  if (error != NULL && llm_kv_seq_find_hold (self, narrow) != NULL)
    llm_kv_seq_find_slot (self, narrow->index);
  if (error != NULL)
    target->chunk->state = LLM_KV_LOST;
  if (is_last && target->chunk->state == LLM_KV_READING && narrow->is_narrow
      && narrow->n_locks == 0 && narrow->n_pins == 1)
    {
      target->chunk->state = LLM_KV_PRESENT;
      llm_kv_chunk_take_wide (store, narrow, target->chunk);
      store->counters.n_widened++;
    }
  if (!is_last || --self->n_widening > 0)
    return;
  llm_kv_restore_end_read (self);
  llm_kv_work_begin (self);
}

/* FALSE when the system has no memory. */
static gboolean
add_target (LlmKvSeq *self,
            guint     index)
{
  LlmKvHold *hold = llm_kv_seq_hold (self, index);
  LlmKvRestored target = { .chunk = llm_kv_chunk_new (self->store), .narrow = hold->chunk };
  gboolean has_memory = llm_kv_chunk_allocate (self->store, target.chunk, hold->slot_form,
                                               LLM_KV_READING);

  if (has_memory)
    {
      target.chunk->n_pins++;
      hold->chunk->n_pins++;
      hold->chunk->index = index;
      g_array_append_val (self->targets, target);
    }
  llm_kv_chunk_unref (self->store, target.chunk);
  return has_memory;
}

/* TRUE when a read began. */
static gboolean
widen_seq (LlmKvSeq *self)
{
  LlmKvStore *store = self->store;
  LlmKvTarget targets[LLM_KV_BATCH_CHUNKS];
  guint n = 0;

  for (guint i = 0; i < llm_kv_seq_n_full (self) && n < LLM_KV_BATCH_CHUNKS; i++)
    {
      LlmKvHold *hold = llm_kv_seq_hold (self, i);

      if (!llm_kv_hold_has_wide (hold) || hold->chunk->n_pins > 0)
        continue;
      llm_kv_seq_find_slot (self, i);
      /* as much again stays free, for the next call */
      if (!llm_kv_hold_has_wide (hold)
          || !llm_kv_store_has_room (store, 2 * store->arenas[hold->slot_form].bytes)
          || !add_target (self, i))
        continue;
      targets[n++] = (LlmKvTarget) {
        .slot = hold->slot,
        .data = g_array_index (self->targets, LlmKvRestored, self->targets->len - 1).chunk->data,
      };
    }
  if (n == 0)
    return FALSE;

  self->n_widening = n;
  llm_kv_restore_read (self, targets, n, take_wide);
  return TRUE;
}

/* Most recently used sequences first. */
gboolean
llm_kv_narrow_widen_next (LlmKvStore *self)
{
  self->widens = self->widens && !self->is_short;
  for (GList *l = self->sequences.tail; l != NULL && self->widens; l = l->prev)
    self->widens = !((LlmKvSeq *) l->data)->is_locked;
  if (!self->widens)
    return FALSE;

  for (GList *l = self->sequences.tail; l != NULL; l = l->prev)
    {
      LlmKvSeq *seq = l->data;

      if (seq->n_widening > 0)
        return FALSE;
      if (seq->folder != NULL && seq->read == NULL && widen_seq (seq))
        return TRUE;
    }
  self->widens = FALSE;
  return FALSE;
}

void
llm_kv_store_widen (LlmKvStore *self)
{
  self->is_short = FALSE;
  self->widens = self->n_narrow > 0;
}

void
llm_kv_narrow_stop (LlmKvStore *self)
{
  self->widens = FALSE;
  for (GList *l = self->sequences.head; l != NULL; l = l->next)
    if (((LlmKvSeq *) l->data)->n_widening > 0)
      llm_kv_restore_end_read (l->data);
}
