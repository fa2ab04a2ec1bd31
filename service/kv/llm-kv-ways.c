/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How the missing chunks of a call come back (L6): read, or computed again. */

#define G_LOG_DOMAIN "llm-kv"

#include "kv/llm-kv-private.h"

/* --- layers that were left out --- */

/* The form that the call needs at least. */
static LlmKvForm
get_form (LlmKvSeq *self,
          guint     chunk,
          guint8    way)
{
  LlmKvHold *hold = llm_kv_seq_hold (self, chunk);

  if (way == LLM_KV_COMPUTE)
    return llm_kv_store_float_form (self->store);
  return way == LLM_KV_READ ? hold->slot_form : hold->chunk->form;
}

/* Marks the chunks before @slot that a row there sees in layers they lack. */
static void
mark_left_out (LlmKvSeq *self,
               guint8   *ways,
               guint     slot)
{
  guint i = slot / self->store->layout.chunk_slots;

  for (i = MIN (i, self->holds->len); i-- > 0 && !llm_kv_seq_is_behind (self, i, slot);)
    if (LLM_KV_FORM_IS_BEHIND (get_form (self, i, ways[i])))
      ways[i] = LLM_KV_COMPUTE;
}

/* Adds chunks that must be computed too, because recomputed rows, or those after the length, see
 * them. */
void
llm_kv_ways_widen (LlmKvSeq *self,
       guint8   *ways)
{
  if (self->store->window == 0)
    return;

  mark_left_out (self, ways, self->length);
  for (guint i = self->holds->len; i-- > 0;)
    if (ways[i] == LLM_KV_COMPUTE || llm_kv_seq_hold (self, i)->chunk->state == LLM_KV_COMPUTING)
      mark_left_out (self, ways, i * self->store->layout.chunk_slots);
}

/* Whether computing the chunk means computing others as well, while readable ones are read. */
static gboolean
sees_left_out (LlmKvSeq     *self,
               const guint8 *ways,
               guint         chunk)
{
  guint slot = chunk * self->store->layout.chunk_slots;

  if (self->store->window == 0)
    return FALSE;

  for (guint i = chunk; i-- > 0 && !llm_kv_seq_is_behind (self, i, slot);)
    if (LLM_KV_FORM_IS_BEHIND (get_form (self, i, ways[i])))
      return TRUE;

  return FALSE;
}

/* When all layers have windows, the K and V of chunks behind them are not needed any more. */
static gboolean
needs_nothing (LlmKvSeq *self,
               guint     chunk)
{
  LlmKvForm form = LLM_KV_FORM (LLK_KV_Q8, TRUE);

  return llm_kv_seq_is_behind (self, chunk, self->length) && self->store->arenas[form].bytes == 0;
}

/* --- what is missing --- */

/* Whether the call restores the wide copy of a chunk that was quantized further under memory
 * pressure. */
static gboolean
is_widened (LlmKvSeq *self,
            guint     chunk)
{
  const LlmKvHold *hold = llm_kv_seq_hold (self, chunk);

  return self->reads_wide && hold->chunk->is_narrow
         && (llm_kv_hold_has_wide (hold) || (self->is_exact && !hold->is_fixed));
}

/* A chunk that another sequence is reading may be waited for; one that it computes may not. */
static gboolean
is_missing (LlmKvSeq *self,
            guint     chunk)
{
  LlmKvChunk *held = llm_kv_seq_hold (self, chunk)->chunk;

  if (is_widened (self, chunk))
    return TRUE;
  if (held->state != LLM_KV_PRESENT && (held->state != LLM_KV_READING || !llm_kv_seq_is_full (self, chunk)))
    return TRUE;

  return !llm_kv_seq_is_enough (self, chunk, held->form, self->length);
}

static void
take_void (LlmKvSeq *self,
           guint     chunk)
{
  llm_kv_seq_vacate (self, chunk, FALSE);
  llm_kv_chunk_allocate (self->store, llm_kv_seq_hold (self, chunk)->chunk,
                         LLM_KV_FORM (LLK_KV_Q8, TRUE), LLM_KV_PRESENT);
}

void
llm_kv_ways_find_slots (LlmKvSeq *self)
{
  for (guint i = 0; i < self->holds->len; i++)
    {
      if (!is_missing (self, i))
        continue;

      if (needs_nothing (self, i))
        take_void (self, i);
      else
        llm_kv_seq_find_slot (self, i);
    }
}

static gboolean
can_be_read (LlmKvSeq *self,
             guint     chunk)
{
  LlmKvHold *hold = llm_kv_seq_hold (self, chunk);

  return hold->slot.extent != 0 && self->store->policy.swaps
         && llm_kv_seq_is_enough (self, chunk, hold->slot_form, self->length);
}

static gsize
get_slot_bytes (LlmKvSeq *self,
                guint     chunk)
{
  LlmKvForm form = llm_kv_seq_hold (self, chunk)->slot_form;

  return self->store->shape.offsets[form][self->store->layout.n_layers];
}

void
llm_kv_ways_choose (LlmKvSeq  *self,
             guint      n_new,
             guint8    *ways,
             LlmKvPlan *plan)
{
  LlmKvStore *store = self->store;
  g_autoptr (GArray) missing = g_array_new (FALSE, FALSE, sizeof (guint));
  g_autoptr (GArray) chunks = g_array_new (FALSE, FALSE, sizeof (LlmKvPlanChunk));

  for (guint i = 0; i < self->holds->len; i++)
    if (is_missing (self, i))
      {
        LlmKvPlanChunk chunk = { 0 };

        ways[i] = can_be_read (self, i) ? LLM_KV_READ : LLM_KV_COMPUTE;
        if (ways[i] == LLM_KV_READ)
          {
            chunk.bytes = get_slot_bytes (self, i);
            chunk.is_fixed = llm_kv_seq_hold (self, i)->is_fixed || sees_left_out (self, ways, i);
          }
        g_array_append_val (missing, i);
        g_array_append_val (chunks, chunk);
      }

  llm_kv_plan_make ((LlmKvPlanChunk *) (gpointer) chunks->data, chunks->len,
                    store->layout.chunk_slots, n_new, self->length, &store->profile,
                    store->policy.recomputes, plan);
  for (guint i = 0; i < missing->len; i++)
    if (g_array_index (chunks, LlmKvPlanChunk, i).recomputes)
      ways[g_array_index (missing, guint, i)] = LLM_KV_COMPUTE;
  llm_kv_ways_widen (self, ways);

  plan->n_read = plan->n_recomputed = 0;
  plan->read_bytes = 0;
  for (guint i = 0; i < self->holds->len; i++)
    {
      plan->n_read += ways[i] == LLM_KV_READ;
      plan->n_recomputed += ways[i] == LLM_KV_COMPUTE;
      plan->read_bytes += ways[i] == LLM_KV_READ ? get_slot_bytes (self, i) : 0;
    }
}

guint64
llm_kv_ways_count_bytes (LlmKvSeq     *self,
             const guint8 *ways)
{
  LlmKvStore *store = self->store;
  guint64 bytes = 0;

  for (guint i = 0; i < self->holds->len; i++)
    {
      LlmKvForm form = llm_kv_seq_hold (self, i)->slot_form;

      if (ways[i] == LLM_KV_READ)
        bytes += store->arenas[form].bytes;
      if (ways[i] == LLM_KV_COMPUTE || (ways[i] == LLM_KV_READ && !llm_kv_seq_is_full (self, i)))
        bytes += store->arenas[llm_kv_store_float_form (store)].bytes;
    }

  return bytes;
}

/* Restores wide copies of narrow chunks, unless memory is still short, or that takes longer than
 * the call has. */
void
llm_kv_ways_choose_wide (LlmKvSeq *self)
{
  guint64 bytes = 0;

  for (guint i = 0; i < self->holds->len; i++)
    {
      const LlmKvHold *hold = llm_kv_seq_hold (self, i);

      if (hold->chunk->is_narrow)
        llm_kv_seq_find_slot (self, i);
      if (llm_kv_hold_has_wide (hold) || (is_missing (self, i) && can_be_read (self, i)))
        bytes += get_slot_bytes (self, i);
    }
  self->reads_wide = self->is_exact
                     || (!self->store->is_short && llm_kv_seq_is_in_time (self, bytes));
}
