/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench-read.h"
#include "machine/bench-sets.h"

#include <immintrin.h>

#include "kernels/x86/llk-x86-features.h"

#define N_SUMS 10

static gboolean
can_run (void)
{
  return llk_x86_has_avxvnni ();
}

static void
multiply_bytes (guint64 n_rounds)
{
  __m256i sums[N_SUMS] = { 0 };
  __m256i a = _mm256_set1_epi8 (3), b = _mm256_set1_epi8 (-5);

  for (guint64 round = 0; round < n_rounds; round++)
    for (guint i = 0; i < N_SUMS; i++)
      {
        sums[i] = _mm256_dpbusd_avx_epi32 (sums[i], a, b);
        __asm__ volatile ("" : "+x" (sums[i]));
      }
}

const BenchSet bench_set_avxvnni = {
  .name = "avxvnni",
  .can_run = can_run,
  .read = read_memory,
  .peaks = { { "int8", "vpdpbusd of 256 bits", 2 * 32 * N_SUMS, multiply_bytes } },
};
