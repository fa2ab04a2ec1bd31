/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Rows of activations into their prepared forms, by the definition. */

#include "kernels/llk-run.h"
#include "kernels/portable/llk-portable.h"

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

/* The largest magnitude of the values that are not apart, as an integer, so that NaN counts as the
 * largest. */
static uint32_t
find_largest (const float *x,
              const bool  *is_apart,
              size_t       n)
{
  uint32_t bits = 0;

  for (size_t i = 0; i < n; i++)
    {
      uint32_t other = is_apart[i] ? 0 : llk_bits_of_float (x[i]) & 0x7fffffff;

      bits = bits > other ? bits : other;
    }
  return bits;
}

/* The sum of the squares that are not beyond @limit. */
static float
sum_squares (const float *x,
             size_t       n,
             float        limit)
{
  float lanes[64] = { 0 };

  for (size_t i = 0; i < n; i++)
    if (fabsf (x[i]) <= limit)
      lanes[i % 64] = fuse (x[i], x[i], lanes[i % 64]);
  for (size_t half = 32; half > 0; half /= 2)
    for (size_t i = 0; i < half; i++)
      lanes[i] = lanes[i] + lanes[i + half];
  return lanes[0];
}

static float
find_limit (const float *x,
            size_t       n)
{
  float limit = INFINITY;

  for (unsigned pass = 0; pass < LLK_APART_PASSES; pass++)
    {
      float sum = sum_squares (x, n, limit);

      if (!llk_activation_has_limit (sum))
        break;
      limit = llk_activation_get_limit (sum, n);
    }
  return limit;
}

/* Marks what is beyond @limit, as many values as there is room for. */
static void
find_apart (const float *x,
            size_t       n,
            float        limit,
            bool        *is_apart)
{
  size_t n_apart = 0;

  for (size_t i = 0; i < n; i++)
    {
      is_apart[i] = fabsf (x[i]) > limit && n_apart < LLK_N_APART;
      n_apart += is_apart[i];
    }
}

static void
quantize (const float      *x,
          size_t            n,
          float             limit,
          LlkActivationRun *run,
          LlkApart         *apart)
{
  bool is_apart[LLK_RUN] = { 0 };
  uint32_t bits = find_largest (x, is_apart, n);
  float magnitude, inverse;

  memset (run, 0, sizeof *run);
  if (bits >= 0x7f800000)
    {
      run->scale = llk_float_of_bits (0x7fc00000);
      return;
    }

  find_apart (x, n, limit, is_apart);
  for (size_t i = 0; i < n; i++)
    if (is_apart[i])
      apart[run->n_apart++] = (LlkApart) { x[i], (uint32_t) i };
  magnitude = llk_float_of_bits (find_largest (x, is_apart, n));
  if (magnitude < LLK_MIN_MAGNITUDE)
    return;

  inverse = 127 / magnitude;
  for (size_t i = 0; i < n; i++)
    run->q[i] = is_apart[i] ? 0 : (int8_t) (x[i] * inverse + LLK_ROUNDER - LLK_ROUNDER);
  run->scale = magnitude / 127;
  for (size_t i = 0; i < 16; i++)
    {
      run->sums[llk_activation_find_sum (i)] = sum_integers (run->q + 16 * i, 16);
      run->sum += run->sums[llk_activation_find_sum (i)];
    }
  for (size_t i = 0; i < 8; i++)
    run->long_sums[llk_activation_find_sum (i)] = sum_integers (run->q + 32 * i, 32);
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
  LlkApart *apart;
  float limit;

  memset (row, 0, llk_activation_bytes (form, n_in));
  switch (form)
    {
    case LLK_ACTIVATION_F32:
      memcpy (row, x, n * sizeof *x);
      break;
    case LLK_ACTIVATION_Q8:
      limit = find_limit (x, n);
      apart = (LlkApart *) llk_activation_get_apart (row, n_in);
      for (size_t i = 0; i < n; apart += runs[i / 256].n_apart, i += 256)
        quantize (x + i, n - i < 256 ? n - i : 256, limit, runs + i / 256, apart);
      llk_activation_finish_row (row, n_in);
      break;
    case LLK_ACTIVATION_BF16:
      prepare_bf16 (x, n, row);
      break;
    case LLK_N_ACTIVATIONS:
      break;
    }
}
