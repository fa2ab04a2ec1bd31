/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The definition of every function, in plain C for any processor. Sums are kept
 * in a fixed number of lanes, which compilers turn into vectors of whatever
 * width there is; the order of additions is then the same everywhere.
 */

#include "kernels/portable/llk-portable.h"

#define N_LANES 16

static float
sum_lanes (const float lanes[N_LANES])
{
  float sums[N_LANES / 2];

  for (size_t l = 0; l < N_LANES / 2; l++)
    sums[l] = lanes[l] + lanes[l + N_LANES / 2];
  for (size_t width = N_LANES / 4; width > 0; width /= 2)
    for (size_t l = 0; l < width; l++)
      sums[l] += sums[l + width];

  return sums[0];
}

static float
dot (const float *a,
     const float *b,
     size_t       n)
{
  float lanes[N_LANES] = { 0 };
  float sum;
  size_t i;

  for (i = 0; i + N_LANES <= n; i += N_LANES)
    for (size_t l = 0; l < N_LANES; l++)
      lanes[l] += a[i + l] * b[i + l];
  sum = sum_lanes (lanes);
  for (; i < n; i++)
    sum += a[i] * b[i];

  return sum;
}

static void
unpack (LlkType     type,
        const void *src,
        float      *dst,
        size_t      n)
{
  const uint8_t *bytes = src;
  size_t block_size = llk_type_block_size (type);
  size_t block_bytes = llk_type_block_bytes (type);
  LlkBlock block = { 0 };

  switch (type)
    {
    case LLK_F32:
      memcpy (dst, src, n * sizeof (float));
      break;
    case LLK_F16:
      for (size_t i = 0; i < n; i++)
        dst[i] = llk_float_of_half (llk_load_u16 (bytes + 2 * i));
      break;
    case LLK_BF16:
      for (size_t i = 0; i < n; i++)
        dst[i] = llk_float_of_bf16 (llk_load_u16 (bytes + 2 * i));
      break;
    default:
      for (size_t i = 0; i < n; i += block_size, bytes += block_bytes)
        {
          llk_block_read (type, bytes, &block);
          llk_block_unpack (type, &block, dst + i);
        }
      break;
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
  for (size_t r = 0; r < n_rows; r++)
    y[r * y_stride] = dot (w, x + r * x_stride, n);
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
  for (size_t r = 0; r < n_rows; r++)
    for (size_t o = 0; o < LLK_NARROW_OUTPUTS; o++)
      y[r * y_stride + o] = dot (w + o * n, x + r * x_stride, n);
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
  for (size_t r = 0; r < n_rows; r++, x += x_stride, y += y_stride)
    for (size_t o = 0; o < n_out; o++)
      {
        float sum = y[o];

        for (size_t i = 0; i < n_in; i++)
          sum = fmaf (w[o * n_in + i], x[i], sum);
        y[o] = sum;
      }
}

static void
rms_norm (const float *x,
          const float *weight,
          float        eps,
          float       *y,
          size_t       n)
{
  float factor = 1 / sqrtf (dot (x, x, n) / (float) n + eps);

  for (size_t i = 0; i < n; i++)
    y[i] = x[i] * factor * weight[i];
}

static void
silu_mul (float       *gate,
          const float *up,
          size_t       n)
{
  for (size_t i = 0; i < n; i++)
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
  for (size_t i = 0; i < n; i++)
    y[i] += x[i];
}

static void
f32_to_f16 (const float *src,
            uint16_t    *dst,
            size_t       n)
{
  for (size_t i = 0; i < n; i++)
    dst[i] = llk_half_of_float (src[i]);
}

static void
f16_to_f32 (const uint16_t *src,
            float          *dst,
            size_t          n)
{
  for (size_t i = 0; i < n; i++)
    dst[i] = llk_float_of_half (src[i]);
}

const LlkVectorOps llk_portable_vector = {
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
