/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the files for AMX share. The unit multiplies tiles, registers of 16 rows
 * of 64 bytes: sixteen rows of activations with one panel. Products here work on
 * blocks of 32 rows and two panels, in runs of 256 inputs:
 *
 *   tiles 0, 1   sums of the upper sixteen rows with the first and second panel
 *   tiles 2, 3   of the lower rows
 *   tiles 4, 5   activations of the upper and the lower rows
 *   tiles 6, 7   weights of the two panels
 *
 * The compiler does not know what tiles read: compile_barrier() goes between
 * ordinary stores and the tile loads that need them, and between tile loads and
 * stores to the same place. Storing a tile is known to write memory.
 */

#pragma once

#include "kernels/x86/llk-avx512.h"

#define TILE_ROWS 16
#define TILE_BYTES 1024
#define BLOCK_ROWS (2 * TILE_ROWS)
#define BLOCK_OUTPUTS (2 * LLK_PANEL_OUTPUTS)

extern const LlkProduct llk_amx_int8;   /* all types of blocks */
extern const LlkProduct llk_amx_bf16;   /* F16 and BF16 */

INLINE void
compile_barrier (void)
{
  __asm__ volatile ("" : : : "memory");
}

/* Tiles for blocks of @n_rows rows, at most BLOCK_ROWS. */
INLINE void
configure_tiles (size_t n_rows)
{
  const uint8_t upper = (uint8_t) (n_rows < TILE_ROWS ? n_rows : TILE_ROWS);
  const uint8_t lower = (uint8_t) (n_rows - upper);
  struct
  {
    uint8_t palette;
    uint8_t first_row;
    uint8_t reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } __attribute__ ((aligned (64))) configuration = {
    .palette = 1,
    .rows = { upper, upper, lower, lower, upper, lower, TILE_ROWS, TILE_ROWS },
  };

  for (size_t i = 0; i < 8; i++)
    configuration.row_bytes[i] = configuration.rows[i] != 0 ? 64 : 0;
  compile_barrier ();
  _tile_loadconfig (&configuration);
}

/* Adds sums, or stores them, to the @n_outputs that exist of BLOCK_OUTPUTS of
 * one row. */
INLINE void
write_outputs (__m512 first,
               __m512 second,
               size_t n_outputs,
               float *y,
               bool   is_added)
{
  const __mmask16 first_mask = first_lanes (n_outputs < 16 ? n_outputs : 16);
  const __mmask16 second_mask = first_lanes (n_outputs < 16 ? 0 : n_outputs - 16);

  if (is_added)
    {
      first = _mm512_add_ps (_mm512_maskz_loadu_ps (first_mask, y), first);
      second = _mm512_add_ps (_mm512_maskz_loadu_ps (second_mask, y + 16), second);
    }
  _mm512_mask_storeu_ps (y, first_mask, first);
  _mm512_mask_storeu_ps (y + 16, second_mask, second);
}

/* Whether results go around the cache: those of many rows don't stay in it until they are
 * read, and this way their places are not fetched before they are overwritten. The
 * call ends with a fence, so that other threads see them. */
INLINE bool
can_stream (const float *y,
            size_t       y_stride,
            size_t       n_rows)
{
  return n_rows > 4 * BLOCK_ROWS && (uintptr_t) y % 64 == 0 && y_stride % 16 == 0;
}

INLINE void
stream_outputs (__m512 first,
                __m512 second,
                float *y)
{
  _mm512_stream_ps (y, first);
  _mm512_stream_ps (y + 16, second);
}

/* Rows that have no inputs are zeros. Returns how many have some. */
INLINE size_t
write_rows_without_inputs (const LlkMatrix *w,
                           size_t           first,
                           size_t           n_panels,
                           size_t           n_rows,
                           float           *y,
                           size_t           y_stride,
                           bool             is_added)
{
  const size_t outputs = (first + n_panels) * LLK_PANEL_OUTPUTS;
  const size_t end = outputs < w->n_out ? outputs : w->n_out;
  size_t n_left = 0;

  for (size_t i = 0; i < w->n_pieces && n_left == 0; i++)
    if (w->pieces[i].n_in > 0)
      n_left = w->pieces[i].n_rows;
  for (size_t r = n_left; r < n_rows; r++)
    for (size_t o = first * LLK_PANEL_OUTPUTS; o < end; o++)
      y[r * y_stride + o] = is_added ? y[r * y_stride + o] + 0 : 0;
  return n_left < n_rows ? n_left : n_rows;
}
