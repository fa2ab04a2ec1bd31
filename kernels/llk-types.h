/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Number formats of weights. The numbers are those of GGUF's tensor types, so
 * that a type read from a file needs no translation, only a check.
 */

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Values of a block are functions of small integers q and of scales d, which
 * are halves (f16) where nothing else is said; all are little-endian. "nibbles"
 * of 16 bytes: the low halves are the first 16 values, the high halves the
 * others. In blocks of 256 ("K-quants"), value e = 128 h + 32 j + l with
 * h < 2, j < 4, l < 32; its 8-bit, 6-bit or 4-bit scale is that of its run of
 * 32 or 16 values, e / 32 or e / 16. Each value is exact in float but for the
 * one rounding of the difference (or sum) with a minimum.
 */
typedef enum
{
  LLK_F32  = 0,
  LLK_F16  = 1,

  /* d, nibbles: d × (q - 8) */
  LLK_Q4_0 = 2,
  /* d, min, nibbles: d × q + min */
  LLK_Q4_1 = 3,
  /* d, 32 bits: bit i is the fifth bit of value i, nibbles: d × (q - 16) */
  LLK_Q5_0 = 6,
  /* d, min, 32 bits, nibbles: d × q + min */
  LLK_Q5_1 = 7,
  /* d, 32 × int8: d × q */
  LLK_Q8_0 = 8,

  /* 16 bytes: low half the scale s, high half the minimum m of 16 values each;
   * 64 bytes: bits 2 j of byte 32 h + l; d, dmin: d × s × q - dmin × m */
  LLK_Q2_K = 10,
  /* 32 bytes: bit 4 h + j of byte l is the third bit of a value; 64 bytes: bits
   * 2 j of byte 32 h + l the two low ones; 12 bytes: 6-bit scales s of 16 values
   * each, scale i with its low half in the low (i ≥ 8: high) half of byte i mod 8
   * and its upper bits in bits 2 (i / 4) of byte 8 + i mod 4; d:
   * d × (s - 32) × (q - 4) */
  LLK_Q3_K = 11,
  /* d, dmin; 12 bytes b: 6-bit scales s and minima m of 32 values each, for i < 4
   * in bits 0…5 of b[i] and b[i + 4], for others with their low halves in the low
   * and high half of b[i + 4], and the upper bits in bits 6…7 of b[i - 4] and
   * b[i]; 128 bytes: value e in the low (e / 32 odd: high) half of byte
   * 32 (e / 64) + l: d × s × q - dmin × m */
  LLK_Q4_K = 12,
  /* As Q4_K, but between scales and nibbles 32 bytes: bit e / 32 of byte l is
   * the fifth bit */
  LLK_Q5_K = 13,
  /* 128 bytes: the low (j ≥ 2: high) half of byte 64 h + 32 (j mod 2) + l; 64
   * bytes: bits 2 j of byte 32 h + l are the two high bits; 16 × int8: scales s of
   * 16 values each; d: d × s × (q - 32) */
  LLK_Q6_K = 14,

  /* Values by grid (llk-grids.h): a magnitude g and a sign make q = 3 + g or 2 - g (IQ2), 8 + g or
   * 7 - g (IQ3). Scales s have 4 bits. Of seven bits of signs the eighth is the parity.
   * For each 32 values 8 bytes: 4 × 8 bits of grid; 4 × 7 bits of signs, s:
   * d × (2 s + 1) / 8 × llk_iq2_values[q] */
  LLK_IQ2_XXS = 16,
  /* d; 32 × 16 bits: 9 of grid, 7 of signs, of 8 values; 16 × s, of 16 values each, the first in the
   * low half: as above */
  LLK_IQ2_XS = 17,
  /* d; 64 bytes of grid, of 4 values each; for each 32 values 4 bytes: 4 × 7 bits of signs, s:
   * d × (2 s + 1) / 4 × llk_iq3_values[q] */
  LLK_IQ3_XXS = 18,

  /* d, nibbles: d × llk_iq4_values[q] */
  LLK_IQ4_NL = 20,
  /* d; 64 bytes of grid, of 4 values each; 8 bytes: bit i of byte e / 32 is the ninth bit of the
   * i-th of them; 32 bytes of signs; 8 × s, of 32 values each: d × (2 s + 1) × (2 q - 15) */
  LLK_IQ3_S = 21,
  /* d; 32 bytes of grid, of 8 values each; 32 bytes of signs; 8 bytes: bits 2 i of byte e / 32 are
   * the upper bits of the i-th grid entry; 16 × s, of 16 values each: as IQ2_XXS */
  LLK_IQ2_S = 22,
  /* d; 16 bits: bits 2 i are the upper bits of scale s_i, of 32 values each; 4
   * bytes: their low halves, two in a byte, the low half first; 8 × nibbles:
   * d × (s - 32) × llk_iq4_values[q] */
  LLK_IQ4_XS = 23,

  LLK_BF16 = 30,

  /* Blocks of 32: one byte e, an exponent (e8m0), nibbles: 2^(e - 128) ×
   * llk_mxfp4_values[q], which are twice those of a 4-bit float (e2m1) */
  LLK_MXFP4 = 39,

  /* Blocks of 128: d; 16 bytes: bit e mod 8 of byte e / 8: d where it is set, -d elsewhere */
  LLK_Q1_0 = 41,
} LlkType;

/* All types are below. */
#define LLK_TYPE_LIMIT 42

/* What four bits stand for. */
extern const int8_t llk_iq4_values[16];
extern const int8_t llk_mxfp4_values[16];
/* IQ3_XXS; and what three bits stand for in IQ2 types, padded. */
extern const int8_t llk_iq3_values[16];
extern const int8_t llk_iq2_values[16];

/* Whether this code computes with @type; anything may be passed. */
bool        llk_type_is_known    (uint32_t type);
/* "Q8_0"; NULL for an unknown one. */
const char *llk_type_name        (uint32_t type);
/* Values in one block, 1 for plain formats; 0 for an unknown type. */
size_t      llk_type_block_size  (uint32_t type);
/* Bytes of one block; 0 for an unknown type. */
size_t      llk_type_block_bytes (uint32_t type);
