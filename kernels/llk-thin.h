/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What sets of kernels have in common for LlkVectorOps.add_thin(). */

#pragma once

#include <stdint.h>
#include <string.h>

#include "kernels/llk-vector.h"

typedef float LlkThinEight __attribute__ ((vector_size (32)));

/* Eight by eight; three rounds, each of which brings together what is half of them apart. */
static inline __attribute__ ((always_inline)) void
llk_thin_turn_eight (const float *w,
                     size_t       stride,
                     float       *columns)
{
  typedef int32_t Places __attribute__ ((vector_size (32)));
  LlkThinEight v[8], turned[8];

#pragma GCC unroll 8
  for (size_t o = 0; o < 8; o++)
    memcpy (&v[o], w + o * stride, sizeof v[o]);
#pragma GCC unroll 3
  for (size_t round = 0; round < 3; round++)
    {
#pragma GCC unroll 4
      for (size_t k = 0; k < 4; k++)
        {
          turned[2 * k] = __builtin_shuffle (v[k], v[4 + k], (Places) { 0, 8, 1, 9, 2, 10, 3, 11 });
          turned[2 * k + 1] =
            __builtin_shuffle (v[k], v[4 + k], (Places) { 4, 12, 5, 13, 6, 14, 7, 15 });
        }
#pragma GCC unroll 8
      for (size_t k = 0; k < 8; k++)
        v[k] = turned[k];
    }
#pragma GCC unroll 8
  for (size_t i = 0; i < 8; i++)
    memcpy (columns + i * LLK_THIN_OUTPUTS, &v[i], sizeof v[i]);
}

/* @columns: [n_in × LLK_THIN_OUTPUTS], zeros behind the last output. */
static inline void
llk_thin_turn (const float *w,
               size_t       n_in,
               size_t       n_out,
               float       *columns)
{
  const size_t n_whole = n_in % 8 == 0 ? n_out / 8 * 8 : 0;

  for (size_t o = 0; o < n_whole; o += 8)
    for (size_t i = 0; i < n_in; i += 8)
      llk_thin_turn_eight (w + o * n_in + i, n_in, columns + i * LLK_THIN_OUTPUTS + o);
  for (size_t i = 0; i < n_in; i++)
    for (size_t o = n_whole; o < LLK_THIN_OUTPUTS; o++)
      columns[i * LLK_THIN_OUTPUTS + o] = o < n_out ? w[o * n_in + i] : 0;
}
