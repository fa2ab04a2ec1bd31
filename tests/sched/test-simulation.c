/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What is promised (docs/scheduling.md), in simulations. With --verbose the figures are printed. */

#include "sched-sim.h"

#define N_CALLS 600
#define NOISE 0.03

static void
print_result (const char      *name,
              double           load,
              const SimResult *result)
{
  g_autoptr(GString) text = g_string_new (NULL);

  for (guint i = 0; i < LLM_N_SLO_CLASSES; i++)
    {
      const SimClassResult *of_class = &result->classes[i];

      g_string_append_printf (text, " | %5.1f %% of %u, refused %u, slow %u, TTFT %.0f / %.0f ms",
                              100 * sim_share_met (result, i), of_class->n, of_class->refused,
                              of_class->late_tokens, of_class->ttft_p50_ms,
                              of_class->ttft_p95_ms);
    }
  g_test_message ("%-8s %.2f: %5.0f t/s, %6.1f s, forecasts wrong by %.0f ms%s", name, load,
                  result->tokens_per_s, result->seconds, result->forecast_error_ms, text->str);
}

/* Both policies on the same calls. */
static void
compare (double     load,
         double     slowness,
         double     noise,
         guint      seed,
         SimResult *fifo,
         SimResult *deadline)
{
  const SimConfig fifo_config = { LLM_SCHEDULER_FIFO, 0, slowness, noise, seed };
  const SimConfig config = { LLM_SCHEDULER_DEADLINE, 4, slowness, noise, seed };
  double rate = load * sim_capacity (slowness);
  g_autoptr(GArray) fifo_calls = sim_calls_new (N_CALLS, rate, seed);
  g_autoptr(GArray) calls = sim_calls_new (N_CALLS, rate, seed);

  sim_run (fifo_calls, &fifo_config, fifo);
  sim_run (calls, &config, deadline);
  print_result ("fifo", load, fifo);
  print_result ("deadline", load, deadline);
}

/* Where calls in the order of arrival meet half of the interactive targets, or none, deadlines meet
 * 99 % of them, of the responsive ones, too, and the machine does as much. */
static void
test_goals (void)
{
  static const double loads[] = { 0.3, 0.6, 0.9, 1.2 };
  gboolean has_half = FALSE;

  for (guint seed = 1; seed <= 3; seed++)
    for (guint i = 0; i < G_N_ELEMENTS (loads); i++)
      {
        SimResult fifo, deadline;

        compare (loads[i], 1, NOISE, seed, &fifo, &deadline);
        has_half = has_half || sim_share_met (&fifo, LLM_SLO_INTERACTIVE) <= 0.6;
        g_assert_cmpfloat (sim_share_met (&deadline, LLM_SLO_INTERACTIVE), >=, 0.99);
        g_assert_cmpfloat (sim_share_met (&deadline, LLM_SLO_RESPONSIVE), >=, 0.98);
        g_assert_cmpfloat (deadline.tokens_per_s, >=, 0.95 * fifo.tokens_per_s);
        g_assert_cmpfloat (deadline.forecast_error_ms, <, 200);
      }
  g_assert_true (has_half);
}

/* On a machine whose steps take now half, now double of what they should, and on one that is twice
 * as slow: not much is lost. */
static void
test_rough_machines (void)
{
  SimResult fifo, deadline;

  compare (0.8, 1, 0.15, 1, &fifo, &deadline);
  g_assert_cmpfloat (sim_share_met (&deadline, LLM_SLO_INTERACTIVE), >=, 0.97);
  compare (0.8, 2, NOISE, 1, &fifo, &deadline);
  g_assert_cmpfloat (sim_share_met (&deadline, LLM_SLO_INTERACTIVE), >=,
                     sim_share_met (&fifo, LLM_SLO_INTERACTIVE));
  g_assert_cmpfloat (sim_share_met (&deadline, LLM_SLO_INTERACTIVE), >=, 0.8);
  g_assert_cmpfloat (deadline.tokens_per_s, >=, 0.95 * fifo.tokens_per_s);
}

/* All at once: nothing is refused but what asked for a time, and the machine is as busy. */
static void
test_all_at_once (void)
{
  const SimConfig fifo = { LLM_SCHEDULER_FIFO, 0, 1, NOISE, 1 };
  const SimConfig patient = { LLM_SCHEDULER_DEADLINE, 0, 1, NOISE, 1 };
  g_autoptr(GArray) fifo_calls = sim_calls_new (40, 0, 1);
  g_autoptr(GArray) calls = sim_calls_new (40, 0, 1);
  SimResult with_fifo, with_deadline;

  sim_run (fifo_calls, &fifo, &with_fifo);
  sim_run (calls, &patient, &with_deadline);
  print_result ("fifo", 0, &with_fifo);
  print_result ("deadline", 0, &with_deadline);
  g_assert_cmpfloat (with_deadline.tokens_per_s, >=, 0.95 * with_fifo.tokens_per_s);
  for (guint i = 0; i < LLM_N_SLO_CLASSES; i++)
    g_assert_cmpuint (with_deadline.classes[i].refused, ==, 0);
}

/* --- classes and applications by hand --- */

static void
add_call (GArray     *calls,
          LlmSloClass slo_class,
          guint       app,
          gint64      arrival_us,
          guint       n_prompt,
          guint       n_output)
{
  SimCall call = {
    .slo_class = slo_class,
    .app = app,
    .arrival_us = arrival_us,
    .n_prompt = n_prompt,
    .n_output = n_output,
  };

  g_array_append_val (calls, call);
}

static int
compare_arrivals (gconstpointer a,
                  gconstpointer b)
{
  gint64 left = ((const SimCall *) a)->arrival_us, right = ((const SimCall *) b)->arrival_us;

  return left < right ? -1 : left > right;
}

static double
find_ttft (const SimCall *call)
{
  return (double) (call->first_us - call->arrival_us) / 1000;
}

/* Twice as many interactive calls as the machine can serve, for a minute: responsive and background
 * ones get on, too; who is refused is refused for a reason, and the less is let in, the more of it
 * is in time. */
static void
test_overload (void)
{
  static const struct
  {
    double factor;
    double least_met;       /* of those that were let in */
  } cases[] = { { 4, 0.4 }, { 1, 0.55 } };

  for (guint k = 0; k < G_N_ELEMENTS (cases); k++)
    {
      const SimConfig config = { LLM_SCHEDULER_DEADLINE, cases[k].factor, 1, NOISE, 1 };
      g_autoptr(GArray) calls = g_array_new (FALSE, TRUE, sizeof (SimCall));
      const SimClassResult *interactive;
      SimResult result;
      guint n_let_in;

      for (guint i = 0; i < 480; i++)
        add_call (calls, LLM_SLO_INTERACTIVE, i % 5, i * 125000, 150, 20);
      add_call (calls, LLM_SLO_RESPONSIVE, 10, 1000000, 300, 20);
      add_call (calls, LLM_SLO_BACKGROUND, 11, 1000000, 300, 20);
      g_array_sort (calls, compare_arrivals);
      sim_run (calls, &config, &result);
      print_result ("overload", cases[k].factor, &result);

      interactive = &result.classes[LLM_SLO_INTERACTIVE];
      n_let_in = interactive->n - interactive->refused;
      g_assert_cmpuint (n_let_in, >, interactive->n / 3);
      g_assert_cmpuint (interactive->refused, >, interactive->n / 10);
      g_assert_cmpuint (interactive->met, >=, (guint) (n_let_in * cases[k].least_met));
      g_assert_cmpfloat (result.tokens_per_s, >, 480);
      for (guint i = 0; i < calls->len; i++)
        {
          const SimCall *call = &g_array_index (calls, SimCall, i);

          if (call->slo_class == LLM_SLO_INTERACTIVE)
            continue;
          /* long before the others have ended */
          g_assert_false (call->is_refused);
          g_assert_cmpint (call->last_us, <, 40 * G_USEC_PER_SEC);
        }
    }
}

/* An application that sends call upon call does not make another one's calls late. */
static void
test_greedy_app (void)
{
  const SimConfig config = { LLM_SCHEDULER_DEADLINE, 4, 1, NOISE, 1 };
  g_autoptr(GArray) calls = g_array_new (FALSE, TRUE, sizeof (SimCall));
  guint n = 0, n_met = 0, n_refused = 0;
  SimResult result;

  for (guint i = 0; i < 400; i++)
    add_call (calls, LLM_SLO_INTERACTIVE, 1, i * 100000, 150, 20);
  for (guint i = 0; i < 20; i++)
    add_call (calls, LLM_SLO_INTERACTIVE, 2, i * 2000000 + 7, 60, 20);
  g_array_sort (calls, compare_arrivals);
  sim_run (calls, &config, &result);
  print_result ("greedy", 0, &result);
  for (guint i = 0; i < calls->len; i++)
    {
      const SimCall *call = &g_array_index (calls, SimCall, i);

      if (call->app != 2)
        continue;
      n++;
      n_refused += call->is_refused;
      n_met += !call->is_refused && find_ttft (call) <= 1000;
    }
  g_test_message ("modest: %u of %u met, %u refused", n_met, n, n_refused);
  g_assert_cmpuint (n_refused, ==, 0);
  g_assert_cmpuint (n_met, >=, n * 9 / 10);
}

/* Long prompts come while answers are written: no token comes late. */
static void
test_tokens (void)
{
  const SimConfig config = { LLM_SCHEDULER_DEADLINE, 4, 1, NOISE, 1 };
  g_autoptr(GArray) calls = g_array_new (FALSE, TRUE, sizeof (SimCall));
  SimResult result;

  for (guint i = 0; i < 4; i++)
    add_call (calls, LLM_SLO_INTERACTIVE, i, 0, 40, 200);
  for (guint i = 0; i < 5; i++)
    {
      add_call (calls, LLM_SLO_INTERACTIVE, 5, 2000000 + i * 3000000, 800, 2);
      add_call (calls, LLM_SLO_RESPONSIVE, 6, 2000000 + i * 3000000, 1500, 2);
      add_call (calls, LLM_SLO_BACKGROUND, 7, 2000000 + i * 3000000, 3000, 2);
    }
  g_array_sort (calls, compare_arrivals);
  sim_run (calls, &config, &result);
  print_result ("tokens", 0, &result);
  for (guint i = 0; i < calls->len; i++)
    {
      const SimCall *call = &g_array_index (calls, SimCall, i);

      if (call->n_prompt == 40)
        g_assert_cmpint (call->longest_us, <=, 115000);
      if (call->n_prompt == 40)
        g_assert_cmpint (call->last_us - call->first_us, <=, 199 * 100000);
    }
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/simulation/goals", test_goals);
  g_test_add_func ("/simulation/rough-machines", test_rough_machines);
  g_test_add_func ("/simulation/all-at-once", test_all_at_once);
  g_test_add_func ("/simulation/overload", test_overload);
  g_test_add_func ("/simulation/greedy-app", test_greedy_app);
  g_test_add_func ("/simulation/tokens", test_tokens);
  return g_test_run ();
}
