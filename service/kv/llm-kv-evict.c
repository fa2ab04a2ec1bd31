/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-kv"

#include "kv/llm-kv-private.h"

/* Chunks that are evicted together, so that one read restores them. */
#define RUN_CHUNKS 8

/* A request to free memory, and its result. */
typedef struct
{
  guint64 wanted;
  guint64 freed;
  guint64 coming;       /* to be freed when it has been written */
} Eviction;

/* For every chunk: the sequences that would have to compute it again, wait for it, or get fewer
 * bits. */
static void
look_at_holds (LlmKvStore *self)
{
  for (GList *l = self->sequences.head; l != NULL; l = l->next)
    {
      LlmKvSeq *seq = l->data;

      LLM_EACH_IN (LlmKvHold, hold, seq->holds)
        {
          hold->chunk->n_unwritten = 0;
          hold->chunk->can_be_written = hold->chunk->keeps_bits = FALSE;
        }
    }
  for (GList *l = self->sequences.head; l != NULL; l = l->next)
    {
      LlmKvSeq *seq = l->data;

      for (guint i = 0; i < seq->holds->len; i++)
        {
          const LlmKvHold *hold = llm_kv_seq_hold (seq, i);

          hold->chunk->keeps_bits |= seq->is_exact || i >= llm_kv_seq_n_full (seq);
          if (llm_kv_hold_is_written (hold))
            continue;
          hold->chunk->n_unwritten++;
          hold->chunk->can_be_written |= llm_kv_work_can_write (seq, hold);
        }
    }
  llm_kv_loss_measure (self);
}

static gboolean
is_enough (const Eviction *eviction)
{
  return eviction->freed + eviction->coming >= eviction->wanted;
}

static gboolean
may_be_taken (const LlmKvChunk *chunk)
{
  return chunk->state == LLM_KV_PRESENT && chunk->n_locks == 0;
}

/* Evicts a chunk, or has it written first. A chunk that is being written can't be evicted at once:
 * it goes when the write has ended. */
static void
take (LlmKvStore *self,
      LlmKvChunk *chunk,
      gboolean    in_haste,
      Eviction   *eviction)
{
  guint64 bytes = self->arenas[chunk->form].bytes;
  gboolean is_to_be_written = chunk->n_unwritten > 0 && chunk->can_be_written && !in_haste;

  if (bytes == 0)
    return;

  if (!chunk->leaves)
    llm_kv_loss_count_gone (self, chunk);
  if (chunk->n_pins > 0 || is_to_be_written)
    {
      chunk->leaves = TRUE;
      if (!in_haste)
        eviction->coming += bytes;
      return;
    }

  llm_kv_chunk_drop (self, chunk);
  self->counters.n_evicted++;
  self->counters.evicted_bytes += bytes;
  self->counters.n_dropped += chunk->n_unwritten > 0;
  eviction->freed += bytes;
}

/* Passes of eviction, in this order: each loses more than the one before. Quantizing further comes
 * before the last. */
typedef enum
{
  WRITTEN,      /* chunks that can be restored in time: they cost only that time */
  WRITABLE,     /* the same once they are written */
  ANY,
} Level;

/* A chunk that is leaving already counts as WRITABLE, and only once. */
static gboolean
is_for (LlmKvStore       *self,
        const LlmKvChunk *chunk,
        Level             level,
        gboolean          in_haste)
{
  gboolean is_written = chunk->n_unwritten == 0 && chunk->n_pins == 0;

  if (level == ANY)
    return in_haste || !chunk->leaves;
  if (level == WRITABLE)
    return !in_haste
           && (chunk->leaves
               || (chunk->n_unwritten > 0 && chunk->can_be_written
                   && !llm_kv_loss_is_late (self, chunk)));
  return is_written && !llm_kv_loss_is_late (self, chunk);
}

/* --- in which order --- */

/* Evicts by age or bits. */
static void
take_from_queue (LlmKvStore *self,
                 Level       level,
                 gboolean    in_haste,
                 Eviction   *eviction)
{
  LlmKvQueueEntry *next;

  for (LlmKvQueueEntry *entry = llm_kv_queue_peek (&self->queue, NULL);
       entry != NULL && !is_enough (eviction); entry = next)
    {
      LlmKvChunk *chunk = LLM_KV_QUEUE_OWNER (entry, LlmKvChunk, entry);

      next = llm_kv_queue_peek (&self->queue, entry);
      if (is_for (self, chunk, level, in_haste))
        take (self, chunk, in_haste, eviction);
    }
}

/* Evicts in the order of the text. */
static void
take_from_seq (LlmKvSeq *self,
               Level     level,
               gboolean  in_haste,
               Eviction *eviction)
{
  for (guint i = 0; i < self->holds->len && !is_enough (eviction); i++)
    {
      LlmKvChunk *chunk = llm_kv_seq_hold (self, i)->chunk;

      if (may_be_taken (chunk) && is_for (self->store, chunk, level, in_haste))
        take (self->store, chunk, in_haste, eviction);
    }
}

/* Evicts the next chunks of a sequence, in the order of the text: so the missing ones stay one run
 * at the beginning, where they cost least to compute again. Chunks that other sequences hold as
 * well go last, with the holder that needs them most. */
static void
take_run (LlmKvSeq *self,
          Level     level,
          gboolean  in_haste,
          Eviction *eviction)
{
  LlmKvLoss *loss = &self->loss;
  guint n_taken = 0;

  while (n_taken < RUN_CHUNKS && loss->at < self->holds->len && !is_enough (eviction))
    {
      LlmKvChunk *chunk = llm_kv_seq_hold (self, loss->at++)->chunk;

      if (!may_be_taken (chunk) || (chunk->n_holders > 1) != loss->shares
          || (loss->shares && chunk->chance > loss->chance)
          || !is_for (self->store, chunk, level, in_haste))
        continue;
      take (self->store, chunk, in_haste, eviction);
      n_taken++;
    }
  if (loss->at < self->holds->len)
    return;
  loss->at = 0;
  loss->is_done = loss->shares;
  loss->shares = TRUE;
}

static void
take_by_cost (LlmKvStore *self,
              Level       level,
              gboolean    in_haste,
              Eviction   *eviction)
{
  LlmKvSeq *seq;

  llm_kv_loss_restart (self);
  while (!is_enough (eviction) && (seq = llm_kv_loss_find_cheapest (self)) != NULL)
    take_run (seq, level, in_haste, eviction);
}

/* Evicts whole sequences, least recently used first. */
static void
take_contexts (LlmKvStore *self,
               gboolean    in_haste,
               Eviction   *eviction)
{
  for (GList *l = self->sequences.head; l != NULL && !is_enough (eviction); l = l->next)
    {
      LlmKvSeq *seq = l->data;

      LLM_EACH_IN (LlmKvHold, hold, seq->holds)
        if (!seq->is_locked && may_be_taken (hold->chunk))
          take (self, hold->chunk, in_haste, eviction);
    }
}

/* Writes the chunks that are to leave after a write, whatever holds them. */
static void
have_written (LlmKvStore *self)
{
  for (GList *l = self->sequences.head; l != NULL; l = l->next)
    {
      LlmKvSeq *seq = l->data;
      gboolean is_asked = FALSE;

      LLM_EACH_IN (LlmKvHold, hold, seq->holds)
        is_asked = is_asked
                   || (hold->chunk->leaves && !llm_kv_hold_is_written (hold)
                       && llm_kv_work_can_write (seq, hold));
      if (is_asked && seq->stage != LLM_KV_TO_PACK)
        llm_kv_work_begin (seq);
    }
}

/* --- --- */

/* Quantizes further, unless all memory is asked for: that may free enough. */
static void
narrow (LlmKvStore *self,
        LlmKvSeq   *seq,
        gboolean    in_haste,
        Eviction   *eviction)
{
  if (!is_enough (eviction) && eviction->wanted < self->bytes)
    eviction->freed += llm_kv_narrow (self, seq,
                                      eviction->wanted - eviction->freed - eviction->coming,
                                      in_haste);
}

/* Of @seq (nullable: all). */
static void
evict (LlmKvStore *self,
       LlmKvSeq   *seq,
       gboolean    in_haste,
       Eviction   *eviction)
{
  gboolean is_by_cost =
      self->policy.order == LLM_KV_BY_COST || self->policy.order == LLM_KV_BY_GIVEN_COST;
  Level level = seq == NULL && self->policy.whole ? ANY : WRITTEN;

  look_at_holds (self);
  self->keeps_pages = TRUE;
  for (; level <= ANY && !is_enough (eviction); level++)
    {
      if (level == ANY)
        narrow (self, seq, in_haste, eviction);
      if (seq != NULL)
        take_from_seq (seq, level, in_haste, eviction);
      else if (self->policy.whole)
        take_contexts (self, in_haste, eviction);
      else if (is_by_cost)
        take_by_cost (self, level, in_haste, eviction);
      else
        take_from_queue (self, level, in_haste, eviction);
    }
  if (eviction->coming > 0)
    have_written (self);
  self->keeps_pages = FALSE;
  if (self->spare_bytes > LLM_KV_SPARE_BYTES)
    llm_kv_store_trim (self);
}

guint64
llm_kv_store_evict (LlmKvStore *self,
                    guint64     bytes,
                    gboolean    in_haste)
{
  Eviction eviction = { .wanted = bytes };

  llm_kv_store_wait (self, 0);
  llm_kv_store_stop_reading (self);
  eviction.freed = llm_kv_store_drop_kept (self, bytes);
  evict (self, NULL, in_haste, &eviction);
  return eviction.freed;
}

guint64
llm_kv_seq_evict (LlmKvSeq *self,
                  guint64   bytes,
                  gboolean  in_haste)
{
  Eviction eviction = { .wanted = bytes };

  llm_kv_store_wait (self->store, 0);
  llm_kv_store_stop_reading (self->store);
  evict (self->store, self, in_haste, &eviction);
  return eviction.freed;
}
