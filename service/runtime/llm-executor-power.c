/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Little power, and none for a while: how much is done of background requests, and standing still
 * while the machine sleeps. */

#define G_LOG_DOMAIN "llm-engine"

#include "runtime/llm-executor-private.h"

/* How long a machine that is about to sleep waits for what is not written yet. It is a cache: what
 * is left is lost only if the machine loses its power, too. */
#define FLUSH_US (2 * G_USEC_PER_SEC)
/* Of one look at the disk and of one slice of quantization. */
#define DISK_WAIT_US 2000
#define SLICE_US 2000

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

LlmWorkerPool *
llm_executor_get_background_pool (LlmExecutor *self)
{
  if (__atomic_load_n (&self->pace, __ATOMIC_ACQUIRE) != LLM_PACE_SLOW
      || llm_worker_pool_get_n_threads (self->background_pool) == 1)
    return self->background_pool;
  if (self->slow_pool == NULL)
    self->slow_pool = llm_worker_pool_new_background (1, self->background_niceness);
  return self->slow_pool;
}

/* --- suspend --- */

static void
deliver_held (LlmCommand *command)
{
  ((LlmExecutorHeld) command->done) (command->data);
}

static void
tell_held (LlmExecutor *self)
{
  if (self->suspend != NULL)
    llm_command_reply (g_steal_pointer (&self->suspend));
}

static void
begin_suspend (LlmCommand *command)
{
  LlmExecutor *self = command->executor;

  tell_held (self);
  self->is_suspended = TRUE;
  self->suspend = llm_command_new (self, deliver_held);
  self->suspend->done = command->done;
  self->suspend->data = command->data;
  self->suspend_end_us = llm_clock_now_us () + FLUSH_US;
}

void
llm_executor_end_suspend (LlmExecutor *self)
{
  self->is_suspended = FALSE;
  tell_held (self);
}

static void
end_suspend (LlmCommand *command)
{
  llm_executor_end_suspend (command->executor);
}

void
llm_executor_suspend (LlmExecutor    *self,
                      LlmExecutorHeld held,
                      gpointer        data)
{
  LlmCommand *command = llm_command_new (self, begin_suspend);

  command->done = G_CALLBACK (held);
  command->data = data;
  llm_command_send (command);
}

void
llm_executor_resume (LlmExecutor *self)
{
  llm_command_send (llm_command_new (self, end_suspend));
}

gboolean
llm_executor_work_suspended (LlmExecutor *self)
{
  gint64 now = llm_clock_now_us ();

  if (self->suspend == NULL)
    return FALSE;
  for (guint i = 0; i < self->runners->len; i++)
    {
      LlmKvStore *store = ((LlmRunner *) g_ptr_array_index (self->runners, i))->instance->store;

      if (store == NULL || llm_kv_store_is_settled (store) || now >= self->suspend_end_us)
        continue;
      self->is_told = FALSE;
      if (!llm_kv_store_work (store, now + SLICE_US) && !llm_kv_store_is_settled (store))
        llm_kv_store_wait (store, DISK_WAIT_US);
      return TRUE;
    }
  tell_held (self);
  return FALSE;
}
