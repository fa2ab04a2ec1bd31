/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the instruction sets share; no other folder includes it. */

#pragma once

#include "kernels/llk.h"

#include <math.h>
#include <string.h>

/* Parts of the sets of instructions; llk-dispatch.c puts sets together. Each
 * may be called on processors and systems with its instructions only. */
extern const LlkVectorOps llk_portable_vector;
extern const LlkProductOps llk_portable_product;
extern const LlkAttention llk_portable_attention;
extern const LlkKvOps llk_portable_kv;
extern const LlkW8Ops llk_portable_w8;

#ifdef LLK_X86
extern const LlkVectorOps llk_avx2_vector;         /* AVX2, FMA, F16C */
extern const LlkProductOps llk_avx2_product;
extern const LlkAttention llk_avx2_attention;
extern const LlkKvOps llk_avx2_kv;
extern const LlkW8Ops llk_avx2_w8;
extern const LlkAttention llk_avx512_attention;
extern const LlkKvOps llk_avx512_kv;
extern const LlkAttention llk_amx_attention;
extern const LlkProductOps llk_avxvnni_product;    /* and AVX-VNNI */
extern const LlkW8Ops llk_avxvnni_w8;
extern const LlkVectorOps llk_avx512_vector;       /* AVX-512 F, BW, DQ, VL, VBMI, VNNI */
extern const LlkProductOps llk_avx512_product;
extern const LlkW8Ops llk_avx512_w8;
extern const LlkProductOps llk_amx_product;        /* and AMX int8 and bfloat16 */
#endif

#ifdef LLK_ARM
extern const LlkVectorOps llk_neon_vector;         /* of every aarch64 */
extern const LlkProductOps llk_neon_product;
extern const LlkAttention llk_neon_attention;
extern const LlkKvOps llk_neon_kv;
extern const LlkW8Ops llk_neon_w8;
extern const LlkProductOps llk_dotprod_product;    /* and dot products of bytes */
extern const LlkW8Ops llk_dotprod_w8;
extern const LlkProductOps llk_i8mm_product;       /* and matrix instructions for bytes */
#endif

static inline float
llk_float_of_bits (uint32_t bits)
{
  float value;

  memcpy (&value, &bits, sizeof value);
  return value;
}

static inline uint32_t
llk_bits_of_float (float value)
{
  uint32_t bits;

  memcpy (&bits, &value, sizeof bits);
  return bits;
}

/* Tensors may lie at any address of a mapped file. */
static inline uint16_t
llk_load_u16 (const void *src)
{
  uint16_t value;

  memcpy (&value, src, sizeof value);
  return value;
}

/* The half's bits in a float's places, and the difference of the exponents'
 * biases made up for by an exact product, which also normalizes what was below
 * the half's normal range. No branches, so that loops over it are vectorised. */
static inline float
llk_float_of_half (uint16_t half)
{
  uint32_t sign = (uint32_t) (half & 0x8000) << 16;
  uint32_t shifted = (uint32_t) (half & 0x7fff) << 13;
  uint32_t finite = llk_bits_of_float (llk_float_of_bits (shifted) * 0x1p112f);
  uint32_t special = shifted | 0x7f800000; /* infinity and NaN keep their fraction */

  return llk_float_of_bits (sign | (shifted >= 0x0f800000 ? special : finite));
}

/* Rounds to nearest, ties to even, as the conversion instructions do. */
static inline uint16_t
llk_half_of_float (float value)
{
  uint32_t bits = llk_bits_of_float (value);
  uint16_t sign = (uint16_t) (bits >> 16 & 0x8000);
  uint32_t magnitude = bits & 0x7fffffff;

  if (magnitude > 0x7f800000) /* NaN: quiet, with the top of its fraction */
    return sign | 0x7e00 | (uint16_t) (magnitude >> 13 & 0x1ff);
  if (magnitude >= 0x477ff000) /* what rounds to 65536 or more */
    return sign | 0x7c00;
  if (magnitude < 0x38800000)
    {
      /* Below the normal range, a sum with 0.5 leaves the units of 2^-24 in the
       * low bits, rounded by the adder. */
      float shifted = llk_float_of_bits (magnitude) + 0.5f;

      return sign | (uint16_t) (llk_bits_of_float (shifted) - 0x3f000000);
    }
  magnitude += 0xfff + (magnitude >> 13 & 1);
  return sign | (uint16_t) ((magnitude - (112u << 23)) >> 13);
}

#define LLK_EXP_MIN (-87.0f)
#define LLK_EXP_MAX 88.0f
#define LLK_LOG2_E 1.44269504f
/* ln 2 in two parts: n times the first is exact for the n that occur. */
#define LLK_LN2_HIGH 0.693145751953125f
#define LLK_LN2_LOW 1.42860682e-6f
/* Added and taken away again it rounds to an integer, which then lies in the low bits. */
#define LLK_ROUNDER 12582912.0f

/* e^x within 3 units in the last place for x in [-87, 88], the value at the
 * border outside. 2^n × e^r with |r| ≤ ln 2 / 2, e^r by its series to r^7. No
 * branches, so that loops over it are vectorised. */
static inline float
llk_exp (float x)
{
  float rounded, n, r, p;
  uint32_t exponent;

  x = x < LLK_EXP_MIN ? LLK_EXP_MIN : x;
  x = x > LLK_EXP_MAX ? LLK_EXP_MAX : x;
  rounded = x * LLK_LOG2_E + LLK_ROUNDER;
  n = rounded - LLK_ROUNDER;
  r = x - n * LLK_LN2_HIGH - n * LLK_LN2_LOW;
  p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  exponent = (llk_bits_of_float (rounded) - llk_bits_of_float (LLK_ROUNDER) + 127) << 23;
  return p * llk_float_of_bits (exponent);
}

/* x / (1 + e^-2u) with u = sqrt (2/π) × (x + 0.044715 x³): the same as
 * x/2 × (1 + tanh (u)). */
static inline float
llk_gelu (float x)
{
  float u = 0.7978845608f * (x + 0.044715f * x * x * x);

  return x / (1 + llk_exp (-2 * u));
}

/* Below this a run, of activations or of weights' scales, counts as zero: its inverse would come
 * near the largest float. */
#define LLK_MIN_MAGNITUDE 1e-30f

/* Outliers of a row of activations are beyond so many times the root mean square of the
 * others. */
#define LLK_OUTLIER_LIMIT 6.0f
/* So often those others are found. */
#define LLK_OUTLIER_PASSES 3

/* Lowers @limit to what follows from @sum, of the squares of @n values that are not beyond it.
 * Of squares that overflow, or come near the smallest floats, none is told from the others:
 * returns whether the limit holds. */
static inline bool
llk_activation_lower_limit (float *limit,
                            float  sum,
                            size_t n)
{
  if (sum < 1e-30f || !(sum < llk_float_of_bits (0x7f800000)))
    return false;

  *limit = sqrtf (sum / (float) n) * LLK_OUTLIER_LIMIT;
  return true;
}

/* The place of the sum of block @b among the sums of a run of activations. */
static inline size_t
llk_activation_find_sum (size_t b)
{
  return b / 4 * 4 + b % 2 * 2 + b % 4 / 2;
}

/* A run's values @x beyond @limit to @outliers, as many as there is room for; the others to
 * @rest. */
static inline void
llk_activation_put_outliers (const float      *x,
                             float             limit,
                             float            *rest,
                             LlkActivationRun *run,
                             LlkOutlier       *outliers)
{
  for (size_t i = 0; i < 256; i++)
    {
      const bool is_outlier = fabsf (x[i]) > limit && run->n_outliers < LLK_MAX_OUTLIERS;

      rest[i] = is_outlier ? 0 : x[i];
      if (is_outlier)
        outliers[run->n_outliers++] = (LlkOutlier) { x[i], (uint32_t) i };
    }
}

/* Where a row of @n_in values has the n_outliers of its runs, and then the outliers. */
static inline const uint8_t *
llk_activation_get_counts (const void *row,
                           size_t      n_in)
{
  return (const uint8_t *) row + (n_in + 255) / 256 * sizeof (LlkActivationRun);
}

static inline const LlkOutlier *
llk_activation_get_outliers (const void *row,
                             size_t      n_in)
{
  const size_t n_runs = (n_in + 255) / 256;

  return (const void *) (llk_activation_get_counts (row, n_in) + (n_runs + 63) / 64 * 64);
}

/* The counts to their place, and where each run's outliers begin. */
static inline void
llk_activation_finish_row (void  *row,
                           size_t n_in)
{
  const size_t n_runs = (n_in + 255) / 256;
  LlkActivationRun *runs = row;
  uint8_t *counts = (uint8_t *) row + n_runs * sizeof *runs;
  uint32_t n = 0;

  memset (counts, 0, (n_runs + 63) / 64 * 64);
  for (size_t i = 0; i < n_runs; i++)
    {
      counts[i] = runs[i].n_outliers;
      runs[i].first_outlier = n;
      n += runs[i].n_outliers;
    }
}

/* Whether one of the queries sees a slot of @chunk. */
static inline bool
llk_attention_is_seen (size_t                   chunk,
                       const LlkAttentionQuery *queries,
                       size_t                   n_queries)
{
  for (size_t i = 0; i < n_queries; i++)
    if (queries[i].masks[chunk] != 0)
      return true;

  return false;
}
