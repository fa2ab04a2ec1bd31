/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A service looked at from outside while others use it: what its process holds, by the kernel's and
 * by its own word; how long a property read takes another process; callers that are killed. One
 * thread each.
 */

#pragma once

#include "bench.h"

G_BEGIN_DECLS

/* --- what the process holds --- */

typedef enum
{
  BENCH_HELD_RSS,         /* MiB */
  BENCH_HELD_PSS,
  BENCH_HELD_ANON,
  BENCH_HELD_HEAP,        /* MiB that malloc() has given out, by its own word */
  BENCH_HELD_FDS,
  BENCH_HELD_THREADS,
  BENCH_HELD_CONTEXTS,    /* by GetStatistics() */
  BENCH_HELD_CALLS,
  BENCH_HELD_APPS,
  BENCH_HELD_STATE,       /* MiB of the state folder */
  BENCH_N_HELD
} BenchHeld;

typedef struct
{
  double seconds;         /* since the beginning */
  double held[BENCH_N_HELD];
} BenchSample;

const char *bench_held_get_name (BenchHeld held);
const char *bench_held_get_unit (BenchHeld held);
/* FALSE with @error when the service does not answer. */
gboolean    bench_sample_take   (BenchSample     *self,
                                 GDBusConnection *connection,
                                 guint            pid,
                                 const char      *state_folder,
                                 gint64           begin_us,
                                 GError         **error);

/* --- how long a property read takes --- */

typedef struct
{
  gint64 at_us;           /* monotonic */
  guint32 service_us;     /* a property of the service */
  guint32 bus_us;         /* a question to the bus itself, right after it: what the machine does */
} BenchProbe;

/* In a process of its own: reads every 20 ms, and writes a BenchProbe each to standard output,
 * until nobody reads that any more. */
int         bench_probe_run     (const char      *address);

/* Of all probes within [from_us, to_us) and outside of the pauses: */
typedef struct
{
  guint n;
  double p50, p99, p999, greatest;   /* ms */
} BenchProbed;

/* @pauses: (element-type gint64): begin, end, begin, end, … */
void        bench_probe_sum_up  (const BenchProbe *probes,
                                 guint             n_probes,
                                 gint64            from_us,
                                 gint64            to_us,
                                 GArray           *pauses,
                                 gboolean          of_bus,
                                 BenchProbed      *result);

/* --- callers that are killed --- */

/* In a process of its own: makes contexts, begins answers and does not read them, until it is
 * killed. */
int         bench_caller_run    (const char      *address,
                                 guint64          seed);

G_END_DECLS
