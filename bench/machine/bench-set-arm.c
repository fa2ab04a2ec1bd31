/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The three sets of Arm differ in one instruction each, so that one file holds them;
 * the compiler is told of them function by function. */

#include "bench-read.h"
#include "machine/bench-sets.h"

#include <arm_neon.h>

#include "kernels/llk.h"

#define N_SUMS 16

static gboolean
can_run_neon (void)
{
  return TRUE;
}

static gboolean
can_run_dotprod (void)
{
  return llk_ops_find ("dotprod") != NULL;
}

static gboolean
can_run_i8mm (void)
{
  return llk_ops_find ("i8mm") != NULL;
}

static void
multiply_floats (guint64 n_rounds)
{
  float32x4_t sums[N_SUMS];
  float32x4_t a = vdupq_n_f32 (1e-3f), b = vdupq_n_f32 (2);

  for (guint i = 0; i < N_SUMS; i++)
    sums[i] = vdupq_n_f32 (0);
  for (guint64 round = 0; round < n_rounds; round++)
    for (guint i = 0; i < N_SUMS; i++)
      {
        sums[i] = vfmaq_f32 (sums[i], a, b);
        __asm__ volatile ("" : "+w" (sums[i]));
      }
}

static void
multiply_bytes_long (guint64 n_rounds)
{
  int32x4_t sums[N_SUMS];
  int8x8_t a = vdup_n_s8 (3), b = vdup_n_s8 (-5);

  for (guint i = 0; i < N_SUMS; i++)
    sums[i] = vdupq_n_s32 (0);
  for (guint64 round = 0; round < n_rounds; round++)
    for (guint i = 0; i < N_SUMS; i++)
      {
        int16x8_t products = vmull_s8 (a, b);

        __asm__ volatile ("" : "+w" (products));
        sums[i] = vpadalq_s16 (sums[i], products);
        __asm__ volatile ("" : "+w" (sums[i]));
      }
}

__attribute__ ((target ("arch=armv8.2-a+dotprod"))) static void
multiply_bytes_dot (guint64 n_rounds)
{
  int32x4_t sums[N_SUMS];
  int8x16_t a = vdupq_n_s8 (3), b = vdupq_n_s8 (-5);

  for (guint i = 0; i < N_SUMS; i++)
    sums[i] = vdupq_n_s32 (0);
  for (guint64 round = 0; round < n_rounds; round++)
    for (guint i = 0; i < N_SUMS; i++)
      {
        sums[i] = vdotq_s32 (sums[i], a, b);
        __asm__ volatile ("" : "+w" (sums[i]));
      }
}

__attribute__ ((target ("arch=armv8.2-a+i8mm"))) static void
multiply_bytes_matrix (guint64 n_rounds)
{
  int32x4_t sums[N_SUMS];
  int8x16_t a = vdupq_n_s8 (3), b = vdupq_n_s8 (-5);

  for (guint i = 0; i < N_SUMS; i++)
    sums[i] = vdupq_n_s32 (0);
  for (guint64 round = 0; round < n_rounds; round++)
    for (guint i = 0; i < N_SUMS; i++)
      {
        sums[i] = vmmlaq_s32 (sums[i], a, b);
        __asm__ volatile ("" : "+w" (sums[i]));
      }
}

const BenchSet bench_set_neon = {
  .name = "neon",
  .can_run = can_run_neon,
  .read = read_memory,
  .peaks = { { "int8", "smull, sadalp", 2 * 8 * N_SUMS, multiply_bytes_long },
             { "fp32", "fmla", 2 * 4 * N_SUMS, multiply_floats } },
};

const BenchSet bench_set_dotprod = {
  .name = "dotprod",
  .can_run = can_run_dotprod,
  .read = read_memory,
  .peaks = { { "int8", "sdot", 2 * 16 * N_SUMS, multiply_bytes_dot } },
};

const BenchSet bench_set_i8mm = {
  .name = "i8mm",
  .can_run = can_run_i8mm,
  .read = read_memory,
  .peaks = { { "int8", "smmla", 2 * 32 * N_SUMS, multiply_bytes_matrix } },
};
