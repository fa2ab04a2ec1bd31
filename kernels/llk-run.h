/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Runs: up to 256 inputs of one output, from a multiple of 256 on, as products see
 * them. Whatever a file's format, a run's weights are small integers w with one
 * scale, so that sums of products are exact over the whole run, in any order: on a
 * vector unit as on a matrix unit. A weight is a function of its code, as the file
 * has it, and of its block's multiplier r:
 *
 *   W = base[code] × r
 *   w = (W + 64) >> 7; of Q8_0 (code × min (r, 255) + 127) >> 8
 *   weight = scale × w + min_scale × m, m being the block's minimum
 *          ≈ step × W  + min_scale × m, step being scale / 128; of Q8_0 scale / 256
 *
 *   type         codes  block  base             r                       scale
 *   Q4_0 Q4_1        4     32  16 (code - 8)    127 d / largest d       8 × largest d / 127
 *   Q5_0 Q5_1        5     32  8 (code - 16)    127 d / largest d       16 × largest d / 127
 *   IQ4_NL           4     32  llk_iq4_values   127 d / largest d       128 × largest d / 127
 *   MXFP4            4     32  20 × llk_mxfp4_  64 d / largest d        largest d / 10
 *   IQ4_XS           4     32  4 × llk_iq4_     the file's scale - 32   32 d
 *   Q4_K             4     32  32 × code        the file's scale        4 d
 *   Q5_K             5     32  16 × code        the file's scale        8 d
 *   Q6_K             6     16  4 (32 - code)    the file's scale        -32 d
 *   Q3_K             3     16  128 (4 - code)   the file's scale - 32   -d
 *   Q2_K             2     16  128 × code       the file's scale        d
 *   Q1_0             3     16  128 (4 - code)   127 d / largest d       largest d / 127
 *   IQ3_XXS          4     32  8 × llk_iq3_     2 × the file's + 1      4 d
 *   IQ3_S            4     32  32 (2 code - 15) 2 × the file's + 1      4 d
 *   IQ2_…            3     16  12 × llk_iq2_    2 × the file's + 1      4/3 d
 *   Q8_0             8     32  code             256 d / largest d       largest d
 *
 * An r of Q8_0 is never 255: a byte of 255 stands for 256; w is then the code itself.
 * Q2_K and Q3_K are exact so. Of the others w is rounded to an integer, which is a step of the
 * 127th part (Q4_K the 236th, Q5_K the 244th, MXFP4 the 120th) of the largest weight that the
 * run could have; where r is a ratio it is rounded too, by up to half a step. Minima of Q4_1 and Q5_1 are
 * those of code 8 or 16, m = 32767 min / largest min; those of K-quants are the
 * file's, with min_scale = -dmin.
 */

#pragma once

#include "kernels/llk-internal.h"

#define LLK_RUN 256

typedef struct
{
  float scale;                /* NaN when a scale of the file is no number */
  float min_scale;            /* 0 for types without minima */
  uint16_t half_scale;        /* f16: d and dmin of Q2_K, Q4_K and Q5_K, as panels have them */
  uint16_t half_min;
  int16_t r[LLK_RUN / 16];    /* of each block */
  int16_t m[LLK_RUN / 16];
  uint8_t codes[LLK_RUN];
} LlkRun;

/* Reads @n inputs from a file's blocks; of K-quants that is the whole run. */
void           llk_run_read  (LlkType type, const uint8_t *src, size_t n, LlkRun *run);
/* base[], as many as there are codes. */
const int16_t *llk_run_base  (LlkType type) __attribute__ ((const));
/* What stands in the table for the scale: scale = factor × d. Of Q2_K, Q4_K and Q5_K. */
float          llk_run_factor (LlkType type);

/* The part of @n inputs that a panel has at @src, of one output; without half_scale
 * and half_min. In llk-panel.c. */
void           llk_panel_get_run (LlkType type, const uint8_t *src, size_t n, size_t output,
                                  LlkRun *run);

/* The place of the minimum of block @b and output @o among shorts, as Q4_1 has them. */
static inline size_t
llk_panel_find_minimum (size_t b,
                        size_t o)
{
  return b / 4 * 64 + b % 2 * 32 + 2 * o + b % 4 / 2;
}

/* The base values of all types but those with tables of their own go in even steps from the first:
 * with a code as it is looked up, first + step × code. */
static inline int
llk_run_base_first (LlkType type)
{
  switch (type)
    {
    case LLK_Q4_0:
    case LLK_Q4_1:
    case LLK_Q5_0:
    case LLK_Q5_1:
      return -128;
    case LLK_Q6_K:
      return 128;
    case LLK_Q3_K:
    case LLK_Q1_0:
      return 512;
    case LLK_IQ3_S:
      return -480;
    default:
      return 0;
    }
}

static inline int
llk_run_base_step (LlkType type)
{
  switch (type)
    {
    case LLK_Q2_K:
      return 128;
    case LLK_Q3_K:
    case LLK_Q1_0:
      return -128;
    case LLK_Q4_K:
      return 32;
    case LLK_Q5_0:
    case LLK_Q5_1:
      return 8;
    case LLK_Q6_K:
      return -4;
    case LLK_IQ4_XS:
      return 4;
    case LLK_IQ3_XXS:
      return 8;
    case LLK_IQ3_S:
      return 64;
    case LLK_IQ2_XXS:
    case LLK_IQ2_XS:
    case LLK_IQ2_S:
      return 12;
    case LLK_MXFP4:
      return 20;
    case LLK_Q8_0:
    case LLK_IQ4_NL:
      return 1;
    default:
      return 16;
    }
}

static inline bool
llk_run_has_minima (LlkType type)
{
  return llk_panel_shape (type).minima != 0 || type == LLK_Q2_K;
}

static inline float
llk_run_step (LlkType type)
{
  return type == LLK_Q8_0 ? 0x1p-8f : 0x1p-7f;
}

/* The byte of a multiplier of Q8_0; those of other types are smaller. */
static inline int
llk_run_byte (int r)
{
  return r < 255 ? r : 255;
}

static inline int
llk_run_weight (LlkType type,
                int     base,
                int     r)
{
  return type == LLK_Q8_0 ? (base * llk_run_byte (r) + 127) >> 8 : (base * r + 64) >> 7;
}
