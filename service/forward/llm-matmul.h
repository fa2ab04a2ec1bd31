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
#include "forward/llm-matmul-adapted.h"
#include "model/architectures/llm-sub-models.h"

/* y[r, o] (+)= sum over i of w[o, i] × x[r, i], for the outputs and inputs of each piece. Pieces
 * cover different outputs, or all the same ones and different inputs: then a row's sum goes on from
 * piece to piece. Behind the last piece comes what adapters add; there may be nothing but these. */
typedef struct
{
  const LlmWeightView *pieces;
  const guint *n_rows;   /* [n_pieces]: each is for the first so many rows */
  guint n_pieces;        /* at most LLM_MAX_LEVELS */
  const LlmAdapted *adapted; /* of different rows each */
  guint n_adapted;
  float *y;              /* [rows × y_stride], output 0 first */
  gsize y_stride;
  gboolean is_added;     /* to what y holds */
} LlmProduct;

/* What the caller lends for the time of a call. */
typedef struct
{
  LlmWorkerPool *pool;
  guint8 *scratch;       /* of all workers, each llm_matmul_get_scratch() */
  gsize scratch_bytes;   /* of one worker */
  guint8 *gathered;      /* likewise, each llm_matmul_get_gathered(); unused without views by channel */
  gsize gathered_bytes;
  guint8 *prepared;      /* rows in the products' form, each llm_matmul_get_row_bytes() */
  gsize row_bytes;
  guint64 *n_multiplied; /* (nullable): counts products of two numbers */
} LlmHost;

#define LLM_MATMUL_MAX_PRODUCTS 6

/* Bytes that one worker needs for @n_rows rows and views of up to @n_in inputs: a multiple of
 * 64. */
gsize llm_matmul_get_scratch   (const LlkOps            *kernels,
                                guint                    n_in,
                                guint                    n_rows);
/* Bytes that one worker needs beside these for views by channel: a multiple of 64. */
gsize llm_matmul_get_gathered  (guint                    n_in);
/* Bytes of a prepared row of up to @n_in inputs. */
gsize llm_matmul_get_row_bytes (guint                    n_in);

/* Runs products that write different outputs, each of its @rows. Those of the same rows have these
 * prepared once. */
void  llm_matmul_run           (const LlkOps            *kernels,
                                const LlmHost           *host,
                                const LlmRows *const    *rows,
                                const LlmProduct *const *products,
                                guint                    n_products);
