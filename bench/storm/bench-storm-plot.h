/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Storms as an SVG file, one below the other over the same time: memory beside each server, tokens
 * per second, the eater's stall so far. One thread.
 */

#pragma once

#include "storm/bench-storm-run.h"

G_BEGIN_DECLS

/* @results: (element-type BenchStormResult). (transfer full): the file's text. */
char *bench_storm_plot (GPtrArray            *results,
                        const BenchStormPlan *plan);

G_END_DECLS
