/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Many replays of traces (bench-replay.h) at once: the grid of models, patterns, numbers of
 * contexts, budgets, policies and devices, and what comes out of each. All policies of a cell see
 * the same trace. What is asked for and what is returned belongs to one thread; the replays run in
 * several.
 */

#pragma once

#include "bench-latency.h"
#include "contexts/bench-replay.h"

G_BEGIN_DECLS

/* The number of contexts whose bytes with 8 bits budgets are shares of. */
#define BENCH_GRID_ALL_CONTEXTS 16

/* One point: a trace, a budget, a policy, a device. */
typedef struct
{
  const BenchModelShape *shape;
  BenchPattern pattern;
  guint n_contexts;
  double share;              /* of the bytes of BENCH_GRID_ALL_CONTEXTS contexts with 8 bits */
  const LlmKvPolicy *policy;
  const BenchDevice *device;
  guint chunk_slots;
  guint max_slots;
  double interval_s;
} BenchPoint;

typedef struct
{
  BenchPoint point;
  BenchLatency wait;         /* µs, of the counted switches */
  BenchLatency read;
  BenchLatency overlapped;
  GArray *waits;             /* (element-type double): µs, in the order of the trace */
  double budget;             /* bytes */
  double read_bytes;         /* of a switch, on average */
  double written_bytes;      /* likewise, while the call waited */
  double n_recomputed;       /* rows, likewise */
  double n_resident;         /* share of the switches that found all there */
} BenchCell;

typedef struct _BenchGrid BenchGrid;

/* @hours: of each trace. @folder: for chunks, best in memory. @n_jobs: 0 for all processors. */
BenchGrid       *bench_grid_new      (BenchRateFile     *rates,
                                      const char        *folder,
                                      double             hours,
                                      guint64            seed,
                                      guint              n_jobs);
void             bench_grid_free     (BenchGrid         *self);
/* Asks for a point; the same one is run once. Points that differ in their device alone share a
 * replay where the policy does not plan with it. */
void             bench_grid_add      (BenchGrid         *self,
                                      const BenchPoint  *point);
/* Runs what was asked for and is not there yet. */
gboolean         bench_grid_run      (BenchGrid         *self,
                                      GError           **error);
/* (nullable) */
const BenchCell *bench_grid_find     (BenchGrid         *self,
                                      const BenchPoint  *point);
/* (element-type BenchCell): all, in the order in which they were asked for. */
GPtrArray       *bench_grid_get_cells (BenchGrid        *self);
/* Seconds that replays took, in all threads together, and their calls. */
double           bench_grid_get_seconds (BenchGrid      *self,
                                      guint64           *n_calls);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (BenchGrid, bench_grid_free)

G_END_DECLS
