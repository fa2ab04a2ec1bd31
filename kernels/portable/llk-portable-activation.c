/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Rows of activations into their prepared forms, by the definition. */

#include "kernels/portable/llk-portable.h"

/* Below this a block counts as zero: its inverse would come near the largest float. */
#define MIN_MAGNITUDE 1e-30f

/* Integers of @n values to @q; returns their scale. */
static float
quantize (const float *x,
          size_t       n,
          int8_t      *q)
{
  uint32_t bits = 0;
  float magnitude, inverse;

  /* As integers, so that NaN counts as the largest. */
  for (size_t i = 0; i < n; i++)
    {
      uint32_t other = llk_bits_of_float (x[i]) & 0x7fffffff;

      bits = bits > other ? bits : other;
    }
  magnitude = llk_float_of_bits (bits);

  if (bits >= 0x7f800000 || magnitude < MIN_MAGNITUDE)
    {
      memset (q, 0, n);
      return bits >= 0x7f800000 ? llk_float_of_bits (0x7fc00000) : 0;
    }

  inverse = 127 / magnitude;
  for (size_t i = 0; i < n; i++)
    q[i] = (int8_t) (x[i] * inverse + LLK_ROUNDER - LLK_ROUNDER);

  return magnitude / 127;
}

static int32_t
sum_integers (const int8_t *q,
              size_t        n)
{
  int32_t sum = 0;

  for (size_t i = 0; i < n; i++)
    sum += q[i];

  return sum;
}

static void
prepare_integers (LlkActivation form,
                  const float  *x,
                  size_t        n,
                  uint8_t      *row)
{
  size_t block = form == LLK_ACTIVATION_Q8 ? 32 : 256;
  int8_t *q = (int8_t *) row;
  float *scales = (float *) (void *) (row + llk_activation_scales (form, n));
  int32_t *sums = (int32_t *) (void *) (row + llk_activation_sums (form, n));
  int32_t *half_sums = (int32_t *) (void *) (row + llk_activation_half_sums (form, n));

  memset (row, 0, llk_activation_bytes (form, n));
  for (size_t b = 0; b * block < n; b++, q += block)
    {
      size_t left = n - b * block;

      scales[b] = quantize (x + b * block, left < block ? left : block, q);
      if (form == LLK_ACTIVATION_Q8)
        {
          half_sums[b] = sum_integers (q, 16);
          sums[b] = half_sums[b] + sum_integers (q + 16, 16);
        }
    }
}

static void
prepare_bf16 (const float *x,
              size_t       n,
              uint8_t     *row)
{
  uint16_t *dst = (uint16_t *) (void *) row;

  memset (row, 0, llk_activation_bytes (LLK_ACTIVATION_BF16, n));
  for (size_t i = 0; i < n; i++)
    {
      uint32_t bits = llk_bits_of_float (x[i]);
      uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
      uint32_t quiet = bits >> 16 | 0x40;

      dst[i] = (uint16_t) ((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
    }
}

void
llk_portable_prepare (LlkActivation form,
                      const float  *x,
                      size_t        n,
                      void         *row)
{
  switch (form)
    {
    case LLK_ACTIVATION_F32:
      memset (row, 0, llk_activation_bytes (form, n));
      memcpy (row, x, n * sizeof *x);
      break;
    case LLK_ACTIVATION_Q8:
    case LLK_ACTIVATION_Q8_256:
      prepare_integers (form, x, n, row);
      break;
    case LLK_ACTIVATION_BF16:
      prepare_bf16 (x, n, row);
      break;
    case LLK_N_ACTIVATIONS:
      break;
    }
}
