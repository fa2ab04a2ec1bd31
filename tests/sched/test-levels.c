/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What sub-models cost, learned from steps that are made up here, and which of them is chosen. */

#include "sched/llm-scheduler.h"
#include "sched/llm-strategy.h"

#include <math.h>
#include <string.h>

#define ROWS 64
#define WHOLE_US 64000.0
#define TOKEN_US 20000.0

/* Levels of 100, 70 and 40 percent. */
static void
make_levels (LlmLevelCosts *levels)
{
  llm_level_costs_init (levels);
  llm_level_costs_add (levels, 70, 0.8, 0.85);
  llm_level_costs_add (levels, 40, 0.5, 0.6);
}

/* @n steps of the level, each @us. */
static void
step (LlmLevelCosts *levels,
      LlmCostModel  *costs,
      guint          lacking,
      guint          n,
      double         us)
{
  for (guint i = 0; i < n; i++)
    llm_level_costs_observe (levels, costs, LLM_COST_PREFILL, lacking, ROWS, 0, us);
}

/* Anew: after some steps of the whole model, @n of it and of the smallest level, which takes @us. */
static void
step_in_turns (LlmLevelCosts *levels,
               LlmCostModel  *costs,
               guint          n,
               double         us)
{
  make_levels (levels);
  llm_cost_model_init (costs);
  step (levels, costs, 0, 20, WHOLE_US);
  for (guint i = 0; i < n; i++)
    {
      step (levels, costs, 0, 1, WHOLE_US);
      step (levels, costs, 2, 1, us);
    }
}

static double
get_whole (const LlmCostModel *costs)
{
  return llm_cost_model_predict (costs, LLM_COST_PREFILL, ROWS, 0);
}

static void
test_guesses (void)
{
  LlmLevelCosts levels;

  make_levels (&levels);
  llm_level_costs_add (&levels, 20, NAN, -1);
  for (LlmCostKind kind = 0; kind < LLM_N_COSTS; kind++)
    g_assert_cmpfloat (llm_level_costs_get_ratio (&levels, kind, 0), ==, 1);
  g_assert_cmpfloat (llm_level_costs_get_ratio (&levels, LLM_COST_PREFILL, 2), ==, 0.5);
  g_assert_cmpfloat (llm_level_costs_get_ratio (&levels, LLM_COST_DECODE, 2), ==, 0.6);
  /* what is not known of a smaller one is no reason for more */
  g_assert_cmpfloat_with_epsilon (llm_level_costs_get_ratio (&levels, LLM_COST_PREFILL, 3), 0.5, 0.01);
  g_assert_cmpfloat_with_epsilon (llm_level_costs_get_ratio (&levels, LLM_COST_DECODE, 3), 0.6, 0.01);
}

/* Whatever was seen of them, a smaller level costs less: it is the one that misses a target by
 * least. */
static void
test_monotone (void)
{
  LlmLevelCosts levels;
  LlmCostModel costs;
  double before = 1;

  make_levels (&levels);
  llm_cost_model_init (&costs);
  step (&levels, &costs, 0, 20, WHOLE_US);
  for (guint i = 0; i < 30; i++)
    {
      step (&levels, &costs, 0, 1, WHOLE_US);
      step (&levels, &costs, 1, 1, 0.7 * WHOLE_US);
      step (&levels, &costs, 2, 1, 0.9 * WHOLE_US);
    }
  for (guint lacking = 1; lacking < 3; lacking++)
    {
      double ratio = llm_level_costs_get_ratio (&levels, LLM_COST_PREFILL, lacking);

      g_assert_cmpfloat (ratio, <, before);
      before = ratio;
    }
  g_assert_cmpfloat_with_epsilon (before, 0.7, 0.01);
}

/* Steps of the whole model in between: the level is what differs from what was expected. */
static void
test_learns (void)
{
  LlmLevelCosts levels;
  LlmCostModel costs;

  step_in_turns (&levels, &costs, 30, 0.62 * WHOLE_US);
  g_assert_cmpfloat_with_epsilon (llm_level_costs_get_ratio (&levels, LLM_COST_PREFILL, 2), 0.62,
                                  0.01);
  /* the other level, too, costs more than was thought */
  g_assert_cmpfloat_with_epsilon (llm_level_costs_get_ratio (&levels, LLM_COST_PREFILL, 1), 0.92,
                                  0.01);
  g_assert_cmpfloat (llm_level_costs_get_ratio (&levels, LLM_COST_DECODE, 2), ==, 0.6);
  g_assert_cmpfloat_with_epsilon (get_whole (&costs), WHOLE_US, 100);
}

/* With an adapter a level may cost more than the whole model. A larger one that was never seen
 * does not hide it. */
static void
test_dear (void)
{
  LlmLevelCosts levels;
  LlmCostModel costs;

  step_in_turns (&levels, &costs, 80, 0.9 * WHOLE_US);
  g_assert_cmpfloat_with_epsilon (llm_level_costs_get_ratio (&levels, LLM_COST_PREFILL, 2), 0.9, 0.02);
  g_assert_cmpfloat_with_epsilon (llm_level_costs_get_ratio (&levels, LLM_COST_PREFILL, 1), 1.2, 0.02);
  /* not after a few steps */
  step (&levels, &costs, 1, 5, 1.2 * WHOLE_US);
  g_assert_cmpfloat (llm_level_costs_get_ratio (&levels, LLM_COST_PREFILL, 1), <, 1);
}

/* Nothing but small steps for an hour: the whole model costs what it did. */
static void
test_hour (void)
{
  LlmLevelCosts levels;
  LlmCostModel costs;

  make_levels (&levels);
  llm_cost_model_init (&costs);
  for (guint i = 0; i < 50; i++)
    {
      step (&levels, &costs, 0, 1, WHOLE_US);
      step (&levels, &costs, 2, 1, 0.55 * WHOLE_US);
    }
  step (&levels, &costs, 2, 90000, 0.55 * WHOLE_US);
  g_assert_cmpfloat_with_epsilon (get_whole (&costs), WHOLE_US, 0.02 * WHOLE_US);

  /* a machine that has become half as fast meanwhile is noticed */
  step (&levels, &costs, 2, 1000, 2 * 0.55 * WHOLE_US);
  g_assert_cmpfloat_with_epsilon (get_whole (&costs), 2 * WHOLE_US, 0.05 * WHOLE_US);
  g_assert_cmpfloat_with_epsilon (llm_level_costs_get_ratio (&levels, LLM_COST_PREFILL, 2), 0.55,
                                  0.1);
}

/* Before the whole model has run, a level's steps say how fast the machine is. */
static void
test_level_first (void)
{
  LlmLevelCosts levels;
  LlmCostModel costs;

  make_levels (&levels);
  llm_cost_model_init (&costs);
  step (&levels, &costs, 2, 40, 0.5 * WHOLE_US);
  g_assert_cmpfloat_with_epsilon (get_whole (&costs), WHOLE_US, 0.02 * WHOLE_US);
  g_assert_cmpfloat (llm_level_costs_get_ratio (&levels, LLM_COST_PREFILL, 2), ==, 0.5);
}

static void
test_outliers (void)
{
  static const double strange[] = { 1e11, 0.001, 0, -1, NAN, INFINITY };

  for (guint i = 0; i < G_N_ELEMENTS (strange); i++)
    {
      LlmLevelCosts levels;
      LlmCostModel costs;

      make_levels (&levels);
      llm_cost_model_init (&costs);
      step (&levels, &costs, 0, 20, WHOLE_US);
      for (guint n = 0; n < 20; n++)
        {
          step (&levels, &costs, 0, 1, WHOLE_US);
          step (&levels, &costs, 2, 1, 0.5 * WHOLE_US);
        }
      step (&levels, &costs, 2, 1, strange[i]);
      g_assert_cmpfloat_with_epsilon (llm_level_costs_get_ratio (&levels, LLM_COST_PREFILL, 2), 0.5,
                                      0.05);
      step (&levels, &costs, 2, 10, strange[i]);
      g_assert_cmpfloat (llm_level_costs_get_ratio (&levels, LLM_COST_PREFILL, 2), >=, 0.25);
      g_assert_cmpfloat (llm_level_costs_get_ratio (&levels, LLM_COST_PREFILL, 2), <=, 1);
    }
}

static GKeyFile *
store (const LlmLevelCosts *levels)
{
  GKeyFile *file = g_key_file_new ();

  llm_level_costs_store (levels, file);
  return file;
}

static void
test_kept (void)
{
  static const struct
  {
    const char *group, *key, *value;
  } damages[] = {
    { "levels-read", "percent", "100;70" },
    { "levels-read", "percent", "100;60;40" },
    { "levels-read", "parts", "1;0.8;0.4" },
    { "levels-read", "parts", "1;0.8;nan" },
    { "levels-write", "ratios", "1;0.8;3" },
    { "levels-write", "ratios", "1;nan;0.6" },
    { "levels-write", "ratios", "" },
    { "levels-write", "seen", "0;0;-1" },
    { "levels-write", "seen", "0;0;99999999" },
  };
  LlmLevelCosts levels, found, before;
  LlmCostModel costs;
  g_autoptr(GKeyFile) good = NULL;

  make_levels (&levels);
  llm_cost_model_init (&costs);
  step (&levels, &costs, 0, 20, WHOLE_US);
  step (&levels, &costs, 2, 10, 0.6 * WHOLE_US);
  good = store (&levels);
  make_levels (&found);
  g_assert_true (llm_level_costs_load (&found, good));
  for (guint lacking = 0; lacking < 3; lacking++)
    g_assert_cmpfloat (llm_level_costs_get_ratio (&found, LLM_COST_PREFILL, lacking), ==,
                       llm_level_costs_get_ratio (&levels, LLM_COST_PREFILL, lacking));

  for (guint i = 0; i < G_N_ELEMENTS (damages); i++)
    {
      g_autoptr(GKeyFile) file = store (&levels);

      g_key_file_set_value (file, damages[i].group, damages[i].key, damages[i].value);
      make_levels (&found);
      before = found;
      g_assert_false (llm_level_costs_load (&found, file));
      g_assert_cmpmem (&found, sizeof found, &before, sizeof before);
    }
}

/* --- the scheduler --- */

typedef struct
{
  LlmScheduler *scheduler;
  LlmAccount *accounts;
  LlmApp *app;
} Rig;

static void
set_up (Rig          *rig,
        gconstpointer data)
{
  rig->accounts = llm_account_new ();
  rig->scheduler = llm_scheduler_new (LLM_SCHEDULER_DEADLINE, 256, rig->accounts);
  rig->app = llm_app_intern (0, "a");
  make_levels (&rig->scheduler->levels);
  for (guint i = 0; i < 20; i++)
    {
      llm_cost_model_observe (&rig->scheduler->costs, LLM_COST_PREFILL, ROWS, 0, WHOLE_US);
      llm_cost_model_observe (&rig->scheduler->costs, LLM_COST_DECODE, 1, 0, TOKEN_US);
    }
}

static void
tear_down (Rig          *rig,
           gconstpointer data)
{
  llm_scheduler_free (rig->scheduler);
  llm_account_free (rig->accounts);
  llm_app_unref (rig->app);
}

static LlmSchedEntry
make_entry (Rig  *rig,
            guint lacking)
{
  return (LlmSchedEntry) {
    .app = rig->app,
    .slo = llm_slo_for_class (LLM_SLO_RESPONSIVE),
    .n_prompt = ROWS,
    .lacking = lacking,
  };
}

static void
test_forecast (Rig          *rig,
               gconstpointer data)
{
  static const double read[] = { 1, 0.8, 0.5 }, written[] = { 1, 0.85, 0.6 };
  LlmSchedEntry waiting = make_entry (rig, 2);
  LlmForecast before[3], behind;
  LlmSchedEntry entry;

  for (guint lacking = 0; lacking < 3; lacking++)
    {
      entry = make_entry (rig, lacking);
      llm_scheduler_forecast (rig->scheduler, &entry, 0, &before[lacking]);
      g_assert_cmpfloat_with_epsilon (before[lacking].alone_us, read[lacking] * before[0].alone_us,
                                      1);
      g_assert_cmpfloat_with_epsilon (before[lacking].first_us, before[lacking].alone_us, 1);
      g_assert_cmpfloat_with_epsilon (before[lacking].token_us,
                                      written[lacking] * before[0].token_us, 1);
    }

  /* one that waits takes what its own level takes */
  llm_scheduler_add (rig->scheduler, &waiting);
  entry = make_entry (rig, 0);
  llm_scheduler_forecast (rig->scheduler, &entry, 0, &behind);
  llm_scheduler_remove (rig->scheduler, &waiting);
  g_assert_cmpfloat (behind.first_us, <, 1.9 * before[0].first_us);
  g_assert_cmpfloat (behind.first_us, >, 1.2 * before[0].first_us);
}

/* A step of small rows alone teaches their level; one with rows of several says nothing. */
static void
test_steps (Rig          *rig,
            gconstpointer data)
{
  LlmLevelCosts *levels = &rig->scheduler->levels;
  double whole_us = get_whole (&rig->scheduler->costs);

  for (guint round = 0; round < 40; round++)
    for (guint kind = 0; kind < 3; kind++)
      {
        LlmSchedEntry entries[2] = { make_entry (rig, kind == 0 ? 0 : 2),
                                     make_entry (rig, kind == 1 ? 2 : 0) };
        LlmRowBudget budgets[2] = { { &entries[0], ROWS / 2 }, { &entries[1], ROWS / 2 } };
        LlmQueueKind queue = LLM_QUEUE_PREFILL + LLM_SLO_RESPONSIVE;
        static const double us[] = { WHOLE_US, 0.6 * WHOLE_US, 5 * WHOLE_US };

        for (guint i = 0; i < 2; i++)
          {
            entries[i].n_prompt = ROWS / 2;
            llm_scheduler_add (rig->scheduler, &entries[i]);
          }
        llm_scheduler_begin_step (rig->scheduler, queue, budgets, 2);
        llm_scheduler_note_turn (rig->scheduler, queue, 0, (gint64) us[kind]);
        llm_scheduler_end_step (rig->scheduler, queue, budgets, 2, TRUE);
        for (guint i = 0; i < 2; i++)
          llm_scheduler_remove (rig->scheduler, &entries[i]);
      }
  g_assert_cmpfloat_with_epsilon (get_whole (&rig->scheduler->costs), whole_us, 0.05 * whole_us);
  g_assert_cmpfloat_with_epsilon (llm_level_costs_get_ratio (levels, LLM_COST_PREFILL, 2), 0.6,
                                  0.03);
}

/* Where steps wait for storage, that is what they take: of a smaller level by its bytes, of an answer that is
 * read by channel as it was measured. */
static void
test_reads (Rig          *rig,
            gconstpointer data)
{
  LlmSchedEntry entry = make_entry (rig, 0);
  double alone_us, token_us, read_us[3], sparse_us;

  llm_scheduler_price (rig->scheduler, &entry, 0, &alone_us, &token_us);
  rig->scheduler->reads = (LlmReadTimes) { .whole_us = 100 * alone_us, .sparse_us = { 0, 40 * alone_us } };
  for (guint lacking = 0; lacking < 3; lacking++)
    {
      double first_us;

      llm_scheduler_price (rig->scheduler, &entry, lacking, &first_us, &read_us[lacking]);
      g_assert_cmpfloat_with_epsilon (first_us, read_us[lacking], 1);
    }
  g_assert_cmpfloat_with_epsilon (read_us[0], 100 * alone_us, 1);
  g_assert_cmpfloat_with_epsilon (read_us[2], 60 * alone_us, 1);
  entry.sparse = 2;
  llm_scheduler_price (rig->scheduler, &entry, 0, &alone_us, &sparse_us);
  g_assert_cmpfloat_with_epsilon (sparse_us, 0.4 * read_us[0], 1);
  g_assert_cmpfloat_with_epsilon (alone_us, read_us[0], 1);
  rig->scheduler->reads = (LlmReadTimes) { 0 };
  llm_scheduler_price (rig->scheduler, &entry, 0, &alone_us, &sparse_us);
  g_assert_cmpfloat_with_epsilon (sparse_us, token_us, 1);
}

/* --- the choice --- */

static const LlmStrategy table[] = {
  /* prompt, sub-model, loss, wait, alone, token */
  { 100, 100, 2.0, 0, 100, 10 },
  { 100, 70, 2.1, 0, 80, 8.5 },
  { 50, 100, 2.2, 0, 50, 9.5 },
  { 100, 40, 2.4, 0, 50, 6 },
  { 50, 40, 2.6, 0, 25, 5.8 },
};

static void
test_choice (void)
{
  static const struct
  {
    LlmStrategyLimits limits;
    double wait_us;
    guint chosen;
  } cases[] = {
    { { 0, 0 }, 0, 0 },
    { { 100, 0 }, 0, 0 },
    { { 99, 0 }, 0, 1 },
    { { 60, 0 }, 0, 2 },
    { { 60, 7 }, 0, 3 },
    { { 30, 0 }, 0, 4 },
    { { 0, 9 }, 0, 1 },
    { { 0, 6 }, 0, 3 },
    /* others make it wait */
    { { 110, 0 }, 40, 2 },
    /* nothing is in time because of others: as if they were not there */
    { { 90, 0 }, 1000, 1 },
    /* nothing would be in time: what misses by least */
    { { 10, 0 }, 0, 4 },
    { { 10, 0 }, 1000, 4 },
    { { 0, 1 }, 0, 4 },
    /* the whole call: long answers need faster tokens, short ones only a first one in time */
    { { 0, 0, 200, 10 }, 0, 0 },
    { { 0, 0, 199, 10 }, 0, 1 },
    { { 0, 0, 620, 100 }, 0, 4 },
    { { 90, 0, 400, 1 }, 0, 1 },
    { { 0, 0, 1, 100 }, 0, 4 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    for (guint turn = 0; turn < G_N_ELEMENTS (table); turn++)
      {
        LlmStrategy strategies[G_N_ELEMENTS (table)];
        guint chosen;

        /* in whatever order they come */
        for (guint j = 0; j < G_N_ELEMENTS (table); j++)
          {
            strategies[j] = table[(j + turn) % G_N_ELEMENTS (table)];
            strategies[j].wait_us = cases[i].wait_us;
          }
        chosen = llm_strategy_choose (strategies, G_N_ELEMENTS (table), &cases[i].limits);
        g_assert_cmpuint ((chosen + turn) % G_N_ELEMENTS (table), ==, cases[i].chosen);
      }
}

/* What is no sooner is no reason for less of the model. */
static void
test_near (void)
{
  static const LlmStrategy strategies[] = { { 100, 100, 2, 0, 100, 14.4 }, { 100, 80, 2.1, 0, 80, 14.3 } };
  const LlmStrategyLimits slow = { 0, 8.6 }, soon = { 10, 0 };

  g_assert_cmpuint (llm_strategy_choose (strategies, 2, &slow), ==, 0);
  g_assert_cmpuint (llm_strategy_choose (strategies, 2, &soon), ==, 1);
}

/* Of equal losses the one with more of the model, then of the prompt, then of the weights. */
static void
test_equal (void)
{
  static const LlmStrategy strategies[] = {
    { 100, 70, 2, 0, 10, 1 }, { 50, 80, 2, 0, 10, 1 }, { 60, 80, 2, 0, 10, 1 },
  };
  static const LlmStrategy sparse[] = { { 100, 100, 2, 0, 10, 1, 50 }, { 100, 100, 2, 0, 10, 1, 30 } };
  const LlmStrategyLimits none = { 0, 0 }, tight = { 1, 0 };

  g_assert_cmpuint (llm_strategy_choose (sparse, 2, &none), ==, 1);
  g_assert_cmpuint (llm_strategy_choose (strategies, 3, &none), ==, 2);
  g_assert_cmpuint (llm_strategy_choose (strategies, 3, &tight), ==, 2);
}

static void
test_losses (void)
{
  double losses[] = { 2.6, 2.2, 1.8, 1.9 };
  static const double sorted[] = { 2.6, 2.2, 1.9, 1.9 };

  llm_strategy_sort_losses (losses, G_N_ELEMENTS (losses));
  g_assert_cmpmem (losses, sizeof losses, sorted, sizeof sorted);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/levels/guesses", test_guesses);
  g_test_add_func ("/levels/monotone", test_monotone);
  g_test_add_func ("/levels/learns", test_learns);
  g_test_add_func ("/levels/dear", test_dear);
  g_test_add_func ("/levels/hour", test_hour);
  g_test_add_func ("/levels/level-first", test_level_first);
  g_test_add_func ("/levels/outliers", test_outliers);
  g_test_add_func ("/levels/kept", test_kept);
  g_test_add ("/levels/forecast", Rig, NULL, set_up, test_forecast, tear_down);
  g_test_add ("/levels/steps", Rig, NULL, set_up, test_steps, tear_down);
  g_test_add ("/levels/reads", Rig, NULL, set_up, test_reads, tear_down);
  g_test_add_func ("/strategy/choice", test_choice);
  g_test_add_func ("/strategy/near", test_near);
  g_test_add_func ("/strategy/equal", test_equal);
  g_test_add_func ("/strategy/losses", test_losses);

  return g_test_run ();
}
