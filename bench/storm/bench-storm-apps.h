/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The apps that ask a server under a storm, one after the other turn, each on a thread of its
 * own. Made, stopped and freed on one thread; figures may be read on any.
 */

#pragma once

#include "storm/bench-storm-server.h"

G_BEGIN_DECLS

typedef struct _BenchStormApps BenchStormApps;

/* @n_turns: (nullable): how many turns each app takes; NULL for as many as there is time for. */
BenchStormApps *bench_storm_apps_new           (BenchStormServer *server,
                                                const guint      *n_turns);
void            bench_storm_apps_free          (BenchStormApps   *self);

/* Tokens of all answers so far. */
guint64         bench_storm_apps_get_tokens    (BenchStormApps   *self);
/* Apps whose first turn, with the long message, is over; apps that have ended. */
guint           bench_storm_apps_get_n_begun   (BenchStormApps   *self);
guint           bench_storm_apps_get_n_ended   (BenchStormApps   *self);

/* No app begins another turn; those with a number of turns go on to it. */
void            bench_storm_apps_stop          (BenchStormApps   *self);
/* Stops, and waits until each app has finished the turn under way, or all its turns. */
void            bench_storm_apps_finish        (BenchStormApps   *self);
/* Afterwards: (element-type utf8): whole answers, in their order. */
GPtrArray      *bench_storm_apps_get_answers   (BenchStormApps   *self,
                                                guint             app);
/* (nullable): why an app ended early. */
const char     *bench_storm_apps_get_failure   (BenchStormApps   *self,
                                                guint             app);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (BenchStormApps, bench_storm_apps_free)

G_END_DECLS
