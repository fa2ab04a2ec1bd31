/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The largest number of contexts under a latency, for each budget of memory (L12): more and more
 * contexts, until too many. One thread, beside those of the grid.
 */

#pragma once

#include "contexts/bench-tables.h"

G_BEGIN_DECLS

typedef struct _BenchCapacity BenchCapacity;

/* With the models, policies, devices, patterns and budgets of @axes, which must stay as long as the
 * models do. Points come from, and go to, @grid. */
BenchCapacity *bench_capacity_new      (const BenchAxes  *axes,
                                        BenchGrid        *grid);
void           bench_capacity_free     (BenchCapacity    *self);
gboolean       bench_capacity_run      (BenchCapacity    *self,
                                        GError          **error);
void           bench_capacity_print    (BenchCapacity    *self);
/* Writes the member "capacity" into an open object. */
void           bench_capacity_add_json (BenchCapacity    *self,
                                        JsonBuilder      *builder);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (BenchCapacity, bench_capacity_free)

G_END_DECLS
