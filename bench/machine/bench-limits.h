/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What this machine can do at the moment: how fast several threads read memory, and how
 * fast they compute when they do nothing else. The calling thread waits
 * meanwhile. One thread.
 */

#pragma once

#include "bench.h"

#include "machine/bench-sets.h"

G_BEGIN_DECLS

typedef enum
{
  BENCH_PAGES_HUGE,    /* anonymous, huge pages asked for */
  BENCH_PAGES_SMALL,   /* anonymous, huge pages forbidden */
  BENCH_PAGES_FILE,    /* a file, mapped so that its large folios can be huge pages */
} BenchPages;

typedef struct
{
  guint8 *data;
  gsize bytes;
  gsize huge_bytes;    /* of these, mapped as huge pages */
  guint8 *mapping;
  gsize mapping_bytes;
  int fd;              /* of BENCH_PAGES_FILE, else -1 */
} BenchMemory;

/* Memory that is there: every page is touched. @folder (BENCH_PAGES_FILE): where the file
 * is made; it has no name and ends with the memory. NULL with @error set when there
 * is no room. */
BenchMemory *bench_memory_new  (BenchPages    pages,
                                gsize         bytes,
                                const char   *folder,
                                GError      **error);
void         bench_memory_free (BenchMemory  *self);

/* Bytes per second with which @n_threads threads together read all of it once, each its
 * own part as @n_streams streams side by side. */
double bench_read_memory  (const BenchMemory *memory,
                           guint              n_threads,
                           guint              n_streams,
                           gboolean           prefetches);
/* The same within the second-level caches: each thread reads 1 MiB again and again. */
double bench_read_cache   (guint              n_threads);
/* Operations per second of @n_threads threads together. Matrix units are slow at first and several
 * times as fast when they have worked for a while. */
typedef struct
{
  double rested;          /* in the first 10 ms behind a rest */
  double steady;          /* the mean from 160 to 320 ms */
  double rise_ms;         /* until 80 % of that are reached */
} BenchSpeeds;

BenchSpeeds bench_compute (const BenchPeak   *peak,
                           guint              n_threads);
/* The steady one where other work of @pause_ms is between pieces of half a millisecond, while it
 * computes. */
double bench_compute_with_pauses (const BenchPeak *peak,
                           guint              n_threads,
                           double             pause_ms);

/* The best of the readings with several streams, taken a few times: what a run just before
 * or after it is compared with. */
double bench_read_best    (const BenchMemory *memory,
                           guint              n_threads);

/* Adds figures of how fast a disk reads, past the page cache and from it, of a file of @bytes
 * without a name that is made in @folder. */
gboolean bench_disk_measure (Bench            *bench,
                             const char       *folder,
                             gsize             bytes,
                             guint             n_runs,
                             GError          **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (BenchMemory, bench_memory_free)

G_END_DECLS
