/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What llk-run.h's formula gives for all multipliers and codes of types with up to 32
 * codes: one load is less than making tables as they are needed. */

#pragma once

#include "kernels/llk-internal.h"

typedef enum
{
  LLK_ARM_TABLE_Q4,      /* Q4_0 and Q4_1 */
  LLK_ARM_TABLE_Q4_K,    /* w - 128, as of Q5_K */
  LLK_ARM_TABLE_Q5,
  LLK_ARM_TABLE_Q5_K,
  LLK_ARM_TABLE_IQ4_NL,
  LLK_ARM_TABLE_IQ4_XS,
  LLK_ARM_TABLE_MXFP4,
  LLK_ARM_TABLE_IQ3_XXS,
  LLK_ARM_TABLE_IQ3_S,
  LLK_N_ARM_TABLES,
} LlkArmTable;

/* Of codes below 16, then of the others; by the multiplier, as an unsigned byte; by the
 * code's lower four bits. */
extern int8_t llk_arm_tables[LLK_N_ARM_TABLES][2][256][16];
