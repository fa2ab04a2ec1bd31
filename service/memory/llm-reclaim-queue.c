/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-governor"

#include "memory/llm-reclaim-queue.h"

#include <malloc.h>

#include "base/llm-clock.h"

struct _LlmReclaimQueue
{
  LlmLedger *ledger;
  GQueue reclaims;         /* (element-type Reclaim) (owned): the head runs */
};

/* A walk over costs and, inside a cost, over reclaimers. */
typedef struct
{
  LlmReclaimQueue *queue;  /* (unowned) */
  LlmReclaimRequest request;
  LlmReclaimFunc func;
  gpointer data;
  gint64 started_us;
  gint64 asked_us;         /* when the reclaimer was asked */
  LlmReclaimCost cost;
  guint next;              /* index of the reclaimer to ask */
  guint64 freed;
  GPtrArray *steps;        /* (element-type utf8) (unowned) */
} Reclaim;

static void advance (Reclaim *self);

static gboolean
finish (gpointer data)
{
  Reclaim *self = data;
  LlmReclaimQueue *queue = self->queue;
  LlmReclaimResult result = {
    .freed = self->freed,
    .duration_ms = (llm_clock_now_us () - self->started_us) / 1000.0,
  };
  Reclaim *next;

  /* The C library keeps freed pages until malloc_trim(). */
  if (self->freed > 0)
    malloc_trim (0);
  g_ptr_array_add (self->steps, NULL);
  result.steps = (const char *const *) self->steps->pdata;

  g_assert (g_queue_pop_head (&queue->reclaims) == self);
  /* A request that @func pushes starts by itself when no other waits. */
  next = g_queue_peek_head (&queue->reclaims);
  self->func (&result, self->data);
  g_ptr_array_unref (self->steps);
  g_free (self);
  if (next != NULL)
    advance (next);
  return G_SOURCE_REMOVE;
}

static void
on_reclaimed (guint64  freed,
              gpointer data)
{
  Reclaim *self = data;
  LlmReclaimer *reclaimer =
    g_ptr_array_index (llm_ledger_get_reclaimers (self->queue->ledger), self->next);

  if (freed > 0)
    {
      g_info ("Gave back %s: %" G_GUINT64_FORMAT " bytes in %.1f ms", reclaimer->name, freed,
              (llm_clock_now_us () - self->asked_us) / 1000.0);
      g_ptr_array_add (self->steps, (gpointer) reclaimer->name);
      self->freed += freed;
      reclaimer->reclaimed += freed;
    }
  self->next++;
  advance (self);
}

static gboolean
is_asked (const Reclaim      *self,
          const LlmReclaimer *reclaimer)
{
  LlmReclaimScope scope = self->request.scope;
  gboolean is_backed = reclaimer->is_backed != NULL && reclaimer->is_backed (reclaimer->holder);

  return reclaimer->cost == self->cost
         && (scope == LLM_RECLAIM_ALL || self->cost == LLM_RECLAIM_FREE || is_backed == (scope == LLM_RECLAIM_BACKED))
         && reclaimer->get_held (reclaimer->holder) > 0;
}

static gint64
get_deadline (const LlmReclaimRequest *request,
              gint64                   now)
{
  gint64 deadline_us = request->deadline_us > 0 ? request->deadline_us : G_MAXINT64;

  if (request->patience_us == 0)
    return request->deadline_us;
  return MIN (deadline_us, now + request->patience_us);
}

static gboolean
is_done (const Reclaim *self)
{
  const LlmReclaimRequest *request = &self->request;

  return self->cost > (LlmReclaimCost) (request->level - LLM_PRESSURE_LOW)
         || (request->target > 0 && self->freed >= request->target)
         || (request->deadline_us > 0 && llm_clock_now_us () >= request->deadline_us);
}

static void
advance (Reclaim *self)
{
  const LlmReclaimRequest *request = &self->request;
  GPtrArray *reclaimers = llm_ledger_get_reclaimers (self->queue->ledger);

  while (!is_done (self))
    {
      LlmReclaimer *reclaimer;

      if (self->next >= reclaimers->len)
        {
          self->cost++;
          self->next = 0;
          continue;
        }
      reclaimer = g_ptr_array_index (reclaimers, self->next);
      if (is_asked (self, reclaimer))
        {
          self->asked_us = llm_clock_now_us ();
          reclaimer->reclaim (reclaimer->holder,
                              request->target > 0 ? request->target - self->freed : G_MAXUINT64,
                              get_deadline (request, self->asked_us), on_reclaimed, self);
          return;
        }
      self->next++;
    }
  g_idle_add_full (G_PRIORITY_DEFAULT, finish, self, NULL);
}

LlmReclaimQueue *
llm_reclaim_queue_new (LlmLedger *ledger)
{
  LlmReclaimQueue *self = g_new0 (LlmReclaimQueue, 1);

  self->ledger = llm_ledger_ref (ledger);
  return self;
}

void
llm_reclaim_queue_free (LlmReclaimQueue *self)
{
  g_assert (g_queue_is_empty (&self->reclaims));
  llm_ledger_unref (self->ledger);
  g_free (self);
}

void
llm_reclaim_queue_push (LlmReclaimQueue         *self,
                        const LlmReclaimRequest *request,
                        LlmReclaimFunc           func,
                        gpointer                 data)
{
  Reclaim *reclaim = g_new0 (Reclaim, 1);

  g_assert (request->level >= LLM_PRESSURE_LOW && request->level <= LLM_PRESSURE_CRITICAL);
  *reclaim = (Reclaim) {
    .queue = self,
    .request = *request,
    .func = func,
    .data = data,
    .started_us = llm_clock_now_us (),
    .steps = g_ptr_array_new (),
  };
  g_queue_push_tail (&self->reclaims, reclaim);
  if (self->reclaims.length == 1)
    advance (reclaim);
}
