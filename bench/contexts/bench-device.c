/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "contexts/bench-trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- devices --- */

/* What makers publish. Fixed before any result was seen. The latencies of the phones' storage and
 * of the card are round figures of the order that is measured on such devices: makers publish
 * reads per second at many at once, not how long one takes. */
static const BenchDevice devices[] = {
  { "ufs4", "UFS 4.0: 4200 MB/s read, 2800 MB/s written (Samsung, May 2022), 60 µs", 60, 4200,
    2800, 8 },
  { "ufs3", "UFS 3.1: 2100 MB/s read, 1200 MB/s written (Samsung, March 2020), 80 µs", 80, 2100,
    1200, 8 },
  { "sd", "SD card, UHS-I: 90 MB/s read, 60 MB/s written, 500 µs (class A1 asks for 1500 reads a "
    "second, A2 for 4000), one request at once", 500, 90, 60, 1 },
};

const BenchDevice *
bench_device_find (const char *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (devices); i++)
    if (strcmp (devices[i].name, name) == 0)
      return &devices[i];
  return NULL;
}

/* How long requests keep the device busy: small ones by their number, large ones by their bytes. */
static double
get_busy_us (const BenchDevice *self,
             double             bytes,
             double             n_requests)
{
  return MAX (bytes / self->read_bytes_per_us, n_requests * self->latency_us / self->depth);
}

double
bench_device_get_read_us (const BenchDevice *self,
                          double             bytes,
                          double             n_requests)
{
  return bytes > 0 ? self->latency_us + get_busy_us (self, bytes, n_requests) : 0;
}

double
bench_device_get_write_us (const BenchDevice *self,
                           double             bytes)
{
  return bytes > 0 ? self->latency_us + bytes / self->write_bytes_per_us : 0;
}

/* When the first groups up to @n have arrived, of all that takes @all. The device works on several
 * requests at once and ends them in any order: one waits for half of the others. */
static double
get_arrival (const BenchRestore *self,
             const BenchDevice  *device,
             double              all,
             guint               n)
{
  double latency = self->bytes > 0 ? device->latency_us : 0;
  double beside = self->n_requests > 0 ? (device->depth - 1) / 2.0 / self->n_requests : 0;

  return latency + (all - latency) * MIN ((double) n / self->n_groups + beside, 1);
}

/* Until @first_us of work, shared by all layers, is done: of a layer when it has arrived and the
 * one before it is done. */
static double
run_layers (const BenchRestore *self,
            const BenchDevice  *device,
            double              first_us)
{
  double all = bench_device_get_read_us (device, self->bytes, self->n_requests) + self->stall_us;
  double finish = 0;

  for (guint layer = 0; layer < self->n_layers; layer++)
    {
      guint group = layer * self->n_groups / self->n_layers;

      finish = MAX (finish, get_arrival (self, device, all, group + 1)) + first_us / self->n_layers;
    }
  return finish;
}

double
bench_restore_get_us (const BenchRestore *self,
                      const BenchDevice  *device,
                      gboolean            overlaps)
{
  if (overlaps)
    return run_layers (self, device, self->take_us + self->first_us) + self->rest_us;
  return run_layers (self, device, self->take_us) + self->first_us + self->rest_us;
}

/* --- rates --- */

/* A row of more costs no more than one of fewer, but for caches: up to 1.28 was seen (8 M, 256 and 512
 * rows). A disturbed one that spoiled a whole grid had 1.59. */
#define MAX_ROW_GROWTH 1.45

guint
bench_steps_find_outlier (const guint  *rows,
                          const double *us,
                          guint         n,
                          double        depth_us)
{
  double before = G_MAXDOUBLE;

  for (guint i = 0; i < n; i++)
    {
      double row_us = us[i] / rows[i] - depth_us * rows[i] / 2 / 1000;

      if ((i > 0 && us[i] < us[i - 1]) || row_us > MAX_ROW_GROWTH * before)
        return i;
      before = row_us;
    }
  return G_MAXUINT;
}

/* --- latencies --- */

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
