/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Loops that do nothing but read, or nothing but compute, one table for each set of
 * instructions, each in a file that is compiled for it. What they reach is
 * taken for the machine's limit. Pure functions, any thread.
 */

#pragma once

#include <stdbool.h>

#include <glib.h>

G_BEGIN_DECLS

typedef struct
{
  const char *name;         /* "int8", "bf16", "fp32"; NULL ends the list */
  const char *instruction;
  guint64 ops;              /* operations of a round: a multiplication and an addition are two */
  void (*run) (guint64 n_rounds);
} BenchPeak;

#define BENCH_SET_MAX_PEAKS 3

typedef struct
{
  const char *name;         /* of the kernels (kernels/llk.h) */
  bool (*can_run) (void);
  /* Reads @n_bytes, a multiple of 4096 × @n_streams, as streams that run side by side,
   * one cache line of each at a time; @prefetches asks for lines ahead. The result
   * is of no use but that the compiler can't leave out the reads. */
  guint64 (*read) (const void *data, gsize n_bytes, guint n_streams, gboolean prefetches);
  BenchPeak peaks[BENCH_SET_MAX_PEAKS + 1];
} BenchSet;

/* Streams that read() knows. */
#define BENCH_STREAMS { 1, 2, 4, 8, 16 }

/* Those that this processor can run, NULL-terminated, best last. */
const BenchSet *const *bench_set_list (void);

/* The fastest loop for numbers of this name ("int8", "bf16", "fp32") among sets up to
 * and with that of the kernels @name (NULL: the best), and its set; NULL when none has it. */
const BenchPeak *bench_set_find_peak (const char      *kernels,
                                      const char      *name,
                                      const BenchSet **set);

extern const BenchSet bench_set_portable;
#if defined (__x86_64__)
extern const BenchSet bench_set_avx2;
extern const BenchSet bench_set_avxvnni;
extern const BenchSet bench_set_avx512;
extern const BenchSet bench_set_amx;
#elif defined (__aarch64__)
extern const BenchSet bench_set_neon;
extern const BenchSet bench_set_dotprod;
extern const BenchSet bench_set_i8mm;
#endif

G_END_DECLS
