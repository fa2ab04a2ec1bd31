/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The vectors in which llk-panel-weights.h and llk-panel-product.h are written: here 16
 * bytes, a quarter of a vector of a panel. Sums of products of bytes by what there is:
 * matrix instructions for several rows, dot products, or NEON alone. */

#pragma once

#include "kernels/arm/llk-arm-tables.h"
#include "kernels/arm/llk-neon.h"

#define N_LANES 4               /* of 32 bits */
#define HAS_UNSIGNED_BYTES false
#define ROWS 8                  /* whose sums with two vectors fit into registers */
#define FLOAT_ROWS 4            /* of which four sums do */
#define GROUPS_IN_TURN 4        /* as instructions take one of four groups of values */
#ifdef __ARM_FEATURE_MATMUL_INT8
#define HAS_PAIRS true          /* see add_pair_dots() */
#else
#define HAS_PAIRS false
#endif
#define UNROLL_PARTS

typedef int32x4_t Ints;
typedef float32x4_t Floats;
/* Weights as add_dots() takes them. */
typedef int32x4_t Weights;

#define bytes_of(v) vreinterpretq_s8_s32 (v)
#define shorts_of(v) vreinterpretq_s16_s32 (v)
#define unsigned_bytes_of(v) vreinterpretq_u8_s32 (v)
#define ints_of_bytes(v) vreinterpretq_s32_s8 (v)
#define ints_of_shorts(v) vreinterpretq_s32_s16 (v)
#define ints_of_unsigned_bytes(v) vreinterpretq_s32_u8 (v)

INLINE Ints
load_ints (const void *src)
{
  return ints_of_unsigned_bytes (vld1q_u8 (src));
}

INLINE void
store_ints (void *dst,
            Ints  v)
{
  vst1q_u8 (dst, unsigned_bytes_of (v));
}

INLINE Ints
splat_sixteen (const void *src)
{
  return load_ints (src);
}

INLINE Ints
splat_four (const void *src)
{
  int32_t four;

  memcpy (&four, src, sizeof four);
  return vdupq_n_s32 (four);
}

INLINE Ints
splat_byte (int value)
{
  return ints_of_bytes (vdupq_n_s8 ((int8_t) value));
}

INLINE Ints
splat_short (int value)
{
  return ints_of_shorts (vdupq_n_s16 ((int16_t) value));
}

INLINE Ints
splat_int (int32_t value)
{
  return vdupq_n_s32 (value);
}

#define and_bits(a, b) vandq_s32 (a, b)
#define or_bits(a, b) vorrq_s32 (a, b)
#define xor_bits(a, b) veorq_s32 (a, b)
#define shift_left(v, n) ints_of_shorts (vshlq_n_s16 (shorts_of (v), n))
#define shift_right(v, n)                                                                      \
  vreinterpretq_s32_u16 (vshrq_n_u16 (vreinterpretq_u16_s32 (v), n))
#define shift_bytes_right(v, n) ints_of_unsigned_bytes (vshrq_n_u8 (unsigned_bytes_of (v), n))
#define subtract_bytes(a, b) ints_of_bytes (vsubq_s8 (bytes_of (a), bytes_of (b)))
#define add_ints(a, b) vaddq_s32 (a, b)
#define shift_ints_left(v, n) vshlq_n_s32 (v, n)
#define shift_ints_signed_right(v, n) vshrq_n_s32 (v, n)
/* What is packed fits. */
#define pack_signed(a, b) ints_of_bytes (vuzp1q_s8 (bytes_of (a), bytes_of (b)))
#define pack_unsigned(a, b) pack_signed (a, b)
/* Bytes of the sixteen by index; 0 where it is above. */
#define look_up(table, index)                                                                  \
  ints_of_bytes (vqtbl1q_s8 (bytes_of (table), unsigned_bytes_of (index)))
#define low_words(a, b) vzip1q_s32 (a, b)
#define high_words(a, b) vzip2q_s32 (a, b)
#define low_pairs(a, b)                                                                        \
  vreinterpretq_s32_s64 (vzip1q_s64 (vreinterpretq_s64_s32 (a), vreinterpretq_s64_s32 (b)))
#define high_pairs(a, b)                                                                       \
  vreinterpretq_s32_s64 (vzip2q_s64 (vreinterpretq_s64_s32 (a), vreinterpretq_s64_s32 (b)))

/* The sums of four vectors, side by side. */
INLINE Ints
add_lanes (const Ints sums[4])
{
  return vpaddq_s32 (vpaddq_s32 (sums[0], sums[1]), vpaddq_s32 (sums[2], sums[3]));
}

/* --- multipliers of Q8_0 --- */

/* (code × r + 127) >> 8. Bytes are signed here, so they are never moved. @r has multipliers in the
 * lower half of each short. */
INLINE Ints
scale_group (Ints v,
             Ints r,
             bool is_moved)
{
  const int16x8_t rounder = vdupq_n_s16 (127);
  const int16x8_t evens = vshrq_n_s16 (vshlq_n_s16 (shorts_of (v), 8), 8);
  const int16x8_t odds = vshrq_n_s16 (shorts_of (v), 8);

  (void) is_moved;
  return ints_of_bytes (vtrn1q_s8 (
    vreinterpretq_s8_s16 (vshrq_n_s16 (vmlaq_s16 (rounder, evens, shorts_of (r)), 8)),
    vreinterpretq_s8_s16 (vshrq_n_s16 (vmlaq_s16 (rounder, odds, shorts_of (r)), 8))));
}

/* --- multipliers of a quad of blocks, and tables --- */

#define HAS_TABLES true

INLINE Ints
load_table (LlkType type,
            size_t  half,
            uint8_t r)
{
  static const uint8_t tables[LLK_TYPE_LIMIT] = {
    [LLK_Q4_0] = LLK_ARM_TABLE_Q4,     [LLK_Q4_1] = LLK_ARM_TABLE_Q4,
    [LLK_Q5_0] = LLK_ARM_TABLE_Q5,     [LLK_Q5_1] = LLK_ARM_TABLE_Q5,
    [LLK_Q4_K] = LLK_ARM_TABLE_Q4_K,   [LLK_Q5_K] = LLK_ARM_TABLE_Q5_K,
    [LLK_IQ4_NL] = LLK_ARM_TABLE_IQ4_NL, [LLK_IQ4_XS] = LLK_ARM_TABLE_IQ4_XS,
    [LLK_MXFP4] = LLK_ARM_TABLE_MXFP4, [LLK_IQ3_XXS] = LLK_ARM_TABLE_IQ3_XXS,
    [LLK_IQ3_S] = LLK_ARM_TABLE_IQ3_S,
  };

  return load_ints (llk_arm_tables[tables[type]][half][r]);
}

/* (v × r + 64) >> 7 of 16 bits, r that of block @b for output @g. */
INLINE int16x8_t
scale_eight (int16x8_t v,
             Ints      quad,
             size_t    b,
             size_t    g)
{
  /* In the upper half of each short. */
  const int16x8_t r = g < 2 ? vshll_n_s8 (vget_low_s8 (bytes_of (quad)), 8)
                            : vshll_high_n_s8 (bytes_of (quad), 8);

  switch (4 * (g % 2) + b)
    {
    case 0:
      return vqrdmulhq_laneq_s16 (v, r, 0);
    case 1:
      return vqrdmulhq_laneq_s16 (v, r, 1);
    case 2:
      return vqrdmulhq_laneq_s16 (v, r, 2);
    case 3:
      return vqrdmulhq_laneq_s16 (v, r, 3);
    case 4:
      return vqrdmulhq_laneq_s16 (v, r, 4);
    case 5:
      return vqrdmulhq_laneq_s16 (v, r, 5);
    case 6:
      return vqrdmulhq_laneq_s16 (v, r, 6);
    default:
      return vqrdmulhq_laneq_s16 (v, r, 7);
    }
}

/* The same of four times bytes. */
INLINE void
scale_fours (Ints   v,
             Ints   quad,
             size_t b,
             size_t g,
             Ints   scaled[2])
{
  const int8x16_t bytes = bytes_of (v);

  scaled[0] =
    ints_of_shorts (scale_eight (vshll_n_s8 (vget_low_s8 (bytes), 2), quad, b, g));
  scaled[1] = ints_of_shorts (scale_eight (vshll_high_n_s8 (bytes, 2), quad, b, g));
}

/* Sixteen bytes times the multipliers of a quad, @n bytes in turn with each block from @b
 * on. */
INLINE Ints
multiply_blocks (const int8_t values[16],
                 Ints         quad,
                 unsigned     n,
                 size_t       b,
                 size_t       g)
{
  const uint8x16_t ones = vdupq_n_u8 ((uint8_t) (4 * g + b));
  const uint8x16_t steps = n == 4 ? (uint8x16_t) { 0, 0, 0, 0, 1, 1, 1, 1,
                                                   2, 2, 2, 2, 3, 3, 3, 3 }
                                  : (uint8x16_t) { 0, 0, 0, 0, 0, 0, 0, 0,
                                                   1, 1, 1, 1, 1, 1, 1, 1 };

  return ints_of_bytes (vmulq_s8 (vld1q_s8 (values),
                                  vqtbl1q_s8 (bytes_of (quad), vaddq_u8 (ones, steps))));
}

/* All weights of the four blocks of a quad of Q2_K, byte 4 b + code. */
INLINE Ints
make_table_of_twos (Ints   quad,
                    size_t g)
{
  static const int8_t values[16] = { 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3 };

  return multiply_blocks (values, quad, 4, 0, g);
}

/* Those of blocks @b and @b + 1 of Q3_K or IQ2, byte 8 (b % 2) + code; @base is llk_run_base(). */
INLINE Ints
make_table_of_threes (LlkType type,
                      Ints    base,
                      Ints    quad,
                      size_t  b,
                      size_t  g)
{
  static const int8_t values[16] = { 4, 3, 2, 1, 0, -1, -2, -3, 4, 3, 2, 1, 0, -1, -2, -3 };

  if (type != LLK_Q3_K)
    return pack_signed (ints_of_shorts (scale_eight (vreinterpretq_s16_s32 (base), quad, b, g)),
                        ints_of_shorts (scale_eight (vreinterpretq_s16_s32 (base), quad, b + 1, g)));
  return multiply_blocks (values, quad, 8, b, g);
}

/* Adds @value, a power of two that no byte has yet, where the bit of a panel is set. */
INLINE Ints
add_at_bits (Ints           v,
             int            value,
             const uint8_t *bits,
             size_t         part)
{
  const uint8x16_t places = vaddq_u8 (
    vdupq_n_u8 ((uint8_t) (2 * part)),
    (uint8x16_t) { 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1 });
  const int8x16_t to_value = vaddq_s8 (
    vdupq_n_s8 ((int8_t) __builtin_ctz ((unsigned) value)),
    (int8x16_t) { 0, -1, -2, -3, -4, -5, -6, -7, 0, -1, -2, -3, -4, -5, -6, -7 });
  const uint8x16_t eights = vqtbl1q_u8 (vcombine_u8 (vld1_u8 (bits), vdup_n_u8 (0)), places);

  return ints_of_unsigned_bytes (vbslq_u8 (vdupq_n_u8 ((uint8_t) value),
                                           vshlq_u8 (eights, to_value), unsigned_bytes_of (v)));
}

/* Looks up in @second where the bit is set, else in @first. */
INLINE Ints
look_up_in (Ints           first,
            Ints           second,
            Ints           index,
            const uint8_t *bits,
            size_t         part)
{
  return ints_of_bytes (vqtbl2q_s8 ((int8x16x2_t) { { bytes_of (first), bytes_of (second) } },
                                    unsigned_bytes_of (add_at_bits (index, 16, bits, part))));
}

/* --- dot products --- */

#define make_weights(w) (w)

#ifdef __ARM_FEATURE_DOTPROD

/* Adds the products of each four weights with those of group @k at @x. */
INLINE Ints
add_group_dots (Ints          sums,
                Weights       w,
                const int8_t *x,
                size_t        k)
{
  const int8x16_t values = vld1q_s8 (x);

  switch (k)
    {
    case 0:
      return vdotq_laneq_s32 (sums, bytes_of (w), values, 0);
    case 1:
      return vdotq_laneq_s32 (sums, bytes_of (w), values, 1);
    case 2:
      return vdotq_laneq_s32 (sums, bytes_of (w), values, 2);
    default:
      return vdotq_laneq_s32 (sums, bytes_of (w), values, 3);
    }
}

/* Those of each four bytes. */
INLINE Ints
add_lane_dots (Ints    sums,
               Weights w,
               Ints    x)
{
  return vdotq_s32 (sums, bytes_of (w), bytes_of (x));
}

#else

/* Two products of at most 128 × 127 fit into 16 bits. */
INLINE Ints
add_group_dots (Ints          sums,
                Weights       w,
                const int8_t *x,
                size_t        k)
{
  const int8x16_t values = bytes_of (splat_four (x + 4 * k));
  const int16x8_t low = vmull_s8 (vget_low_s8 (bytes_of (w)), vget_low_s8 (values));
  const int16x8_t high = vmull_high_s8 (bytes_of (w), values);

  return vpadalq_s16 (sums, vpaddq_s16 (low, high));
}

/* Wherever their sums come to lie. */
INLINE Ints
add_lane_dots (Ints    sums,
               Weights w,
               Ints    x)
{
  const int16x8_t low = vmull_s8 (vget_low_s8 (bytes_of (w)), vget_low_s8 (bytes_of (x)));

  return vpadalq_s16 (sums, vmlal_high_s8 (low, bytes_of (w), bytes_of (x)));
}

#endif

#if HAS_PAIRS

/* Adds the products of eight weights of each of two outputs with eight values of each of
 * two rows. */
INLINE Ints
add_pair_dots (Ints sums,
               Ints w,
               Ints x)
{
  return vmmlaq_s32 (sums, bytes_of (w), bytes_of (x));
}

/* Four outputs' sums of row @r of such a pair. */
INLINE Ints
get_row_of_pair (const Ints dots[2],
                 size_t     r)
{
  return r == 0 ? vuzp1q_s32 (dots[0], dots[1]) : vuzp2q_s32 (dots[0], dots[1]);
}

#endif

/* Products of the lower and of the upper shorts. */
typedef struct
{
  int32x4_t low, high;
} ShortDots;

/* Adds those of each two shorts. */
INLINE ShortDots
add_short_dots (ShortDots sums,
                Ints      a,
                Ints      b)
{
  const int16x8_t x = shorts_of (a), y = shorts_of (b);

  return (ShortDots) { vmlal_s16 (sums.low, vget_low_s16 (x), vget_low_s16 (y)),
                       vmlal_high_s16 (sums.high, x, y) };
}

INLINE Ints
sum_short_dots (ShortDots sums)
{
  return vpaddq_s32 (sums.low, sums.high);
}

/* --- floats --- */

INLINE Floats
splat_float (float value)
{
  return vdupq_n_f32 (value);
}

INLINE Floats
load_floats (const float *src)
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

/* The first or second of pairs of bfloat16. */
INLINE Floats
floats_of_pairs (const void *src,
                 bool        is_second)
{
  Ints pairs = load_ints (src);

  return vreinterpretq_f32_s32 (is_second ? vandq_s32 (pairs, splat_int ((int32_t) 0xffff0000))
                                          : vshlq_n_s32 (pairs, 16));
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

/* a × x[k] + sum; there are four values at @x. */
INLINE Floats
multiply_add_value (Floats       a,
                    const float *x,
                    size_t       k,
                    Floats       sum)
{
  const float32x4_t values = vld1q_f32 (x);

  switch (k)
    {
    case 0:
      return vfmaq_laneq_f32 (sum, a, values, 0);
    case 1:
      return vfmaq_laneq_f32 (sum, a, values, 1);
    case 2:
      return vfmaq_laneq_f32 (sum, a, values, 2);
    default:
      return vfmaq_laneq_f32 (sum, a, values, 3);
    }
}

INLINE Floats
add_floats (Floats a,
            Floats b)
{
  return vaddq_f32 (a, b);
}
