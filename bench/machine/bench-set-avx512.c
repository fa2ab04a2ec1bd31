/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench-read.h"
#include "machine/bench-sets.h"

#include <immintrin.h>

#include "kernels/x86/llk-x86-features.h"

#define N_SUMS 12

static gboolean
can_run (void)
{
  return llk_x86_has_avx512 ();
}

static void
multiply_floats (guint64 n_rounds)
{
  __m512 sums[N_SUMS] = { 0 };
  __m512 a = _mm512_set1_ps (1e-3f), b = _mm512_set1_ps (2);

  for (guint64 round = 0; round < n_rounds; round++)
    for (guint i = 0; i < N_SUMS; i++)
      {
        sums[i] = _mm512_fmadd_ps (a, b, sums[i]);
        __asm__ volatile ("" : "+v" (sums[i]));
      }
}

static void
multiply_bytes (guint64 n_rounds)
{
  __m512i sums[N_SUMS] = { 0 };
  __m512i a = _mm512_set1_epi8 (3), b = _mm512_set1_epi8 (-5);

  for (guint64 round = 0; round < n_rounds; round++)
    for (guint i = 0; i < N_SUMS; i++)
      {
        sums[i] = _mm512_dpbusd_epi32 (sums[i], a, b);
        __asm__ volatile ("" : "+v" (sums[i]));
      }
}

const BenchSet bench_set_avx512 = {
  .name = "avx512",
  .can_run = can_run,
  .read = read_memory,
  .peaks = { { "int8", "vpdpbusd of 512 bits", 2 * 64 * N_SUMS, multiply_bytes },
             { "fp32", "vfmadd of 512 bits", 2 * 16 * N_SUMS, multiply_floats } },
};
