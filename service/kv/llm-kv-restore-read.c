/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reads chunks into memory, for a call or ahead of one (L6). */

#define G_LOG_DOMAIN "llm-kv"

#include "kv/llm-kv-private.h"

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
  llm_kv_chunk_queue (store, chunk, self->is_locked);
}

/* Chunks of a read whose sequence does not wait for it any more, while requests may still be under
 * way. */
typedef struct
{
  LlmKvStore *store;     /* (unowned) */
  GArray *targets;       /* (element-type LlmKvRestored) (owned) */
} Landing;

static void
unpin_targets (LlmKvStore   *store,
               const GArray *targets)
{
  LLM_EACH_IN (const LlmKvRestored, target, targets)
    {
      gboolean is_held = target->chunk->n_holders > 0;

      llm_kv_chunk_unpin (store, target->chunk);
      if (is_held)
        llm_kv_work_let_leave (store, target->chunk);
    }
}

static void
land (gpointer data)
{
  Landing *self = data;

  self->store->n_reads--;
  unpin_targets (self->store, self->targets);
  g_array_unref (self->targets);
  g_free (self);
}

void
llm_kv_restore_read (LlmKvSeq          *self,
                     const LlmKvTarget *targets,
                     guint              n,
                     LlmKvArrived       arrived)
{
  Landing *landing = g_new (Landing, 1);

  landing->store = self->store;
  landing->targets = g_array_ref (self->targets);
  self->store->n_reads++;
  self->read = llm_kv_folder_read (self->folder, targets, n, arrived, self, land, landing);
  self->store->counters.read_bytes += llm_kv_read_get_bytes (self->read);
}

void
llm_kv_restore_end_read (LlmKvSeq *self)
{
  g_autoptr (GArray) targets = g_steal_pointer (&self->targets);
  LlmKvRead *read = g_steal_pointer (&self->read);

  self->targets = g_array_new (FALSE, FALSE, sizeof (LlmKvRestored));
  self->n_widening = 0;
  if (self->store->refilled == self)
    self->store->refilled = NULL;
  LLM_EACH_IN (const LlmKvRestored, target, targets)
    {
      if (target->into != NULL)
        llm_kv_chunk_unpin (self->store, target->into);
      if (target->narrow != NULL)
        llm_kv_chunk_unpin (self->store, target->narrow);
    }
  if (read != NULL)
    llm_kv_read_free (read);
  else
    unpin_targets (self->store, targets);
}

void
llm_kv_restore_end (LlmKvSeq *self)
{
  LLM_EACH_IN (LlmKvHold, hold, self->holds)
    if (hold->chunk->restorer == self)
      llm_kv_chunk_abandon (self->store, hold->chunk);
  llm_kv_restore_end_read (self);
}

/* --- what is asked for --- */

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

/* Reads the chunk into its place, or, if rows will be written after the slots that are left of it,
 * into a second chunk. */
static gboolean
prepare_read (LlmKvSeq *self,
              guint     chunk)
{
  LlmKvHold *hold = llm_kv_seq_hold (self, chunk);
  LlmKvRestored target = { .n_slots = llm_kv_seq_chunk_length (self, chunk) };
  LlmKvChunk *beside;

  self->store->counters.n_widened += hold->chunk->is_narrow;
  llm_kv_seq_vacate (self, chunk, !llm_kv_seq_is_full (self, chunk));
  if (llm_kv_seq_is_full (self, chunk))
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
  if (target.chunk == NULL)
    return FALSE;

  /* chunks written as floats are as exact as what their rows saw, which is not recorded */
  hold->chunk->is_rounded = self->store->policy.compression != LLM_KV_KEEP
                            || !llm_kv_chunk_is_float (target.chunk);
  g_array_append_val (self->targets, target);
  return TRUE;
}

gboolean
llm_kv_restore_prepare (LlmKvSeq     *self,
         const guint8 *ways)
{
  for (guint i = 0; i < self->holds->len; i++)
    if ((ways[i] == LLM_KV_READ && !prepare_read (self, i))
        || (ways[i] == LLM_KV_COMPUTE && !llm_kv_seq_compute (self, i)))
      return FALSE;

  return TRUE;
}

void
llm_kv_restore_begin_read (LlmKvSeq     *self,
            const guint8 *ways)
{
  g_autofree LlmKvTarget *targets = g_new (LlmKvTarget, self->targets->len + 1);
  guint n = 0;

  for (guint i = 0; i < self->holds->len; i++)
    if (ways[i] == LLM_KV_READ)
      {
        targets[n] = (LlmKvTarget) {
          .slot = llm_kv_seq_hold (self, i)->slot,
          .data = g_array_index (self->targets, LlmKvRestored, n).chunk->data,
        };
        n++;
      }
  if (n == 0)
    return;

  llm_kv_restore_read (self, targets, n, take_layers);
}

/* --- for no call --- */

gboolean
llm_kv_restore_ahead (LlmKvSeq *self,
                      guint     first,
                      guint     end)
{
  g_autofree guint8 *ways = g_new0 (guint8, self->holds->len);

  g_return_val_if_fail (!self->is_locked && self->read == NULL, FALSE);

  for (guint i = first; i < end; i++)
    ways[i] = LLM_KV_READ;
  if (!llm_kv_restore_prepare (self, ways))
    {
      llm_kv_restore_end (self);
      return FALSE;
    }
  llm_kv_restore_begin_read (self, ways);
  return TRUE;
}

gboolean
llm_kv_restore_finish (LlmKvSeq *self)
{
  LLM_EACH_IN (const LlmKvRestored, target, self->targets)
    if (target->chunk->state == LLM_KV_READING)
      return FALSE;
  llm_kv_restore_end (self);
  return TRUE;
}
