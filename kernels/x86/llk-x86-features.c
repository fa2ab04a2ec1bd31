/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "kernels/x86/llk-x86-features.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* arch_prctl() numbers of Linux 5.16, and the state that holds tile data. */
#define REQUEST_PERMISSION 0x1023
#define STATE_TILE_DATA 18

#define BIT(n) (1u << (n))

bool
llk_x86_has_avx2 (void)
{
  unsigned int eax, ebx, ecx, edx;

  /* The compiler's test covers the system's part. */
  return __builtin_cpu_supports ("avx2") && __builtin_cpu_supports ("fma")
         && __get_cpuid (1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

bool
llk_x86_has_avxvnni (void)
{
  unsigned int eax, ebx, ecx, edx;

  return llk_x86_has_avx2 () && __get_cpuid_count (7, 1, &eax, &ebx, &ecx, &edx) != 0
         && (eax & BIT (4)) != 0;
}

bool
llk_x86_has_avx512 (void)
{
  return llk_x86_has_avx2 () && __builtin_cpu_supports ("avx512f")
         && __builtin_cpu_supports ("avx512bw") && __builtin_cpu_supports ("avx512dq")
         && __builtin_cpu_supports ("avx512vl") && __builtin_cpu_supports ("avx512vbmi")
         && __builtin_cpu_supports ("avx512vnni");
}

bool
llk_x86_has_amx (void)
{
  unsigned int eax, ebx, ecx, edx;

  return llk_x86_has_avx512 () && __get_cpuid_count (7, 0, &eax, &ebx, &ecx, &edx) != 0
         && (edx & BIT (22)) != 0 && (edx & BIT (24)) != 0 && (edx & BIT (25)) != 0
         && syscall (SYS_arch_prctl, REQUEST_PERMISSION, STATE_TILE_DATA) == 0;
}
