/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A trace of pressure, recorded or made up, played through the policy beside a model of what the
 * service holds. One thread.
 *
 * The file is text; "#" begins a comment. Lines "NAME NUMBER" describe machine and service:
 * machine-mib, group-mib (0: none), budget-mib (0: three quarters), model-mib, contexts-mib (what
 * it would hold), overhead-mib, growth-mib (a second), busy (0 or 1). In a made-up trace lines
 * "SECONDS MIB" follow, what others hold at that time and, in between, on the way to the next. In a
 * recorded one, which says so by "recorded 1", each line is a reading: time in ms, stalls of all
 * tasks (some, full) and of the own group (some, full) in µs since the start, then bytes:
 * available, total, the group's limit, usage, cache.
 */

#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

/* One moment. */
typedef struct
{
  double seconds;
  double others;        /* GiB, each */
  double budget;
  double contexts;
  double weights;
  guint level;          /* LlmPressure */
} BenchMoment;

typedef struct
{
  char *name;
  double bound;         /* GiB: of the group, or the machine */
  GArray *moments;      /* (element-type BenchMoment) */
  guint64 n_cuts;
  guint64 n_relapses;
  guint64 n_killed;     /* steps in which somebody asked for what nobody had */
  double given;         /* GiB */
  double stalled;       /* seconds that others waited */
  double least;         /* GiB: of the budget */
  double calm_period;   /* seconds, in the end */
} BenchPressure;

/* @is_deaf: plays it beside a service that gives nothing. The error names file and line. */
BenchPressure *bench_pressure_play (const char    *path,
                                    gboolean       is_deaf,
                                    GError       **error);
void           bench_pressure_free (BenchPressure *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (BenchPressure, bench_pressure_free)

/* bench-pressure-trim.c: what Trim("critical") takes and gives, of the real service. */
typedef struct
{
  const char *daemon;
  const char *model;
  guint n_contexts;
  guint n_words;        /* of the long prompt */
  guint n_runs;
  gboolean as_json;
} BenchTrimPlan;

int            bench_pressure_trim (const BenchTrimPlan *plan);

G_END_DECLS
