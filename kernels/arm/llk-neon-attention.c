/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Attention with NEON, of all sets. */

#include "kernels/arm/llk-neon.h"

#define ATTENTION llk_neon_attention
#define LANES 4
#define BLOCK_QUERIES 4
#define SCORE_VECTORS 4
#define VALUE_VECTORS 4

typedef float32x4_t Vector;

INLINE Vector
zero_vector (void)
{
  return vdupq_n_f32 (0);
}

INLINE Vector
splat (float value)
{
  return vdupq_n_f32 (value);
}

INLINE Vector
load_floats (const float *src)
{
  return vld1q_f32 (src);
}

INLINE Vector
load_some_floats (const float *src,
                  size_t       n)
{
  float some[LANES] = { 0 };

  for (size_t i = 0; i < n; i++)
    some[i] = src[i];
  return vld1q_f32 (some);
}

INLINE Vector
load_some_halves (const void *src,
                  size_t      n)
{
  uint16_t some[LANES] = { 0 };

  for (size_t i = 0; i < n; i++)
    some[i] = ((const uint16_t *) src)[i];
  return load_halves (some);
}

INLINE void
store_floats (float *dst,
              Vector v)
{
  vst1q_f32 (dst, v);
}

INLINE Vector
multiply (Vector a,
          Vector b)
{
  return vmulq_f32 (a, b);
}

INLINE Vector
multiply_add (Vector a,
              Vector b,
              Vector c)
{
  return vfmaq_f32 (c, a, b);
}

INLINE Vector
add (Vector a,
     Vector b)
{
  return vaddq_f32 (a, b);
}

INLINE Vector
subtract (Vector a,
          Vector b)
{
  return vsubq_f32 (a, b);
}

INLINE Vector
divide (Vector a,
        Vector b)
{
  return vdivq_f32 (a, b);
}

/* Comparisons with NaN are false. */
INLINE Vector
maximum (Vector a,
         Vector b)
{
  return vbslq_f32 (vcgtq_f32 (b, a), b, a);
}

INLINE Vector
select_lanes (uint32_t bits,
              Vector   a,
              Vector   b)
{
  static const uint32_t lane_bits[LANES] = { 1, 2, 4, 8 };

  return vbslq_f32 (vtstq_u32 (vdupq_n_u32 (bits), vld1q_u32 (lane_bits)), a, b);
}

INLINE float
sum_vector (Vector v)
{
  return vaddvq_f32 (v);
}

INLINE float
max_lane (Vector v)
{
  return vmaxvq_f32 (v);
}

#include "kernels/llk-attention-passes.h"
