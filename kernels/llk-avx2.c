/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * AVX2 with FMA and F16C. This file alone is compiled for these instructions,
 * so nothing here runs before llk_ops_list() found them. Products and sums are
 * spelled out as intrinsics: the order of a row's additions is then the same in
 * every instance of a loop, however many rows it works on.
 */

#include "kernels/llk-internal.h"

#include <immintrin.h>
#include <math.h>

#define INLINE static inline __attribute__ ((always_inline))

INLINE float
sum_vector (__m256 v)
{
  __m128 x = _mm_add_ps (_mm256_castps256_ps128 (v), _mm256_extractf128_ps (v, 1));

  x = _mm_add_ps (x, _mm_movehl_ps (x, x));
  x = _mm_add_ss (x, _mm_movehdup_ps (x));
  return _mm_cvtss_f32 (x);
}

/* Sums each of eight vectors: lane j of the result is the sum of v[j]. */
INLINE __m256
sum_vectors (const __m256 v[8])
{
  __m256 a = _mm256_hadd_ps (_mm256_hadd_ps (v[0], v[1]), _mm256_hadd_ps (v[2], v[3]));
  __m256 b = _mm256_hadd_ps (_mm256_hadd_ps (v[4], v[5]), _mm256_hadd_ps (v[6], v[7]));

  return _mm256_add_ps (_mm256_permute2f128_ps (a, b, 0x20),
                        _mm256_permute2f128_ps (a, b, 0x31));
}

/* llk_exp() of eight values; the order of operands lets NaN through. */
INLINE __m256
exp_vector (__m256 x)
{
  const __m256 rounder = _mm256_set1_ps (LLK_ROUNDER);
  __m256 rounded, n, r, p;
  __m256i exponent;

  x = _mm256_max_ps (_mm256_set1_ps (LLK_EXP_MIN), x);
  x = _mm256_min_ps (_mm256_set1_ps (LLK_EXP_MAX), x);
  rounded = _mm256_fmadd_ps (x, _mm256_set1_ps (LLK_LOG2_E), rounder);
  n = _mm256_sub_ps (rounded, rounder);
  r = _mm256_fnmadd_ps (n, _mm256_set1_ps (LLK_LN2_HIGH), x);
  r = _mm256_fnmadd_ps (n, _mm256_set1_ps (LLK_LN2_LOW), r);
  p = _mm256_set1_ps (1.0f / 5040);
  p = _mm256_fmadd_ps (p, r, _mm256_set1_ps (1.0f / 720));
  p = _mm256_fmadd_ps (p, r, _mm256_set1_ps (1.0f / 120));
  p = _mm256_fmadd_ps (p, r, _mm256_set1_ps (1.0f / 24));
  p = _mm256_fmadd_ps (p, r, _mm256_set1_ps (1.0f / 6));
  p = _mm256_fmadd_ps (p, r, _mm256_set1_ps (0.5f));
  p = _mm256_fmadd_ps (p, r, _mm256_set1_ps (1.0f));
  p = _mm256_fmadd_ps (p, r, _mm256_set1_ps (1.0f));
  exponent = _mm256_sub_epi32 (_mm256_castps_si256 (rounded), _mm256_castps_si256 (rounder));
  exponent = _mm256_slli_epi32 (_mm256_add_epi32 (exponent, _mm256_set1_epi32 (127)), 23);
  return _mm256_mul_ps (p, _mm256_castsi256_ps (exponent));
}

static void
f32_to_f16 (const float *src,
            uint16_t    *dst,
            size_t       n)
{
  size_t i;

  for (i = 0; i + 8 <= n; i += 8)
    _mm_storeu_si128 ((__m128i *) (void *) (dst + i),
                      _mm256_cvtps_ph (_mm256_loadu_ps (src + i), _MM_FROUND_TO_NEAREST_INT));
  for (; i < n; i++)
    dst[i] = llk_half_of_float (src[i]);
}

INLINE __m256
load_halves (const void *src)
{
  return _mm256_cvtph_ps (_mm_loadu_si128 (src));
}

static void
unpack_f16 (const uint8_t *src,
            float         *dst,
            size_t         n)
{
  size_t i;

  for (i = 0; i + 8 <= n; i += 8)
    _mm256_storeu_ps (dst + i, load_halves (src + 2 * i));
  for (; i < n; i++)
    dst[i] = llk_float_of_half (llk_load_u16 (src + 2 * i));
}

static void
f16_to_f32 (const uint16_t *src,
            float          *dst,
            size_t          n)
{
  unpack_f16 ((const uint8_t *) src, dst, n);
}

static void
unpack_bf16 (const uint8_t *src,
             float         *dst,
             size_t         n)
{
  size_t i;

  for (i = 0; i + 8 <= n; i += 8)
    {
      __m128i halves = _mm_loadu_si128 ((const __m128i *) (const void *) (src + 2 * i));
      __m256i bits = _mm256_slli_epi32 (_mm256_cvtepu16_epi32 (halves), 16);

      _mm256_storeu_ps (dst + i, _mm256_castsi256_ps (bits));
    }
  for (; i < n; i++)
    dst[i] = llk_float_of_bits ((uint32_t) llk_load_u16 (src + 2 * i) << 16);
}

/* Sixteen bytes to floats, times @scale. */
INLINE void
store_bytes (__m128i bytes,
             __m256  scale,
             float  *dst)
{
  __m256i low = _mm256_cvtepi8_epi32 (bytes);
  __m256i high = _mm256_cvtepi8_epi32 (_mm_srli_si128 (bytes, 8));

  _mm256_storeu_ps (dst, _mm256_mul_ps (scale, _mm256_cvtepi32_ps (low)));
  _mm256_storeu_ps (dst + 8, _mm256_mul_ps (scale, _mm256_cvtepi32_ps (high)));
}

INLINE __m256
load_scale (const uint8_t *src)
{
  return _mm256_broadcastss_ps (_mm_cvtph_ps (_mm_cvtsi32_si128 (llk_load_u16 (src))));
}

static void
unpack_q8_0 (const uint8_t *src,
             float         *dst,
             size_t         n)
{
  for (size_t block = 0; block < n / 32; block++, src += 34, dst += 32)
    {
      __m256 scale = load_scale (src);

      store_bytes (_mm_loadu_si128 ((const __m128i *) (const void *) (src + 2)), scale, dst);
      store_bytes (_mm_loadu_si128 ((const __m128i *) (const void *) (src + 18)), scale, dst + 16);
    }
}

static void
unpack_q4_0 (const uint8_t *src,
             float         *dst,
             size_t         n)
{
  const __m128i low_mask = _mm_set1_epi8 (15);
  const __m128i eight = _mm_set1_epi8 (8);

  for (size_t block = 0; block < n / 32; block++, src += 18, dst += 32)
    {
      __m256 scale = load_scale (src);
      __m128i bytes = _mm_loadu_si128 ((const __m128i *) (const void *) (src + 2));
      __m128i low = _mm_and_si128 (bytes, low_mask);
      __m128i high = _mm_and_si128 (_mm_srli_epi16 (bytes, 4), low_mask);

      store_bytes (_mm_sub_epi8 (low, eight), scale, dst);
      store_bytes (_mm_sub_epi8 (high, eight), scale, dst + 16);
    }
}

static void
unpack (LlkType     type,
        const void *src,
        float      *dst,
        size_t      n)
{
  switch (type)
    {
    case LLK_F32:
      memcpy (dst, src, n * sizeof (float));
      break;
    case LLK_F16:
      unpack_f16 (src, dst, n);
      break;
    case LLK_BF16:
      unpack_bf16 (src, dst, n);
      break;
    case LLK_Q8_0:
      unpack_q8_0 (src, dst, n);
      break;
    case LLK_Q4_0:
      unpack_q4_0 (src, dst, n);
      break;
    }
}

/* @n_rows is a constant in each instance. Four sums a row hide the latency of
 * one; three rows share the loads of w and just fit into the registers. */
INLINE void
dot_few_rows (const float *w,
              const float *x,
              size_t       x_stride,
              size_t       n_rows,
              size_t       n,
              float       *y,
              size_t       y_stride)
{
  __m256 sums[3][4];
  size_t i;

  for (size_t r = 0; r < n_rows; r++)
    for (size_t j = 0; j < 4; j++)
      sums[r][j] = _mm256_setzero_ps ();

  for (i = 0; i + 32 <= n; i += 32)
    {
      for (size_t j = 0; j < 4; j++)
        {
          __m256 values = _mm256_loadu_ps (w + i + 8 * j);

          for (size_t r = 0; r < n_rows; r++)
            sums[r][j] = _mm256_fmadd_ps (values, _mm256_loadu_ps (x + r * x_stride + i + 8 * j),
                                          sums[r][j]);
        }
    }
  for (; i + 8 <= n; i += 8)
    for (size_t r = 0; r < n_rows; r++)
      sums[r][0] = _mm256_fmadd_ps (_mm256_loadu_ps (w + i),
                                    _mm256_loadu_ps (x + r * x_stride + i), sums[r][0]);

  for (size_t r = 0; r < n_rows; r++)
    {
      float sum = sum_vector (_mm256_add_ps (_mm256_add_ps (sums[r][0], sums[r][1]),
                                             _mm256_add_ps (sums[r][2], sums[r][3])));

      for (size_t t = i; t < n; t++)
        sum += w[t] * x[r * x_stride + t];
      y[r * y_stride] = sum;
    }
}

static void
dot_rows (const float *w,
          const float *x,
          size_t       x_stride,
          size_t       n_rows,
          size_t       n,
          float       *y,
          size_t       y_stride)
{
  size_t r;

  for (r = 0; r + 3 <= n_rows; r += 3)
    dot_few_rows (w, x + r * x_stride, x_stride, 3, n, y + r * y_stride, y_stride);
  for (; r < n_rows; r++)
    dot_few_rows (w, x + r * x_stride, x_stride, 1, n, y + r * y_stride, y_stride);
}

static void
rms_norm (const float *x,
          const float *weight,
          float        eps,
          float       *y,
          size_t       n)
{
  float squares, factor;
  __m256 factors;
  size_t i;

  dot_few_rows (x, x, 0, 1, n, &squares, 0);
  factor = 1 / sqrtf (squares / (float) n + eps);
  factors = _mm256_set1_ps (factor);
  for (i = 0; i + 8 <= n; i += 8)
    _mm256_storeu_ps (y + i, _mm256_mul_ps (_mm256_mul_ps (_mm256_loadu_ps (x + i), factors),
                                            _mm256_loadu_ps (weight + i)));
  for (; i < n; i++)
    y[i] = x[i] * factor * weight[i];
}

static void
silu_mul (float       *gate,
          const float *up,
          size_t       n)
{
  const __m256 one = _mm256_set1_ps (1);
  const __m256 sign = _mm256_set1_ps (-0.0f);
  size_t i;

  for (i = 0; i + 8 <= n; i += 8)
    {
      __m256 x = _mm256_loadu_ps (gate + i);
      __m256 below = _mm256_add_ps (one, exp_vector (_mm256_xor_ps (x, sign)));

      _mm256_storeu_ps (gate + i, _mm256_mul_ps (_mm256_div_ps (x, below),
                                                 _mm256_loadu_ps (up + i)));
    }
  for (; i < n; i++)
    gate[i] = gate[i] / (1 + llk_exp (-gate[i])) * up[i];
}

static void
add (float       *y,
     const float *x,
     size_t       n)
{
  size_t i;

  for (i = 0; i + 8 <= n; i += 8)
    _mm256_storeu_ps (y + i, _mm256_add_ps (_mm256_loadu_ps (y + i), _mm256_loadu_ps (x + i)));
  for (; i < n; i++)
    y[i] += x[i];
}

INLINE __m256
load_values (const void *rows,
             size_t      index,
             bool        is_half)
{
  if (is_half)
    return load_halves ((const uint16_t *) rows + index);

  return _mm256_loadu_ps ((const float *) rows + index);
}

INLINE float
load_value (const void *rows,
            size_t      index,
            bool        is_half)
{
  if (is_half)
    return llk_float_of_half (((const uint16_t *) rows)[index]);

  return ((const float *) rows)[index];
}

/* q·K of eight slots from @first on. Lanes past the last slot repeat it, and
 * lanes outside the mask hold whatever is there: the caller drops both. */
INLINE __m256
score_slots (const float *q,
             const void  *k,
             size_t       head_dim,
             size_t       first,
             size_t       n_slots,
             bool         is_half)
{
  __m256 sums[8];
  size_t start[8];
  __m256 scores;
  size_t i;

  for (size_t j = 0; j < 8; j++)
    {
      sums[j] = _mm256_setzero_ps ();
      start[j] = (first + j < n_slots ? first + j : n_slots - 1) * head_dim;
    }
  for (i = 0; i + 8 <= head_dim; i += 8)
    {
      __m256 values = _mm256_loadu_ps (q + i);

      for (size_t j = 0; j < 8; j++)
        sums[j] = _mm256_fmadd_ps (values, load_values (k, start[j] + i, is_half), sums[j]);
    }
  scores = sum_vectors (sums);

  if (i < head_dim)
    {
      float rest[8] = { 0 };

      for (; i < head_dim; i++)
        for (size_t j = 0; j < 8; j++)
          rest[j] += q[i] * load_value (k, start[j] + i, is_half);
      scores = _mm256_add_ps (scores, _mm256_loadu_ps (rest));
    }

  return scores;
}

/* All ones in the lanes whose bit is set. */
INLINE __m256
expand_mask (uint8_t bits)
{
  const __m256i lane_bits = _mm256_setr_epi32 (1, 2, 4, 8, 16, 32, 64, 128);
  __m256i set = _mm256_and_si256 (_mm256_set1_epi32 (bits), lane_bits);

  return _mm256_castsi256_ps (_mm256_cmpeq_epi32 (set, lane_bits));
}

INLINE float
max_lane (__m256 v)
{
  __m128 x = _mm_max_ps (_mm256_castps256_ps128 (v), _mm256_extractf128_ps (v, 1));

  x = _mm_max_ps (x, _mm_movehl_ps (x, x));
  x = _mm_max_ss (x, _mm_movehdup_ps (x));
  return _mm_cvtss_f32 (x);
}

/* acc = acc × correction + sum of p × V over the slots listed. */
INLINE void
add_values (float         *acc,
            const void    *v,
            size_t         head_dim,
            const uint8_t *slots,
            size_t         n_set,
            const float   *p,
            float          correction,
            bool           is_half)
{
  const __m256 corrections = _mm256_set1_ps (correction);
  size_t i;

  for (i = 0; i + 32 <= head_dim; i += 32)
    {
      __m256 sums[4];

      for (size_t j = 0; j < 4; j++)
        sums[j] = _mm256_mul_ps (_mm256_loadu_ps (acc + i + 8 * j), corrections);
      for (size_t t = 0; t < n_set; t++)
        {
          size_t start = slots[t] * head_dim + i;
          __m256 weight = _mm256_set1_ps (p[slots[t]]);

          for (size_t j = 0; j < 4; j++)
            sums[j] = _mm256_fmadd_ps (weight, load_values (v, start + 8 * j, is_half), sums[j]);
        }
      for (size_t j = 0; j < 4; j++)
        _mm256_storeu_ps (acc + i + 8 * j, sums[j]);
    }
  for (; i < head_dim; i++)
    {
      float sum = acc[i] * correction;

      for (size_t t = 0; t < n_set; t++)
        sum += p[slots[t]] * load_value (v, slots[t] * head_dim + i, is_half);
      acc[i] = sum;
    }
}

/* Slots outside the mask add exact zeros to the sum and are not read for V, so
 * a row's result does not depend on how many slots behind it are written. */
INLINE void
attend (const float       *q,
        const void        *k,
        const void        *v,
        size_t             head_dim,
        size_t             n_slots,
        uint64_t           mask,
        float              scale,
        LlkAttentionState *state,
        float             *probabilities,
        bool               is_half)
{
  const __m256 lowest = _mm256_set1_ps (-INFINITY);
  float p[LLK_ATTENTION_MAX_SLOTS];
  uint8_t slots[LLK_ATTENTION_MAX_SLOTS];
  size_t n_set = 0;
  __m256 max_vector = lowest;
  __m256 sum = _mm256_setzero_ps ();
  float max, correction;

  if (n_slots < LLK_ATTENTION_MAX_SLOTS)
    mask &= ((uint64_t) 1 << n_slots) - 1;
  if (mask == 0)
    {
      if (probabilities != NULL)
        memset (probabilities, 0, n_slots * sizeof (float));
      return;
    }

  for (uint64_t rest = mask; rest != 0; rest &= rest - 1)
    slots[n_set++] = (uint8_t) __builtin_ctzll (rest);

  for (size_t first = 0; first < n_slots; first += 8)
    {
      uint8_t bits = (uint8_t) (mask >> first);
      __m256 scores = lowest;

      if (bits != 0)
        {
          scores = _mm256_mul_ps (score_slots (q, k, head_dim, first, n_slots, is_half),
                                  _mm256_set1_ps (scale));
          scores = _mm256_blendv_ps (lowest, scores, expand_mask (bits));
          max_vector = _mm256_max_ps (max_vector, scores);
        }
      _mm256_storeu_ps (p + first, scores);
    }

  max = max_lane (max_vector);
  max = max > state->max ? max : state->max;
  correction = llk_exp (state->max - max);

  for (size_t first = 0; first < n_slots; first += 8)
    {
      __m256 weights = exp_vector (_mm256_sub_ps (_mm256_loadu_ps (p + first),
                                                  _mm256_set1_ps (max)));

      weights = _mm256_and_ps (weights, expand_mask ((uint8_t) (mask >> first)));
      sum = _mm256_add_ps (sum, weights);
      _mm256_storeu_ps (p + first, weights);
    }

  add_values (state->acc, v, head_dim, slots, n_set, p, correction, is_half);
  state->sum = state->sum * correction + sum_vector (sum);
  state->max = max;
  if (probabilities != NULL)
    memcpy (probabilities, p, n_slots * sizeof (float));
}

static void
attend_f32 (const float       *q,
            const float       *k,
            const float       *v,
            size_t             head_dim,
            size_t             n_slots,
            uint64_t           mask,
            float              scale,
            LlkAttentionState *state,
            float             *probabilities)
{
  attend (q, k, v, head_dim, n_slots, mask, scale, state, probabilities, false);
}

static void
attend_f16 (const float       *q,
            const uint16_t    *k,
            const uint16_t    *v,
            size_t             head_dim,
            size_t             n_slots,
            uint64_t           mask,
            float              scale,
            LlkAttentionState *state,
            float             *probabilities)
{
  attend (q, k, v, head_dim, n_slots, mask, scale, state, probabilities, true);
}

const LlkOps llk_ops_avx2 = {
  .name = "avx2",
  .unpack = unpack,
  .dot_rows = dot_rows,
  .rms_norm = rms_norm,
  .silu_mul = silu_mul,
  .add = add,
  .f32_to_f16 = f32_to_f16,
  .f16_to_f32 = f16_to_f32,
  .attend_f32 = attend_f32,
  .attend_f16 = attend_f16,
};
