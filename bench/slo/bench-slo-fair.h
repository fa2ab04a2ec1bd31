/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What users keep beside one who floods the service, llmsvc-bench slo --fair: each of them
 * calls for a short answer, and for the next as soon as that has ended. The last one does the same,
 * or has 16 calls with long prompts under way all the time. Both are played in turns, in an engine
 * of this process whose callers are users that are made up: what is measured is who gets the model,
 * not the bus. Main thread, in the default main context.
 */

#pragma once

#include "sched/llm-slo.h"

G_BEGIN_DECLS

#define BENCH_FAIR_MAX_USERS 16
#define BENCH_FAIR_MAX_CASES 4
/* Of time to the first token and of tokens a second, each user's. */
#define BENCH_FAIR_GOAL 0.8

typedef struct
{
  const char *model;
  const char *cache;      /* folder */
  LlmSloClass slo_class;  /* of all calls */
  guint n_users[BENCH_FAIR_MAX_CASES];
  guint n_cases;
  double seconds;         /* of one run that count */
  guint n_rounds;
  guint n_threads;
  guint64 seed;
  guint divisor;          /* of words and tokens */
  gboolean is_silent;     /* no table */
} BenchFair;

/* What all calls of one user came to, in all rounds. */
typedef struct
{
  GArray *ttft_ms;        /* (element-type double) */
  GArray *rate;           /* (element-type double): tokens a second behind the first */
  GArray *n_prompt;       /* (element-type double): tokens */
} BenchFairUser;

/* One side of a case: all ordinary, or one that floods. */
typedef struct
{
  BenchFairUser users[BENCH_FAIR_MAX_USERS];
  double seconds;
  double n_rows;          /* tokens that the model read and wrote meanwhile */
  double n_read;          /* of these, of prompts */
} BenchFairSide;

typedef struct
{
  guint n_users;
  BenchFairSide sides[2]; /* ordinary, flooded */
} BenchFairCase;

/* Plays and prints; @json_file (nullable) gets the figures, and so does the standard output with
 * is_silent. */
gboolean       bench_fair_run         (const BenchFair *self,
                                       const char      *json_file,
                                       GError         **error) G_GNUC_WARN_UNUSED_RESULT;

/* --- bench-slo-fair-report.c --- */

void           bench_fair_print_head  (void);
void           bench_fair_print_case  (const BenchFairCase *result);
/* @results: (element-type BenchFairCase). */
gboolean       bench_fair_report      (const BenchFair *self,
                                       GPtrArray       *results,
                                       const char      *json_file,
                                       GError         **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
