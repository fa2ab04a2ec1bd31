/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What this processor, and the system that must save its registers, allow. */

#pragma once

#include <stdbool.h>

bool llk_x86_has_avx2    (void);   /* with FMA and F16C */
bool llk_x86_has_avxvnni (void);   /* the same with AVX-VNNI */
bool llk_x86_has_avx512  (void);   /* F, BW, DQ, VL, VBMI and VNNI */
/* AVX-512 as above, and tiles for int8 and bfloat16, which this asks the kernel
 * to switch on for the process. */
bool llk_x86_has_amx     (void);
