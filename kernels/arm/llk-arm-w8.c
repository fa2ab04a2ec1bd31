/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* W8A8 products with NEON, with and without dot products of bytes: compiled for both. */

#include "kernels/arm/llk-arm-lanes.h"

/* 16 sums and 4 vectors of weights in 32 registers. */
#define W8_PANELS 1
#define W8_ROWS 4

#include "kernels/llk-w8-product.h"

#ifdef __ARM_FEATURE_DOTPROD
const LlkW8Ops llk_dotprod_w8 = W8_OPS;
#else
const LlkW8Ops llk_neon_w8 = W8_OPS;
#endif
