/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * One point of the grid, with parts of LLMS switched off, and with one figure changed:
 * tokens in a chunk, the longest context, the rate of calls (L12). One thread.
 */

#pragma once

#include "contexts/bench-tables.h"

G_BEGIN_DECLS

/* For all models and devices of @axes. */
gboolean bench_sweeps_ablate (const BenchAxes  *axes,
                              BenchGrid        *grid,
                              gboolean          is_silent,
                              GError          **error);
/* For the last model and all devices of @axes, with its first two policies. */
gboolean bench_sweeps_run    (const BenchAxes  *axes,
                              BenchGrid        *grid,
                              gboolean          is_silent,
                              GError          **error);

G_END_DECLS
