/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Functions on whole vectors of floats, and weights as floats: what a
 * transformer does beside products and attention.
 */

#pragma once

#include "kernels/llk-types.h"

#define LLK_NARROW_OUTPUTS 8
#define LLK_THIN_INPUTS 64
#define LLK_THIN_OUTPUTS 64

typedef struct
{
  /* Weights as a file stores them to floats: @n values, a multiple of the
   * type's block. Exact. */
  void (*unpack) (LlkType type, const void *src, float *dst, size_t n);

  /* y[r * y_stride] = sum over i < n of w[i] × x[r * x_stride + i], for each
   * r < n_rows. Relative error of a sum of n floats in blocks. */
  void (*dot_rows) (const float *w, const float *x, size_t x_stride, size_t n_rows, size_t n,
                    float *y, size_t y_stride);

  /* y[r * y_stride + o] = sum over i < n of w[o * n + i] × x[r * x_stride + i], for each r < n_rows and
   * o < LLK_NARROW_OUTPUTS: of a matrix with few outputs, whose rows share the loads of x. Error as of
   * dot_rows(), a row's bits are the same with any others. */
  void (*dot_narrow) (const float *w, const float *x, size_t x_stride, size_t n_rows, size_t n,
                      float *y, size_t y_stride);

  /* y[r * y_stride + o] += sum over i < n_in of w[o * n_in + i] × x[r * x_stride + i], for each
   * r < n_rows and o < n_out, of at most LLK_THIN_INPUTS and LLK_THIN_OUTPUTS: of a matrix with few inputs.
   * The sum begins with y and goes on input by input, each rounded once; the same on every processor. */
  void (*add_thin) (const float *w, const float *x, size_t x_stride, size_t n_rows, size_t n_in,
                    size_t n_out, float *y, size_t y_stride);

  /* y[i] = x[i] / sqrt (mean (x²) + eps) × weight[i]. @y may be @x. */
  void (*rms_norm) (const float *x, const float *weight, float eps, float *y, size_t n);

  /* gate[i] = silu (gate[i]) × up[i] */
  void (*silu_mul) (float *gate, const float *up, size_t n);

  /* gate[i] = gelu (gate[i]) × up[i], by the tanh form:
   * x/2 × (1 + tanh (sqrt (2/π) × (x + 0.044715 x³))) */
  void (*gelu_mul) (float *gate, const float *up, size_t n);

  /* y[i] += x[i] */
  void (*add) (float *y, const float *x, size_t n);

  void (*f32_to_f16) (const float *src, uint16_t *dst, size_t n);
  void (*f16_to_f32) (const uint16_t *src, float *dst, size_t n);
} LlkVectorOps;
