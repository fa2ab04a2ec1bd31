/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The executor while memory is short: calls stand still and go on, weights leave and come back. */

#define G_LOG_DOMAIN "llm-engine"

#include "base/llm-clock.h"
#include "common/llmsvc-error.h"
#include "runtime/llm-executor-private.h"

/* A call that was parked stands still for so long at most while the system is short of memory: then
 * it goes on, slowly, with what is left of the reserve. */
#define WAIT_US (2 * G_USEC_PER_SEC)
/* How often it looks whether there is room. */
#define RETRY_US 50000
/* Having waited, it may run so long before it has to give again what fits the reserve. */
#define PROTECTED_US (5 * G_USEC_PER_SEC)
/* How often the kernel is asked what it has of the weights, and how much of a thread's time that may
 * take: one part of so many. */
#define MEASURE_INTERVAL_US G_USEC_PER_SEC
#define MEASURE_PARTS 100
/* Differences of less than one part of so many are not told: pages come and go all the time. */
#define TOLD_PARTS 64
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
  self->n_moved++;
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

/* --- what the kernel has of them --- */

/* On its way from the executor to a thread, which counts, and back. */
typedef struct
{
  LlmExecutor *executor;
  GArray *pieces;        /* (element-type LlmWeightPiece) (owned) */
  guint64 n_moved;       /* as of when it was asked */
  guint64 resident;      /* bytes */
  gint64 spent_us;
  LlmReclaimDone done;   /* (nullable) */
  guint64 freed;
  gpointer data;
} Measure;

static void
measure_free (gpointer data)
{
  g_array_unref (((Measure *) data)->pieces);
  g_free (data);
}

/* The executor's thread. What was given or taken meanwhile makes the figure worthless: then there
 * is a later measure, or one is due. */
static void
take_measure (gpointer data)
{
  Measure *measure = data;
  LlmExecutor *self = measure->executor;
  gint64 interval_us = MAX (MEASURE_INTERVAL_US, measure->spent_us * MEASURE_PARTS);

  if (self->weights != NULL && measure->n_moved == self->n_moved)
    {
      guint64 told = self->weights->backed - self->weights->absent;
      guint64 resident = MIN (measure->resident, self->weights->backed);
      guint64 change = MAX (told, resident) - MIN (told, resident);

      if (change > told / TOLD_PARTS || resident == 0 || resident == self->weights->backed
          || measure->done != NULL)
        llm_weights_set_resident (self->weights, self->ledger, resident);
    }
  else
    interval_us = 0;
  __atomic_store_n (&self->measure_us, llm_clock_now_us () + interval_us, __ATOMIC_RELAXED);
  llm_executor_publish (self);
  llm_executor_report (self, measure->done, measure->freed, measure->data);
}

static void
count_pages (gpointer data,
             gpointer user_data)
{
  Measure *measure = data;
  gint64 begin_us = g_get_monotonic_time ();

  measure->resident = llm_weights_count_resident (measure->pieces);
  measure->spent_us = g_get_monotonic_time () - begin_us;
  llm_mailbox_post (measure->executor->inbox, take_measure, measure, measure_free);
}

void
llm_executor_measure (LlmExecutor   *self,
                      LlmReclaimDone done,
                      guint64        freed,
                      gpointer       data)
{
  Measure *measure = g_new (Measure, 1);

  *measure = (Measure) { self, llm_weights_list_pieces (self->weights), self->n_moved,
                         0, 0, done, freed, data };
  g_thread_pool_push (self->measurer, measure, NULL);
}

static void
look_at_weights (gpointer data)
{
  LlmExecutor *self = data;

  if (self->weights != NULL && self->weights->backed > 0)
    llm_executor_measure (self, NULL, 0, NULL);
  else
    __atomic_store_n (&self->measure_us, 0, __ATOMIC_RELAXED);
}

void
llm_executor_look_at_weights (LlmExecutor *self)
{
  if (llm_executor_get_backed (self) == 0
      || llm_clock_now_us () < __atomic_load_n (&self->measure_us, __ATOMIC_RELAXED))
    return;
  /* one at a time */
  __atomic_store_n (&self->measure_us, G_MAXINT64, __ATOMIC_RELAXED);
  llm_mailbox_post (self->inbox, look_at_weights, self, NULL);
}

void
llm_executor_make_measurer (LlmExecutor *self)
{
  self->measurer = g_thread_pool_new (count_pages, NULL, 1, FALSE, NULL);
}

/* --- giving and taking them --- */

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

/* Who is told that it is done finds figures that are the kernel's. */
static void
give_pages (gpointer data)
{
  Pages *pages = data;
  LlmExecutor *self = pages->executor;
  guint64 freed = 0;

  if (self->weights != NULL && self->profile_run == NULL && !has_running (self))
    {
      self->n_moved++;
      freed = llm_weights_drop (self->weights, pages->bytes);
      self->ahead = G_MAXUINT64;
    }
  llm_executor_publish (self);
  if (freed > 0 && self->weights->backed > 0)
    llm_executor_measure (self, pages->done, freed, pages->data);
  else
    llm_executor_report (self, pages->done, freed, pages->data);
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
      && self->weights->bytes - self->weights->held <= pages->bytes
      && llm_executor_take_weights (self, NULL))
    self->ahead = 0;
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
      held = llm_weights_get_resident (self->weights);
      missing = self->weights->bytes - self->weights->held;
    }
  __atomic_store_n (&self->backed_bytes, self->weights != NULL ? self->weights->backed : 0,
                    __ATOMIC_RELAXED);
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

guint64
llm_executor_get_backed (LlmExecutor *self)
{
  return __atomic_load_n (&self->backed_bytes, __ATOMIC_RELAXED);
}

gboolean
llm_executor_has_backed_weights (LlmExecutor *self)
{
  return __atomic_load_n (&self->weights_are_backed, __ATOMIC_RELAXED);
}
