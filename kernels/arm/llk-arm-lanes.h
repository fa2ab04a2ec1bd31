/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The vectors in which kernels/llk-panel-runs.h, which holds no instructions
 * itself, and llk-arm-product.h are written: four outputs, a quarter of a panel. Sums of
 * products of bytes by what there is: matrix instructions, dot products, or NEON. */

#pragma once

#include "kernels/arm/llk-neon.h"

#define N_LANES 4
#define HAS_UNSIGNED_BYTES false /* all products are those of signed bytes */

typedef int32x4_t Ints;
typedef float32x4_t Floats;

INLINE Ints
load_ints (const void *src)
{
  return vreinterpretq_s32_u8 (vld1q_u8 (src));
}

INLINE Ints
splat_byte (int value)
{
  return vreinterpretq_s32_s8 (vdupq_n_s8 ((int8_t) value));
}

INLINE Ints
splat_int (int32_t value)
{
  return vdupq_n_s32 (value);
}

/* Shifts of bytes. */
INLINE Ints
shift_left (Ints     v,
            unsigned n)
{
  return vreinterpretq_s32_u8 (vreinterpretq_u8_s32 (v) << n);
}

INLINE Ints
shift_right (Ints     v,
             unsigned n)
{
  return vreinterpretq_s32_u8 (vreinterpretq_u8_s32 (v) >> n);
}

INLINE Ints
and_bits (Ints a,
          Ints b)
{
  return vandq_s32 (a, b);
}

INLINE Ints
xor_bits (Ints a,
          Ints b)
{
  return veorq_s32 (a, b);
}

/* @a where @mask is set, else @b. */
INLINE Ints
select_bits (Ints mask,
             Ints a,
             Ints b)
{
  return vbslq_s32 (vreinterpretq_u32_s32 (mask), a, b);
}

INLINE Ints
load_table (const int8_t values[16],
            int          added)
{
  return vreinterpretq_s32_s8 (vaddq_s8 (vld1q_s8 (values), vdupq_n_s8 ((int8_t) added)));
}

/* What the table holds for the low four bits of each byte, whatever is above. */
INLINE Ints
look_up (Ints table,
         Ints index)
{
  uint8x16_t places = vandq_u8 (vreinterpretq_u8_s32 (index), vdupq_n_u8 (15));

  return vreinterpretq_s32_s8 (vqtbl1q_s8 (vreinterpretq_s8_s32 (table), places));
}

#if defined __ARM_FEATURE_DOTPROD

/* Adds the products of four groups of four weights with sixteen @x. */
INLINE Ints
dot_four_groups (Ints          sum,
                 const Ints   *w,
                 const int8_t *x)
{
  int8x16_t values = vld1q_s8 (x);

  sum = vdotq_laneq_s32 (sum, vreinterpretq_s8_s32 (w[0]), values, 0);
  sum = vdotq_laneq_s32 (sum, vreinterpretq_s8_s32 (w[1]), values, 1);
  sum = vdotq_laneq_s32 (sum, vreinterpretq_s8_s32 (w[2]), values, 2);
  return vdotq_laneq_s32 (sum, vreinterpretq_s8_s32 (w[3]), values, 3);
}

/* Adds the products of groups of four weights, four groups or eight, with @x. */
INLINE Ints
dot_groups (Ints          sum,
            const Ints   *w,
            size_t        n_groups,
            bool          is_wide,
            const int8_t *x)
{
  (void) is_wide;
  sum = dot_four_groups (sum, w, x);
  return n_groups == 8 ? dot_four_groups (sum, w + 4, x + 16) : sum;
}

#else

/* Adds the products of groups of four weights, four groups or eight, with @x.
 * Products of sixteen bits are added up in as many: two of them when weights are
 * wide; else as many as there are, as four groups' weights are below 64 and eight
 * groups' below 32. */
INLINE Ints
dot_groups (Ints          sum,
            const Ints   *w,
            size_t        n_groups,
            bool          is_wide,
            const int8_t *x)
{
  const size_t n_fit = is_wide ? 2 : n_groups;
  Ints pairs[2] = { splat_int (0), splat_int (0) }; /* of two inputs of an output each */

#pragma GCC unroll 4
  for (size_t first = 0; first < n_groups; first += n_fit)
    {
      int16x8_t products[2] = { vdupq_n_s16 (0), vdupq_n_s16 (0) };

#pragma GCC unroll 8
      for (size_t g = first; g < first + n_fit; g++)
        {
          int8x16_t bytes = vreinterpretq_s8_s32 (w[g]);
          int8x16_t values;
          int32_t four;

          memcpy (&four, x + 4 * g, sizeof four);
          values = vreinterpretq_s8_s32 (vdupq_n_s32 (four));
          products[0] = vmlal_s8 (products[0], vget_low_s8 (bytes), vget_low_s8 (values));
          products[1] = vmlal_high_s8 (products[1], bytes, values);
        }
      pairs[0] = vpadalq_s16 (pairs[0], products[0]);
      pairs[1] = vpadalq_s16 (pairs[1], products[1]);
    }

  return vaddq_s32 (sum, vpaddq_s32 (pairs[0], pairs[1]));
}

#endif

#ifdef __ARM_FEATURE_MATMUL_INT8

/* Groups in pairs: two outputs with eight inputs each in a vector, as matrix
 * instructions want them. */
INLINE void
pair_groups (Ints w[8])
{
#pragma GCC unroll 4
  for (size_t i = 0; i < 8; i += 2)
    {
      Ints first = w[i], second = w[i + 1];

      w[i] = vzip1q_s32 (first, second);
      w[i + 1] = vzip2q_s32 (first, second);
    }
}

/* The same of two rows' integers, 32 inputs each. */
INLINE void
pair_rows (const int8_t *x0,
           const int8_t *x1,
           Ints          x[4])
{
#pragma GCC unroll 2
  for (size_t i = 0; i < 2; i++)
    {
      int64x2_t first = vreinterpretq_s64_s8 (vld1q_s8 (x0 + 16 * i));
      int64x2_t second = vreinterpretq_s64_s8 (vld1q_s8 (x1 + 16 * i));

      x[2 * i] = vreinterpretq_s32_s64 (vzip1q_s64 (first, second));
      x[2 * i + 1] = vreinterpretq_s32_s64 (vzip2q_s64 (first, second));
    }
}

/* Products of paired weights with @n_pairs pairs of rows' integers: @dots of each row. */
INLINE void
dot_pairs (const Ints *w,
           const Ints *x,
           size_t      n_pairs,
           Ints        dots[2])
{
  Ints low = splat_int (0), high = splat_int (0);

#pragma GCC unroll 4
  for (size_t i = 0; i < n_pairs; i++)
    {
      low = vmmlaq_s32 (low, vreinterpretq_s8_s32 (w[2 * i]), vreinterpretq_s8_s32 (x[i]));
      high = vmmlaq_s32 (high, vreinterpretq_s8_s32 (w[2 * i + 1]), vreinterpretq_s8_s32 (x[i]));
    }
  dots[0] = vuzp1q_s32 (low, high);
  dots[1] = vuzp2q_s32 (low, high);
}

#endif

INLINE Ints
add_ints (Ints a,
          Ints b)
{
  return vaddq_s32 (a, b);
}

INLINE Floats
splat_float (float value)
{
  return vdupq_n_f32 (value);
}

INLINE Floats
load_floats (const void *src)
{
  return vld1q_f32 (src);
}

INLINE void
store_floats (float *dst,
              Floats v)
{
  vst1q_f32 (dst, v);
}

INLINE Floats
floats_of_ints (Ints v)
{
  return vcvtq_f32_s32 (v);
}

INLINE Floats
floats_of_halves (const void *src)
{
  return load_halves (src);
}

INLINE Ints
ints_of_u8 (const void *src)
{
  uint32_t four;

  memcpy (&four, src, sizeof four);
  return vreinterpretq_s32_u32 (
    vmovl_u16 (vget_low_u16 (vmovl_u8 (vreinterpret_u8_u32 (vdup_n_u32 (four))))));
}

INLINE Ints
ints_of_s8 (const void *src)
{
  uint32_t four;

  memcpy (&four, src, sizeof four);
  return vmovl_s16 (vget_low_s16 (vmovl_s8 (vreinterpret_s8_u32 (vdup_n_u32 (four)))));
}

/* The first or second of pairs of bfloat16. */
INLINE Floats
floats_of_pairs (const void *src,
                 bool        is_second)
{
  Ints pairs = load_ints (src);

  return vreinterpretq_f32_s32 (is_second ? vandq_s32 (pairs, splat_int ((int32_t) 0xffff0000))
                                          : vshlq_n_s32 (pairs, 16));
}

/* 2^(e - 128) of exponents e; the first two are below the normal range. */
INLINE Floats
floats_of_exponents (const void *src)
{
  Ints e = ints_of_u8 (src);
  Ints normal = vshlq_n_s32 (vsubq_s32 (e, splat_int (1)), 23);
  Ints small = vshlq_s32 (splat_int (0x00200000), e);

  return vreinterpretq_f32_s32 (vbslq_s32 (vcltq_s32 (e, splat_int (2)), small, normal));
}

INLINE Floats
multiply (Floats a,
          Floats b)
{
  return vmulq_f32 (a, b);
}

/* a × b + c */
INLINE Floats
multiply_add (Floats a,
              Floats b,
              Floats c)
{
  return vfmaq_f32 (c, a, b);
}

/* a × b[lane] + c */
INLINE Floats
multiply_add_lane (Floats a,
                   Floats b,
                   size_t lane,
                   Floats c)
{
  switch (lane)
    {
    case 0:
      return vfmaq_laneq_f32 (c, a, b, 0);
    case 1:
      return vfmaq_laneq_f32 (c, a, b, 1);
    case 2:
      return vfmaq_laneq_f32 (c, a, b, 2);
    default:
      return vfmaq_laneq_f32 (c, a, b, 3);
    }
}

INLINE Floats
add_floats (Floats a,
            Floats b)
{
  return vaddq_f32 (a, b);
}
