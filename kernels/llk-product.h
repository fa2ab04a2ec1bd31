/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Products of packed weights with rows of activations. Rows are prepared once
 * for all matrices they meet, in the form that the product wants, then each
 * call multiplies some panels with all rows. A result depends on its row, its
 * weights and the kind of row alone: never on how many rows are multiplied
 * together, nor on how panels are shared out.
 */

#pragma once

#include "kernels/llk-panel.h"

#include <stdbool.h>

/* Kinds of rows: what is generated one row at a time is bound by the bytes of
 * the weights, a prompt by arithmetic. */
typedef enum
{
  LLK_ROWS_PROMPT,
  LLK_ROWS_GENERATED,   /* and drafted rows that are verified */
  LLK_N_ROW_KINDS,
} LlkRowKind;

/*
 * Prepared forms of a row of n values. "q" are integers in [-127, 127] with
 * x ≈ scale × q: with m the largest magnitude of the block, scale = m / 127 and
 * q = x × (127 / m) rounded to nearest even, all in float. A block with m below
 * 1e-30 is all zeros with scale 0. A block that holds a NaN or an infinity has
 * scale NaN (0x7fc00000) and zeros: every output of that row is then NaN, on
 * every set of instructions.
 */
typedef enum
{
  LLK_ACTIVATION_F32,    /* n floats, filled up with zeros to a multiple of 16 */
  LLK_ACTIVATION_Q8,     /* int8 q[n up to a multiple of 64, filled with zeros]; float scale of
                          * each 32, zeros up to a multiple of 16 floats; int32 sum of q of each
                          * 32, likewise; int32 sum of the first 16 of each 32, likewise */
  LLK_ACTIVATION_Q8_256, /* int8 q as above; float scale of each 256 (the last may be short),
                          * zeros up to a multiple of 16 floats */
  LLK_ACTIVATION_BF16,   /* n rounded to bfloat16 (nearest even), filled up with zeros to a
                          * multiple of 64 */
  LLK_N_ACTIVATIONS,
} LlkActivation;

/* Bytes of one prepared row of @n values: a multiple of 64. */
size_t llk_activation_bytes (LlkActivation form, size_t n);
/* Byte offsets of the scales and the sums in it. */
size_t llk_activation_scales (LlkActivation form, size_t n);
size_t llk_activation_sums   (LlkActivation form, size_t n);
/* Of the sums of the first 16 of each 32. */
size_t llk_activation_half_sums (LlkActivation form, size_t n);

/*
 * The products of generated rows, bit for bit the same on every set. "×" and
 * "fma" are rounded to float once each; q, a and S are the row's integers, scale
 * and sum of q for 32 inputs. Each output has one accumulator, from 0, along
 * the inputs; for each 32 inputs, with w the weights' integers less their zero
 * point or looked up in their table, and dot = sum of w × q, exact:
 *
 *   acc = fma (dot, d × a, acc)
 *
 * d is the float scale of the 32 weights: d, or d × scale of a K-quant, which is
 * exact in float. With a minimum (which K-quants subtract), next:
 *
 *   acc = fma (min, a × S, acc)          Q4_1, Q5_1
 *   acc = fma (-(dmin × m), a × S, acc)  Q4_K, Q5_K
 *
 * With a scale for each 16 inputs, 0 the first and 1 the second half of 32:
 *
 *   acc = fma (dot0, d0 × a, acc), acc = fma (dot1, d1 × a, acc)   Q6_K, Q3_K, Q2_K
 *   acc = fma (-(dmin × m0), a × S0, acc), then m1 and S1          Q2_K
 *
 * F32, F16 and BF16: input i goes to accumulator i mod 4 of its output by
 * acc = fma (w, x, acc), and the product is (acc0 + acc1) + (acc2 + acc3).
 *
 * With is_added, the product is added to y at the end. Which NaN comes out of
 * several is open.
 */

typedef struct
{
  LlkActivation activation;

  /* Panels that one call should have for best speed; any number is right. */
  unsigned n_panels;

  /* Bytes of scratch memory that a caller of multiply() has to bring, 64-byte
   * aligned; 0 when it needs none. */
  size_t (*get_scratch) (LlkType type, size_t n_in);

  /* y[r * y_stride + o] = sum over the inputs of w[o, i] × x[r, i], for the
   * outputs o of panels [@first, @first + @n_panels) that are below n_out;
   * added to what y holds with @is_added. @rows are @n_rows prepared rows,
   * llk_activation_bytes() apart, 64-byte aligned. */
  void   (*multiply) (const LlkMatrix *w, size_t first, size_t n_panels, const void *rows,
                      size_t n_rows, float *y, size_t y_stride, bool is_added, void *scratch);
} LlkProduct;

typedef struct
{
  /* One row of @n floats into its prepared form. */
  void (*prepare) (LlkActivation form, const float *x, size_t n, void *row);

  /* Never NULL for a type that llk_type_is_known(). */
  const LlkProduct *(*find) (LlkType type, LlkRowKind kind);
} LlkProductOps;
