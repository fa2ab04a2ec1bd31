/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Latency targets of a call: a class, or milliseconds. Plain data. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef enum
{
  LLM_SLO_INTERACTIVE, /* a user watches: 1 s to the first token, 10 tokens/s */
  LLM_SLO_RESPONSIVE,  /* a user waits: 5 s, 4 tokens/s */
  LLM_SLO_BACKGROUND,  /* background work: no target */
  LLM_N_SLO_CLASSES,
} LlmSloClass;

typedef struct
{
  LlmSloClass class;
  double ttft_ms;   /* time to the first token, 0 for no target */
  double tpot_ms;   /* time per further token, 0 for no target */
} LlmSlo;

/* FALSE for an unknown name. */
gboolean    llm_slo_class_parse     (const char   *name,
                                     LlmSloClass  *slo_class);
const char *llm_slo_class_to_string (LlmSloClass   slo_class);
/* The targets of a class. */
LlmSlo      llm_slo_for_class       (LlmSloClass   slo_class);
/* The class of a call that named milliseconds (0: none) and no class: the first whose own targets
 * are no longer than these. Never BACKGROUND: a call with a time has a waiting caller. */
LlmSloClass llm_slo_class_for_ms    (double        ttft_ms,
                                     double        tpot_ms);
gboolean    llm_slo_is_met          (const LlmSlo *slo,
                                     double        ttft_ms,
                                     double        tpot_ms);

G_END_DECLS
