/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Random weights in any number format, made at the speed of a disk: random bits
 * for the integers, scales that give the weights a chosen standard deviation.
 * Pure functions, any thread.
 */

#pragma once

#include <glib.h>

#include "kernels/llk-types.h"

G_BEGIN_DECLS

/* Writes @n_blocks blocks of @type whose values have mean 0 and standard deviation
 * @deviation. The same @seed gives the same bytes. */
void bench_fill_random (LlkType  type,
                        double   deviation,
                        guint64  seed,
                        void    *blocks,
                        gsize    n_blocks);

G_END_DECLS
