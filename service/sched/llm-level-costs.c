/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "sched/llm-level-costs.h"

#include <math.h>

/* Weight of a step when many were seen; the first one counts half, because the guess is a good
 * one. */
#define MIN_GAIN 0.03125
/* For so many steps of smaller levels after one of the whole model, the whole model's cost counts
 * as current. */
#define N_FRESH 24
/* The cost of a level differs from its guess by this factor at most. */
#define MAX_ERROR 2.0
#define MAX_STEPS 1000000
/* A smaller level costs less than a larger one, at least by this factor: measurements are noisy.
 * Only than the whole model, which has no adapter, it may cost more, after so many steps. */
#define SURE 64
#define LESS 0.999
/* Tolerance for numbers that were written and read again. */
#define SAME 1e-6

static const char *const groups[LLM_N_COSTS] = {
  [LLM_COST_PREFILL] = "levels-read",
  [LLM_COST_DECODE] = "levels-write",
};

void
llm_level_costs_init (LlmLevelCosts *self)
{
  *self = (LlmLevelCosts) { .n_levels = 1, .percent = { 100 } };
  for (guint kind = 0; kind < LLM_N_COSTS; kind++)
    {
      self->guesses[kind][0] = self->ratios[kind][0] = 1;
      self->n_since[kind] = N_FRESH;
    }
}

void
llm_level_costs_add (LlmLevelCosts *self,
                     guint8         percent,
                     double         operations,
                     double         bytes)
{
  const double parts[LLM_N_COSTS] = {
    [LLM_COST_PREFILL] = operations,
    [LLM_COST_DECODE] = bytes,
  };
  guint lacking = self->n_levels;

  g_assert (lacking < LLM_LEVEL_COSTS_MAX);
  self->percent[lacking] = percent;
  for (guint kind = 0; kind < LLM_N_COSTS; kind++)
    self->guesses[kind][lacking] = self->ratios[kind][lacking] =
        parts[kind] > 0 && parts[kind] <= 1 ? parts[kind] : 1;
  self->n_levels++;
}

/* The level itself, or the next one to it that was seen; 0: none was. */
static guint
find_seen (const LlmLevelCosts *self,
           LlmCostKind          kind,
           guint                lacking)
{
  const int *n_seen = self->n_seen[kind];

  for (guint by = 0; by < self->n_levels; by++)
    if (lacking + by < self->n_levels && n_seen[lacking + by] > 0)
      return lacking + by;
    else if (lacking > by && n_seen[lacking - by] > 0)
      return lacking - by;
  return 0;
}

/* A level that was never seen costs as much more than its guess as one that was: what adapters cost
 * hardly depends on the level. */
static double
get_known (const LlmLevelCosts *self,
           LlmCostKind          kind,
           guint                lacking)
{
  guint seen = find_seen (self, kind, lacking);
  double more = seen != lacking ? self->ratios[kind][seen] - self->guesses[kind][seen] : 0;
  double known = self->ratios[kind][lacking] + more;

  return self->n_seen[kind][seen] < SURE ? MIN (known, LESS) : known;
}

double
llm_level_costs_get_ratio (const LlmLevelCosts *self,
                           LlmCostKind          kind,
                           guint                lacking)
{
  double ratio = 1;

  g_assert (lacking < self->n_levels);
  for (guint i = 1; i <= lacking; i++)
    ratio = MIN (get_known (self, kind, i), i > 1 ? ratio * LESS : G_MAXDOUBLE);
  return ratio;
}

static void
learn (LlmLevelCosts *self,
       LlmCostKind    kind,
       guint          lacking,
       double         ratio)
{
  double *known = &self->ratios[kind][lacking];
  int *n_seen = &self->n_seen[kind][lacking];
  double guess = self->guesses[kind][lacking];

  ratio = CLAMP (ratio, guess / MAX_ERROR, guess * MAX_ERROR);
  *known += MAX (MIN_GAIN, 1.0 / (*n_seen + 2)) * (ratio - *known);
  *n_seen = MIN (*n_seen + 1, MAX_STEPS);
}

void
llm_level_costs_observe (LlmLevelCosts *self,
                         LlmCostModel  *costs,
                         LlmCostKind    kind,
                         guint          lacking,
                         guint          n_rows,
                         double         depth,
                         double         us)
{
  g_assert (lacking < self->n_levels);
  if (n_rows == 0 || !(us > 0) || !isfinite (us))
    return;
  if (lacking == 0)
    {
      llm_cost_model_observe (costs, kind, n_rows, depth, us);
      self->n_since[kind] = 0;
      return;
    }
  if (self->n_since[kind] < N_FRESH && llm_cost_model_has_seen (costs, kind, n_rows))
    learn (self, kind, lacking, us / llm_cost_model_predict (costs, kind, n_rows, depth));
  else
    llm_cost_model_observe (costs, kind, n_rows, depth, us / self->ratios[kind][lacking]);
  self->n_since[kind] = MIN (self->n_since[kind] + 1, N_FRESH);
}

/* --- as text --- */

void
llm_level_costs_store (const LlmLevelCosts *self,
                       GKeyFile            *file)
{
  for (guint kind = 0; kind < LLM_N_COSTS && self->n_levels > 1; kind++)
    {
      LlmLevelCosts copy = *self;
      int percent[LLM_LEVEL_COSTS_MAX];

      for (guint i = 0; i < self->n_levels; i++)
        percent[i] = self->percent[i];
      g_key_file_set_integer_list (file, groups[kind], "percent", percent, self->n_levels);
      g_key_file_set_double_list (file, groups[kind], "parts", copy.guesses[kind], self->n_levels);
      g_key_file_set_double_list (file, groups[kind], "ratios", copy.ratios[kind], self->n_levels);
      g_key_file_set_integer_list (file, groups[kind], "seen", copy.n_seen[kind], self->n_levels);
    }
}

static gboolean
read_kind (LlmLevelCosts *self,
           LlmCostKind    kind,
           GKeyFile      *file)
{
  const char *group = groups[kind];
  gsize n[4] = { 0 };
  g_autofree int *percent = g_key_file_get_integer_list (file, group, "percent", &n[0], NULL);
  g_autofree double *parts = g_key_file_get_double_list (file, group, "parts", &n[1], NULL);
  g_autofree double *ratios = g_key_file_get_double_list (file, group, "ratios", &n[2], NULL);
  g_autofree int *n_seen = g_key_file_get_integer_list (file, group, "seen", &n[3], NULL);

  for (guint i = 0; i < G_N_ELEMENTS (n); i++)
    if (n[i] != self->n_levels)
      return FALSE;
  for (guint i = 1; i < self->n_levels; i++)
    {
      double guess = self->guesses[kind][i];

      if (percent[i] != self->percent[i] || !(fabs (parts[i] - guess) < SAME)
          || !(ratios[i] >= guess / MAX_ERROR && ratios[i] <= guess * MAX_ERROR)
          || n_seen[i] < 0 || n_seen[i] > MAX_STEPS)
        return FALSE;
      self->ratios[kind][i] = ratios[i];
      self->n_seen[kind][i] = n_seen[i];
    }
  return TRUE;
}

gboolean
llm_level_costs_load (LlmLevelCosts *self,
                      GKeyFile      *file)
{
  LlmLevelCosts found = *self;

  for (guint kind = 0; kind < LLM_N_COSTS; kind++)
    if (!read_kind (&found, kind, file))
      return FALSE;
  *self = found;
  return TRUE;
}
