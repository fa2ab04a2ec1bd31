/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Low power and sleep: how much of the background requests is computed, and the suspension while
 * the machine sleeps. */

#define G_LOG_DOMAIN "llm-engine"

#include "runtime/llm-executor-private.h"
#include "runtime/llm-executor-steps.h"
#include "runtime/llm-executor-upkeep.h"

/* How long a machine that is about to sleep waits for writes. Storage is a cache: unwritten chunks
 * are lost only if the machine loses its power, too. */
#define FLUSH_US (2 * G_USEC_PER_SEC)

void
llm_executor_set_pace (LlmExecutor *self,
                       LlmPace      background)
{
  __atomic_store_n (&self->steps.pace, background, __ATOMIC_RELEASE);
  llm_executor_poke (self);
}

void
llm_executor_set_pressed (LlmExecutor *self,
                          gboolean     is_pressed)
{
  if (__atomic_exchange_n (&self->memory.is_pressed, is_pressed, __ATOMIC_RELEASE) != is_pressed
      && !is_pressed)
    llm_executor_poke (self);
}

/* While a caller waits for another request, a background step uses all threads, so that it ends
 * sooner. */
void
llm_runner_choose_pool (LlmRunner    *runner,
                        LlmQueueStep *step)
{
  LlmExecutor *self = runner->executor;
  LlmPace pace = __atomic_load_n (&self->steps.pace, __ATOMIC_ACQUIRE);
  gboolean is_background = !self->config.is_fifo;

  LLM_EACH (LlmRunner, other, self->runners)
    is_background = is_background && !llm_scheduler_is_awaited (other->scheduler);
  step->teaches = !is_background;
  llm_forward_set_pool (step->forward,
                        is_background ? llm_step_pools_find_background (
                                          &self->steps.pools, runner->scheduler->entries->len,
                                          pace == LLM_PACE_RUN, pace == LLM_PACE_SLOW)
                                      : self->steps.pools.all);
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
  if (self->steps.sleep.hold != NULL)
    llm_command_reply (&g_steal_pointer (&self->steps.sleep.hold)->base, deliver_held);
}

static void
begin_suspend (LlmCommand *base)
{
  LlmExecutor *self = base->executor;

  tell_held (self);
  self->steps.sleep.is_on = TRUE;
  self->steps.sleep.hold = (LlmHold *) llm_command_ref (base);
  self->steps.sleep.end_us = llm_clock_now_us () + FLUSH_US;
}

void
llm_executor_end_suspend (LlmExecutor *self)
{
  self->steps.sleep.is_on = FALSE;
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

  if (self->steps.sleep.hold == NULL)
    return FALSE;
  LLM_EACH (LlmRunner, runner, self->runners)
    {
      LlmKvStore *store = runner->instance->store;

      if (llm_kv_store_is_settled (store) || now >= self->steps.sleep.end_us)
        continue;
      self->news.is_told = FALSE;
      if (!llm_kv_store_work (store, now + SLICE_US) && !llm_kv_store_is_settled (store))
        llm_kv_store_wait (store, DISK_WAIT_US);
      return TRUE;
    }
  tell_held (self);
  return FALSE;
}
