/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Rows of integers for products with NEON; other forms as the portable set makes them. */

#include "kernels/arm/llk-neon.h"

/* Below this a block counts as zero. */
#define MIN_MAGNITUDE 1e-30f
#define BLOCK 32

/* 32 values as integers. */
INLINE void
quantize (const float *x,
          int8_t      *q,
          float       *scale,
          int32_t     *sum,
          int32_t     *first_sum)
{
  const uint32x4_t magnitude_bits = vdupq_n_u32 (0x7fffffff);
  uint32x4_t magnitudes = vdupq_n_u32 (0);
  uint32_t bits;
  float magnitude, inverse;

  for (size_t i = 0; i < BLOCK; i += 4)
    magnitudes = vmaxq_u32 (magnitudes, vandq_u32 (vreinterpretq_u32_f32 (vld1q_f32 (x + i)),
                                                   magnitude_bits));
  bits = vmaxvq_u32 (magnitudes);
  magnitude = llk_float_of_bits (bits);

  if (bits >= 0x7f800000 || magnitude < MIN_MAGNITUDE)
    {
      memset (q, 0, BLOCK);
      *scale = bits >= 0x7f800000 ? llk_float_of_bits (0x7fc00000) : 0;
      *sum = *first_sum = 0;
      return;
    }

  inverse = 127 / magnitude;
  *scale = magnitude / 127;
  *sum = 0;
  for (size_t half = 0; half < 2; half++)
    {
      int16x8_t shorts[2];
      int8x16_t bytes;

      for (size_t i = 0; i < 2; i++)
        {
          const float *src = x + 16 * half + 8 * i;
          int32x4_t low = vcvtnq_s32_f32 (vmulq_n_f32 (vld1q_f32 (src), inverse));
          int32x4_t high = vcvtnq_s32_f32 (vmulq_n_f32 (vld1q_f32 (src + 4), inverse));

          shorts[i] = vcombine_s16 (vmovn_s32 (low), vmovn_s32 (high));
        }
      bytes = vcombine_s8 (vmovn_s16 (shorts[0]), vmovn_s16 (shorts[1]));
      vst1q_s8 (q + 16 * half, bytes);
      *sum += vaddlvq_s8 (bytes);
      if (half == 0)
        *first_sum = *sum;
    }
}

static void
prepare_integers (const float *x,
                  size_t       n,
                  uint8_t     *row)
{
  int8_t *q = (int8_t *) row;
  const size_t scales = llk_activation_scales (LLK_ACTIVATION_Q8, n);
  const size_t sums = llk_activation_sums (LLK_ACTIVATION_Q8, n);
  const size_t half_sums = llk_activation_half_sums (LLK_ACTIVATION_Q8, n);
  const size_t bytes = llk_activation_bytes (LLK_ACTIVATION_Q8, n);
  const size_t n_blocks = (n + BLOCK - 1) / BLOCK;
  float *scale = (float *) (void *) (row + scales);
  int32_t *sum = (int32_t *) (void *) (row + sums);
  int32_t *half_sum = (int32_t *) (void *) (row + half_sums);

  memset (q + n_blocks * BLOCK, 0, scales - n_blocks * BLOCK);
  memset (scale + n_blocks, 0, sums - scales - n_blocks * sizeof *scale);
  memset (sum + n_blocks, 0, half_sums - sums - n_blocks * sizeof *sum);
  memset (half_sum + n_blocks, 0, bytes - half_sums - n_blocks * sizeof *half_sum);
  for (size_t b = 0; b < n_blocks; b++)
    {
      const size_t left = n - b * BLOCK;
      const float *src = x + b * BLOCK;
      float last[BLOCK] = { 0 };

      if (left < BLOCK)
        {
          memcpy (last, src, left * sizeof *x);
          src = last;
        }
      quantize (src, q + b * BLOCK, scale + b, sum + b, half_sum + b);
    }
}

void
llk_neon_prepare (LlkActivation form,
                  const float  *x,
                  size_t        n,
                  void         *row)
{
  if (form == LLK_ACTIVATION_Q8)
    prepare_integers (x, n, row);
  else
    llk_portable_product.prepare (form, x, n, row);
}
