/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* W8A8 products with the dot products of AVX-512 VNNI. */

#include "kernels/x86/llk-avx512-lanes.h"

/* 24 sums, 4 vectors of weights and one of a row in 32 registers. */
#define W8_PANELS 4
#define W8_ROWS 6

#include "kernels/llk-w8-product.h"

const LlkW8Ops llk_avx512_w8 = W8_OPS;
