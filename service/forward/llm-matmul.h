/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Products of weights and activations, spread over the workers by output.
 * Packed weights go to the kernels' products, with rows prepared in the form
 * that these want; weights as a file stores them are dequantized to floats, which
 * is slower and exact. Each result is one call's sum, the same whatever runs
 * beside it. The executor's thread calls it.
 */

#pragma once

#include "base/llm-worker-pool.h"
#include "kernels/llk.h"
#include "weights/llm-weights.h"

/* Rows of activations; those of one kind are neighbours. */
typedef struct
{
  const float *values;   /* [rows × stride], input 0 first */
  gsize stride;
  guint first[LLK_N_ROW_KINDS];   /* row of each kind */
} LlmRows;

/* y[r, o] (+)= sum over i of w[o, i] × x[r, i], for the outputs and inputs of the view. */
typedef struct
{
  const LlmWeightView *view;
  float *y;              /* [rows × y_stride], output 0 first */
  gsize y_stride;
  guint n_rows[LLK_N_ROW_KINDS];  /* from the first row of the kind on */
  gboolean is_added;     /* to what y holds */
} LlmProduct;

typedef struct
{
  const LlkOps *kernels;
  LlmWorkerPool *pool;
  guint8 *scratch;       /* of all workers, each llm_matmul_get_scratch() */
  gsize scratch_bytes;   /* of one worker */
  guint8 *prepared;      /* rows in the products' form, each llm_matmul_get_row_bytes() */
  gsize row_bytes;
} LlmMatmul;

/* Bytes that one worker needs for views of up to @n_in inputs: a multiple of 64. */
gsize llm_matmul_get_scratch   (const LlkOps *kernels,
                                guint         n_in);
/* Bytes of a prepared row of up to @n_in inputs. */
gsize llm_matmul_get_row_bytes (guint         n_in);

/* Runs products of the same rows that write different outputs. */
void  llm_matmul_run           (const LlmMatmul  *self,
                                const LlmRows    *rows,
                                const LlmProduct *products,
                                guint             n_products);
