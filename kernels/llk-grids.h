/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Grids of the IQ2 and IQ3 types: an entry has the magnitudes of eight values, two bits each, or of
 * four, three bits each, the first lowest. */

#pragma once

#include <stdint.h>

extern const uint16_t llk_iq2_xxs_grid[256];
extern const uint16_t llk_iq2_xs_grid[512];
extern const uint16_t llk_iq2_s_grid[1024];
extern const uint16_t llk_iq3_xxs_grid[256];
extern const uint16_t llk_iq3_s_grid[512];
