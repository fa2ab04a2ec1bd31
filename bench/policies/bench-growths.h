/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Rules by which draft trees grow, beside the service's: what it is compared with. */

#pragma once

#include "decoding/draft/llm-draft-growth.h"

/* The paper's (C2, C3, C6), with its values: branches from the threshold on, the branch pacer,
 * fallback at α. */
#define BENCH_GROWTH_PAPER \
  ((LlmGrowthConfig) { .due = 1, .depth = 1, .threshold = 0.3, .alpha = 0.01, .goes_ahead = TRUE })

/* The likeliest token behind the last one, at most @n times; 0: as often as a tree takes. */
#define BENCH_GROWTH_CHAIN(n) \
  ((LlmGrowthConfig) { .depth = 1, .widths = { 1 }, .n_widths = 1, .n_nodes = (n) })

/* Behind each node of depth d its d-th number of likeliest tokens. */
#define BENCH_GROWTH_FIXED(...) \
  ((LlmGrowthConfig) { .depth = 1, .widths = { __VA_ARGS__ }, \
                       .n_widths = sizeof ((guint[]) { __VA_ARGS__ }) / sizeof (guint), \
                       .n_depths = sizeof ((guint[]) { __VA_ARGS__ }) / sizeof (guint) })
