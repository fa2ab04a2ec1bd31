/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What steps of a sub-model cost, as a part of what the same steps of the whole model do (E8). Before
 * anything was measured that is the sub-model's real part of the operations (prompts) and of the bytes
 * (answers); steps correct it. So the whole model's cost stays what it is, however long smaller ones
 * alone have run: targets that are parts of it need it. Plain data of one thread.
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
  double guesses[LLM_N_COSTS][LLM_LEVEL_COSTS_MAX]; /* real parts, as the model's companion has them */
  double ratios[LLM_N_COSTS][LLM_LEVEL_COSTS_MAX];
  int n_seen[LLM_N_COSTS][LLM_LEVEL_COSTS_MAX];     /* steps; 0: as it was guessed */
  guint n_since[LLM_N_COSTS];                       /* steps since the whole model's last one */
} LlmLevelCosts;

/* The whole model alone. */
void     llm_level_costs_init      (LlmLevelCosts       *self);
/* Adds the next smaller level. @operations, @bytes: over the whole model's. Numbers that are no
 * parts count as 1. */
void     llm_level_costs_add       (LlmLevelCosts       *self,
                                    guint8               percent,
                                    double               operations,
                                    double               bytes);
/* A step of the level over the same of the whole model. */
double   llm_level_costs_get_ratio (const LlmLevelCosts *self,
                                    LlmCostKind          kind,
                                    guint                lacking);
/* A step with rows of one level took @us. It says something of the level where @costs knows such
 * steps of the whole model from a short time before, and something of @costs where not: then the
 * machine's speed may have changed since. */
void     llm_level_costs_observe   (LlmLevelCosts       *self,
                                    LlmCostModel        *costs,
                                    LlmCostKind          kind,
                                    guint                lacking,
                                    guint                n_rows,
                                    double               depth,
                                    double               us);

/* Puts what was measured into groups of @file, which may have others. */
void     llm_level_costs_store     (const LlmLevelCosts *self,
                                    GKeyFile            *file);
/* FALSE, and nothing changed, when that is not all there, is of other levels or parts, or no possible
 * number. */
gboolean llm_level_costs_load      (LlmLevelCosts       *self,
                                    GKeyFile            *file);

G_END_DECLS
