/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-kv"

#include "kv/llm-kv-private.h"

/* What rows of the calls before weigh, for each call that came since (L3). */
#define DENSITY_DECAY 0.5f

gboolean
llm_kv_seq_is_locked (LlmKvSeq *self)
{
  return self->is_locked;
}

/* From the end on, so that the chunks others may share are the last that go. */
static void
unlock (LlmKvSeq *self)
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
llm_kv_seq_park (LlmKvSeq *self)
{
  g_return_if_fail (self->is_locked);

  llm_kv_restore_end (self);
  unlock (self);
}

static void
decay_densities (LlmKvSeq *self)
{
  for (guint i = 0; i < self->holds->len; i++)
    {
      LlmKvHold *hold = llm_kv_seq_hold (self, i);
      float density = llm_kv_seq_get_density (self, i);

      hold->chunk->density = hold->chunk->n_holders == 1 ? density
                                                         : MAX (hold->chunk->density, density);
      hold->mass *= DENSITY_DECAY;
      hold->n_rows *= DENSITY_DECAY;
    }
}

/* Each chunk's hash is of all tokens to its end, those that slid away too. */
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
    }
}

void
llm_kv_seq_end_call (LlmKvSeq     *self,
                     const gint32 *tokens,
                     guint         n_tokens)
{
  g_return_if_fail (self->is_locked);

  llm_kv_restore_end (self);
  unlock (self);
  decay_densities (self);
  name_chunks (self, tokens, n_tokens);
  self->write_failed = FALSE;
  llm_kv_work_begin (self);
}
