/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Traces of calls in several contexts (L12; equation 5 and table 3 of LLMS): who is called
 * when, and by how many tokens the context grows. The same configuration gives the same
 * trace on every machine. Plain data, any thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Who is called next. */
typedef enum
{
  BENCH_RANDOM,     /* all alike */
  BENCH_MARKOV,     /* those called lately rather than others */
  BENCH_GAUSSIAN,   /* those with moderate work rather than others */
  BENCH_N_PATTERNS,
} BenchPattern;

extern const char *const bench_pattern_names[BENCH_N_PATTERNS];

typedef struct
{
  BenchPattern pattern;
  guint n_contexts;
  guint max_slots;      /* tokens of a context at most */
  double hours;         /* of virtual time */
  double interval_s;    /* between two calls, on average */
  guint64 seed;
} BenchTraceConfig;

typedef struct
{
  double at_s;          /* since the trace began */
  guint context;
  guint n_before;       /* tokens that the context has; 0: it starts anew */
  guint n_prompt;       /* tokens that come in */
  guint n_answer;       /* tokens that are generated */
  gboolean is_counted;  /* a switch to a context that had been there, after the warm-up */
} BenchCall;

typedef struct
{
  BenchTraceConfig config;
  guint *first_slots;   /* of each context, before the first call */
  GArray *calls;        /* (element-type BenchCall) */
  double mean_slots;    /* of all contexts together, on average over the calls */
} BenchTrace;

BenchTrace *bench_trace_new  (const BenchTraceConfig *config);
void        bench_trace_free (BenchTrace             *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (BenchTrace, bench_trace_free)

G_END_DECLS
