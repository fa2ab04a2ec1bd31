/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What storms are made of: plans; and, where control groups can be made, the eater in one. */

#include <string.h>

#include "bench/storm/bench-storm-eater.h"
#include "bench/storm/bench-storm-plan.h"
#include "support/llm-test-folder.h"

#define MIB ((guint64) 1 << 20)
#define N_STORMS 10
/* Far longer than anything here takes: no test asserts how long. */
#define MAX_STEPS 6000
#define STEP_US 10000

static BenchStormPlan *
make_plan (guint64 seed)
{
  g_autofree char *model = g_build_filename (g_getenv ("LLM_MODEL_DIR"),
                                             "llmsvc-demo-8M-Q8_0.gguf", NULL);
  g_autoptr(GError) error = NULL;
  BenchStormPlan *plan = bench_storm_plan_new (model, N_STORMS, seed, &error);

  g_assert_no_error (error);
  return plan;
}

/* The eater leaves less than the weights in two of three levels, and something in all. */
static void
test_plan_sizes (void)
{
  g_autoptr(BenchStormPlan) plan = make_plan (1);
  guint64 beside = plan->limit - 2 * plan->model_bytes;

  g_assert_cmpuint (plan->budget, >, plan->limit);
  for (guint i = 0; i < BENCH_STORM_LEVELS; i++)
    {
      guint64 left = plan->limit - plan->levels[i] - plan->file_bytes - beside;

      g_assert_cmpuint (plan->levels[i] + plan->file_bytes + beside, <, plan->limit);
      if (i == 0)
        g_assert_cmpuint (left, >, plan->model_bytes);
      else
        {
          g_assert_cmpuint (left, <, plan->model_bytes);
          g_assert_cmpuint (plan->levels[i], >, plan->levels[i - 1]);
        }
    }
}

static void
test_plan_repeats (void)
{
  g_autoptr(BenchStormPlan) first = make_plan (1);
  g_autoptr(BenchStormPlan) second = make_plan (1);
  g_autoptr(BenchStormPlan) other = make_plan (2);
  guint counts[BENCH_STORM_LEVELS] = { 0 };

  g_assert_cmpmem (first->order, N_STORMS, second->order, N_STORMS);
  for (guint place = 0; place <= first->n_turns; place++)
    g_assert_cmpstr (bench_storm_plan_get_text (first, 2, place)->text, ==,
                     bench_storm_plan_get_text (second, 2, place)->text);
  g_assert_cmpstr (bench_storm_plan_get_text (first, 0, 0)->text, !=,
                   bench_storm_plan_get_text (other, 0, 0)->text);
  g_assert_cmpstr (bench_storm_plan_get_text (first, 0, 0)->text, !=,
                   bench_storm_plan_get_text (first, 1, 0)->text);
  for (guint i = 0; i < N_STORMS; i++)
    counts[first->order[i]]++;
  for (guint i = 0; i < BENCH_STORM_LEVELS; i++)
    {
      g_assert_cmpuint (counts[i], >=, N_STORMS / BENCH_STORM_LEVELS);
      g_assert_cmpuint (counts[i], <=, N_STORMS / BENCH_STORM_LEVELS + 1);
    }
}

/* A context begins once, then goes through its turns again and again, and never grows beyond what
 * the model sees. */
static void
test_plan_turns (void)
{
  g_autoptr(BenchStormPlan) plan = make_plan (1);
  guint n_tokens = bench_storm_plan_get_text (plan, 1, 0)->ids->len + plan->n_answer;

  g_assert_cmpuint (n_tokens, >=, plan->n_begin);
  g_assert_cmpuint (bench_storm_plan_get_place (plan, 0), ==, 0);
  for (guint turn = 1; turn <= 3 * plan->n_turns; turn++)
    g_assert_cmpuint (bench_storm_plan_get_place (plan, turn), ==, 1 + (turn - 1) % plan->n_turns);
  for (guint place = 1; place <= plan->n_turns; place++)
    n_tokens += bench_storm_plan_get_text (plan, 1, place)->ids->len + plan->n_answer;
  g_assert_cmpuint (n_tokens, <, plan->n_ctx);
}

/* --- in a group --- */

static void
wait_for_rounds (BenchStormEater *eater,
                 guint            n_rounds)
{
  for (guint i = 0; i < MAX_STEPS && bench_storm_eater_get_rounds (eater) < n_rounds; i++)
    g_usleep (STEP_US);
  g_assert_cmpuint (bench_storm_eater_get_rounds (eater), >=, n_rounds);
}

static void
wait_for_held (BenchStormEater *eater,
               guint64          bytes)
{
  for (guint i = 0; i < MAX_STEPS && bench_storm_eater_get_held (eater) != bytes; i++)
    g_usleep (STEP_US);
  g_assert_cmpuint (bench_storm_eater_get_held (eater), ==, bytes);
}

/* NULL, and the test skipped, where there are none. */
static BenchStormGroup *
make_group (guint64 limit)
{
  g_autoptr(GError) error = NULL;
  BenchStormGroup *group = bench_storm_group_new (limit, &error);

  if (group == NULL)
    g_test_skip (error->message);
  return group;
}

static void
test_eater (void)
{
  g_autoptr(BenchStormGroup) group = make_group (64 * MIB);
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *file = g_build_filename (folder, "file", NULL);
  g_autoptr(BenchStormEater) eater = NULL;
  g_autoptr(GError) error = NULL;
  BenchStormReading before, full, after;

  if (group != NULL)
    {
      eater = bench_storm_eater_new (group, 40 * MIB, file, 8 * MIB, 40, &error);
      g_assert_no_error (error);
      bench_storm_group_read (group, &before);
      bench_storm_eater_set_level (eater, 40 * MIB);
      wait_for_rounds (eater, 2);
      bench_storm_group_read (group, &full);
      g_assert_cmpuint (bench_storm_eater_get_held (eater), ==, 40 * MIB);
      g_assert_cmpfloat (bench_storm_eater_get_longest_ms (eater), >, 0);
      g_assert_cmpuint (full.usage, >=, before.usage + 40 * MIB);
      g_assert_cmpuint (full.cache, >=, before.cache + 4 * MIB);

      bench_storm_eater_set_level (eater, 0);
      wait_for_held (eater, 0);
      bench_storm_group_read (group, &after);
      g_assert_cmpuint (after.usage, <, full.usage - 35 * MIB);
      g_assert_cmpuint (after.oom_kills, ==, 0);
      g_assert_true (bench_storm_eater_is_alive (eater));
    }
  llm_test_folder_remove (folder);
}

/* More than there is: its wait shows in its own group, its end in the count of kills. */
static void
test_limit (void)
{
  g_autoptr(BenchStormGroup) group = make_group (32 * MIB);
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *file = g_build_filename (folder, "file", NULL);
  g_autoptr(BenchStormEater) eater = NULL;
  g_autoptr(GError) error = NULL;
  BenchStormReading reading;

  if (group != NULL)
    {
      eater = bench_storm_eater_new (group, 64 * MIB, file, MIB, 40, &error);
      g_assert_no_error (error);
      bench_storm_eater_set_level (eater, 64 * MIB);
      for (guint i = 0; i < MAX_STEPS && bench_storm_eater_is_alive (eater); i++)
        g_usleep (STEP_US);
      g_assert_false (bench_storm_eater_is_alive (eater));
      bench_storm_group_read (group, &reading);
      g_assert_cmpuint (reading.oom_kills, ==, 1);
      g_assert_cmpuint (reading.stalls[BENCH_STORM_EATER].some_us, >, 0);
      g_assert_cmpuint (reading.stalls[BENCH_STORM_SERVER].some_us, ==, 0);
    }
  llm_test_folder_remove (folder);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/storm/plan/sizes", test_plan_sizes);
  g_test_add_func ("/storm/plan/repeats", test_plan_repeats);
  g_test_add_func ("/storm/plan/turns", test_plan_turns);
  g_test_add_func ("/storm/eater", test_eater);
  g_test_add_func ("/storm/limit", test_limit);
  return g_test_run ();
}
