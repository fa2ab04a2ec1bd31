/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "sched/llm-cost-model.h"

#include <math.h>

/* Weight of a step when many were seen, and the largest deviation that counts: with these, one step
 * that was disturbed, for however long, changes an estimate by an eighth. */
#define MIN_GAIN  0.125
#define MAX_RATIO 2.0
/* The first steps of all count in full, whatever they took: the guess may be far off. */
#define FIRST_RATIO 1000.0
#define N_FIRST 2
/* Steps of each kind before forecasts are made. */
#define N_KNOWN 3
#define MAX_STEPS 1000000
/* Eleven days: no step takes longer. NaN is not below it either. */
#define MAX_US 1e12

const guint llm_cost_rows[LLM_N_COSTS][LLM_COST_POINTS] = {
  [LLM_COST_PREFILL] = { 1, 8, 16, 32, 64, 128, 256, 512 },
  [LLM_COST_DECODE] = { 1, 2, 4, 8, 16, 32, 64, 128 },
};

static const char *const groups[LLM_N_COSTS] = {
  [LLM_COST_PREFILL] = "read",
  [LLM_COST_DECODE] = "write",
};
#define GROUP_RESTORE "restore"

/* A billion parameters on two current processors. */
static const LlmCostModel guess = {
  .curves = {
    [LLM_COST_PREFILL] = {
      .us = { 24e3, 32e3, 44e3, 60e3, 86e3, 142e3, 250e3, 470e3 },
      .depth_us = 100,
      .spread = 0.2,
    },
    [LLM_COST_DECODE] = {
      .us = { 22e3, 25e3, 31e3, 43e3, 66e3, 110e3, 200e3, 380e3 },
      .depth_us = 400,
      .spread = 0.2,
    },
  },
  .restore_latency_us = 200,
  .restore_bytes_per_us = 500,
};

void
llm_cost_model_init (LlmCostModel *self)
{
  *self = guess;
}

gboolean
llm_cost_model_is_known (const LlmCostModel *self)
{
  for (guint i = 0; i < LLM_N_COSTS; i++)
    if (self->curves[i].n_steps < N_KNOWN)
      return FALSE;
  return TRUE;
}

/* The points on both sides of @n_rows, and the weight of the second. */
static guint
find_points (LlmCostKind kind,
             guint       n_rows,
             double     *weight)
{
  const guint *rows = llm_cost_rows[kind];
  guint i = 0;

  while (i + 2 < LLM_COST_POINTS && rows[i + 1] <= n_rows)
    i++;
  *weight = ((double) MAX (n_rows, 1) - rows[i]) / (rows[i + 1] - rows[i]);
  return i;
}

gboolean
llm_cost_model_has_seen (const LlmCostModel *self,
                         LlmCostKind         kind,
                         guint               n_rows)
{
  double weight;
  guint i = find_points (kind, n_rows, &weight);
  const int *n_seen = &self->curves[kind].n_seen[i];

  return (weight >= 1 || n_seen[0] >= N_FIRST) && (weight <= 0 || n_seen[1] >= N_FIRST);
}

static double
predict_base (const LlmCostModel *self,
              LlmCostKind         kind,
              guint               n_rows)
{
  const LlmCostCurve *curve = &self->curves[kind];
  double weight;
  guint i = find_points (kind, n_rows, &weight);

  return curve->us[i] + weight * (curve->us[i + 1] - curve->us[i]);
}

double
llm_cost_model_predict (const LlmCostModel *self,
                        LlmCostKind         kind,
                        guint               n_rows,
                        double              depth)
{
  if (n_rows == 0)
    return 0;
  return predict_base (self, kind, n_rows) + self->curves[kind].depth_us * depth / 1000;
}

guint
llm_cost_model_find_rows (const LlmCostModel *self,
                          LlmCostKind         kind,
                          double              us,
                          double              mean_depth)
{
  guint least = 1;
  guint most = llm_cost_rows[kind][LLM_COST_POINTS - 1] * 2;

  while (least < most)
    {
      guint middle = (least + most + 1) / 2;

      if (llm_cost_model_predict (self, kind, middle, middle * mean_depth) <= us)
        least = middle;
      else
        most = middle - 1;
    }
  return least;
}

double
llm_cost_model_predict_prompt (const LlmCostModel *self,
                               guint               n_rows,
                               guint               first,
                               guint               max_rows)
{
  guint n_whole = n_rows / max_rows;
  guint n_rest = n_rows % max_rows;
  double depth = n_rows * (first + n_rows / 2.0);

  return n_whole * predict_base (self, LLM_COST_PREFILL, max_rows)
         + (n_rest > 0 ? predict_base (self, LLM_COST_PREFILL, n_rest) : 0)
         + self->curves[LLM_COST_PREFILL].depth_us * depth / 1000;
}

double
llm_cost_model_get_row_us (const LlmCostModel *self)
{
  const double *us = self->curves[LLM_COST_PREFILL].us;
  const guint *rows = llm_cost_rows[LLM_COST_PREFILL];
  const guint first = 4, last = 6;

  return MAX (us[last] - us[first], 1) / (rows[last] - rows[first]);
}

double
llm_cost_model_predict_restore (const LlmCostModel *self,
                                guint64             bytes)
{
  return bytes > 0 ? self->restore_latency_us + (double) bytes / self->restore_bytes_per_us : 0;
}

/* --- learning --- */

static double
limit (double us)
{
  return CLAMP (us, 0.01, MAX_US / 2);
}

/* The observed time over the expected one, with @n_seen steps before it. */
static double
get_ratio (double us,
           double expected,
           guint  n_seen)
{
  double bound = n_seen < N_FIRST ? FIRST_RATIO : MAX_RATIO;

  return CLAMP (us / expected, 1 / bound, bound);
}

/* Points without steps follow those with steps. */
static void
scale_guesses (LlmCostCurve *curve,
               double        factor)
{
  for (guint i = 0; i < LLM_COST_POINTS; i++)
    if (curve->n_seen[i] == 0)
      curve->us[i] = limit (curve->us[i] * factor);
}

/* More rows never cost less: corrects the neighbours of @i. */
static void
keep_rising (LlmCostCurve *curve,
             guint         i)
{
  for (guint j = i + 1; j < LLM_COST_POINTS; j++)
    curve->us[j] = MAX (curve->us[j], curve->us[j - 1]);
  for (guint j = i; j > 0; j--)
    curve->us[j - 1] = MIN (curve->us[j - 1], curve->us[j]);
}

/* @part: the part of the error that is put down to this point. */
static void
correct_point (LlmCostCurve *curve,
               guint         i,
               double        ratio,
               double        part)
{
  double gain = MAX (MIN_GAIN, 1.0 / (curve->n_seen[i] + 2));

  if (part <= 0)
    return;
  curve->us[i] = limit (curve->us[i] * (1 + gain * part * (ratio - 1)));
  curve->n_seen[i] = MIN (curve->n_seen[i] + 1, MAX_STEPS);
}

void
llm_cost_model_observe (LlmCostModel *self,
                        LlmCostKind   kind,
                        guint         n_rows,
                        double        depth,
                        double        us)
{
  LlmCostCurve *curve = &self->curves[kind];
  double expected, part, ratio, gain, weight;
  guint i;

  if (n_rows == 0 || !(us > 0 && us < MAX_US) || !(depth >= 0 && depth < MAX_US))
    return;

  expected = llm_cost_model_predict (self, kind, n_rows, depth);
  ratio = get_ratio (us, expected, curve->n_steps);
  if (curve->n_steps >= N_FIRST)
    curve->spread += MIN_GAIN * (MIN (fabs (us / expected - 1), 1) - curve->spread);
  gain = MAX (MIN_GAIN, 1.0 / (curve->n_steps + 1));

  if (curve->n_steps == 0)
    {
      scale_guesses (curve, ratio);
      curve->depth_us = limit (curve->depth_us * ratio);
      if (kind == LLM_COST_PREFILL && self->curves[LLM_COST_DECODE].n_steps == 0)
        {
          scale_guesses (&self->curves[LLM_COST_DECODE], ratio);
          self->curves[LLM_COST_DECODE].depth_us =
              limit (self->curves[LLM_COST_DECODE].depth_us * ratio);
        }
      ratio = 1;
    }

  /* The error is put down to rows and to depth in proportion. */
  part = predict_base (self, kind, n_rows) / llm_cost_model_predict (self, kind, n_rows, depth);
  i = find_points (kind, n_rows, &weight);
  weight = CLAMP (weight, 0, 1);
  scale_guesses (curve, 1 + gain * part * (ratio - 1));
  correct_point (curve, i, ratio, part * (1 - weight));
  correct_point (curve, i + 1, ratio, part * weight);
  curve->depth_us = limit (curve->depth_us * (1 + gain * (1 - part) * (ratio - 1)));
  keep_rising (curve, weight < 0.5 ? i : i + 1);
  curve->n_steps = MIN (curve->n_steps + 1, MAX_STEPS);
}

void
llm_cost_model_observe_restore (LlmCostModel *self,
                                guint64       bytes,
                                double        us)
{
  double expected = llm_cost_model_predict_restore (self, bytes);
  double part, ratio, gain;

  if (bytes == 0 || !(us > 0 && us < MAX_US))
    return;
  ratio = get_ratio (us, expected, self->n_restores);
  gain = MAX (MIN_GAIN, 1.0 / (self->n_restores + 1));
  part = self->restore_latency_us / expected;
  self->restore_latency_us = limit (self->restore_latency_us * (1 + gain * part * (ratio - 1)));
  self->restore_bytes_per_us =
      limit (self->restore_bytes_per_us / (1 + gain * (1 - part) * (ratio - 1)));
  self->n_restores = MIN (self->n_restores + 1, MAX_STEPS);
}

void
llm_cost_model_seed_prompts (LlmCostModel *self,
                             const guint  *rows,
                             const double *us,
                             guint         n,
                             double        depth_us)
{
  LlmCostCurve *curve = &self->curves[LLM_COST_PREFILL];

  if (curve->n_steps > 0)
    return;
  for (guint i = 0; i < n; i++)
    llm_cost_model_observe (self, LLM_COST_PREFILL, rows[i], 0, us[i]);
  for (guint i = 0; i < n; i++)
    for (guint j = 0; j < LLM_COST_POINTS; j++)
      if (llm_cost_rows[LLM_COST_PREFILL][j] == rows[i] && us[i] > 0 && us[i] < MAX_US)
        curve->us[j] = limit (us[i]);
  if (depth_us > 0 && depth_us < MAX_US)
    curve->depth_us = limit (depth_us);
  keep_rising (curve, 0);
}

/* --- as text --- */

void
llm_cost_model_store (const LlmCostModel *self,
                      GKeyFile           *file)
{
  for (guint i = 0; i < LLM_N_COSTS; i++)
    {
      LlmCostCurve curve = self->curves[i];

      g_key_file_set_double_list (file, groups[i], "us", curve.us, LLM_COST_POINTS);
      g_key_file_set_integer_list (file, groups[i], "seen", curve.n_seen, LLM_COST_POINTS);
      g_key_file_set_double (file, groups[i], "depth-us", curve.depth_us);
      g_key_file_set_double (file, groups[i], "spread", curve.spread);
      g_key_file_set_integer (file, groups[i], "steps", (int) curve.n_steps);
    }
  g_key_file_set_double (file, GROUP_RESTORE, "latency-us", self->restore_latency_us);
  g_key_file_set_double (file, GROUP_RESTORE, "bytes-per-us", self->restore_bytes_per_us);
  g_key_file_set_integer (file, GROUP_RESTORE, "restores", (int) self->n_restores);
}

static gboolean
read_number (GKeyFile   *file,
             const char *group,
             const char *name,
             double     *number)
{
  g_autoptr(GError) error = NULL;

  *number = g_key_file_get_double (file, group, name, &error);
  return error == NULL && *number > 0 && *number < MAX_US;
}

static gboolean
read_count (GKeyFile   *file,
            const char *group,
            const char *name,
            guint      *count)
{
  g_autoptr(GError) error = NULL;
  int number = g_key_file_get_integer (file, group, name, &error);

  *count = (guint) MAX (number, 0);
  return error == NULL && number >= 0 && number <= MAX_STEPS;
}

static gboolean
read_curve (GKeyFile     *file,
            const char   *group,
            LlmCostCurve *curve)
{
  gsize n_us = 0, n_counts = 0;
  g_autofree double *us = g_key_file_get_double_list (file, group, "us", &n_us, NULL);
  g_autofree int *n_seen = g_key_file_get_integer_list (file, group, "seen", &n_counts, NULL);

  if (us == NULL || n_seen == NULL || n_us != LLM_COST_POINTS || n_counts != LLM_COST_POINTS)
    return FALSE;
  for (guint i = 0; i < LLM_COST_POINTS; i++)
    {
      if (!(us[i] > 0 && us[i] < MAX_US) || (i > 0 && us[i] < us[i - 1]) || n_seen[i] < 0
          || n_seen[i] > MAX_STEPS)
        return FALSE;
      curve->us[i] = us[i];
      curve->n_seen[i] = n_seen[i];
    }
  return read_number (file, group, "depth-us", &curve->depth_us)
         && read_number (file, group, "spread", &curve->spread) && curve->spread <= 1
         && read_count (file, group, "steps", &curve->n_steps);
}

gboolean
llm_cost_model_load (LlmCostModel *self,
                     GKeyFile     *file)
{
  LlmCostModel found;

  for (guint i = 0; i < LLM_N_COSTS; i++)
    if (!read_curve (file, groups[i], &found.curves[i]))
      return FALSE;
  if (!read_number (file, GROUP_RESTORE, "latency-us", &found.restore_latency_us)
      || !read_number (file, GROUP_RESTORE, "bytes-per-us", &found.restore_bytes_per_us)
      || !read_count (file, GROUP_RESTORE, "restores", &found.n_restores))
    return FALSE;
  *self = found;
  return TRUE;
}
