/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Products with AVX2 and FMA, and the rows they read. Compiled twice: with
 * AVX-VNNI as well, which multiplies and adds bytes in one instruction. */

#include "kernels/x86/llk-avx2-lanes.h"
#include "kernels/x86/llk-x86-product-table.h"

/* Below this a block counts as zero. */
#define MIN_MAGNITUDE 1e-30f
#define BLOCK 32

/* Lanes as integers, the largest of which is that of @v. */
INLINE uint32_t
max_lane (__m256i v)
{
  __m128i x = _mm_max_epu32 (_mm256_castsi256_si128 (v), _mm256_extracti128_si256 (v, 1));

  x = _mm_max_epu32 (x, _mm_shuffle_epi32 (x, 0x4e));
  x = _mm_max_epu32 (x, _mm_shuffle_epi32 (x, 0xb1));
  return (uint32_t) _mm_cvtsi128_si32 (x);
}

/* 32 values as integers. */
INLINE void
quantize (const float *x,
          int8_t      *q,
          float       *scale,
          int32_t     *sum,
          int32_t     *first_sum)
{
  const __m256i magnitude_bits = _mm256_set1_epi32 (0x7fffffff);
  /* Where packing, which works by halves, puts each four bytes. */
  const __m256i order = _mm256_setr_epi32 (0, 4, 1, 5, 2, 6, 3, 7);
  __m256i magnitudes = _mm256_setzero_si256 ();
  __m256i v[4];
  __m256i bytes, sums; /* sums of eight bytes with 128 added */
  __m256 inverse;
  uint32_t bits;
  float magnitude;

  for (size_t i = 0; i < 4; i++)
    magnitudes = _mm256_max_epu32 (
      magnitudes,
      _mm256_and_si256 (_mm256_castps_si256 (_mm256_loadu_ps (x + 8 * i)), magnitude_bits));
  bits = max_lane (magnitudes);
  magnitude = llk_float_of_bits (bits);

  if (bits >= 0x7f800000 || magnitude < MIN_MAGNITUDE)
    {
      memset (q, 0, BLOCK);
      *scale = bits >= 0x7f800000 ? llk_float_of_bits (0x7fc00000) : 0;
      *sum = *first_sum = 0;
      return;
    }

  inverse = _mm256_set1_ps (127 / magnitude);
  for (size_t i = 0; i < 4; i++)
    v[i] = _mm256_cvtps_epi32 (_mm256_mul_ps (_mm256_loadu_ps (x + 8 * i), inverse));
  bytes = _mm256_packs_epi16 (_mm256_packs_epi32 (v[0], v[1]), _mm256_packs_epi32 (v[2], v[3]));
  bytes = _mm256_permutevar8x32_epi32 (bytes, order);
  _mm256_store_si256 ((__m256i *) (void *) q, bytes);

  sums = _mm256_sad_epu8 (_mm256_xor_si256 (bytes, _mm256_set1_epi8 (-128)),
                          _mm256_setzero_si256 ());
  sums = _mm256_add_epi64 (sums, _mm256_srli_si256 (sums, 8));
  *scale = magnitude / 127;
  *first_sum = _mm256_extract_epi32 (sums, 0) - 16 * 128;
  *sum = *first_sum + _mm256_extract_epi32 (sums, 4) - 16 * 128;
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

      if (left >= BLOCK)
        quantize (x + b * BLOCK, q + b * BLOCK, scale + b, sum + b, half_sum + b);
      else
        {
          float last[BLOCK] = { 0 };

          memcpy (last, x + b * BLOCK, left * sizeof *x);
          quantize (last, q + b * BLOCK, scale + b, sum + b, half_sum + b);
        }
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

#ifdef __AVXVNNI__
const LlkProductOps llk_avxvnni_product = {
#else
const LlkProductOps llk_avx2_product = {
#endif
  .prepare = prepare,
  .find = find_product,
};
