/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* W8A8 products by the definition in llk-w8.h. */

#include "kernels/llk-w8-rows.h"

static const LlkW8Row *
get_row (const LlkW8Matrix *w,
         const LlkW8Row    *rows,
         size_t             r)
{
  return (const void *) ((const char *) rows + r * llk_w8_row_bytes (w->n_in));
}

static void
sum_row (const LlkW8Matrix *w,
         size_t             panel,
         const LlkW8Row    *row,
         int32_t            sums[W8_N])
{
  const int8_t *line = get_w8_panel (w, panel);

  memset (sums, 0, W8_N * sizeof *sums);
  for (size_t i = 0; i < w->n_in; i += 4, line += 64)
    for (size_t o = 0; o < W8_N; o++)
      for (size_t k = 0; k < 4; k++)
        sums[o] += line[4 * o + k] * row->q[i + k];
}

static const float *
get_scales (const LlkW8Matrix *w,
            size_t             panel)
{
  return llk_w8_panel_scales (get_w8_panel (w, panel), w->n_in);
}

static void
multiply (const LlkW8Matrix *w,
          size_t             first,
          size_t             n_panels,
          const LlkW8Row    *rows,
          size_t             n_rows,
          float             *y,
          size_t             y_stride,
          bool               is_added)
{
  for (size_t panel = first; panel < first + n_panels; panel++)
    for (size_t r = 0; r < n_rows; r++)
      {
        const LlkW8Row *row = get_row (w, rows, r);
        int32_t sums[W8_N];

        sum_row (w, panel, row, sums);
        write_w8 (sums, get_scales (w, panel), row->scale, count_outputs (w, panel),
                  y + r * y_stride + panel * W8_N, is_added);
      }
}

const LlkW8Ops llk_portable_w8 = { quantize_w8, quantize_part_w8, finish_w8, add_hot_w8,
                                   find_beyond_w8, multiply, add_beyond_w8 };
