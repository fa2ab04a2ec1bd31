/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What a grid of replays says (bench-grid.h), as tables in Markdown, as JSON and as plots.
 * One thread.
 */

#pragma once

#include "bench.h"
#include "contexts/bench-grid.h"

G_BEGIN_DECLS

/* What the points of a grid are made of; all ended by NULL or 0. */
typedef struct
{
  const BenchModelShape *const *shapes;
  const LlmKvPolicy *const *policies;   /* the first is what others are compared with */
  const BenchDevice *const *devices;
  const BenchPattern *patterns;
  guint n_patterns;
  const guint *contexts;
  const double *shares;
} BenchAxes;

/* Asks @grid for all points of @axes. */
void     bench_axes_add         (const BenchAxes  *self,
                                 BenchGrid        *grid);

/* For each model and device: latencies by budget, number of contexts and policy, and how the
 * policies compare. */
void     bench_tables_print     (const BenchAxes  *axes,
                                 BenchGrid        *grid);
/* One line for each of some cells that differ in @label alone. */
void     bench_tables_print_row (const char       *label,
                                 const BenchCell  *cell);
void     bench_tables_print_row_head (const char  *label);
/* Writes the member "cells" into an open object. */
void     bench_tables_add_json  (BenchGrid        *grid,
                                 JsonBuilder      *builder);
/* A plot for each pattern, model, device and budget in @folder. */
gboolean bench_tables_plot      (const BenchAxes  *axes,
                                 BenchGrid        *grid,
                                 const char       *folder,
                                 GError          **error);

G_END_DECLS
