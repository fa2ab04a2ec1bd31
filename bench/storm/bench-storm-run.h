/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Storms over one server: it starts in a group of its own, the apps begin their contexts, then
 * the eater grows, stays and lets go, again and again. One thread.
 */

#pragma once

#include "storm/bench-storm-series.h"

G_BEGIN_DECLS

typedef struct
{
  guint64 level;            /* of the eater */
  double begin_s;           /* times of the series */
  double end_s;             /* the eater lets go */
  BenchStormStall stalls[BENCH_STORM_N_SIDES];  /* between both */
  guint64 rounds;           /* of the eater at its level */
  double longest_ms;        /* that a MiB took it */
  double speed;             /* tokens per second between both */
  double back_s;            /* behind the end: speed was back; below 0: not before the next */
} BenchStormStorm;

typedef struct
{
  char *name;
  GArray *storms;           /* (element-type BenchStormStorm) */
  GArray *samples;          /* (element-type BenchStormSample) */
  guint group_version;
  double start_s;           /* until all contexts had begun */
  double speed_before;      /* tokens per second */
  double speed_after;
  double resident_before;   /* bytes of the server */
  double resident_after;
  double resident_back_s;   /* behind the last storm; below 0: not while it was waited for */
  guint killed_in;          /* 0: in none; else the number of the storm, 1 more than there were for
                             * afterwards */
  guint64 oom_kills;
  gboolean has_eater;       /* the eater was there to the end */
  guint n_answers;          /* whole ones */
  char *failure;            /* (nullable): an app's that ended early, the first */
  GPtrArray *answers[BENCH_STORM_APPS];  /* (element-type utf8) */
  int n_different;          /* answers not as undisturbed; -1: not compared */
} BenchStormResult;

typedef enum
{
  BENCH_STORM_NOBODY,       /* the eater alone */
  BENCH_STORM_OURS,
  BENCH_STORM_PEER,
} BenchStormKind;

/* @config: its folder is for this run. NULL only where groups can't be made, or the server does
 * not start at all. */
BenchStormResult *bench_storm_run         (BenchStormKind                kind,
                                           const BenchStormServerConfig *config,
                                           const BenchStormPlan         *plan,
                                           GError                      **error);
/* The same turns with no limit and no storm, compared with the answers in @result. */
gboolean          bench_storm_compare     (BenchStormResult             *result,
                                           const BenchStormServerConfig *config,
                                           const BenchStormPlan         *plan,
                                           GError                      **error);
/* From a signal handler: what runs ends soon, in order, and nothing else begins. */
void              bench_storm_interrupt   (void);
gboolean          bench_storm_is_interrupted (void);
void              bench_storm_result_free (BenchStormResult             *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (BenchStormResult, bench_storm_result_free)

G_END_DECLS
