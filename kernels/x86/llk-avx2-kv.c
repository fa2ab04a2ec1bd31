/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Packed keys and values with AVX2 and F16C. */

#include "kernels/x86/llk-avx2.h"

typedef struct
{
  __m256 low;
  __m256 high;
} Sixteen;

INLINE Sixteen
splat_all (float value)
{
  return (Sixteen) { _mm256_set1_ps (value), _mm256_set1_ps (value) };
}

INLINE Sixteen
load_all (const float *src)
{
  return (Sixteen) { _mm256_loadu_ps (src), _mm256_loadu_ps (src + 8) };
}

INLINE Sixteen
load_all_halves (const void *src)
{
  return (Sixteen) { load_halves (src), load_halves ((const uint16_t *) src + 8) };
}

INLINE void
store_all (float   *dst,
           Sixteen  x)
{
  _mm256_storeu_ps (dst, x.low);
  _mm256_storeu_ps (dst + 8, x.high);
}

INLINE void
store_all_halves (void    *dst,
                  Sixteen  x)
{
  __m128i low = _mm256_cvtps_ph (x.low, _MM_FROUND_TO_NEAREST_INT);
  __m128i high = _mm256_cvtps_ph (x.high, _MM_FROUND_TO_NEAREST_INT);

  _mm_storeu_si128 (dst, low);
  _mm_storeu_si128 ((__m128i *) dst + 1, high);
}

INLINE Sixteen
load_all_codes (const uint8_t *src,
                unsigned       bits)
{
  if (bits == 8)
    return (Sixteen) { load_bytes (src), load_bytes (src + 8) };
  return (Sixteen) { load_codes (src, bits, 0), load_codes (src, bits, 16) };
}

INLINE void
store_codes_8 (uint8_t *dst,
               Sixteen  codes)
{
  __m256i words = _mm256_packs_epi32 (_mm256_cvtps_epi32 (codes.low),
                                      _mm256_cvtps_epi32 (codes.high));
  __m128i lower, upper;

  words = _mm256_permute4x64_epi64 (words, 0xd8);
  lower = _mm256_castsi256_si128 (words);
  upper = _mm256_extracti128_si256 (words, 1);
  _mm_storeu_si128 ((void *) dst, _mm_packs_epi16 (lower, upper));
}

/* Codes at even places in the lower word, and those at odd ones. */
INLINE int64_t
join_codes (Sixteen codes,
            __m256i shifts)
{
  __m256i low = _mm256_sllv_epi32 (_mm256_cvtps_epi32 (codes.low), shifts);
  __m256i high = _mm256_sllv_epi32 (_mm256_cvtps_epi32 (codes.high), shifts);
  __m256i words = _mm256_or_si256 (low, _mm256_slli_epi32 (high, 16));
  __m128i x = _mm_or_si128 (_mm256_castsi256_si128 (words), _mm256_extracti128_si256 (words, 1));

  return _mm_cvtsi128_si64 (_mm_or_si128 (x, _mm_unpackhi_epi64 (x, x)));
}

INLINE void
store_codes_4 (uint8_t *dst,
               Sixteen  codes)
{
  int64_t words = join_codes (codes, get_code_shifts (4));

  memcpy (dst, &words, sizeof words);
}

/* Of each code the bit of value 4. */
INLINE uint16_t
find_highest (Sixteen codes)
{
  __m256i low = _mm256_slli_epi32 (_mm256_cvtps_epi32 (codes.low), 29);
  __m256i high = _mm256_slli_epi32 (_mm256_cvtps_epi32 (codes.high), 29);

  return (uint16_t) (_mm256_movemask_ps (_mm256_castsi256_ps (low))
                     | _mm256_movemask_ps (_mm256_castsi256_ps (high)) << 8);
}

INLINE void
store_codes_3 (uint8_t *dst,
               Sixteen  codes)
{
  const __m256i both = _mm256_set1_epi32 (3);
  Sixteen lower = { _mm256_cvtepi32_ps (_mm256_and_si256 (_mm256_cvtps_epi32 (codes.low), both)),
                    _mm256_cvtepi32_ps (_mm256_and_si256 (_mm256_cvtps_epi32 (codes.high), both)) };
  int64_t words = join_codes (lower, get_code_shifts (2));
  int32_t word = (int32_t) (words | words >> 32);
  uint16_t highest = find_highest (codes);

  memcpy (dst, &word, sizeof word);
  memcpy (dst + sizeof word, &highest, sizeof highest);
}

INLINE void
store_codes_2 (uint8_t *dst,
               Sixteen  codes)
{
  int64_t words = join_codes (codes, get_code_shifts (2));
  int32_t word = (int32_t) (words | words >> 32);

  memcpy (dst, &word, sizeof word);
}

INLINE Sixteen
add_all (Sixteen a,
         Sixteen b)
{
  return (Sixteen) { _mm256_add_ps (a.low, b.low), _mm256_add_ps (a.high, b.high) };
}

INLINE Sixteen
subtract_all (Sixteen a,
              Sixteen b)
{
  return (Sixteen) { _mm256_sub_ps (a.low, b.low), _mm256_sub_ps (a.high, b.high) };
}

INLINE Sixteen
multiply_all (Sixteen a,
              Sixteen b)
{
  return (Sixteen) { _mm256_mul_ps (a.low, b.low), _mm256_mul_ps (a.high, b.high) };
}

INLINE Sixteen
min_all (Sixteen a,
         Sixteen b)
{
  return (Sixteen) { _mm256_min_ps (a.low, b.low), _mm256_min_ps (a.high, b.high) };
}

INLINE Sixteen
max_all (Sixteen a,
         Sixteen b)
{
  return (Sixteen) { _mm256_max_ps (a.low, b.low), _mm256_max_ps (a.high, b.high) };
}

INLINE __m256
clear_some (__m256 x)
{
  __m256 finite = _mm256_cmp_ps (_mm256_sub_ps (x, x), _mm256_setzero_ps (), _CMP_EQ_OQ);

  return _mm256_add_ps (_mm256_and_ps (x, finite), _mm256_setzero_ps ());
}

INLINE Sixteen
clear_infinite (Sixteen x)
{
  return (Sixteen) { clear_some (x.low), clear_some (x.high) };
}

/* Of a square of eight: rows become columns. */
INLINE void
transpose_eight (__m256 square[8])
{
  __m256 pairs[8], fours[8];

#pragma GCC unroll 8
  for (size_t i = 0; i < 8; i += 2)
    {
      pairs[i] = _mm256_unpacklo_ps (square[i], square[i + 1]);
      pairs[i + 1] = _mm256_unpackhi_ps (square[i], square[i + 1]);
    }
#pragma GCC unroll 2
  for (size_t i = 0; i < 8; i += 4)
#pragma GCC unroll 2
    for (size_t j = 0; j < 2; j++)
      {
        fours[i + 2 * j] = _mm256_shuffle_ps (pairs[i + j], pairs[i + 2 + j], 0x44);
        fours[i + 2 * j + 1] = _mm256_shuffle_ps (pairs[i + j], pairs[i + 2 + j], 0xee);
      }
#pragma GCC unroll 4
  for (size_t j = 0; j < 4; j++)
    {
      square[j] = _mm256_permute2f128_ps (fours[j], fours[4 + j], 0x20);
      square[4 + j] = _mm256_permute2f128_ps (fours[j], fours[4 + j], 0x31);
    }
}

/* Of sixteen, by its quarters. */
INLINE void
transpose (Sixteen square[16])
{
  __m256 quarters[4][8];

#pragma GCC unroll 8
  for (size_t i = 0; i < 8; i++)
    {
      quarters[0][i] = square[i].low;
      quarters[1][i] = square[8 + i].low;
      quarters[2][i] = square[i].high;
      quarters[3][i] = square[8 + i].high;
    }
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; i++)
    transpose_eight (quarters[i]);
#pragma GCC unroll 8
  for (size_t i = 0; i < 8; i++)
    {
      square[i] = (Sixteen) { quarters[0][i], quarters[1][i] };
      square[8 + i] = (Sixteen) { quarters[2][i], quarters[3][i] };
    }
}

#include "kernels/llk-kv-passes.h"

const LlkKvOps llk_avx2_kv = { pack, unpack };
