/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What an adapter (LoRA) adds to rows of a product, in two halves of low rank. A worker calls it; rows
 * and outputs may be of several.
 */

#pragma once

#include "forward/llm-matmul-floats.h"

/* y[r, o] += sum over j of b[o, j] × between[r, j], where between[r, j] = scale × sum over i of
 * a[j, i] × x[r, i], for rows [@first, @first + @n_rows) of a product. Both are as a file has them, from
 * input and output 0 on. */
typedef struct
{
  LlmWeightView a;       /* @b.in_count outputs */
  LlmWeightView b;
  float scale;
  guint first, n_rows;
  float *between;        /* [n_rows × b.in_count], of the caller */
} LlmAdapted;

/* The first half of those of rows [@first, @end) that it has. @rows: of the product, all. */
void    llm_adapted_begin (const LlkOps     *kernels,
                           const LlmAdapted *self,
                           const LlmRows    *rows,
                           guint             first,
                           guint             end,
                           float            *scratch);
/* The second half of all its rows, of those of outputs [@first, @first + @n) that it has. @y: of the product,
 * [rows × y_stride]. */
void    llm_adapted_end   (const LlkOps     *kernels,
                           const LlmAdapted *self,
                           guint             first,
                           guint             n,
                           float            *y,
                           gsize             y_stride,
                           float            *scratch);
/* Products of two numbers. */
guint64 llm_adapted_count (const LlmAdapted *self);
