/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench-read.h"
#include "machine/bench-sets.h"

#include <immintrin.h>

#include "kernels/x86/llk-x86-features.h"

/* As many as hide the latency of the longest instruction. */
#define N_SUMS 10

static gboolean
can_run (void)
{
  return llk_x86_has_avx2 ();
}

static void
multiply_floats (guint64 n_rounds)
{
  __m256 sums[N_SUMS] = { 0 };
  __m256 a = _mm256_set1_ps (1e-3f), b = _mm256_set1_ps (2);

  for (guint64 round = 0; round < n_rounds; round++)
    for (guint i = 0; i < N_SUMS; i++)
      {
        sums[i] = _mm256_fmadd_ps (a, b, sums[i]);
        __asm__ volatile ("" : "+x" (sums[i]));
      }
}

static void
multiply_bytes (guint64 n_rounds)
{
  __m256i sums[N_SUMS] = { 0 };
  __m256i a = _mm256_set1_epi8 (3), b = _mm256_set1_epi8 (-5), ones = _mm256_set1_epi16 (1);

  for (guint64 round = 0; round < n_rounds; round++)
    for (guint i = 0; i < N_SUMS; i++)
      {
        __m256i products = _mm256_maddubs_epi16 (a, b);

        __asm__ volatile ("" : "+x" (products));
        sums[i] = _mm256_add_epi32 (sums[i], _mm256_madd_epi16 (products, ones));
        __asm__ volatile ("" : "+x" (sums[i]));
      }
}

const BenchSet bench_set_avx2 = {
  .name = "avx2",
  .can_run = can_run,
  .read = read_memory,
  .peaks = { { "int8", "vpmaddubsw, vpmaddwd, vpaddd", 2 * 32 * N_SUMS, multiply_bytes },
             { "fp32", "vfmadd", 2 * 8 * N_SUMS, multiply_floats } },
};
