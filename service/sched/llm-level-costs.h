/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Costs of steps of a sub-model, relative to the same steps of the whole model (E8). The initial
 * guess is the sub-model's real part of the operations (prefill) and of the bytes (decode); steps
 * correct it. So the whole model's cost stays known, however long only smaller ones have run:
 * targets that are fractions of it need it. Plain data of one thread.
 *
 * A level is named by what it lacks: 0 is the whole model, as in LlmSchedEntry.
 */

#pragma once

#include "sched/llm-cost-model.h"

G_BEGIN_DECLS

#define LLM_LEVEL_COSTS_MAX 16

typedef struct
{
  guint n_levels;                                   /* at least 1 */
  guint8 percent[LLM_LEVEL_COSTS_MAX];              /* by what lacks: falling from 100 */
  double guesses[LLM_N_COSTS][LLM_LEVEL_COSTS_MAX]; /* real parts, as the model's companion has
                                                     * them */
  double ratios[LLM_N_COSTS][LLM_LEVEL_COSTS_MAX];
  int n_seen[LLM_N_COSTS][LLM_LEVEL_COSTS_MAX];     /* steps; 0: still the guess */
  guint n_since[LLM_N_COSTS];                       /* steps since the whole model's last one */
} LlmLevelCosts;

/* Only the whole model. */
void     llm_level_costs_init      (LlmLevelCosts       *self);
/* Adds the next smaller level. @operations, @bytes: over the whole model's. Numbers that are no
 * fractions count as 1. */
void     llm_level_costs_add       (LlmLevelCosts       *self,
                                    guint8               percent,
                                    double               operations,
                                    double               bytes);
/* Cost of a step of the level over the same of the whole model. */
double   llm_level_costs_get_ratio (const LlmLevelCosts *self,
                                    LlmCostKind          kind,
                                    guint                lacking);
/* A step with rows of one level took @us. It corrects the level where @costs has recent steps of
 * the whole model like it; otherwise it corrects @costs, because the machine's speed may have
 * changed since. */
void     llm_level_costs_observe   (LlmLevelCosts       *self,
                                    LlmCostModel        *costs,
                                    LlmCostKind          kind,
                                    guint                lacking,
                                    guint                n_rows,
                                    double               depth,
                                    double               us);

/* Saves the measurements in groups of @file, which may have others. */
void     llm_level_costs_store     (const LlmLevelCosts *self,
                                    GKeyFile            *file);
/* FALSE, and nothing changed, when values are missing, of other levels or parts, or impossible. */
gboolean llm_level_costs_load      (LlmLevelCosts       *self,
                                    GKeyFile            *file);

G_END_DECLS
