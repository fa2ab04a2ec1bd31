/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What several engines reached in several tests, round by round, beside the machine's
 * limits in the same round; as a table, or as JSON whose form docs/performance.md
 * describes. One thread.
 */

#pragma once

#include "bench.h"

G_BEGIN_DECLS

typedef struct
{
  GPtrArray *results;
  BenchFigure *read_limit;     /* GB/s */
  BenchFigure *compute_limit;  /* Gop/s */
  char *compute_name;          /* the instruction of compute_limit */
} BenchResults;

/* One run. */
typedef struct
{
  const char *engine;
  const char *test;
  guint n_tokens;
  double seconds;
  double bytes;                /* of weights and KV cache */
  double ops;
} BenchRun;

BenchResults *bench_results_new        (const char        *compute_name);
void          bench_results_free       (BenchResults      *self);

/* A round begins: its limits in bytes and operations per second. */
void          bench_results_add_limits (BenchResults      *self,
                                        double             read,
                                        double             compute);
/* A run in the round that began last. The first engine to run a test is the one that
 * the others' ratios are to. */
void          bench_results_add        (BenchResults      *self,
                                        const BenchRun    *run);
void          bench_results_print      (BenchResults      *self);
/* Sets the members "limits" and "results". */
void          bench_results_set_json   (BenchResults      *self,
                                        JsonObject        *object);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (BenchResults, bench_results_free)

G_END_DECLS
