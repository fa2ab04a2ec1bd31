/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Panels: the layout of weights that products read. A panel holds sixteen
 * outputs over all inputs of a matrix, block after block along the inputs, so
 * that one vector instruction serves sixteen outputs and every panel is one
 * stream of memory. All sets of instructions read the same layout; a prepared
 * file is good for any processor of the same byte order.
 *
 * Integers lie in groups of four inputs of 64 bytes: byte 4 o + i of a group belongs
 * to output o and input 4 g + i, g being the number of the group in its run of
 * 32 inputs. That is what dot-product instructions, and the tiles of a matrix
 * unit, read. Types of fewer bits put several groups into the same bytes; per
 * run of 32 inputs there are these forms of integers:
 *
 *   eights       8 × 64 bytes: vector g is group g, int8
 *   fours        4 × 64 bytes: bits 0…3 of vector g are group g, bits 4…7 group g + 4
 *   twos         2 × 64 bytes: bits 2 (g mod 4)… of vector g / 4 are group g
 *   ones         1 × 64 bytes: bit g is group g
 *
 * A panel of blocks consists of sections: a header with the 16-bit (8-bit for
 * MXFP4) scales of one, two or four blocks, so that everything stays aligned to
 * 64 bytes, and then these blocks, each with its 8-bit scales and its integers.
 * In the last section blocks may be missing; the header's places for them are
 * zero. [2] stands for the block's number in its section.
 *
 *   type         block  header of a section           block
 *   Q8_0            32  f16 d[2][16]                   eights
 *   Q4_0 IQ4_NL     32  f16 d[2][16]                   fours
 *   MXFP4           32  e8m0 d[4][16]                  fours
 *   Q4_1            32  f16 d[2][16], f16 min[2][16]   fours
 *   Q5_0            32  f16 d[2][16]                   fours, ones (the fifth bit)
 *   Q5_1            32  f16 d[2][16], f16 min[2][16]   fours, ones
 *   Q4_K           256  f16 d[16], f16 dmin[16]        u8 scale[8][16], u8 min[8][16], 8 × fours
 *   Q5_K           256  f16 d[16], f16 dmin[16]        the same, 8 × (fours, ones)
 *   IQ4_XS         256  f16 d[2][16]                   s8 scale[8][16], 8 × fours
 *   Q6_K           256  f16 d[2][16]                   s8 scale[16][16], 8 × (fours, twos: the
 *                                                      two high bits)
 *   Q3_K           256  f16 d[2][16]                   s8 scale[16][16], 8 × (twos, ones: the
 *                                                      third bit)
 *   Q2_K           256  f16 d[16], f16 dmin[16]        u8 (scale | min << 4)[16][16], 8 × twos
 *
 * scale[j] belongs to the j-th 32 inputs of the block, or 16 when there are
 * sixteen. Integers are stored as the file has them, unsigned, before a zero
 * point is subtracted (8, 16, 32 or 4) or a table looked up; Q8_0's are int8.
 * 8-bit scales of IQ4_XS and Q3_K have their 32 subtracted already. Plain types:
 *
 *   F32          for each input 16 floats
 *   F16          for each input 16 halves
 *   BF16         for each two inputs 16 pairs, the first input in the first two bytes
 *
 * Whatever is behind the last input, up to a multiple of 64 bytes, is zero, and
 * so is everything of outputs past the last, whose values are zeros then.
 */

#pragma once

#include "kernels/llk-types.h"

#define LLK_PANEL_OUTPUTS 16
#define LLK_PANEL_ALIGNMENT 64

/* The sizes above, in bytes; all zero for plain types. An inline function, so
 * that they are constants where the type is one. */
typedef struct
{
  size_t block;        /* inputs of a block */
  size_t n_in_section; /* blocks of a section */
  size_t header;       /* of a section */
  size_t scales;       /* 8-bit ones before a block's integers */
  size_t integers;     /* of 32 inputs */
} LlkPanelShape;

static inline LlkPanelShape
llk_panel_shape (LlkType type)
{
  switch (type)
    {
    case LLK_Q8_0:
      return (LlkPanelShape) { 32, 2, 64, 0, 512 };
    case LLK_Q4_0:
    case LLK_IQ4_NL:
      return (LlkPanelShape) { 32, 2, 64, 0, 256 };
    case LLK_MXFP4:
      return (LlkPanelShape) { 32, 4, 64, 0, 256 };
    case LLK_Q4_1:
      return (LlkPanelShape) { 32, 2, 128, 0, 256 };
    case LLK_Q5_0:
      return (LlkPanelShape) { 32, 2, 64, 0, 320 };
    case LLK_Q5_1:
      return (LlkPanelShape) { 32, 2, 128, 0, 320 };
    case LLK_Q4_K:
      return (LlkPanelShape) { 256, 1, 64, 256, 256 };
    case LLK_Q5_K:
      return (LlkPanelShape) { 256, 1, 64, 256, 320 };
    case LLK_IQ4_XS:
      return (LlkPanelShape) { 256, 2, 64, 128, 256 };
    case LLK_Q6_K:
      return (LlkPanelShape) { 256, 2, 64, 256, 384 };
    case LLK_Q3_K:
      return (LlkPanelShape) { 256, 2, 64, 256, 192 };
    case LLK_Q2_K:
      return (LlkPanelShape) { 256, 1, 64, 256, 128 };
    case LLK_F32:
    case LLK_F16:
    case LLK_BF16:
      break;
    }

  return (LlkPanelShape) { 0 };
}

/* Bytes of one block without its share of a header. */
static inline size_t
llk_panel_block_bytes (LlkPanelShape shape)
{
  return shape.scales + shape.block / 32 * shape.integers;
}

/* Offset of the header that holds block @b's scales. */
static inline size_t
llk_panel_header_offset (LlkPanelShape shape,
                         size_t        b)
{
  return b / shape.n_in_section *
         (shape.header + shape.n_in_section * llk_panel_block_bytes (shape));
}

/* Offset of block @b: its 8-bit scales, then its integers. */
static inline size_t
llk_panel_block_offset (LlkPanelShape shape,
                        size_t        b)
{
  return llk_panel_header_offset (shape, b) + shape.header +
         b % shape.n_in_section * llk_panel_block_bytes (shape);
}

/* A packed matrix: panels one behind the other, llk_panel_bytes() each. */
typedef struct
{
  LlkType type;
  const void *panels;   /* 64-byte aligned */
  size_t n_in;          /* a multiple of the type's block */
  size_t n_out;         /* any; the last panel may have fewer than sixteen */
} LlkMatrix;

/* Bytes of one panel of @n_in inputs. */
size_t llk_panel_bytes (LlkType type, size_t n_in);

/* Packs outputs [@first, @first + LLK_PANEL_OUTPUTS) of a matrix that a file
 * stores by rows, @row_bytes apart, @n_out of them, into one panel. Changes no
 * value. */
void   llk_panel_pack  (LlkType type, const void *rows, size_t row_bytes, size_t n_in,
                        size_t n_out, size_t first, void *panel);

/* One output of a panel as floats: for tests and for those who check. Exact. */
void   llk_panel_unpack (LlkType type, const void *panel, size_t n_in, size_t output, float *dst);
