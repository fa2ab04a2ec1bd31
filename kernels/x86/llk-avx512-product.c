/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Products with AVX-512, and the rows they read. */

#include "kernels/x86/llk-avx512-lanes.h"
#include "kernels/x86/llk-x86-product-table.h"

/* Below this a block counts as zero. */
#define MIN_MAGNITUDE 1e-30f
#define BLOCK 32

/* Up to 32 values as integers. */
INLINE void
quantize (const float *x,
          size_t       n,
          int8_t      *q,
          float       *scale,
          int32_t     *sum,
          int32_t     *first_sum)
{
  const __mmask16 low_lanes = first_lanes (n < 16 ? n : 16);
  const __mmask16 high_lanes = first_lanes (n < 16 ? 0 : n - 16);
  __m512 low = _mm512_maskz_loadu_ps (low_lanes, x);
  __m512 high = _mm512_maskz_loadu_ps (high_lanes, x + 16);
  __m512i magnitudes = _mm512_max_epu32 (_mm512_castps_si512 (_mm512_abs_ps (low)),
                                         _mm512_castps_si512 (_mm512_abs_ps (high)));
  uint32_t bits = _mm512_reduce_max_epu32 (magnitudes);
  float magnitude = llk_float_of_bits (bits);
  __m512 inverse;
  __m256i bytes;
  __m256i sums; /* of eight bytes with 128 added */

  if (bits >= 0x7f800000 || magnitude < MIN_MAGNITUDE)
    {
      memset (q, 0, BLOCK);
      *scale = bits >= 0x7f800000 ? llk_float_of_bits (0x7fc00000) : 0;
      *sum = *first_sum = 0;
      return;
    }

  inverse = _mm512_set1_ps (127 / magnitude);
  bytes = _mm256_set_m128i (
    _mm512_cvtepi32_epi8 (_mm512_cvtps_epi32 (_mm512_mul_ps (high, inverse))),
    _mm512_cvtepi32_epi8 (_mm512_cvtps_epi32 (_mm512_mul_ps (low, inverse))));
  _mm256_store_si256 ((__m256i *) (void *) q, bytes);

  sums = _mm256_sad_epu8 (_mm256_xor_si256 (bytes, _mm256_set1_epi8 (-128)),
                          _mm256_setzero_si256 ());
  sums = _mm256_add_epi64 (sums, _mm256_srli_si256 (sums, 8));
  *scale = magnitude / 127;
  *first_sum = (int32_t) _mm256_extract_epi64 (sums, 0) - 16 * 128;
  *sum = *first_sum + (int32_t) _mm256_extract_epi64 (sums, 2) - 16 * 128;
}

static void
prepare_q8 (const float *x,
            size_t       n,
            uint8_t     *row)
{
  int8_t *q = (int8_t *) row;
  const size_t scales = llk_activation_scales (LLK_ACTIVATION_Q8, n);
  const size_t sums = llk_activation_sums (LLK_ACTIVATION_Q8, n);
  const size_t half_sums = llk_activation_half_sums (LLK_ACTIVATION_Q8, n);
  const size_t n_blocks = (n + BLOCK - 1) / BLOCK;
  float *scale = (float *) (void *) (row + scales);
  int32_t *sum = (int32_t *) (void *) (row + sums);
  int32_t *half_sum = (int32_t *) (void *) (row + half_sums);

  memset (q + n_blocks * BLOCK, 0, scales - n_blocks * BLOCK);
  for (size_t offset = scales; offset < llk_activation_bytes (LLK_ACTIVATION_Q8, n);
       offset += sums - scales)
    memset (row + offset + n_blocks * sizeof (float), 0,
            sums - scales - n_blocks * sizeof (float));
  for (size_t b = 0; b < n_blocks; b++)
    {
      const size_t left = n - b * BLOCK;

      quantize (x + b * BLOCK, left < BLOCK ? left : BLOCK, q + b * BLOCK, scale + b, sum + b,
                half_sum + b);
    }
}

static void
prepare (LlkActivation form,
         const float  *x,
         size_t        n,
         void         *row)
{
  if (form == LLK_ACTIVATION_Q8)
    prepare_q8 (x, n, row);
  else
    llk_portable_product.prepare (form, x, n, row);
}

const LlkProductOps llk_avx512_product = {
  .prepare = prepare,
  .find = find_product,
};
