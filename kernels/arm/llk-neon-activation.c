/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Rows of integers for products with NEON; other forms as the portable set makes them. */

#include "kernels/arm/llk-neon.h"
#include "kernels/llk-run.h"

#include <math.h>

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

/* Four values from @i on, zeros behind the last. */
static inline float32x4_t
load_values (const float *x,
             size_t       n,
             size_t       i)
{
  float values[4] = { 0 };

  if (n - i >= 4)
    return vld1q_f32 (x + i);
  memcpy (values, x + i, (n - i) * sizeof *x);
  return vld1q_f32 (values);
}

/* The bits of the largest magnitude; as integers, so that NaN counts as the largest. */
static uint32_t
find_largest (const float *x)
{
  uint32x4_t magnitudes = vdupq_n_u32 (0);

  for (size_t i = 0; i < LLK_RUN; i += 4)
    magnitudes = vmaxq_u32 (magnitudes, vandq_u32 (vreinterpretq_u32_f32 (vld1q_f32 (x + i)),
                                                   vdupq_n_u32 (0x7fffffff)));
  return vmaxvq_u32 (magnitudes);
}

/* The sum of the squares of values that are not beyond @limit. */
static inline float
sum_squares (const float *x,
             size_t       n,
             float        limit)
{
  float32x4_t sums[16];
  float32x2_t twos;

  for (size_t j = 0; j < 16; j++)
    sums[j] = vdupq_n_f32 (0);
  for (size_t i = 0; i < n; i += 4)
    {
      const float32x4_t v = load_values (x, n, i);
      const uint32x4_t is_other = vcleq_f32 (vabsq_f32 (v), vdupq_n_f32 (limit));
      const float32x4_t other =
        vreinterpretq_f32_u32 (vandq_u32 (vreinterpretq_u32_f32 (v), is_other));

      sums[i / 4 % 16] = vfmaq_f32 (sums[i / 4 % 16], other, other);
    }
  for (size_t half = 8; half > 0; half /= 2)
    for (size_t j = 0; j < half; j++)
      sums[j] = vaddq_f32 (sums[j], sums[j + half]);
  twos = vadd_f32 (vget_low_f32 (sums[0]), vget_high_f32 (sums[0]));
  return vget_lane_f32 (twos, 0) + vget_lane_f32 (twos, 1);
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
  uint32x4_t found = vdupq_n_u32 (0);

  for (size_t i = 0; i < LLK_RUN; i += 4)
    found = vorrq_u32 (found, vcgtq_f32 (vabsq_f32 (vld1q_f32 (x + i)), vdupq_n_f32 (limit)));
  return vmaxvq_u32 (found) != 0;
}

static void
quantize (const float      *x,
          float             limit,
          LlkActivationRun *run,
          LlkOutlier       *outliers)
{
  uint32_t bits = find_largest (x);
  float rest[LLK_RUN];
  float magnitude, inverse;

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

  inverse = 127 / magnitude;
  run->scale = magnitude / 127;
  for (size_t b = 0; b < 8; b++)
    {
      const int8x16_t first = round_values (x + 32 * b, inverse);
      const int8x16_t second = round_values (x + 32 * b + 16, inverse);
      const size_t place = llk_activation_find_sum (2 * b);

      vst1q_s8 (run->q + 32 * b, first);
      vst1q_s8 (run->q + 32 * b + 16, second);
      run->sums[place] = vaddlvq_s8 (first);
      run->sums[place + 2] = vaddlvq_s8 (second);
      run->long_sums[llk_activation_find_sum (b)] =
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
