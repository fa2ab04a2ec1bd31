/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The beginning of a call, and the chunks it waits for (L6). */

#define G_LOG_DOMAIN "llm-kv"

#include "base/llm-fail.h"
#include "kv/llm-kv-private.h"

#include <string.h>

#include "common/llmsvc-error.h"

gboolean
llm_kv_seq_is_in_time (LlmKvSeq *self,
                       guint64   bytes)
{
  return self->restore_us <= 0
         || llm_kv_profile_get_read_us (&self->store->profile, bytes) <= self->restore_us;
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
  if (!self->is_called)
    llm_kv_reuse_call (&self->store->reuse, &self->reuse, n_new);
  self->is_called = TRUE;

  self->reads_wide = FALSE;
  llm_kv_ways_find_slots (self);
  llm_kv_ways_choose_wide (self);
  llm_kv_ways_choose (self, n_new, ways, plan);
  bytes = llm_kv_ways_count_bytes (self, ways);
  if (self->reads_wide && !self->is_exact && !llm_kv_store_has_room (self->store, bytes))
    {
      self->reads_wide = FALSE;
      memset (ways, LLM_KV_STAYS, self->holds->len);
      llm_kv_ways_choose (self, n_new, ways, plan);
      bytes = llm_kv_ways_count_bytes (self, ways);
    }
  if (!llm_kv_store_has_room (self->store, bytes) || !llm_kv_restore_prepare (self, ways))
    {
      llm_kv_restore_end (self);
      llm_kv_seq_lock (self);
      return llm_fail (error, LLMSVC_ERROR_NO_MEMORY,
                       "No room to bring back %u chunks of context memory (%ju bytes)",
                       plan->n_read + plan->n_recomputed, bytes);
    }

  llm_kv_seq_find_rounded (self);
  llm_kv_seq_lock (self);
  llm_kv_restore_begin_read (self, ways);
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

/* L10: chunks that can't be read are computed again, with all that this needs. */
static LlmStatus
handle_fault (LlmKvSeq *self,
              guint8   *ways,
              GError  **error)
{
  LlmKvStore *store = self->store;

  llm_kv_ways_widen (self, ways);
  for (guint i = 0; i < self->holds->len; i++)
    {
      LlmKvHold *hold = llm_kv_seq_hold (self, i);

      if (ways[i] != LLM_KV_COMPUTE)
        continue;

      /* Storage has forgotten the chunk that it could not read. */
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
        ways[i] = LLM_KV_COMPUTE;
      status = MAX (status, one);
    }
  if (status == LLM_FAILED && self->is_locked)
    return handle_fault (self, ways, error);
  if (status == LLM_FAILED)
    llm_fail (error, LLMSVC_ERROR_FAILED,
              "A part of the context is not in memory, and no call has begun that brings it back");
  if (self->is_whole)
    llm_kv_restore_end_read (self);
  return status;
}
