/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Products in W8A8: of prompts, where rows are many. Weights come from the model's prepared file
 * (llm-w8-weights.h); without one, matrices are made into their int8 form when they are first multiplied, and
 * held beside what the view shows. Hot channels are floats. What a row has beyond the scale of its
 * site elsewhere is a sparse row of floats (a shadow), multiplied with the same int8 weights and
 * added. A gated network's products are gated and quantized while they lie in the cache, without rows
 * of floats between. A row's bits depend on nothing but the row. Everything is done in submit(). The
 * executor's thread.
 *
 * Besides, what others do with int8 and outliers, to be compared with: rows with scales of their
 * own, channels that stay floats, inputs that are smoothed.
 */

#pragma once

#include "model/llm-w8-site.h"
#include "forward/llm-backend.h"
#include "weights/llm-w8-weights.h"

/* What a site has beside its scale, for comparisons. */
typedef struct
{
  gboolean is_dynamic;          /* each row's scale is its own largest magnitude */
  const float *factors;         /* (nullable) (unowned): what inputs are divided by, and their
                                 * weights multiplied */
} LlmW8Method;

typedef struct
{
  const LlmHparams *hparams;    /* (unowned): not needed later */
  const LlmW8Site *sites;       /* (unowned) [n_layers × LLM_W8_N_KINDS]: may be changed between
                                 * steps */
  const LlmW8Method *methods;   /* (nullable) (unowned): likewise */
  guint min_rows;               /* steps with fewer rows are computed as ever */
} LlmW8Config;

/* What was computed so far. */
typedef struct
{
  guint64 n_products;           /* of int8 numbers */
  guint64 n_shadow_products;    /* of floats beside them */
  guint64 n_beyond;             /* values beyond their scale */
  guint64 n_values;
} LlmW8Counts;

/* @kernels: (unowned). */
LlmBackend  *llm_backend_w8_new        (const LlkOps      *kernels,
                                        const LlmW8Config *config);
LlmW8Counts  llm_backend_w8_get_counts (LlmBackend        *self);
/* How many times as long the CPU's own products take, measured: what estimates go by from now on. Before,
 * this one costs nothing. */
void         llm_backend_w8_set_speedup (LlmBackend       *self,
                                        double             speedup);
/* Frees what it holds for rows, until they are multiplied again; in the middle of a gated network, what
 * the product behind doesn't read. */
void         llm_backend_w8_trim       (LlmBackend        *self);
/* @weights: (unowned) (nullable): from now on; of the model, by segment. No step is under way. */
void         llm_backend_w8_set_weights (LlmBackend       *self,
                                        LlmW8Weights      *weights);
