/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Costs of steps on this machine with this model (E8): prefill and decode steps, by rows and by the
 * slots before the rows; and of restoring a context, by bytes. Learned from the steps that run.
 * Each counts only a little, so that a disturbed step does no harm. Plain data of one thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef enum
{
  LLM_COST_PREFILL,
  LLM_COST_DECODE,   /* decode rows: one or more for each answer */
  LLM_N_COSTS,
} LlmCostKind;

#define LLM_COST_POINTS 8

typedef struct
{
  double us[LLM_COST_POINTS];     /* of a step with llm_cost_rows[i] rows and nothing before them */
  int n_seen[LLM_COST_POINTS];    /* steps near the point; 0: still the guess */
  double depth_us;                /* more for each row and 1000 slots before it */
  double spread;                  /* mean relative deviation of steps from what was expected */
  guint n_steps;                  /* learned from, at most a million */
} LlmCostCurve;

typedef struct
{
  LlmCostCurve curves[LLM_N_COSTS];
  double restore_latency_us;
  double restore_bytes_per_us;
  guint n_restores;
} LlmCostModel;

extern const guint llm_cost_rows[LLM_N_COSTS][LLM_COST_POINTS];

/* Fills in a guess: its shape is that of many machines, its scale follows the first step. */
void     llm_cost_model_init           (LlmCostModel       *self);
/* Whether enough steps of both kinds were seen for forecasts. */
gboolean llm_cost_model_is_known       (const LlmCostModel *self);

/* Whether steps of about so many rows were seen, so that a prediction is not a guess. */
gboolean llm_cost_model_has_seen       (const LlmCostModel *self,
                                        LlmCostKind         kind,
                                        guint               n_rows);
/* µs of one step of @n_rows; @depth: the sum over all rows of the slots before each. */
double   llm_cost_model_predict        (const LlmCostModel *self,
                                        LlmCostKind         kind,
                                        guint               n_rows,
                                        double              depth);
/* The most rows that a step of @us can have, at least 1; each after @mean_depth slots. */
guint    llm_cost_model_find_rows      (const LlmCostModel *self,
                                        LlmCostKind         kind,
                                        double              us,
                                        double              mean_depth);
/* µs of a prefill of @n_rows after @first slots, in steps of at most @max_rows. */
double   llm_cost_model_predict_prompt (const LlmCostModel *self,
                                        guint               n_rows,
                                        guint               first,
                                        guint               max_rows);
/* µs of one more row in a step with many. */
double   llm_cost_model_get_row_us     (const LlmCostModel *self);
/* µs until so many bytes are restored from storage. */
double   llm_cost_model_predict_restore (const LlmCostModel *self,
                                        guint64             bytes);

/* A step took @us. */
void     llm_cost_model_observe        (LlmCostModel       *self,
                                        LlmCostKind         kind,
                                        guint               n_rows,
                                        double              depth,
                                        double              us);
/* Reading so many bytes took @us. */
void     llm_cost_model_observe_restore (LlmCostModel      *self,
                                        guint64             bytes,
                                        double              us);
/* Prefill costs that were measured by other means, used where no step of that kind was seen: @n
 * times @us of steps with @rows, rising; @depth_us as in LlmCostCurve. */
void     llm_cost_model_seed_prompts   (LlmCostModel       *self,
                                        const guint        *rows,
                                        const double       *us,
                                        guint               n,
                                        double              depth_us);

/* Saves it in groups of @file, which may have others. */
void     llm_cost_model_store          (const LlmCostModel *self,
                                        GKeyFile           *file);
/* FALSE, and nothing changed, when values are missing or impossible. */
gboolean llm_cost_model_load           (LlmCostModel       *self,
                                        GKeyFile           *file);

G_END_DECLS
