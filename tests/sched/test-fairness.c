/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One user, or one application of a user, that calls for more than the others: what these keep of
 * what they have when an ordinary one is in its place, in simulations. With --verbose the figures
 * are printed. */

#include "sched-sim.h"

#define NOISE 0.03
#define UNTIL_US (180 * G_USEC_PER_SEC)
/* Calls from then on count: what was begun when nobody had been served yet is over. */
#define FROM_US (10 * G_USEC_PER_SEC)
#define N_FLOOD 16
/* Calls of one chain: more than there is time for. */
#define CHAIN 200
/* Of what they have beside an ordinary user. */
#define KEPT 0.8
/* Of what a call alone on the machine has, over the number of users. */
#define KEPT_TTFT_PART 0.8
#define KEPT_RATE_PART 0.5

typedef struct
{
  double ttft_ms;        /* median */
  double rate;           /* tokens a second of the answers, from the first to the last */
  double served_us;      /* of the machine, by what steps cost */
  guint n_calls;         /* that have ended */
} Had;

typedef struct
{
  guint n;               /* users, or applications of one user */
  gboolean by_app;
  LlmSloClass slo_class; /* of the ordinary calls */
  LlmSloClass flood_class;
  guint n_flood;         /* calls of the flood under way at a time; 0: N_FLOOD */
  gboolean decodes;      /* the flood's calls are like the ordinary ones: most of it decodes */
} Case;

static SimCall
new_call (const Case *test,
          guint       who,
          LlmSloClass slo_class)
{
  return (SimCall) {
    .slo_class = slo_class,
    .user = test->by_app ? 1 : who,
    .app = who,
  };
}

static void
add_chain (GArray  *calls,
           SimCall  call,
           GRand   *random)
{
  for (guint i = 0; i < CHAIN; i++)
    {
      call.n_prompt = random != NULL ? (guint) g_rand_int_range (random, 64, 129) : 1000;
      call.n_output = random != NULL ? (guint) g_rand_int_range (random, 64, 129) : 16;
      call.follows = i > 0 ? calls->len : 0;
      g_array_append_val (calls, call);
    }
}

/* The ordinary ones have the same calls in both runs. In the place of a flood of calls that decode
 * is an ordinary user of its class: they are served as much as the others, and of these a better
 * class goes first. */
static GArray *
new_calls (const Case *test,
           gboolean    floods)
{
  GArray *calls = g_array_new (FALSE, TRUE, sizeof (SimCall));
  guint n_flood = test->n_flood > 0 ? test->n_flood : N_FLOOD;

  for (guint who = 0; who + floods < test->n; who++)
    {
      g_autoptr(GRand) random = g_rand_new_with_seed (who + 1);
      gboolean replaces = who + 1 == test->n && test->decodes;

      add_chain (calls, new_call (test, who, replaces ? test->flood_class : test->slo_class),
                 random);
    }
  for (guint i = 0; floods && i < n_flood; i++)
    {
      g_autoptr(GRand) random = g_rand_new_with_seed (test->n + i);

      add_chain (calls, new_call (test, test->n - 1, test->flood_class),
                 test->decodes ? random : NULL);
    }
  return calls;
}

static int
compare_doubles (gconstpointer a,
                 gconstpointer b)
{
  double left = *(const double *) a, right = *(const double *) b;

  return left < right ? -1 : left > right;
}

static Had
sum_up (GArray *calls,
        guint   who)
{
  Had had = { 0 };
  g_autoptr(GArray) ttfts = g_array_new (FALSE, FALSE, sizeof (double));
  double tokens = 0, seconds = 0;

  for (guint i = 0; i < calls->len; i++)
    {
      const SimCall *call = &g_array_index (calls, SimCall, i);

      double ttft_ms;

      if (call->app != who)
        continue;
      had.served_us += call->cost_us;
      had.n_calls += call->n_tokens == call->n_output;
      if (call->n_tokens < call->n_output || call->arrival_us < FROM_US)
        continue;
      ttft_ms = (double) (call->first_us - call->arrival_us) / 1000;
      g_array_append_val (ttfts, ttft_ms);
      tokens += call->n_tokens - 1;
      seconds += (double) (call->last_us - call->first_us) / 1e6;
    }
  g_array_sort (ttfts, compare_doubles);
  had.ttft_ms = ttfts->len > 0 ? g_array_index (ttfts, double, ttfts->len / 2) : 0;
  had.rate = tokens / MAX (seconds, 1e-9);
  return had;
}

static GArray *
run (const Case *test,
     gboolean    floods)
{
  const SimConfig config = { LLM_SCHEDULER_DEADLINE, 0, 1, NOISE, 1, UNTIL_US };
  GArray *calls = new_calls (test, floods);
  SimResult result;

  sim_run (calls, &config, &result);
  return calls;
}

/* What the others keep, that the machine never stands still, and that the flood gets on, too. */
static void
check (const Case *test)
{
  g_autoptr(GArray) ordinary = run (test, FALSE);
  g_autoptr(GArray) flooded = run (test, TRUE);
  g_autoptr(GArray) single = run (&(Case) { .n = 1, .slo_class = test->slo_class }, FALSE);
  Had flood = sum_up (flooded, test->n - 1);
  Had alone = sum_up (single, 0);
  double all_us = flood.served_us;

  for (guint who = 0; who + 1 < test->n; who++)
    {
      Had before = sum_up (ordinary, who);
      Had after = sum_up (flooded, who);

      all_us += after.served_us;
      g_test_message ("%u, classes %d and %d%s, %u calls%s: TTFT %.0f for %.0f ms, "
                      "%.1f for %.1f tokens/s, %.0f for %.0f %% of the time, flood %.0f %%, %u calls", test->n,
                      test->slo_class, test->flood_class, test->by_app ? ", applications" : "",
                      test->n_flood > 0 ? test->n_flood : N_FLOOD,
                      test->decodes ? " that decode" : "", after.ttft_ms, before.ttft_ms,
                      after.rate, before.rate,
                      after.served_us * 100 / UNTIL_US, before.served_us * 100 / UNTIL_US,
                      flood.served_us * 100 / UNTIL_US, flood.n_calls);
      g_assert_cmpuint (after.n_calls, >=, 5);
      g_assert_cmpfloat (after.ttft_ms, <=, before.ttft_ms / KEPT);
      g_assert_cmpfloat (after.rate, >=, before.rate * KEPT);
      g_assert_cmpfloat (after.ttft_ms, <=, alone.ttft_ms * test->n / KEPT_TTFT_PART);
      g_assert_cmpfloat (after.rate, >=, alone.rate / test->n * KEPT_RATE_PART);
    }
  g_assert_cmpfloat (all_us, >, 0.999 * UNTIL_US);
  g_assert_cmpuint (flood.n_calls, >=, 1);
  g_assert_cmpfloat (flood.served_us, >, 0.04 * UNTIL_US);
}

static void
test_users (void)
{
  static const guint n[] = { 2, 4, 8 };

  for (guint i = 0; i < G_N_ELEMENTS (n); i++)
    for (LlmSloClass slo_class = 0; slo_class < LLM_N_SLO_CLASSES; slo_class++)
      check (&(Case) { n[i], FALSE, slo_class, slo_class });
}

/* The same among the applications of one user. */
static void
test_apps (void)
{
  check (&(Case) { 2, TRUE, LLM_SLO_INTERACTIVE, LLM_SLO_INTERACTIVE });
  check (&(Case) { 4, TRUE, LLM_SLO_RESPONSIVE, LLM_SLO_RESPONSIVE });
  check (&(Case) { 8, TRUE, LLM_SLO_BACKGROUND, LLM_SLO_BACKGROUND });
}

/* A flood in a lower class is no nearer to the answers of other users. */
static void
test_lower_class (void)
{
  check (&(Case) { 2, FALSE, LLM_SLO_INTERACTIVE, LLM_SLO_BACKGROUND });
  check (&(Case) { 4, FALSE, LLM_SLO_RESPONSIVE, LLM_SLO_BACKGROUND });
  check (&(Case) { 8, FALSE, LLM_SLO_INTERACTIVE, LLM_SLO_RESPONSIVE });
}

/* Nor is one in a higher class, however many calls it has at a time. */
static void
test_higher_class (void)
{
  static const LlmSloClass pairs[][2] = {
    { LLM_SLO_RESPONSIVE, LLM_SLO_INTERACTIVE },
    { LLM_SLO_BACKGROUND, LLM_SLO_RESPONSIVE },
    { LLM_SLO_BACKGROUND, LLM_SLO_INTERACTIVE },
  };
  static const guint n_users[] = { 2, 8 }, n_flood[] = { 1, 4, 16 };

  for (guint pair = 0; pair < G_N_ELEMENTS (pairs); pair++)
    for (guint i = 0; i < G_N_ELEMENTS (n_users); i++)
      for (guint j = 0; j < G_N_ELEMENTS (n_flood); j++)
        /* a single call that decodes is an ordinary one */
        for (guint decodes = 0; decodes < (n_flood[j] > 1 ? 2 : 1); decodes++)
          check (&(Case) { n_users[i], FALSE, pairs[pair][0], pairs[pair][1], n_flood[j],
                           decodes });
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/fairness/users", test_users);
  g_test_add_func ("/fairness/applications", test_apps);
  g_test_add_func ("/fairness/lower-class", test_lower_class);
  g_test_add_func ("/fairness/higher-class", test_higher_class);
  return g_test_run ();
}
