/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Rows of activations into their prepared forms, by the definition. */

#include "kernels/portable/llk-portable.h"

/* Below this a run counts as zero: its inverse would come near the largest float. */
#define MIN_MAGNITUDE 1e-30f

/* The sum of @n integers, a multiple of 16. */
static int16_t
sum_integers (const int8_t *q,
              size_t        n)
{
  int sum = 0;

  for (size_t i = 0; i < n; i++)
    sum += q[i];
  return (int16_t) sum;
}

/* The place of sum @i among the others. */
static size_t
find_sum (size_t i)
{
  return i / 4 * 4 + i % 2 * 2 + i % 4 / 2;
}

static void
quantize (const float      *x,
          size_t            n,
          LlkActivationRun *run)
{
  uint32_t bits = 0;
  float magnitude, inverse;

  memset (run, 0, sizeof *run);
  /* As integers, so that NaN counts as the largest. */
  for (size_t i = 0; i < n; i++)
    {
      uint32_t other = llk_bits_of_float (x[i]) & 0x7fffffff;

      bits = bits > other ? bits : other;
    }
  magnitude = llk_float_of_bits (bits);

  if (bits >= 0x7f800000 || magnitude < MIN_MAGNITUDE)
    {
      run->scale = bits >= 0x7f800000 ? llk_float_of_bits (0x7fc00000) : 0;
      return;
    }

  inverse = 127 / magnitude;
  for (size_t i = 0; i < n; i++)
    run->q[i] = (int8_t) (x[i] * inverse + LLK_ROUNDER - LLK_ROUNDER);
  run->scale = magnitude / 127;
  for (size_t i = 0; i < 16; i++)
    {
      run->sums[find_sum (i)] = sum_integers (run->q + 16 * i, 16);
      run->sum += run->sums[find_sum (i)];
    }
  for (size_t i = 0; i < 8; i++)
    run->long_sums[find_sum (i)] = sum_integers (run->q + 32 * i, 32);
}

static void
prepare_bf16 (const float *x,
              size_t       n,
              uint8_t     *row)
{
  uint16_t *dst = (uint16_t *) (void *) row;

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
                      size_t        n_in,
                      void         *row)
{
  LlkActivationRun *runs = row;

  memset (row, 0, llk_activation_bytes (form, n_in));
  switch (form)
    {
    case LLK_ACTIVATION_F32:
      memcpy (row, x, n * sizeof *x);
      break;
    case LLK_ACTIVATION_Q8:
      for (size_t i = 0; i < n; i += 256)
        quantize (x + i, n - i < 256 ? n - i : 256, runs + i / 256);
      break;
    case LLK_ACTIVATION_BF16:
      prepare_bf16 (x, n, row);
      break;
    case LLK_N_ACTIVATIONS:
      break;
    }
}
