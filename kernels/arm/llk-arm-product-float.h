/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Products of panels of F32, F16 and BF16 with rows of LLK_ACTIVATION_F32, as
 * llk-product.h defines them: four sums an output, by the input's number modulo
 * four. llk-arm-product.h is included before.
 */

#pragma once

#define N_SUMS 4
/* Rows whose sums of one part fit into registers; a single row's of all parts do. */
#define FLOAT_ROWS 4
/* Inputs of a panel that stay in the cache while its parts are gone through. */
#define TURN_INPUTS 128

typedef struct
{
  Floats of[N_PARTS][FLOAT_ROWS][N_SUMS];
} FloatSums;

/* Weights of input @i. */
INLINE Floats
load_weights (LlkType        type,
              const uint8_t *panel,
              size_t         i,
              size_t         part)
{
  const size_t lane = N_LANES * part;

  switch (type)
    {
    case LLK_F32:
      return load_floats (panel + 4 * (LLK_PANEL_OUTPUTS * i + lane));
    case LLK_F16:
      return floats_of_halves (panel + 2 * (LLK_PANEL_OUTPUTS * i + lane));
    default:
      return floats_of_pairs (panel + 4 * (LLK_PANEL_OUTPUTS * (i / 2) + lane), i % 2 != 0);
    }
}

/* Inputs [@first, @last), @first a multiple of four, of some parts. */
INLINE void
add_inputs (LlkType        type,
            size_t         n_rows,
            size_t         part,
            size_t         n_parts,
            const uint8_t *panel,
            const float   *x,
            size_t         x_stride,
            size_t         first,
            size_t         last,
            FloatSums     *sums)
{
  Floats local[N_PARTS][FLOAT_ROWS][N_SUMS];

#pragma GCC unroll 4
  for (size_t p = 0; p < n_parts; p++)
#pragma GCC unroll 4
    for (size_t r = 0; r < n_rows; r++)
#pragma GCC unroll 4
      for (size_t k = 0; k < N_SUMS; k++)
        local[p][r][k] = sums->of[part + p][r][k];

  for (size_t i = first; i < last; i += N_SUMS)
    {
      const size_t n_left = last - i;
      Floats values[FLOAT_ROWS];

      /* Rows go on with zeros. */
#pragma GCC unroll 4
      for (size_t r = 0; r < n_rows; r++)
        values[r] = load_floats (x + r * x_stride + i);
#pragma GCC unroll 4
      for (size_t k = 0; k < N_SUMS; k++)
        {
          if (k >= n_left)
            break;
#pragma GCC unroll 4
          for (size_t p = 0; p < n_parts; p++)
            {
              Floats w = load_weights (type, panel, i + k, part + p);

#pragma GCC unroll 4
              for (size_t r = 0; r < n_rows; r++)
                local[p][r][k] = multiply_add_lane (w, values[r], k, local[p][r][k]);
            }
        }
    }

#pragma GCC unroll 4
  for (size_t p = 0; p < n_parts; p++)
#pragma GCC unroll 4
    for (size_t r = 0; r < n_rows; r++)
#pragma GCC unroll 4
      for (size_t k = 0; k < N_SUMS; k++)
        sums->of[part + p][r][k] = local[p][r][k];
}

/* One panel with one row or FLOAT_ROWS. */
INLINE void
multiply_float_rows (LlkType        type,
                     const uint8_t *panel,
                     size_t         n_in,
                     const float   *x,
                     size_t         x_stride,
                     size_t         n_rows,
                     Floats         totals[][N_PARTS])
{
  FloatSums sums;

  for (size_t part = 0; part < N_PARTS; part++)
    for (size_t r = 0; r < n_rows; r++)
      for (size_t k = 0; k < N_SUMS; k++)
        sums.of[part][r][k] = splat_float (0);

  if (n_rows == 1)
    add_inputs (type, 1, 0, N_PARTS, panel, x, x_stride, 0, n_in, &sums);
  else
    for (size_t i = 0; i < n_in; i += TURN_INPUTS)
      for (size_t part = 0; part < N_PARTS; part++)
        add_inputs (type, FLOAT_ROWS, part, 1, panel, x, x_stride, i,
                    n_in - i < TURN_INPUTS ? n_in : i + TURN_INPUTS, &sums);

  for (size_t part = 0; part < N_PARTS; part++)
    for (size_t r = 0; r < n_rows; r++)
      {
        const Floats *four = sums.of[part][r];

        totals[r][part] = add_floats (add_floats (four[0], four[1]),
                                      add_floats (four[2], four[3]));
      }
}

/* LlkProduct.multiply of @type. */
INLINE void
multiply_floats (LlkType          type,
                 const LlkMatrix *w,
                 size_t           first,
                 size_t           n_panels,
                 const void      *rows,
                 size_t           n_rows,
                 float           *y,
                 size_t           y_stride,
                 bool             is_added)
{
  const size_t panel_bytes = llk_panel_bytes (type, w->n_in);
  const size_t x_stride = llk_activation_bytes (LLK_ACTIVATION_F32, w->n_in) / sizeof (float);

  for (size_t p = first; p < first + n_panels; p++)
    {
      const uint8_t *panel = (const uint8_t *) w->panels + p * panel_bytes;
      const size_t output = p * LLK_PANEL_OUTPUTS;
      const size_t n_left = w->n_out - output;
      const size_t n_outputs = n_left < LLK_PANEL_OUTPUTS ? n_left : LLK_PANEL_OUTPUTS;

      for (size_t done = 0, n_now; done < n_rows; done += n_now)
        {
          const float *x = (const float *) rows + done * x_stride;
          Floats totals[FLOAT_ROWS][N_PARTS];

          n_now = n_rows - done < FLOAT_ROWS ? 1 : FLOAT_ROWS;
          if (n_now == 1)
            multiply_float_rows (type, panel, w->n_in, x, x_stride, 1, totals);
          else
            multiply_float_rows (type, panel, w->n_in, x, x_stride, FLOAT_ROWS, totals);
          for (size_t r = 0; r < n_now; r++)
            store_sums (totals[r], n_outputs, y + (done + r) * y_stride + output, is_added);
        }
    }
}
