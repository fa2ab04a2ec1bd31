/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Packed keys and values with NEON. */

#include "kernels/arm/llk-neon.h"

typedef struct
{
  float32x4_t v[4];
} Sixteen;

INLINE Sixteen
splat_all (float value)
{
  Sixteen y;

  for (size_t i = 0; i < 4; i++)
    y.v[i] = vdupq_n_f32 (value);
  return y;
}

INLINE Sixteen
load_all (const float *src)
{
  Sixteen y;

  for (size_t i = 0; i < 4; i++)
    y.v[i] = vld1q_f32 (src + 4 * i);
  return y;
}

INLINE Sixteen
load_all_halves (const void *src)
{
  Sixteen y;

  for (size_t i = 0; i < 4; i++)
    y.v[i] = load_halves ((const uint16_t *) src + 4 * i);
  return y;
}

INLINE void
store_all (float   *dst,
           Sixteen  x)
{
  for (size_t i = 0; i < 4; i++)
    vst1q_f32 (dst + 4 * i, x.v[i]);
}

INLINE void
store_all_halves (void    *dst,
                  Sixteen  x)
{
  for (size_t i = 0; i < 4; i++)
    vst1_u16 ((uint16_t *) dst + 4 * i, vreinterpret_u16_f16 (vcvt_f16_f32 (x.v[i])));
}

INLINE Sixteen
load_all_codes (const uint8_t *src,
                unsigned       bits)
{
  Sixteen y;

  for (size_t i = 0; i < 4; i++)
    y.v[i] = bits == 8 ? load_bytes (src + 4 * i) : load_codes (src, bits, 8 * i);
  return y;
}

INLINE void
store_codes_8 (uint8_t *dst,
               Sixteen  codes)
{
  int16x8_t low = vcombine_s16 (vmovn_s32 (vcvtq_s32_f32 (codes.v[0])),
                                vmovn_s32 (vcvtq_s32_f32 (codes.v[1])));
  int16x8_t high = vcombine_s16 (vmovn_s32 (vcvtq_s32_f32 (codes.v[2])),
                                 vmovn_s32 (vcvtq_s32_f32 (codes.v[3])));

  vst1q_u8 (dst, vreinterpretq_u8_s8 (vcombine_s8 (vmovn_s16 (low), vmovn_s16 (high))));
}

/* Codes at even places in the lower word, and those at odd ones. */
INLINE uint64_t
join_codes (Sixteen  codes,
            unsigned bits)
{
  uint32x4_t words = vdupq_n_u32 (0);
  uint64x2_t pairs;

  for (int32_t i = 0; i < 4; i++)
    {
      int32x4_t shifts = vaddq_s32 (get_code_shifts (bits), vdupq_n_s32 (8 * i));

      words = vorrq_u32 (words, vshlq_u32 (vcvtq_u32_f32 (codes.v[i]), shifts));
    }
  pairs = vreinterpretq_u64_u32 (words);
  return vgetq_lane_u64 (pairs, 0) | vgetq_lane_u64 (pairs, 1);
}

INLINE void
store_codes_4 (uint8_t *dst,
               Sixteen  codes)
{
  uint64_t words = join_codes (codes, 4);

  memcpy (dst, &words, sizeof words);
}

INLINE void
store_codes_3 (uint8_t *dst,
               Sixteen  codes)
{
  static const int32_t places[] = { 0, 1, 2, 3 };
  uint32_t highest = 0, word;
  Sixteen lower;
  uint64_t words;

  for (int32_t i = 0; i < 4; i++)
    {
      uint32x4_t all = vcvtq_u32_f32 (codes.v[i]);
      int32x4_t shifts = vaddq_s32 (vld1q_s32 (places), vdupq_n_s32 (4 * i));

      lower.v[i] = vcvtq_f32_u32 (vandq_u32 (all, vdupq_n_u32 (3)));
      highest |= vaddvq_u32 (vshlq_u32 (vshrq_n_u32 (all, 2), shifts));
    }
  words = join_codes (lower, 2);
  word = (uint32_t) (words | words >> 32);
  memcpy (dst, &word, sizeof word);
  memcpy (dst + sizeof word, &highest, 2);
}

INLINE void
store_codes_2 (uint8_t *dst,
               Sixteen  codes)
{
  uint64_t words = join_codes (codes, 2);
  uint32_t word = (uint32_t) (words | words >> 32);

  memcpy (dst, &word, sizeof word);
}

INLINE Sixteen
add_all (Sixteen a,
         Sixteen b)
{
  Sixteen y;

  for (size_t i = 0; i < 4; i++)
    y.v[i] = vaddq_f32 (a.v[i], b.v[i]);
  return y;
}

INLINE Sixteen
subtract_all (Sixteen a,
              Sixteen b)
{
  Sixteen y;

  for (size_t i = 0; i < 4; i++)
    y.v[i] = vsubq_f32 (a.v[i], b.v[i]);
  return y;
}

INLINE Sixteen
multiply_all (Sixteen a,
              Sixteen b)
{
  Sixteen y;

  for (size_t i = 0; i < 4; i++)
    y.v[i] = vmulq_f32 (a.v[i], b.v[i]);
  return y;
}

INLINE Sixteen
min_all (Sixteen a,
         Sixteen b)
{
  Sixteen y;

  for (size_t i = 0; i < 4; i++)
    y.v[i] = vminq_f32 (a.v[i], b.v[i]);
  return y;
}

INLINE Sixteen
max_all (Sixteen a,
         Sixteen b)
{
  Sixteen y;

  for (size_t i = 0; i < 4; i++)
    y.v[i] = vmaxq_f32 (a.v[i], b.v[i]);
  return y;
}

INLINE Sixteen
clear_infinite (Sixteen x)
{
  for (size_t i = 0; i < 4; i++)
    {
      uint32x4_t finite = vceqzq_f32 (vsubq_f32 (x.v[i], x.v[i]));

      x.v[i] = vreinterpretq_f32_u32 (vandq_u32 (vreinterpretq_u32_f32 (x.v[i]), finite));
      x.v[i] = vaddq_f32 (x.v[i], vdupq_n_f32 (0));
    }
  return x;
}

/* Of a square of four: rows become columns. */
INLINE void
transpose_four (float32x4_t square[4])
{
  float32x4x2_t upper = vtrnq_f32 (square[0], square[1]);
  float32x4x2_t lower = vtrnq_f32 (square[2], square[3]);

  for (size_t i = 0; i < 2; i++)
    {
      square[i] = vcombine_f32 (vget_low_f32 (upper.val[i]), vget_low_f32 (lower.val[i]));
      square[2 + i] = vcombine_f32 (vget_high_f32 (upper.val[i]), vget_high_f32 (lower.val[i]));
    }
}

/* Of sixteen, by squares of four. */
INLINE void
transpose (Sixteen square[16])
{
  Sixteen result[16];

  for (size_t i = 0; i < 4; i++)
    for (size_t j = 0; j < 4; j++)
      {
        float32x4_t four[4];

        for (size_t k = 0; k < 4; k++)
          four[k] = square[4 * i + k].v[j];
        transpose_four (four);
        for (size_t k = 0; k < 4; k++)
          result[4 * j + k].v[i] = four[k];
      }
  memcpy (square, result, sizeof result);
}

#include "kernels/llk-kv-passes.h"

const LlkKvOps llk_neon_kv = { pack, unpack };
