/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "sched-sim.h"

#include <math.h>

#define MAX_ROWS 512
#define APPS_OF_CLASS 2
#define TURN_US 2000
#define N_STAGES 150
#define CAPACITY_CALLS 40

const SimLaw sim_laws[LLM_N_SLO_CLASSES] = {
  [LLM_SLO_INTERACTIVE] = { 30, 26, 80, 8, 24 },
  [LLM_SLO_RESPONSIVE] = { 30, 74, 270, 16, 48 },
  [LLM_SLO_BACKGROUND] = { 40, 270, 1000, 16, 64 },
};

typedef struct
{
  gboolean is_active;
  LlmRowBudget budgets[MAX_ROWS];
  guint n_budgets;
  guint n_rows;
  gint64 left_us;
  gint64 stage_us;
} SimStep;

typedef struct
{
  const SimConfig *config;
  GArray *calls;
  LlmScheduler *scheduler;
  GRand *random;
  SimStep steps[LLM_N_QUEUES];
  gint64 now_us;
  guint next;             /* call that comes next */
  guint n_left;
} Sim;

/* --- the machine --- */

typedef struct
{
  guint rows;
  double us;
} Point;

static const Point reading[] = {
  { 1, 24e3 }, { 16, 44e3 }, { 32, 60e3 }, { 64, 86e3 }, { 128, 140e3 }, { 512, 465e3 },
};
static const Point writing[] = {
  { 1, 22e3 }, { 2, 24e3 }, { 4, 31e3 }, { 8, 43e3 }, { 16, 68e3 }, { 64, 215e3 },
};

static double
interpolate (const Point *points,
             guint        n_points,
             guint        rows)
{
  guint i = 0;

  while (i + 2 < n_points && points[i + 1].rows <= rows)
    i++;
  return points[i].us + (points[i + 1].us - points[i].us) * ((double) rows - points[i].rows)
                          / (points[i + 1].rows - points[i].rows);
}

static gint64
find_cost (Sim        *self,
           LlmQueueKind step,
           guint       n_rows)
{
  double us = step == LLM_QUEUE_DECODE
                ? interpolate (writing, G_N_ELEMENTS (writing), n_rows)
                : interpolate (reading, G_N_ELEMENTS (reading), n_rows);
  double noise = 0;

  for (guint i = 0; i < 4; i++)
    noise += g_rand_double_range (self->random, -1, 1) * self->config->noise;
  if (g_rand_int_range (self->random, 0, 100) == 0)
    noise += 10 * self->config->noise;
  return (gint64) (us * self->config->slowness * MAX (1 + noise, 0.5));
}

/* --- a run --- */

static SimCall *
get_call (LlmSchedEntry *entry)
{
  return (SimCall *) ((char *) entry - G_STRUCT_OFFSET (SimCall, entry));
}

static void
admit (Sim     *self,
       SimCall *call)
{
  g_autofree char *id = g_strdup_printf ("app-%u", call->app);

  call->entry = (LlmSchedEntry) {
    .app = llm_app_intern (call->user, id),
    .slo = llm_slo_for_class (call->slo_class),
    .arrived_us = call->arrival_us,
    .n_prompt = call->n_prompt,
  };

  if (llm_cost_model_is_known (&self->scheduler->costs))
    {
      double factor = self->config->overload_factor;
      LlmForecast forecast;

      llm_scheduler_forecast (self->scheduler, &call->entry, self->now_us, &forecast);
      call->forecast_us = forecast.first_us;
      call->is_refused = factor > 0 && call->entry.slo.ttft_ms > 0
                         && forecast.latest_us
                            > factor * MAX (call->entry.slo.ttft_ms * 1000, forecast.alone_us);
      call->forecast_us += (double) (self->now_us - call->arrival_us);
    }
  if (call->is_refused)
    self->n_left--;
  else
    llm_scheduler_add (self->scheduler, &call->entry);
}

static void
finish_call (Sim     *self,
             SimCall *call)
{
  guint place = (guint) (call - (SimCall *) self->calls->data) + 1;

  llm_scheduler_remove (self->scheduler, &call->entry);
  self->n_left--;
  for (guint i = place; i < self->calls->len; i++)
    {
      SimCall *next = &g_array_index (self->calls, SimCall, i);

      if (next->follows != place)
        continue;
      next->arrival_us = self->now_us;
      admit (self, next);
    }
}

static void
take_token (Sim     *self,
            SimCall *call)
{
  llm_sched_entry_note_token (&call->entry, self->now_us);
  if (call->n_tokens++ == 0)
    call->first_us = self->now_us;
  else
    call->longest_us = MAX (call->longest_us, self->now_us - call->last_us);
  call->last_us = self->now_us;
  if (call->n_tokens == call->n_output)
    finish_call (self, call);
}

static void
begin_step (Sim        *self,
            LlmQueueKind kind)
{
  SimStep *step = &self->steps[kind];
  guint n_rows = 0;

  step->n_budgets = llm_scheduler_plan (self->scheduler, kind, self->now_us, step->budgets, MAX_ROWS);
  g_assert_cmpuint (step->n_budgets, >, 0);
  for (guint i = 0; i < step->n_budgets; i++)
    n_rows += step->budgets[i].n_rows;
  g_assert_cmpuint (n_rows, <=, MAX_ROWS);
  llm_scheduler_begin_step (self->scheduler, kind, step->budgets, step->n_budgets);
  step->n_rows = n_rows;
  step->is_active = TRUE;
  step->left_us = find_cost (self, kind, n_rows);
  step->stage_us = step->left_us / N_STAGES + 1;
}

static void
end_step (Sim        *self,
          LlmQueueKind kind)
{
  SimStep *step = &self->steps[kind];

  step->is_active = FALSE;
  llm_scheduler_end_step (self->scheduler, kind, step->budgets, step->n_budgets, TRUE);
  for (guint i = 0; i < step->n_budgets; i++)
    if (step->budgets[i].entry->n_prompt == 0)
      take_token (self, get_call (step->budgets[i].entry));
}

static void
run_turn (Sim        *self,
          LlmQueueKind kind)
{
  SimStep *step = &self->steps[kind];
  gint64 spent_us = 0;

  if (!step->is_active)
    begin_step (self, kind);
  while (spent_us < TURN_US && spent_us < step->left_us)
    spent_us += step->stage_us;
  spent_us = MIN (spent_us, step->left_us);
  step->left_us -= spent_us;
  for (guint i = 0; i < step->n_budgets; i++)
    get_call (step->budgets[i].entry)->cost_us +=
        (double) spent_us * step->budgets[i].n_rows / step->n_rows;
  self->now_us += spent_us;
  llm_scheduler_note_turn (self->scheduler, kind, self->now_us, spent_us);
  if (step->left_us == 0)
    end_step (self, kind);
}

/* Of those that come at their time: the next, past those that follow others. */
static SimCall *
get_next (Sim *self)
{
  while (self->next < self->calls->len
         && g_array_index (self->calls, SimCall, self->next).follows > 0)
    self->next++;
  return self->next < self->calls->len ? &g_array_index (self->calls, SimCall, self->next) : NULL;
}

static void
run_all (Sim *self)
{
  gint64 until_us = self->config->until_us > 0 ? self->config->until_us : G_MAXINT64;

  while (self->n_left > 0 && self->now_us < until_us)
    {
      LlmQueueKind kind;
      SimCall *next;

      while ((next = get_next (self)) != NULL && next->arrival_us <= self->now_us)
        {
          self->next++;
          admit (self, next);
        }
      kind = llm_scheduler_choose (self->scheduler, self->now_us, 0);
      if (kind != LLM_QUEUE_NONE)
        run_turn (self, kind);
      else if (next != NULL)
        self->now_us = next->arrival_us;
    }
}

/* The machine is known: what it costs was learned in an earlier run. */
static void
teach (Sim *self)
{
  static const guint rows[] = { 1, 2, 4, 8, 16, 32, 64, 128, 256, 512 };
  LlmCostModel *costs = &self->scheduler->costs;

  for (guint round = 0; round < 5; round++)
    for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
      {
        llm_cost_model_observe (costs, LLM_COST_PREFILL, rows[i], 0,
                                (double) find_cost (self, LLM_QUEUE_PREFILL, rows[i]));
        if (rows[i] <= 64)
          llm_cost_model_observe (costs, LLM_COST_DECODE, rows[i], 0,
                                  (double) find_cost (self, LLM_QUEUE_DECODE, rows[i]));
      }
}

/* --- results --- */

static int
compare_doubles (gconstpointer a,
                 gconstpointer b)
{
  double left = *(const double *) a, right = *(const double *) b;

  return left < right ? -1 : left > right;
}

static void
sum_class (GArray         *calls,
           LlmSloClass     slo_class,
           SimClassResult *result)
{
  g_autoptr(GArray) ttfts = g_array_new (FALSE, FALSE, sizeof (double));
  LlmSlo slo = llm_slo_for_class (slo_class);

  *result = (SimClassResult) { 0 };
  for (guint i = 0; i < calls->len; i++)
    {
      const SimCall *call = &g_array_index (calls, SimCall, i);
      double ttft_ms = (double) (call->first_us - call->arrival_us) / 1000;
      double tpot_ms = call->n_tokens > 1
                         ? (double) (call->last_us - call->first_us) / 1000 / (call->n_tokens - 1)
                         : 0;

      if (call->slo_class != slo_class)
        continue;
      result->n++;
      result->refused += call->is_refused;
      if (call->is_refused)
        continue;
      g_array_append_val (ttfts, ttft_ms);
      result->met += llm_slo_is_met (&slo, ttft_ms, tpot_ms);
      result->late_tokens += slo.tpot_ms > 0 && tpot_ms > slo.tpot_ms;
    }
  if (ttfts->len == 0)
    return;
  g_array_sort (ttfts, compare_doubles);
  result->ttft_p50_ms = g_array_index (ttfts, double, ttfts->len / 2);
  result->ttft_p95_ms = g_array_index (ttfts, double, ttfts->len * 95 / 100);
}

static void
sum_up (Sim       *self,
        SimResult *result)
{
  guint64 n_tokens = 0;
  guint n_forecasts = 0;

  *result = (SimResult) { .seconds = (double) self->now_us / 1e6 };
  for (guint i = 0; i < LLM_N_SLO_CLASSES; i++)
    sum_class (self->calls, i, &result->classes[i]);
  for (guint i = 0; i < self->calls->len; i++)
    {
      const SimCall *call = &g_array_index (self->calls, SimCall, i);

      if (call->is_refused)
        continue;
      g_assert_true (call->n_tokens == call->n_output || self->config->until_us > 0);
      if (call->n_tokens < call->n_output)
        continue;
      n_tokens += call->n_prompt + call->n_output;
      if (call->forecast_us > 0 && call->slo_class < LLM_SLO_BACKGROUND)
        {
          result->forecast_error_ms +=
              fabs ((double) (call->first_us - call->arrival_us) - call->forecast_us) / 1000;
          n_forecasts++;
        }
    }
  result->forecast_error_ms /= MAX (n_forecasts, 1);
  result->tokens_per_s = (double) n_tokens / result->seconds;
}

void
sim_run (GArray          *calls,
         const SimConfig *config,
         SimResult       *result)
{
  g_autoptr(LlmAccount) accounts = llm_account_new ();
  Sim *self = g_new0 (Sim, 1);

  self->config = config;
  self->calls = calls;
  self->scheduler = llm_scheduler_new (config->kind, MAX_ROWS, accounts);
  self->random = g_rand_new_with_seed (config->seed);
  self->n_left = calls->len;
  teach (self);
  run_all (self);
  sum_up (self, result);
  g_rand_free (self->random);
  llm_scheduler_free (self->scheduler);
  for (guint i = 0; i < calls->len; i++)
    g_clear_pointer (&g_array_index (calls, SimCall, i).entry.app, llm_app_unref);
  g_free (self);
}

/* --- calls --- */

static guint
draw (GRand *random,
      guint  least,
      guint  most)
{
  return (guint) g_rand_int_range (random, (gint32) least, (gint32) most + 1);
}

GArray *
sim_calls_new (guint  n,
               double rate,
               guint  seed)
{
  GArray *calls = g_array_new (FALSE, TRUE, sizeof (SimCall));
  GRand *random = g_rand_new_with_seed (seed);
  double now_us = 0;

  for (guint i = 0; i < n; i++)
    {
      guint percent = draw (random, 0, 99);
      SimCall call = { 0 };
      const SimLaw *law;

      while (percent >= sim_laws[call.slo_class].share)
        percent -= sim_laws[call.slo_class++].share;
      law = &sim_laws[call.slo_class];
      if (rate > 0)
        now_us += -log (1 - g_rand_double (random)) / rate * 1e6;
      call.app = call.slo_class * APPS_OF_CLASS + draw (random, 0, APPS_OF_CLASS - 1);
      call.arrival_us = (gint64) now_us;
      call.n_prompt = draw (random, law->least_prompt, law->most_prompt);
      call.n_output = draw (random, law->least_output, law->most_output);
      g_array_append_val (calls, call);
    }
  g_rand_free (random);
  return calls;
}

double
sim_capacity (double slowness)
{
  const SimConfig config = { LLM_SCHEDULER_FIFO, 0, slowness, 0, 1 };
  g_autoptr(GArray) calls = sim_calls_new (CAPACITY_CALLS, 0, 1);
  SimResult result;

  sim_run (calls, &config, &result);
  return calls->len / result.seconds;
}

double
sim_share_met (const SimResult *result,
               LlmSloClass      slo_class)
{
  const SimClassResult *of_class = &result->classes[slo_class];

  return of_class->n > 0 ? (double) of_class->met / of_class->n : 1;
}
