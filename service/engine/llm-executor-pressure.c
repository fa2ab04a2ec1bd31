/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The executor while memory is short: calls stand still and go on, weights leave and come back. */

#define G_LOG_DOMAIN "llm-engine"

#include "base/llm-clock.h"
#include "base/llm-sysinfo.h"
#include "common/llmsvc-error.h"
#include "engine/llm-executor-private.h"

/* A call that was parked stands still for so long at most while the system is short of memory: then
 * it goes on, slowly, with what is left of the reserve. */
#define WAIT_US (2 * G_USEC_PER_SEC)
/* How often it looks whether there is room. */
#define RETRY_US 50000
/* Having waited, it may run so long before it has to give again what fits the reserve. */
#define PROTECTED_US (5 * G_USEC_PER_SEC)
/* Weights are read ahead in such pieces, so that a call never waits for more than one. */
#define AHEAD_BYTES ((guint64) 16 << 20)

/* --- calls --- */

void
llm_executor_set_pressed (LlmExecutor *self,
                          gboolean     is_pressed)
{
  if (__atomic_exchange_n (&self->is_pressed, is_pressed, __ATOMIC_RELEASE) != is_pressed
      && !is_pressed)
    llm_executor_poke (self);
}

gboolean
llm_executor_stands_still (LlmExecutor *self,
                           LlmRun      *run,
                           gint64       now)
{
  if (!__atomic_load_n (&self->is_pressed, __ATOMIC_ACQUIRE) || run->parked_us == 0
      || now >= run->parked_us + WAIT_US)
    return FALSE;
  run->resume_us = MIN (now + RETRY_US, run->parked_us + WAIT_US);
  return TRUE;
}

gboolean
llm_executor_may_wait (LlmExecutor *self,
                       LlmRun      *run)
{
  guint n_all = run->job->prompt->len + run->result->tokens->len;
  guint64 bytes = llm_kv_store_price (self->store, n_all);
  guint64 own = llm_kv_seq_get_own_bytes (run->session->seq);
  gint64 now = llm_clock_now_us ();

  if (!llm_ledger_may_wait (self->ledger, bytes > own ? bytes - own : 0))
    return FALSE;
  if (run->stuck_us == 0)
    run->stuck_us = now;
  if (self->short_wait_us > 0 && now - run->stuck_us >= self->short_wait_us)
    return FALSE;
  if (run->parked_us == 0)
    run->parked_us = now;
  run->resume_us = now + RETRY_US;
  return TRUE;
}

gboolean
llm_executor_make_urgent (LlmExecutor *self,
                          LlmRun      *run)
{
  gint64 now = llm_clock_now_us ();

  if (run->is_urgent || run->parked_us == 0 || now < run->parked_us + WAIT_US)
    return FALSE;
  run->is_urgent = TRUE;
  run->urgent_us = now;
  llm_ledger_set_urgent (self->ledger, TRUE);
  return TRUE;
}

void
llm_executor_settle_urgent (LlmExecutor *self)
{
  for (guint i = 0; i < self->runs->len; i++)
    if (((LlmRun *) g_ptr_array_index (self->runs, i))->is_urgent)
      return;
  llm_ledger_set_urgent (self->ledger, FALSE);
}

gboolean
llm_executor_is_protected (LlmExecutor *self,
                           LlmRun      *run)
{
  return run->is_urgent && llm_clock_now_us () < run->urgent_us + PROTECTED_US
         && llm_ledger_get_excess (self->ledger) == 0;
}

/* --- weights --- */

void
llm_executor_keep_weights (LlmExecutor *self,
                           guint64      bytes)
{
  __atomic_store_n (&self->keep_bytes, bytes, __ATOMIC_RELAXED);
}

gboolean
llm_executor_take_weights (LlmExecutor *self,
                           GError     **error)
{
  LlmWeights *weights = self->weights;
  guint64 missing = weights->bytes - weights->held;

  if (missing == 0)
    return TRUE;
  if (!self->weights_are_backed && !llm_ledger_has_room (self->ledger, missing))
    {
      llm_executor_make_room (self, missing);
      if (!llm_ledger_has_room (self->ledger, missing))
        {
          g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_NO_MEMORY,
                       "No room for the %ju bytes of the model's weights", missing);
          return FALSE;
        }
    }
  llm_weights_take (weights);
  /* Without room for all of them, those that are read ahead would drive out those in use. */
  self->ahead = weights->backed <= llm_ledger_get_headroom (self->ledger) ? 0 : G_MAXUINT64;
  return TRUE;
}

gboolean
llm_executor_read_ahead (LlmExecutor *self)
{
  if (self->ahead == G_MAXUINT64 || self->weights == NULL)
    return FALSE;
  self->ahead = llm_weights_read_ahead (self->weights, self->ahead, AHEAD_BYTES)
                    ? self->ahead + AHEAD_BYTES
                    : G_MAXUINT64;
  return self->ahead != G_MAXUINT64;
}

typedef struct
{
  LlmExecutor *executor;
  guint64 bytes;
  LlmReclaimDone done;   /* (nullable) */
  gpointer data;
} Pages;

static gboolean
has_running (LlmExecutor *self)
{
  for (guint i = 0; i < self->runs->len; i++)
    if (((LlmRun *) g_ptr_array_index (self->runs, i))->has_begun)
      return TRUE;
  return FALSE;
}

/* What comes free is what the kernel takes from this process. */
static void
give_pages (gpointer data)
{
  Pages *pages = data;
  LlmExecutor *self = pages->executor;
  guint64 before = 0;
  guint64 after = 0;

  if (self->weights != NULL && self->profile_run == NULL && !has_running (self))
    {
      before = llm_sysinfo_read_resident (NULL);
      llm_weights_drop (self->weights, pages->bytes);
      after = llm_sysinfo_read_resident (NULL);
      self->ahead = G_MAXUINT64;
    }
  llm_executor_publish (self);
  llm_executor_report (self, pages->done, before > after ? before - after : 0, pages->data);
}

void
llm_executor_give_pages (LlmExecutor   *self,
                         guint64        bytes,
                         LlmReclaimDone done,
                         gpointer       data)
{
  Pages *pages = g_new (Pages, 1);

  *pages = (Pages) { self, bytes, done, data };
  llm_mailbox_post (self->inbox, give_pages, pages, g_free);
}

static void
take_pages (gpointer data)
{
  Pages *pages = data;
  LlmExecutor *self = pages->executor;

  if (self->weights != NULL && self->weights_are_backed
      && self->weights->bytes - self->weights->held <= pages->bytes)
    (void) llm_executor_take_weights (self, NULL);
  llm_executor_publish (self);
}

void
llm_executor_take_pages (LlmExecutor *self,
                         guint64      bytes)
{
  Pages *pages = g_new (Pages, 1);

  *pages = (Pages) { self, bytes, NULL, NULL };
  llm_mailbox_post (self->inbox, take_pages, pages, g_free);
}

void
llm_executor_publish_pages (LlmExecutor *self)
{
  guint64 held = 0;
  guint64 missing = 0;

  if (self->weights != NULL && !has_running (self))
    {
      held = self->weights->held;
      missing = self->weights->bytes - held;
    }
  __atomic_store_n (&self->page_bytes, held, __ATOMIC_RELAXED);
  __atomic_store_n (&self->missing_bytes, missing, __ATOMIC_RELAXED);
}

guint64
llm_executor_get_pages (LlmExecutor *self)
{
  return __atomic_load_n (&self->page_bytes, __ATOMIC_RELAXED);
}

guint64
llm_executor_get_missing (LlmExecutor *self)
{
  return __atomic_load_n (&self->missing_bytes, __ATOMIC_RELAXED);
}

gboolean
llm_executor_has_backed_weights (LlmExecutor *self)
{
  return __atomic_load_n (&self->weights_are_backed, __ATOMIC_RELAXED);
}
