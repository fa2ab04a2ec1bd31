/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench-device.h"

#include <string.h>

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
  { NULL, NULL, 0, 0, 0, 0 },
};

const BenchDevice *
bench_device_list (void)
{
  return devices;
}

const BenchDevice *
bench_device_find (const char *name)
{
  for (const BenchDevice *device = devices; device->name != NULL; device++)
    if (strcmp (device->name, name) == 0)
      return device;
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
