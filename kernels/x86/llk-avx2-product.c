/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Products with AVX2, with or without AVX-VNNI, and the rows they read. */

#include "kernels/x86/llk-avx2-lanes.h"
#include "kernels/llk-panel-product-table.h"

#include <math.h>

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

INLINE __m256
get_magnitude (__m256 v)
{
  return _mm256_andnot_ps (_mm256_set1_ps (-0.0f), v);
}

/* Eight values from @i on, zeros behind the last. */
INLINE __m256
load_values (const float *x,
             size_t       n,
             size_t       i)
{
  const __m256i places = _mm256_setr_epi32 (0, 1, 2, 3, 4, 5, 6, 7);
  const int left = i + 8 <= n ? 8 : i < n ? (int) (n - i) : 0;

  return _mm256_maskload_ps (x + i, _mm256_cmpgt_epi32 (_mm256_set1_epi32 (left), places));
}

/* The bits of the largest magnitude; as integers, so that NaN counts as the largest. */
static uint32_t
find_largest (const float *x)
{
  __m256i magnitudes = _mm256_setzero_si256 ();
  __m128i half;

  for (size_t i = 0; i < LLK_RUN; i += 8)
    magnitudes = _mm256_max_epu32 (
      magnitudes, _mm256_castps_si256 (get_magnitude (_mm256_loadu_ps (x + i))));
  half = _mm_max_epu32 (_mm256_castsi256_si128 (magnitudes),
                        _mm256_extracti128_si256 (magnitudes, 1));
  half = _mm_max_epu32 (half, _mm_shuffle_epi32 (half, 0x4e));
  half = _mm_max_epu32 (half, _mm_shuffle_epi32 (half, 0xb1));
  return (uint32_t) _mm_cvtsi128_si32 (half);
}

/* The sum of the squares of values that are not beyond @limit. */
INLINE float
sum_squares (const float *x,
             size_t       n,
             float        limit)
{
  const __m256 limits = _mm256_set1_ps (limit);
  __m256 sums[8];

  for (size_t j = 0; j < 8; j++)
    sums[j] = _mm256_setzero_ps ();
  for (size_t i = 0; i < n; i += 64)
#pragma GCC unroll 8
    for (size_t j = 0; j < 8; j++)
      {
        const __m256 v = load_values (x, n, i + 8 * j);
        const __m256 is_other = _mm256_cmp_ps (get_magnitude (v), limits, _CMP_LE_OQ);
        const __m256 other = _mm256_and_ps (v, is_other);

        sums[j] = _mm256_fmadd_ps (other, other, sums[j]);
      }
  for (size_t half = 4; half > 0; half /= 2)
    for (size_t j = 0; j < half; j++)
      sums[j] = _mm256_add_ps (sums[j], sums[j + half]);
  return sum_vector (sums[0]);
}

static float
find_limit (const float *x,
            size_t       n)
{
  float limit = INFINITY;

  for (unsigned pass = 0; pass < LLK_OUTLIER_PASSES; pass++)
    if (!llk_activation_lower_limit (&limit, sum_squares (x, n, limit), n))
      break;
  return limit;
}

static bool
has_outliers (const float *x,
              float        limit)
{
  const __m256 limits = _mm256_set1_ps (limit);
  __m256 found = _mm256_setzero_ps ();

  for (size_t i = 0; i < LLK_RUN; i += 8)
    found = _mm256_or_ps (
      found, _mm256_cmp_ps (get_magnitude (_mm256_loadu_ps (x + i)), limits, _CMP_GT_OQ));
  return _mm256_movemask_ps (found) != 0;
}

static void
quantize (const float      *x,
          float             limit,
          LlkActivationRun *run,
          LlkOutlier       *outliers)
{
  uint32_t bits = find_largest (x);
  float magnitude;
  float rest[LLK_RUN];
  __m256 inverse;

  memset (run, 0, sizeof *run);
  if (bits >= 0x7f800000)
    {
      run->scale = llk_float_of_bits (0x7fc00000);
      return;
    }
  if (has_outliers (x, limit))
    {
      llk_activation_put_outliers (x, limit, rest, run, outliers);
      x = rest;
      bits = find_largest (x);
    }
  magnitude = llk_float_of_bits (bits);
  if (magnitude < LLK_MIN_MAGNITUDE)
    return;

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
      const size_t place = llk_activation_find_sum (2 * b);

      _mm256_store_si256 ((__m256i *) (void *) (run->q + 32 * b), q);
      run->sums[place] = (int16_t) first;
      run->sums[place + 2] = (int16_t) second;
      run->long_sums[llk_activation_find_sum (b)] = (int16_t) (first + second);
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
  LlkOutlier *outliers;
  float limit;

  if (form != LLK_ACTIVATION_Q8)
    {
      llk_portable_product.prepare (form, x, n, n_in, row);
      return;
    }
  limit = find_limit (x, n);
  outliers = (LlkOutlier *) llk_activation_get_outliers (row, n_in);
  for (size_t i = 0; i < n_in; outliers += runs[i / LLK_RUN].n_outliers, i += LLK_RUN)
    {
      float values[LLK_RUN] = { 0 };
      const size_t left = n < i ? 0 : n - i;

      if (left < LLK_RUN)
        memcpy (values, x + i, left * sizeof *x);
      quantize (left < LLK_RUN ? values : x + i, limit, runs + i / LLK_RUN, outliers);
    }
  llk_activation_finish_row (row, n_in);
}

#ifdef __AVXVNNI__
const LlkProductOps llk_avxvnni_product = {
#else
const LlkProductOps llk_avx2_product = {
#endif
  .prepare = prepare,
  .find = find_product,
};
