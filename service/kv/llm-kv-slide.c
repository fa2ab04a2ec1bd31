/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-kv"

#include "kv/llm-kv-private.h"

#include <string.h>

void
llm_kv_copy_slot (const LlmKvLayout *layout,
                  guint              head_dim,
                  gconstpointer      from_part,
                  guint              from,
                  gpointer           to_part,
                  guint              to)
{
  gsize slots = layout->chunk_slots;
  gsize v_at = llk_kv_part_bytes (layout->format, LLK_KV_KEYS, head_dim, slots);
  gsize slot_bytes = (gsize) head_dim * llk_kv_bits (layout->format) / 8;

  if (layout->format == LLK_KV_F32)
    {
      const guint32 *k = (const guint32 *) from_part + from;
      guint32 *to_k = (guint32 *) to_part + to;

      for (gsize d = 0; d < head_dim; d++)
        to_k[d * slots] = k[d * slots];
    }
  else
    {
      const guint16 *k = (const guint16 *) from_part + from;
      guint16 *to_k = (guint16 *) to_part + to;

      for (gsize d = 0; d < head_dim; d++)
        to_k[d * slots] = k[d * slots];
    }
  memcpy ((guint8 *) to_part + v_at + to * slot_bytes,
          (const guint8 *) from_part + v_at + from * slot_bytes, slot_bytes);
}

/* Copies a slot; both chunks are floats of @self. */
static void
copy_slot (LlmKvSeq   *self,
           LlmKvChunk *source,
           guint       from,
           LlmKvChunk *target,
           guint       to)
{
  LlmKvStore *store = self->store;

  for (guint layer = 0; layer < store->layout.n_layers; layer++)
    for (guint head = 0; head < store->layers[layer].n_kv_heads; head++)
      llm_kv_copy_slot (&store->layout, store->layers[layer].head_dim,
                        llm_kv_chunk_part (store, source, layer, head, LLK_KV_KEYS), from,
                        llm_kv_chunk_part (store, target, layer, head, LLK_KV_KEYS), to);
}

/* Memory was reserved when the slots were appended; only a fork made since then costs a copy here.
 * A slot that can't be moved is computed again. */
static void
move_slot (LlmKvSeq *self,
           guint     from,
           guint     to)
{
  guint slots = self->store->layout.chunk_slots;
  LlmKvChunk *source = NULL, *target;

  if (llm_kv_seq_hold (self, from / slots)->chunk->state == LLM_KV_PRESENT
      && llm_kv_seq_hold (self, to / slots)->chunk->state == LLM_KV_PRESENT)
    source = llm_kv_seq_make_writable (self, from / slots);
  target = source != NULL ? llm_kv_seq_make_writable (self, to / slots) : NULL;
  if (target == NULL || target->state != LLM_KV_PRESENT || source->state != LLM_KV_PRESENT)
    {
      llm_kv_seq_vacate (self, to / slots, TRUE);
      llm_kv_seq_forget_slot (self, to / slots);
      self->is_whole = FALSE;
      return;
    }

  copy_slot (self, source, from % slots, target, to % slots);
  target->is_rounded |= source->is_rounded;
}

/* As the path rises, a slot is read before another one overwrites it. */
void
llm_kv_seq_commit (LlmKvSeq    *self,
                   guint        first,
                   const guint *path,
                   guint        n_path)
{
  for (guint i = 0; i < n_path; i++)
    {
      g_return_if_fail (path[i] >= first && path[i] < self->length);
      g_return_if_fail (i == 0 || path[i] > path[i - 1]);
    }
  g_return_if_fail (first <= self->length);

  for (guint i = 0; i < n_path; i++)
    if (path[i] != first + i)
      move_slot (self, path[i], first + i);
  llm_kv_seq_truncate (self, first + n_path);
  llm_kv_work_restart (self);
}

/* A sink keeps its tokens, but its position changes, while other sequences hold it at the old
 * one. */
static void
move_sink (LlmKvSeq *self,
           guint     chunk)
{
  llm_kv_seq_forget_slot (self, chunk);
  llm_kv_seq_hold (self, chunk)->is_moved = TRUE;
  llm_kv_seq_vacate (self, chunk, TRUE);
  if (self->is_locked)
    llm_kv_seq_compute (self, chunk);
}

void
llm_kv_seq_slide (LlmKvSeq *self,
                  guint     n_sinks,
                  guint     n_slots)
{
  guint slots = self->store->layout.chunk_slots;
  guint first = MIN (n_sinks / slots, self->holds->len);
  guint n = MIN (n_slots / slots, self->holds->len - first);

  g_return_if_fail (n_sinks % slots == 0 && n_slots % slots == 0);
  g_return_if_fail (self->n_slid == 0 || self->n_sinks == n_sinks);

  if (n_slots == 0)
    return;

  for (guint i = first; i < first + n; i++)
    llm_kv_seq_forget_slot (self, i);
  llm_kv_seq_drop_chunks (self, first, first + n);
  self->length = MAX (n_sinks, self->length - MIN (n_slots, self->length));
  self->n_sinks = n_sinks;
  self->n_slid += n_slots;
  while (self->holds->len < n_sinks / slots)
    llm_kv_seq_add_chunk (self);
  for (guint i = first; i < self->holds->len; i++)
    llm_kv_seq_hold (self, i)->is_fixed = TRUE;
  for (guint i = 0; i < n_sinks / slots; i++)
    move_sink (self, i);
  llm_kv_work_restart (self);
}
