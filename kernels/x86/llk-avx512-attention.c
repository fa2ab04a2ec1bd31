/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Attention with AVX-512, where there are no tiles. */

#include "kernels/x86/llk-avx512.h"

#define ATTENTION llk_avx512_attention
#define LANES 16
#define BLOCK_QUERIES 8
#define SCORE_VECTORS 2
#define VALUE_VECTORS 2

typedef __m512 Vector;

INLINE Vector
zero_vector (void)
{
  return _mm512_setzero_ps ();
}

INLINE Vector
splat (float value)
{
  return _mm512_set1_ps (value);
}

INLINE Vector
load_floats (const float *src)
{
  return _mm512_loadu_ps (src);
}

INLINE Vector
load_halves (const void *src)
{
  return _mm512_cvtph_ps (_mm256_loadu_si256 (src));
}

INLINE Vector
load_some_floats (const float *src,
                  size_t       n)
{
  return _mm512_maskz_loadu_ps (first_lanes (n), src);
}

INLINE Vector
load_some_halves (const void *src,
                  size_t      n)
{
  return _mm512_cvtph_ps (_mm256_maskz_loadu_epi16 (first_lanes (n), src));
}

INLINE void
store_floats (float *dst,
              Vector v)
{
  _mm512_storeu_ps (dst, v);
}

INLINE Vector
multiply (Vector a,
          Vector b)
{
  return _mm512_mul_ps (a, b);
}

INLINE Vector
multiply_add (Vector a,
              Vector b,
              Vector c)
{
  return _mm512_fmadd_ps (a, b, c);
}

INLINE Vector
add (Vector a,
     Vector b)
{
  return _mm512_add_ps (a, b);
}

INLINE Vector
subtract (Vector a,
          Vector b)
{
  return _mm512_sub_ps (a, b);
}

INLINE Vector
divide (Vector a,
        Vector b)
{
  return _mm512_div_ps (a, b);
}

/* The instruction gives its second operand where one of them is NaN. */
INLINE Vector
maximum (Vector a,
         Vector b)
{
  return _mm512_max_ps (b, a);
}

INLINE Vector
select_lanes (uint32_t bits,
              Vector   a,
              Vector   b)
{
  return _mm512_mask_mov_ps (b, (__mmask16) bits, a);
}

INLINE float
max_lane (Vector v)
{
  return _mm512_reduce_max_ps (v);
}

#include "kernels/llk-attention-passes.h"
