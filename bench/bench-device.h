/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How long storage takes, in virtual time: devices with a latency, a bandwidth and so many
 * requests at once; and when, in a forward pass, what was asked of them has arrived. Plain data
 * and pure functions.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct
{
  const char *name;
  const char *what;          /* which, and where its figures come from */
  double latency_us;         /* from asking to having, of a request alone */
  double read_bytes_per_us;
  double write_bytes_per_us;
  guint depth;               /* requests that it works on at once */
} BenchDevice;

/* Those of fixed figures, ended by one without a name. The real disk is not among them: it is
 * measured. */
const BenchDevice *bench_device_list         (void);
const BenchDevice *bench_device_find         (const char        *name);

/* Of @n_requests for @bytes together, asked for at once. */
double             bench_device_get_read_us  (const BenchDevice *self,
                                              double             bytes,
                                              double             n_requests);
double             bench_device_get_write_us (const BenchDevice *self,
                                              double             bytes);

/* What a call reads and computes. Groups of layers of equal size are read one after the other; all
 * is asked for when the call begins. */
typedef struct
{
  double bytes;
  double n_requests;
  guint n_groups;
  guint n_layers;
  double first_us;           /* of the first step: all layers */
  double rest_us;            /* of the steps after it */
  double take_us;            /* the service's own work on what arrives */
} BenchRestore;

/* From the begin of the call to the end of its last step. With @overlaps a layer is computed as
 * soon as it has arrived and the one before it is done; else all is read first. */
double             bench_restore_get_us      (const BenchRestore *self,
                                              const BenchDevice  *device,
                                              gboolean            overlaps);

G_END_DECLS
