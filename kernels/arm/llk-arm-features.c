/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "kernels/arm/llk-arm-features.h"

#include <asm/hwcap.h>
#include <sys/auxv.h>

bool
llk_arm_has_dotprod (void)
{
  return (getauxval (AT_HWCAP) & HWCAP_ASIMDDP) != 0;
}

bool
llk_arm_has_i8mm (void)
{
  return llk_arm_has_dotprod () && (getauxval (AT_HWCAP2) & HWCAP2_I8MM) != 0;
}
