/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Products of panels of blocks with rows of LLK_ACTIVATION_Q8, up to eight at a
 * time, as llk-product.h defines them: how panels are gone through, and what of
 * the rows is worked out beforehand. Written in the vectors of
 * llk-avx512-lanes.h or llk-avx2-lanes.h.
 *
 * Several panels are worked on side by side, some hundred inputs of each in
 * turn: memory is faster with several streams, and what comes some turns later
 * is fetched into the cache while the others are computed.
 */

#pragma once

#include "kernels/llk-panel-runs.h"

#define MAX_ROWS 8
#define N_STREAMS 4
#define N_PARTS (LLK_PANEL_OUTPUTS / N_LANES)
#define TURN_BYTES 2304  /* of each stream in turn, or a section when that is longer */
#define AHEAD_BYTES 4096 /* fetched before they are needed, in whole turns */
#define CACHE_LINE 64

/* Up to eight rows and what they contribute to runs, n_terms a row. */
typedef struct
{
  const uint8_t *rows;
  size_t row_bytes;
  size_t scales;        /* offset in a row */
  size_t sums;
  size_t half_sums;
  size_t n_terms;
  union
  {
    int32_t *zero_points;
    float *minima;
  } terms;
} Rows;

/* The sums of a panel, part by part. */
typedef struct
{
  Floats of[N_PARTS][MAX_ROWS];
} Sums;

/* Of a row. */
static size_t
count_terms (LlkType type,
             size_t  n_in)
{
  switch (get_term (type))
    {
    case TERM_ZERO_POINT:
    case TERM_MIN:
      return n_in / 32;
    case TERM_ZERO_POINT_HALF:
    case TERM_MIN_HALF:
      return n_in / 16;
    default:
      return 0;
    }
}

/* Bytes of the terms of all rows. */
static size_t
measure_terms (LlkType type,
               size_t  n_in)
{
  return (count_terms (type, n_in) * MAX_ROWS * sizeof (float) + CACHE_LINE - 1) / CACHE_LINE *
         CACHE_LINE;
}

/* The terms come to @scratch. */
static Rows
describe_rows (const LlkMatrix *w,
               const void      *rows,
               void            *scratch)
{
  return (Rows) {
    .rows = rows,
    .row_bytes = llk_activation_bytes (LLK_ACTIVATION_Q8, w->n_in),
    .scales = llk_activation_scales (LLK_ACTIVATION_Q8, w->n_in),
    .sums = llk_activation_sums (LLK_ACTIVATION_Q8, w->n_in),
    .half_sums = llk_activation_half_sums (LLK_ACTIVATION_Q8, w->n_in),
    .n_terms = count_terms (w->type, w->n_in),
    .terms.zero_points = scratch,
  };
}

/* For a zero point z, the integers are multiplied as they are and sums begin at
 * -z × sum. */
static void
make_terms (LlkType     type,
            const Rows *rows,
            size_t      n_rows,
            size_t      n_runs)
{
  const Term term = get_term (type);
  const int32_t zero_point = get_zero_point (type);

  for (size_t r = 0; r < n_rows; r++)
    {
      const uint8_t *row = rows->rows + r * rows->row_bytes;
      const float *scales = (const float *) (const void *) (row + rows->scales);
      const int32_t *sums = (const int32_t *) (const void *) (row + rows->sums);
      const int32_t *firsts = (const int32_t *) (const void *) (row + rows->half_sums);
      int32_t *zero_points = rows->terms.zero_points + r * rows->n_terms;
      float *minima = rows->terms.minima + r * rows->n_terms;

      for (size_t run = 0; run < n_runs; run++)
        if (term == TERM_ZERO_POINT)
          zero_points[run] = -zero_point * sums[run];
        else if (term == TERM_MIN)
          minima[run] = scales[run] * (float) sums[run];
        else if (term == TERM_ZERO_POINT_HALF)
          {
            zero_points[2 * run] = -zero_point * firsts[run];
            zero_points[2 * run + 1] = -zero_point * (sums[run] - firsts[run]);
          }
        else if (term == TERM_MIN_HALF)
          {
            minima[2 * run] = scales[run] * (float) firsts[run];
            minima[2 * run + 1] = scales[run] * (float) (sums[run] - firsts[run]);
          }
    }
}

INLINE void
fetch (const uint8_t *ahead,
       size_t         bytes)
{
#pragma GCC unroll 8
  for (size_t i = 0; i < bytes; i += CACHE_LINE)
    _mm_prefetch ((const char *) ahead + i, _MM_HINT_T1);
}

/* What to fetch while stream @s of @n_streams is worked on at @now: where the stream
 * that comes @n_ahead turns later will be, @next bytes farther if it is one that
 * had its turn. 0: nothing follows, and what is there already is fetched again. */
INLINE const uint8_t *
get_ahead (const uint8_t *now,
           size_t         s,
           size_t         n_streams,
           size_t         n_ahead,
           size_t         panel_bytes,
           size_t         next)
{
  if (s + n_ahead < n_streams)
    return now + n_ahead * panel_bytes;

  return now + next - (n_streams - n_ahead) * panel_bytes;
}

/* Adds runs [@run, @last), which begin at @section, to a panel's sums; for each
 * type there is one. */
typedef void (*AddTurn) (size_t n_rows, const uint8_t *section, const uint8_t *ahead,
                         const Rows *rows, size_t run, size_t last, Sums *sums);

static void
store_sums (const Sums *sums,
            size_t      n_rows,
            size_t      n_outputs,
            float      *y,
            size_t      y_stride,
            bool        is_added)
{
  for (size_t r = 0; r < n_rows; r++, y += y_stride)
    {
      float values[LLK_PANEL_OUTPUTS] = { 0 };
      float *dst = n_outputs < LLK_PANEL_OUTPUTS ? values : y;

      if (n_outputs < LLK_PANEL_OUTPUTS && is_added)
        memcpy (values, y, n_outputs * sizeof (float));
      for (size_t part = 0; part < N_PARTS; part++)
        {
          Floats v = sums->of[part][r];

          if (is_added)
            v = add_floats (load_floats (dst + N_LANES * part), v);
          store_floats (dst + N_LANES * part, v);
        }
      if (n_outputs < LLK_PANEL_OUTPUTS)
        memcpy (y, values, n_outputs * sizeof (float));
    }
}

/* At most MAX_ROWS rows. */
static void
multiply_rows (const LlkMatrix *w,
               AddTurn          add,
               size_t           first,
               size_t           n_panels,
               const Rows      *rows,
               size_t           n_rows,
               float           *y,
               size_t           y_stride,
               bool             is_added)
{
  const LlkPanelShape shape = llk_panel_shape (w->type);
  const size_t section_runs = shape.n_in_section * shape.block / 32;
  const size_t section_bytes = llk_panel_header_offset (shape, shape.n_in_section);
  const size_t turn_sections = section_bytes < TURN_BYTES ? TURN_BYTES / section_bytes : 1;
  const size_t turn_runs = turn_sections * section_runs;
  const size_t turn_bytes = turn_sections * section_bytes;
  const size_t turns_ahead = turn_bytes < AHEAD_BYTES ? (AHEAD_BYTES + turn_bytes / 2) / turn_bytes
                                                      : 1;
  const size_t n_runs = w->n_in / 32;
  const size_t panel_bytes = llk_panel_bytes (w->type, w->n_in);
  const size_t end = first + n_panels;

  for (; first < end; first += N_STREAMS)
    {
      const size_t n_streams = end - first < N_STREAMS ? end - first : N_STREAMS;
      const size_t n_ahead = turns_ahead < n_streams ? turns_ahead : n_streams;
      const uint8_t *panels = (const uint8_t *) w->panels + first * panel_bytes;
      Sums sums[N_STREAMS];

      for (size_t s = 0; s < n_streams; s++)
        for (size_t part = 0; part < N_PARTS; part++)
          for (size_t r = 0; r < n_rows; r++)
            sums[s].of[part][r] = splat_float (0);

      for (size_t run = 0, offset = 0; run < n_runs; run += turn_runs, offset += turn_bytes)
        {
          const size_t last = n_runs - run < turn_runs ? n_runs : run + turn_runs;
          const size_t next = last < n_runs           ? turn_bytes
                              : end - first > n_streams ? n_streams * panel_bytes - offset
                                                        : 0;

          for (size_t s = 0; s < n_streams; s++)
            {
              const uint8_t *section = panels + s * panel_bytes + offset;

              add (n_rows, section,
                   get_ahead (section, s, n_streams, n_ahead, panel_bytes, next), rows, run, last,
                   &sums[s]);
            }
        }

      for (size_t s = 0; s < n_streams; s++)
        {
          const size_t output = (first + s) * LLK_PANEL_OUTPUTS;
          const size_t n_left = w->n_out - output;

          store_sums (&sums[s], n_rows, n_left < LLK_PANEL_OUTPUTS ? n_left : LLK_PANEL_OUTPUTS,
                      y + output, y_stride, is_added);
        }
    }
}
