/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Restores chunks that calls displaced. A call needs memory for floats, which takes four times what
 * its chunks take when they have been quantized; the displaced chunks fit again then. The contexts
 * whose absence is expected to cost most are restored first. Wide copies of narrow chunks
 * (llm-kv-narrow.c) come before them, and nothing is restored under memory pressure.
 */

#define G_LOG_DOMAIN "llm-kv"

#include "kv/llm-kv-private.h"

/* Limit of chunks that are read at once: a call that arrives meanwhile waits for no more. */
#define MOST_CHUNKS 128
/* Half of the upper bound of the search for free memory. */
#define MOST_BYTES (G_GUINT64_CONSTANT (1) << 32)

typedef struct
{
  LlmKvSeq *seq;
  guint first;
  guint end;
  guint64 bytes;
} Run;

/* Not while a call waits for the read, because it holds the same chunks. */
static void
stop_refilling (LlmKvStore *self)
{
  if (self->refilled == NULL)
    return;
  LLM_EACH_IN (const LlmKvRestored, target, self->refilled->targets)
    if (target->chunk->n_locks > 0)
      return;
  llm_kv_restore_end (self->refilled);
}

void
llm_kv_store_stop_reading (LlmKvStore *self)
{
  llm_kv_narrow_stop (self);
  stop_refilling (self);
}

void
llm_kv_refill_work (LlmKvStore *self)
{
  if (self->refilled != NULL)
    llm_kv_restore_finish (self->refilled);
}

static guint64
get_bytes (LlmKvSeq *self,
           guint     chunk)
{
  return self->store->arenas[llm_kv_seq_hold (self, chunk)->slot_form].bytes;
}

static gboolean
can_come (LlmKvSeq *self,
          guint     chunk)
{
  const LlmKvHold *hold = llm_kv_seq_hold (self, chunk);

  return chunk < llm_kv_seq_n_full (self) && hold->slot.extent != 0
         && hold->chunk->state == LLM_KV_GONE && hold->chunk->n_pins == 0
         && llm_kv_seq_is_enough (self, chunk, hold->slot_form, self->length)
         && get_bytes (self, chunk) > 0;
}

/* Chooses chunks next to those in memory: of a missing run at the beginning, from its last chunk
 * on. */
static void
find_run (LlmKvSeq *self,
          guint64   max_bytes,
          Run      *run)
{
  guint n = llm_kv_seq_n_full (self);
  guint first = 0;
  guint end;

  *run = (Run) { .seq = self };
  while (first < n && !can_come (self, first))
    first++;
  for (end = first; end < n && can_come (self, end);)
    end++;
  if (first > 0)
    {
      run->first = run->end = first;
      while (run->end < end && run->end - first < MOST_CHUNKS
             && run->bytes + get_bytes (self, run->end) <= max_bytes)
        run->bytes += get_bytes (self, run->end++);
      return;
    }
  run->first = run->end = end;
  while (run->first > first && end - run->first < MOST_CHUNKS
         && run->bytes + get_bytes (self, run->first - 1) <= max_bytes)
    run->bytes += get_bytes (self, --run->first);
}

static gboolean
may_be_refilled (LlmKvSeq *self)
{
  return !self->is_locked && self->read == NULL && self->folder != NULL && !self->loss.is_done;
}

static LlmKvSeq *
find_dearest (LlmKvStore *self)
{
  LlmKvSeq *dearest = NULL;
  double most = 0;

  for (GList *l = self->sequences.tail; l != NULL; l = l->prev)
    {
      LlmKvSeq *seq = l->data;
      double cost = llm_kv_loss_get_cost (&seq->loss);

      if (!may_be_refilled (seq) || seq->loss.missing_bytes <= 0 || cost <= most)
        continue;
      dearest = seq;
      most = cost;
    }
  return dearest;
}

/* The most bytes, up to @max_bytes, that fit. */
static guint64
get_room (LlmKvStore *self,
          guint64     max_bytes)
{
  guint64 bytes = 0;

  for (guint64 step = MOST_BYTES; step > 0; step /= 2)
    if (bytes + step <= max_bytes && llm_kv_store_has_room (self, bytes + step))
      bytes += step;
  return bytes;
}

guint64
llm_kv_store_refill (LlmKvStore *self,
                     guint64     max_bytes)
{
  LlmKvSeq *seq;
  Run run;

  if (!self->policy.refills || !self->policy.swaps || self->is_short || self->widens
      || self->refilled != NULL)
    return 0;
  max_bytes = get_room (self, max_bytes);
  if (max_bytes == 0)
    return 0;
  llm_kv_loss_measure (self);
  while ((seq = find_dearest (self)) != NULL)
    {
      find_run (seq, max_bytes, &run);
      if (run.bytes > 0)
        break;
      seq->loss.is_done = TRUE;
    }
  if (seq == NULL || !llm_kv_restore_ahead (seq, run.first, run.end))
    return 0;
  self->refilled = seq;
  return run.bytes;
}
