/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Little power, and none for a while: how much is done of what nobody waits for, and standing still
 * while the machine sleeps. */

#define G_LOG_DOMAIN "llm-engine"

#include "base/llm-clock.h"
#include "runtime/llm-executor-private.h"

/* How long a machine that is about to sleep waits for what is not written yet. It is a cache: what
 * is left is lost only if the machine loses its power, too. */
#define FLUSH_US (2 * G_USEC_PER_SEC)
/* Of one look at the disk and of one slice of packing. */
#define DISK_WAIT_US 2000
#define SLICE_US 2000

/* --- the pace --- */

void
llm_executor_set_pace (LlmExecutor *self,
                       LlmPace      background)
{
  __atomic_store_n (&self->pace, background, __ATOMIC_RELEASE);
  llm_executor_poke (self);
}

LlmWorkerPool *
llm_executor_get_background_pool (LlmExecutor *self)
{
  if (__atomic_load_n (&self->pace, __ATOMIC_ACQUIRE) != LLM_PACE_SLOW ||
      llm_worker_pool_get_n_threads (self->background_pool) == 1)
    return self->background_pool;
  if (self->slow_pool == NULL)
    self->slow_pool = llm_worker_pool_new_background (1, self->background_niceness);
  return self->slow_pool;
}

/* --- suspend --- */

typedef struct
{
  LlmExecutor *executor;   /* (unowned) */
  LlmExecutorHeld held;
  gpointer data;
} Suspend;

static void
deliver_held (gpointer data)
{
  Suspend *suspend = data;

  suspend->held (suspend->data);
}

static void
tell_held (LlmExecutor *self)
{
  llm_mailbox_post (self->main_box, deliver_held, g_steal_pointer (&self->suspend), g_free);
}

static void
begin_suspend (gpointer data)
{
  Suspend *suspend = g_memdup2 (data, sizeof *suspend);
  LlmExecutor *self = suspend->executor;

  if (self->suspend != NULL)
    tell_held (self);
  self->is_suspended = TRUE;
  self->suspend = suspend;
  self->suspend_end_us = llm_clock_now_us () + FLUSH_US;
}

void
llm_executor_end_suspend (LlmExecutor *self)
{
  self->is_suspended = FALSE;
  if (self->suspend != NULL)
    tell_held (self);
}

static void
end_suspend (gpointer data)
{
  llm_executor_end_suspend (data);
}

void
llm_executor_suspend (LlmExecutor    *self,
                      LlmExecutorHeld held,
                      gpointer        data)
{
  Suspend *suspend = g_new (Suspend, 1);

  *suspend = (Suspend) { self, held, data };
  llm_mailbox_post (self->inbox, begin_suspend, suspend, g_free);
}

void
llm_executor_resume (LlmExecutor *self)
{
  llm_mailbox_post (self->inbox, end_suspend, self, NULL);
}

gboolean
llm_executor_is_suspended (LlmExecutor *self)
{
  return self->is_suspended;
}

gboolean
llm_executor_work_suspended (LlmExecutor *self)
{
  gint64 now = llm_clock_now_us ();

  if (self->suspend == NULL)
    return FALSE;
  if (self->store != NULL && !llm_kv_store_is_settled (self->store) && now < self->suspend_end_us)
    {
      self->is_told = FALSE;
      if (!llm_kv_store_work (self->store, now + SLICE_US) &&
          !llm_kv_store_is_settled (self->store))
        llm_kv_store_wait (self->store, DISK_WAIT_US);
      return TRUE;
    }
  tell_held (self);
  return FALSE;
}
