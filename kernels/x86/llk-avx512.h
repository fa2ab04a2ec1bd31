/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the files for AVX-512 (F, BW, DQ, VL, VBMI, VNNI) share. */

#pragma once

#include "kernels/llk-kv-layout.h"

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

/* Sixteen signed bytes. */
INLINE __m512
load_bytes (const uint8_t *src)
{
  return _mm512_cvtepi32_ps (_mm512_cvtepi8_epi32 (_mm_loadu_si128 ((const void *) src)));
}

/* How far the code of each lane lies from the lowest bit of its word. */
INLINE __m512i
get_code_shifts (unsigned bits)
{
  return bits == 4
           ? _mm512_setr_epi32 (0, 0, 4, 4, 8, 8, 12, 12, 16, 16, 20, 20, 24, 24, 28, 28)
           : _mm512_setr_epi32 (0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
}

/* Sixteen codes of 4, 3 or 2 bits: their floats come from a table of sixteen, for which only the
 * lowest bits count. */
INLINE __m512
load_codes (const uint8_t *src,
            unsigned       bits,
            size_t         shift)
{
  const __m512 values_4 = _mm512_setr_ps (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512 values_2 = _mm512_setr_ps (0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3);
  const __m512i shifts = get_code_shifts (bits);
  __mmask16 highest;
  __m512 values;
  int64_t words;
  int32_t word;

  (void) shift; /* a vector has all sixteen */
  if (bits == 4)
    {
      memcpy (&words, src, sizeof words);
      return _mm512_permutexvar_ps (_mm512_srlv_epi32 (_mm512_set1_epi64 (words), shifts),
                                    values_4);
    }
  memcpy (&word, src, sizeof word);
  values = _mm512_permutexvar_ps (_mm512_srlv_epi32 (_mm512_set1_epi32 (word), shifts), values_2);
  if (bits == 2)
    return values;
  memcpy (&highest, src + sizeof word, sizeof highest);
  return _mm512_mask_add_ps (values, highest, values, _mm512_set1_ps (4));
}

/* Of sixteen groups half a byte each. */
INLINE __m512i
load_halves_of_bytes (const uint8_t *src)
{
  __m128i bytes = _mm_loadl_epi64 ((const void *) src);

  bytes = _mm_unpacklo_epi64 (bytes, _mm_srli_epi16 (bytes, 4));
  return _mm512_cvtepu8_epi32 (_mm_and_si128 (bytes, _mm_set1_epi8 (15)));
}

INLINE __m512
load_nibbles (const uint8_t *src,
              size_t         at)
{
  (void) at; /* a vector has all sixteen */
  return _mm512_cvtepi32_ps (load_halves_of_bytes (src));
}

/* @base: the largest of the part. */
INLINE __m512
load_steps (const uint8_t *src,
            size_t         at,
            uint8_t        base)
{
  __m512i places = load_halves_of_bytes (src), twice = _mm512_slli_epi32 (places, 1);
  __m512i far = _mm512_sub_epi32 (_mm512_add_epi32 (_mm512_slli_epi32 (places, 2), twice),
                                  _mm512_set1_epi32 (32));
  __m512i codes = _mm512_sub_epi32 (_mm512_set1_epi32 (base + LLK_KV_LEAST_STEP),
                                    _mm512_max_epi32 (twice, far));

  (void) at;
  return _mm512_castsi512_ps (_mm512_slli_epi32 (codes, 20));
}
