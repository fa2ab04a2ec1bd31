/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Products with AVX-512, and the rows they read. */

#include "kernels/x86/llk-avx512-lanes.h"
#include "kernels/llk-panel-product-table.h"

/* Below this a run counts as zero. */
#define MIN_MAGNITUDE 1e-30f

/* Sixteen values from @i on, zeros behind the last. */
INLINE __m512
load_values (const float *x,
             size_t       n,
             size_t       i)
{
  return _mm512_maskz_loadu_ps (first_lanes (i + 16 <= n ? 16 : i < n ? n - i : 0), x + i);
}

static void
quantize (const float      *x,
          size_t            n,
          LlkActivationRun *run)
{
  /* Sums of sixteen bytes that have 128 added, two sums of eight each. */
  const __m128i moved = _mm_set1_epi8 (-128);
  __m512i magnitudes = _mm512_setzero_si512 ();
  __m512 inverse;
  float magnitude;
  uint32_t bits;

  for (size_t i = 0; i < n; i += 16)
    magnitudes = _mm512_max_epu32 (
      magnitudes, _mm512_castps_si512 (_mm512_abs_ps (load_values (x, n, i))));
  bits = _mm512_reduce_max_epu32 (magnitudes);
  magnitude = llk_float_of_bits (bits);
  if (n < LLK_RUN || bits >= 0x7f800000 || magnitude < MIN_MAGNITUDE)
    memset (run, 0, sizeof *run);
  if (bits >= 0x7f800000 || magnitude < MIN_MAGNITUDE)
    {
      run->scale = bits >= 0x7f800000 ? llk_float_of_bits (0x7fc00000) : 0;
      return;
    }

  inverse = _mm512_set1_ps (127 / magnitude);
  run->scale = magnitude / 127;
  run->sum = 0;
  memset (run->unused, 0, sizeof run->unused);
  for (size_t i = 0; i < n; i += 16)
    {
      const size_t b = i / 16;
      const size_t place = b / 4 * 4 + b % 2 * 2 + b % 4 / 2;
      const __m128i q = _mm512_cvtepi32_epi8 (
        _mm512_cvtps_epi32 (_mm512_mul_ps (load_values (x, n, i), inverse)));
      const __m128i sums = _mm_sad_epu8 (_mm_xor_si128 (q, moved), _mm_setzero_si128 ());

      _mm_store_si128 ((__m128i *) (void *) (run->q + i), q);
      run->sums[place] =
        (int16_t) (_mm_cvtsi128_si32 (sums) + _mm_extract_epi16 (sums, 4) - 16 * 128);
      run->sum += run->sums[place];
    }
  for (size_t b = 0; b < 8; b++)
    {
      const size_t first = 2 * b / 4 * 4 + 2 * b % 4 / 2;

      run->long_sums[b / 4 * 4 + b % 2 * 2 + b % 4 / 2] =
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

  if (form != LLK_ACTIVATION_Q8)
    llk_portable_product.prepare (form, x, n, n_in, row);
  else
    for (size_t i = 0; i < n_in; i += LLK_RUN)
      quantize (x + i, n < i ? 0 : n - i < LLK_RUN ? n - i : LLK_RUN, runs + i / LLK_RUN);
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
    [LLK_Q4_K] = &ops_q4_k,
    [LLK_Q5_K] = &ops_q5_k,
    [LLK_Q6_K] = &ops_q6_k,
    [LLK_IQ4_NL] = &ops_iq4_nl,
    [LLK_IQ4_XS] = &ops_iq4_xs,
    [LLK_MXFP4] = &ops_mxfp4,
  };

  return ops[type];
}

const LlkProductOps llk_avx512_product = {
  .prepare = prepare,
  .find = find_product,
};
