/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Attention with AVX2, FMA and F16C. */

#include "kernels/x86/llk-avx2.h"

#define ATTENTION llk_avx2_attention
#define LANES 8
#define BLOCK_QUERIES 4
#define SCORE_VECTORS 2
#define VALUE_VECTORS 2

typedef __m256 Vector;

/* All ones in the lanes whose bit is set. */
INLINE __m256
expand_bits (uint32_t bits)
{
  const __m256i lane_bits = _mm256_setr_epi32 (1, 2, 4, 8, 16, 32, 64, 128);
  __m256i set = _mm256_and_si256 (_mm256_set1_epi32 ((int) bits), lane_bits);

  return _mm256_castsi256_ps (_mm256_cmpeq_epi32 (set, lane_bits));
}

INLINE Vector
zero_vector (void)
{
  return _mm256_setzero_ps ();
}

INLINE Vector
splat (float value)
{
  return _mm256_set1_ps (value);
}

INLINE Vector
load_floats (const float *src)
{
  return _mm256_loadu_ps (src);
}

INLINE Vector
load_some_floats (const float *src,
                  size_t       n)
{
  float some[LANES] = { 0 };

  for (size_t i = 0; i < n; i++)
    some[i] = src[i];
  return _mm256_loadu_ps (some);
}

INLINE Vector
load_some_halves (const void *src,
                  size_t      n)
{
  uint16_t some[LANES] = { 0 };

  for (size_t i = 0; i < n; i++)
    some[i] = ((const uint16_t *) src)[i];
  return load_halves (some);
}

INLINE void
store_floats (float *dst,
              Vector v)
{
  _mm256_storeu_ps (dst, v);
}

INLINE Vector
multiply (Vector a,
          Vector b)
{
  return _mm256_mul_ps (a, b);
}

INLINE Vector
multiply_add (Vector a,
              Vector b,
              Vector c)
{
  return _mm256_fmadd_ps (a, b, c);
}

INLINE Vector
add (Vector a,
     Vector b)
{
  return _mm256_add_ps (a, b);
}

INLINE Vector
subtract (Vector a,
          Vector b)
{
  return _mm256_sub_ps (a, b);
}

INLINE Vector
divide (Vector a,
        Vector b)
{
  return _mm256_div_ps (a, b);
}

/* The instruction gives its second operand where one of them is NaN. */
INLINE Vector
maximum (Vector a,
         Vector b)
{
  return _mm256_max_ps (b, a);
}

INLINE Vector
select_lanes (uint32_t bits,
              Vector   a,
              Vector   b)
{
  return _mm256_blendv_ps (b, a, expand_bits (bits));
}

INLINE float
max_lane (Vector v)
{
  __m128 x = _mm_max_ps (_mm256_castps256_ps128 (v), _mm256_extractf128_ps (v, 1));

  x = _mm_max_ps (x, _mm_movehl_ps (x, x));
  x = _mm_max_ss (x, _mm_movehdup_ps (x));
  return _mm_cvtss_f32 (x);
}

#include "kernels/llk-attention-passes.h"
