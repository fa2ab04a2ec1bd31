/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the files for AVX-512 (F, BW, DQ, VL, VBMI, VNNI) share. */

#pragma once

#include "kernels/llk-internal.h"

#include <immintrin.h>

#define INLINE static inline __attribute__ ((always_inline))

/* One bit for each of the first @n lanes, at most sixteen. */
INLINE __mmask16
first_lanes (size_t n)
{
  return (__mmask16) ((1u << n) - 1);
}

/* Always the same tree, which AVX2's sum_vector() continues. */
INLINE float
sum_vector (__m512 v)
{
  __m256 half = _mm256_add_ps (_mm512_castps512_ps256 (v), _mm512_extractf32x8_ps (v, 1));
  __m128 x = _mm_add_ps (_mm256_castps256_ps128 (half), _mm256_extractf128_ps (half, 1));

  x = _mm_add_ps (x, _mm_movehl_ps (x, x));
  x = _mm_add_ss (x, _mm_movehdup_ps (x));
  return _mm_cvtss_f32 (x);
}

/* llk_exp() of sixteen values; the order of operands lets NaN through. */
INLINE __m512
exp_vector (__m512 x)
{
  const __m512 rounder = _mm512_set1_ps (LLK_ROUNDER);
  __m512 rounded, n, r, p;
  __m512i exponent;

  x = _mm512_max_ps (_mm512_set1_ps (LLK_EXP_MIN), x);
  x = _mm512_min_ps (_mm512_set1_ps (LLK_EXP_MAX), x);
  rounded = _mm512_fmadd_ps (x, _mm512_set1_ps (LLK_LOG2_E), rounder);
  n = _mm512_sub_ps (rounded, rounder);
  r = _mm512_fnmadd_ps (n, _mm512_set1_ps (LLK_LN2_HIGH), x);
  r = _mm512_fnmadd_ps (n, _mm512_set1_ps (LLK_LN2_LOW), r);
  p = _mm512_set1_ps (1.0f / 5040);
  p = _mm512_fmadd_ps (p, r, _mm512_set1_ps (1.0f / 720));
  p = _mm512_fmadd_ps (p, r, _mm512_set1_ps (1.0f / 120));
  p = _mm512_fmadd_ps (p, r, _mm512_set1_ps (1.0f / 24));
  p = _mm512_fmadd_ps (p, r, _mm512_set1_ps (1.0f / 6));
  p = _mm512_fmadd_ps (p, r, _mm512_set1_ps (0.5f));
  p = _mm512_fmadd_ps (p, r, _mm512_set1_ps (1.0f));
  p = _mm512_fmadd_ps (p, r, _mm512_set1_ps (1.0f));
  exponent = _mm512_sub_epi32 (_mm512_castps_si512 (rounded), _mm512_castps_si512 (rounder));
  exponent = _mm512_slli_epi32 (_mm512_add_epi32 (exponent, _mm512_set1_epi32 (127)), 23);
  return _mm512_mul_ps (p, _mm512_castsi512_ps (exponent));
}
