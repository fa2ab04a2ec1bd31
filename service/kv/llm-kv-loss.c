/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What it costs when a part of a context is missing. A restore overlaps the prefill of the call's
 * own prompt (L6, L15), so bytes that are read during the prefill are nearly free, and each byte
 * after that costs the time of its read. Nothing overlaps until the first layers have arrived: that
 * time is spread over the bytes that are hidden. The expected cost is this times the chance that
 * the context is called next.
 */

#define G_LOG_DOMAIN "llm-kv"

#include "kv/llm-kv-private.h"

/* Cost of a byte whose read is hidden by a prefill, as a part of its full cost: checking and
 * placing it is work all the same. */
#define HIDDEN_COST 0.05
/* Reads overlap the first step only. */
#define MOST_ROWS llm_kv_profile_rows[LLM_KV_PROFILE_POINTS - 1]
/* Prompts vary around their mean length: the hidden part begins to fall at this part of the mean,
 * and ends at as much above it. */
#define HIDDEN_LEAST 0.5

static double
get_hidden_bytes (LlmKvSeq *self)
{
  const LlmKvProfile *profile = &self->store->profile;
  guint n_rows = (guint) self->reuse.history.n_new;

  if (n_rows == 0 || !llm_kv_profile_is_measured (profile))
    return 0;
  return llm_kv_profile_get_prompt_us (profile, MIN (n_rows, MOST_ROWS), self->length)
         * profile->read_bytes_per_us;
}

static double
get_chance (LlmKvSeq *self,
            guint     age)
{
  LlmKvOrder order = self->store->policy.order;

  return order == LLM_KV_BY_COST || order == LLM_KV_BY_GIVEN_COST ? self->reuse.chance
                                                                  : 1.0 / (1 + age);
}

static double
get_read_bytes (LlmKvStore      *store,
                const LlmKvHold *hold)
{
  LlmKvForm form = hold->slot.extent != 0 ? hold->slot_form : hold->chunk->form;

  return (double) store->shape.offsets[form][store->layout.n_layers];
}

/* A chunk that leaves after its write counts as gone. */
static void
look_at_chunks (LlmKvSeq *self)
{
  for (guint i = 0; i < self->holds->len; i++)
    {
      const LlmKvHold *hold = llm_kv_seq_hold (self, i);
      LlmKvChunk *chunk = hold->chunk;

      if (chunk->leaves || (chunk->state == LLM_KV_GONE && hold->slot.extent != 0))
        self->loss.missing_bytes += get_read_bytes (self->store, hold);
      chunk->chance = MAX (chunk->chance, self->loss.chance);
      chunk->index = i;
    }
}

void
llm_kv_loss_measure (LlmKvStore *self)
{
  guint age = 0;

  if (self->policy.order == LLM_KV_BY_COST)
    llm_kv_reuse_estimate (&self->reuse);
  for (GList *l = self->sequences.head; l != NULL; l = l->next)
    LLM_EACH_IN (LlmKvHold, hold, ((LlmKvSeq *) l->data)->holds)
      hold->chunk->chance = 0;
  for (GList *l = self->sequences.tail; l != NULL; l = l->prev)
    {
      LlmKvSeq *seq = l->data;

      seq->loss = (LlmKvLoss) {
        .chance = get_chance (seq, age++),
        .hidden_bytes = get_hidden_bytes (seq),
        .first_bytes = self->profile.read_latency_us * self->profile.read_bytes_per_us
                       + (double) self->piece_bytes,
      };
      look_at_chunks (seq);
    }
}

void
llm_kv_loss_count_gone (LlmKvStore       *self,
                        const LlmKvChunk *chunk)
{
  for (GList *l = self->sequences.head; l != NULL; l = l->next)
    {
      LlmKvSeq *seq = l->data;
      const LlmKvHold *hold = llm_kv_seq_find_hold (seq, chunk);

      if (hold != NULL)
        seq->loss.missing_bytes += get_read_bytes (self, hold);
    }
}

gboolean
llm_kv_loss_is_late (LlmKvStore       *self,
                     const LlmKvChunk *chunk)
{
  if (!self->narrows)
    return FALSE;

  for (GList *l = self->sequences.head; l != NULL; l = l->next)
    {
      LlmKvSeq *seq = l->data;
      const LlmKvHold *hold = llm_kv_seq_find_hold (seq, chunk);

      if (hold != NULL
          && !llm_kv_seq_is_in_time (seq, (guint64) (seq->loss.missing_bytes
                                                     + get_read_bytes (self, hold))))
        return TRUE;
    }
  return FALSE;
}

/* --- in which order --- */

double
llm_kv_loss_get_cost (const LlmKvLoss *self)
{
  double hidden = self->hidden_bytes;
  double least, part;

  if (hidden <= 0)
    return self->chance;
  least = CLAMP (self->first_bytes / (HIDDEN_LEAST * hidden), HIDDEN_COST, 1);
  part = CLAMP ((self->missing_bytes / hidden - HIDDEN_LEAST) / (2 * (1 - HIDDEN_LEAST)), 0, 1);
  return self->chance * (least + (1 - least) * part);
}

void
llm_kv_loss_restart (LlmKvStore *self)
{
  for (GList *l = self->sequences.head; l != NULL; l = l->next)
    {
      LlmKvLoss *loss = &((LlmKvSeq *) l->data)->loss;

      loss->at = 0;
      loss->shares = loss->is_done = FALSE;
    }
}

LlmKvSeq *
llm_kv_loss_find_cheapest (LlmKvStore *self)
{
  LlmKvSeq *cheapest = NULL;
  double least = 0;

  for (GList *l = self->sequences.head; l != NULL; l = l->next)
    {
      LlmKvSeq *seq = l->data;
      double cost = llm_kv_loss_get_cost (&seq->loss);

      if (seq->is_locked || seq->loss.is_done || (cheapest != NULL && cost >= least))
        continue;
      cheapest = seq;
      least = cost;
    }
  return cheapest;
}
