/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "memory/llm-pressure-source-private.h"

typedef struct
{
  const char *name;
  guint64 n_stirred;
} LlmPressureSourcePrivate;

G_DEFINE_TYPE_WITH_PRIVATE (LlmPressureSource, llm_pressure_source, G_TYPE_OBJECT)

static guint stirred;

static LlmPressureSourcePrivate *
get_private (LlmPressureSource *self)
{
  return llm_pressure_source_get_instance_private (self);
}

static void
llm_pressure_source_class_init (LlmPressureSourceClass *klass)
{
  stirred = g_signal_new ("stirred", LLM_TYPE_PRESSURE_SOURCE, G_SIGNAL_RUN_LAST, 0, NULL, NULL,
                          NULL, G_TYPE_NONE, 1, G_TYPE_UINT);
}

static void
llm_pressure_source_init (LlmPressureSource *self)
{
  get_private (self)->name = "";
}

void
llm_pressure_source_set_name (LlmPressureSource *self,
                              const char        *name)
{
  get_private (self)->name = name;
}

const char *
llm_pressure_source_get_name (LlmPressureSource *self)
{
  return get_private (self)->name;
}

guint64
llm_pressure_source_get_n_stirred (LlmPressureSource *self)
{
  return get_private (self)->n_stirred;
}

void
llm_pressure_source_set_tight (LlmPressureSource *self,
                               gboolean           is_tight)
{
  LlmPressureSourceClass *klass = LLM_PRESSURE_SOURCE_GET_CLASS (self);

  if (klass->set_tight != NULL)
    klass->set_tight (self, is_tight);
}

void
llm_pressure_source_stir (LlmPressureSource *self,
                          LlmPressure        hint)
{
  get_private (self)->n_stirred++;
  g_signal_emit (self, stirred, 0, hint);
}
