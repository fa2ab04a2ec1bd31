/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which sets of functions this processor can run, and the choice among them. */

#include "kernels/llk-internal.h"

#include <stdlib.h>

#ifdef LLK_HAVE_AVX2
#include <cpuid.h>

/* The compiler's test covers the system, which must save the wide registers. */
static bool
has_avx2 (void)
{
  unsigned int eax, ebx, ecx, edx;

  return __builtin_cpu_supports ("avx2") && __builtin_cpu_supports ("fma")
         && __get_cpuid (1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
#endif

const char *const *
llk_ops_list (void)
{
  static const char *const portable[] = { "portable", NULL };
#ifdef LLK_HAVE_AVX2
  static const char *const with_avx2[] = { "avx2", "portable", NULL };

  if (has_avx2 ())
    return with_avx2;
#endif
  return portable;
}

const LlkOps *
llk_ops_find (const char *name)
{
  if (strcmp (name, "portable") == 0)
    return llk_ops_portable ();
#ifdef LLK_HAVE_AVX2
  if (strcmp (name, "avx2") == 0 && has_avx2 ())
    return &llk_ops_avx2;
#endif
  return NULL;
}

const LlkOps *
llk_ops_best (void)
{
  const char *wanted = getenv ("LLMSVC_KERNELS");
  const LlkOps *ops = wanted != NULL ? llk_ops_find (wanted) : NULL;

  return ops != NULL ? ops : llk_ops_find (llk_ops_list ()[0]);
}
