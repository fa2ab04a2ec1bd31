/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "memory/llm-func-reclaimer.h"

#define LLM_TYPE_FUNC_RECLAIMER (llm_func_reclaimer_get_type ())
G_DECLARE_FINAL_TYPE (LlmFuncReclaimer, llm_func_reclaimer, LLM, FUNC_RECLAIMER, GObject)

struct _LlmFuncReclaimer
{
  GObject parent_instance;

  const LlmReclaimerFuncs *funcs;
  gpointer holder; /* (unowned) */
};

static void llm_func_reclaimer_iface_init (LlmReclaimerInterface *iface);

G_DEFINE_FINAL_TYPE_WITH_CODE (LlmFuncReclaimer, llm_func_reclaimer, G_TYPE_OBJECT,
                               G_IMPLEMENT_INTERFACE (LLM_TYPE_RECLAIMER,
                                                      llm_func_reclaimer_iface_init))

static const char *
get_name (LlmReclaimer *reclaimer)
{
  return LLM_FUNC_RECLAIMER (reclaimer)->funcs->name;
}

static LlmReclaimCost
get_cost (LlmReclaimer *reclaimer)
{
  return LLM_FUNC_RECLAIMER (reclaimer)->funcs->cost;
}

static guint64
get_held (LlmReclaimer *reclaimer)
{
  LlmFuncReclaimer *self = LLM_FUNC_RECLAIMER (reclaimer);

  return self->funcs->get_held (self->holder);
}

static void
give (LlmReclaimer  *reclaimer,
      guint64        bytes,
      gint64         deadline_us,
      LlmReclaimDone done,
      gpointer       data)
{
  LlmFuncReclaimer *self = LLM_FUNC_RECLAIMER (reclaimer);

  self->funcs->give (self->holder, bytes, deadline_us, done, data);
}

static void
grow (LlmReclaimer *reclaimer,
      guint64       bytes)
{
  LlmFuncReclaimer *self = LLM_FUNC_RECLAIMER (reclaimer);

  if (self->funcs->grow != NULL)
    self->funcs->grow (self->holder, bytes);
}

static gboolean
is_backed (LlmReclaimer *reclaimer)
{
  LlmFuncReclaimer *self = LLM_FUNC_RECLAIMER (reclaimer);

  return self->funcs->is_backed != NULL && self->funcs->is_backed (self->holder);
}

static void
llm_func_reclaimer_iface_init (LlmReclaimerInterface *iface)
{
  iface->get_name = get_name;
  iface->get_cost = get_cost;
  iface->get_held = get_held;
  iface->give = give;
  iface->grow = grow;
  iface->is_backed = is_backed;
}

static void
llm_func_reclaimer_class_init (LlmFuncReclaimerClass *klass)
{
}

static void
llm_func_reclaimer_init (LlmFuncReclaimer *self)
{
}

LlmReclaimer *
llm_func_reclaimer_new (const LlmReclaimerFuncs *funcs,
                        gpointer                 holder)
{
  LlmFuncReclaimer *self = g_object_new (LLM_TYPE_FUNC_RECLAIMER, NULL);

  self->funcs = funcs;
  self->holder = holder;
  return LLM_RECLAIMER (self);
}
