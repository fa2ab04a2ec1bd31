/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-kv"

#include "base/llm-fail.h"
#include "kv/llm-kv-private.h"

#include "common/llmsvc-error.h"

/* How a missing chunk comes back. */
enum { STAYS, READ, COMPUTE };

/* --- layers that were left out --- */

/* Of what the call will see. */
static LlmKvForm
get_form (LlmKvSeq *self,
          guint     chunk,
          guint8    way)
{
  LlmKvHold *hold = llm_kv_seq_hold (self, chunk);

  if (way == COMPUTE)
    return llm_kv_store_float_form (self->store);
  return way == READ ? hold->slot_form : hold->chunk->form;
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
      ways[i] = COMPUTE;
}

/* What must be computed too, since rows that are computed, and those behind the length, see it. */
static void
widen (LlmKvSeq *self,
       guint8   *ways)
{
  if (self->store->window == 0)
    return;

  mark_left_out (self, ways, self->length);
  for (guint i = self->holds->len; i-- > 0;)
    if (ways[i] == COMPUTE || llm_kv_seq_hold (self, i)->chunk->state == LLM_KV_COMPUTING)
      mark_left_out (self, ways, i * self->store->layout.chunk_slots);
}

/* Whether to compute the chunk means to compute others as well, if what can be read is. */
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

/* Where all layers have windows, there is nothing left to remember of what lies behind them. */
static gboolean
needs_nothing (LlmKvSeq *self,
               guint     chunk)
{
  LlmKvForm form = LLM_KV_FORM (LLK_KV_Q8, TRUE);

  return llm_kv_seq_is_behind (self, chunk, self->length) && self->store->arenas[form].bytes == 0;
}

/* --- what arrives --- */

static void
take_layers (guint         index,
             guint         first_layer,
             guint         end_layer,
             const GError *error,
             gpointer      data)
{
  LlmKvSeq *self = data;
  LlmKvStore *store = self->store;
  const LlmKvRestored *target = &g_array_index (self->targets, LlmKvRestored, index);
  LlmKvChunk *chunk = target->into != NULL ? target->into : target->chunk;

  if (chunk->state != LLM_KV_READING)
    return;

  if (error != NULL)
    {
      g_info ("A part of a context can't be read, it is computed again: %s", error->message);
      llm_kv_chunk_abandon (store, chunk);
      return;
    }

  if (target->into != NULL)
    {
      llm_kv_chunk_unpack (store, target->chunk, chunk, first_layer, end_layer);
      llm_kv_chunk_poison (store, chunk, target->n_slots, first_layer, end_layer);
    }
  chunk->n_ready = end_layer;
  if (end_layer < store->layout.n_layers)
    return;

  chunk->state = LLM_KV_PRESENT;
  chunk->restorer = NULL;
  store->counters.n_restored++;
  llm_kv_chunk_queue (store, chunk, TRUE);
}

static void
end_read (LlmKvSeq *self)
{
  g_clear_pointer (&self->read, llm_kv_read_free);
  LLM_EACH_IN (const LlmKvRestored, target, self->targets)
    {
      llm_kv_chunk_unpin (self->store, target->chunk);
      if (target->into != NULL)
        llm_kv_chunk_unpin (self->store, target->into);
    }
  g_array_set_size (self->targets, 0);
}

void
llm_kv_restore_end (LlmKvSeq *self)
{
  LLM_EACH_IN (LlmKvHold, hold, self->holds)
    if (hold->chunk->restorer == self)
      llm_kv_chunk_abandon (self->store, hold->chunk);
  end_read (self);
}

/* --- the plan --- */

static gboolean
is_full (LlmKvSeq *self,
         guint     chunk)
{
  return llm_kv_seq_chunk_length (self, chunk) == self->store->layout.chunk_slots;
}

/* What another sequence is bringing back may be waited for, if it reads it. */
static gboolean
is_missing (LlmKvSeq *self,
            guint     chunk)
{
  LlmKvChunk *held = llm_kv_seq_hold (self, chunk)->chunk;

  if (held->state != LLM_KV_PRESENT && (held->state != LLM_KV_READING || !is_full (self, chunk)))
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

static void
find_slots (LlmKvSeq *self)
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

static void
choose_ways (LlmKvSeq  *self,
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

        ways[i] = can_be_read (self, i) ? READ : COMPUTE;
        if (ways[i] == READ)
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
      ways[g_array_index (missing, guint, i)] = COMPUTE;
  widen (self, ways);

  plan->n_read = plan->n_recomputed = 0;
  plan->read_bytes = 0;
  for (guint i = 0; i < self->holds->len; i++)
    {
      plan->n_read += ways[i] == READ;
      plan->n_recomputed += ways[i] == COMPUTE;
      plan->read_bytes += ways[i] == READ ? get_slot_bytes (self, i) : 0;
    }
}

static guint64
count_bytes (LlmKvSeq     *self,
             const guint8 *ways)
{
  LlmKvStore *store = self->store;
  guint64 bytes = 0;

  for (guint i = 0; i < self->holds->len; i++)
    {
      LlmKvForm form = llm_kv_seq_hold (self, i)->slot_form;

      if (ways[i] == READ)
        bytes += store->arenas[form].bytes;
      if (ways[i] == COMPUTE || (ways[i] == READ && !is_full (self, i)))
        bytes += store->arenas[llm_kv_store_float_form (store)].bytes;
    }

  return bytes;
}

/* (nullable): pinned. */
static LlmKvChunk *
make_target (LlmKvSeq   *self,
             LlmKvChunk *chunk,
             LlmKvForm   form)
{
  if (!llm_kv_chunk_allocate (self->store, chunk, form, LLM_KV_READING))
    return NULL;

  chunk->restorer = self;
  chunk->n_pins++;
  return chunk;
}

/* Reads it to where it is held, or, if rows will be written behind what is left of it, beside
 * that. */
static gboolean
prepare_read (LlmKvSeq *self,
              guint     chunk)
{
  LlmKvHold *hold = llm_kv_seq_hold (self, chunk);
  LlmKvRestored target = { .n_slots = llm_kv_seq_chunk_length (self, chunk) };
  LlmKvChunk *beside;

  llm_kv_seq_vacate (self, chunk, !is_full (self, chunk));
  if (is_full (self, chunk))
    {
      target.chunk = make_target (self, hold->chunk, hold->slot_form);
    }
  else
    {
      beside = llm_kv_chunk_new (self->store);
      target.into = make_target (self, hold->chunk, llm_kv_store_float_form (self->store));
      if (target.into != NULL)
        target.chunk = make_target (self, beside, hold->slot_form);
      if (target.into != NULL && target.chunk == NULL)
        llm_kv_chunk_unpin (self->store, target.into);
      llm_kv_chunk_unref (self->store, beside);
    }
  if (target.chunk != NULL)
    g_array_append_val (self->targets, target);
  return target.chunk != NULL;
}

static gboolean
prepare (LlmKvSeq     *self,
         const guint8 *ways)
{
  for (guint i = 0; i < self->holds->len; i++)
    if ((ways[i] == READ && !prepare_read (self, i))
        || (ways[i] == COMPUTE && !llm_kv_seq_compute (self, i)))
      return FALSE;

  return TRUE;
}

static void
begin_read (LlmKvSeq     *self,
            const guint8 *ways)
{
  g_autofree LlmKvTarget *targets = g_new (LlmKvTarget, self->targets->len + 1);
  guint n = 0;

  for (guint i = 0; i < self->holds->len; i++)
    if (ways[i] == READ)
      {
        targets[n] = (LlmKvTarget) {
          .slot = llm_kv_seq_hold (self, i)->slot,
          .data = g_array_index (self->targets, LlmKvRestored, n).chunk->data,
        };
        n++;
      }
  if (n == 0)
    return;

  self->read = llm_kv_folder_read (self->folder, targets, n, take_layers, self);
  self->store->counters.read_bytes += llm_kv_read_get_bytes (self->read);
}

void
llm_kv_seq_preempt (LlmKvSeq *self)
{
  g_return_if_fail (self->is_locked);

  llm_kv_restore_end (self);
  llm_kv_seq_unlock (self);
}

gboolean
llm_kv_seq_begin_call (LlmKvSeq  *self,
                       guint      n_new,
                       LlmKvPlan *plan,
                       GError   **error)
{
  g_autofree guint8 *ways = g_new0 (guint8, self->holds->len + 1);
  guint64 bytes;

  if (self->is_locked)
    llm_kv_seq_preempt (self);
  llm_kv_work_stop (self);
  llm_kv_restore_end (self);
  llm_kv_store_wait (self->store, 0);

  find_slots (self);
  choose_ways (self, n_new, ways, plan);
  bytes = count_bytes (self, ways);
  if (!llm_kv_store_has_room (self->store, bytes) || !prepare (self, ways))
    {
      llm_kv_restore_end (self);
      llm_kv_seq_lock (self);
      return llm_fail (error, LLMSVC_ERROR_NO_MEMORY,
                       "No room to bring back %u chunks of context memory (%ju bytes)",
                       plan->n_read + plan->n_recomputed, bytes);
    }

  llm_kv_seq_lock (self);
  begin_read (self, ways);
  return TRUE;
}

/* --- while a call runs --- */

static LlmStatus
look_at (LlmKvSeq   *self,
         LlmKvChunk *chunk,
         guint       n_layers)
{
  switch (chunk->state)
    {
    case LLM_KV_PRESENT:
      return LLM_READY;
    case LLM_KV_READING:
      self->is_whole = FALSE;
      return chunk->n_ready >= n_layers ? LLM_READY : LLM_PENDING;
    case LLM_KV_COMPUTING:
      return chunk->restorer == self ? LLM_READY : LLM_FAILED;
    case LLM_KV_GONE:
    case LLM_KV_LOST:
    default:
      return LLM_FAILED;
    }
}

/* L10: what can't come is computed, and what that needs. */
static LlmStatus
handle_fault (LlmKvSeq *self,
              guint8   *ways,
              GError  **error)
{
  LlmKvStore *store = self->store;

  widen (self, ways);
  for (guint i = 0; i < self->holds->len; i++)
    {
      LlmKvHold *hold = llm_kv_seq_hold (self, i);

      if (ways[i] != COMPUTE)
        continue;

      /* Storage has forgotten what it could not read. */
      if (hold->chunk->state == LLM_KV_LOST)
        hold->slot = (LlmKvSlot) { 0 };
      store->counters.n_faulted++;
      if (!llm_kv_seq_compute (self, i))
        {
          llm_fail (error, LLMSVC_ERROR_NO_MEMORY,
                    "The system has no memory for a chunk of context memory (%ju bytes)",
                    (guint64) store->arenas[llm_kv_store_float_form (store)].bytes);
          return LLM_FAILED;
        }
    }

  self->has_fault = TRUE;
  llm_fail (error, LLMSVC_ERROR_STORAGE,
            "A part of the context could not be read back; it is computed again");
  return LLM_FAILED;
}

LlmStatus
llm_kv_seq_make_resident (LlmKvSeq *self,
                          guint     layer,
                          GError  **error)
{
  LlmKvStore *store = self->store;
  guint n_layers = store->policy.whole ? store->layout.n_layers : layer + 1;
  g_autofree guint8 *ways = NULL;
  LlmStatus status = LLM_READY;

  g_return_val_if_fail (layer < store->layout.n_layers, LLM_FAILED);

  if (self->is_whole)
    return LLM_READY;

  llm_kv_store_wait (store, 0);
  self->is_whole = self->is_locked;
  for (guint i = 0; i < self->holds->len; i++)
    {
      LlmStatus one = look_at (self, llm_kv_seq_hold (self, i)->chunk, n_layers);

      if (one == LLM_FAILED && ways == NULL)
        ways = g_new0 (guint8, self->holds->len);
      if (one == LLM_FAILED)
        ways[i] = COMPUTE;
      status = MAX (status, one);
    }
  if (status == LLM_FAILED && self->is_locked)
    return handle_fault (self, ways, error);
  if (status == LLM_FAILED)
    llm_fail (error, LLMSVC_ERROR_FAILED,
              "A part of the context is not in memory, and no call has begun that brings it back");
  if (self->is_whole)
    end_read (self);
  return status;
}
