/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How a call is computed (E1, E9, A6): which sub-model answers, how much of the prompt it sees, and how
 * much of the weights each word of the answer goes without. Of the strategies that a call allows, the one
 * with the best quality that is in time is chosen; the same costs give the same choice. Knows numbers only.
 * Plain data.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct
{
  guint prompt_level;   /* percent of the prompt */
  guint sub_model;      /* percent of the model */
  double loss;          /* expected loss of quality of its answers */
  double wait_us;       /* until its first row, queued behind others */
  double alone_us;      /* from there to its first token */
  double token_us;      /* each further token */
  guint sparsity;       /* percent of the layers' weights that each of these goes without */
} LlmStrategy;

/* µs, 0: no limit. */
typedef struct
{
  double first_us;      /* of the first token */
  double token_us;      /* of each further one */
  double call_us;       /* of the first one and the others together */
  guint n_further;      /* limit of their number */
} LlmStrategyLimits;

/* The first that is in time: of equal losses the one with more of the model, then of the prompt,
 * then of the weights.
 * When the queue makes all of them late, one that would be in time without it: a smaller one would
 * be late as well. When none would be, the one that is late by the least; a smaller model must be
 * less late by a fiftieth. @n: at least 1. */
guint llm_strategy_choose    (const LlmStrategy       *strategies,
                              guint                    n,
                              const LlmStrategyLimits *limits);
/* Makes the losses of @n sub-models, rising to the whole model, fall: one that was measured as
 * better than a larger one counts as equal. So no call gets a smaller model than necessary. */
void  llm_strategy_sort_losses (double                *losses,
                              guint                    n);

G_END_DECLS
