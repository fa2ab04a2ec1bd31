/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Panels: the layout of weights that products read. A panel holds sixteen outputs
 * over all inputs of a piece of a matrix, run after run (llk-run.h) along the
 * inputs, so that every panel is one stream of memory. All sets of instructions read
 * the same layout; a prepared file is good for any processor of the same byte order.
 * Of quantized types, a run of n inputs is
 *
 *   scales       f32 scale[16]; Q4_1 and Q5_1: then f32 min_scale[16]; Q2_K, Q4_K
 *                and Q5_K: f16 d[16], f16 dmin[16] instead
 *   multipliers  s8 r[quad][16][4]: of the four blocks of each quad, for 256 inputs
 *                however short the run is; Q2_K: r | m << 4; Q8_0: u8, 255 for 256
 *   minima       Q4_K, Q5_K: u8 m[quad][16][4] likewise; Q4_1, Q5_1: s16
 *                m[quad][2][16][2], those of blocks 0 and 2, then of 1 and 3
 *   codes        of n inputs
 *
 * Multipliers are those of blocks of 32 or 16 inputs. Of codes of up to six bits, a
 * vector of 64 bytes holds four outputs: in its sixteen bytes 16 l … those of output 4 l + g, for the four vectors g = 0…3. So one
 * instruction looks up 64 weights in four outputs' tables. "bits" are 8 bytes, of
 * which bit 16 l + i belongs to byte 16 l + i of a vector.
 *
 *   4 bits  of each 32 inputs: vectors g: byte i has input i in its low and input 16 + i
 *           in its high half
 *   5 bits  of each 32 inputs: vectors g as above; then the fifth bits: for each g, of
 *           inputs 0…15, then of 16…31
 *   6 bits  of each 64 inputs: two times vectors g as above; then vectors g: byte i has
 *           the two high bits of inputs i, 16 + i, 32 + i and 48 + i
 *   2 bits  of each 64 inputs: vectors g: byte i has inputs i, 16 + i, 32 + i and 48 + i
 *   3 bits  of each 64 inputs: the same of the two low bits; then the third bits: for each
 *           g, of inputs 0…15, 16…31, 32…47, 48…63
 *   8 bits  of each four inputs a vector: byte 4 o + i has input i of output o, int8
 *
 * Plain types:
 *
 *   F32          for each input 16 floats
 *   F16          for each input 16 halves
 *   BF16         for each two inputs 16 pairs, the first input in the first two bytes
 *
 * Whatever is behind the last input, up to a multiple of 64 bytes, is zero. Outputs past the
 * last have weights of zero.
 */

#pragma once

#include "kernels/llk-types.h"

#define LLK_PANEL_OUTPUTS 16
#define LLK_PANEL_ALIGNMENT 64
/* Inputs of a piece begin at multiples of it. */
#define LLK_PIECE_INPUTS 64

/* The sizes above, in bytes; all zero for plain types. An inline function, so
 * that they are constants where the type is one. */
typedef struct
{
  unsigned bits;       /* of a code */
  unsigned block;      /* inputs that share a multiplier */
  size_t scales;
  size_t multipliers;
  size_t minima;
} LlkPanelShape;

static inline LlkPanelShape
llk_panel_shape (LlkType type)
{
  switch (type)
    {
    case LLK_Q8_0:
      return (LlkPanelShape) { 8, 32, 64, 128, 0 };
    case LLK_Q4_0:
    case LLK_IQ4_NL:
    case LLK_IQ4_XS:
    case LLK_IQ3_XXS:
    case LLK_IQ3_S:
    case LLK_MXFP4:
      return (LlkPanelShape) { 4, 32, 64, 128, 0 };
    case LLK_Q4_1:
      return (LlkPanelShape) { 4, 32, 128, 128, 256 };
    case LLK_Q4_K:
      return (LlkPanelShape) { 4, 32, 64, 128, 128 };
    case LLK_Q5_0:
      return (LlkPanelShape) { 5, 32, 64, 128, 0 };
    case LLK_Q5_1:
      return (LlkPanelShape) { 5, 32, 128, 128, 256 };
    case LLK_Q5_K:
      return (LlkPanelShape) { 5, 32, 64, 128, 128 };
    case LLK_Q6_K:
      return (LlkPanelShape) { 6, 16, 64, 256, 0 };
    case LLK_Q3_K:
    case LLK_Q1_0:
    case LLK_IQ2_XXS:
    case LLK_IQ2_XS:
    case LLK_IQ2_S:
      return (LlkPanelShape) { 3, 16, 64, 256, 0 };
    case LLK_Q2_K:
      return (LlkPanelShape) { 2, 16, 64, 256, 0 };
    case LLK_F32:
    case LLK_F16:
    case LLK_BF16:
      break;
    }

  return (LlkPanelShape) { 0 };
}

/* Bytes of a run before its codes. */
static inline size_t
llk_panel_head_bytes (LlkPanelShape shape)
{
  return shape.scales + shape.multipliers + shape.minima;
}

/* Bytes of a run of @n inputs. */
static inline size_t
llk_panel_run_bytes (LlkPanelShape shape,
                     size_t        n)
{
  return llk_panel_head_bytes (shape) + n * 2 * shape.bits;
}

/* A part of a matrix's inputs, packed on its own: panels one behind the other,
 * llk_panel_bytes() each. */
typedef struct
{
  const void *panels;     /* 64-byte aligned */
  size_t n_in;            /* up to the next piece, or the end */
  size_t n_rows;          /* the first rows, that it is multiplied with: not more than of the
                           * piece before */
} LlkPiece;

typedef struct
{
  LlkType type;
  size_t n_in;            /* of all pieces; a multiple of the type's block */
  size_t n_out;           /* any; the last panel may have fewer than sixteen */
  const LlkPiece *pieces; /* in the order of their inputs */
  size_t n_pieces;
} LlkMatrix;

/* Bytes of one panel of the inputs [@in_first, @in_first + @n). Both are multiples of
 * LLK_PIECE_INPUTS, or reach to the matrix's end; so below. */
size_t llk_panel_bytes  (LlkType type, size_t in_first, size_t n);

/* Packs these inputs of outputs [@first, @first + LLK_PANEL_OUTPUTS) of a matrix that
 * a file stores by rows, @row_bytes apart, @n_out of them with @n_in inputs, into one
 * panel. Scales are those of whole runs, so that products don't depend on the pieces. */
void   llk_panel_pack   (LlkType type, const void *rows, size_t row_bytes, size_t n_in,
                         size_t n_out, size_t first, size_t in_first, size_t n, void *panel);

/* The weights of one output of a panel of @n inputs from @in_first on, as products see
 * them: for tests and for those who check. Each is rounded to float once, with a
 * minimum twice. */
void   llk_panel_unpack (LlkType type, const void *panel, size_t in_first, size_t n,
                         size_t output, float *dst);
