/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-kv"

#include "base/llm-fail.h"
#include "kv/llm-kv-private.h"

#include <string.h>

#include "common/llmsvc-error.h"

guint64
llm_kv_seq_get_own_bytes (LlmKvSeq *self)
{
  guint64 bytes = 0;

  LLM_EACH_IN (const LlmKvHold, hold, self->holds)
    if (hold->chunk->n_holders - hold->chunk->n_keepers == 1 && hold->chunk->state != LLM_KV_GONE)
      bytes += self->store->arenas[hold->chunk->form].bytes;

  return bytes;
}

static gboolean
is_read_beside (LlmKvSeq         *self,
                const LlmKvChunk *chunk)
{
  LLM_EACH_IN (const LlmKvRestored, target, self->targets)
    if (target->into == chunk)
      return TRUE;

  return FALSE;
}

/* Whether slots may be written in place: not while a write to storage reads the chunk, or a read
 * fills it. */
static gboolean
is_writable (LlmKvSeq   *self,
             LlmKvChunk *chunk)
{
  if (chunk->state == LLM_KV_GONE || !llm_kv_chunk_is_float (chunk)
      || LLM_KV_FORM_IS_BEHIND (chunk->form) || chunk->n_holders > 1)
    return FALSE;

  if (chunk->state == LLM_KV_PRESENT)
    return chunk->n_pins == 0;
  return chunk->restorer == self
         && (chunk->state != LLM_KV_READING || is_read_beside (self, chunk));
}

LlmKvChunk *
llm_kv_seq_make_writable (LlmKvSeq *self,
                          guint     chunk)
{
  LlmKvHold *hold = llm_kv_seq_hold (self, chunk);
  LlmKvChunk *copy;

  if (!is_writable (self, hold->chunk))
    {
      if (hold->chunk->state == LLM_KV_PRESENT && !LLM_KV_FORM_IS_BEHIND (hold->chunk->form))
        {
          copy = llm_kv_chunk_copy_floats (self->store, hold->chunk);
          if (copy == NULL)
            return NULL;
          llm_kv_seq_replace (self, chunk, copy);
        }
      else if (!llm_kv_seq_compute (self, chunk))
        {
          return NULL;
        }
    }
  if (hold->hash != 0)
    llm_kv_seq_forget_slot (self, chunk);
  hold->chunk->content = 0;
  return hold->chunk;
}

/* Adds new chunks before it copies the last one, so that a failure only has to remove the new
 * ones. */
static gboolean
extend (LlmKvSeq *self,
        guint     n_chunks,
        gboolean  writes_last)
{
  LlmKvStore *store = self->store;
  guint n_before = self->holds->len;
  gboolean has_memory = TRUE;
  LlmKvChunk *last;

  for (guint i = 0; i < n_chunks; i++)
    {
      LlmKvChunk *chunk = llm_kv_seq_add_chunk (self);

      has_memory = has_memory
                   && llm_kv_chunk_allocate (store, chunk, llm_kv_store_float_form (store),
                                             LLM_KV_PRESENT);
      llm_kv_chunk_queue (store, chunk, TRUE);
    }
  last = writes_last && has_memory ? llm_kv_seq_make_writable (self, n_before - 1) : NULL;
  if (!has_memory || (writes_last && last == NULL))
    {
      llm_kv_seq_drop_chunks (self, n_before, self->holds->len);
      return FALSE;
    }
  if (last != NULL)
    llm_kv_chunk_poison (store, last, self->length % store->layout.chunk_slots, 0,
                         store->layout.n_layers);
  return TRUE;
}

gboolean
llm_kv_seq_append (LlmKvSeq *self,
                   guint     n_slots,
                   GError  **error)
{
  LlmKvStore *store = self->store;
  guint slots = store->layout.chunk_slots;
  guint64 n_needed = ((guint64) self->length + n_slots + slots - 1) / slots;
  gboolean writes_last, copies_last;
  guint64 bytes;

  if (n_slots > G_MAXINT || self->length + n_slots > G_MAXINT)
    return llm_fail (error, LLMSVC_ERROR_NO_MEMORY,
                     "A context can't hold %u more positions than the %u it has", n_slots,
                     self->length);

  writes_last = n_slots > 0 && self->length % slots != 0;
  copies_last = writes_last
                && !is_writable (self, llm_kv_seq_hold (self, self->holds->len - 1)->chunk);
  bytes = (n_needed - self->holds->len + (copies_last ? 1 : 0))
          * store->arenas[llm_kv_store_float_form (store)].bytes;

  if (!llm_kv_store_has_room (store, bytes)
      || !extend (self, (guint) (n_needed - self->holds->len), writes_last))
    return llm_fail (error, LLMSVC_ERROR_NO_MEMORY,
                     "No room for %u more positions of context memory (%ju bytes)", n_slots, bytes);

  self->length += n_slots;
  llm_kv_work_restart (self);
  return TRUE;
}

/* A chunk that is cut stays as it is until it is written to. */
void
llm_kv_seq_truncate (LlmKvSeq *self,
                     guint     length)
{
  LlmKvStore *store = self->store;
  guint slots = store->layout.chunk_slots;
  guint n_kept = (length + slots - 1) / slots;

  g_return_if_fail (length <= self->length);

  if (length == self->length)
    return;

  for (guint i = n_kept; i < self->holds->len; i++)
    llm_kv_seq_forget_slot (self, i);
  llm_kv_seq_drop_chunks (self, n_kept, self->holds->len);
  self->length = length;
  if (length == 0)
    self->n_slid = self->n_sinks = 0;
  if (length % slots != 0)
    {
      LlmKvChunk *last = llm_kv_seq_hold (self, self->holds->len - 1)->chunk;

      if (is_writable (self, last))
        {
          llm_kv_chunk_poison (store, last, length % slots, 0, store->layout.n_layers);
          llm_kv_chunk_clear_todo (store, last, G_MAXUINT64 << (length % slots));
        }
    }
  llm_kv_work_restart (self);
}

/* Keys are stored by dimension, with slots as neighbours. */
static void
write_head (LlmKvStore  *store,
            guint        head_dim,
            guint8      *k_part,
            guint8      *v_part,
            guint        slot,
            const float *k,
            const float *v)
{
  gsize stride = store->layout.chunk_slots;

  if (store->layout.format == LLK_KV_F32)
    {
      float *keys = (float *) (gpointer) k_part + slot;

      for (gsize d = 0; d < head_dim; d++)
        keys[d * stride] = k[d];
      memcpy ((float *) (gpointer) v_part + (gsize) slot * head_dim, v, head_dim * sizeof (float));
    }
  else
    {
      guint16 *keys = (guint16 *) (gpointer) k_part + slot;
      guint16 halves[LLK_MAX_HEAD_DIM];

      store->ops->vector->f32_to_f16 (k, halves, head_dim);
      for (gsize d = 0; d < head_dim; d++)
        keys[d * stride] = halves[d];
      store->ops->vector->f32_to_f16 (v, (guint16 *) (gpointer) v_part + (gsize) slot * head_dim,
                                      head_dim);
    }
}

/* Can't fail: memory was reserved when slots were appended or a request began; only a fork made
 * since then costs a copy here. */
void
llm_kv_seq_begin_write (LlmKvSeq *self,
                        guint     slot)
{
  LlmKvStore *store = self->store;
  guint at = slot / store->layout.chunk_slots;
  LlmKvChunk *chunk;

  g_return_if_fail (slot < self->length);

  /* Sequences that share a chunk which is computed again want the same values in it. */
  chunk = llm_kv_seq_hold (self, at)->chunk;
  if (chunk->state != LLM_KV_COMPUTING || chunk->restorer != self)
    chunk = llm_kv_seq_make_writable (self, at);
  if (chunk == NULL)
    g_error ("No memory for a copy of %" G_GSIZE_FORMAT " bytes of context memory",
             store->arenas[llm_kv_store_float_form (store)].bytes);
  chunk->is_rounded |= at > self->first_rounded;
}

void
llm_kv_seq_write_head (LlmKvSeq    *self,
                       guint        layer,
                       guint        head,
                       guint        slot,
                       const float *k,
                       const float *v)
{
  LlmKvStore *store = self->store;
  guint slots = store->layout.chunk_slots;
  LlmKvChunk *chunk = llm_kv_seq_hold (self, slot / slots)->chunk;

  write_head (store, store->layers[layer].head_dim,
              llm_kv_chunk_part (store, chunk, layer, head, LLK_KV_KEYS),
              llm_kv_chunk_part (store, chunk, layer, head, LLK_KV_VALUES), slot % slots, k, v);
}

void
llm_kv_seq_end_write (LlmKvSeq *self,
                      guint     layer,
                      guint     slot)
{
  guint slots = self->store->layout.chunk_slots;

  if (layer == self->store->layout.n_layers - 1)
    llm_kv_chunk_clear_todo (self->store, llm_kv_seq_hold (self, slot / slots)->chunk,
                             G_GUINT64_CONSTANT (1) << (slot % slots));
}

void
llm_kv_seq_write (LlmKvSeq    *self,
                  guint        layer,
                  guint        slot,
                  const float *k,
                  const float *v)
{
  const LlmKvLayer *shape = &self->store->layers[layer];

  g_return_if_fail (slot < self->length && layer < self->store->layout.n_layers);

  llm_kv_seq_begin_write (self, slot);
  for (guint head = 0; head < shape->n_kv_heads; head++)
    llm_kv_seq_write_head (self, layer, head, slot, k + (gsize) head * shape->head_dim,
                           v + (gsize) head * shape->head_dim);
  llm_kv_seq_end_write (self, layer, slot);
}

void
llm_kv_seq_view (LlmKvSeq  *self,
                 guint      layer,
                 guint      chunk,
                 LlmKvView *view)
{
  LlmKvStore *store = self->store;
  guint slots = store->layout.chunk_slots;
  LlmKvChunk *held;
  LlkKvFormat format;

  g_return_if_fail (chunk < self->holds->len && layer < store->layout.n_layers);

  held = llm_kv_seq_hold (self, chunk)->chunk;
  format = LLM_KV_FORM_FORMAT (held->form);
#ifdef LLM_POISON
  g_assert (held->state == LLM_KV_PRESENT || held->state == LLM_KV_COMPUTING
            || (held->state == LLM_KV_READING && held->n_ready > layer));
#endif
  if (held->data == NULL || llm_kv_store_layer_bytes (store, held->form, layer) == 0)
    {
      view->k = view->v = NULL;
    }
  else
    {
      view->k = llm_kv_chunk_part (store, held, layer, 0, LLK_KV_KEYS);
      view->v = llm_kv_chunk_part (store, held, layer, 0, LLK_KV_VALUES);
    }
  view->head_bytes = llm_kv_store_head_bytes (store, format, layer);
  view->format = format;
  view->first_slot = chunk * slots;
  view->chunk_slots = slots;
  view->n_slots = llm_kv_seq_chunk_length (self, chunk);
}

void
llm_kv_seq_add_density (LlmKvSeq *self,
                        guint     chunk,
                        guint64   received,
                        guint64   n_slots)
{
  LlmKvHold *hold;

  g_return_if_fail (chunk < self->holds->len);

  hold = llm_kv_seq_hold (self, chunk);
  hold->received_now += received;
  hold->n_slots_now += n_slots;
}

static float
get_received (const LlmKvHold *hold)
{
  return hold->received + (float) ((double) hold->received_now / LLM_KV_DENSITY_ONE);
}

float
llm_kv_seq_count_density_rows (LlmKvSeq *self,
                               guint     chunk)
{
  const LlmKvHold *hold = llm_kv_seq_hold (self, chunk);

  return hold->n_rows
         + (float) ((double) hold->n_slots_now / self->store->layout.chunk_slots);
}

float
llm_kv_seq_get_density (LlmKvSeq *self,
                        guint     chunk)
{
  float n_rows;

  g_return_val_if_fail (chunk < self->holds->len, 0);

  n_rows = llm_kv_seq_count_density_rows (self, chunk);
  return n_rows > 0 ? get_received (llm_kv_seq_hold (self, chunk)) / n_rows : 0;
}

void
llm_kv_seq_decay_density (LlmKvSeq *self,
                          guint     chunk,
                          float     decay)
{
  LlmKvHold *hold = llm_kv_seq_hold (self, chunk);

  hold->received = get_received (hold) * decay;
  hold->n_rows = llm_kv_seq_count_density_rows (self, chunk) * decay;
  hold->received_now = hold->n_slots_now = 0;
}

void
llm_kv_seq_get_info (LlmKvSeq       *self,
                     guint           chunk,
                     LlmKvChunkInfo *info)
{
  LlmKvHold *hold;

  g_return_if_fail (chunk < self->holds->len);

  hold = llm_kv_seq_hold (self, chunk);
  *info = (LlmKvChunkInfo) { 0 };
  info->is_in_memory = hold->chunk->state == LLM_KV_PRESENT;
  info->is_on_storage = hold->slot.extent != 0;
  info->is_shared = hold->chunk->n_holders - hold->chunk->n_keepers > 1;
  if (info->is_on_storage)
    info->storage_bits = (guint8) llk_kv_bits (LLM_KV_FORM_FORMAT (hold->slot_form));
  if (info->is_in_memory)
    info->bits = (guint8) llk_kv_bits (LLM_KV_FORM_FORMAT (hold->chunk->form));
  else
    info->bits = info->storage_bits;
}

double
llm_kv_seq_get_bits (LlmKvSeq *self)
{
  double bits = 0;

  for (guint i = 0; i < self->holds->len; i++)
    {
      const LlmKvHold *hold = llm_kv_seq_hold (self, i);
      LlmKvForm form = hold->chunk->state != LLM_KV_GONE ? hold->chunk->form : hold->slot_form;

      bits += (double) llk_kv_bits (LLM_KV_FORM_FORMAT (form)) * llm_kv_seq_chunk_length (self, i);
    }
  return self->length > 0 ? bits / self->length : 0;
}
