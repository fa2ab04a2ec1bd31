/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Calls on a machine that is not there: the scheduler decides about them as the executor asks it
 * to, steps take the time that a made-up machine needs, and the clock jumps. Thousands of calls in
 * a second, and the same each time. One thread. */

#pragma once

#include "sched/llm-scheduler.h"

typedef struct
{
  /* given */
  LlmSloClass slo_class;
  guint user;
  guint app;
  gint64 arrival_us;
  guint follows;          /* it comes when the call of this place, from 1, has ended; 0: at
                           * arrival_us */
  guint n_prompt;
  guint n_output;

  /* what came of it */
  gboolean is_refused;
  gint64 first_us;        /* of the first token, 0: none came */
  gint64 last_us;
  gint64 longest_us;      /* between two tokens */
  double forecast_us;     /* of the time to the first token, 0: none was made */
  double cost_us;         /* of steps, by its rows */

  LlmSchedEntry entry;
  guint n_tokens;
} SimCall;

typedef struct
{
  guint share;            /* percent of the calls */
  guint least_prompt, most_prompt;
  guint least_output, most_output;
} SimLaw;

/* Of the classes, as in the benchmark: short chats, longer texts, long ones that wait. */
extern const SimLaw sim_laws[LLM_N_SLO_CLASSES];

typedef struct
{
  LlmSchedulerKind kind;
  double overload_factor; /* 0: none is refused */
  double slowness;        /* of the machine, 1: a billion parameters on two processors */
  double noise;           /* of steps, mean of what they take longer or shorter */
  guint seed;
  gint64 until_us;        /* the run is over then; 0: when all calls have ended */
} SimConfig;

typedef struct
{
  guint n;
  guint met;              /* of all, refused ones too */
  guint refused;
  guint late_tokens;      /* answers whose tokens came too slowly on the mean */
  double ttft_p50_ms;
  double ttft_p95_ms;
} SimClassResult;

typedef struct
{
  SimClassResult classes[LLM_N_SLO_CLASSES];
  double seconds;         /* until the last call had ended */
  double tokens_per_s;    /* read and written */
  double forecast_error_ms; /* mean, of calls that were read */
} SimResult;

/* (element-type SimCall) (transfer full): calls at random moments, @rate a second; all at once with
 * 0. */
GArray *sim_calls_new (guint n, double rate, guint seed);
/* Runs them all, to their ends unless the time is limited. */
void    sim_run       (GArray *calls, const SimConfig *config, SimResult *result);
/* Calls a second that the machine gets through in the order of arrival when all come at once. */
double  sim_capacity  (double slowness);
double  sim_share_met (const SimResult *result, LlmSloClass slo_class);
