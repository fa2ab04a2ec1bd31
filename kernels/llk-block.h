/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * One block of a quantized type taken apart, the same for every type: what a
 * file's block (llk-types.h) and one output of a panel's block (llk-panel.h)
 * have in common. For the files of kernels/ only.
 */

#pragma once

#include "kernels/llk-internal.h"

#define LLK_MAX_BLOCK 256

typedef struct
{
  uint8_t d[2];               /* f16; of MXFP4 one byte e8m0 */
  uint8_t min[2];             /* f16; zero for types without */
  uint8_t scales[16];         /* 8-bit ones, in the order and meaning of a panel's */
  uint8_t q[LLK_MAX_BLOCK];   /* as stored: no zero point subtracted, no table looked up */
} LlkBlock;

/* From a file's block. */
void llk_block_read   (LlkType type, const uint8_t *src, LlkBlock *block);
/* Its values; the type's block size of them. */
void llk_block_unpack (LlkType type, const LlkBlock *block, float *dst);

/* 2^(exponent - 128): denormal for 0 and 1. */
static inline float
llk_float_of_e8m0 (uint8_t exponent)
{
  return llk_float_of_bits (exponent < 2 ? UINT32_C (0x00200000) << exponent
                                         : (uint32_t) (exponent - 1) << 23);
}

static inline float
llk_float_of_bf16 (uint16_t bits)
{
  return llk_float_of_bits ((uint32_t) bits << 16);
}
