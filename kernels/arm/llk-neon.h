/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the files for NEON share. */

#pragma once

#include "kernels/llk-kv-layout.h"

#include <arm_neon.h>

#define INLINE static inline __attribute__ ((always_inline))

/* LlkProductOps.prepare of all sets. */
void llk_neon_prepare (LlkActivation form, const float *x, size_t n, size_t n_in, void *row);

/* llk_exp() of four values; NaN stays one. */
INLINE float32x4_t
exp_vector (float32x4_t x)
{
  const float32x4_t rounder = vdupq_n_f32 (LLK_ROUNDER);
  float32x4_t rounded, n, r, p;
  int32x4_t exponent;

  x = vmaxq_f32 (x, vdupq_n_f32 (LLK_EXP_MIN));
  x = vminq_f32 (x, vdupq_n_f32 (LLK_EXP_MAX));
  rounded = vfmaq_f32 (rounder, x, vdupq_n_f32 (LLK_LOG2_E));
  n = vsubq_f32 (rounded, rounder);
  r = vfmsq_f32 (x, n, vdupq_n_f32 (LLK_LN2_HIGH));
  r = vfmsq_f32 (r, n, vdupq_n_f32 (LLK_LN2_LOW));
  p = vdupq_n_f32 (1.0f / 5040);
  p = vfmaq_f32 (vdupq_n_f32 (1.0f / 720), p, r);
  p = vfmaq_f32 (vdupq_n_f32 (1.0f / 120), p, r);
  p = vfmaq_f32 (vdupq_n_f32 (1.0f / 24), p, r);
  p = vfmaq_f32 (vdupq_n_f32 (1.0f / 6), p, r);
  p = vfmaq_f32 (vdupq_n_f32 (0.5f), p, r);
  p = vfmaq_f32 (vdupq_n_f32 (1.0f), p, r);
  p = vfmaq_f32 (vdupq_n_f32 (1.0f), p, r);
  exponent = vsubq_s32 (vreinterpretq_s32_f32 (rounded), vreinterpretq_s32_f32 (rounder));
  exponent = vshlq_n_s32 (vaddq_s32 (exponent, vdupq_n_s32 (127)), 23);
  return vmulq_f32 (p, vreinterpretq_f32_s32 (exponent));
}

INLINE float32x4_t
load_halves (const void *src)
{
  return vcvt_f32_f16 (vreinterpret_f16_u16 (vld1_u16 (src)));
}

/* How far the code of each lane lies from the lowest bit of its word; of each further four it
 * is 8 more. */
INLINE int32x4_t
get_code_shifts (unsigned bits)
{
  static const int32_t shifts_4[] = { 0, 0, 4, 4 };
  static const int32_t shifts_2[] = { 0, 2, 4, 6 };

  return vld1q_s32 (bits == 4 ? shifts_4 : shifts_2);
}

/* Four signed bytes. */
INLINE float32x4_t
load_bytes (const uint8_t *src)
{
  uint32_t bytes;

  memcpy (&bytes, src, sizeof bytes);
  return vcvtq_f32_s32 (
    vmovl_s16 (vget_low_s16 (vmovl_s8 (vreinterpret_s8_u32 (vdup_n_u32 (bytes))))));
}

/* Four of sixteen codes of 4, 3 or 2 bits, @shift 0, 8, 16 or 24 bits higher in their words. */
INLINE float32x4_t
load_codes (const uint8_t *src,
            unsigned       bits,
            size_t         shift)
{
  int32x4_t shifts = vnegq_s32 (vaddq_s32 (get_code_shifts (bits), vdupq_n_s32 ((int32_t) shift)));
  uint16_t highest;
  uint64_t words;
  uint32_t word;
  uint32x4_t codes;

  if (bits == 4)
    {
      memcpy (&words, src, sizeof words);
      codes = vshlq_u32 (vreinterpretq_u32_u64 (vdupq_n_u64 (words)), shifts);
      return vcvtq_f32_u32 (vandq_u32 (codes, vdupq_n_u32 (15)));
    }
  memcpy (&word, src, sizeof word);
  codes = vandq_u32 (vshlq_u32 (vdupq_n_u32 (word), shifts), vdupq_n_u32 (3));
  if (bits == 3)
    {
      static const int32_t places[] = { 0, -1, -2, -3 };
      uint32x4_t tops;

      memcpy (&highest, src + sizeof word, sizeof highest);
      tops = vshlq_u32 (vdupq_n_u32 (((uint32_t) highest << 2) >> shift / 2), vld1q_s32 (places));
      codes = vorrq_u32 (codes, vandq_u32 (tops, vdupq_n_u32 (4)));
    }
  return vcvtq_f32_u32 (codes);
}

/* Half a byte of four groups of sixteen, those from @at on. */
INLINE int32x4_t
load_halves_of_bytes (const uint8_t *src,
                      size_t         at)
{
  uint32x4_t bytes;
  uint32_t word;

  memcpy (&word, src + at % 8, sizeof word);
  bytes = vmovl_u16 (vget_low_u16 (vmovl_u8 (vreinterpret_u8_u32 (vdup_n_u32 (word)))));
  bytes = at < 8 ? bytes : vshrq_n_u32 (bytes, 4);
  return vreinterpretq_s32_u32 (vandq_u32 (bytes, vdupq_n_u32 (15)));
}

INLINE float32x4_t
load_nibbles (const uint8_t *src,
              size_t         at)
{
  return vcvtq_f32_s32 (load_halves_of_bytes (src, at));
}

/* @base: the largest of the part. */
INLINE float32x4_t
load_steps (const uint8_t *src,
            size_t         at,
            uint8_t        base)
{
  int32x4_t places = load_halves_of_bytes (src, at), twice = vshlq_n_s32 (places, 1);
  int32x4_t far = vsubq_s32 (vaddq_s32 (vshlq_n_s32 (places, 2), twice), vdupq_n_s32 (32));
  int32x4_t codes = vsubq_s32 (vdupq_n_s32 (base + LLK_KV_LEAST_STEP), vmaxq_s32 (twice, far));

  return vreinterpretq_f32_s32 (vshlq_n_s32 (codes, 20));
}
