/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the files for AVX2, FMA and F16C share. */

#pragma once

#include "kernels/llk-kv-layout.h"

#include <immintrin.h>

#define INLINE static inline __attribute__ ((always_inline))

INLINE float
sum_vector (__m256 v)
{
  __m128 x = _mm_add_ps (_mm256_castps256_ps128 (v), _mm256_extractf128_ps (v, 1));

  x = _mm_add_ps (x, _mm_movehl_ps (x, x));
  x = _mm_add_ss (x, _mm_movehdup_ps (x));
  return _mm_cvtss_f32 (x);
}

/* Sums each of eight vectors: lane j of the result is the sum of v[j]. */
INLINE __m256
sum_vectors (const __m256 v[8])
{
  __m256 a = _mm256_hadd_ps (_mm256_hadd_ps (v[0], v[1]), _mm256_hadd_ps (v[2], v[3]));
  __m256 b = _mm256_hadd_ps (_mm256_hadd_ps (v[4], v[5]), _mm256_hadd_ps (v[6], v[7]));

  return _mm256_add_ps (_mm256_permute2f128_ps (a, b, 0x20),
                        _mm256_permute2f128_ps (a, b, 0x31));
}

/* llk_exp() of eight values; the order of operands lets NaN through. */
INLINE __m256
exp_vector (__m256 x)
{
  const __m256 rounder = _mm256_set1_ps (LLK_ROUNDER);
  __m256 rounded, n, r, p;
  __m256i exponent;

  x = _mm256_max_ps (_mm256_set1_ps (LLK_EXP_MIN), x);
  x = _mm256_min_ps (_mm256_set1_ps (LLK_EXP_MAX), x);
  rounded = _mm256_fmadd_ps (x, _mm256_set1_ps (LLK_LOG2_E), rounder);
  n = _mm256_sub_ps (rounded, rounder);
  r = _mm256_fnmadd_ps (n, _mm256_set1_ps (LLK_LN2_HIGH), x);
  r = _mm256_fnmadd_ps (n, _mm256_set1_ps (LLK_LN2_LOW), r);
  p = _mm256_set1_ps (1.0f / 5040);
  p = _mm256_fmadd_ps (p, r, _mm256_set1_ps (1.0f / 720));
  p = _mm256_fmadd_ps (p, r, _mm256_set1_ps (1.0f / 120));
  p = _mm256_fmadd_ps (p, r, _mm256_set1_ps (1.0f / 24));
  p = _mm256_fmadd_ps (p, r, _mm256_set1_ps (1.0f / 6));
  p = _mm256_fmadd_ps (p, r, _mm256_set1_ps (0.5f));
  p = _mm256_fmadd_ps (p, r, _mm256_set1_ps (1.0f));
  p = _mm256_fmadd_ps (p, r, _mm256_set1_ps (1.0f));
  exponent = _mm256_sub_epi32 (_mm256_castps_si256 (rounded), _mm256_castps_si256 (rounder));
  exponent = _mm256_slli_epi32 (_mm256_add_epi32 (exponent, _mm256_set1_epi32 (127)), 23);
  return _mm256_mul_ps (p, _mm256_castsi256_ps (exponent));
}

INLINE __m256
load_halves (const void *src)
{
  return _mm256_cvtph_ps (_mm_loadu_si128 (src));
}

/* How far the code of each lane lies from the lowest bit of its word; of the second eight it is
 * 16 more. */
INLINE __m256i
get_code_shifts (unsigned bits)
{
  return bits == 4 ? _mm256_setr_epi32 (0, 0, 4, 4, 8, 8, 12, 12)
                   : _mm256_setr_epi32 (0, 2, 4, 6, 8, 10, 12, 14);
}

/* Eight signed bytes. */
INLINE __m256
load_bytes (const uint8_t *src)
{
  return _mm256_cvtepi32_ps (_mm256_cvtepi8_epi32 (_mm_loadl_epi64 ((const void *) src)));
}

/* Eight of sixteen codes of 4, 3 or 2 bits, @shift 0 or 16 bits higher in their words. */
INLINE __m256
load_codes (const uint8_t *src,
            unsigned       bits,
            size_t         shift)
{
  __m256i shifts = _mm256_add_epi32 (get_code_shifts (bits), _mm256_set1_epi32 ((int) shift));
  __m256i codes;
  uint16_t highest;
  int64_t words;
  int32_t word;

  if (bits == 4)
    {
      memcpy (&words, src, sizeof words);
      codes = _mm256_srlv_epi32 (_mm256_set1_epi64x (words), shifts);
      return _mm256_cvtepi32_ps (_mm256_and_si256 (codes, _mm256_set1_epi32 (15)));
    }
  memcpy (&word, src, sizeof word);
  codes = _mm256_srlv_epi32 (_mm256_set1_epi32 (word), shifts);
  codes = _mm256_and_si256 (codes, _mm256_set1_epi32 (3));
  if (bits == 3)
    {
      const __m256i places = _mm256_setr_epi32 (0, 1, 2, 3, 4, 5, 6, 7);
      __m256i tops;

      memcpy (&highest, src + sizeof word, sizeof highest);
      tops = _mm256_srlv_epi32 (_mm256_set1_epi32 ((highest << 2) >> shift / 2), places);
      codes = _mm256_or_si256 (codes, _mm256_and_si256 (tops, _mm256_set1_epi32 (4)));
    }
  return _mm256_cvtepi32_ps (codes);
}

/* Half a byte of eight groups, the first or the second of sixteen. */
INLINE __m256i
load_halves_of_bytes (const uint8_t *src,
                      size_t         at)
{
  __m256i bytes = _mm256_cvtepu8_epi32 (_mm_loadl_epi64 ((const void *) src));

  return _mm256_and_si256 (at == 0 ? bytes : _mm256_srli_epi32 (bytes, 4), _mm256_set1_epi32 (15));
}

INLINE __m256
load_nibbles (const uint8_t *src,
              size_t         at)
{
  return _mm256_cvtepi32_ps (load_halves_of_bytes (src, at));
}

/* @base: the largest of the part. */
INLINE __m256
load_steps (const uint8_t *src,
            size_t         at,
            uint8_t        base)
{
  __m256i places = load_halves_of_bytes (src, at), twice = _mm256_slli_epi32 (places, 1);
  __m256i far = _mm256_sub_epi32 (_mm256_add_epi32 (_mm256_slli_epi32 (places, 2), twice),
                                  _mm256_set1_epi32 (32));
  __m256i codes = _mm256_sub_epi32 (_mm256_set1_epi32 (base + LLK_KV_LEAST_STEP),
                                    _mm256_max_epi32 (twice, far));

  return _mm256_castsi256_ps (_mm256_slli_epi32 (codes, 20));
}
