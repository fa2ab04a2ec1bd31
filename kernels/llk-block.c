/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "kernels/llk-block.h"

#include "kernels/llk-grids.h"

#define INLINE static inline __attribute__ ((always_inline))

/* Sixteen bytes, the first sixteen values in their low halves. */
INLINE void
read_nibbles (const uint8_t *src,
              uint8_t       *q)
{
  for (size_t i = 0; i < 16; i++)
    {
      q[i] = src[i] & 15;
      q[i + 16] = src[i] >> 4;
    }
}

/* The fifth bits of Q5_0 and Q5_1: eight at a time, byte i of a word takes bit i
 * of eight copies; adding 127 moves whatever is not zero to the byte's top. */
INLINE void
add_fifth_bits (const uint8_t *src,
                uint8_t       *q)
{
  const uint64_t ones = UINT64_C (0x0101010101010101);

  for (size_t i = 0; i < 4; i++)
    {
      uint64_t bits = src[i] * ones & UINT64_C (0x8040201008040201);
      uint64_t values;

      memcpy (&values, q + 8 * i, sizeof values);
      values |= ((bits + 127 * ones) & 128 * ones) >> 3;
      memcpy (q + 8 * i, &values, sizeof values);
    }
}

/* The 6-bit scales and minima of Q4_K and Q5_K. */
INLINE void
read_six_bits (const uint8_t *src,
               uint8_t       *scales)
{
  for (size_t i = 0; i < 4; i++)
    {
      scales[i] = src[i] & 63;
      scales[i + 4] = (uint8_t) ((src[i + 8] & 15) | src[i] >> 6 << 4);
      scales[i + 8] = src[i + 4] & 63;
      scales[i + 12] = (uint8_t) (src[i + 8] >> 4 | src[i + 4] >> 6 << 4);
    }
}

/* The nibbles of Q4_K and Q5_K. */
INLINE void
read_long_nibbles (const uint8_t *src,
                   uint8_t       *q)
{
  for (size_t j = 0; j < 8; j++)
    for (size_t l = 0; l < 32; l++)
      q[32 * j + l] = src[32 * (j / 2) + l] >> 4 * (j % 2) & 15;
}

/* Two bits of each value of a K-quant, moved up by @shift. */
INLINE void
add_two_bits (const uint8_t *src,
              unsigned       shift,
              uint8_t       *q)
{
  for (size_t h = 0; h < 2; h++)
    for (size_t j = 0; j < 4; j++)
      for (size_t l = 0; l < 32; l++)
        q[128 * h + 32 * j + l] |= (uint8_t) ((src[32 * h + l] >> 2 * j & 3) << shift);
}

/* One bit of each value of a K-quant, moved up by @shift. */
INLINE void
add_one_bit (const uint8_t *src,
             unsigned       shift,
             uint8_t       *q)
{
  for (size_t j = 0; j < 8; j++)
    for (size_t l = 0; l < 32; l++)
      q[32 * j + l] |= (uint8_t) ((src[l] >> j & 1) << shift);
}

static void
read_q3_k (const uint8_t *src,
           LlkBlock      *block)
{
  const uint8_t *scales = src + 96;

  memset (block->q, 0, sizeof block->q);
  add_two_bits (src + 32, 0, block->q);
  add_one_bit (src, 2, block->q);
  for (size_t i = 0; i < 16; i++)
    {
      int low = scales[i % 8] >> 4 * (i / 8) & 15;
      int high = scales[8 + i % 4] >> 2 * (i / 4) & 3;

      block->scales[i] = (uint8_t) ((low | high << 4) - 32);
    }
  memcpy (block->d, src + 108, 2);
}

static void
read_q6_k (const uint8_t *src,
           LlkBlock      *block)
{
  for (size_t h = 0; h < 2; h++)
    for (size_t j = 0; j < 4; j++)
      for (size_t l = 0; l < 32; l++)
        block->q[128 * h + 32 * j + l] = src[64 * h + 32 * (j % 2) + l] >> 4 * (j / 2) & 15;
  add_two_bits (src + 128, 4, block->q);
  memcpy (block->scales, src + 192, 16);
  memcpy (block->d, src + 208, 2);
}

static void
read_iq4_xs (const uint8_t *src,
             LlkBlock      *block)
{
  memcpy (block->d, src, 2);
  for (size_t i = 0; i < 8; i++)
    {
      int low = src[4 + i / 2] >> 4 * (i % 2) & 15;
      int high = src[2 + i / 4] >> 2 * (i % 4) & 3;

      block->scales[i] = (uint8_t) ((low | high << 4) - 32);
      read_nibbles (src + 8 + 16 * i, block->q + 32 * i);
    }
}

/* The @n values of a point of a grid, whose magnitudes have @bits; @first is the smallest that is
 * positive. */
INLINE void
read_point (unsigned point,
            unsigned signs,
            size_t   n,
            unsigned bits,
            unsigned first,
            uint8_t *q)
{
  for (size_t i = 0; i < n; i++)
    {
      unsigned magnitude = point >> bits * i & ((1u << bits) - 1);

      q[i] = (uint8_t) ((signs >> i & 1) != 0 ? first - 1 - magnitude : first + magnitude);
    }
}

/* Signs of which the number is even. */
INLINE unsigned
complete_signs (unsigned seven)
{
  return seven | (unsigned) __builtin_parity (seven) << 7;
}

INLINE uint8_t
make_odd (unsigned s)
{
  return (uint8_t) (2 * (s & 15) + 1);
}

static void
read_iq2 (LlkType        type,
          const uint8_t *src,
          LlkBlock      *block)
{
  const uint8_t *scales = src + (type == LLK_IQ2_XS ? 66 : 74);

  memcpy (block->d, src, 2);
  for (size_t i = 0; i < 32; i++)
    {
      const uint8_t *eight = src + 2 + 8 * (i / 4);
      unsigned point, signs;
      uint32_t word;

      switch (type)
        {
        case LLK_IQ2_XXS:
          memcpy (&word, eight + 4, sizeof word);
          point = llk_iq2_xxs_grid[eight[i % 4]];
          signs = complete_signs (word >> 7 * (i % 4) & 127);
          break;
        case LLK_IQ2_XS:
          word = llk_load_u16 (src + 2 + 2 * i);
          point = llk_iq2_xs_grid[word & 511];
          signs = complete_signs (word >> 9);
          break;
        default:
          point = llk_iq2_s_grid[src[2 + i] | (src[66 + i / 4] >> 2 * (i % 4) & 3u) << 8];
          signs = src[34 + i];
          break;
        }
      read_point (point, signs, 8, 2, 3, block->q + 8 * i);
    }
  for (size_t i = 0; i < 16; i++)
    block->scales[i] = make_odd (type == LLK_IQ2_XXS ? src[2 + 8 * (i / 2) + 7] >> 4
                                                     : scales[i / 2] >> 4 * (i % 2));
}

static void
read_iq3 (LlkType        type,
          const uint8_t *src,
          LlkBlock      *block)
{
  memcpy (block->d, src, 2);
  for (size_t i = 0; i < 64; i++)
    {
      const uint8_t *four = src + 66 + 4 * (i / 8);
      unsigned point = src[2 + i], signs;
      uint32_t word;

      if (type == LLK_IQ3_XXS)
        {
          memcpy (&word, four, sizeof word);
          signs = complete_signs (word >> 7 * (i % 8 / 2) & 127);
          point = llk_iq3_xxs_grid[point];
        }
      else
        {
          signs = src[74 + i / 2];
          point = llk_iq3_s_grid[point | (src[66 + i / 8] >> i % 8 & 1u) << 8];
        }
      read_point (point, signs >> 4 * (i % 2), 4, 3, 8, block->q + 4 * i);
    }
  for (size_t i = 0; i < 8; i++)
    block->scales[i] = make_odd (type == LLK_IQ3_XXS ? src[66 + 4 * i + 3] >> 4
                                                     : src[106 + i / 2] >> 4 * (i % 2));
}

void
llk_block_read (LlkType        type,
                const uint8_t *src,
                LlkBlock      *block)
{
  switch (type)
    {
    case LLK_Q8_0:
      memcpy (block->d, src, 2);
      memcpy (block->q, src + 2, 32);
      break;
    case LLK_Q4_0:
    case LLK_IQ4_NL:
      memcpy (block->d, src, 2);
      read_nibbles (src + 2, block->q);
      break;
    case LLK_MXFP4:
      block->d[0] = src[0];
      read_nibbles (src + 1, block->q);
      break;
    case LLK_Q4_1:
      memcpy (block->d, src, 2);
      memcpy (block->min, src + 2, 2);
      read_nibbles (src + 4, block->q);
      break;
    case LLK_Q5_0:
      memcpy (block->d, src, 2);
      read_nibbles (src + 6, block->q);
      add_fifth_bits (src + 2, block->q);
      break;
    case LLK_Q5_1:
      memcpy (block->d, src, 2);
      memcpy (block->min, src + 2, 2);
      read_nibbles (src + 8, block->q);
      add_fifth_bits (src + 4, block->q);
      break;
    case LLK_Q4_K:
      memcpy (block->d, src, 2);
      memcpy (block->min, src + 2, 2);
      read_six_bits (src + 4, block->scales);
      read_long_nibbles (src + 16, block->q);
      break;
    case LLK_Q5_K:
      memcpy (block->d, src, 2);
      memcpy (block->min, src + 2, 2);
      read_six_bits (src + 4, block->scales);
      read_long_nibbles (src + 48, block->q);
      add_one_bit (src + 16, 4, block->q);
      break;
    case LLK_Q6_K:
      read_q6_k (src, block);
      break;
    case LLK_Q3_K:
      read_q3_k (src, block);
      break;
    case LLK_Q2_K:
      memcpy (block->scales, src, 16);
      memset (block->q, 0, sizeof block->q);
      add_two_bits (src + 16, 0, block->q);
      memcpy (block->d, src + 80, 2);
      memcpy (block->min, src + 82, 2);
      break;
    case LLK_IQ4_XS:
      read_iq4_xs (src, block);
      break;
    case LLK_IQ2_XXS:
    case LLK_IQ2_XS:
    case LLK_IQ2_S:
      read_iq2 (type, src, block);
      break;
    case LLK_IQ3_XXS:
    case LLK_IQ3_S:
      read_iq3 (type, src, block);
      break;
    case LLK_Q1_0:
      memcpy (block->d, src, 2);
      for (size_t i = 0; i < 128; i++)
        block->q[i] = src[2 + i / 8] >> i % 8 & 1;
      break;
    case LLK_F32:
    case LLK_F16:
    case LLK_BF16:
      break;
    }
}

/* @n values of integers less @zero, times @d. */
INLINE void
scale_integers (const uint8_t *q,
                size_t         n,
                int            zero,
                float          d,
                float         *dst)
{
  for (size_t i = 0; i < n; i++)
    dst[i] = d * (float) (q[i] - zero);
}

INLINE void
scale_integers_above (const uint8_t *q,
                      size_t         n,
                      float          d,
                      float          min,
                      float         *dst)
{
  for (size_t i = 0; i < n; i++)
    dst[i] = d * (float) q[i] + min;
}

INLINE void
scale_table (const uint8_t *q,
             size_t         n,
             const int8_t  *table,
             float          d,
             float         *dst)
{
  for (size_t i = 0; i < n; i++)
    dst[i] = d * (float) table[q[i]];
}

void
llk_block_unpack (LlkType         type,
                  const LlkBlock *block,
                  float          *dst)
{
  float d = llk_float_of_half (llk_load_u16 (block->d));
  float min = llk_float_of_half (llk_load_u16 (block->min));
  const uint8_t *q = block->q;
  const uint8_t *scales = block->scales;

  switch (type)
    {
    case LLK_Q8_0:
      for (size_t i = 0; i < 32; i++)
        dst[i] = d * (float) (int8_t) q[i];
      break;
    case LLK_Q4_0:
      scale_integers (q, 32, 8, d, dst);
      break;
    case LLK_Q1_0:
      for (size_t i = 0; i < 128; i++)
        dst[i] = q[i] != 0 ? d : -d;
      break;
    case LLK_Q5_0:
      scale_integers (q, 32, 16, d, dst);
      break;
    case LLK_Q4_1:
    case LLK_Q5_1:
      scale_integers_above (q, 32, d, min, dst);
      break;
    case LLK_IQ4_NL:
      scale_table (q, 32, llk_iq4_values, d, dst);
      break;
    case LLK_MXFP4:
      scale_table (q, 32, llk_mxfp4_values, llk_float_of_e8m0 (block->d[0]), dst);
      break;
    case LLK_Q4_K:
    case LLK_Q5_K:
      for (size_t j = 0; j < 8; j++)
        scale_integers_above (q + 32 * j, 32, d * (float) scales[j],
                              -(min * (float) scales[j + 8]), dst + 32 * j);
      break;
    case LLK_Q6_K:
      for (size_t j = 0; j < 16; j++)
        scale_integers (q + 16 * j, 16, 32, d * (float) (int8_t) scales[j], dst + 16 * j);
      break;
    case LLK_Q3_K:
      for (size_t j = 0; j < 16; j++)
        scale_integers (q + 16 * j, 16, 4, d * (float) (int8_t) scales[j], dst + 16 * j);
      break;
    case LLK_Q2_K:
      for (size_t j = 0; j < 16; j++)
        scale_integers_above (q + 16 * j, 16, d * (float) (scales[j] & 15),
                              -(min * (float) (scales[j] >> 4)), dst + 16 * j);
      break;
    case LLK_IQ2_XXS:
    case LLK_IQ2_XS:
    case LLK_IQ2_S:
      for (size_t j = 0; j < 16; j++)
        scale_table (q + 16 * j, 16, llk_iq2_values, d / 8 * (float) scales[j], dst + 16 * j);
      break;
    case LLK_IQ3_XXS:
      for (size_t j = 0; j < 8; j++)
        scale_table (q + 32 * j, 32, llk_iq3_values, d / 4 * (float) scales[j], dst + 32 * j);
      break;
    case LLK_IQ3_S:
      for (size_t i = 0; i < 256; i++)
        dst[i] = d * (float) scales[i / 32] * (float) (2 * q[i] - 15);
      break;
    case LLK_IQ4_XS:
      for (size_t j = 0; j < 8; j++)
        scale_table (q + 32 * j, 32, llk_iq4_values, d * (float) (int8_t) scales[j],
                     dst + 32 * j);
      break;
    case LLK_F32:
    case LLK_F16:
    case LLK_BF16:
      break;
    }
}
