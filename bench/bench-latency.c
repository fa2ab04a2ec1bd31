/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench-latency.h"

#include <math.h>
#include <stdlib.h>

static int
compare_doubles (gconstpointer a,
                 gconstpointer b)
{
  double left = *(const double *) a, right = *(const double *) b;

  return (left > right) - (left < right);
}

/* The least sample that @share of all don't exceed. */
static double
get_percentile (const double *sorted,
                guint         n,
                double        share)
{
  guint rank = (guint) ceil (share * n);

  return sorted[CLAMP (rank, 1, n) - 1];
}

BenchLatency
bench_latency_new (double *samples,
                   guint   n)
{
  BenchLatency self = { .n = n };

  if (n == 0)
    return self;
  qsort (samples, n, sizeof (double), compare_doubles);
  for (guint i = 0; i < n; i++)
    self.mean += samples[i] / n;
  self.p50 = get_percentile (samples, n, 0.5);
  self.p95 = get_percentile (samples, n, 0.95);
  self.p99 = get_percentile (samples, n, 0.99);
  self.most = samples[n - 1];
  return self;
}

void
bench_ratios_add (BenchRatios *self,
                  double       ratio)
{
  self->least = self->n == 0 ? ratio : MIN (self->least, ratio);
  self->most = MAX (self->most, ratio);
  self->log_sum += log (ratio);
  self->n++;
}

double
bench_ratios_get_mean (const BenchRatios *self)
{
  return self->n > 0 ? exp (self->log_sum / self->n) : 0;
}
