/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "machine/bench-sets.h"

#include <string.h>

static const BenchSet *const all[] = {
  &bench_set_portable,
#if defined (__x86_64__)
  &bench_set_avx2,
  &bench_set_avxvnni,
  &bench_set_avx512,
  &bench_set_amx,
#elif defined (__aarch64__)
  &bench_set_neon,
  &bench_set_dotprod,
  &bench_set_i8mm,
#endif
};

const BenchSet *const *
bench_set_list (void)
{
  static const BenchSet *possible[G_N_ELEMENTS (all) + 1];
  guint n = 0;

  for (guint i = 0; i < G_N_ELEMENTS (all); i++)
    if (all[i]->can_run ())
      possible[n++] = all[i];
  possible[n] = NULL;
  return possible;
}

const BenchPeak *
bench_set_find_peak (const char      *kernels,
                     const char      *name,
                     const BenchSet **set)
{
  const BenchSet *const *sets = bench_set_list ();
  const BenchPeak *found = NULL;

  for (guint i = 0; sets[i] != NULL; i++)
    {
      for (const BenchPeak *peak = sets[i]->peaks; peak->name != NULL; peak++)
        if (strcmp (peak->name, name) == 0)
          {
            found = peak;
            *set = sets[i];
          }
      if (kernels != NULL && strcmp (sets[i]->name, kernels) == 0)
        break;
    }
  return found;
}
