/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How a packed part lies in memory. Values are linear in their codes, by groups:
 *
 *   Q8      keys and values by slot: scale × code, the scale a half, codes from -127 to 127
 *   Q4, Q3, Q2  keys by dimension, as some dimensions are much larger than others, and values by
 *           slot: step × (code + low), codes from 0 to 15, 7 or 3; low a multiple of a unit, for
 *           keys one of 256, as a dimension's values may all lie far from 0, for values one of
 *           sixteen; and the step one of sixteen below the largest of the part, close to each other
 *           at first and then further apart, which is one of 256, eight in each octave from 2^-18
 *           to 15360
 *
 * All of them are exact as floats, so that it makes no difference whether an
 * instruction set rounds between product and sum.
 *
 * A part is: of each group the scale, 2 bytes; or the largest step, a byte, and a zero, then of
 * all groups their step's place, half a byte, then their lows, a byte for keys and half of one for
 * values; then codes in the order of the part, rows of values made up to whole sixteens; zeros up
 * to a multiple of 16 bytes, with less than 8 bits of 2. Of sixteen halves of bytes, those of the
 * second eight are the upper ones. Sixteen codes lie together:
 * bytes; or two words of 32 bits with those at even and at odd places; or one word; or, with 3
 * bits, a word with the lower two of each and then 16 bits, the highest of each. So the second half
 * of sixteen is found 16 bits higher in its words, the second quarter 8 (and of the highest bits
 * half of that).
 */

#pragma once

#include "kernels/llk-internal.h"

#define LLK_KV_GROUP LLK_ATTENTION_GROUP
/* Added to a step's byte, and shifted by 20, it makes the step's bits. */
#define LLK_KV_LEAST_STEP (109 << 3)
/* The largest step of a part, and a zero. */
#define LLK_KV_BASE_BYTES 2

static inline size_t
llk_kv_pad (size_t n)
{
  return (n + LLK_KV_GROUP - 1) / LLK_KV_GROUP * LLK_KV_GROUP;
}

/* Whether the values of a dimension make a group, of all slots, or those of a slot. */
static inline bool
llk_kv_is_by_dimension (LlkKvFormat format,
                        LlkKvPart   part)
{
  return part == LLK_KV_KEYS && format != LLK_KV_Q8;
}

/* Groups, made up to whole sixteens. */
static inline size_t
llk_kv_get_groups (LlkKvFormat format,
                   LlkKvPart   part,
                   size_t      head_dim,
                   size_t      chunk_slots)
{
  return llk_kv_is_by_dimension (format, part) ? llk_kv_pad (head_dim) : chunk_slots;
}

/* Where the lows begin, with less than 8 bits. */
static inline size_t
llk_kv_get_lows_at (size_t n_groups)
{
  return LLK_KV_BASE_BYTES + n_groups / 2;
}

/* Bytes before the codes. */
static inline size_t
llk_kv_get_head_bytes (LlkKvFormat format,
                       LlkKvPart   part,
                       size_t      head_dim,
                       size_t      chunk_slots)
{
  size_t n_groups = llk_kv_get_groups (format, part, head_dim, chunk_slots);

  if (format == LLK_KV_Q8)
    return 2 * n_groups;
  return llk_kv_get_lows_at (n_groups) + (part == LLK_KV_KEYS ? n_groups : n_groups / 2);
}

/* Values of a row, those included that make it up. */
static inline size_t
llk_kv_get_row (LlkKvPart part,
                size_t    head_dim,
                size_t    chunk_slots)
{
  return part == LLK_KV_KEYS ? chunk_slots : llk_kv_pad (head_dim);
}

/* Lows are, in steps, origin + unit × a whole number: for keys from -128 to 127, for values from -8
 * to 7, where 0 stands for as many codes below 0 as above. */
static inline float
llk_kv_get_unit (LlkKvPart part,
                 unsigned  bits)
{
  return (part == LLK_KV_KEYS ? 0.5f : 1) * (bits == 2 ? 0.5f : 1);
}

static inline float
llk_kv_get_origin (LlkKvPart part,
                   unsigned  bits)
{
  return part == LLK_KV_KEYS ? 0 : -(float) (1 << (bits - 1));
}

/* How far the step @place lies below the largest, in eighths of octaves: 0, 2, 4, … 16, then 22,
 * 28, … 58. */
static inline int32_t
llk_kv_get_below (int32_t place)
{
  return 2 * place > 6 * place - 32 ? 2 * place : 6 * place - 32;
}

/* Of codes from -58 to 255. */
static inline float
llk_kv_get_step (int32_t code)
{
  return llk_float_of_bits ((uint32_t) (code + LLK_KV_LEAST_STEP) << 20);
}

/* Half a byte of each of sixteen groups. */
static inline uint32_t
llk_kv_get_half (const uint8_t *halves,
                 size_t         group)
{
  return halves[group / LLK_KV_GROUP * 8 + group % 8] >> (group % LLK_KV_GROUP < 8 ? 0 : 4) & 15;
}
