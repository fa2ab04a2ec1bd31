/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Vectors with AVX-512. What is left at the end of a vector is done with masks, by
 * the same instructions. Products and sums are spelled out as intrinsics: the
 * order of a row's additions is then the same in every instance of a loop,
 * however many rows it works on.
 */

#include "kernels/llk-thin.h"
#include "kernels/x86/llk-avx512.h"

#include <math.h>

/* Reads at @i what is left of @n values, at most sixteen; zeros behind. */
INLINE __m512
load_rest (const float *src,
           size_t       i,
           size_t       n)
{
  return _mm512_maskz_loadu_ps (first_lanes (n - i < 16 ? n - i : 16), src + i);
}

INLINE void
store_rest (float *dst,
            size_t i,
            size_t n,
            __m512 v)
{
  _mm512_mask_storeu_ps (dst + i, first_lanes (n - i < 16 ? n - i : 16), v);
}

static void
f32_to_f16 (const float *src,
            uint16_t    *dst,
            size_t       n)
{
  for (size_t i = 0; i < n; i += 16)
    _mm256_mask_storeu_epi16 (dst + i, first_lanes (n - i < 16 ? n - i : 16),
                              _mm512_cvtps_ph (load_rest (src, i, n),
                                               _MM_FROUND_TO_NEAREST_INT));
}

static void
f16_to_f32 (const uint16_t *src,
            float          *dst,
            size_t          n)
{
  for (size_t i = 0; i < n; i += 16)
    {
      __m256i halves = _mm256_maskz_loadu_epi16 (first_lanes (n - i < 16 ? n - i : 16), src + i);

      store_rest (dst, i, n, _mm512_cvtph_ps (halves));
    }
}

/* Disks and caches set the pace where whole rows are unpacked. */
static void
unpack (LlkType     type,
        const void *src,
        float      *dst,
        size_t      n)
{
  llk_avx2_vector.unpack (type, src, dst, n);
}

/* @n_rows is a constant in each instance. Four sums a row hide the latency of
 * one; four rows share the loads of w. */
INLINE void
dot_few_rows (const float *w,
              const float *x,
              size_t       x_stride,
              size_t       n_rows,
              size_t       n,
              float       *y,
              size_t       y_stride)
{
  __m512 sums[4][4];
  size_t i;

  for (size_t r = 0; r < n_rows; r++)
    for (size_t j = 0; j < 4; j++)
      sums[r][j] = _mm512_setzero_ps ();

  for (i = 0; i + 64 <= n; i += 64)
    {
      for (size_t j = 0; j < 4; j++)
        {
          __m512 values = _mm512_loadu_ps (w + i + 16 * j);

          for (size_t r = 0; r < n_rows; r++)
            sums[r][j] = _mm512_fmadd_ps (values, _mm512_loadu_ps (x + r * x_stride + i + 16 * j),
                                          sums[r][j]);
        }
    }
  for (; i < n; i += 16)
    for (size_t r = 0; r < n_rows; r++)
      sums[r][0] = _mm512_fmadd_ps (load_rest (w, i, n), load_rest (x + r * x_stride, i, n),
                                    sums[r][0]);

  for (size_t r = 0; r < n_rows; r++)
    y[r * y_stride] = sum_vector (_mm512_add_ps (_mm512_add_ps (sums[r][0], sums[r][1]),
                                                 _mm512_add_ps (sums[r][2], sums[r][3])));
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

  for (r = 0; r + 4 <= n_rows; r += 4)
    dot_few_rows (w, x + r * x_stride, x_stride, 4, n, y + r * y_stride, y_stride);
  for (; r < n_rows; r++)
    dot_few_rows (w, x + r * x_stride, x_stride, 1, n, y + r * y_stride, y_stride);
}

/* @n_rows is a constant in each instance: two rows share the loads of w. */
INLINE void
dot_outputs (const float *w,
             const float *x,
             size_t       x_stride,
             size_t       n_rows,
             size_t       n,
             float       *y,
             size_t       y_stride)
{
  __m512 sums[2][LLK_NARROW_OUTPUTS];

  for (size_t r = 0; r < n_rows; r++)
    for (size_t o = 0; o < LLK_NARROW_OUTPUTS; o++)
      sums[r][o] = _mm512_setzero_ps ();
  for (size_t i = 0; i < n; i += 16)
    for (size_t o = 0; o < LLK_NARROW_OUTPUTS; o++)
      {
        __m512 values = load_rest (w + o * n, i, n);

        for (size_t r = 0; r < n_rows; r++)
          sums[r][o] = _mm512_fmadd_ps (values, load_rest (x + r * x_stride, i, n), sums[r][o]);
      }
  for (size_t r = 0; r < n_rows; r++)
    for (size_t o = 0; o < LLK_NARROW_OUTPUTS; o++)
      y[r * y_stride + o] = sum_vector (sums[r][o]);
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
  enum { N = LLK_THIN_OUTPUTS / 16 };
  float columns[LLK_THIN_INPUTS * LLK_THIN_OUTPUTS];

  llk_thin_turn (w, n_in, n_out, columns);
  for (size_t r = 0; r < n_rows; r++, y += y_stride, x += x_stride)
    {
      __m512 sums[N];

      for (size_t v = 0; v < N; v++)
        sums[v] = 16 * v < n_out ? load_rest (y, 16 * v, n_out) : _mm512_setzero_ps ();
      for (size_t i = 0; i < n_in; i++)
        for (size_t v = 0; v < N; v++)
          sums[v] = _mm512_fmadd_ps (_mm512_loadu_ps (columns + i * LLK_THIN_OUTPUTS + 16 * v),
                                     _mm512_set1_ps (x[i]), sums[v]);
      for (size_t v = 0; v < N && 16 * v < n_out; v++)
        store_rest (y, 16 * v, n_out, sums[v]);
    }
}

static void
rms_norm (const float *x,
          const float *weight,
          float        eps,
          float       *y,
          size_t       n)
{
  float squares;
  __m512 factors;

  dot_few_rows (x, x, 0, 1, n, &squares, 0);
  factors = _mm512_set1_ps (1 / sqrtf (squares / (float) n + eps));
  for (size_t i = 0; i < n; i += 16)
    store_rest (y, i, n, _mm512_mul_ps (_mm512_mul_ps (load_rest (x, i, n), factors),
                                        load_rest (weight, i, n)));
}

static void
silu_mul (float       *gate,
          const float *up,
          size_t       n)
{
  const __m512 one = _mm512_set1_ps (1);

  for (size_t i = 0; i < n; i += 16)
    {
      __m512 x = load_rest (gate, i, n);
      __m512 below = _mm512_add_ps (one, exp_vector (_mm512_xor_ps (x, _mm512_set1_ps (-0.0f))));

      store_rest (gate, i, n, _mm512_mul_ps (_mm512_div_ps (x, below), load_rest (up, i, n)));
    }
}

/* llk_gelu() × up */
static void
gelu_mul (float       *gate,
          const float *up,
          size_t       n)
{
  const __m512 one = _mm512_set1_ps (1);

  for (size_t i = 0; i < n; i += 16)
    {
      __m512 x = load_rest (gate, i, n);
      __m512 cube = _mm512_mul_ps (
        _mm512_mul_ps (_mm512_mul_ps (_mm512_set1_ps (0.044715f), x), x), x);
      __m512 u = _mm512_mul_ps (_mm512_set1_ps (0.7978845608f), _mm512_add_ps (x, cube));
      __m512 below = _mm512_add_ps (one, exp_vector (_mm512_mul_ps (_mm512_set1_ps (-2), u)));

      store_rest (gate, i, n, _mm512_mul_ps (_mm512_div_ps (x, below), load_rest (up, i, n)));
    }
}

static void
add (float       *y,
     const float *x,
     size_t       n)
{
  for (size_t i = 0; i < n; i += 16)
    store_rest (y, i, n, _mm512_add_ps (load_rest (y, i, n), load_rest (x, i, n)));
}

const LlkVectorOps llk_avx512_vector = {
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
