/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Products with AVX-512, and the rows they read. */

#include "kernels/x86/llk-avx512-lanes.h"
#include "kernels/llk-panel-product-table.h"

#include <math.h>
#include <stddef.h>

/* Sixteen values from @i on, zeros behind the last. */
INLINE __m512
load_values (const float *x,
             size_t       n,
             size_t       i)
{
  return _mm512_maskz_loadu_ps (first_lanes (i + 16 <= n ? 16 : i < n ? n - i : 0), x + i);
}

#define N_PARTS_OF_RUN (LLK_RUN / 16)

/* The bits of the largest magnitude of what @left has; as integers, so that NaN counts as the
 * largest. */
INLINE uint32_t
find_largest (const __m512    values[N_PARTS_OF_RUN],
              const __mmask16 left[N_PARTS_OF_RUN])
{
  __m512i magnitudes[2] = { _mm512_setzero_si512 (), _mm512_setzero_si512 () };

#pragma GCC unroll 16
  for (size_t i = 0; i < N_PARTS_OF_RUN; i++)
    magnitudes[i % 2] =
      _mm512_mask_max_epu32 (magnitudes[i % 2], left[i], magnitudes[i % 2],
                             _mm512_castps_si512 (_mm512_abs_ps (values[i])));
  return _mm512_reduce_max_epu32 (_mm512_max_epu32 (magnitudes[0], magnitudes[1]));
}

/* What @left lacks to @outliers, as many values as there is room for; the others are left again. */
static void
put_outliers (const float      *x,
              size_t            n,
              __mmask16         left[N_PARTS_OF_RUN],
              LlkActivationRun *run,
              LlkOutlier       *outliers)
{
  for (size_t i = 0; i < n; i += 16)
    {
      const unsigned all = first_lanes (n - i < 16 ? n - i : 16);

      for (unsigned found = all & ~(unsigned) left[i / 16]; found != 0; found &= found - 1)
        {
          const unsigned lane = (unsigned) __builtin_ctz (found);

          if (run->n_outliers == LLK_MAX_OUTLIERS)
            {
              left[i / 16] |= (__mmask16) (1u << lane);
              continue;
            }
          outliers[run->n_outliers++] = (LlkOutlier) { x[i + lane], (uint32_t) (i + lane) };
        }
    }
}

/* The sum of the squares that are not beyond @limit, and the largest magnitude of all. */
INLINE float
sum_squares (const float *x,
             size_t       n,
             float        limit,
             float       *largest)
{
  const __m512 limits = _mm512_set1_ps (limit);
  __m512 sums[4], magnitudes = _mm512_setzero_ps ();

#pragma GCC unroll 4
  for (size_t j = 0; j < 4; j++)
    sums[j] = _mm512_setzero_ps ();
  for (size_t i = 0; i < n; i += 64)
#pragma GCC unroll 4
    for (size_t j = 0; j < 4; j++)
      {
        const __m512 v = load_values (x, n, i + 16 * j);
        const __m512 magnitude = _mm512_abs_ps (v);
        const __mmask16 is_other = _mm512_cmp_ps_mask (magnitude, limits, _CMP_LE_OQ);

        magnitudes = _mm512_max_ps (magnitude, magnitudes);
        sums[j] = _mm512_mask3_fmadd_ps (v, v, sums[j], is_other);
      }
  *largest = _mm512_reduce_max_ps (magnitudes);
  return sum_vector (
    _mm512_add_ps (_mm512_add_ps (sums[0], sums[2]), _mm512_add_ps (sums[1], sums[3])));
}

static float
find_limit (const float *x,
            size_t       n)
{
  float limit = INFINITY;

  for (unsigned pass = 0; pass < LLK_OUTLIER_PASSES; pass++)
    {
      float largest;
      const float sum = sum_squares (x, n, limit, &largest);

      /* where none is beyond it, the next sum would be the same */
      if (!llk_activation_lower_limit (&limit, sum, n) || largest <= limit)
        break;
    }
  return limit;
}

static void
quantize (const float      *x,
          size_t            n,
          float             limit,
          LlkActivationRun *run,
          LlkOutlier       *outliers)
{
  /* Sums of sixteen bytes that have 128 added, two sums of eight each. */
  const __m128i moved = _mm_set1_epi8 (-128);
  const __m512 limits = _mm512_set1_ps (limit);
  __m512 values[N_PARTS_OF_RUN], inverses;
  __mmask16 left[N_PARTS_OF_RUN];
  unsigned found = 0;
  float largest;
  uint32_t bits;

#pragma GCC unroll 16
  for (size_t i = 0; i < N_PARTS_OF_RUN; i++)
    {
      values[i] = load_values (x, n, 16 * i);
      left[i] = _mm512_cmp_ps_mask (_mm512_abs_ps (values[i]), limits, _CMP_NGT_UQ);
      found |= (unsigned) left[i] ^ 0xffff;
    }
  memset (&run->scale, 0, sizeof *run - offsetof (LlkActivationRun, scale));
  bits = find_largest (values, left);
  if (found != 0 && bits < 0x7f800000)
    {
      put_outliers (x, n, left, run, outliers);
      bits = find_largest (values, left);
    }
  largest = llk_float_of_bits (bits);
  if (bits >= 0x7f800000)
    run->scale = llk_float_of_bits (0x7fc00000);
  if (bits >= 0x7f800000 || largest < LLK_MIN_MAGNITUDE)
    {
      memset (run->q, 0, offsetof (LlkActivationRun, scale));
      return;
    }

  run->scale = largest / 127;
  inverses = _mm512_set1_ps (127 / largest);
#pragma GCC unroll 16
  for (size_t b = 0; b < N_PARTS_OF_RUN; b++)
    {
      const size_t place = llk_activation_find_sum (b);
      const __m128i q = _mm512_cvtepi32_epi8 (
        _mm512_cvtps_epi32 (_mm512_maskz_mul_ps (left[b], values[b], inverses)));
      const __m128i sums = _mm_sad_epu8 (_mm_xor_si128 (q, moved), _mm_setzero_si128 ());

      _mm_store_si128 ((__m128i *) (void *) (run->q + 16 * b), q);
      run->sums[place] =
        (int16_t) (_mm_cvtsi128_si32 (sums) + _mm_extract_epi16 (sums, 4) - 16 * 128);
      run->sum += run->sums[place];
    }
  for (size_t b = 0; b < 8; b++)
    {
      const size_t first = llk_activation_find_sum (2 * b);

      run->long_sums[llk_activation_find_sum (b)] =
        (int16_t) (run->sums[first] + run->sums[first + 2]);
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
    quantize (x + i, n < i ? 0 : n - i < LLK_RUN ? n - i : LLK_RUN, limit, runs + i / LLK_RUN,
              outliers);
  llk_activation_finish_row (row, n_in);
}

const TypeOps *
llk_avx512_find_ops (LlkType type)
{
  static const TypeOps *const ops[LLK_TYPE_LIMIT] = {
    [LLK_Q8_0] = &ops_q8_0,
    [LLK_Q4_0] = &ops_q4_0,
    [LLK_Q4_1] = &ops_q4_1,
    [LLK_Q5_0] = &ops_q5_0,
    [LLK_Q5_1] = &ops_q5_1,
    [LLK_Q2_K] = &ops_q2_k,
    [LLK_Q3_K] = &ops_q3_k,
    [LLK_Q1_0] = &ops_q3_k,
    [LLK_Q4_K] = &ops_q4_k,
    [LLK_Q5_K] = &ops_q5_k,
    [LLK_Q6_K] = &ops_q6_k,
    [LLK_IQ4_NL] = &ops_iq4_nl,
    [LLK_IQ4_XS] = &ops_iq4_xs,
    [LLK_MXFP4] = &ops_mxfp4,
    [LLK_IQ3_XXS] = &ops_iq3_xxs,
    [LLK_IQ3_S] = &ops_iq3_s,
    [LLK_IQ2_XXS] = &ops_iq2,
    [LLK_IQ2_XS] = &ops_iq2,
    [LLK_IQ2_S] = &ops_iq2,
  };

  return ops[type];
}

const LlkProductOps llk_avx512_product = {
  .prepare = prepare,
  .find = find_product,
};
