/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Rotary position embedding of one head, the same for every set of instructions. */

#pragma once

#include <stddef.h>

/* Rotates one head in place by the angles cosine[i], sine[i], i < rope_dim / 2:
 * neighbouring pairs (norm), or halves (neox). */
void llk_rope_norm (float *head, const float *cosine, const float *sine, size_t rope_dim);
void llk_rope_neox (float *head, const float *cosine, const float *sine, size_t rope_dim);
