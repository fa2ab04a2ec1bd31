/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Products of panels with rows of LLK_ACTIVATION_Q8, as llk-product.h defines them: an
 * instance for each type of what takes a run's codes apart, and the rest once for all.
 *
 * A single row is multiplied while the codes are taken apart. For several rows the bytes
 * of a run are stored, so that they are made once for all rows, and each row adds up
 * groups of four inputs of all outputs. Sums of a run are exact either way.
 *
 * Of several rows two panels go together. What is read some runs later is fetched into the
 * first cache meanwhile. Where memory is faster with several streams, more panels are worked on
 * side by side, a run of each in turn.
 */

#pragma once

#include "kernels/llk-panel-rows.h"

#define MAX_STREAMS 4
#define AHEAD_BYTES 8192      /* fetched before they are needed, in whole runs */

/* Panels side by side, @n at most: more than that is faster on processors of Intel only (measured
 * on Sapphire Rapids and on Zen 5). */
INLINE size_t
get_width (size_t n)
{
#ifdef LLK_X86
  if (__builtin_cpu_is ("intel"))
    return MAX_STREAMS;
#endif
  return n;
}

/* --- one row --- */

/* Q8_0, whose groups are as they are stored. */
INLINE Ints
dot_groups (const uint8_t          *run,
            const uint8_t          *ahead,
            size_t                  n,
            const LlkActivationRun *x,
            size_t                  part)
{
  Ints sums[4] = { splat_int (0), splat_int (0), splat_int (0), splat_int (0) };

  for (size_t i = 0; i < n; i += 16, run += 256, ahead += 256)
    {
      if (part == 0)
        fetch (ahead, 256);
#pragma GCC unroll 4
      for (size_t k = 0; k < 4; k++)
        sums[k] = add_group_dots (sums[k],
                                  make_weights (load_ints (run + 64 * k + sizeof (Ints) * part)),
                                  x->q + i, k);
    }
  return add_ints (add_ints (sums[0], sums[1]), add_ints (sums[2], sums[3]));
}

INLINE Ints
dot_codes (LlkType                 type,
           const uint8_t          *run,
           const uint8_t          *ahead,
           size_t                  n,
           const LlkActivationRun *x,
           size_t                  part)
{
  Sink sink = { .part = part, .x = x->q };

#pragma GCC unroll 4
  for (size_t g = 0; g < 4; g++)
    sink.sums[g] = splat_int (0);
  put_weights (type, &sink, run, ahead, n);
  /* Lane l has outputs 4 l … 4 l + 3, one in each vector. */
  return add_lanes (sink.sums);
}

INLINE void
add_row (LlkType                 type,
         const uint8_t          *run,
         const uint8_t          *ahead,
         size_t                  n,
         const LlkActivationRun *x,
         float                  *sums)
{
  const int moved = get_zero_point (type) - (HAS_UNSIGNED_BYTES ? 128 : 0);
  const Ints correction = splat_int (moved * x->sum);

  UNROLL_PARTS
  for (size_t part = 0; part < N_PARTS; part++)
    {
      const size_t lane = N_LANES * part;
      Floats v = load_floats (sums + lane);
      Ints dots;

      if (type == LLK_Q8_0)
        {
          if (part == 0)
            fetch (ahead, 64);
          dots = dot_groups (run + 64, ahead + 64, n, x, part);
        }
      else
        dots = dot_codes (type, run, ahead, n, x, part);
      v = add_scaled (v, add_ints (dots, correction), load_scale (type, run, lane), x->scale);
      if (has_minima (type))
        v = add_scaled (v, multiply_minima (type, run, x, part),
                        load_min_scale (type, run, lane), x->scale);
      store_floats (sums + lane, v);
    }
}

/* --- a matrix --- */

static void
write_sums (const float *sums,
            size_t       n,
            float       *y,
            bool         is_added)
{
  for (size_t o = 0; o < n; o++)
    y[o] = is_added ? y[o] + sums[o] : sums[o];
}

/* The run that the first of each few streams will read some runs later: of the same panels,
 * or of those behind them. */
typedef struct
{
  Walk walk;
  RunParts run;
  size_t panel;
} Ahead;

static void
look_ahead (Ahead           *ahead,
            const LlkMatrix *w,
            size_t           first_row,
            size_t           n_streams)
{
  if (walk_on (&ahead->walk, &ahead->run) && ahead->run.n_rows > first_row)
    return;
  ahead->walk = walk_begin (w);
  walk_on (&ahead->walk, &ahead->run);
  ahead->panel += n_streams;
}

/* Panels [@first, @first + @n_streams) with at most MAX_ROWS rows, the first of which is
 * @first_row. */
static void
multiply_streams (const LlkMatrix *w,
                  const TypeOps   *ops,
                  size_t           first,
                  size_t           n_streams,
                  const uint8_t   *rows,
                  size_t           first_row,
                  size_t           n_rows,
                  Ahead           *ahead,
                  float          (*sums)[MAX_ROWS][N])
{
  const size_t row_bytes = llk_activation_bytes (LLK_ACTIVATION_Q8, w->n_in);
  Walk walk = walk_begin (w);
  const uint8_t *x = rows;
  StoredRun runs[2];
  RunParts run;

  for (size_t s = 0; s < n_streams; s++)
    memset (sums[s], 0, n_rows * sizeof *sums[s]);
  for (; walk_on (&walk, &run) && run.n_rows > first_row; x += sizeof (LlkActivationRun))
    {
      const size_t n_left = run.n_rows - first_row;
      const size_t n_now = n_left < n_rows ? n_left : n_rows;
      const RunPart *part = &ahead->run.parts[0];
      const uint8_t *fetched[2];

      look_ahead (ahead, w, first_row, n_streams);
      for (size_t s = 0; s < n_streams; s++)
        {
          fetched[s % 2] = part->data + (ahead->panel + s) * part->panel_bytes;
          if (n_now == 1 && run.n_parts == 1)
            {
              ops->add_row (run.parts[0].data + (first + s) * run.parts[0].panel_bytes,
                            fetched[s % 2], run.n, (const void *) x, sums[s][0]);
              continue;
            }
          store_run (ops, &run, first + s, fetched[s % 2], &runs[s % 2]);
          /* Bytes that need not be stored are fetched while they are multiplied. */
          if (ops->store != NULL)
            fetched[s % 2] = NULL;
          if (s % 2 == 1 || s + 1 == n_streams)
            add_rows (ops, runs, fetched, s % 2 + 1, run.n, x, row_bytes, n_now,
                      sums + s / 2 * 2);
        }
    }
}

static void
multiply_runs (const LlkMatrix *w,
               const TypeOps   *ops,
               size_t           first,
               size_t           n_panels,
               const uint8_t   *rows,
               size_t           n_rows,
               float           *y,
               size_t           y_stride,
               bool             is_added)
{
  const size_t row_bytes = llk_activation_bytes (LLK_ACTIVATION_Q8, w->n_in);
  const size_t run_bytes = llk_panel_run_bytes (llk_panel_shape (w->type), LLK_RUN);
  const size_t width = get_width (n_rows == 1 ? 1 : 2);
  const size_t end = first + n_panels;
  float sums[MAX_STREAMS][MAX_ROWS][N] __attribute__ ((aligned (64)));
  Ahead ahead = { .walk = walk_begin (w), .panel = first };

  for (size_t bytes = 0; bytes <= AHEAD_BYTES; bytes += width * run_bytes)
    look_ahead (&ahead, w, 0, width);
  for (; first < end; first += width)
    {
      const size_t n_streams = end - first < width ? end - first : width;

      for (size_t done = 0; done < n_rows; done += MAX_ROWS)
        {
          const size_t n_now = n_rows - done < MAX_ROWS ? n_rows - done : MAX_ROWS;

          multiply_streams (w, ops, first, n_streams, rows + done * row_bytes, done, n_now,
                            &ahead, sums);
          for (size_t s = 0; s < n_streams; s++)
            for (size_t r = 0; r < n_now; r++)
              {
                const size_t output = (first + s) * N;
                const size_t n_left = w->n_out - output;

                write_sums (sums[s][r], n_left < N ? n_left : N,
                            y + (done + r) * y_stride + output, is_added);
              }
        }
    }
}
