/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * W8A8 products as llk-w8.h defines them, in the vectors of the file that includes this: a block
 * of rows times some vectors of outputs stays in registers over all inputs, and each line of a tile is
 * read once for all rows of the block. The file says W8_PANELS and W8_ROWS: what fits into registers.
 */

#pragma once

#include "kernels/llk-w8-rows.h"

#define W8_PARTS (W8_N / N_LANES)              /* vectors of a line */
#define W8_VECTORS (W8_PANELS * W8_PARTS)

typedef int32_t W8Sums[W8_ROWS][W8_PANELS * W8_N] __attribute__ ((aligned (64)));

/* @n_panels and @n_rows are constants. */
INLINE void
sum_block (const int8_t   *panels,
           size_t          panel_bytes,
           size_t          n_panels,
           const LlkW8Row *rows,
           size_t          row_bytes,
           size_t          n_rows,
           size_t          n_in,
           W8Sums          sums)
{
  Ints acc[W8_ROWS][W8_VECTORS];
  const int8_t *x[W8_ROWS];

#pragma GCC unroll 8
  for (size_t r = 0; r < n_rows; r++)
    {
      const LlkW8Row *row = (const void *) ((const char *) rows + r * row_bytes);

      x[r] = row->q;
#pragma GCC unroll 8
      for (size_t v = 0; v < n_panels * W8_PARTS; v++)
        acc[r][v] = splat_int (HAS_UNSIGNED_BYTES ? -128 * row->sum : 0);
    }
  for (size_t i = 0; i < n_in; i += 16, panels += 256)
#pragma GCC unroll 4
    for (size_t k = 0; k < 4; k++)
      {
        Weights w[W8_VECTORS];

#pragma GCC unroll 8
        for (size_t v = 0; v < n_panels * W8_PARTS; v++)
          w[v] = make_weights (load_ints (panels + v / W8_PARTS * panel_bytes + 64 * k
                                          + v % W8_PARTS * sizeof (Ints)));
#pragma GCC unroll 8
        for (size_t r = 0; r < n_rows; r++)
#pragma GCC unroll 8
          for (size_t v = 0; v < n_panels * W8_PARTS; v++)
            acc[r][v] = add_group_dots (acc[r][v], w[v], x[r] + i, k);
      }
#pragma GCC unroll 8
  for (size_t r = 0; r < n_rows; r++)
#pragma GCC unroll 8
    for (size_t v = 0; v < n_panels * W8_PARTS; v++)
      store_ints (&sums[r][v * N_LANES], acc[r][v]);
}

#define SUM_ROWS(n)                                                                            \
  case n:                                                                                      \
    sum_block (panels, panel_bytes, n_panels, rows, row_bytes, n, n_in, sums);                 \
    break;

INLINE void
sum_rows (const int8_t   *panels,
          size_t          panel_bytes,
          size_t          n_panels,
          const LlkW8Row *rows,
          size_t          row_bytes,
          size_t          n_rows,
          size_t          n_in,
          W8Sums          sums)
{
  switch (n_rows)
    {
      SUM_ROWS (1)
      SUM_ROWS (2)
      SUM_ROWS (3)
#if W8_ROWS > 4
      SUM_ROWS (4)
      SUM_ROWS (5)
#endif
    default:
      sum_block (panels, panel_bytes, n_panels, rows, row_bytes, W8_ROWS, n_in, sums);
    }
}

/* Of @n_panels panels, W8_PANELS or fewer. */
static void
sum_panels (const LlkW8Matrix *w,
            size_t             first,
            size_t             n_panels,
            const LlkW8Row    *rows,
            size_t             n_rows,
            W8Sums             sums)
{
  const size_t panel_bytes = llk_w8_panel_bytes (w->n_in, w->n_hot);
  const size_t row_bytes = llk_w8_row_bytes (w->n_in);
  const size_t n_in = row_bytes - sizeof (LlkW8Row);
  const int8_t *panels = w->panels + first * panel_bytes;

  if (n_panels == W8_PANELS)
    sum_rows (panels, panel_bytes, W8_PANELS, rows, row_bytes, n_rows, n_in, sums);
  else
    for (size_t p = 0; p < n_panels; p++)
      {
        W8Sums one;

        sum_rows (panels + p * panel_bytes, panel_bytes, 1, rows, row_bytes, n_rows, n_in, one);
        for (size_t r = 0; r < n_rows; r++)
          memcpy (&sums[r][p * W8_N], one[r], W8_N * sizeof **one);
      }
}

static inline const float *
get_w8_scales (const LlkW8Matrix *w,
               size_t             panel)
{
  return llk_w8_panel_scales (get_w8_panel (w, panel), w->n_in);
}

static inline const LlkW8Row *
get_w8_row (const LlkW8Matrix *w,
            const LlkW8Row    *rows,
            size_t             r)
{
  return (const void *) ((const char *) rows + r * llk_w8_row_bytes (w->n_in));
}

static void
multiply_w8 (const LlkW8Matrix *w,
             size_t             first,
             size_t             n_panels,
             const LlkW8Row    *rows,
             size_t             n_rows,
             float             *y,
             size_t             y_stride,
             bool               is_added)
{
  W8Sums sums;

  for (size_t panel = first, n; panel < first + n_panels; panel += n)
    {
      n = first + n_panels - panel < W8_PANELS ? first + n_panels - panel : W8_PANELS;
      for (size_t row = 0; row < n_rows; row += W8_ROWS)
        {
          const size_t n_block = n_rows - row < W8_ROWS ? n_rows - row : W8_ROWS;

          sum_panels (w, panel, n, get_w8_row (w, rows, row), n_block, sums);
          for (size_t r = 0; r < n_block; r++)
            for (size_t p = 0; p < n; p++)
              write_w8 (&sums[r][p * W8_N], get_w8_scales (w, panel + p),
                        get_w8_row (w, rows, row + r)->scale, count_outputs (w, panel + p),
                        y + (row + r) * y_stride + (panel + p) * W8_N, is_added);
        }
    }
}

#define W8_OPS                                                                                  \
  { quantize_w8, quantize_part_w8, finish_w8, add_hot_w8, find_beyond_w8, multiply_w8, add_beyond_w8 }
