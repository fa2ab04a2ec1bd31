/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * One row times panels, for llk-panel-product.h: the codes are multiplied as they are taken apart.
 * Panels lie one behind the other in memory, so a few streams go through as many parts of them,
 * each from its beginning to its end, which is what processors fetch best by themselves.
 */

#pragma once

#include "kernels/llk-panel-outliers.h"

#define AHEAD_IN_STREAM 4096  /* bytes that are fetched before they are needed */

/* Q8_0, whose codes are in groups. */
INLINE Ints
dot_groups (const uint8_t *run,
            const uint8_t *ahead,
            size_t         n,
            const int8_t  *q,
            size_t         part)
{
  const size_t head = llk_panel_head_bytes (llk_panel_shape (LLK_Q8_0));
  const uint8_t *codes = run + head + sizeof (Ints) * part;
  Ints sums[4] = { splat_int (0), splat_int (0), splat_int (0), splat_int (0) };

  if (part == 0)
    fetch (ahead, head);
  for (size_t i = 0; i < n; i += 32)
    {
      const Ints r = load_long_multipliers (run, i / 32, part);

      if (part == 0)
        fetch (ahead + head + i * N, 32 * N);
#pragma GCC unroll 8
      for (size_t k = 0; k < 8; k++)
        {
          const Ints v = load_ints (codes + 16 * i + 64 * k);
#if HAS_UNSIGNED_BYTES
          const Weights w = scale_group (v, r, true);
#else
          const Weights w = make_weights (scale_group (v, r, false));
#endif

          sums[k % 4] = add_group_dots (sums[k % 4], w, q + i + k / 4 * 16, k % 4);
        }
    }
  return add_ints (add_ints (sums[0], sums[1]), add_ints (sums[2], sums[3]));
}

INLINE Ints
dot_codes (LlkType        type,
           const uint8_t *run,
           const uint8_t *ahead,
           size_t         n,
           const int8_t  *q,
           size_t         part)
{
  Sink sink = { .part = part, .x = q };

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
         const LlkOutlier       *values,
         float                  *sums,
         float                  *outliers)
{
  const int moved = get_zero_point (type) - (HAS_UNSIGNED_BYTES ? 128 : 0);
  const Ints correction = splat_int (moved * x->sum);

  UNROLL_PARTS
  for (size_t part = 0; part < N_PARTS; part++)
    {
      const size_t lane = N_LANES * part;
      Floats v = load_floats (sums + lane);
      Ints dots;

      if (x->n_outliers > 0)
        {
          Floats w = load_floats (outliers + lane);

          for (size_t k = 0; k < x->n_outliers; k++)
            w = multiply_add (load_exact (type, run, values[k].place, part),
                              splat_float (values[k].x), w);
          store_floats (outliers + lane, w);
        }
      dots = type == LLK_Q8_0 ? dot_groups (run, ahead, n, x->q, part)
                              : dot_codes (type, run, ahead, n, x->q, part);
      v = add_scaled (v, add_ints (dots, correction), load_scale (type, run, lane), x->scale);
      if (llk_run_has_minima (type))
        v = add_scaled (v, multiply_minima (type, run, x, part),
                        load_min_scale (type, run, lane), x->scale);
      store_floats (sums + lane, v);
    }
}

/* The same of a run in several parts, of a type without minima: the sum over the run is still
 * exact. */
INLINE void
add_parts (LlkType                 type,
           const RunParts         *parts,
           size_t                  panel,
           const LlkActivationRun *x,
           const LlkOutlier       *values,
           float                  *sums,
           float                  *outliers)
{
  const int moved = get_zero_point (type) - (HAS_UNSIGNED_BYTES ? 128 : 0);
  const uint8_t *runs[MAX_PARTS];

  for (size_t p = 0; p < parts->n_parts; p++)
    runs[p] = parts->parts[p].data + panel * parts->parts[p].panel_bytes;
  for (size_t part = 0; part < N_PARTS; part++)
    {
      const size_t lane = N_LANES * part;
      Ints dots = splat_int (moved * x->sum);
      Floats w = load_floats (outliers + lane);
      size_t at = 0;

      for (size_t p = 0; p < parts->n_parts; p++)
        {
          const RunPart *of = &parts->parts[p];
          const int8_t *q = x->q + of->first;

          for (; at < x->n_outliers && values[at].place < of->first + of->n; at++)
            w = multiply_add (load_exact (type, runs[p], values[at].place - of->first, part),
                              splat_float (values[at].x), w);
          dots = add_ints (dots, type == LLK_Q8_0 ? dot_groups (runs[p], runs[p], of->n, q, part)
                                                  : dot_codes (type, runs[p], runs[p], of->n, q, part));
        }
      store_floats (outliers + lane, w);
      store_floats (sums + lane, add_scaled (load_floats (sums + lane), dots,
                                             load_scale (type, runs[0], lane), x->scale));
    }
}

/* The runs of one piece that a row is multiplied with. */
typedef struct
{
  const uint8_t *data;       /* of the first panel */
  size_t panel_bytes;
  size_t run_bytes;
  size_t n_panels;
  size_t n_runs;             /* whole runs, but for the last */
  size_t n_last;             /* inputs of the last run */
  const LlkOutlier *values;  /* the row's outliers */
} Streams;

/* Of one to four, two were best on Sapphire Rapids. One is as it was on Zen 5, where it was best
 * of two forms that each went through panels side by side. */
static size_t
get_n_streams (void)
{
#ifdef LLK_X86
  if (__builtin_cpu_is ("intel"))
    return 2;
#endif
  return 1;
}

/* Adds a row's @runs times those of the panels to sixteen @sums of each panel, and its outliers
 * to those of that. */
static void
multiply_streams (const TypeOps          *ops,
                  const Streams          *streams,
                  const LlkActivationRun *runs,
                  float                  *sums,
                  float                  *outliers)
{
  const size_t n_streams = get_n_streams ();
  const size_t n_each = (streams->n_panels + n_streams - 1) / n_streams;

  for (size_t k = 0; k < n_each; k++)
    for (size_t i = 0; i < streams->n_runs; i++)
      for (size_t panel = k; panel < streams->n_panels; panel += n_each)
        {
          const uint8_t *run = streams->data + panel * streams->panel_bytes
                               + i * streams->run_bytes;
          const uint8_t *end = streams->data + (panel - k + n_each) * streams->panel_bytes;
          const uint8_t *ahead = run + AHEAD_IN_STREAM;

          ops->add_row (run, ahead < end ? ahead : run,
                        i + 1 < streams->n_runs ? LLK_RUN : streams->n_last, &runs[i],
                        streams->values + runs[i].first_outlier, sums + panel * N,
                        outliers + panel * N);
        }
}
