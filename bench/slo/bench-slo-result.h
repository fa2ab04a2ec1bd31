/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What became of the calls of a run, by class: how many met their targets, and what they
 * waited. As tables, JSON and a plot. One thread.
 */

#pragma once

#include "bench-latency.h"
#include "slo/bench-slo-run.h"
#include "bench.h"

G_BEGIN_DECLS

/* Calls of one class. A call that was refused, failed or did not end has missed. */
typedef struct
{
  guint n_calls;
  guint n_met;
  guint n_missed;
  guint n_refused;     /* of those that missed */
  guint n_failed;      /* likewise, with those that did not end */
  BenchLatency ttft;   /* ms, of calls that were answered */
  BenchLatency tpot;
  double kept;         /* percent of prompt and answer that the model saw, least of all calls */
  double sub_model;    /* percent, likewise */
} BenchSloClassResult;

typedef struct
{
  char *policy;
  double load;         /* of the capacity; 0 for all calls at once */
  double seconds;
  double cpu_share;    /* of a processor, for calling: percent */
  guint64 n_tokens;    /* read and written, of calls that were answered */
  guint64 n_output;    /* of these, written */
  guint n_short;       /* answers that were not as long as asked for */
  BenchSloClassResult classes[LLM_N_SLO_CLASSES];
  char *message;       /* (nullable): of the first call that failed */
} BenchSloResult;

/* @records: (element-type BenchSloRecord): all runs of @policy at this load. */
BenchSloResult *bench_slo_result_new     (const char           *policy,
                                          double                load,
                                          GPtrArray            *records);
void            bench_slo_result_free    (BenchSloResult       *self);
void            bench_slo_result_print_head (void);
void            bench_slo_result_print   (const BenchSloResult *self);
/* Tokens read and written a second. */
double          bench_slo_result_get_speed (const BenchSloResult *self);
/* Percent of the calls of a class that met their targets. */
double          bench_slo_result_get_share (const BenchSloResult *self,
                                          LlmSloClass           slo_class);
/* What else there is to say, behind the table. */
void            bench_slo_result_print_notes (const BenchSloResult *self);
void            bench_slo_result_add_json (const BenchSloResult *self,
                                          JsonBuilder          *builder);
/* (transfer full): an SVG file: the share of calls of a class that met their targets, by load and
 * policy. @results: (element-type BenchSloResult): all policies with the same loads. */
char           *bench_slo_result_plot    (GPtrArray            *results,
                                          LlmSloClass           slo_class);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (BenchSloResult, bench_slo_result_free)

G_END_DECLS
