/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The definition of every function, in plain C for any processor. Sums are kept
 * in a fixed number of lanes, which compilers turn into vectors of whatever
 * width there is; the order of additions is then the same everywhere.
 */

#include "kernels/llk-internal.h"

#include <math.h>

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
unpack_q8_0 (const uint8_t *src,
             float         *dst,
             size_t         n)
{
  for (size_t block = 0; block < n / 32; block++, src += 34, dst += 32)
    {
      float scale = llk_float_of_half (llk_load_u16 (src));

      for (size_t i = 0; i < 32; i++)
        dst[i] = scale * (float) (int8_t) src[2 + i];
    }
}

/* The low halves of the 16 bytes are the first 16 values. */
static void
unpack_q4_0 (const uint8_t *src,
             float         *dst,
             size_t         n)
{
  for (size_t block = 0; block < n / 32; block++, src += 18, dst += 32)
    {
      float scale = llk_float_of_half (llk_load_u16 (src));

      for (size_t i = 0; i < 16; i++)
        {
          dst[i] = scale * (float) ((src[2 + i] & 15) - 8);
          dst[i + 16] = scale * (float) ((src[2 + i] >> 4) - 8);
        }
    }
}

static void
unpack (LlkType     type,
        const void *src,
        float      *dst,
        size_t      n)
{
  const uint8_t *bytes = src;

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
        dst[i] = llk_float_of_bits ((uint32_t) llk_load_u16 (bytes + 2 * i) << 16);
      break;
    case LLK_Q8_0:
      unpack_q8_0 (src, dst, n);
      break;
    case LLK_Q4_0:
      unpack_q4_0 (src, dst, n);
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

/* One row of K or V as floats: in place, or unpacked into @buffer. */
static inline const float *
get_row (const void *rows,
         size_t      row,
         size_t      head_dim,
         bool        is_half,
         float      *buffer)
{
  if (!is_half)
    return (const float *) rows + row * head_dim;

  f16_to_f32 ((const uint16_t *) rows + row * head_dim, buffer, head_dim);
  return buffer;
}

/* Only slots in the mask are read: what lies in others is not defined. */
static inline void
attend (const float       *q,
        const void        *k,
        const void        *v,
        size_t             head_dim,
        size_t             n_slots,
        uint64_t           mask,
        float              scale,
        LlkAttentionState *state,
        float             *probabilities,
        bool               is_half)
{
  float p[LLK_ATTENTION_MAX_SLOTS];
  float buffer[LLK_MAX_HEAD_DIM];
  float max = state->max;
  float correction;
  float sum = 0;

  if (n_slots < LLK_ATTENTION_MAX_SLOTS)
    mask &= ((uint64_t) 1 << n_slots) - 1;
  if (probabilities != NULL)
    memset (probabilities, 0, n_slots * sizeof (float));
  if (mask == 0)
    return;

  for (size_t s = 0; s < n_slots; s++)
    if (mask >> s & 1)
      {
        p[s] = dot (q, get_row (k, s, head_dim, is_half, buffer), head_dim) * scale;
        max = p[s] > max ? p[s] : max;
      }

  correction = llk_exp (state->max - max);
  for (size_t i = 0; i < head_dim; i++)
    state->acc[i] *= correction;

  for (size_t s = 0; s < n_slots; s++)
    if (mask >> s & 1)
      {
        const float *row = get_row (v, s, head_dim, is_half, buffer);
        float weight = llk_exp (p[s] - max);

        sum += weight;
        for (size_t i = 0; i < head_dim; i++)
          state->acc[i] += weight * row[i];
        if (probabilities != NULL)
          probabilities[s] = weight;
      }

  state->sum = state->sum * correction + sum;
  state->max = max;
}

static void
attend_f32 (const float       *q,
            const float       *k,
            const float       *v,
            size_t             head_dim,
            size_t             n_slots,
            uint64_t           mask,
            float              scale,
            LlkAttentionState *state,
            float             *probabilities)
{
  attend (q, k, v, head_dim, n_slots, mask, scale, state, probabilities, false);
}

static void
attend_f16 (const float       *q,
            const uint16_t    *k,
            const uint16_t    *v,
            size_t             head_dim,
            size_t             n_slots,
            uint64_t           mask,
            float              scale,
            LlkAttentionState *state,
            float             *probabilities)
{
  attend (q, k, v, head_dim, n_slots, mask, scale, state, probabilities, true);
}

const LlkOps *
llk_ops_portable (void)
{
  static const LlkOps ops = {
    .name = "portable",
    .unpack = unpack,
    .dot_rows = dot_rows,
    .rms_norm = rms_norm,
    .silu_mul = silu_mul,
    .add = add,
    .f32_to_f16 = f32_to_f16,
    .f16_to_f32 = f16_to_f32,
    .attend_f32 = attend_f32,
    .attend_f16 = attend_f16,
  };

  return &ops;
}
