/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* W8A8 products with AVX2, with or without AVX-VNNI: compiled for both. */

#include "kernels/x86/llk-avx2-lanes.h"

/* 8 sums and 2 vectors of weights in 16 registers: others are needed for what comes between. */
#define W8_PANELS 1
#define W8_ROWS 4

#include "kernels/llk-w8-product.h"

#ifdef __AVXVNNI__
const LlkW8Ops llk_avxvnni_w8 = W8_OPS;
#else
const LlkW8Ops llk_avx2_w8 = W8_OPS;
#endif
