/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-kv"

#include "kv/llm-kv-private.h"

#include <string.h>

#include "common/llmsvc-error.h"

/* A sequence's hold on a chunk. The density is of this sequence's rows alone. */
typedef struct
{
  LlmKvChunk *chunk;
  float density;
} Hold;

struct _LlmKvSeq
{
  LlmKvStore *store;   /* (unowned) */
  GArray *holds;       /* (element-type Hold) (owned): chunk i has the slots from i * chunk_slots */
  guint length;        /* slots */
  guint n_locks;
};

static Hold *
get_hold (LlmKvSeq *self,
          guint     chunk)
{
  return &g_array_index (self->holds, Hold, chunk);
}

static void
drop_chunks (LlmKvSeq *self,
             guint     n_kept)
{
  for (guint i = n_kept; i < self->holds->len; i++)
    llm_kv_chunk_unref (self->store, get_hold (self, i)->chunk);
  g_array_set_size (self->holds, n_kept);
}

/* Gives the hold a chunk of its own with the same content. */
static gboolean
make_own (LlmKvSeq *self,
          Hold     *hold)
{
  LlmKvChunk *copy;

  if (hold->chunk->n_holders == 1)
    return TRUE;

  copy = llm_kv_chunk_copy (self->store, hold->chunk);
  if (copy == NULL)
    return FALSE;

  llm_kv_chunk_unref (self->store, hold->chunk);
  hold->chunk = copy;
  return TRUE;
}

/* For writes, which have no way to fail: room was made when slots were
 * appended, only a fork made since then costs a copy here. */
static Hold *
get_own_hold (LlmKvSeq *self,
              guint     chunk)
{
  Hold *hold = get_hold (self, chunk);

  if (!make_own (self, hold))
    g_error ("No memory for a copy of %" G_GSIZE_FORMAT " bytes of context memory",
             self->store->chunk_bytes);

  return hold;
}

LlmKvSeq *
llm_kv_seq_new (LlmKvStore *store)
{
  LlmKvSeq *self;

  g_return_val_if_fail (store != NULL, NULL);

  self = g_new0 (LlmKvSeq, 1);
  self->store = store;
  self->holds = g_array_new (FALSE, FALSE, sizeof (Hold));
  store->n_sequences++;
  return self;
}

void
llm_kv_seq_free (LlmKvSeq *self)
{
  if (self == NULL)
    return;

  g_assert (self->n_locks == 0);
  drop_chunks (self, 0);
  g_array_unref (self->holds);
  self->store->n_sequences--;
  g_free (self);
}

LlmKvSeq *
llm_kv_seq_fork (LlmKvSeq *self)
{
  LlmKvSeq *fork = llm_kv_seq_new (self->store);

  fork->length = self->length;
  g_array_append_vals (fork->holds, self->holds->data, self->holds->len);
  for (guint i = 0; i < fork->holds->len; i++)
    get_hold (fork, i)->chunk->n_holders++;
  return fork;
}

guint
llm_kv_seq_get_length (LlmKvSeq *self)
{
  return self->length;
}

const LlmKvLayout *
llm_kv_seq_get_layout (LlmKvSeq *self)
{
  return &self->store->layout;
}

guint64
llm_kv_seq_get_own_bytes (LlmKvSeq *self)
{
  guint64 bytes = 0;

  for (guint i = 0; i < self->holds->len; i++)
    if (get_hold (self, i)->chunk->n_holders == 1)
      bytes += self->store->chunk_bytes;

  return bytes;
}

/* New chunks come before the copy of the shared last one, so that a failure
 * undoes nothing but what it just added. */
static gboolean
extend (LlmKvSeq *self,
        guint     n_chunks,
        gboolean  copies_last)
{
  guint n_before = self->holds->len;

  for (guint i = 0; i < n_chunks; i++)
    {
      Hold hold = { llm_kv_chunk_new (self->store), 0 };

      if (hold.chunk == NULL)
        {
          drop_chunks (self, n_before);
          return FALSE;
        }
      g_array_append_val (self->holds, hold);
    }
  if (copies_last)
    {
      Hold *last = get_hold (self, n_before - 1);

      if (!make_own (self, last))
        {
          drop_chunks (self, n_before);
          return FALSE;
        }
      llm_kv_chunk_poison (self->store, last->chunk,
                           self->length % self->store->layout.chunk_slots);
    }

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
  gboolean copies_last;
  guint64 bytes;

  if (n_slots > G_MAXINT || self->length + n_slots > G_MAXINT)
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_NO_MEMORY,
                   "A context can't hold %u more positions than the %u it has", n_slots,
                   self->length);
      return FALSE;
    }

  copies_last = n_slots > 0 && self->length % slots != 0
                && get_hold (self, self->holds->len - 1)->chunk->n_holders > 1;
  bytes = (n_needed - self->holds->len + (copies_last ? 1 : 0)) * store->chunk_bytes;

  if ((store->ledger != NULL && bytes > 0 && !llm_ledger_has_room (store->ledger, bytes))
      || !extend (self, (guint) (n_needed - self->holds->len), copies_last))
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_NO_MEMORY,
                   "No room for %u more positions of context memory (%ju bytes)",
                   n_slots, bytes);
      return FALSE;
    }

  self->length += n_slots;
  return TRUE;
}

void
llm_kv_seq_truncate (LlmKvSeq *self,
                     guint     length)
{
  guint slots = self->store->layout.chunk_slots;

  g_return_if_fail (length <= self->length);

  if (length == self->length)
    return;

  drop_chunks (self, (length + slots - 1) / slots);
  self->length = length;
  if (length % slots != 0)
    {
      Hold *last = get_hold (self, self->holds->len - 1);

      if (last->chunk->n_holders == 1)
        llm_kv_chunk_poison (self->store, last->chunk, length % slots);
    }
}

static void
move_slot (LlmKvSeq *self,
           guint     from,
           guint     to)
{
  LlmKvStore *store = self->store;
  const LlmKvLayout *layout = &store->layout;
  LlmKvChunk *target = get_own_hold (self, to / layout->chunk_slots)->chunk;
  LlmKvChunk *source = get_hold (self, from / layout->chunk_slots)->chunk;
  gsize slot_bytes = layout->head_dim * store->value_bytes;
  gsize row_bytes = layout->chunk_slots * store->value_bytes;

  from %= layout->chunk_slots;
  to %= layout->chunk_slots;
  for (guint layer = 0; layer < layout->n_layers; layer++)
    for (guint head = 0; head < layout->n_kv_heads; head++)
      {
        guint8 *k = llm_kv_chunk_part (store, target, layer, head, 0) + to * store->value_bytes;
        guint8 *v = llm_kv_chunk_part (store, target, layer, head, 1) + to * slot_bytes;
        const guint8 *from_k = llm_kv_chunk_part (store, source, layer, head, 0)
                               + from * store->value_bytes;
        const guint8 *from_v = llm_kv_chunk_part (store, source, layer, head, 1)
                               + from * slot_bytes;

        for (guint d = 0; d < layout->head_dim; d++)
          memcpy (k + d * row_bytes, from_k + d * row_bytes, store->value_bytes);
        memcpy (v, from_v, slot_bytes);
      }
}

/* As the path rises, a slot is read before another one is moved onto it. */
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
}

/* Every chunk is in memory in this store. */
LlmStatus
llm_kv_seq_make_resident (LlmKvSeq *self,
                          guint     layer,
                          GError  **error)
{
  g_return_val_if_fail (layer < self->store->layout.n_layers, LLM_FAILED);

  return LLM_READY;
}

void
llm_kv_seq_lock (LlmKvSeq *self)
{
  self->n_locks++;
}

void
llm_kv_seq_unlock (LlmKvSeq *self)
{
  g_return_if_fail (self->n_locks > 0);

  self->n_locks--;
}

/* Keys go by dimension, where slots are neighbours. */
static void
write_head (LlmKvStore  *store,
            guint8      *k_part,
            guint8      *v_part,
            guint        slot,
            const float *k,
            const float *v)
{
  gsize head_dim = store->layout.head_dim;
  gsize stride = store->layout.chunk_slots;

  if (store->layout.format == LLM_KV_F32)
    {
      float *keys = (float *) (gpointer) k_part + slot;

      for (gsize d = 0; d < head_dim; d++)
        keys[d * stride] = k[d];
      memcpy ((float *) (gpointer) v_part + slot * head_dim, v, head_dim * sizeof (float));
    }
  else
    {
      guint16 *keys = (guint16 *) (gpointer) k_part + slot;
      guint16 halves[LLK_MAX_HEAD_DIM];

      store->ops->vector->f32_to_f16 (k, halves, head_dim);
      for (gsize d = 0; d < head_dim; d++)
        keys[d * stride] = halves[d];
      store->ops->vector->f32_to_f16 (v, (guint16 *) (gpointer) v_part + slot * head_dim, head_dim);
    }
}

void
llm_kv_seq_write (LlmKvSeq    *self,
                  guint        layer,
                  guint        slot,
                  const float *k,
                  const float *v)
{
  LlmKvStore *store = self->store;
  const LlmKvLayout *layout = &store->layout;
  LlmKvChunk *chunk;

  g_return_if_fail (slot < self->length && layer < layout->n_layers);

  chunk = get_own_hold (self, slot / layout->chunk_slots)->chunk;
  for (guint head = 0; head < layout->n_kv_heads; head++)
    write_head (store, llm_kv_chunk_part (store, chunk, layer, head, 0),
                llm_kv_chunk_part (store, chunk, layer, head, 1), slot % layout->chunk_slots,
                k + (gsize) head * layout->head_dim, v + (gsize) head * layout->head_dim);
}

guint
llm_kv_seq_get_n_chunks (LlmKvSeq *self)
{
  return self->holds->len;
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

  g_return_if_fail (chunk < self->holds->len && layer < store->layout.n_layers);

  held = get_hold (self, chunk)->chunk;
  view->k = llm_kv_chunk_part (store, held, layer, 0, 0);
  view->v = llm_kv_chunk_part (store, held, layer, 0, 1);
  view->head_bytes = 2 * store->part_bytes;
  view->format = store->layout.format;
  view->first_slot = chunk * slots;
  view->chunk_slots = slots;
  view->n_slots = MIN (slots, self->length - view->first_slot);
}

void
llm_kv_seq_add_density (LlmKvSeq *self,
                        guint     chunk,
                        float     mass)
{
  g_return_if_fail (chunk < self->holds->len);

  get_hold (self, chunk)->density += mass;
}

float
llm_kv_seq_get_density (LlmKvSeq *self,
                        guint     chunk)
{
  g_return_val_if_fail (chunk < self->holds->len, 0);

  return get_hold (self, chunk)->density;
}
