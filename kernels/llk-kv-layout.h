/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How a packed part lies in memory. Values are linear in their codes, by groups:
 *
 *   Q8      keys and values by slot: scale × code, the scale a half, codes from -127 to 127
 *   Q4, Q2  keys by dimension, as some dimensions are much larger than others, and values by
 *           slot: step × (code + zero × unit), codes from 0 to 15 or 3, zero a signed byte,
 *           the unit 1/2 for 4 bits and 1/4 for 2, and the step one of 256, eight in each
 *           octave from 2^-18 to 15360
 *
 * All of them are exact as floats, so that it makes no difference whether an
 * instruction set rounds between product and sum.
 *
 * A part is: of each group the scale, 2 bytes, or the steps of all groups and then
 * their zeros, a byte each; codes in the order of the part, rows of values made up
 * to whole sixteens; zeros up to a multiple of 16 bytes. Sixteen codes lie together:
 * bytes; or two words of 32 bits with those at even and at odd places; or one word. So the
 * second half of sixteen is found 16 bits higher in its words, the second quarter 8.
 */

#pragma once

#include "kernels/llk-internal.h"

#define LLK_KV_GROUP LLK_ATTENTION_GROUP
/* Added to a step's byte, and shifted by 20, it makes the step's bits. */
#define LLK_KV_LEAST_STEP (109u << 3)

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

/* Bytes before the codes. */
static inline size_t
llk_kv_get_head_bytes (LlkKvFormat format,
                       LlkKvPart   part,
                       size_t      head_dim,
                       size_t      chunk_slots)
{
  return 2 * llk_kv_get_groups (format, part, head_dim, chunk_slots);
}

/* Values of a row, those included that make it up. */
static inline size_t
llk_kv_get_row (LlkKvPart part,
                size_t    head_dim,
                size_t    chunk_slots)
{
  return part == LLK_KV_KEYS ? chunk_slots : llk_kv_pad (head_dim);
}

/* In steps. */
static inline float
llk_kv_get_unit (unsigned bits)
{
  return bits == 4 ? 0.5f : 0.25f;
}

static inline float
llk_kv_get_step (uint32_t code)
{
  return llk_float_of_bits ((code + LLK_KV_LEAST_STEP) << 20);
}
