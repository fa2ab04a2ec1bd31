/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "engine/llm-text-reclaimer.h"

#include "engine/llm-context-private.h"

#define LLM_TYPE_TEXT_RECLAIMER (llm_text_reclaimer_get_type ())
G_DECLARE_FINAL_TYPE (LlmTextReclaimer, llm_text_reclaimer, LLM, TEXT_RECLAIMER, GObject)

struct _LlmTextReclaimer
{
  GObject parent_instance;

  LlmEngine *engine; /* (unowned) */
};

static void llm_text_reclaimer_iface_init (LlmReclaimerInterface *iface);

G_DEFINE_FINAL_TYPE_WITH_CODE (LlmTextReclaimer, llm_text_reclaimer, G_TYPE_OBJECT,
                               G_IMPLEMENT_INTERFACE (LLM_TYPE_RECLAIMER, llm_text_reclaimer_iface_init))

static const char *
get_name (LlmReclaimer *reclaimer)
{
  return "text";
}

static LlmReclaimCost
get_cost (LlmReclaimer *reclaimer)
{
  return LLM_RECLAIM_CHEAP;
}

static guint64
get_held (LlmReclaimer *reclaimer)
{
  GHashTableIter iter;
  LlmContext *context;
  guint64 held = 0;

  g_hash_table_iter_init (&iter, LLM_TEXT_RECLAIMER (reclaimer)->engine->contexts);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &context))
    held += llm_context_get_forgettable (context);
  return held;
}

static void
give (LlmReclaimer  *reclaimer,
      guint64        bytes,
      gint64         deadline_us,
      LlmReclaimDone done,
      gpointer       data)
{
  GHashTableIter iter;
  LlmContext *context;
  guint64 freed = 0;

  g_hash_table_iter_init (&iter, LLM_TEXT_RECLAIMER (reclaimer)->engine->contexts);
  while (freed < bytes && g_hash_table_iter_next (&iter, NULL, (gpointer *) &context))
    {
      guint64 held = llm_context_get_forgettable (context);

      if (held > 0)
        llm_context_forget (context);
      freed += held;
    }
  done (freed, data);
}

static void
llm_text_reclaimer_iface_init (LlmReclaimerInterface *iface)
{
  iface->get_name = get_name;
  iface->get_cost = get_cost;
  iface->get_held = get_held;
  iface->give = give;
}

static void
llm_text_reclaimer_class_init (LlmTextReclaimerClass *klass)
{
}

static void
llm_text_reclaimer_init (LlmTextReclaimer *self)
{
}

LlmReclaimer *
llm_text_reclaimer_new (LlmEngine *engine)
{
  LlmTextReclaimer *self = g_object_new (LLM_TYPE_TEXT_RECLAIMER, NULL);

  self->engine = engine;
  return LLM_RECLAIMER (self);
}
