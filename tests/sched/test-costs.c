/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What steps cost: that it is learned, that one step can't spoil it, and that nothing damaged is
 * believed. */

#include "sched/llm-cost-model.h"

#include <math.h>
#include <string.h>

/* A machine that is not like the guess. */
static double
true_cost (LlmCostKind kind,
           guint       n_rows,
           double      depth,
           double      slowness)
{
  double us = kind == LLM_COST_PREFILL ? 9000 + 300.0 * n_rows : 11000 + 900.0 * n_rows;

  return slowness * (us + depth / 1000 * (kind == LLM_COST_PREFILL ? 40 : 700));
}

static void
teach (LlmCostModel *costs,
       guint         n,
       double        slowness,
       GRand        *random)
{
  for (guint i = 0; i < n; i++)
    for (LlmCostKind kind = 0; kind < LLM_N_COSTS; kind++)
      {
        double most = kind == LLM_COST_PREFILL ? 512 : 32;
        guint n_rows = (guint) exp (g_rand_double_range (random, 0, log (most + 1)));
        double depth = n_rows * g_rand_double_range (random, 0, 4000);
        double noise = g_rand_double_range (random, 0.95, 1.05);

        llm_cost_model_observe (costs, kind, n_rows, depth,
                                noise * true_cost (kind, n_rows, depth, slowness));
      }
}

static double
find_error (const LlmCostModel *costs,
            double              slowness)
{
  double worst = 0;

  for (LlmCostKind kind = 0; kind < LLM_N_COSTS; kind++)
    for (guint n_rows = 4; n_rows <= (kind == LLM_COST_PREFILL ? 512 : 16); n_rows *= 2)
      for (double depth = 1000; depth <= 3000; depth += 1000)
        {
          double expected = true_cost (kind, n_rows, n_rows * depth, slowness);
          double found = llm_cost_model_predict (costs, kind, n_rows, n_rows * depth);

          worst = MAX (worst, fabs (found / expected - 1));
        }
  return worst;
}

static void
test_learns (void)
{
  static const double slownesses[] = { 1, 0.01, 30 };

  for (guint i = 0; i < G_N_ELEMENTS (slownesses); i++)
    {
      LlmCostModel costs;
      GRand *random = g_rand_new_with_seed (i);

      llm_cost_model_init (&costs);
      g_assert_false (llm_cost_model_is_known (&costs));
      teach (&costs, 500, slownesses[i], random);
      g_assert_true (llm_cost_model_is_known (&costs));
      g_assert_cmpfloat (find_error (&costs, slownesses[i]), <, 0.2);
      g_assert_cmpfloat (costs.curves[LLM_COST_PREFILL].spread, <, 0.1);

      /* another speed, as with another power profile */
      teach (&costs, 500, 2 * slownesses[i], random);
      g_assert_cmpfloat (find_error (&costs, 2 * slownesses[i]), <, 0.2);
      g_rand_free (random);
    }
}

/* One step of any kind sets the scale of both. */
static void
test_first_step (void)
{
  LlmCostModel costs, guess;

  llm_cost_model_init (&guess);
  llm_cost_model_init (&costs);
  llm_cost_model_observe (&costs, LLM_COST_PREFILL, 64, 0, 860);
  g_assert_cmpfloat_with_epsilon (llm_cost_model_predict (&costs, LLM_COST_PREFILL, 512, 0),
                                  llm_cost_model_predict (&guess, LLM_COST_PREFILL, 512, 0) / 100, 50);
  g_assert_cmpfloat_with_epsilon (llm_cost_model_predict (&costs, LLM_COST_DECODE, 1, 0),
                                  llm_cost_model_predict (&guess, LLM_COST_DECODE, 1, 0) / 100, 5);
}

static void
test_outliers (void)
{
  static const double strange[] = { 1e11, 0.001, 0, -1, NAN, INFINITY, 1e300 };
  LlmCostModel costs;
  GRand *random = g_rand_new_with_seed (1);

  llm_cost_model_init (&costs);
  teach (&costs, 500, 1, random);
  for (guint i = 0; i < G_N_ELEMENTS (strange); i++)
    {
      LlmCostModel before = costs;

      for (LlmCostKind kind = 0; kind < LLM_N_COSTS; kind++)
        {
          llm_cost_model_observe (&costs, kind, 16, 16000, strange[i]);
          llm_cost_model_observe (&costs, kind, 0, 0, strange[i]);
          llm_cost_model_observe (&costs, kind, 16, strange[i], 20000);
        }
      for (guint n_rows = 1; n_rows <= 512; n_rows *= 2)
        {
          double ratio = llm_cost_model_predict (&costs, LLM_COST_PREFILL, n_rows, 0)
                         / llm_cost_model_predict (&before, LLM_COST_PREFILL, n_rows, 0);

          g_assert_cmpfloat (ratio, <, 1.3);
          g_assert_cmpfloat (ratio, >, 0.7);
        }
    }
  teach (&costs, 200, 1, random);
  g_assert_cmpfloat (find_error (&costs, 1), <, 0.2);
  g_rand_free (random);
}

/* Whatever was seen, more rows cost more, and rows for a time cost no more than it. */
static void
test_rising (void)
{
  GRand *random = g_rand_new_with_seed (3);
  LlmCostModel costs;

  llm_cost_model_init (&costs);
  for (guint i = 0; i < 2000; i++)
    {
      LlmCostKind kind = (LlmCostKind) g_rand_int_range (random, 0, LLM_N_COSTS);
      double before = 0;

      llm_cost_model_observe (&costs, kind, (guint) g_rand_int_range (random, 1, 600),
                              g_rand_double_range (random, 0, 1e6),
                              exp (g_rand_double_range (random, 0, 20)));
      for (guint n_rows = 1; n_rows <= (kind == LLM_COST_PREFILL ? 600 : 250); n_rows += 7)
        {
          double us = llm_cost_model_predict (&costs, kind, n_rows, n_rows);

          g_assert_true (isfinite (us));
          g_assert_cmpfloat (us, >=, before);
          before = us;
          g_assert_cmpuint (llm_cost_model_find_rows (&costs, kind, us * 1.000001, 1), >=, n_rows);
        }
      g_assert_cmpuint (llm_cost_model_find_rows (&costs, kind, 0, 0), ==, 1);
    }
  g_rand_free (random);
}

static void
test_prompts (void)
{
  LlmCostModel costs;

  llm_cost_model_init (&costs);
  g_assert_cmpfloat_with_epsilon (llm_cost_model_predict_prompt (&costs, 64, 100, 512),
                                  llm_cost_model_predict (&costs, LLM_COST_PREFILL, 64, 64 * 132.0),
                                  1e-6);
  g_assert_cmpfloat (llm_cost_model_predict_prompt (&costs, 1000, 0, 512), >,
                     llm_cost_model_predict (&costs, LLM_COST_PREFILL, 512, 0));
  g_assert_cmpfloat (llm_cost_model_predict_prompt (&costs, 1000, 8000, 512), >,
                     llm_cost_model_predict_prompt (&costs, 1000, 0, 512));
  g_assert_cmpfloat (llm_cost_model_predict_prompt (&costs, 0, 0, 512), ==, 0);
}

static void
test_restore (void)
{
  LlmCostModel costs;

  llm_cost_model_init (&costs);
  for (guint i = 0; i < 50; i++)
    for (guint64 bytes = 1 << 20; bytes <= 64 << 20; bytes *= 2)
      llm_cost_model_observe_restore (&costs, bytes, 1000 + bytes / 2000.0);
  g_assert_cmpfloat_with_epsilon (llm_cost_model_predict_restore (&costs, 32 << 20), 17700, 5000);
  g_assert_cmpfloat (llm_cost_model_predict_restore (&costs, 0), ==, 0);
  llm_cost_model_observe_restore (&costs, 0, 1);
  llm_cost_model_observe_restore (&costs, 1, NAN);
  g_assert_true (isfinite (llm_cost_model_predict_restore (&costs, 1)));
}

static void
test_seed (void)
{
  static const guint rows[] = { 1, 16, 64, 128, 256, 512 };
  double us[G_N_ELEMENTS (rows)];
  LlmCostModel costs;

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    us[i] = true_cost (LLM_COST_PREFILL, rows[i], 0, 1);
  llm_cost_model_init (&costs);
  llm_cost_model_seed_prompts (&costs, rows, us, G_N_ELEMENTS (rows), 40);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    g_assert_cmpfloat_with_epsilon (llm_cost_model_predict (&costs, LLM_COST_PREFILL, rows[i], 0),
                                    us[i], us[i] / 10);
  g_assert_false (llm_cost_model_is_known (&costs));
}

/* --- as text --- */

static GKeyFile *
store (const LlmCostModel *costs)
{
  GKeyFile *file = g_key_file_new ();

  llm_cost_model_store (costs, file);
  return file;
}

static void
test_kept (void)
{
  GRand *random = g_rand_new_with_seed (5);
  g_autoptr(GKeyFile) file = NULL;
  g_autoptr(GKeyFile) again = NULL;
  g_autofree char *text = NULL;
  g_autofree char *text_again = NULL;
  LlmCostModel costs, found;

  llm_cost_model_init (&costs);
  teach (&costs, 100, 3, random);
  file = store (&costs);
  llm_cost_model_init (&found);
  g_assert_true (llm_cost_model_load (&found, file));
  again = store (&found);
  text = g_key_file_to_data (file, NULL, NULL);
  text_again = g_key_file_to_data (again, NULL, NULL);
  g_assert_cmpstr (text_again, ==, text);
  g_assert_cmpfloat (found.curves[LLM_COST_PREFILL].us[3], ==, costs.curves[LLM_COST_PREFILL].us[3]);
  g_rand_free (random);
}

static void
test_damaged (void)
{
  static const struct
  {
    const char *group, *key, *value;
  } damages[] = {
    { "read", "us", "1;2;3" },
    { "read", "us", "" },
    { "read", "us", "1;2;3;4;5;6;7;nan" },
    { "read", "us", "1;2;3;4;5;6;7;1e300" },
    { "read", "us", "1;2;3;4;5;6;7;-8" },
    { "read", "us", "8;7;6;5;4;3;2;1" },
    { "read", "us", "1;2;3;4;5;6;7;8;9" },
    { "write", "seen", "1;1;1;1;1;1;1;-1" },
    { "write", "seen", "1;1;1;1;1;1;1;99999999" },
    { "write", "seen", "many" },
    { "write", "depth-us", "0" },
    { "write", "depth-us", "inf" },
    { "write", "spread", "7" },
    { "write", "steps", "-3" },
    { "restore", "bytes-per-us", "0" },
    { "restore", "latency-us", "soon" },
    { "restore", "restores", "2000000" },
  };
  LlmCostModel costs;

  llm_cost_model_init (&costs);
  for (guint i = 0; i < G_N_ELEMENTS (damages); i++)
    {
      g_autoptr(GKeyFile) file = store (&costs);
      LlmCostModel found, before;

      g_key_file_set_value (file, damages[i].group, damages[i].key, damages[i].value);
      memset (&found, 0x5a, sizeof found);
      before = found;
      g_assert_false (llm_cost_model_load (&found, file));
      g_assert_cmpmem (&found, sizeof found, &before, sizeof before);
      g_assert_true (g_key_file_remove_group (file, damages[i].group, NULL));
      g_assert_false (llm_cost_model_load (&found, file));
    }
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/costs/learns", test_learns);
  g_test_add_func ("/costs/first-step", test_first_step);
  g_test_add_func ("/costs/outliers", test_outliers);
  g_test_add_func ("/costs/rising", test_rising);
  g_test_add_func ("/costs/prompts", test_prompts);
  g_test_add_func ("/costs/restore", test_restore);
  g_test_add_func ("/costs/seed", test_seed);
  g_test_add_func ("/costs/kept", test_kept);
  g_test_add_func ("/costs/damaged", test_damaged);
  return g_test_run ();
}
