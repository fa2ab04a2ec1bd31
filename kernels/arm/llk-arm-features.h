/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What this processor and the system allow beyond the vectors of every aarch64. */

#pragma once

#include <stdbool.h>

bool llk_arm_has_dotprod (void);
bool llk_arm_has_i8mm    (void);   /* with the above */
