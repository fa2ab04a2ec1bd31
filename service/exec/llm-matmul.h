/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Products of weights and activations, spread over the workers by output. A
 * weight row is unpacked once and multiplied with all activation rows; each
 * result is one call's sum, the same whatever runs beside it. The executor's
 * thread calls it.
 */

#pragma once

#include "base/llm-worker-pool.h"
#include "kernels/llk.h"
#include "model/llm-weights.h"

G_BEGIN_DECLS

/* y[r, o] (+)= sum over i of w[o, i] × x[r, i], for the outputs and inputs of the view. */
typedef struct
{
  const LlmWeightView *view;
  const float *x;        /* [n_rows × x_stride], input 0 first */
  gsize x_stride;
  float *y;              /* [n_rows × y_stride], output 0 first */
  gsize y_stride;
  guint n_rows;
  gboolean is_added;     /* to what y holds */
} LlmProduct;

typedef struct
{
  const LlkOps *kernels;
  LlmWorkerPool *pool;
  float *scratch;        /* of all workers */
  gsize scratch_floats;  /* of one worker: llm_matmul_get_scratch() */
} LlmMatmul;

/* Floats that one worker needs for views of up to @n_in inputs. */
gsize llm_matmul_get_scratch (guint             n_in);

/* Runs products that write different outputs. */
void  llm_matmul_run         (const LlmMatmul  *self,
                              const LlmProduct *products,
                              guint             n_products);

G_END_DECLS
