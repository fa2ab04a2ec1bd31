/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Products with AVX2, with or without AVX-VNNI, and the rows they read. */

#include "kernels/x86/llk-avx2-lanes.h"
#include "kernels/llk-panel-product-table.h"

/* Below this a run counts as zero. */
#define MIN_MAGNITUDE 1e-30f

/* Thirty-two values as integers. */
INLINE __m256i
round_values (const float *x,
              __m256       inverse)
{
  const __m256i order = _mm256_setr_epi32 (0, 4, 1, 5, 2, 6, 3, 7);
  __m256i parts[4];

  for (size_t i = 0; i < 4; i++)
    parts[i] = _mm256_cvtps_epi32 (_mm256_mul_ps (_mm256_loadu_ps (x + 8 * i), inverse));
  return _mm256_permutevar8x32_epi32 (
    _mm256_packs_epi16 (_mm256_packs_epi32 (parts[0], parts[1]),
                        _mm256_packs_epi32 (parts[2], parts[3])),
    order);
}

static void
quantize (const float      *x,
          LlkActivationRun *run)
{
  const __m256 sign = _mm256_set1_ps (-0.0f);
  __m256i magnitudes = _mm256_setzero_si256 ();
  __m128i half;
  __m256 inverse;
  float magnitude;
  uint32_t bits;

  memset (run, 0, sizeof *run);
  for (size_t i = 0; i < LLK_RUN; i += 8)
    magnitudes = _mm256_max_epu32 (
      magnitudes, _mm256_castps_si256 (_mm256_andnot_ps (sign, _mm256_loadu_ps (x + i))));
  half = _mm_max_epu32 (_mm256_castsi256_si128 (magnitudes),
                        _mm256_extracti128_si256 (magnitudes, 1));
  half = _mm_max_epu32 (half, _mm_shuffle_epi32 (half, 0x4e));
  half = _mm_max_epu32 (half, _mm_shuffle_epi32 (half, 0xb1));
  bits = (uint32_t) _mm_cvtsi128_si32 (half);
  magnitude = llk_float_of_bits (bits);
  if (bits >= 0x7f800000 || magnitude < MIN_MAGNITUDE)
    {
      run->scale = bits >= 0x7f800000 ? llk_float_of_bits (0x7fc00000) : 0;
      return;
    }

  inverse = _mm256_set1_ps (127 / magnitude);
  run->scale = magnitude / 127;
  for (size_t b = 0; b < 8; b++)
    {
      const __m256i q = round_values (x + 32 * b, inverse);
      /* Sums of eight bytes each, which have 128 added. */
      const __m256i sums = _mm256_sad_epu8 (_mm256_xor_si256 (q, _mm256_set1_epi8 (-128)),
                                            _mm256_setzero_si256 ());
      const __m256i pairs = _mm256_add_epi64 (sums, _mm256_srli_si256 (sums, 8));
      const int first = (int) _mm256_extract_epi64 (pairs, 0) - 16 * 128;
      const int second = (int) _mm256_extract_epi64 (pairs, 2) - 16 * 128;
      const size_t place = 2 * b / 4 * 4 + 2 * b % 4 / 2;

      _mm256_store_si256 ((__m256i *) (void *) (run->q + 32 * b), q);
      run->sums[place] = (int16_t) first;
      run->sums[place + 2] = (int16_t) second;
      run->long_sums[b / 4 * 4 + b % 2 * 2 + b % 4 / 2] = (int16_t) (first + second);
      run->sum += first + second;
    }
}

static void
prepare (LlkActivation form,
         const float  *x,
         size_t        n,
         size_t        n_in,
         void         *row)
{
  LlkActivationRun *runs = row;

  if (form != LLK_ACTIVATION_Q8)
    {
      llk_portable_product.prepare (form, x, n, n_in, row);
      return;
    }
  for (size_t i = 0; i < n_in; i += LLK_RUN)
    {
      float values[LLK_RUN] = { 0 };
      const size_t left = n < i ? 0 : n - i;

      if (left < LLK_RUN)
        memcpy (values, x + i, left * sizeof *x);
      quantize (left < LLK_RUN ? values : x + i, runs + i / LLK_RUN);
    }
}

#ifdef __AVXVNNI__
const LlkProductOps llk_avxvnni_product = {
#else
const LlkProductOps llk_avx2_product = {
#endif
  .prepare = prepare,
  .find = find_product,
};
