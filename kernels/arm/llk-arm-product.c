/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Products with NEON, with dot products of bytes, and with matrix instructions for
 * bytes: compiled for each. */

#include "kernels/arm/llk-arm-lanes.h"
#include "kernels/llk-panel-product-table.h"

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
