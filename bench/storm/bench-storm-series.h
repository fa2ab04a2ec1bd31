/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What is read every tenth of a second while storms go over a server: memory, stalls, tokens.
 * A thread of its own reads; what it has is anybody's when it was stopped, and the functions
 * that look back may be called before.
 */

#pragma once

#include "storm/bench-storm-apps.h"
#include "storm/bench-storm-eater.h"

G_BEGIN_DECLS

#define BENCH_STORM_SAMPLE_MS 100

typedef struct
{
  double at_s;              /* since the series was begun */
  guint64 anonymous;        /* of the server: memory of its own, */
  guint64 mapped;           /* and files in its address space */
  guint64 eater;            /* bytes the eater has */
  guint64 tokens;           /* so far */
  guint64 available;        /* of the machine, */
  guint64 total;            /* and all it has */
  BenchStormStall system;   /* of the machine */
  BenchStormReading group;
} BenchStormSample;

typedef struct _BenchStormSeries BenchStormSeries;

/* @server and @apps: (nullable), both or none. */
BenchStormSeries *bench_storm_series_new       (BenchStormGroup  *group,
                                                BenchStormEater  *eater,
                                                BenchStormServer *server,
                                                BenchStormApps   *apps);
void              bench_storm_series_free      (BenchStormSeries *self);

double            bench_storm_series_get_now   (BenchStormSeries *self);
/* Tokens per second between two times. */
double            bench_storm_series_get_speed (BenchStormSeries *self,
                                                double            begin_s,
                                                double            end_s);
/* Bytes of the server, the mean between two times. */
double            bench_storm_series_get_resident (BenchStormSeries *self,
                                                   double            begin_s,
                                                   double            end_s);
/* (transfer full) (element-type BenchStormSample): ends the thread. */
GArray           *bench_storm_series_stop      (BenchStormSeries *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (BenchStormSeries, bench_storm_series_free)

G_END_DECLS
