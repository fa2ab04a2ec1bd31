/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "kernels/llk-run.h"

#include "kernels/llk-block.h"
#include "kernels/llk-panel.h"

#include <math.h>
#include <stdlib.h>

#define N_BLOCKS (LLK_RUN / 32)
#define MAX_MULTIPLIER 127
#define MAX_MIN 32767
#define MAX_LONG_MULTIPLIER 256

/* Sixteen, or two times sixteen, values in steps, from the first on. */
#define STEPS_4(from, by)                                                                      \
  from, (from) + (by), (from) + 2 * (by), (from) + 3 * (by)
#define STEPS_16(from, by)                                                                     \
  STEPS_4 (from, by), STEPS_4 ((from) + 4 * (by), by), STEPS_4 ((from) + 8 * (by), by),        \
  STEPS_4 ((from) + 12 * (by), by)

#define STEPS_64(from)                                                                         \
  STEPS_16 (from, 1), STEPS_16 ((from) + 16, 1), STEPS_16 ((from) + 32, 1),                    \
  STEPS_16 ((from) + 48, 1)

static const int16_t base_q8[256] = { STEPS_64 (0), STEPS_64 (64), STEPS_64 (-128),
                                      STEPS_64 (-64) };
static const int16_t base_q4[16] = { STEPS_16 (-128, 16) };
static const int16_t base_q5[32] = { STEPS_16 (-128, 8), STEPS_16 (0, 8) };
static const int16_t base_q4_k[16] = { STEPS_16 (0, 32) };
static const int16_t base_q5_k[32] = { STEPS_16 (0, 16), STEPS_16 (256, 16) };
static const int16_t base_q6_k[64] = { STEPS_16 (128, -4), STEPS_16 (64, -4), STEPS_16 (0, -4),
                                       STEPS_16 (-64, -4) };
static const int16_t base_q3_k[8] = { STEPS_4 (512, -128), STEPS_4 (0, -128) };
static const int16_t base_q2_k[4] = { STEPS_4 (0, 128) };
/* llk_iq4_values, 4 and 20 times llk_iq4_values and llk_mxfp4_values. */
static const int16_t base_iq4_nl[16] = { -127, -104, -83, -65, -49, -35, -22, -10,
                                         1, 13, 25, 38, 53, 69, 89, 113 };
static const int16_t base_iq4_xs[16] = { -508, -416, -332, -260, -196, -140, -88, -40,
                                         4, 52, 100, 152, 212, 276, 356, 452 };
/* 8 times llk_iq3_values; odd numbers times 32; 12 times llk_iq2_values. */
static const int16_t base_iq3_xxs[16] = { -496, -416, -352, -288, -224, -160, -96, -32,
                                          32, 96, 160, 224, 288, 352, 416, 496 };
static const int16_t base_iq3_s[16] = { STEPS_16 (-480, 64) };
static const int16_t base_iq2[8] = { -516, -300, -96, 96, 300, 516, 0, 0 };
static const int16_t base_mxfp4[16] = { 0, 20, 40, 60, 80, 120, 160, 240,
                                        0, -20, -40, -60, -80, -120, -160, -240 };

const int16_t *
llk_run_base (LlkType type)
{
  switch (type)
    {
    case LLK_Q8_0:
      return base_q8;
    case LLK_Q4_0:
    case LLK_Q4_1:
      return base_q4;
    case LLK_Q5_0:
    case LLK_Q5_1:
      return base_q5;
    case LLK_Q4_K:
      return base_q4_k;
    case LLK_Q5_K:
      return base_q5_k;
    case LLK_Q6_K:
      return base_q6_k;
    case LLK_Q3_K:
    case LLK_Q1_0:
      return base_q3_k;
    case LLK_Q2_K:
      return base_q2_k;
    case LLK_IQ4_NL:
      return base_iq4_nl;
    case LLK_IQ4_XS:
      return base_iq4_xs;
    case LLK_IQ3_XXS:
      return base_iq3_xxs;
    case LLK_IQ3_S:
      return base_iq3_s;
    case LLK_IQ2_XXS:
    case LLK_IQ2_XS:
    case LLK_IQ2_S:
      return base_iq2;
    case LLK_MXFP4:
      return base_mxfp4;
    default:
      return NULL;
    }
}

float
llk_run_factor (LlkType type)
{
  switch (type)
    {
    case LLK_Q4_K:
      return 4;
    case LLK_Q5_K:
      return 8;
    case LLK_Q6_K:
      return -32;
    case LLK_Q3_K:
      return -1;
    case LLK_IQ4_XS:
      return 32;
    case LLK_IQ3_XXS:
    case LLK_IQ3_S:
      return 4;
    case LLK_IQ2_XXS:
    case LLK_IQ2_XS:
    case LLK_IQ2_S:
      return 4.0f / 3;
    default:
      return 1;
    }
}

static float
make_nan (void)
{
  return llk_float_of_bits (0x7fc00000);
}

/* The largest magnitude, NaN when a value is no number. */
static float
find_largest (const float *x,
              size_t       n)
{
  uint32_t bits = 0;

  for (size_t i = 0; i < n; i++)
    {
      uint32_t other = llk_bits_of_float (x[i]) & 0x7fffffff;

      bits = bits > other ? bits : other;
    }
  return bits < 0x7f800000 ? llk_float_of_bits (bits) : make_nan ();
}

/* Integers up to @limit in the ratio of @x; the largest's step, NaN as above. */
static float
find_ratios (const float *x,
             size_t       n,
             float        limit,
             int16_t     *ratios)
{
  float largest = find_largest (x, n);
  float inverse = largest >= LLK_MIN_MAGNITUDE ? limit / largest : 0;

  for (size_t i = 0; i < n; i++)
    ratios[i] = inverse != 0 ? (int16_t) (x[i] * inverse + LLK_ROUNDER - LLK_ROUNDER) : 0;
  return largest < LLK_MIN_MAGNITUDE ? 0 : largest / limit;
}

/* Powers of two: their ratio is one too. */
static void
read_exponents (const uint8_t *exponents,
                size_t         n_blocks,
                LlkRun        *run)
{
  unsigned largest = 0;

  for (size_t b = 0; b < n_blocks; b++)
    largest = exponents[b] > largest ? exponents[b] : largest;
  run->scale = llk_float_of_e8m0 ((uint8_t) largest) / 10;
  for (size_t b = 0; b < n_blocks; b++)
    run->r[b] = largest - exponents[b] < 7 ? 64 >> (largest - exponents[b]) : 0;
}

/* Blocks of 32 with a float scale each. */
static void
read_blocks (LlkType        type,
             const uint8_t *src,
             size_t         n_blocks,
             LlkRun        *run)
{
  size_t bytes = llk_type_block_bytes (type);
  float middle = type == LLK_Q4_1 ? 8 : type == LLK_Q5_1 ? 16 : 0;
  uint8_t exponents[N_BLOCKS];
  float d[N_BLOCKS], min[N_BLOCKS];
  int16_t ratios[N_BLOCKS];
  LlkBlock block;

  for (size_t b = 0; b < n_blocks; b++)
    {
      llk_block_read (type, src + b * bytes, &block);
      memcpy (run->codes + 32 * b, block.q, 32);
      exponents[b] = block.d[0];
      d[b] = llk_float_of_half (llk_load_u16 (block.d));
      min[b] = llk_float_of_half (llk_load_u16 (block.min)) + middle * d[b];
    }
  if (type == LLK_MXFP4)
    {
      read_exponents (exponents, n_blocks, run);
      return;
    }

  run->scale = find_ratios (d, n_blocks, MAX_MULTIPLIER, ratios)
               * (type == LLK_IQ4_NL ? 128 : type == LLK_Q5_0 || type == LLK_Q5_1 ? 16 : 8);
  for (size_t b = 0; b < n_blocks; b++)
    run->r[b] = ratios[b];
  if (middle != 0)
    run->min_scale = find_ratios (min, n_blocks, MAX_MIN, run->m);
}

/* Multipliers are positive here, so codes have their sign: of a negative scale, code -128 becomes
 * 127. */
static void
read_bytes (const uint8_t *src,
            size_t         n_blocks,
            LlkRun        *run)
{
  float d[N_BLOCKS] = { 0 }; /* gcc with sanitizers sees none */
  int16_t ratios[N_BLOCKS];
  LlkBlock block;

  for (size_t b = 0; b < n_blocks; b++)
    {
      llk_block_read (LLK_Q8_0, src + b * llk_type_block_bytes (LLK_Q8_0), &block);
      memcpy (run->codes + 32 * b, block.q, 32);
      d[b] = llk_float_of_half (llk_load_u16 (block.d));
    }
  run->scale = find_ratios (d, n_blocks, MAX_LONG_MULTIPLIER, ratios) * MAX_LONG_MULTIPLIER;
  for (size_t b = 0; b < n_blocks; b++)
    {
      uint8_t *codes = run->codes + 32 * b;

      run->r[b] = (int16_t) abs (ratios[b]);
      if (run->r[b] == 255)
        run->r[b] = fabsf (d[b]) < run->scale * (255.0f / MAX_LONG_MULTIPLIER) ? 254 : 256;
      for (size_t i = 0; i < 32 && ratios[b] < 0; i++)
        codes[i] = (uint8_t) (codes[i] == 128 ? 127 : -codes[i]);
    }
}

/* Signs alone, in blocks of 128: of what the codes of Q3_K stand for, 1 and -1. So these take as much
 * room in panels as Q3_K does. */
static void
read_signs (const uint8_t *src,
            size_t         n_blocks,
            LlkRun        *run)
{
  float d[LLK_RUN / 128] = { 0 }; /* gcc with sanitizers sees none */
  int16_t ratios[LLK_RUN / 128];
  LlkBlock block;

  for (size_t b = 0; b < n_blocks; b++)
    {
      llk_block_read (LLK_Q1_0, src + b * llk_type_block_bytes (LLK_Q1_0), &block);
      for (size_t i = 0; i < 128; i++)
        run->codes[128 * b + i] = block.q[i] != 0 ? 3 : 5;
      d[b] = llk_float_of_half (llk_load_u16 (block.d));
    }
  run->scale = find_ratios (d, n_blocks, MAX_MULTIPLIER, ratios);
  for (size_t i = 0; i < 8 * n_blocks; i++)
    run->r[i] = ratios[i / 8];
}

/* A half, or NaN for an infinity. */
static uint16_t
read_half (const uint8_t *src)
{
  uint16_t half = llk_load_u16 (src);

  return isfinite (llk_float_of_half (half)) ? half : 0x7e00;
}

/* Blocks of 256, which have integer scales. */
static void
read_long_block (LlkType        type,
                 const uint8_t *src,
                 LlkRun        *run)
{
  bool has_minima = type == LLK_Q4_K || type == LLK_Q5_K;
  size_t n_blocks = LLK_RUN / llk_panel_shape (type).block;
  LlkBlock block;

  llk_block_read (type, src, &block);
  memcpy (run->codes, block.q, LLK_RUN);
  for (size_t b = 0; b < n_blocks; b++)
    {
      run->r[b] = type == LLK_Q2_K ? block.scales[b] & 15 : (int8_t) block.scales[b];
      if (type == LLK_Q2_K)
        run->m[b] = block.scales[b] >> 4;
      else if (has_minima)
        run->m[b] = block.scales[8 + b];
    }
  run->half_scale = read_half (block.d);
  run->half_min = read_half (block.min);
  run->scale = llk_float_of_half (run->half_scale) * llk_run_factor (type);
  if (type == LLK_Q2_K || has_minima)
    run->min_scale = -llk_float_of_half (run->half_min);
}

void
llk_run_read (LlkType        type,
              const uint8_t *src,
              size_t         n,
              LlkRun        *run)
{
  memset (run, 0, sizeof *run);
  if (type == LLK_Q8_0)
    read_bytes (src, n / 32, run);
  else if (type == LLK_Q1_0)
    read_signs (src, n / 128, run);
  else if (llk_type_block_size (type) == 32)
    read_blocks (type, src, n / 32, run);
  else
    read_long_block (type, src, run);
}
