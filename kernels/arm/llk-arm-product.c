/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Products with NEON, with dot products of bytes, and with matrix instructions for
 * bytes: compiled for each. With matrix instructions two and more rows are pairs of
 * rows and pairs of outputs; a single row has dot products. The integers are the same.
 */

#include "kernels/arm/llk-arm-product.h"
#include "kernels/arm/llk-arm-product-float.h"

/* What threads may share out of a small matrix. */
#define N_PANELS 4

#define DEFINE_FLOATS(name, type)                                                              \
  static void                                                                                  \
  multiply_##name (const LlkMatrix *w, size_t first, size_t n_panels, const void *rows,        \
                   size_t n_rows, float *y, size_t y_stride, bool is_added, void *scratch)     \
  {                                                                                            \
    (void) scratch;                                                                            \
    multiply_floats (type, w, first, n_panels, rows, n_rows, y, y_stride, is_added);           \
  }

DEFINE_FLOATS (f32, LLK_F32)
DEFINE_FLOATS (f16, LLK_F16)
DEFINE_FLOATS (bf16, LLK_BF16)

static size_t
get_scratch (LlkType type,
             size_t  n_in)
{
  (void) type;
  (void) n_in;
  return 0;
}

static const LlkProduct block_product = {
  LLK_ACTIVATION_Q8, N_PANELS, get_scratch, multiply_blocks,
};
static const LlkProduct f32_product = {
  LLK_ACTIVATION_F32, N_PANELS, get_scratch, multiply_f32,
};
static const LlkProduct f16_product = {
  LLK_ACTIVATION_F32, N_PANELS, get_scratch, multiply_f16,
};
static const LlkProduct bf16_product = {
  LLK_ACTIVATION_F32, N_PANELS, get_scratch, multiply_bf16,
};

/* Both kinds of rows have the same arithmetic. */
static const LlkProduct *
find_product (LlkType    type,
              LlkRowKind kind)
{
  (void) kind;
  switch (type)
    {
    case LLK_F32:
      return &f32_product;
    case LLK_F16:
      return &f16_product;
    case LLK_BF16:
      return &bf16_product;
    default:
      return &block_product;
    }
}

#if defined __ARM_FEATURE_MATMUL_INT8
const LlkProductOps llk_i8mm_product = {
#elif defined __ARM_FEATURE_DOTPROD
const LlkProductOps llk_dotprod_product = {
#else
const LlkProductOps llk_neon_product = {
#endif
  .prepare = llk_neon_prepare,
  .find = find_product,
};
