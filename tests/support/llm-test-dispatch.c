/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "llm-test-dispatch.h"

#include <string.h>

void
llm_test_dispatch_init (LlmTestDispatch  *self,
           guint  n_chunks,
           guint  n_stages)
{
  memset (self, 0, sizeof *self);
  self->graph = (LlmDispatchGraph) { self->stages, n_stages, n_chunks, self->times_us };
}

void
llm_test_dispatch_randomize (LlmTestDispatch  *self,
                GRand *random)
{
  for (guint s = 0; s < self->graph.n_stages; s++)
    {
      double time_us = g_rand_double_range (random, 1, 10);

      self->stages[s].processor = g_rand_boolean (random);
      self->stages[s].needs_earlier = s > 0 && g_rand_int_range (random, 0, 10) < 3;
      for (guint c = 0; c < self->graph.n_chunks; c++)
        self->times_us[c * self->graph.n_stages + s] =
          time_us * (self->stages[s].needs_earlier ? 1 + 0.5 * c : 1);
    }
}

void
llm_test_dispatch_paper (LlmTestDispatch   *self,
            guint   n_chunks,
            double  growth)
{
  static const LlmDispatchStage layer[] = {
    { LLM_PROCESSOR_CPU, FALSE }, { LLM_PROCESSOR_DEVICE, FALSE }, { LLM_PROCESSOR_CPU, TRUE },
    { LLM_PROCESSOR_DEVICE, FALSE }, { LLM_PROCESSOR_CPU, FALSE }, { LLM_PROCESSOR_DEVICE, FALSE },
  };
  static const double parts[] = { 0.2, 0.3, 0.6, 0.1, 0.2, 0.6 };

  llm_test_dispatch_init (self, n_chunks, 24 * G_N_ELEMENTS (layer));
  for (guint s = 0; s < self->graph.n_stages; s++)
    {
      guint part = s % G_N_ELEMENTS (layer);
      double all_us = layer[part].processor == LLM_PROCESSOR_CPU ? 157e3 : 315e3;

      self->stages[s] = layer[part];
      for (guint c = 0; c < n_chunks; c++)
        self->times_us[c * self->graph.n_stages + s] =
          all_us / 24 * parts[part] * (layer[part].needs_earlier ? 1 + growth * c : 1);
    }
}

double
llm_test_dispatch_get_serial (const LlmTestDispatch *self)
{
  double sum_us = 0;

  for (guint i = 0; i < self->graph.n_chunks * self->graph.n_stages; i++)
    sum_us += self->times_us[i];
  return sum_us;
}
