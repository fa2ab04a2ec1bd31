/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Products of panels with rows of LLK_ACTIVATION_Q8, as llk-product.h defines them: an
 * instance for each type of what takes a run's codes apart, and the rest once for all.
 *
 * A single row is multiplied while the codes are taken apart. For several rows the bytes
 * of a run are stored, so that they are made once for all rows, and each row adds up
 * groups of four inputs of all outputs. Sums of a run are exact either way.
 *
 * Several panels are worked on side by side, a run of each in turn: memory is faster
 * with several streams, and what comes some turns later is fetched into the cache while
 * the others are computed.
 */

#pragma once

#include "kernels/llk-panel-rows.h"

#define N_STREAMS 4
#define AHEAD_BYTES 4096      /* fetched before they are needed, in whole runs */

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

/* Where stream @s + @n_ahead of this run is, or a stream of the next run. */
INLINE const uint8_t *
get_ahead (const RunParts *now,
           const RunParts *next,
           size_t          panel,
           size_t          s,
           size_t          n_streams,
           size_t          n_ahead)
{
  const RunPart *part = s + n_ahead < n_streams ? &now->parts[0] : &next->parts[0];
  const size_t stream = s + n_ahead < n_streams ? n_ahead : n_ahead - n_streams;

  return part->data + (panel + stream) * part->panel_bytes;
}

/* Panels [@first, @first + @n_streams) with at most MAX_ROWS rows, the first of which is
 * @first_row; @follows: further panels. */
static void
multiply_streams (const LlkMatrix *w,
                  const TypeOps   *ops,
                  size_t           first,
                  size_t           n_streams,
                  bool             follows,
                  const uint8_t   *rows,
                  size_t           first_row,
                  size_t           n_rows,
                  float          (*sums)[MAX_ROWS][N])
{
  const size_t row_bytes = llk_activation_bytes (LLK_ACTIVATION_Q8, w->n_in);
  const size_t run_bytes = llk_panel_run_bytes (llk_panel_shape (w->type), LLK_RUN);
  const size_t runs_ahead = run_bytes < AHEAD_BYTES ? (AHEAD_BYTES + run_bytes / 2) / run_bytes : 1;
  /* Of several rows, two panels go together. */
  const size_t n_least = n_rows > 1 && runs_ahead < 2 ? 2 : runs_ahead;
  const size_t n_ahead = n_least < n_streams ? n_least : n_streams;
  Walk walk = walk_begin (w);
  RunParts now, next;
  const uint8_t *aheads[2];
  StoredRun runs[2];
  bool has_more;

  for (size_t s = 0; s < n_streams; s++)
    memset (sums[s], 0, n_rows * sizeof *sums[s]);
  has_more = walk_on (&walk, &now);
  for (size_t i = 0; has_more; i++, now = next)
    {
      const size_t n_left = now.n_rows > first_row ? now.n_rows - first_row : 0;
      const size_t n_now = n_left < n_rows ? n_left : n_rows;

      has_more = walk_on (&walk, &next);
      if (!has_more)
        {
          Walk again = walk_begin (w);

          walk_on (&again, &next);
          next.parts[0].data += follows ? n_streams * next.parts[0].panel_bytes : 0;
        }
      for (size_t s = 0; s < n_streams && n_now > 0; s++)
        {
          const uint8_t *x = rows + i * sizeof (LlkActivationRun);
          const uint8_t *ahead = get_ahead (&now, &next, first + s, s, n_streams, n_ahead);

          if (n_now == 1 && now.n_parts == 1)
            ops->add_row (now.parts[0].data + (first + s) * now.parts[0].panel_bytes, ahead,
                          now.n, (const void *) x, sums[s][0]);
          else
            {
              store_run (ops, &now, first + s, ahead, &runs[s % 2]);
              /* Bytes that need not be stored are fetched while they are multiplied. */
              aheads[s % 2] = ops->store == NULL ? ahead : NULL;
            }
          if ((n_now > 1 || now.n_parts > 1) && (s % 2 == 1 || s + 1 == n_streams))
            add_rows (ops, runs, aheads, s % 2 + 1, now.n, x, row_bytes, n_now,
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
  const size_t end = first + n_panels;
  float sums[N_STREAMS][MAX_ROWS][N] __attribute__ ((aligned (64)));

  for (; first < end; first += N_STREAMS)
    {
      const size_t n_streams = end - first < N_STREAMS ? end - first : N_STREAMS;

      for (size_t done = 0; done < n_rows; done += MAX_ROWS)
        {
          const size_t n_now = n_rows - done < MAX_ROWS ? n_rows - done : MAX_ROWS;

          multiply_streams (w, ops, first, n_streams, end - first > n_streams,
                            rows + done * row_bytes, done, n_now, sums);
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
