/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What every set of instructions does with values of W8A8 rows before and behind the sums: plain
 * loops, compiled for each set and without contraction, so that all give the same bits. */

#pragma once

#include "kernels/llk-internal.h"

#define W8_N LLK_W8_OUTPUTS

/* To nearest even: @v is within ±127. */
static inline int8_t
round_w8 (float v)
{
  return (int8_t) (int) ((v + LLK_ROUNDER) - LLK_ROUNDER);
}

/* A NaN becomes a number: who calls looks for it elsewhere. */
static inline float
clamp_w8 (float v)
{
  v = v < LLK_W8_LIMIT ? v : LLK_W8_LIMIT;
  return v > -LLK_W8_LIMIT ? v : -LLK_W8_LIMIT;
}

static void
finish_w8 (size_t    n,
           LlkW8Row *row)
{
  int32_t sum = 0;

  memset (row->q + n, 0, llk_w8_row_bytes (n) - sizeof *row - n);
  for (size_t i = 0; i < n; i++)
    sum += row->q[i];
  row->sum = sum;
  memset (row->unused, 0, sizeof row->unused);
}

static size_t
quantize_part_w8 (const float *x,
                  size_t       n,
                  float        scale,
                  int8_t      *q)
{
  const float inverse = 1 / scale;
  uint32_t n_beyond = 0;

  for (size_t i = 0; i < n; i++)
    {
      const float v = x[i] * inverse;

      n_beyond += !(v <= LLK_W8_LIMIT) | !(v >= -LLK_W8_LIMIT);
      q[i] = round_w8 (clamp_w8 (v));
    }
  return n_beyond;
}

static size_t
quantize_w8 (const float *x,
             size_t       n,
             float        scale,
             LlkW8Row    *row)
{
  const size_t n_beyond = quantize_part_w8 (x, n, scale, row->q);
  uint32_t n_infinite = 0;

  for (size_t i = 0; n_beyond > 0 && i < n; i++)
    n_infinite += (llk_bits_of_float (x[i]) & 0x7fffffff) >= 0x7f800000;
  row->scale = n_infinite == 0 ? scale : llk_float_of_bits (0x7fc00000);
  if (n_infinite > 0)
    memset (row->q, 0, n);
  finish_w8 (n, row);
  return n_beyond;
}

/* Values that are looked at together. */
#define W8_BLOCK 32

static size_t
find_beyond_w8 (const float *x,
                size_t       n,
                float        scale,
                LlkW8Beyond *beyond)
{
  const float inverse = 1 / scale, limit = scale * LLK_W8_LIMIT;
  size_t n_found = 0;

  for (size_t first = 0; first < n; first += W8_BLOCK)
    {
      const size_t end = n - first < W8_BLOCK ? n : first + W8_BLOCK;
      uint32_t n_here = 0;

      for (size_t i = first; i < end; i++)
        n_here += x[i] * inverse > LLK_W8_LIMIT || x[i] * inverse < -LLK_W8_LIMIT;
      for (size_t i = first; n_here > 0 && i < end; i++)
        if (x[i] * inverse > LLK_W8_LIMIT || x[i] * inverse < -LLK_W8_LIMIT)
          beyond[n_found++] = (LlkW8Beyond) { (uint32_t) i, x[i] > 0 ? x[i] - limit : x[i] + limit };
    }
  return n_found;
}

static inline const int8_t *
get_w8_panel (const LlkW8Matrix *w,
              size_t             panel)
{
  return w->panels + panel * llk_w8_panel_bytes (w->n_in, w->n_hot);
}

static inline size_t
count_outputs (const LlkW8Matrix *w,
               size_t             panel)
{
  return w->n_out - panel * W8_N < W8_N ? w->n_out - panel * W8_N : W8_N;
}

/* Of the outputs of a panel, wherever they lie: the compiler makes of them what the set has. */
typedef float W8Floats __attribute__ ((vector_size (64), aligned (4), may_alias));
typedef int32_t W8Ints __attribute__ ((vector_size (64), aligned (4), may_alias));
typedef uint32_t W8Words __attribute__ ((vector_size (64), aligned (4), may_alias));

/* Of one row: the first @n outputs. */
static inline void
add_outputs (float          *to,
             size_t          n,
             const W8Floats *sums)
{
  if (n == W8_N)
    *(W8Floats *) to += *sums;
  else
    for (size_t o = 0; o < n; o++)
      to[o] += (*sums)[o];
}

/* Rows whose sums go on beside each other: each waits for its own last addition. */
#define W8_HOT_ROWS 4

static void
add_hot_w8 (const LlkW8Matrix *w,
            size_t             first,
            size_t             n_panels,
            const float       *hot,
            size_t             n_rows,
            float             *y,
            size_t             y_stride)
{
  for (size_t at = first; at < first + n_panels && w->n_hot > 0; at++)
    {
      const size_t n = count_outputs (w, at);
      const float *lines = llk_w8_panel_scales (get_w8_panel (w, at), w->n_in) + W8_N;

      for (size_t row = 0; row < n_rows; row += W8_HOT_ROWS)
        {
          const size_t n_block = n_rows - row < W8_HOT_ROWS ? n_rows - row : W8_HOT_ROWS;
          const float *x[W8_HOT_ROWS];
          W8Floats sums[W8_HOT_ROWS] = { 0 };

          for (size_t r = 0; r < W8_HOT_ROWS; r++)
            x[r] = hot + (row + (r < n_block ? r : 0)) * w->n_hot;
          for (size_t k = 0; k < w->n_hot; k++)
            {
              const W8Floats line = *(const W8Floats *) (lines + k * W8_N);

              for (size_t r = 0; r < W8_HOT_ROWS; r++)
                sums[r] += x[r][k] * line;
            }
          for (size_t r = 0; r < n_block; r++)
            add_outputs (y + (row + r) * y_stride + at * W8_N, n, &sums[r]);
        }
    }
}

/* Rows from here on have their lines fetched ahead: they lie anywhere in a panel. */
#define W8_AHEAD 8

static inline void
fetch_beyond (const int8_t      *panel,
              const LlkW8Beyond *beyond,
              uint32_t           n_beyond)
{
  for (uint32_t i = 0; i < n_beyond; i++)
    __builtin_prefetch (panel + beyond[i].input / 4 * 64);
}

static inline void
add_one_beyond (const int8_t      *panel,
                const LlkW8Beyond *it,
                W8Floats          *sums)
{
  /* the byte of the input, with its sign */
  const W8Words high = *(const W8Words *) (panel + it->input / 4 * 64)
                       << (24 - 8 * (it->input % 4));

  *sums += it->value * __builtin_convertvector ((W8Ints) high >> 24, W8Floats);
}

static void
add_beyond_w8 (const LlkW8Matrix        *w,
               size_t                    first,
               size_t                    n_panels,
               const LlkW8Beyond *const *beyond,
               const uint32_t           *n_beyond,
               size_t                    n_rows,
               float                    *y,
               size_t                    y_stride)
{
  for (size_t at = first; at < first + n_panels; at++)
    {
      const size_t n = count_outputs (w, at);
      const int8_t *panel = get_w8_panel (w, at);
      const float *scales = llk_w8_panel_scales (panel, w->n_in);

      for (size_t r = 0; r < n_rows; r++)
        {
          W8Floats sums = { 0 };

          if (r + W8_AHEAD < n_rows)
            fetch_beyond (panel, beyond[r + W8_AHEAD], n_beyond[r + W8_AHEAD]);
          if (n_beyond[r] == 0)
            continue;
          for (uint32_t i = 0; i < n_beyond[r]; i++)
            add_one_beyond (panel, &beyond[r][i], &sums);
          sums = sums * *(const W8Floats *) scales;
          add_outputs (y + r * y_stride + at * W8_N, n, &sums);
        }
    }
}

/* Of one panel and one row: @n outputs. */
static inline void
write_w8 (const int32_t *sums,
          const float   *scales,
          float          row_scale,
          size_t         n,
          float         *y,
          bool           is_added)
{
  const W8Floats values = __builtin_convertvector (*(const W8Ints *) sums, W8Floats)
                          * (row_scale * *(const W8Floats *) scales);

  if (is_added)
    add_outputs (y, n, &values);
  else if (n == W8_N)
    *(W8Floats *) y = values;
  else
    for (size_t o = 0; o < n; o++)
      y[o] = values[o];
}
