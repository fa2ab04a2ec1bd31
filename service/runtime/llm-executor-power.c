/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Little power, and none for a while: how much is done of background requests, and standing still
 * while the machine sleeps. */

#define G_LOG_DOMAIN "llm-engine"

#include "runtime/llm-executor-private.h"

/* How long a machine that is about to sleep waits for what is not written yet. It is a cache: what
 * is left is lost only if the machine loses its power, too. */
#define FLUSH_US (2 * G_USEC_PER_SEC)
/* So many background requests are a pile. */
#define CROWD 3

void
llm_executor_set_pace (LlmExecutor *self,
                       LlmPace      background)
{
  __atomic_store_n (&self->pace, background, __ATOMIC_RELEASE);
  llm_executor_poke (self);
}

void
llm_executor_set_pressed (LlmExecutor *self,
                          gboolean     is_pressed)
{
  if (__atomic_exchange_n (&self->is_pressed, is_pressed, __ATOMIC_RELEASE) != is_pressed
      && !is_pressed)
    llm_executor_poke (self);
}

/* Made when it is first needed. */
static LlmWorkerPool *
get_pool (LlmExecutor    *self,
          LlmWorkerPool **pool,
          guint           n_threads)
{
  if (*pool == NULL)
    *pool = llm_worker_pool_new_background (n_threads, self->config.background_niceness);
  return *pool;
}

/* Background requests have threads of their own, of a lower priority: few, as there is no hurry, but
 * as many as there are when such requests pile up. */
static LlmWorkerPool *
find_background_pool (LlmRunner *runner)
{
  LlmExecutor *self = runner->executor;
  guint pace = __atomic_load_n (&self->pace, __ATOMIC_ACQUIRE);

  if (self->config.n_background_threads == 0 && pace == LLM_PACE_RUN
      && runner->scheduler->entries->len >= CROWD)
    return get_pool (self, &self->crowd_pool, llm_worker_pool_get_n_threads (self->pool));
  if (pace == LLM_PACE_SLOW && llm_worker_pool_get_n_threads (self->background_pool) > 1)
    return get_pool (self, &self->slow_pool, 1);
  return self->background_pool;
}

/* While a caller waits for another request, a background one makes room sooner with the threads of
 * all. */
void
llm_runner_choose_pool (LlmRunner    *runner,
                        LlmQueueStep *step)
{
  LlmExecutor *self = runner->executor;
  gboolean is_background = !self->config.is_fifo;

  LLM_EACH (LlmRunner, other, self->runners)
    is_background = is_background && !llm_scheduler_is_awaited (other->scheduler);
  step->teaches = !is_background;
  llm_forward_set_pool (step->forward, is_background ? find_background_pool (runner) : self->pool);
}

/* --- suspend --- */

typedef struct _LlmHold
{
  LlmCommand base;
  LlmExecutorHeld held;
  gpointer data;
} LlmHold;

static void
deliver_held (LlmCommand *base)
{
  const LlmHold *hold = (const LlmHold *) base;

  hold->held (hold->data);
}

static void
tell_held (LlmExecutor *self)
{
  if (self->suspend != NULL)
    llm_command_reply (&g_steal_pointer (&self->suspend)->base, deliver_held);
}

static void
begin_suspend (LlmCommand *base)
{
  LlmExecutor *self = base->executor;

  tell_held (self);
  self->is_suspended = TRUE;
  self->suspend = (LlmHold *) llm_command_ref (base);
  self->suspend_end_us = llm_clock_now_us () + FLUSH_US;
}

void
llm_executor_end_suspend (LlmExecutor *self)
{
  self->is_suspended = FALSE;
  tell_held (self);
}

static void
end_suspend (LlmCommand *base)
{
  llm_executor_end_suspend (base->executor);
}

void
llm_executor_suspend (LlmExecutor    *self,
                      LlmExecutorHeld held,
                      gpointer        data)
{
  LlmHold *hold = llm_command_new_of (LlmHold, self, begin_suspend, NULL);

  hold->held = held;
  hold->data = data;
  llm_command_send (&hold->base);
}

void
llm_executor_resume (LlmExecutor *self)
{
  llm_executor_send (self, end_suspend);
}

gboolean
llm_executor_work_suspended (LlmExecutor *self)
{
  gint64 now = llm_clock_now_us ();

  if (self->suspend == NULL)
    return FALSE;
  LLM_EACH (LlmRunner, runner, self->runners)
    {
      LlmKvStore *store = runner->instance->store;

      if (llm_kv_store_is_settled (store) || now >= self->suspend_end_us)
        continue;
      self->is_told = FALSE;
      if (!llm_kv_store_work (store, now + SLICE_US) && !llm_kv_store_is_settled (store))
        llm_kv_store_wait (store, DISK_WAIT_US);
      return TRUE;
    }
  tell_held (self);
  return FALSE;
}
