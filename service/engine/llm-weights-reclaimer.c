/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "engine/llm-weights-reclaimer.h"

#include "engine/llm-engine-private.h"

#define LLM_TYPE_WEIGHTS_RECLAIMER (llm_weights_reclaimer_get_type ())
G_DECLARE_FINAL_TYPE (LlmWeightsReclaimer, llm_weights_reclaimer, LLM, WEIGHTS_RECLAIMER, GObject)

struct _LlmWeightsReclaimer
{
  GObject parent_instance;

  LlmEngine *engine; /* (unowned) */
};

static void llm_weights_reclaimer_iface_init (LlmReclaimerInterface *iface);

G_DEFINE_FINAL_TYPE_WITH_CODE (LlmWeightsReclaimer, llm_weights_reclaimer, G_TYPE_OBJECT,
                               G_IMPLEMENT_INTERFACE (LLM_TYPE_RECLAIMER, llm_weights_reclaimer_iface_init))

static const char *
get_name (LlmReclaimer *reclaimer)
{
  return "weights";
}

static LlmReclaimCost
get_cost (LlmReclaimer *reclaimer)
{
  return LLM_RECLAIM_COSTLY;
}

/* Weights that a running call uses can't be given. */
static guint64
get_held (LlmReclaimer *reclaimer)
{
  LlmEngine *engine = LLM_WEIGHTS_RECLAIMER (reclaimer)->engine;

  if (engine->n_jobs > 0 || engine->is_loading || engine->model == NULL)
    return 0;
  return llm_ledger_get (engine->ledger, LLM_HOLDER_WEIGHTS);
}

static void
give (LlmReclaimer  *reclaimer,
      guint64        bytes,
      gint64         deadline_us,
      LlmReclaimDone done,
      gpointer       data)
{
  llm_engine_unload (LLM_WEIGHTS_RECLAIMER (reclaimer)->engine, done, data);
}

static void
llm_weights_reclaimer_iface_init (LlmReclaimerInterface *iface)
{
  iface->get_name = get_name;
  iface->get_cost = get_cost;
  iface->get_held = get_held;
  iface->give = give;
}

static void
llm_weights_reclaimer_class_init (LlmWeightsReclaimerClass *klass)
{
}

static void
llm_weights_reclaimer_init (LlmWeightsReclaimer *self)
{
}

LlmReclaimer *
llm_weights_reclaimer_new (LlmEngine *engine)
{
  LlmWeightsReclaimer *self = g_object_new (LLM_TYPE_WEIGHTS_RECLAIMER, NULL);

  self->engine = engine;
  return LLM_RECLAIMER (self);
}
