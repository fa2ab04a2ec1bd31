/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-kv"

#include "kv/llm-kv-private.h"

/* A request for memory, and what came of it. */
typedef struct
{
  guint64 wanted;
  guint64 freed;
  guint64 coming;       /* when it has been written */
} Eviction;

/* Of every chunk, who would have to compute it again. */
static void
look_at_holds (LlmKvStore *self)
{
  for (GList *l = self->sequences.head; l != NULL; l = l->next)
    {
      LlmKvSeq *seq = l->data;

      LLM_EACH_IN (LlmKvHold, hold, seq->holds)
        {
          hold->chunk->n_unwritten = 0;
          hold->chunk->can_be_written = FALSE;
        }
    }
  for (GList *l = self->sequences.head; l != NULL; l = l->next)
    {
      LlmKvSeq *seq = l->data;

      LLM_EACH_IN (LlmKvHold, hold, seq->holds)
        if (!llm_kv_hold_is_written (hold))
          {
            hold->chunk->n_unwritten++;
            hold->chunk->can_be_written |= llm_kv_work_can_write (seq, hold);
          }
    }
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

/* Takes a chunk, or has it written first. What is being written can't be taken, but it goes
 * then. */
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

  if (chunk->n_pins > 0 || is_to_be_written)
    {
      chunk->leaves = TRUE;
      if (!in_haste)
        eviction->coming += bytes;
      return;
    }

  llm_kv_chunk_drop (self, chunk);
  self->counters.n_evicted++;
  eviction->freed += bytes;
}

/* @only_written: those that cost nothing. */
static void
take_chunks (LlmKvStore *self,
             gboolean    only_written,
             gboolean    in_haste,
             Eviction   *eviction)
{
  LlmKvQueueEntry *next;

  for (LlmKvQueueEntry *entry = llm_kv_queue_peek (&self->queue, NULL);
       entry != NULL && !is_enough (eviction); entry = next)
    {
      LlmKvChunk *chunk = LLM_KV_QUEUE_OWNER (entry, LlmKvChunk, entry);

      next = llm_kv_queue_peek (&self->queue, entry);
      if (!only_written || (chunk->n_unwritten == 0 && chunk->n_pins == 0))
        take (self, chunk, in_haste, eviction);
    }
}

/* The sequence that was not used for longest first, with all it has. */
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

/* Chunks that leave when they are written are written, whatever holds them. */
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

guint64
llm_kv_store_evict (LlmKvStore *self,
                    guint64     bytes,
                    gboolean    in_haste)
{
  Eviction eviction = { .wanted = bytes };

  llm_kv_store_wait (self, 0);
  look_at_holds (self);
  if (self->policy.whole)
    {
      take_contexts (self, in_haste, &eviction);
    }
  else
    {
      take_chunks (self, TRUE, in_haste, &eviction);
      take_chunks (self, FALSE, in_haste, &eviction);
    }
  if (eviction.coming > 0)
    have_written (self);
  return eviction.freed;
}

guint64
llm_kv_seq_evict (LlmKvSeq *self,
                  guint64   bytes,
                  gboolean  in_haste)
{
  Eviction eviction = { .wanted = bytes };

  llm_kv_store_wait (self->store, 0);
  look_at_holds (self->store);
  for (guint pass = 0; pass < 2; pass++)
    for (guint i = 0; i < self->holds->len && !is_enough (&eviction); i++)
      {
        LlmKvChunk *chunk = llm_kv_seq_hold (self, i)->chunk;
        gboolean is_free = chunk->n_unwritten == 0 && chunk->n_pins == 0;

        /* those that cost nothing first; one that is to leave is counted already */
        if (may_be_taken (chunk) && (pass == 1) != is_free && !(pass == 1 && chunk->leaves))
          take (self->store, chunk, in_haste, &eviction);
      }
  if (eviction.coming > 0)
    have_written (self->store);
  return eviction.freed;
}
