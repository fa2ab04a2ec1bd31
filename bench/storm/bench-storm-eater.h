/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The program beside the server: a child that takes memory at a fixed pace up to a level, then
 * goes through it in rounds: touches all of it, gives a part back and takes it anew, reads a
 * file of its own. It measures its own longest wait. It ends with this process. One thread.
 */

#pragma once

#include "storm/bench-storm-group.h"

G_BEGIN_DECLS

typedef struct _BenchStormEater BenchStormEater;

/* @most: the highest level that will be asked for. @file: of @file_bytes, made here. It takes
 * a level in @grow_ms. */
BenchStormEater *bench_storm_eater_new        (BenchStormGroup *group,
                                               guint64          most,
                                               const char      *file,
                                               guint64          file_bytes,
                                               guint            grow_ms,
                                               GError         **error);
void             bench_storm_eater_free       (BenchStormEater *self);

/* Takes @bytes; 0 lets go of all. */
void             bench_storm_eater_set_level  (BenchStormEater *self,
                                               guint64          bytes);
/* Bytes it has now. */
guint64          bench_storm_eater_get_held   (BenchStormEater *self);
/* Since the level was set: rounds done, and the longest time that a MiB of memory took. */
guint64          bench_storm_eater_get_rounds (BenchStormEater *self);
double           bench_storm_eater_get_longest_ms (BenchStormEater *self);
gboolean         bench_storm_eater_is_alive   (BenchStormEater *self);

/* Milliseconds from the beginning of a round to that of the next, when nothing holds it up. */
#define BENCH_STORM_ROUND_MS 100

G_DEFINE_AUTOPTR_CLEANUP_FUNC (BenchStormEater, bench_storm_eater_free)

G_END_DECLS
