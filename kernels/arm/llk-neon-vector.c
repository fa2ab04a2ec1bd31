/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Vector functions with NEON, for all sets. Products and sums are spelled out as
 * intrinsics: the order of a row's additions is then the same in every instance of
 * a loop, however many rows it works on.
 */

#include "kernels/llk-thin.h"
#include "kernels/arm/llk-neon.h"

#include <math.h>

static void
f32_to_f16 (const float *src,
            uint16_t    *dst,
            size_t       n)
{
  size_t i;

  for (i = 0; i + 4 <= n; i += 4)
    vst1_u16 (dst + i, vreinterpret_u16_f16 (vcvt_f16_f32 (vld1q_f32 (src + i))));
  for (; i < n; i++)
    dst[i] = llk_half_of_float (src[i]);
}

/* Tensors may lie at any address, which loads of bytes allow. */
static void
unpack_f16 (const uint8_t *src,
            float         *dst,
            size_t         n)
{
  size_t i;

  for (i = 0; i + 4 <= n; i += 4)
    vst1q_f32 (dst + i, vcvt_f32_f16 (vreinterpret_f16_u8 (vld1_u8 (src + 2 * i))));
  for (; i < n; i++)
    dst[i] = llk_float_of_half (llk_load_u16 (src + 2 * i));
}

static void
f16_to_f32 (const uint16_t *src,
            float          *dst,
            size_t          n)
{
  unpack_f16 ((const uint8_t *) src, dst, n);
}

static void
unpack_bf16 (const uint8_t *src,
             float         *dst,
             size_t         n)
{
  size_t i;

  for (i = 0; i + 4 <= n; i += 4)
    {
      uint16x4_t halves = vreinterpret_u16_u8 (vld1_u8 (src + 2 * i));

      vst1q_f32 (dst + i, vreinterpretq_f32_u32 (vshll_n_u16 (halves, 16)));
    }
  for (; i < n; i++)
    dst[i] = llk_float_of_bits ((uint32_t) llk_load_u16 (src + 2 * i) << 16);
}

/* Sixteen bytes to floats, times @scale. */
INLINE void
store_bytes (int8x16_t bytes,
             float     scale,
             float    *dst)
{
  int16x8_t low = vmovl_s8 (vget_low_s8 (bytes));
  int16x8_t high = vmovl_high_s8 (bytes);

  vst1q_f32 (dst, vmulq_n_f32 (vcvtq_f32_s32 (vmovl_s16 (vget_low_s16 (low))), scale));
  vst1q_f32 (dst + 4, vmulq_n_f32 (vcvtq_f32_s32 (vmovl_high_s16 (low)), scale));
  vst1q_f32 (dst + 8, vmulq_n_f32 (vcvtq_f32_s32 (vmovl_s16 (vget_low_s16 (high))), scale));
  vst1q_f32 (dst + 12, vmulq_n_f32 (vcvtq_f32_s32 (vmovl_high_s16 (high)), scale));
}

static void
unpack_q8_0 (const uint8_t *src,
             float         *dst,
             size_t         n)
{
  for (size_t block = 0; block < n / 32; block++, src += 34, dst += 32)
    {
      float scale = llk_float_of_half (llk_load_u16 (src));

      store_bytes (vreinterpretq_s8_u8 (vld1q_u8 (src + 2)), scale, dst);
      store_bytes (vreinterpretq_s8_u8 (vld1q_u8 (src + 18)), scale, dst + 16);
    }
}

static void
unpack_q4_0 (const uint8_t *src,
             float         *dst,
             size_t         n)
{
  const int8x16_t eight = vdupq_n_s8 (8);

  for (size_t block = 0; block < n / 32; block++, src += 18, dst += 32)
    {
      float scale = llk_float_of_half (llk_load_u16 (src));
      uint8x16_t bytes = vld1q_u8 (src + 2);
      int8x16_t low = vreinterpretq_s8_u8 (vandq_u8 (bytes, vdupq_n_u8 (15)));
      int8x16_t high = vreinterpretq_s8_u8 (vshrq_n_u8 (bytes, 4));

      store_bytes (vsubq_s8 (low, eight), scale, dst);
      store_bytes (vsubq_s8 (high, eight), scale, dst + 16);
    }
}

static void
unpack (LlkType     type,
        const void *src,
        float      *dst,
        size_t      n)
{
  switch (type)
    {
    case LLK_F32:
      memcpy (dst, src, n * sizeof (float));
      break;
    case LLK_F16:
      unpack_f16 (src, dst, n);
      break;
    case LLK_BF16:
      unpack_bf16 (src, dst, n);
      break;
    case LLK_Q8_0:
      unpack_q8_0 (src, dst, n);
      break;
    case LLK_Q4_0:
      unpack_q4_0 (src, dst, n);
      break;
    default:
      llk_portable_vector.unpack (type, src, dst, n);
      break;
    }
}

/* @n_rows is a constant in each instance. Four sums a row hide the latency of
 * one; four rows share the loads of w. */
INLINE void
dot_few_rows (const float *w,
              const float *x,
              size_t       x_stride,
              size_t       n_rows,
              size_t       n,
              float       *y,
              size_t       y_stride)
{
  float32x4_t sums[4][4];
  size_t i;

  for (size_t r = 0; r < n_rows; r++)
    for (size_t j = 0; j < 4; j++)
      sums[r][j] = vdupq_n_f32 (0);

  for (i = 0; i + 16 <= n; i += 16)
    for (size_t j = 0; j < 4; j++)
      {
        float32x4_t values = vld1q_f32 (w + i + 4 * j);

        for (size_t r = 0; r < n_rows; r++)
          sums[r][j] = vfmaq_f32 (sums[r][j], values, vld1q_f32 (x + r * x_stride + i + 4 * j));
      }
  for (; i + 4 <= n; i += 4)
    for (size_t r = 0; r < n_rows; r++)
      sums[r][0] = vfmaq_f32 (sums[r][0], vld1q_f32 (w + i), vld1q_f32 (x + r * x_stride + i));

  for (size_t r = 0; r < n_rows; r++)
    {
      float sum = vaddvq_f32 (vaddq_f32 (vaddq_f32 (sums[r][0], sums[r][1]),
                                         vaddq_f32 (sums[r][2], sums[r][3])));

      for (size_t t = i; t < n; t++)
        sum += w[t] * x[r * x_stride + t];
      y[r * y_stride] = sum;
    }
}

static void
dot_rows (const float *w,
          const float *x,
          size_t       x_stride,
          size_t       n_rows,
          size_t       n,
          float       *y,
          size_t       y_stride)
{
  size_t r;

  for (r = 0; r + 4 <= n_rows; r += 4)
    dot_few_rows (w, x + r * x_stride, x_stride, 4, n, y + r * y_stride, y_stride);
  for (; r < n_rows; r++)
    dot_few_rows (w, x + r * x_stride, x_stride, 1, n, y + r * y_stride, y_stride);
}

/* @n_rows is a constant in each instance: two rows share the loads of w. */
INLINE void
dot_outputs (const float *w,
             const float *x,
             size_t       x_stride,
             size_t       n_rows,
             size_t       n,
             float       *y,
             size_t       y_stride)
{
  float32x4_t sums[2][LLK_NARROW_OUTPUTS];
  size_t i;

  for (size_t r = 0; r < n_rows; r++)
    for (size_t o = 0; o < LLK_NARROW_OUTPUTS; o++)
      sums[r][o] = vdupq_n_f32 (0);
  for (i = 0; i + 4 <= n; i += 4)
    for (size_t o = 0; o < LLK_NARROW_OUTPUTS; o++)
      {
        float32x4_t values = vld1q_f32 (w + o * n + i);

        for (size_t r = 0; r < n_rows; r++)
          sums[r][o] = vfmaq_f32 (sums[r][o], values, vld1q_f32 (x + r * x_stride + i));
      }
  for (size_t r = 0; r < n_rows; r++)
    for (size_t o = 0; o < LLK_NARROW_OUTPUTS; o++)
      {
        float sum = vaddvq_f32 (sums[r][o]);

        for (size_t t = i; t < n; t++)
          sum = fmaf (w[o * n + t], x[r * x_stride + t], sum);
        y[r * y_stride + o] = sum;
      }
}

static void
dot_narrow (const float *w,
            const float *x,
            size_t       x_stride,
            size_t       n_rows,
            size_t       n,
            float       *y,
            size_t       y_stride)
{
  size_t r = 0;

  for (; r + 2 <= n_rows; r += 2)
    dot_outputs (w, x + r * x_stride, x_stride, 2, n, y + r * y_stride, y_stride);
  for (; r < n_rows; r++)
    dot_outputs (w, x + r * x_stride, x_stride, 1, n, y + r * y_stride, y_stride);
}

static void
add_thin (const float *w,
          const float *x,
          size_t       x_stride,
          size_t       n_rows,
          size_t       n_in,
          size_t       n_out,
          float       *y,
          size_t       y_stride)
{
  float columns[LLK_THIN_INPUTS * LLK_THIN_OUTPUTS];

  llk_thin_turn (w, n_in, n_out, columns);
  for (size_t r = 0; r < n_rows; r++, y += y_stride, x += x_stride)
    {
      size_t o = 0;

      for (; o + 32 <= n_out; o += 32)
        {
          float32x4_t sums[8];

          for (size_t v = 0; v < 8; v++)
            sums[v] = vld1q_f32 (y + o + 4 * v);
          for (size_t i = 0; i < n_in; i++)
            for (size_t v = 0; v < 8; v++)
              sums[v] = vfmaq_n_f32 (sums[v], vld1q_f32 (columns + i * LLK_THIN_OUTPUTS + o + 4 * v), x[i]);
          for (size_t v = 0; v < 8; v++)
            vst1q_f32 (y + o + 4 * v, sums[v]);
        }
      for (; o < n_out; o++)
        for (size_t i = 0; i < n_in; i++)
          y[o] = fmaf (columns[i * LLK_THIN_OUTPUTS + o], x[i], y[o]);
    }
}

static void
rms_norm (const float *x,
          const float *weight,
          float        eps,
          float       *y,
          size_t       n)
{
  float squares, factor;
  size_t i;

  dot_few_rows (x, x, 0, 1, n, &squares, 0);
  factor = 1 / sqrtf (squares / (float) n + eps);
  for (i = 0; i + 4 <= n; i += 4)
    vst1q_f32 (y + i, vmulq_f32 (vmulq_n_f32 (vld1q_f32 (x + i), factor), vld1q_f32 (weight + i)));
  for (; i < n; i++)
    y[i] = x[i] * factor * weight[i];
}

static void
silu_mul (float       *gate,
          const float *up,
          size_t       n)
{
  size_t i;

  for (i = 0; i + 4 <= n; i += 4)
    {
      float32x4_t x = vld1q_f32 (gate + i);
      float32x4_t below = vaddq_f32 (vdupq_n_f32 (1), exp_vector (vnegq_f32 (x)));

      vst1q_f32 (gate + i, vmulq_f32 (vdivq_f32 (x, below), vld1q_f32 (up + i)));
    }
  for (; i < n; i++)
    gate[i] = gate[i] / (1 + llk_exp (-gate[i])) * up[i];
}

static void
gelu_mul (float       *gate,
          const float *up,
          size_t       n)
{
  for (size_t i = 0; i < n; i++)
    gate[i] = llk_gelu (gate[i]) * up[i];
}

static void
add (float       *y,
     const float *x,
     size_t       n)
{
  size_t i;

  for (i = 0; i + 4 <= n; i += 4)
    vst1q_f32 (y + i, vaddq_f32 (vld1q_f32 (y + i), vld1q_f32 (x + i)));
  for (; i < n; i++)
    y[i] += x[i];
}

const LlkVectorOps llk_neon_vector = {
  .unpack = unpack,
  .dot_rows = dot_rows,
  .dot_narrow = dot_narrow,
  .add_thin = add_thin,
  .rms_norm = rms_norm,
  .silu_mul = silu_mul,
  .gelu_mul = gelu_mul,
  .add = add,
  .f32_to_f16 = f32_to_f16,
  .f16_to_f32 = f16_to_f32,
};
