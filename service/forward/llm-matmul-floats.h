/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Products of rows and weights as a file stores them, which are dequantized to floats: slower than
 * those of packed weights, and exact. A worker calls it.
 */

#pragma once

#include "kernels/llk.h"
#include "weights/llm-weights.h"

/* Rows of activations. */
typedef struct
{
  const float *values;   /* [rows × stride], input 0 first */
  gsize stride;
} LlmRows;

typedef struct
{
  const LlmWeightView *view;
  LlmRows rows;
  guint n_rows;          /* the first so many */
  float *y;              /* [n_rows × y_stride], output 0 of the operator first */
  gsize y_stride;
  gboolean is_added;     /* to what y holds */
} LlmFloatProduct;

/* Outputs of @view that are worth a call of their own. */
guint llm_float_product_get_group   (const LlmWeightView   *view);
/* Floats of scratch memory for views of up to @n_in inputs. */
gsize llm_float_product_get_scratch (guint                  n_in);
/* Outputs [@first, @first + @n) of the view, at most a group. */
void  llm_float_product_run         (const LlkOps          *kernels,
                                     const LlmFloatProduct *product,
                                     guint                  first,
                                     guint                  n,
                                     float                 *scratch);
