/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What storms came to: a table, or JSON (docs/benchmarks/storm.md describes it), and readings for
 * `llmsvc-bench pressure`. One thread.
 */

#pragma once

#include "bench.h"
#include "storm/bench-storm-run.h"

G_BEGIN_DECLS

/* @results: (element-type BenchStormResult): the first is that of the eater alone. */
void  bench_storm_print    (GPtrArray              *results,
                            const BenchStormPlan   *plan);
/* Closed. */
void  bench_storm_add_json (GPtrArray              *results,
                            const BenchStormPlan   *plan,
                            JsonBuilder            *builder);
/* (transfer full): a line for each sample. */
char *bench_storm_trace    (const BenchStormResult *result,
                            const BenchStormPlan   *plan);

G_END_DECLS
