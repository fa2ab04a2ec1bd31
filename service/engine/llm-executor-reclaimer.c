/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the executor holds, as holders of memory: scratch, and the context
 * memory of contexts that no call uses. */

#include "engine/llm-executor-private.h"

#define LLM_TYPE_EXECUTOR_RECLAIMER (llm_executor_reclaimer_get_type ())
G_DECLARE_FINAL_TYPE (LlmExecutorReclaimer, llm_executor_reclaimer, LLM, EXECUTOR_RECLAIMER, GObject)

struct _LlmExecutorReclaimer
{
  GObject parent_instance;

  LlmExecutor *executor; /* (unowned): outlives it */
  gboolean is_scratch;
};

static void llm_executor_reclaimer_iface_init (LlmReclaimerInterface *iface);

G_DEFINE_FINAL_TYPE_WITH_CODE (LlmExecutorReclaimer, llm_executor_reclaimer, G_TYPE_OBJECT,
                               G_IMPLEMENT_INTERFACE (LLM_TYPE_RECLAIMER, llm_executor_reclaimer_iface_init))

static const char *
get_name (LlmReclaimer *reclaimer)
{
  return LLM_EXECUTOR_RECLAIMER (reclaimer)->is_scratch ? "scratch" : "kv";
}

static LlmReclaimCost
get_cost (LlmReclaimer *reclaimer)
{
  return LLM_EXECUTOR_RECLAIMER (reclaimer)->is_scratch ? LLM_RECLAIM_FREE : LLM_RECLAIM_CHEAP;
}

static guint64
get_held (LlmReclaimer *reclaimer)
{
  LlmExecutorReclaimer *self = LLM_EXECUTOR_RECLAIMER (reclaimer);
  guint64 *held = self->is_scratch ? &self->executor->scratch_bytes : &self->executor->idle_kv_bytes;

  return __atomic_load_n (held, __ATOMIC_RELAXED);
}

static void
give (LlmReclaimer  *reclaimer,
      guint64        bytes,
      gint64         deadline_us,
      LlmReclaimDone done,
      gpointer       data)
{
  LlmExecutorReclaimer *self = LLM_EXECUTOR_RECLAIMER (reclaimer);

  llm_executor_give (self->executor, self->is_scratch, bytes, done, data);
}

static void
llm_executor_reclaimer_iface_init (LlmReclaimerInterface *iface)
{
  iface->get_name = get_name;
  iface->get_cost = get_cost;
  iface->get_held = get_held;
  iface->give = give;
}

static void
llm_executor_reclaimer_class_init (LlmExecutorReclaimerClass *klass)
{
}

static void
llm_executor_reclaimer_init (LlmExecutorReclaimer *self)
{
}

static LlmReclaimer *
reclaimer_new (LlmExecutor *executor,
               gboolean     is_scratch)
{
  LlmExecutorReclaimer *self = g_object_new (LLM_TYPE_EXECUTOR_RECLAIMER, NULL);

  self->executor = executor;
  self->is_scratch = is_scratch;
  return LLM_RECLAIMER (self);
}

LlmReclaimer *
llm_executor_new_scratch_reclaimer (LlmExecutor *self)
{
  return reclaimer_new (self, TRUE);
}

LlmReclaimer *
llm_executor_new_kv_reclaimer (LlmExecutor *self)
{
  return reclaimer_new (self, FALSE);
}
