/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench-read.h"
#include "machine/bench-sets.h"

#if defined (__aarch64__)
#define VECTOR_REGISTER "w"
#elif defined (__x86_64__)
#define VECTOR_REGISTER "x"
#else
#define VECTOR_REGISTER "m"
#endif

#define N_SUMS 8
#define LANES 4

typedef float Floats __attribute__ ((vector_size (LANES * sizeof (float))));

static gboolean
can_run (void)
{
  return TRUE;
}

static void
multiply_floats (guint64 n_rounds)
{
  Floats sums[N_SUMS] = { 0 };
  Floats a = { 1e-3f, 1e-3f, 1e-3f, 1e-3f }, b = { 1, 2, 3, 4 };

  for (guint64 round = 0; round < n_rounds; round++)
    for (guint i = 0; i < N_SUMS; i++)
      {
        __asm__ volatile ("" : "+" VECTOR_REGISTER (sums[i]));
        sums[i] = sums[i] * a + b;
      }
  for (guint i = 0; i < N_SUMS; i++)
    __asm__ volatile ("" : : VECTOR_REGISTER (sums[i]));
}

const BenchSet bench_set_portable = {
  .name = "portable",
  .can_run = can_run,
  .read = read_memory,
  .peaks = { { "fp32", "multiply, add", 2 * N_SUMS * LANES, multiply_floats } },
};
