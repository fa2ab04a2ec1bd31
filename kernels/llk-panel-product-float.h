/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Products of panels of F32, F16 and BF16 with rows of LLK_ACTIVATION_F32, as
 * llk-product.h defines them: four sums an output, by the input's number modulo
 * four. Panels lie side by side as in llk-panel-product.h, which is included before.
 */

#pragma once

#define N_SUMS 4
#define TURN_BYTES 2304       /* of each stream in turn */

/* The four sums of each row and part of a panel. */
typedef struct
{
  Floats of[N_PARTS][FLOAT_ROWS][N_SUMS];
} FloatSums;

INLINE size_t
get_input_bytes (LlkType type)
{
  return N * (type == LLK_F32 ? 4 : 2);
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
      return load_floats ((const float *) (const void *) panel + N * i + lane);
    case LLK_F16:
      return floats_of_halves (panel + 2 * (N * i + lane));
    default:
      return floats_of_pairs (panel + 4 * (N * (i / 2) + lane), i % 2);
    }
}

/* Inputs [@first, @last) of a piece, whose first is input 0 of @x; @first is a multiple of
 * four. */
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
                local[r][k] = multiply_add_value (w, x + r * x_stride + i, k, local[r][k]);
            }
        }

#pragma GCC unroll 4
      for (size_t k = 0; k < N_SUMS; k++)
#pragma GCC unroll 4
        for (size_t r = 0; r < n_rows; r++)
          {
            if (i + k < last)
              local[r][k] = multiply_add_value (load_weights (type, panel, i + k, lane),
                                                x + r * x_stride + i, k, local[r][k]);
            sums->of[part][r][k] = local[r][k];
          }
    }
}

/* A piece of some panels, from @panels on; @x is at its first input. The next panels
 * @follow. */
INLINE void
add_piece (const LlkPiece *piece,
           LlkType         type,
           const uint8_t  *panels,
           size_t          panel_bytes,
           size_t          n_streams,
           bool            follow,
           const float    *x,
           size_t          x_stride,
           size_t          n_rows,
           FloatSums      *sums)
{
  const size_t turn_inputs = TURN_BYTES / get_input_bytes (type) / N_SUMS * N_SUMS;
  const size_t n_ahead = n_streams < 2 ? n_streams : 2;

  for (size_t i = 0; i < piece->n_in; i += turn_inputs)
    {
      const size_t offset = i * get_input_bytes (type);
      const size_t last = piece->n_in - i < turn_inputs ? piece->n_in : i + turn_inputs;
      const size_t next = last < piece->n_in ? turn_inputs * get_input_bytes (type)
                          : follow           ? n_streams * panel_bytes - offset
                                             : 0;

      for (size_t s = 0; s < n_streams; s++)
        {
          const uint8_t *panel = panels + s * panel_bytes;
          const uint8_t *ahead = s + n_ahead < n_streams
                                   ? panel + offset + n_ahead * panel_bytes
                                   : panel + offset + next - (n_streams - n_ahead) * panel_bytes;

          add_inputs (type, n_rows, panel, ahead, x, x_stride, i, last, &sums[s]);
        }
    }
}

/* At most FLOAT_ROWS rows, @first_row the number of the first. */
INLINE void
multiply_float_group (const LlkMatrix *w,
                      LlkType          type,
                      size_t           first,
                      size_t           n_streams,
                      bool             follows,
                      const float     *x,
                      size_t           x_stride,
                      size_t           first_row,
                      size_t           n_rows,
                      float           *y,
                      size_t           y_stride,
                      bool             is_added)
{
  FloatSums sums[MAX_STREAMS];
  size_t input = 0;

  for (size_t s = 0; s < n_streams; s++)
    for (size_t part = 0; part < N_PARTS; part++)
      for (size_t r = 0; r < n_rows; r++)
        for (size_t k = 0; k < N_SUMS; k++)
          sums[s].of[part][r][k] = splat_float (0);

  /* The caller has cut rows so that all of them end at the same piece. */
  for (const LlkPiece *piece = w->pieces;
       piece < w->pieces + w->n_pieces && piece->n_rows > first_row; piece++)
    {
      const size_t panel_bytes = llk_panel_bytes (type, input, piece->n_in);

      add_piece (piece, type, (const uint8_t *) piece->panels + first * panel_bytes, panel_bytes,
                 n_streams, follows, x + input, x_stride, n_rows, sums);
      input += piece->n_in;
    }

  for (size_t s = 0; s < n_streams; s++)
    for (size_t r = 0; r < n_rows; r++)
      {
        const size_t output = (first + s) * N;
        const size_t n_left = w->n_out - output;
        float totals[N] __attribute__ ((aligned (64)));

        for (size_t part = 0; part < N_PARTS; part++)
          {
            const Floats *four = sums[s].of[part][r];

            store_floats (totals + N_LANES * part, add_floats (add_floats (four[0], four[1]),
                                                               add_floats (four[2], four[3])));
          }
        write_sums (totals, n_left < N ? n_left : N, y + r * y_stride + output, is_added);
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
  const size_t width = get_width (2);
  const size_t end = first + n_panels;
  const float *x = rows;

  /* Each group of panels for all rows, so that it stays in the cache. */
  for (; first < end; first += width)
    {
      const size_t n_streams = end - first < width ? end - first : width;
      const bool follows = end - first > n_streams;

      for (size_t r = 0, n; r < n_rows; r += n)
        {
          n = count_alike (w, r, n_rows - r < FLOAT_ROWS ? n_rows - r : FLOAT_ROWS);
          if (n == FLOAT_ROWS)
            multiply_float_group (w, type, first, n_streams, follows, x + r * x_stride, x_stride,
                                  r, FLOAT_ROWS, y + r * y_stride, y_stride, is_added);
          else
            {
              n = 1;
              multiply_float_group (w, type, first, n_streams, follows, x + r * x_stride,
                                    x_stride, r, 1, y + r * y_stride, y_stride, is_added);
            }
        }
    }
}
