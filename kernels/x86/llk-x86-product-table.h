/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The products of one set of instructions: an instance of the loops for each
 * type, and the table of them. The file that includes this puts the table into
 * its LlkProductOps.
 */

#pragma once

#include "kernels/x86/llk-x86-product.h"
#include "kernels/x86/llk-x86-product-float.h"
#include "kernels/x86/llk-x86-product-run.h"

/* Enough for the streams to run for a while, and what threads may share out of a
 * small matrix. */
#define N_PANELS 8

#define DEFINE_BLOCKS(name, type)                                                              \
  static void                                                                                  \
  add_turn_##name (size_t n_rows, const uint8_t *section, const uint8_t *ahead,                \
                   const Rows *rows, size_t run, size_t last, Sums *sums)                      \
  {                                                                                            \
    add_turn (type, n_rows, section, ahead, rows, run, last, sums);                            \
  }                                                                                            \
                                                                                               \
  static void                                                                                  \
  multiply_##name (const LlkMatrix *w, size_t first, size_t n_panels, const void *rows,        \
                   size_t n_rows, float *y, size_t y_stride, bool is_added, void *scratch)     \
  {                                                                                            \
    multiply_blocks (w, add_turn_##name, first, n_panels, rows, n_rows, y, y_stride, is_added, \
                     scratch);                                                                 \
  }

#define DEFINE_FLOATS(name, type)                                                              \
  static void                                                                                  \
  multiply_##name (const LlkMatrix *w, size_t first, size_t n_panels, const void *rows,        \
                   size_t n_rows, float *y, size_t y_stride, bool is_added, void *scratch)     \
  {                                                                                            \
    (void) scratch;                                                                            \
    multiply_floats (w, type, first, n_panels, rows, n_rows, y, y_stride, is_added);           \
  }

DEFINE_FLOATS (f32, LLK_F32)
DEFINE_FLOATS (f16, LLK_F16)
DEFINE_FLOATS (bf16, LLK_BF16)
DEFINE_BLOCKS (q8_0, LLK_Q8_0)
DEFINE_BLOCKS (q4_0, LLK_Q4_0)
DEFINE_BLOCKS (q4_1, LLK_Q4_1)
DEFINE_BLOCKS (q5_0, LLK_Q5_0)
DEFINE_BLOCKS (q5_1, LLK_Q5_1)
DEFINE_BLOCKS (q2_k, LLK_Q2_K)
DEFINE_BLOCKS (q3_k, LLK_Q3_K)
DEFINE_BLOCKS (q4_k, LLK_Q4_K)
DEFINE_BLOCKS (q5_k, LLK_Q5_K)
DEFINE_BLOCKS (q6_k, LLK_Q6_K)
DEFINE_BLOCKS (iq4_nl, LLK_IQ4_NL)
DEFINE_BLOCKS (iq4_xs, LLK_IQ4_XS)
DEFINE_BLOCKS (mxfp4, LLK_MXFP4)

/* Terms of eight rows. */
static size_t
get_scratch (LlkType type,
             size_t  n_in)
{
  return measure_terms (type, n_in);
}

#define FLOATS(name) { LLK_ACTIVATION_F32, N_PANELS, get_scratch, multiply_##name }
#define BLOCKS(name) { LLK_ACTIVATION_Q8, N_PANELS, get_scratch, multiply_##name }

static const LlkProduct products[LLK_TYPE_LIMIT] = {
  [LLK_F32] = FLOATS (f32),
  [LLK_F16] = FLOATS (f16),
  [LLK_BF16] = FLOATS (bf16),
  [LLK_Q8_0] = BLOCKS (q8_0),
  [LLK_Q4_0] = BLOCKS (q4_0),
  [LLK_Q4_1] = BLOCKS (q4_1),
  [LLK_Q5_0] = BLOCKS (q5_0),
  [LLK_Q5_1] = BLOCKS (q5_1),
  [LLK_Q2_K] = BLOCKS (q2_k),
  [LLK_Q3_K] = BLOCKS (q3_k),
  [LLK_Q4_K] = BLOCKS (q4_k),
  [LLK_Q5_K] = BLOCKS (q5_k),
  [LLK_Q6_K] = BLOCKS (q6_k),
  [LLK_IQ4_NL] = BLOCKS (iq4_nl),
  [LLK_IQ4_XS] = BLOCKS (iq4_xs),
  [LLK_MXFP4] = BLOCKS (mxfp4),
};

/* There is no faster arithmetic for prompts without a matrix unit. */
static const LlkProduct *
find_product (LlkType    type,
              LlkRowKind kind)
{
  (void) kind;
  return &products[type];
}
