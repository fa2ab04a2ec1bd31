/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The products of one set of instructions: an instance for each type, and the table
 * of them. The file that includes this puts the table into its LlkProductOps.
 */

#pragma once

#include "kernels/llk-panel-product.h"
#include "kernels/llk-panel-product-float.h"

/* Enough for the streams to run for a while, and what threads may share out of a
 * small matrix. */
#define N_PANELS 8

#define DEFINE_ROW(name, type)                                                                 \
  static void                                                                                  \
  add_row_##name (const uint8_t *run, const uint8_t *ahead, size_t n,                          \
                  const LlkActivationRun *x, const LlkOutlier *values, float *sums,            \
                  float *outliers)                                                             \
  {                                                                                            \
    if (n == LLK_RUN)                                                                          \
      add_row (type, run, ahead, LLK_RUN, x, values, sums, outliers);                          \
    else                                                                                       \
      add_row (type, run, ahead, n, x, values, sums, outliers);                                \
  }                                                                                            \
                                                                                               \
  static void                                                                                  \
  add_outliers_##name (const RunParts *run, size_t panel, size_t n_panels,                     \
                       const RowOutliers *outliers, float *sums, size_t panel_sums)            \
  {                                                                                            \
    add_outliers (type, run, panel, n_panels, outliers, sums, panel_sums);                     \
  }                                                                                            \
                                                                                               \
  static void                                                                                  \
  load_scales_##name (const uint8_t *run, float *scales, float *min_scales)                    \
  {                                                                                            \
    load_run_scales (type, run, scales, min_scales);                                           \
  }

#define DEFINE_PARTS(name, type)                                                               \
  static void                                                                                  \
  add_parts_##name (const RunParts *parts, size_t panel, const LlkActivationRun *x,            \
                    const LlkOutlier *values, float *sums, float *outliers)                    \
  {                                                                                            \
    add_parts (type, parts, panel, x, values, sums, outliers);                                 \
  }

#define DEFINE_STORE(name, type)                                                               \
  static void                                                                                  \
  store_##name (const uint8_t *part, const uint8_t *ahead, size_t n, int8_t *groups)           \
  {                                                                                            \
    store_part (type, part, ahead, n, groups);                                                 \
  }

#define DEFINE_MINIMA(name, type)                                                              \
  static void                                                                                  \
  store_minima_##name (const uint8_t *part, int16_t *minima)                                   \
  {                                                                                            \
    store_part_minima (type, part, minima);                                                    \
  }

#define DEFINE_OPS(name, type, store_it, minima, parts)                                        \
  static const TypeOps ops_##name = {                                                          \
    .add_row = add_row_##name,                                                                 \
    .add_parts = parts,                                                                        \
    .add_outliers = add_outliers_##name,                                                       \
    .store = store_it,                                                                         \
    .store_minima = minima,                                                                    \
    .n_minima = minima == NULL ? 0 : type == LLK_Q2_K ? 8 : 4,                                 \
    .block = type == LLK_Q2_K ? 16 : 32,                                                       \
    .load_scales = load_scales_##name,                                                         \
    .zero_point = type == LLK_Q4_K || type == LLK_Q5_K ? 128 : 0,                              \
  };                                                                                           \
                                                                                               \
  static void                                                                                  \
  multiply_##name (const LlkMatrix *w, size_t first, size_t n_panels, const void *rows,        \
                   size_t n_rows, float *y, size_t y_stride, bool is_added, void *scratch)     \
  {                                                                                            \
    multiply_runs (w, &ops_##name, first, n_panels, rows, n_rows, y, y_stride, is_added);      \
  }

#define DEFINE_BYTES(name, type)                                                               \
  DEFINE_ROW (name, type)                                                                      \
  DEFINE_PARTS (name, type)                                                                    \
  DEFINE_OPS (name, type, store_bytes, NULL, add_parts_##name)
#define DEFINE_CODES(name, type)                                                               \
  DEFINE_ROW (name, type)                                                                      \
  DEFINE_PARTS (name, type)                                                                    \
  DEFINE_STORE (name, type)                                                                    \
  DEFINE_OPS (name, type, store_##name, NULL, add_parts_##name)
#define DEFINE_CODES_AND_MINIMA(name, type)                                                    \
  DEFINE_ROW (name, type)                                                                      \
  DEFINE_STORE (name, type)                                                                    \
  DEFINE_MINIMA (name, type)                                                                   \
  DEFINE_OPS (name, type, store_##name, store_minima_##name, NULL)

#define DEFINE_FLOATS(name, type)                                                              \
  static void                                                                                  \
  multiply_##name (const LlkMatrix *w, size_t first, size_t n_panels, const void *rows,        \
                   size_t n_rows, float *y, size_t y_stride, bool is_added, void *scratch)     \
  {                                                                                            \
    multiply_floats (w, type, first, n_panels, rows, n_rows, y, y_stride, is_added);           \
  }

DEFINE_FLOATS (f32, LLK_F32)
DEFINE_FLOATS (f16, LLK_F16)
DEFINE_FLOATS (bf16, LLK_BF16)
DEFINE_BYTES (q8_0, LLK_Q8_0)
DEFINE_CODES (q4_0, LLK_Q4_0)
DEFINE_CODES_AND_MINIMA (q4_1, LLK_Q4_1)
DEFINE_CODES (q5_0, LLK_Q5_0)
DEFINE_CODES_AND_MINIMA (q5_1, LLK_Q5_1)
DEFINE_CODES_AND_MINIMA (q2_k, LLK_Q2_K)
DEFINE_CODES (q3_k, LLK_Q3_K)
DEFINE_CODES_AND_MINIMA (q4_k, LLK_Q4_K)
DEFINE_CODES_AND_MINIMA (q5_k, LLK_Q5_K)
DEFINE_CODES (q6_k, LLK_Q6_K)
DEFINE_CODES (iq4_nl, LLK_IQ4_NL)
DEFINE_CODES (iq4_xs, LLK_IQ4_XS)
DEFINE_CODES (mxfp4, LLK_MXFP4)
DEFINE_CODES (iq3_xxs, LLK_IQ3_XXS)
DEFINE_CODES (iq3_s, LLK_IQ3_S)
/* In panels all IQ2 types are alike. */
DEFINE_CODES (iq2, LLK_IQ2_S)

#define FLOATS(name) { LLK_ACTIVATION_F32, N_PANELS, .multiply = multiply_##name }
#define RUNS(name) { LLK_ACTIVATION_Q8, N_PANELS, .multiply = multiply_##name }

static const LlkProduct products[LLK_TYPE_LIMIT] = {
  [LLK_F32] = FLOATS (f32),
  [LLK_F16] = FLOATS (f16),
  [LLK_BF16] = FLOATS (bf16),
  [LLK_Q8_0] = RUNS (q8_0),
  [LLK_Q4_0] = RUNS (q4_0),
  [LLK_Q4_1] = RUNS (q4_1),
  [LLK_Q5_0] = RUNS (q5_0),
  [LLK_Q5_1] = RUNS (q5_1),
  [LLK_Q2_K] = RUNS (q2_k),
  [LLK_Q3_K] = RUNS (q3_k),
  [LLK_Q1_0] = RUNS (q3_k),
  [LLK_Q4_K] = RUNS (q4_k),
  [LLK_Q5_K] = RUNS (q5_k),
  [LLK_Q6_K] = RUNS (q6_k),
  [LLK_IQ4_NL] = RUNS (iq4_nl),
  [LLK_IQ4_XS] = RUNS (iq4_xs),
  [LLK_MXFP4] = RUNS (mxfp4),
  [LLK_IQ3_XXS] = RUNS (iq3_xxs),
  [LLK_IQ3_S] = RUNS (iq3_s),
  [LLK_IQ2_XXS] = RUNS (iq2),
  [LLK_IQ2_XS] = RUNS (iq2),
  [LLK_IQ2_S] = RUNS (iq2),
};

static const LlkProduct *
find_product (LlkType type)
{
  return &products[type];
}
