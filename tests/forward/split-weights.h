/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A provider of weights for tests, in front of another one: cuts operators into
 * segments, makes callers wait, or gives out copies with their inputs
 * listed, which are gone when released. One thread.
 */

#pragma once

#include "weights/llm-weights.h"

G_BEGIN_DECLS

typedef struct
{
  guint n_levels;        /* 1; 2: 50 and 100 percent of the heads and of the network; or 9, whose steps
                          * differ by layer and are empty where there are fewer groups of heads */
  gboolean is_pending;   /* half the time */
  gboolean has_channels; /* the network's last operator comes with a list of inputs */
  gboolean claims_panels; /* of the operator with a list of inputs: which is a mistake */
} SplitConfig;

typedef struct
{
  guint n_acquired;
  guint n_pending;
  guint n_held;
  guint n_most_held;
} SplitCounts;

/* Takes @inner. @counts outlives it. */
LlmWeights *split_weights_new (LlmWeights        *inner,
                               const LlmHparams  *hparams,
                               const SplitConfig *config,
                               SplitCounts       *counts);

G_END_DECLS
