/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Products of packed weights with rows of activations. Rows are prepared once
 * for all matrices they meet, in the form that the product wants, then each
 * call multiplies some panels with all rows. A result depends on its row and its
 * weights alone: never on how many rows are multiplied together, on how panels are
 * shared out, nor on the pieces that the inputs were cut into.
 */

#pragma once

#include "kernels/llk-panel.h"

#include <stdbool.h>

/*
 * Prepared forms of a row of n values. Of a run, "q" are integers in [-127, 127] with
 * x ≈ scale × q. A few values of a row are often much larger than all others and would take the
 * steps from them: these, the outliers, stay as they are, with zeros at their places in q.
 *
 * Outliers are those with |x| > limit, of each run the first LLK_MAX_OUTLIERS at most.
 * From limit = infinity, three times limit = 6 × sqrt (S / n), S being the sum of x × x over
 * |x| <= limit (NaN is not), by fma in 64 lanes, i mod 64, and these by halves: 0 with 32, with
 * 16, 8 … 1. An S that is infinite or below 1e-30 ends that: the limit stays as it is.
 *
 * With m the largest magnitude of a run's others, scale = m / 127 and q = x × (127 / m) rounded to
 * nearest even, all in float. Where m is below 1e-30 scale is 0 and all q are. A run whose others
 * hold a NaN or an infinity has scale NaN (0x7fc00000), zeros and no outliers: every output of
 * that row is then NaN, on every set of instructions.
 *
 * Behind the runs is u8 n_outliers of each, and zeros up to a multiple of 64 bytes; then all outliers
 * one behind the other, an LlkOutlier each, with room for as many as there could be.
 */
#define LLK_MAX_OUTLIERS 14
typedef enum
{
  LLK_ACTIVATION_F32,    /* floats, filled up with zeros to a multiple of 16 */
  LLK_ACTIVATION_Q8,     /* an LlkActivationRun for each 256, the last filled with zeros */
  LLK_ACTIVATION_BF16,   /* rounded to bfloat16 (nearest even), filled up with zeros to a
                          * multiple of 64 */
  LLK_N_ACTIVATIONS,
} LlkActivation;

typedef struct
{
  int8_t q[256];
  int16_t sums[16];       /* of q of each 16; of each four sums the first and the third, then the
                           * second and the fourth, as minima lie in panels */
  int16_t long_sums[8];   /* of q of each 32, likewise */
  float scale;
  int32_t sum;            /* of all q */
  uint32_t first_outlier; /* its first outlier, among the row's */
  uint8_t n_outliers;
  uint8_t unused[3];      /* zero */
} LlkActivationRun;

typedef struct
{
  float x;
  uint32_t place;         /* in its run, ascending */
} LlkOutlier;

/* Bytes of one prepared row of @n values: a multiple of 64. */
size_t llk_activation_bytes (LlkActivation form, size_t n);

/*
 * The definition. "×" and "fma" are rounded to float once each. Each output has two
 * accumulators, from 0, along the inputs; for each run of up to 256 inputs (llk-run.h),
 * with dot = sum of w × q and min_dot = sum over the blocks of m × (sum of q), both
 * exact, and a the row's scale:
 *
 *   acc = fma (dot, scale × a, acc)
 *   acc = fma (min_dot, min_scale × a, acc)     types with minima
 *   outliers = fma (weight, x, outliers)        for each outlier x, as they lie
 *
 * The product is acc + outliers. weight is W × step, or fma (m, min_scale, W × step): it is not
 * rounded to w. Most of what that rounding costs would come from the few large values.
 *
 * F32, F16 and BF16: input i goes to accumulator i mod 4 of its output by
 * acc = fma (w, x, acc), and the product is (acc0 + acc1) + (acc2 + acc3). F16 and BF16 on
 * tiles: of each 32 inputs, from 0 and with what is denormal as zero, even inputs to one sum
 * and odd ones to another, by fma in order, then acc += even + odd.
 *
 * With is_added, the product is added to y at the end. Which NaN comes out of
 * several is open.
 */

#define LLK_FEW_ROWS 32

typedef struct
{
  LlkActivation activation;

  /* Panels that one call should have for best speed; any number is right. */
  unsigned n_panels;

  /* Bytes of scratch memory that a caller of multiply() has to bring, 64-byte
   * aligned; 0 when it needs none. With at most LLK_FEW_ROWS rows few_scratch is enough. */
  size_t scratch, few_scratch;

  /* y[r * y_stride + o] = sum over the inputs of w[o, i] × x[r, i], for the
   * outputs o of panels [@first, @first + @n_panels) that are below n_out;
   * added to what y holds with @is_added. @rows are @n_rows prepared rows,
   * llk_activation_bytes() of all inputs apart, 64-byte aligned. A row that a piece is not
   * multiplied with is zero in its inputs. */
  void (*multiply) (const LlkMatrix *w, size_t first, size_t n_panels, const void *rows,
                    size_t n_rows, float *y, size_t y_stride, bool is_added, void *scratch);
} LlkProduct;

typedef struct
{
  /* One row of @n floats into its prepared form, with zeros behind them up to @n_in. */
  void (*prepare) (LlkActivation form, const float *x, size_t n, size_t n_in, void *row);

  /* Never NULL for a type that llk_type_is_known(). */
  const LlkProduct *(*find) (LlkType type);
} LlkProductOps;
