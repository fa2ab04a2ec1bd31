/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What sets of kernels have in common for LlkVectorOps.add_thin(). */

#pragma once

#include <math.h>

#include "kernels/llk-vector.h"

/* Fewer rows are not worth turning weights around for. */
#define LLK_THIN_FEW_ROWS 4

static inline void
llk_thin_add_row (const float *w,
                  const float *x,
                  size_t       n_in,
                  size_t       n_out,
                  float       *y)
{
  for (size_t o = 0; o < n_out; o++)
    {
      float sum = y[o];

      for (size_t i = 0; i < n_in; i++)
        sum = fmaf (w[o * n_in + i], x[i], sum);
      y[o] = sum;
    }
}

/* @columns: [n_in × LLK_THIN_OUTPUTS], zeros behind the last output. */
static inline void
llk_thin_turn (const float *w,
               size_t       n_in,
               size_t       n_out,
               float       *columns)
{
  for (size_t i = 0; i < n_in; i++)
    for (size_t o = 0; o < LLK_THIN_OUTPUTS; o++)
      columns[i * LLK_THIN_OUTPUTS + o] = o < n_out ? w[o * n_in + i] : 0;
}
