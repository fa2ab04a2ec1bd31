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

/* The largest magnitude of the values that are not outliers, as an integer, so that NaN counts as the
 * largest. */
static uint32_t
find_largest (const float *x,
              const bool  *is_outlier,
              size_t       n)
{
  uint32_t bits = 0;

  for (size_t i = 0; i < n; i++)
    {
      uint32_t other = is_outlier[i] ? 0 : llk_bits_of_float (x[i]) & 0x7fffffff;

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

  for (unsigned pass = 0; pass < LLK_OUTLIER_PASSES; pass++)
    if (!llk_activation_lower_limit (&limit, sum_squares (x, n, limit), n))
      break;
  return limit;
}

/* Marks what is beyond @limit, as many values as there is room for. */
static void
find_outliers (const float *x,
               size_t       n,
               float        limit,
               bool        *is_outlier)
{
  size_t n_outliers = 0;

  for (size_t i = 0; i < n; i++)
    {
      is_outlier[i] = fabsf (x[i]) > limit && n_outliers < LLK_MAX_OUTLIERS;
      n_outliers += is_outlier[i];
    }
}

static void
quantize (const float      *x,
          size_t            n,
          float             limit,
          LlkActivationRun *run,
          LlkOutlier       *outliers)
{
  bool is_outlier[LLK_RUN] = { 0 };
  uint32_t bits = find_largest (x, is_outlier, n);
  float magnitude, inverse;

  memset (run, 0, sizeof *run);
  if (bits >= 0x7f800000)
    {
      run->scale = llk_float_of_bits (0x7fc00000);
      return;
    }

  find_outliers (x, n, limit, is_outlier);
  for (size_t i = 0; i < n; i++)
    if (is_outlier[i])
      outliers[run->n_outliers++] = (LlkOutlier) { x[i], (uint32_t) i };
  magnitude = llk_float_of_bits (find_largest (x, is_outlier, n));
  if (magnitude < LLK_MIN_MAGNITUDE)
    return;

  inverse = 127 / magnitude;
  for (size_t i = 0; i < n; i++)
    run->q[i] = is_outlier[i] ? 0 : (int8_t) (x[i] * inverse + LLK_ROUNDER - LLK_ROUNDER);
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
  LlkOutlier *outliers;
  float limit;

  memset (row, 0, llk_activation_bytes (form, n_in));
  switch (form)
    {
    case LLK_ACTIVATION_F32:
      memcpy (row, x, n * sizeof *x);
      break;
    case LLK_ACTIVATION_Q8:
      limit = find_limit (x, n);
      outliers = (LlkOutlier *) llk_activation_get_outliers (row, n_in);
      for (size_t i = 0; i < n; outliers += runs[i / 256].n_outliers, i += 256)
        quantize (x + i, n - i < 256 ? n - i : 256, limit, runs + i / 256, outliers);
      llk_activation_finish_row (row, n_in);
      break;
    case LLK_ACTIVATION_BF16:
      prepare_bf16 (x, n, row);
      break;
    case LLK_N_ACTIVATIONS:
      break;
    }
}
