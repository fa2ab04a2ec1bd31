/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Rows of integers for products with NEON; other forms as the portable set makes them. */

#include "kernels/arm/llk-neon.h"
#include "kernels/llk-run.h"

/* Below this a run counts as zero. */
#define MIN_MAGNITUDE 1e-30f

/* Sixteen values as integers. */
INLINE int8x16_t
round_values (const float *x,
              float        inverse)
{
  int16x8_t shorts[2];

  for (size_t i = 0; i < 2; i++)
    {
      int32x4_t low = vcvtnq_s32_f32 (vmulq_n_f32 (vld1q_f32 (x + 8 * i), inverse));
      int32x4_t high = vcvtnq_s32_f32 (vmulq_n_f32 (vld1q_f32 (x + 8 * i + 4), inverse));

      shorts[i] = vcombine_s16 (vmovn_s32 (low), vmovn_s32 (high));
    }
  return vcombine_s8 (vmovn_s16 (shorts[0]), vmovn_s16 (shorts[1]));
}

static void
quantize (const float      *x,
          LlkActivationRun *run)
{
  uint32x4_t magnitudes = vdupq_n_u32 (0);
  uint32_t bits;
  float magnitude, inverse;

  memset (run, 0, sizeof *run);
  for (size_t i = 0; i < LLK_RUN; i += 4)
    magnitudes = vmaxq_u32 (magnitudes, vandq_u32 (vreinterpretq_u32_f32 (vld1q_f32 (x + i)),
                                                   vdupq_n_u32 (0x7fffffff)));
  bits = vmaxvq_u32 (magnitudes);
  magnitude = llk_float_of_bits (bits);
  if (bits >= 0x7f800000 || magnitude < MIN_MAGNITUDE)
    {
      run->scale = bits >= 0x7f800000 ? llk_float_of_bits (0x7fc00000) : 0;
      return;
    }

  inverse = 127 / magnitude;
  run->scale = magnitude / 127;
  for (size_t b = 0; b < 8; b++)
    {
      const int8x16_t first = round_values (x + 32 * b, inverse);
      const int8x16_t second = round_values (x + 32 * b + 16, inverse);
      const size_t place = b / 2 * 4 + b % 2;

      vst1q_s8 (run->q + 32 * b, first);
      vst1q_s8 (run->q + 32 * b + 16, second);
      run->sums[place] = vaddlvq_s8 (first);
      run->sums[place + 2] = vaddlvq_s8 (second);
      run->long_sums[b / 4 * 4 + b % 2 * 2 + b % 4 / 2] =
        (int16_t) (run->sums[place] + run->sums[place + 2]);
      run->sum += run->sums[place] + run->sums[place + 2];
    }
}

void
llk_neon_prepare (LlkActivation form,
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
