/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Products of panels of F32, F16 and BF16 with rows of LLK_ACTIVATION_F32, as
 * llk-product.h defines them: four sums an output, by the input's number modulo
 * four. Panels lie side by side as in llk-x86-product.h, which is included before.
 */

#pragma once

#define N_SUMS 4

/* The four sums of each row and part of a panel. */
typedef struct
{
  Floats of[N_PARTS][FLOAT_ROWS][N_SUMS];
} FloatSums;

INLINE size_t
get_input_bytes (LlkType type)
{
  return LLK_PANEL_OUTPUTS * (type == LLK_F32 ? 4 : 2);
}

/* Weights of input @i, of an even one and the one behind for BF16. */
INLINE Floats
load_weights (LlkType        type,
              const uint8_t *panel,
              size_t         i,
              size_t         lane)
{
  switch (type)
    {
    case LLK_F32:
      return load_floats ((const float *) (const void *) panel + LLK_PANEL_OUTPUTS * i + lane);
    case LLK_F16:
      return floats_of_halves (panel + 2 * (LLK_PANEL_OUTPUTS * i + lane));
    default:
      return floats_of_pairs (panel + 4 * (LLK_PANEL_OUTPUTS * (i / 2) + lane), i % 2);
    }
}

/* Inputs [@first, @last), @first a multiple of four. */
INLINE void
add_inputs (LlkType        type,
            size_t         n_rows,
            const uint8_t *panel,
            const uint8_t *ahead,
            const float   *x,
            size_t         x_stride,
            size_t         first,
            size_t         last,
            FloatSums     *sums)
{
  for (size_t part = 0; part < N_PARTS; part++)
    {
      const size_t lane = N_LANES * part;
      Floats local[FLOAT_ROWS][N_SUMS];
      const uint8_t *next = ahead;
      size_t i;

#pragma GCC unroll 4
      for (size_t r = 0; r < n_rows; r++)
#pragma GCC unroll 4
        for (size_t k = 0; k < N_SUMS; k++)
          local[r][k] = sums->of[part][r][k];

      for (i = first; i + N_SUMS <= last; i += N_SUMS, next += N_SUMS * get_input_bytes (type))
        {
          if (part == 0)
            fetch (next, N_SUMS * get_input_bytes (type));
#pragma GCC unroll 4
          for (size_t k = 0; k < N_SUMS; k++)
            {
              Floats w = load_weights (type, panel, i + k, lane);

#pragma GCC unroll 4
              for (size_t r = 0; r < n_rows; r++)
                local[r][k] = multiply_add (w, splat_float (x[r * x_stride + i + k]),
                                            local[r][k]);
            }
        }

#pragma GCC unroll 4
      for (size_t k = 0; k < N_SUMS; k++)
#pragma GCC unroll 4
        for (size_t r = 0; r < n_rows; r++)
          {
            if (i + k < last)
              local[r][k] = multiply_add (load_weights (type, panel, i + k, lane),
                                          splat_float (x[r * x_stride + i + k]), local[r][k]);
            sums->of[part][r][k] = local[r][k];
          }
    }
}

/* One group of panels; the next one @follows. */
INLINE void
multiply_float_group (const LlkMatrix *w,
                      LlkType          type,
                      size_t           first,
                      size_t           n_streams,
                      bool             follows,
                      const float     *x,
                      size_t           x_stride,
                      size_t           n_rows,
                      float           *y,
                      size_t           y_stride,
                      bool             is_added)
{
  const size_t panel_bytes = llk_panel_bytes (type, w->n_in);
  const size_t turn_inputs = TURN_BYTES / get_input_bytes (type) / N_SUMS * N_SUMS;
  const size_t n_ahead = n_streams < 2 ? n_streams : 2;
  const uint8_t *panels = (const uint8_t *) w->panels + first * panel_bytes;
  FloatSums sums[N_STREAMS];

  for (size_t s = 0; s < n_streams; s++)
    for (size_t part = 0; part < N_PARTS; part++)
      for (size_t r = 0; r < n_rows; r++)
        for (size_t k = 0; k < N_SUMS; k++)
          sums[s].of[part][r][k] = splat_float (0);

  for (size_t i = 0; i < w->n_in; i += turn_inputs)
    {
      const size_t offset = i * get_input_bytes (type);
      const size_t last = w->n_in - i < turn_inputs ? w->n_in : i + turn_inputs;
      const size_t next = last < w->n_in ? turn_inputs * get_input_bytes (type)
                          : follows      ? n_streams * panel_bytes - offset
                                         : 0;

      for (size_t s = 0; s < n_streams; s++)
        {
          const uint8_t *panel = panels + s * panel_bytes;

          add_inputs (type, n_rows, panel,
                      get_ahead (panel + offset, s, n_streams, n_ahead, panel_bytes, next), x,
                      x_stride, i, last, &sums[s]);
        }
    }

  for (size_t s = 0; s < n_streams; s++)
    {
      const size_t output = (first + s) * LLK_PANEL_OUTPUTS;
      const size_t n_left = w->n_out - output;
      Sums totals;

      for (size_t part = 0; part < N_PARTS; part++)
        for (size_t r = 0; r < n_rows; r++)
          {
            const Floats *four = sums[s].of[part][r];

            totals.of[part][r] = add_floats (add_floats (four[0], four[1]),
                                             add_floats (four[2], four[3]));
          }
      store_sums (&totals, n_rows, n_left < LLK_PANEL_OUTPUTS ? n_left : LLK_PANEL_OUTPUTS,
                  y + output, y_stride, is_added);
    }
}

/* LlkProduct.multiply of @type. */
INLINE void
multiply_floats (const LlkMatrix *w,
                 LlkType          type,
                 size_t           first,
                 size_t           n_panels,
                 const void      *rows,
                 size_t           n_rows,
                 float           *y,
                 size_t           y_stride,
                 bool             is_added)
{
  const size_t x_stride = llk_activation_bytes (LLK_ACTIVATION_F32, w->n_in) / sizeof (float);
  const size_t end = first + n_panels;

  /* Each group of panels for all rows, so that it stays in the cache. */
  for (; first < end; first += N_STREAMS)
    {
      const size_t n_streams = end - first < N_STREAMS ? end - first : N_STREAMS;
      const bool follows = end - first > n_streams;
      const float *x = rows;
      size_t r;

      for (r = 0; r + FLOAT_ROWS <= n_rows; r += FLOAT_ROWS)
        multiply_float_group (w, type, first, n_streams, follows, x + r * x_stride, x_stride,
                              FLOAT_ROWS, y + r * y_stride, y_stride, is_added);
      for (; FLOAT_ROWS > 2 && r + 2 <= n_rows; r += 2)
        multiply_float_group (w, type, first, n_streams, follows, x + r * x_stride, x_stride, 2,
                              y + r * y_stride, y_stride, is_added);
      for (; r < n_rows; r++)
        multiply_float_group (w, type, first, n_streams, follows, x + r * x_stride, x_stride, 1,
                              y + r * y_stride, y_stride, is_added);
    }
}
