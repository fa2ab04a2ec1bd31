/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Several rows times a run of a panel, for llk-panel-product.h: the run's bytes are stored
 * first, once for all rows. */

#pragma once

#include "kernels/llk-panel-weights.h"

#define MAX_ROWS 64           /* that share what was taken apart */

INLINE void
store_part (LlkType        type,
            const uint8_t *part,
            const uint8_t *ahead,
            size_t         n,
            int8_t        *groups)
{
  UNROLL_PARTS
  for (size_t p = 0; p < N_PARTS; p++)
    {
      Sink sink = { .is_stored = true, .part = p, .groups = groups };

      put_weights (type, &sink, part, ahead, n);
    }
}

/* Q8_0, whose codes are in groups. */
static void
store_bytes (const uint8_t *part,
             const uint8_t *ahead,
             size_t         n,
             int8_t        *groups)
{
  const size_t head = llk_panel_head_bytes (llk_panel_shape (LLK_Q8_0));

  fetch (ahead, head);
  for (size_t i = 0; i < n; i += 32)
    {
      fetch (ahead + head + i * N, 32 * N);
      UNROLL_PARTS
      for (size_t p = 0; p < N_PARTS; p++)
        {
          const Ints r = load_long_multipliers (part, i / 32, p);

#pragma GCC unroll 4
          for (size_t k = 0; k < 8; k += 2)
            {
              const size_t at = 16 * i + 64 * k + sizeof (Ints) * p;
              const Ints a = scale_group (load_ints (part + head + at), r, false);
              const Ints b = scale_group (load_ints (part + head + at + 64), r, false);

              store_ints (groups + at, HAS_PAIRS ? low_words (a, b) : a);
              store_ints (groups + at + 64, HAS_PAIRS ? high_words (a, b) : b);
            }
        }
    }
}

INLINE void
store_part_minima (LlkType        type,
                   const uint8_t *part,
                   int16_t       *minima)
{
  const size_t n_quads = type == LLK_Q2_K ? 4 : 2;

  UNROLL_PARTS
  for (size_t p = 0; p < N_PARTS; p++)
#pragma GCC unroll 4
    for (size_t quad = 0; quad < n_quads; quad++)
      {
        int16_t *dst = minima + 64 * quad + sizeof (Ints) / 2 * p;
        Ints pairs[2];

        load_minima (type, part, quad, p, pairs);
        store_ints (dst, pairs[0]);
        store_ints (dst + 32, pairs[1]);
      }
}

INLINE void
load_run_scales (LlkType        type,
                 const uint8_t *run,
                 float         *scales,
                 float         *min_scales)
{
#pragma GCC unroll 4
  for (size_t lane = 0; lane < N; lane += N_LANES)
    {
      store_floats (scales + lane, load_scale (type, run, lane));
      if (llk_run_has_minima (type))
        store_floats (min_scales + lane, load_min_scale (type, run, lane));
    }
}

/* A vector of outputs of a run: of a panel, or of a part of one. */
typedef struct
{
  const int8_t *groups;
  const int16_t *minima;
  const float *scales;
  const float *min_scales;
  float *sums;                /* of the first row */
} Column;

static Column
get_column (const StoredRun *run,
            size_t           part,
            float           *sums)
{
  return (Column) {
    run->groups + sizeof (Ints) * part,
    run->minima + sizeof (Ints) / 2 * part,
    run->scales + N_LANES * part,
    run->min_scales + N_LANES * part,
    sums + N_LANES * part,
  };
}

/* Adds a row's exact sums over a run, of whose weights each is too small by @moved. */
INLINE void
add_column_dots (const Column           *column,
                 size_t                  r,
                 const LlkActivationRun *x,
                 int                     moved,
                 Ints                    dots)
{
  float *place = column->sums + r * N;

  dots = add_ints (dots, splat_int (moved * x->sum));
  store_floats (place, add_scaled (load_floats (place), dots, load_floats (column->scales),
                                   x->scale));
}

/* @n_minima is a constant, so that the minima stay in registers. */
INLINE void
add_minima (const Column  *column,
            size_t         n_minima,
            const uint8_t *rows,
            size_t         row_bytes,
            size_t         n_rows)
{
  const Floats scales = load_floats (column->min_scales);
  Ints minima[MAX_MINIMA / 32];

#pragma GCC unroll 8
  for (size_t i = 0; i < n_minima; i++)
    minima[i] = load_ints (column->minima + 32 * i);
  for (size_t r = 0; r < n_rows; r++)
    {
      const LlkActivationRun *x = (const void *) (rows + r * row_bytes);
      const int16_t *block_sums = n_minima == 8 ? x->sums : x->long_sums;
      float *place = column->sums + r * N;
      ShortDots dots = { 0 };

#pragma GCC unroll 8
      for (size_t i = 0; i < n_minima; i++)
        dots = add_short_dots (dots, minima[i], splat_four (block_sums + 2 * i));
      store_floats (place, add_scaled (load_floats (place), sum_short_dots (dots), scales,
                                       x->scale));
    }
}

/* What the minima of a run's blocks make, behind add_column_dots(). */
static void
add_column_minima (const TypeOps *ops,
                   const Column  *column,
                   const uint8_t *rows,
                   size_t         row_bytes,
                   size_t         n_rows)
{
  if (ops->n_minima == 8)
    add_minima (column, 8, rows, row_bytes, n_rows);
  else if (ops->n_minima == 4)
    add_minima (column, 4, rows, row_bytes, n_rows);
}

#if HAS_PAIRS

/* @n inputs of two columns times @n_rows rows, at most ROWS: two and two, or a last one
 * with itself. */
INLINE void
add_columns (const TypeOps *ops,
             const Column   columns[2],
             size_t         n_columns,
             size_t         n,
             const uint8_t *rows,
             size_t         row_bytes,
             size_t         n_rows)
{
  const size_t n_pairs = (n_rows + 1) / 2;
  Ints dots[ROWS / 2][2][2]; /* of each column's outputs 0 and 1, then of 2 and 3 */

#pragma GCC unroll 4
  for (size_t p = 0; p < n_pairs; p++)
#pragma GCC unroll 2
    for (size_t c = 0; c < n_columns; c++)
      dots[p][c][0] = dots[p][c][1] = splat_int (0);
  for (size_t i = 0; i < n; i += 16)
    {
      Ints x[ROWS / 2][2];

#pragma GCC unroll 4
      for (size_t p = 0; p < n_pairs; p++)
        {
          const Ints a = load_ints (rows + 2 * p * row_bytes + i);
          const Ints b = 2 * p + 1 < n_rows ? load_ints (rows + (2 * p + 1) * row_bytes + i) : a;

          x[p][0] = low_pairs (a, b);
          x[p][1] = high_pairs (a, b);
        }
#pragma GCC unroll 2
      for (size_t c = 0; c < n_columns; c++)
#pragma GCC unroll 4
        for (size_t k = 0; k < 4; k++)
          {
            const Ints w = load_ints (columns[c].groups + 16 * i + 64 * k);

#pragma GCC unroll 4
            for (size_t p = 0; p < n_pairs; p++)
              dots[p][c][k % 2] = add_pair_dots (dots[p][c][k % 2], w, x[p][k / 2]);
          }
    }
#pragma GCC unroll 8
  for (size_t r = 0; r < n_rows; r++)
    {
      const LlkActivationRun *x = (const void *) (rows + r * row_bytes);

#pragma GCC unroll 2
      for (size_t c = 0; c < n_columns; c++)
        add_column_dots (&columns[c], r, x, ops->zero_point,
                         get_row_of_pair (dots[r / 2][c], r % 2));
    }
}

#else

/* @n inputs of @n_columns times @n_rows rows, at most ROWS. */
INLINE void
add_columns (const TypeOps *ops,
             const Column   columns[2],
             size_t         n_columns,
             size_t         n,
             const uint8_t *rows,
             size_t         row_bytes,
             size_t         n_rows)
{
  const int moved = ops->zero_point - (HAS_UNSIGNED_BYTES ? 128 : 0);
  const int8_t *first = columns[0].groups;
  const int8_t *second = columns[n_columns - 1].groups;
  Ints dots[ROWS][2];

#pragma GCC unroll 8
  for (size_t r = 0; r < n_rows; r++)
    dots[r][0] = dots[r][1] = splat_int (0);
  for (size_t i = 0; i < n; i += 4 * GROUPS_IN_TURN)
#pragma GCC unroll 4
    for (size_t k = 0; k < GROUPS_IN_TURN; k++)
      {
        const Weights a = make_weights (load_ints (first + 16 * i + 64 * k));
        const Weights b = make_weights (load_ints (second + 16 * i + 64 * k));

#pragma GCC unroll 8
        for (size_t r = 0; r < n_rows; r++)
          {
            const int8_t *x = (const int8_t *) rows + r * row_bytes + i;

            dots[r][0] = add_group_dots (dots[r][0], a, x, k);
            if (n_columns > 1)
              dots[r][1] = add_group_dots (dots[r][1], b, x, k);
          }
      }
#pragma GCC unroll 8
  for (size_t r = 0; r < n_rows; r++)
    for (size_t c = 0; c < n_columns; c++)
      add_column_dots (&columns[c], r, (const void *) (rows + r * row_bytes), moved, dots[r][c]);
}

#endif

static void
add_some_rows (const TypeOps *ops,
               Column         columns[2],
               size_t         n_columns,
               size_t         n,
               const uint8_t *rows,
               size_t         row_bytes,
               size_t         n_rows)
{
#define CASE(count)                                                                            \
  case count:                                                                                  \
    if (n_columns == 1)                                                                        \
      add_columns (ops, columns, 1, n, rows, row_bytes, count);                                \
    else                                                                                       \
      add_columns (ops, columns, 2, n, rows, row_bytes, count);                                \
    break;

  while (n_rows > 0)
    {
      const size_t n_now = n_rows < ROWS ? n_rows : ROWS;

      switch (n_now)
        {
          CASE (1)
          CASE (2)
          CASE (3)
#if ROWS == 8
          CASE (4)
          CASE (5)
          CASE (6)
          CASE (7)
#endif
          CASE (ROWS)
        }
      for (size_t c = 0; c < n_columns; c++)
        {
          add_column_minima (ops, &columns[c], rows, row_bytes, n_now);
          columns[c].sums += ROWS * N;
        }
      n_rows -= n_now;
      rows += ROWS * row_bytes;
    }
#undef CASE
}

/* A run of one or two panels times @n_rows rows to their sums. @sums of the second panel are
 * @panel_sums behind those of the first. */
static void
add_rows (const TypeOps   *ops,
          const StoredRun  runs[2],
          size_t           n_panels,
          size_t           n,
          const uint8_t   *rows,
          size_t           row_bytes,
          size_t           n_rows,
          float           *sums,
          size_t           panel_sums)
{
  Column columns[2];

  if (N_PARTS == 1)
    {
      for (size_t p = 0; p < n_panels; p++)
        columns[p] = get_column (&runs[p], 0, sums + p * panel_sums);
      add_some_rows (ops, columns, n_panels, n, rows, row_bytes, n_rows);
      return;
    }
  for (size_t p = 0; p < n_panels; p++)
    for (size_t part = 0; part < N_PARTS; part += 2)
      {
        columns[0] = get_column (&runs[p], part, sums + p * panel_sums);
        columns[1] = get_column (&runs[p], part + 1, sums + p * panel_sums);
        add_some_rows (ops, columns, 2, n, rows, row_bytes, n_rows);
      }
}
