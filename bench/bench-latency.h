/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Sums up many latencies: mean, percentiles, and how sets of them compare. Plain data and
 * pure functions.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct
{
  guint n;
  double mean;
  double p50;
  double p95;
  double p99;
  double most;
} BenchLatency;

/* Sorts @samples. All is 0 when there are none. */
BenchLatency bench_latency_new        (double       *samples,
                                       guint         n);

/* Several ratios. */
typedef struct
{
  guint n;
  double log_sum;
  double least;
  double most;
} BenchRatios;

void         bench_ratios_add         (BenchRatios  *self,
                                       double        ratio);
/* The geometric mean; 0 without ratios. */
double       bench_ratios_get_mean    (const BenchRatios *self);

G_END_DECLS
