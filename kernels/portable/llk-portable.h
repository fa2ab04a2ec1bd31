/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the portable files share. */

#pragma once

#include "kernels/llk-block.h"

#include <math.h>

#define INLINE static inline __attribute__ ((always_inline))

void llk_portable_prepare (LlkActivation form, const float *x, size_t n, size_t n_in, void *row);

/*
 * a × b + c rounded once, like the instruction that other sets have. Without
 * it: the product is exact in double; the sum is rounded to odd (towards zero,
 * and the last bit set when it is inexact), after which a second rounding to
 * float is as good as one (Boldo and Melquiond, "Emulation of a FMA and
 * correctly rounded sums", 2008). No branches, so that loops over it are vectorised.
 */
INLINE float
fuse (float a,
      float b,
      float c)
{
#ifdef FP_FAST_FMAF
  return fmaf (a, b, c);
#else
  double product = (double) a * b;
  double sum = product + c;
  double other = sum - product;
  double error = (product - (sum - other)) + (c - other);
  uint64_t bits;

  memcpy (&bits, &sum, sizeof bits);
  bits -= ((error > 0) & (sum < 0)) | ((error < 0) & (sum > 0));
  bits |= (error > 0) | (error < 0);
  memcpy (&sum, &bits, sizeof sum);
  return (float) sum;
#endif
}
