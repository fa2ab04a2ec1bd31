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

/* Until @first_us of work, shared by all layers, is done: of a layer when it has arrived and the
 * one before it is done. */
static double
run_layers (const BenchRestore *self,
            const BenchDevice  *device,
            double              first_us)
{
  double all = bench_device_get_read_us (device, self->bytes, self->n_requests);
  double latency = self->bytes > 0 ? device->latency_us : 0;
  double finish = 0;

  for (guint layer = 0; layer < self->n_layers; layer++)
    {
      guint group = layer * self->n_groups / self->n_layers;
      double arrived = latency + (all - latency) * (group + 1) / self->n_groups;

      finish = MAX (finish, arrived) + first_us / self->n_layers;
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
