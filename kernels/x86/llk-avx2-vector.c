/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * AVX2 with FMA and F16C. This file alone is compiled for these instructions,
 * so nothing here runs before llk_ops_list() found them. Products and sums are
 * spelled out as intrinsics: the order of a row's additions is then the same in
 * every instance of a loop, however many rows it works on.
 */

#include "kernels/llk-thin.h"
#include "kernels/x86/llk-avx2.h"

#include <math.h>

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
    default:
      llk_portable_vector.unpack (type, src, dst, n);
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

/* @n_rows is a constant in each instance: two rows share the loads of w, and four outputs at a time fit into
 * the registers. */
INLINE void
dot_outputs (const float *w,
             const float *x,
             size_t       x_stride,
             size_t       n_rows,
             size_t       n,
             float       *y,
             size_t       y_stride)
{
  for (size_t first = 0; first < LLK_NARROW_OUTPUTS; first += 4)
    {
      __m256 sums[2][4];
      size_t i;

      for (size_t r = 0; r < n_rows; r++)
        for (size_t o = 0; o < 4; o++)
          sums[r][o] = _mm256_setzero_ps ();
      for (i = 0; i + 8 <= n; i += 8)
        for (size_t o = 0; o < 4; o++)
          {
            __m256 values = _mm256_loadu_ps (w + (first + o) * n + i);

            for (size_t r = 0; r < n_rows; r++)
              sums[r][o] = _mm256_fmadd_ps (values, _mm256_loadu_ps (x + r * x_stride + i), sums[r][o]);
          }
      for (size_t r = 0; r < n_rows; r++)
        for (size_t o = 0; o < 4; o++)
          {
            float sum = sum_vector (sums[r][o]);

            for (size_t t = i; t < n; t++)
              sum = fmaf (w[(first + o) * n + t], x[r * x_stride + t], sum);
            y[r * y_stride + first + o] = sum;
          }
    }
}

static void
dot_narrow (const float *w,
            const float *x,
            size_t       x_stride,
            size_t       n_rows,
            size_t       n,
            float       *y,
            size_t       y_stride)
{
  size_t r = 0;

  for (; r + 2 <= n_rows; r += 2)
    dot_outputs (w, x + r * x_stride, x_stride, 2, n, y + r * y_stride, y_stride);
  for (; r < n_rows; r++)
    dot_outputs (w, x + r * x_stride, x_stride, 1, n, y + r * y_stride, y_stride);
}

static void
add_thin (const float *w,
          const float *x,
          size_t       x_stride,
          size_t       n_rows,
          size_t       n_in,
          size_t       n_out,
          float       *y,
          size_t       y_stride)
{
  float columns[LLK_THIN_INPUTS * LLK_THIN_OUTPUTS];

  llk_thin_turn (w, n_in, n_out, columns);
  for (size_t r = 0; r < n_rows; r++, y += y_stride, x += x_stride)
    {
      size_t o = 0;

      for (; o + 32 <= n_out; o += 32)
        {
          __m256 sums[4];

          for (size_t v = 0; v < 4; v++)
            sums[v] = _mm256_loadu_ps (y + o + 8 * v);
          for (size_t i = 0; i < n_in; i++)
            for (size_t v = 0; v < 4; v++)
              sums[v] = _mm256_fmadd_ps (_mm256_loadu_ps (columns + i * LLK_THIN_OUTPUTS + o + 8 * v),
                                         _mm256_set1_ps (x[i]), sums[v]);
          for (size_t v = 0; v < 4; v++)
            _mm256_storeu_ps (y + o + 8 * v, sums[v]);
        }
      for (; o < n_out; o++)
        for (size_t i = 0; i < n_in; i++)
          y[o] = fmaf (columns[i * LLK_THIN_OUTPUTS + o], x[i], y[o]);
    }
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

static void
gelu_mul (float       *gate,
          const float *up,
          size_t       n)
{
  for (size_t i = 0; i < n; i++)
    gate[i] = llk_gelu (gate[i]) * up[i];
}

const LlkVectorOps llk_avx2_vector = {
  .unpack = unpack,
  .dot_rows = dot_rows,
  .dot_narrow = dot_narrow,
  .add_thin = add_thin,
  .rms_norm = rms_norm,
  .silu_mul = silu_mul,
  .gelu_mul = gelu_mul,
  .add = add,
  .f32_to_f16 = f32_to_f16,
  .f16_to_f32 = f16_to_f32,
};
