/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "memory/llm-reclaimer.h"

G_DEFINE_INTERFACE (LlmReclaimer, llm_reclaimer, G_TYPE_OBJECT)

static void
llm_reclaimer_default_init (LlmReclaimerInterface *iface)
{
}

const char *
llm_reclaimer_get_name (LlmReclaimer *self)
{
  return LLM_RECLAIMER_GET_IFACE (self)->get_name (self);
}

LlmReclaimCost
llm_reclaimer_get_cost (LlmReclaimer *self)
{
  return LLM_RECLAIMER_GET_IFACE (self)->get_cost (self);
}

guint64
llm_reclaimer_get_held (LlmReclaimer *self)
{
  return LLM_RECLAIMER_GET_IFACE (self)->get_held (self);
}

void
llm_reclaimer_give (LlmReclaimer  *self,
                    guint64        bytes,
                    gint64         deadline_us,
                    LlmReclaimDone done,
                    gpointer       data)
{
  LLM_RECLAIMER_GET_IFACE (self)->give (self, bytes, deadline_us, done, data);
}

void
llm_reclaimer_grow (LlmReclaimer *self,
                    guint64       bytes)
{
  LlmReclaimerInterface *iface = LLM_RECLAIMER_GET_IFACE (self);

  if (iface->grow != NULL)
    iface->grow (self, bytes);
}

gboolean
llm_reclaimer_is_backed (LlmReclaimer *self)
{
  LlmReclaimerInterface *iface = LLM_RECLAIMER_GET_IFACE (self);

  return iface->is_backed != NULL && iface->is_backed (self);
}
