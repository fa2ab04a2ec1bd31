/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Who calls when, for how much: calls of six applications, 30 % interactive, 30 %
 * responsive, 40 % background, with prompts and answers drawn from one law per class.
 * The call of one number is the same for one seed whatever the load: a higher load
 * only brings it sooner. Plain data and pure functions.
 */

#pragma once

#include <glib.h>

#include "sched/llm-slo.h"

G_BEGIN_DECLS

#define BENCH_SLO_N_APPS 6

typedef struct
{
  guint number;          /* from 0: what else is asked for follows from it and the seed */
  LlmSloClass slo_class;
  guint app;             /* below BENCH_SLO_N_APPS */
  double at_s;           /* from the beginning */
  guint n_words;         /* of the prompt, two letters each */
  guint n_output;        /* tokens of the answer */
} BenchSloArrival;

/* The number of words and of tokens of a class's calls lie evenly between these. */
typedef struct
{
  guint share;           /* of all calls, in percent */
  guint least_words;
  guint most_words;
  guint least_output;
  guint most_output;
} BenchSloLaw;

const BenchSloLaw *bench_slo_law_get         (LlmSloClass slo_class);
const char        *bench_slo_class_get_name  (LlmSloClass slo_class);
const char        *bench_slo_app_get_id      (guint       app);

/* (element-type BenchSloArrival) (transfer full): calls at random moments (Poisson), @rate a
 * second on average, until @seconds have passed. Prompts are shorter than the law by @divisor. */
GArray            *bench_slo_trace_new       (guint64     seed,
                                              double      rate,
                                              double      seconds,
                                              guint       divisor);
/* The first @n calls, all at once. */
GArray            *bench_slo_trace_new_batch (guint64     seed,
                                              guint       n,
                                              guint       divisor);
/* (transfer full): what the prompt of a call says. */
char              *bench_slo_trace_make_text (guint64     seed,
                                              const BenchSloArrival *arrival);

G_END_DECLS
