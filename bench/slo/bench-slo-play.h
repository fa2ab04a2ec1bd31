/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Plays the same calls against several policies, at rising loads, in turns: what of llmsvc-bench
 * slo takes time. Each run has a server that was just started. One thread, which waits.
 */

#pragma once

#include "slo/bench-slo-result.h"

G_BEGIN_DECLS

#define BENCH_SLO_MAX_LOADS 16

typedef struct
{
  const char *title;
  const char *name;       /* "deadline", "fifo", or the command of a peer */
  gboolean is_peer;
} BenchSloPolicy;

typedef struct
{
  /* what is asked for */
  const char *daemon;
  const char *model;
  const char *cache;      /* folder */
  GArray *policies;       /* (element-type BenchSloPolicy) */
  double loads[BENCH_SLO_MAX_LOADS];
  guint n_loads;
  double seconds;         /* of calls in one run */
  guint n_calls;          /* at once, to measure the capacity */
  guint n_rounds;
  guint n_slots;          /* of peers, and their threads */
  guint n_threads;
  guint64 seed;
  guint divisor;          /* of the words of prompts */
  gboolean is_silent;     /* no table */

  /* what came of it */
  guint extra_tokens;     /* of a prompt, beside what CountTokens says */
  double capacity;        /* calls a second */
  GPtrArray *saturated;   /* (element-type BenchSloResult) (owned by the caller) */
  GPtrArray *results;     /* likewise: by load, then policy */
} BenchSlo;

/* Prints the table as it comes, unless that is not wanted. */
gboolean bench_slo_play (BenchSlo  *self,
                         GError   **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
