/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * W8A8 products: int8 weights with one scale for each output, rows of int8 with one scale that is
 * known beforehand, and one exact sum over all inputs. There are no groups with scales of their own,
 * so that nothing but products of bytes is in the inner loop, and no pass over a row looks for its
 * maximum. For prompts, whose rows are many. What the scale of a row does not reach is multiplied in
 * floats with the same int8 weights, panel by panel while it lies in the cache; what is far beyond it
 * in most rows, as floats with floats.
 *
 * All sets of instructions give the same bits.
 */

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LLK_W8_OUTPUTS 16       /* of a panel */
#define LLK_W8_INPUTS 64        /* of a tile */
/* So many products of 255 × 127 fit into a sum of 32 bits. */
#define LLK_W8_MAX_INPUTS 65536
#define LLK_W8_LIMIT 127

/* A panel has sixteen outputs over all inputs, filled up with zeros: tiles of 64 inputs one behind
 * the other, each of sixteen times 64 bytes: byte 4 o + i of line j is input 4 j + i of output o. So
 * a tile is what a matrix unit loads, a line what a vector's dot product takes, and every reader
 * goes through memory in order. Behind the tiles are sixteen floats, the scales of the outputs, and
 * then as many for each hot input: its weights as floats. Values of hot inputs are so large that one
 * scale can't serve them and the others: they are multiplied in floats (add_hot()), and their q are 0. */
typedef struct
{
  size_t n_in, n_out;
  size_t n_hot;                 /* hot inputs */
  const int8_t *panels;         /* 64-byte aligned, llk_w8_panel_bytes() each */
  const uint16_t *hot_of;       /* (nullable) [n_in]: 1 + the place among the hot ones, 0: not hot */
} LlkW8Matrix;

/* x ≈ scale × q, q from -127 to 127; filled up with zeros. A row that holds a NaN or an infinity has
 * scale NaN and zeros. */
typedef struct
{
  float scale;
  int32_t sum;                  /* of all q */
  uint8_t unused[56];           /* zero */
  int8_t q[];
} LlkW8Row;

/* Bytes of a panel, and of a row: multiples of 64. */
size_t llk_w8_panel_bytes (size_t n_in, size_t n_hot);
size_t llk_w8_row_bytes   (size_t n_in);
/* Of a panel, too. */
const float *llk_w8_panel_scales (const int8_t *panel, size_t n_in);

/* Packs panel @panel of the matrix whose shape and hot inputs @of has to @to, from up to sixteen
 * outputs, @n of them, whose weights lie @stride apart: with m the largest magnitude of an output, its
 * scale is m / 127, and q = w × (127 / m), to nearest even. An output below 1e-30 is all zeros with
 * scale 0; one with a NaN or an infinity has scale NaN. Outputs behind the last are zeros. */
void   llk_w8_pack        (const LlkW8Matrix *of, const float *w, size_t stride, size_t n,
                           int8_t *to);

/* What a row has at an input beyond its q, as a float. */
typedef struct
{
  uint32_t input;
  float value;
} LlkW8Beyond;

typedef struct
{
  /* A row of @n values: q = x × (1 / scale), at most 127 either way, to nearest even, all in float.
   * @scale is positive. Returns how many values are beyond: |x × (1 / scale)| > 127, or a NaN. */
  size_t (*quantize) (const float *x, size_t n, float scale, LlkW8Row *row);

  /* The same in parts, so that no row of floats need be in memory: the q of some values, which are
   * anything for what is not finite; and of a row of @n values whose scale and q are all there the
   * sum, and zeros behind the last. */
  size_t (*quantize_part) (const float *x, size_t n, float scale, int8_t *q);
  void   (*finish)        (size_t n, LlkW8Row *row);

  /* Adds what rows have at hot inputs: y[r * y_stride + o] += the sum of value × weight over these, in
   * their order, from 0; each "×" and "+" is rounded to float. @hot: [rows × n_hot]. For the same
   * outputs as multiply(). */
  void (*add_hot)    (const LlkW8Matrix *w, size_t first, size_t n_panels, const float *hot,
                      size_t n_rows, float *y, size_t y_stride);

  /* Of the values that quantize() counts as beyond, x - scale × 127 × sign (x), by rising input.
   * @beyond has room for as many. Returns how many there are. */
  size_t (*find_beyond) (const float *x, size_t n, float scale, LlkW8Beyond *beyond);

  /* y[r * y_stride + o] = sum × (row's scale × output's scale) for outputs o of panels [@first,
   * @first + @n_panels) that are below n_out: the sum is exact, "float of the sum" and both "×" are
   * rounded to float. Added to what y holds with @is_added. Rows are llk_w8_row_bytes() apart. */
  void (*multiply)   (const LlkW8Matrix *w, size_t first, size_t n_panels, const LlkW8Row *rows,
                      size_t n_rows, float *y, size_t y_stride, bool is_added);

  /* Adds what rows have beyond their q: y[r * y_stride + o] += s × output's scale, where s is the sum of
   * value × weight's q of the @n_beyond[r] of @beyond[r] in their order, from 0; each "×" and "+" is
   * rounded to float. For the same outputs as multiply(). */
  void (*add_beyond) (const LlkW8Matrix *w, size_t first, size_t n_panels,
                      const LlkW8Beyond *const *beyond, const uint32_t *n_beyond, size_t n_rows,
                      float *y, size_t y_stride);
} LlkW8Ops;
