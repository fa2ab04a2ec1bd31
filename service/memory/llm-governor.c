/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-governor"

#include "memory/llm-governor.h"

#include "base/llm-clock.h"

struct _LlmGovernor
{
  GObject parent_instance;

  LlmLedger *ledger;
  GPtrArray *reclaimers;  /* (element-type LlmReclaimer) (owned) */
  GArray *given;          /* (element-type guint64): bytes, of each of them */
  GQueue waiting;         /* (element-type GTask) (owned): the head runs */
};

/* One trim: a walk over costs and, inside a cost, over reclaimers. */
typedef struct
{
  LlmTrimRequest request;
  LlmReclaimCost max_cost;
  gint64 started_us;
  gint64 asked_us;        /* when the reclaimer was asked */
  LlmReclaimCost cost;
  guint next;             /* index of the reclaimer to ask */
  guint64 freed;
  GStrvBuilder *steps;
} Trim;

G_DEFINE_FINAL_TYPE (LlmGovernor, llm_governor, G_TYPE_OBJECT)

static void advance (GTask *task);

static void
trim_free (Trim *trim)
{
  g_strv_builder_unref (trim->steps);
  g_free (trim);
}

void
llm_trim_result_free (LlmTrimResult *self)
{
  g_strfreev (self->steps);
  g_free (self);
}

static void
on_given (guint64  freed,
          gpointer data)
{
  GTask *task = data;
  LlmGovernor *self = g_task_get_source_object (task);
  Trim *trim = g_task_get_task_data (task);
  LlmReclaimer *reclaimer = g_ptr_array_index (self->reclaimers, trim->next);

  if (freed > 0)
    {
      g_info ("Gave back %s: %" G_GUINT64_FORMAT " bytes in %.1f ms",
              llm_reclaimer_get_name (reclaimer), freed,
              (llm_clock_now_us () - trim->asked_us) / 1000.0);
      g_strv_builder_add (trim->steps, llm_reclaimer_get_name (reclaimer));
      trim->freed += freed;
      g_array_index (self->given, guint64, trim->next) += freed;
    }
  trim->next++;
  advance (task);
}

static void
finish_trim (GTask *task)
{
  g_autoptr(LlmGovernor) self = g_object_ref (g_task_get_source_object (task));
  Trim *trim = g_task_get_task_data (task);
  LlmTrimResult *result = g_new0 (LlmTrimResult, 1);
  GTask *next;

  result->freed = trim->freed;
  result->duration_ms = (llm_clock_now_us () - trim->started_us) / 1000.0;
  result->steps = g_strv_builder_end (trim->steps);

  g_assert (g_queue_pop_head (&self->waiting) == task);
  /* Whoever is told may ask for the next trim at once, which begins by itself when none waits. */
  next = g_queue_peek_head (&self->waiting);
  g_task_return_pointer (task, result, (GDestroyNotify) llm_trim_result_free);
  g_object_unref (task);

  if (next != NULL)
    advance (next);
}

static gboolean
is_asked (const Trim   *trim,
          LlmReclaimer *reclaimer)
{
  if (llm_reclaimer_get_cost (reclaimer) != trim->cost)
    return FALSE;
  if (trim->request.scope != LLM_TRIM_ALL
      && llm_reclaimer_is_backed (reclaimer) != (trim->request.scope == LLM_TRIM_BACKED))
    return FALSE;
  return llm_reclaimer_get_held (reclaimer) > 0;
}

static gint64
get_give_deadline (const LlmTrimRequest *request,
                   gint64                now)
{
  if (request->patience_us == 0)
    return request->deadline_us;
  if (request->deadline_us == 0)
    return now + request->patience_us;
  return MIN (request->deadline_us, now + request->patience_us);
}

static void
advance (GTask *task)
{
  LlmGovernor *self = g_task_get_source_object (task);
  Trim *trim = g_task_get_task_data (task);
  const LlmTrimRequest *request = &trim->request;

  while (trim->cost <= trim->max_cost)
    {
      if (request->target > 0 && trim->freed >= request->target)
        break;
      if (request->deadline_us > 0 && llm_clock_now_us () >= request->deadline_us)
        break;
      if (trim->next >= self->reclaimers->len)
        {
          trim->cost++;
          trim->next = 0;
        }
      else
        {
          LlmReclaimer *reclaimer = g_ptr_array_index (self->reclaimers, trim->next);

          if (is_asked (trim, reclaimer))
            {
              trim->asked_us = llm_clock_now_us ();
              llm_reclaimer_give (reclaimer,
                                  request->target > 0 ? request->target - trim->freed : G_MAXUINT64,
                                  get_give_deadline (request, trim->asked_us), on_given, task);
              return;
            }
          trim->next++;
        }
    }
  finish_trim (task);
}

static void
llm_governor_finalize (GObject *object)
{
  LlmGovernor *self = LLM_GOVERNOR (object);

  g_assert (g_queue_is_empty (&self->waiting));
  g_ptr_array_unref (self->reclaimers);
  g_array_unref (self->given);
  llm_ledger_unref (self->ledger);
  G_OBJECT_CLASS (llm_governor_parent_class)->finalize (object);
}

static void
llm_governor_class_init (LlmGovernorClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = llm_governor_finalize;
}

static void
llm_governor_init (LlmGovernor *self)
{
  self->reclaimers = g_ptr_array_new_with_free_func (g_object_unref);
  self->given = g_array_new (FALSE, TRUE, sizeof (guint64));
  g_queue_init (&self->waiting);
}

LlmGovernor *
llm_governor_new (LlmLedger *ledger)
{
  LlmGovernor *self = g_object_new (LLM_TYPE_GOVERNOR, NULL);

  self->ledger = llm_ledger_ref (ledger);
  return self;
}

void
llm_governor_add (LlmGovernor  *self,
                  LlmReclaimer *reclaimer)
{
  g_ptr_array_add (self->reclaimers, g_object_ref (reclaimer));
  g_array_set_size (self->given, self->reclaimers->len);
}

guint64
llm_governor_get_reclaimable (LlmGovernor   *self,
                              LlmReclaimCost cost)
{
  guint64 bytes = 0;

  for (guint i = 0; i < self->reclaimers->len; i++)
    {
      LlmReclaimer *reclaimer = g_ptr_array_index (self->reclaimers, i);

      if (llm_reclaimer_get_cost (reclaimer) == cost)
        bytes += llm_reclaimer_get_held (reclaimer);
    }
  return bytes;
}

guint64
llm_governor_get_given (LlmGovernor *self,
                        const char  *name)
{
  for (guint i = 0; i < self->reclaimers->len; i++)
    if (g_str_equal (llm_reclaimer_get_name (g_ptr_array_index (self->reclaimers, i)), name))
      return g_array_index (self->given, guint64, i);
  return 0;
}

void
llm_governor_grow (LlmGovernor *self,
                   guint64      bytes)
{
  for (guint i = 0; i < self->reclaimers->len; i++)
    llm_reclaimer_grow (g_ptr_array_index (self->reclaimers, i), bytes);
}

void
llm_governor_trim_async (LlmGovernor          *self,
                         const LlmTrimRequest *request,
                         GAsyncReadyCallback   callback,
                         gpointer              data)
{
  static const LlmReclaimCost max_costs[] = {
    [LLM_PRESSURE_LOW] = LLM_RECLAIM_FREE,
    [LLM_PRESSURE_MEDIUM] = LLM_RECLAIM_CHEAP,
    [LLM_PRESSURE_CRITICAL] = LLM_RECLAIM_COSTLY,
  };
  GTask *task = g_task_new (self, NULL, callback, data);
  Trim *trim = g_new0 (Trim, 1);

  g_assert (request->level >= LLM_PRESSURE_LOW && request->level <= LLM_PRESSURE_CRITICAL);
  trim->request = *request;
  trim->max_cost = max_costs[request->level];
  trim->started_us = llm_clock_now_us ();
  trim->steps = g_strv_builder_new ();
  g_task_set_task_data (task, trim, (GDestroyNotify) trim_free);

  g_queue_push_tail (&self->waiting, task);
  if (self->waiting.length == 1)
    advance (task);
}

LlmTrimResult *
llm_governor_trim_finish (LlmGovernor   *self,
                          GAsyncResult  *result,
                          GError       **error)
{
  g_return_val_if_fail (g_task_is_valid (result, self), NULL);
  return g_task_propagate_pointer (G_TASK (result), error);
}
