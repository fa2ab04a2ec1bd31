/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Products of panels with rows of LLK_ACTIVATION_Q8, as llk-product.h defines them: an
 * instance for each type of what takes a run's codes apart, and the rest once for all.
 *
 * A single row is multiplied while the codes are taken apart (llk-panel-row.h). For several
 * rows the bytes of a run are stored, so that they are made once for all rows, and each row
 * adds up groups of four inputs of all outputs. Sums of a run are exact either way.
 *
 * Of several rows two panels go together. What is read some runs later is fetched into the
 * first cache meanwhile. Where memory is faster with several streams, more panels are worked on
 * side by side, a run of each in turn.
 */

#pragma once

#include "kernels/llk-panel-row.h"
#include "kernels/llk-panel-rows.h"

#define MAX_STREAMS 4
#define AHEAD_BYTES 8192      /* fetched before they are needed, in whole runs */

/* Panels side by side: @n was best on Zen 5. On Sapphire Rapids four were best while less was
 * fetched ahead; that was not measured again. */
INLINE size_t
get_width (size_t n)
{
#ifdef LLK_X86
  if (__builtin_cpu_is ("intel"))
    return MAX_STREAMS;
#endif
  return n;
}

/* --- a matrix --- */

/* The sums of a panel to its outputs, of which there are @n. */
INLINE void
write_sums (const float sums[N],
            size_t      n,
            float      *y,
            bool        is_added)
{
  if (n == N)
    for (size_t lane = 0; lane < N; lane += N_LANES)
      {
        const Floats v = load_floats (sums + lane);

        store_floats (y + lane, is_added ? add_floats (load_floats (y + lane), v) : v);
      }
  else
    for (size_t o = 0; o < n; o++)
      y[o] = is_added ? y[o] + sums[o] : sums[o];
}

/* As many panels go through a piece before the next: their sums stay in the cache, and memory
 * is read in long stretches. */
#define GROUP_PANELS 8
#define GROUP_SUMS (GROUP_PANELS * (MAX_ROWS + 1) * N)

/* What is multiplied: a group of panels with at most MAX_ROWS rows. */
typedef struct
{
  const LlkMatrix *w;
  const TypeOps *ops;
  size_t run_bytes;
  size_t row_bytes;
  size_t width;            /* panels side by side */
  size_t first, n_panels;
  const uint8_t *rows;
  size_t first_row, n_rows;
  float *sums;             /* of each panel [n_rows][N] */
  float *outliers;         /* likewise: of outliers */
  size_t panel_sums;       /* those of panels are so far apart: an odd number of cache lines, as
                            * a power of two of them would share few places of the cache */
} Group;

/* The run that is read some runs later, in the order of multiply_group(). */
typedef struct
{
  Walk walk;
  RunParts runs;
  size_t first;            /* panel of the group */
  size_t panel, run;       /* of the group and of the runs */
} Ahead;

static void
look_far_ahead (Ahead       *ahead,
                const Group *group)
{
  ahead->panel = 0;
  if (walk_far (&ahead->walk, &ahead->runs) && ahead->runs.n_rows > group->first_row)
    return;
  ahead->walk = walk_begin (group->w);
  walk_far (&ahead->walk, &ahead->runs);
  ahead->first += group->n_panels;
}

INLINE void
look_ahead (Ahead       *ahead,
            const Group *group)
{
  if (++ahead->run < ahead->runs.n_runs)
    return;
  ahead->run = 0;
  ahead->panel += group->width;
  if (ahead->panel >= group->n_panels)
    look_far_ahead (ahead, group);
}

static Ahead
begin_ahead (const Group *group)
{
  Ahead ahead = { .walk = walk_begin (group->w), .first = group->first };

  walk_far (&ahead.walk, &ahead.runs);
  for (size_t bytes = 0; bytes < AHEAD_BYTES; bytes += group->width * group->run_bytes)
    look_ahead (&ahead, group);
  return ahead;
}

/* @runs of panels from @panel of the group on, side by side. */
static void
multiply_panels (const Group    *group,
                 const RunParts *runs,
                 size_t          panel,
                 const uint8_t  *rows,
                 size_t          n_rows,
                 Ahead          *ahead)
{
  const size_t n_left = group->n_panels - panel;
  const size_t n_panels = n_left < group->width ? n_left : group->width;
  const size_t panel_sums = group->panel_sums;
  float *sums = group->sums + panel * panel_sums;
  float *outliers = group->outliers + panel * panel_sums;
  RowOutlier list[MAX_ROWS * LLK_MAX_OUTLIERS];
  RowOutliers values;
  RunParts run = *runs;
  StoredRun stored[2];

  for (size_t i = 0; i < runs->n_runs; i++, rows += sizeof (LlkActivationRun),
              run.parts[0].data += group->run_bytes)
    {
      const RunPart *next = &ahead->runs.parts[0];

      begin_outliers (&values, list);
      for (size_t r = 0; r < n_rows; r++)
        {
          const uint8_t *row = group->rows + r * group->row_bytes;
          const LlkActivationRun *other = (const void *) (rows + r * group->row_bytes);

          if (other->n_outliers > 0)
            append_outliers (
              llk_activation_get_outliers (row, group->w->n_in) + other->first_outlier,
              other->n_outliers, r, &values);
        }
      for (size_t p = 0; p < n_panels; p++)
        {
          const uint8_t *fetched = next->data
                                   + (ahead->first + ahead->panel + p) * next->panel_bytes
                                   + ahead->run * group->run_bytes;

          store_run (group->ops, &run, group->first + panel + p, fetched, &stored[p % 2]);
          if (p % 2 == 0 && p + 1 < n_panels)
            continue;
          if (values.n > 0)
            group->ops->add_outliers (&run, group->first + panel + p / 2 * 2, p % 2 + 1, &values,
                                      outliers + p / 2 * 2 * panel_sums, panel_sums);
          add_rows (group->ops, stored, p % 2 + 1, run.n, rows, group->row_bytes, n_rows,
                    sums + p / 2 * 2 * panel_sums, panel_sums);
        }
      look_ahead (ahead, group);
    }
}

/* One row times @runs, which are in one piece; moves @walk over a shorter run behind them too.
 * Returns the runs. */
static size_t
multiply_row (const Group    *group,
              const RunParts *runs,
              const uint8_t  *row,
              Walk           *walk)
{
  Walk next = *walk;
  RunParts last;
  const bool has_last = runs->n == LLK_RUN && walk_far (&next, &last) && last.n_parts == 1
                        && last.parts[0].data
                             == runs->parts[0].data + runs->n_runs * group->run_bytes;
  const Streams streams = {
    .data = runs->parts[0].data + group->first * runs->parts[0].panel_bytes,
    .panel_bytes = runs->parts[0].panel_bytes,
    .run_bytes = group->run_bytes,
    .n_panels = group->n_panels,
    .n_runs = runs->n_runs + has_last,
    .n_last = has_last ? last.n : runs->n,
    .values = llk_activation_get_outliers (group->rows, group->w->n_in),
  };

  multiply_streams (group->ops, &streams, (const void *) row, group->sums, group->outliers);
  if (has_last)
    *walk = next;
  return streams.n_runs;
}

/* The same with a run in several parts. */
static void
multiply_parts (const Group            *group,
                const RunParts         *run,
                const LlkActivationRun *x)
{
  const LlkOutlier *values =
    llk_activation_get_outliers (group->rows, group->w->n_in) + x->first_outlier;

  for (size_t panel = 0; panel < group->n_panels; panel++)
    group->ops->add_parts (run, group->first + panel, x, values, group->sums + panel * N,
                           group->outliers + panel * N);
}

static void
multiply_group (const Group *group,
                Ahead       *ahead)
{
  const uint8_t *rows = group->rows;
  Walk walk = walk_begin (group->w);
  RunParts runs;

  memset (group->sums, 0, group->n_panels * group->panel_sums * sizeof *group->sums);
  memset (group->outliers, 0, group->n_panels * group->panel_sums * sizeof *group->outliers);
  while (walk_far (&walk, &runs) && runs.n_rows > group->first_row)
    {
      const size_t n_left = runs.n_rows - group->first_row;
      const size_t n_rows = n_left < group->n_rows ? n_left : group->n_rows;
      size_t n_runs = runs.n_runs;

      if (group->n_rows == 1 && runs.n_parts == 1)
        n_runs = multiply_row (group, &runs, rows, &walk);
      else if (group->n_rows == 1 && group->ops->add_parts != NULL)
        multiply_parts (group, &runs, (const void *) rows);
      else
        for (size_t panel = 0; panel < group->n_panels; panel += group->width)
          multiply_panels (group, &runs, panel, rows, n_rows, ahead);
      rows += n_runs * sizeof (LlkActivationRun);
    }
}

/* What write_group() will write, into the second cache. */
static void
fetch_outputs (const Group *group,
               const float *y,
               size_t       y_stride)
{
  for (size_t r = 0; r < group->n_rows; r++)
    for (size_t p = 0; p < group->n_panels; p++)
      __builtin_prefetch (y + (group->first_row + r) * y_stride + (group->first + p) * N, 1, 2);
}

static void
write_group (const Group *group,
             float       *y,
             size_t       y_stride,
             bool         is_added)
{
  for (size_t r = 0; r < group->n_rows; r++)
    for (size_t p = 0; p < group->n_panels; p++)
      {
        const size_t output = (group->first + p) * N;
        const size_t n_left = group->w->n_out - output;
        const size_t at = p * group->panel_sums + r * N;
        float *dst = y + (group->first_row + r) * y_stride + output;
        float totals[N];

        for (size_t lane = 0; lane < N; lane += N_LANES)
          store_floats (totals + lane, add_floats (load_floats (group->sums + at + lane),
                                                   load_floats (group->outliers + at + lane)));
        write_sums (totals, n_left < N ? n_left : N, dst, is_added);
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
  const size_t n_at_once = n_rows == 1 ? GROUP_SUMS / N : GROUP_PANELS;
  const size_t end = first + n_panels;
  float sums[GROUP_SUMS] __attribute__ ((aligned (64)));
  float outliers[GROUP_SUMS] __attribute__ ((aligned (64)));
  Group group = {
    .w = w,
    .ops = ops,
    .run_bytes = llk_panel_run_bytes (llk_panel_shape (w->type), LLK_RUN),
    .row_bytes = llk_activation_bytes (LLK_ACTIVATION_Q8, w->n_in),
    .width = get_width (2),
    .first = first,
    .n_panels = n_panels < n_at_once ? n_panels : n_at_once,
    .sums = sums,
    .outliers = outliers,
  };
  Ahead ahead = begin_ahead (&group);

  for (; group.first < end; group.first += group.n_panels)
    {
      group.n_panels = end - group.first < n_at_once ? end - group.first : n_at_once;
      for (group.first_row = 0; group.first_row < n_rows; group.first_row += MAX_ROWS)
        {
          const size_t n_left = n_rows - group.first_row;

          group.n_rows = n_left < MAX_ROWS ? n_left : MAX_ROWS;
          group.panel_sums = (group.n_rows | 1) * N;
          if (group.n_rows > 1)
            fetch_outputs (&group, y, y_stride);
          group.rows = rows + group.first_row * group.row_bytes;
          if (group.first_row > 0)
            ahead = begin_ahead (&group);
          multiply_group (&group, &ahead);
          write_group (&group, y, y_stride, is_added);
        }
    }
}
