/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reclaims: scratch, idle chunks, and chunks of running requests. */

#define G_LOG_DOMAIN "llm-engine"

#include "runtime/llm-executor-news.h"
#include "runtime/llm-executor-private.h"
#include "runtime/llm-executor-residency.h"

/* How long chunks may take to be written before they are evicted, for a reclaim without a
 * deadline. */
#define GIVE_US (2 * G_USEC_PER_SEC)

static guint64
trim_scratch (LlmExecutor *self)
{
  guint64 freed = 0;

  LLM_EACH (LlmRunner, runner, self->runners)
    for (guint j = 0; j < LLM_N_QUEUES; j++)
      if (!runner->steps[j].is_active)
        freed += llm_forward_trim (runner->steps[j].forward);
  return freed;
}

static void
run_give_scratch (LlmCommand *base)
{
  llm_executor_report ((LlmReclaim *) base, trim_scratch (base->executor));
}

void
llm_executor_give_scratch (gpointer       executor,
                           guint64        bytes,
                           gint64         deadline_us,
                           LlmReclaimDone done,
                           gpointer       data)
{
  llm_executor_send_reclaim (executor, run_give_scratch, 0, 0, done, data);
}

/* --- chunks --- */

typedef struct
{
  guint64 bytes;
  gboolean is_settled;    /* nothing is left to write */
} StoreState;

static StoreState
look_at_stores (LlmExecutor *self)
{
  StoreState state = { 0, TRUE };

  LLM_EACH (LlmRunner, runner, self->runners)
    {
      LlmKvStore *store = runner->instance->store;

      state.bytes += store->bytes + store->spare_bytes;
      state.is_settled = state.is_settled && llm_kv_store_is_settled (store);
    }
  return state;
}

/* Writes unwritten chunks first. */
static void
begin_eviction (LlmExecutor *self,
                guint64      bytes)
{
  guint64 freed = llm_executor_drop_prefixes (self, bytes);

  if (freed < bytes)
    freed += llm_executor_evict_over_quota (self, bytes - freed, FALSE);
  LLM_EACH (LlmRunner, runner, self->runners)
    if (freed < bytes)
      freed += llm_kv_store_evict (runner->instance->store, bytes - freed, FALSE);
}

/* TRUE when @reclaim is served. */
static gboolean
serve (LlmExecutor *self,
       LlmReclaim  *reclaim)
{
  StoreState before = look_at_stores (self), after;

  if (before.bytes == 0)
    return TRUE;

  self->memory.displaced_bytes = 0;
  if (!reclaim->has_begun)
    begin_eviction (self, reclaim->bytes);
  else
    LLM_EACH (LlmRunner, runner, self->runners)
      llm_kv_store_work (runner->instance->store, llm_clock_now_us ());
  reclaim->has_begun = TRUE;
  llm_executor_trim_stores (self);
  after = look_at_stores (self);
  reclaim->freed += before.bytes > after.bytes ? before.bytes - after.bytes : 0;
  if (reclaim->freed < reclaim->bytes
      && (after.is_settled || llm_clock_now_us () >= reclaim->until_us))
    {
      reclaim->freed += llm_executor_evict (self, reclaim->bytes - reclaim->freed);
      llm_executor_trim_stores (self);
      return TRUE;
    }
  return reclaim->freed >= reclaim->bytes;
}

void
llm_executor_serve_reclaims (LlmExecutor *self)
{
  LlmReclaim *reclaim;

  while ((reclaim = g_queue_peek_head (&self->memory.reclaims)) != NULL && serve (self, reclaim))
    {
      g_queue_pop_head (&self->memory.reclaims);
      llm_executor_tell_all (self);
      llm_executor_report (reclaim, reclaim->freed);
      llm_command_unref (&reclaim->base);
    }
}

static void
widen_kv (LlmCommand *base)
{
  LLM_EACH (LlmRunner, runner, base->executor->runners)
    llm_kv_store_widen (runner->instance->store);
}

void
llm_executor_widen_kv (LlmExecutor *self)
{
  llm_executor_send (self, widen_kv);
}

static void
queue_reclaim (LlmCommand *base)
{
  g_queue_push_tail (&base->executor->memory.reclaims, llm_command_ref (base));
}

void
llm_executor_give_kv (gpointer       executor,
                      guint64        bytes,
                      gint64         deadline_us,
                      LlmReclaimDone done,
                      gpointer       data)
{
  gint64 until_us = llm_clock_now_us () + GIVE_US;

  if (deadline_us > 0)
    until_us = MIN (until_us, deadline_us);
  llm_executor_send_reclaim (executor, queue_reclaim, bytes, until_us, done, data);
}

/* Of the requests with chunks in memory, the one to preempt first. Requests that have waited long
 * are spared, unless all memory is asked for. */
static LlmRequest *
find_victim (LlmExecutor      *self,
             const LlmReclaim *reclaim)
{
  LlmRequest *request = llm_executor_find_preemptible (self);

  if (request != NULL && reclaim->bytes != G_MAXUINT64 && llm_request_is_protected (request))
    return NULL;
  return request;
}

static void
give_busy_kv (LlmCommand *base)
{
  LlmReclaim *reclaim = (LlmReclaim *) base;
  LlmExecutor *self = base->executor;
  LlmRequest *request;

  while (reclaim->freed < reclaim->bytes && (request = find_victim (self, reclaim)) != NULL)
    {
      guint64 own = llm_kv_seq_get_own_bytes (request->session->seq);

      llm_request_preempt (request);
      reclaim->freed += trim_scratch (self);
      if (reclaim->freed < reclaim->bytes)
        reclaim->freed += llm_executor_evict (self, MAX (reclaim->bytes - reclaim->freed, own));
    }
  llm_executor_trim_stores (self);
  /* chunks that are being written are freed when the write has ended */
  reclaim->has_begun = TRUE;
  queue_reclaim (base);
}

void
llm_executor_give_busy_kv (gpointer       executor,
                           guint64        bytes,
                           gint64         deadline_us,
                           LlmReclaimDone done,
                           gpointer       data)
{
  llm_executor_send_reclaim (executor, give_busy_kv, bytes, llm_clock_now_us () + GIVE_US, done, data);
}
