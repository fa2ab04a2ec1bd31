/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "sched/llm-slo.h"

static const struct
{
  const char *name;
  double ttft_ms;
  double tpot_ms;
} classes[LLM_N_SLO_CLASSES] = {
  { "interactive", 1000, 100 },
  { "responsive", 5000, 250 },
  { "background", 0, 0 },
};

gboolean
llm_slo_class_parse (const char  *name,
                     LlmSloClass *slo_class)
{
  for (guint i = 0; i < LLM_N_SLO_CLASSES; i++)
    if (g_str_equal (name, classes[i].name))
      {
        *slo_class = i;
        return TRUE;
      }
  return FALSE;
}

const char *
llm_slo_class_to_string (LlmSloClass slo_class)
{
  g_assert (slo_class < LLM_N_SLO_CLASSES);
  return classes[slo_class].name;
}

LlmSloClass
llm_slo_class_for_ms (double ttft_ms,
                      double tpot_ms)
{
  const double own_ttft_ms = classes[LLM_SLO_INTERACTIVE].ttft_ms;
  const double own_tpot_ms = classes[LLM_SLO_INTERACTIVE].tpot_ms;

  if ((ttft_ms > 0 && ttft_ms <= own_ttft_ms) || (tpot_ms > 0 && tpot_ms <= own_tpot_ms))
    return LLM_SLO_INTERACTIVE;
  return LLM_SLO_RESPONSIVE;
}

LlmSlo
llm_slo_for_class (LlmSloClass slo_class)
{
  g_assert (slo_class < LLM_N_SLO_CLASSES);
  return (LlmSlo) { slo_class, classes[slo_class].ttft_ms, classes[slo_class].tpot_ms };
}

gboolean
llm_slo_is_met (const LlmSlo *slo,
                double        ttft_ms,
                double        tpot_ms)
{
  return (slo->ttft_ms <= 0 || ttft_ms <= slo->ttft_ms) &&
         (slo->tpot_ms <= 0 || tpot_ms <= slo->tpot_ms);
}
