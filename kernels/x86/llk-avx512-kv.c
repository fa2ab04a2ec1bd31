/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Packed keys and values with AVX-512. */

#include "kernels/x86/llk-avx512.h"

typedef __m512 Sixteen;

INLINE Sixteen
splat_all (float value)
{
  return _mm512_set1_ps (value);
}

INLINE Sixteen
load_all (const float *src)
{
  return _mm512_loadu_ps (src);
}

INLINE Sixteen
load_all_halves (const void *src)
{
  return _mm512_cvtph_ps (_mm256_loadu_si256 (src));
}

INLINE void
store_all (float   *dst,
           Sixteen  x)
{
  _mm512_storeu_ps (dst, x);
}

INLINE void
store_all_halves (void    *dst,
                  Sixteen  x)
{
  _mm256_storeu_si256 (dst, _mm512_cvtps_ph (x, _MM_FROUND_TO_NEAREST_INT));
}

INLINE Sixteen
load_all_codes (const uint8_t *src,
                unsigned       bits)
{
  return bits == 8 ? load_bytes (src) : load_codes (src, bits, 0);
}

INLINE void
store_codes_8 (uint8_t *dst,
               Sixteen  codes)
{
  _mm_storeu_si128 ((void *) dst, _mm512_cvtepi32_epi8 (_mm512_cvtps_epi32 (codes)));
}

/* Words at even places together, and those at odd ones. */
INLINE int64_t
join_words (__m512i words)
{
  __m256i half = _mm256_or_si256 (_mm512_castsi512_si256 (words),
                                  _mm512_extracti64x4_epi64 (words, 1));
  __m128i x = _mm_or_si128 (_mm256_castsi256_si128 (half), _mm256_extracti128_si256 (half, 1));

  return _mm_cvtsi128_si64 (_mm_or_si128 (x, _mm_unpackhi_epi64 (x, x)));
}

INLINE void
store_codes_4 (uint8_t *dst,
               Sixteen  codes)
{
  int64_t words = join_words (_mm512_sllv_epi32 (_mm512_cvtps_epi32 (codes), get_code_shifts (4)));

  memcpy (dst, &words, sizeof words);
}

INLINE void
store_codes_3 (uint8_t *dst,
               Sixteen  codes)
{
  __m512i all = _mm512_cvtps_epi32 (codes), low = _mm512_and_si512 (all, _mm512_set1_epi32 (3));
  __mmask16 highest = _mm512_test_epi32_mask (all, _mm512_set1_epi32 (4));
  int64_t words = join_words (_mm512_sllv_epi32 (low, get_code_shifts (2)));
  int32_t word = (int32_t) (words | words >> 32);

  memcpy (dst, &word, sizeof word);
  memcpy (dst + sizeof word, &highest, sizeof highest);
}

INLINE void
store_codes_2 (uint8_t *dst,
               Sixteen  codes)
{
  int64_t words = join_words (_mm512_sllv_epi32 (_mm512_cvtps_epi32 (codes), get_code_shifts (2)));
  int32_t word = (int32_t) (words | words >> 32);

  memcpy (dst, &word, sizeof word);
}

INLINE Sixteen
add_all (Sixteen a,
         Sixteen b)
{
  return _mm512_add_ps (a, b);
}

INLINE Sixteen
subtract_all (Sixteen a,
              Sixteen b)
{
  return _mm512_sub_ps (a, b);
}

INLINE Sixteen
multiply_all (Sixteen a,
              Sixteen b)
{
  return _mm512_mul_ps (a, b);
}

INLINE Sixteen
min_all (Sixteen a,
         Sixteen b)
{
  return _mm512_min_ps (a, b);
}

INLINE Sixteen
max_all (Sixteen a,
         Sixteen b)
{
  return _mm512_max_ps (a, b);
}

INLINE Sixteen
clear_infinite (Sixteen x)
{
  const int not_finite = 0x99; /* both infinities and NaNs */
  __mmask16 finite = _knot_mask16 (_mm512_fpclass_ps_mask (x, not_finite));

  return _mm512_maskz_add_ps (finite, x, _mm512_setzero_ps ());
}

/* Of a square: rows become columns. First by four within quarters of vectors, then by quarters. */
INLINE void
transpose (Sixteen square[16])
{
  Sixteen pairs[16], fours[16];

#pragma GCC unroll 16
  for (size_t i = 0; i < 16; i += 2)
    {
      pairs[i] = _mm512_unpacklo_ps (square[i], square[i + 1]);
      pairs[i + 1] = _mm512_unpackhi_ps (square[i], square[i + 1]);
    }
  /* fours[4 i + j]: of rows 4 i to 4 i + 3 the columns j, 4 + j, 8 + j, 12 + j. */
#pragma GCC unroll 16
  for (size_t i = 0; i < 16; i += 4)
#pragma GCC unroll 2
    for (size_t j = 0; j < 2; j++)
      {
        __m512d low = _mm512_castps_pd (pairs[i + j]), high = _mm512_castps_pd (pairs[i + 2 + j]);

        fours[i + 2 * j] = _mm512_castpd_ps (_mm512_unpacklo_pd (low, high));
        fours[i + 2 * j + 1] = _mm512_castpd_ps (_mm512_unpackhi_pd (low, high));
      }
#pragma GCC unroll 4
  for (size_t j = 0; j < 4; j++)
    {
      Sixteen a = _mm512_shuffle_f32x4 (fours[j], fours[4 + j], 0x44);
      Sixteen b = _mm512_shuffle_f32x4 (fours[8 + j], fours[12 + j], 0x44);
      Sixteen c = _mm512_shuffle_f32x4 (fours[j], fours[4 + j], 0xee);
      Sixteen d = _mm512_shuffle_f32x4 (fours[8 + j], fours[12 + j], 0xee);

      square[j] = _mm512_shuffle_f32x4 (a, b, 0x88);
      square[4 + j] = _mm512_shuffle_f32x4 (a, b, 0xdd);
      square[8 + j] = _mm512_shuffle_f32x4 (c, d, 0x88);
      square[12 + j] = _mm512_shuffle_f32x4 (c, d, 0xdd);
    }
}

#include "kernels/llk-kv-passes.h"

const LlkKvOps llk_avx512_kv = { pack, unpack };
