/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What replays are made of: traces of calls in several contexts (L12; equation 5 and table 3 of
 * LLMS), storage in virtual time, and sums of many latencies. The same configuration gives the
 * same trace on every machine. Plain data, any thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* --- traces --- */

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
/* Sets @chances[i] to the probability that the call @index is of context i, for who knows the
 * pattern and all calls before it. */
void        bench_trace_get_chances (const BenchTrace *self,
                                     guint             index,
                                     double           *chances);
/* The next call of a context, from @index on; calls->len when there is none. */
guint       bench_trace_find_call (const BenchTrace *self,
                                   guint             index,
                                   guint             context);

/* --- devices --- */

/* Storage with a latency, a bandwidth and so many requests at once. */
typedef struct
{
  const char *name;
  const char *what;          /* which, and where its figures come from */
  double latency_us;         /* from asking to having, of a request alone */
  double read_bytes_per_us;
  double write_bytes_per_us;
  guint depth;               /* requests that it works on at once */
} BenchDevice;

/* Of the real disk, as the reader asks. */
#define BENCH_DISK_DEPTH 8

/* Of fixed figures, NULL where there is none. The real disk is not among them: it is measured. */
const BenchDevice *bench_device_find         (const char        *name);
/* Of @n_requests for @bytes together, asked for at once. */
double             bench_device_get_read_us  (const BenchDevice *self,
                                              double             bytes,
                                              double             n_requests);
double             bench_device_get_write_us (const BenchDevice *self,
                                              double             bytes);

/* What a call reads and computes. Groups of layers of equal size are read one after the other; all
 * is asked for when the call begins. */
typedef struct
{
  double bytes;
  double n_requests;
  guint n_groups;
  guint n_layers;
  double first_us;           /* of the first step: all layers */
  double rest_us;            /* of the steps after it */
  double take_us;            /* the service's own work on what arrives */
  double stall_us;           /* by which it arrives later than the device's figures say */
} BenchRestore;

/* From the begin of the call to the end of its last step. With @overlaps a layer is computed as
 * soon as it has arrived and the one before it is done; else all is read first. */
double             bench_restore_get_us      (const BenchRestore *self,
                                              const BenchDevice  *device,
                                              gboolean            overlaps);

/* --- rates --- */

/* Of @n steps with ever more rows, @us each: the first one that no undisturbed machine shows, as it
 * costs less than one of fewer rows, or far more a row, besides what attention to the rows before it
 * takes (@depth_us for a row and 1000 of them). G_MAXUINT when all are in line. */
guint              bench_steps_find_outlier  (const guint       *rows,
                                              const double      *us,
                                              guint              n,
                                              double             depth_us);

/* --- latencies --- */

typedef struct
{
  guint n;
  double mean;
  double p50;
  double p95;
  double p99;
  double most;
} BenchLatency;

/* Sorts @samples. All is 0 when there are none. */
BenchLatency       bench_latency_new         (double            *samples,
                                              guint              n);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (BenchTrace, bench_trace_free)

G_END_DECLS
