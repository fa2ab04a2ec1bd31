/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the files for NEON share. */

#pragma once

#include "kernels/llk-internal.h"

#include <arm_neon.h>

#define INLINE static inline __attribute__ ((always_inline))

/* Rows into their prepared forms, the same for all sets. */
void llk_neon_prepare (LlkActivation form, const float *x, size_t n, void *row);

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
