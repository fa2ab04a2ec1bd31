/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "memory/llm-governor.h"

#include "memory/llm-func-reclaimer.h"
#include "base/llm-clock.h"

/* --- a holder of memory that gives on an idle callback --- */

typedef struct
{
  LlmReclaimerFuncs funcs;
  guint64 held;
  gboolean is_backed;
  gint64 deadline_us;     /* of the last give */
  guint64 grown;
} Holder;

typedef struct
{
  Holder *holder;
  guint64 bytes;
  LlmReclaimDone done;
  gpointer data;
} Give;

static guint64
get_held (gpointer holder)
{
  return ((Holder *) holder)->held;
}

static gboolean
give_now (gpointer data)
{
  Give *give = data;
  guint64 freed = MIN (give->bytes, give->holder->held);

  give->holder->held -= freed;
  give->done (freed, give->data);
  return G_SOURCE_REMOVE;
}

static void
give (gpointer       holder,
      guint64        bytes,
      gint64         deadline_us,
      LlmReclaimDone done,
      gpointer       data)
{
  Give *later = g_new (Give, 1);

  *later = (Give) { holder, bytes, done, data };
  ((Holder *) holder)->deadline_us = deadline_us;
  g_idle_add_full (G_PRIORITY_DEFAULT, give_now, later, g_free);
}

static void
grow (gpointer holder,
      guint64  bytes)
{
  ((Holder *) holder)->grown += bytes;
}

static gboolean
is_backed (gpointer holder)
{
  return ((Holder *) holder)->is_backed;
}

/* --- --- */

typedef struct
{
  LlmLedger *ledger;
  LlmGovernor *governor;
  Holder *weights;
  Holder *kv;
  Holder *scratch;
} Fixture;

static Holder *
add_holder (Fixture       *fixture,
            const char    *name,
            LlmReclaimCost cost,
            guint64        held)
{
  Holder *holder = g_new0 (Holder, 1);
  g_autoptr(LlmReclaimer) reclaimer = NULL;

  *holder = (Holder) { { name, cost, get_held, give, grow, is_backed }, held };
  reclaimer = llm_func_reclaimer_new (&holder->funcs, holder);
  llm_governor_add (fixture->governor, reclaimer);
  return holder;
}

static void
set_up (Fixture      *fixture,
        gconstpointer data)
{
  fixture->ledger = llm_ledger_new ();
  fixture->governor = llm_governor_new (fixture->ledger);
  /* In the wrong order, on purpose: cost decides. */
  fixture->weights = add_holder (fixture, "weights", LLM_RECLAIM_COSTLY, 1000);
  fixture->kv = add_holder (fixture, "kv", LLM_RECLAIM_CHEAP, 100);
  fixture->scratch = add_holder (fixture, "scratch", LLM_RECLAIM_FREE, 10);
}

static void
tear_down (Fixture      *fixture,
           gconstpointer data)
{
  g_object_unref (fixture->governor);
  g_free (fixture->weights);
  g_free (fixture->kv);
  g_free (fixture->scratch);
  llm_ledger_unref (fixture->ledger);
}

static void
on_result (GObject      *source,
           GAsyncResult *result,
           gpointer      data)
{
  GAsyncResult **slot = data;

  *slot = g_object_ref (result);
}

static LlmTrimResult *
trim (Fixture    *fixture,
      LlmPressure level,
      guint64     target)
{
  g_autoptr(GAsyncResult) result = NULL;

  llm_governor_trim_async (fixture->governor,
                           &(LlmTrimRequest) { .level = level, .target = target },
                           on_result, &result);
  while (result == NULL)
    g_main_context_iteration (NULL, TRUE);
  return llm_governor_trim_finish (fixture->governor, result, NULL);
}

static void
assert_trim (Fixture    *fixture,
             LlmPressure level,
             guint64     target,
             guint64     freed,
             const char *steps)
{
  g_autoptr(LlmTrimResult) result = trim (fixture, level, target);
  g_autofree char *joined = g_strjoinv (" ", result->steps);

  g_assert_cmpuint (result->freed, ==, freed);
  g_assert_cmpstr (joined, ==, steps);
}

static void
test_levels (Fixture      *fixture,
             gconstpointer data)
{
  g_assert_cmpuint (llm_governor_get_reclaimable (fixture->governor, LLM_RECLAIM_CHEAP), ==, 100);
  assert_trim (fixture, LLM_PRESSURE_LOW, 0, 10, "scratch");
  g_assert_cmpuint (fixture->kv->held, ==, 100);
  fixture->scratch->held = 10;
  assert_trim (fixture, LLM_PRESSURE_MEDIUM, 0, 110, "scratch kv");
  g_assert_cmpuint (fixture->weights->held, ==, 1000);
  assert_trim (fixture, LLM_PRESSURE_CRITICAL, 0, 1000, "weights");
  assert_trim (fixture, LLM_PRESSURE_CRITICAL, 0, 0, "");
}

static void
test_target (Fixture      *fixture,
             gconstpointer data)
{
  assert_trim (fixture, LLM_PRESSURE_CRITICAL, 60, 60, "scratch kv");
  g_assert_cmpuint (fixture->kv->held, ==, 50);
  g_assert_cmpuint (fixture->weights->held, ==, 1000);
}

static void
test_one_after_the_other (Fixture      *fixture,
                          gconstpointer data)
{
  g_autoptr(GAsyncResult) first = NULL;
  g_autoptr(GAsyncResult) second = NULL;
  LlmTrimResult *result;

  llm_governor_trim_async (fixture->governor, &(LlmTrimRequest) { .level = LLM_PRESSURE_MEDIUM },
                           on_result, &first);
  llm_governor_trim_async (fixture->governor, &(LlmTrimRequest) { .level = LLM_PRESSURE_CRITICAL },
                           on_result, &second);
  while (second == NULL)
    g_main_context_iteration (NULL, TRUE);
  g_assert_nonnull (first);
  result = llm_governor_trim_finish (fixture->governor, first, NULL);
  g_assert_cmpuint (result->freed, ==, 110);
  llm_trim_result_free (result);
  result = llm_governor_trim_finish (fixture->governor, second, NULL);
  g_assert_cmpuint (result->freed, ==, 1000);
  llm_trim_result_free (result);
}

static void
test_deadline (Fixture      *fixture,
               gconstpointer data)
{
  g_autoptr(GAsyncResult) result = NULL;
  LlmTrimResult *trimmed;

  /* A deadline that has passed: nothing is begun. */
  llm_governor_trim_async (fixture->governor,
                           &(LlmTrimRequest) { .level = LLM_PRESSURE_CRITICAL, .deadline_us = 1 },
                           on_result, &result);
  while (result == NULL)
    g_main_context_iteration (NULL, TRUE);
  trimmed = llm_governor_trim_finish (fixture->governor, result, NULL);
  g_assert_cmpuint (trimmed->freed, ==, 0);
  llm_trim_result_free (trimmed);
}

/* Memory of files eases only those who need that, and the other way round. */
static void
test_scopes (Fixture      *fixture,
             gconstpointer data)
{
  const struct
  {
    LlmTrimScope scope;
    guint64 freed;
  } cases[] = { { LLM_TRIM_BACKED, 1000 }, { LLM_TRIM_ANONYMOUS, 110 }, { LLM_TRIM_ALL, 0 } };

  fixture->weights->is_backed = TRUE;
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr(GAsyncResult) result = NULL;
      g_autoptr(LlmTrimResult) trimmed = NULL;

      llm_governor_trim_async (fixture->governor,
                               &(LlmTrimRequest) { .level = LLM_PRESSURE_CRITICAL,
                                                   .scope = cases[i].scope },
                               on_result, &result);
      while (result == NULL)
        g_main_context_iteration (NULL, TRUE);
      trimmed = llm_governor_trim_finish (fixture->governor, result, NULL);
      g_assert_cmpuint (trimmed->freed, ==, cases[i].freed);
    }
  g_assert_cmpuint (llm_governor_get_given (fixture->governor, "weights"), ==, 1000);
  g_assert_cmpuint (llm_governor_get_given (fixture->governor, "kv"), ==, 100);
  g_assert_cmpuint (llm_governor_get_given (fixture->governor, "none"), ==, 0);
  llm_governor_grow (fixture->governor, 5);
  g_assert_cmpuint (fixture->weights->grown, ==, 5);
}

/* Holders hear how long they may write, and the trim goes on behind them. */
static void
test_patience (Fixture      *fixture,
               gconstpointer data)
{
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(LlmTrimResult) trimmed = NULL;

  llm_clock_set_for_test (1000);
  llm_governor_trim_async (fixture->governor,
                           &(LlmTrimRequest) { .level = LLM_PRESSURE_CRITICAL, .patience_us = 50 },
                           on_result, &result);
  llm_clock_set_for_test (2000);
  while (result == NULL)
    g_main_context_iteration (NULL, TRUE);
  trimmed = llm_governor_trim_finish (fixture->governor, result, NULL);
  g_assert_cmpuint (trimmed->freed, ==, 1110);
  g_assert_cmpint (fixture->scratch->deadline_us, ==, 1050);
  g_assert_cmpint (fixture->kv->deadline_us, ==, 2050);
  llm_clock_set_for_test (-1);
}

static void
test_parse (void)
{
  const char good[] = "some avg10=12.50 avg60=1.00 avg300=0.10 total=123\n"
                      "full avg10=3.25 avg60=0.00 avg300=0.00 total=45\n";
  const char *const bad[] = {
    "", "some avg10=1 avg60=1 avg300=1 total=1\n", "nonsense\n",
    "some avg10=x avg60=0 avg300=0 total=0\nfull avg10=0 avg60=0 avg300=0 total=0\n",
    "some avg10=-1 avg60=0 avg300=0 total=0\nfull avg10=0 avg60=0 avg300=0 total=0\n",
    "some avg10=0 avg60=0 avg300=0\nfull avg10=0 avg60=0 avg300=0 total=0\n",
    "some avg10=0 avg60=0 avg300=0 total=0\nsome avg10=0 avg60=0 avg300=0 total=0\n"
    "full avg10=0 avg60=0 avg300=0 total=0\n",
  };
  LlmStall stall;

  g_assert_true (llm_pressure_parse (good, &stall));
  g_assert_cmpfloat (stall.some_avg10, ==, 12.5);
  g_assert_cmpfloat (stall.full_avg10, ==, 3.25);
  g_assert_cmpuint (stall.some_us, ==, 123);
  g_assert_cmpuint (stall.full_us, ==, 45);
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    g_assert_false (llm_pressure_parse (bad[i], &stall));
}

static void
test_judge (void)
{
  const struct
  {
    double some;
    double full;
    LlmPressure pressure;
  } cases[] = {
    { 0, 0, LLM_PRESSURE_NONE },       { 0.049, 0, LLM_PRESSURE_NONE },
    { 0.05, 0, LLM_PRESSURE_LOW },     { 0.2, 0, LLM_PRESSURE_MEDIUM },
    { 0.06, 0.03, LLM_PRESSURE_MEDIUM }, { 0.3, 0.1, LLM_PRESSURE_CRITICAL },
  };
  LlmPressure level;

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    g_assert_cmpint (llm_pressure_judge (cases[i].some, cases[i].full), ==, cases[i].pressure);
  g_assert_false (llm_pressure_is_event (1000, 1000, 150));
  g_assert_false (llm_pressure_is_event (1000, 1149, 150));
  g_assert_true (llm_pressure_is_event (1000, 1150, 150));
  g_assert_true (llm_pressure_is_event (1000, 1000, 0));
  g_assert_false (llm_pressure_is_event (1000, 3, 150));
  g_assert_true (llm_pressure_is_event (0, 0, 150));
  g_assert_true (llm_pressure_parse_level ("critical", &level));
  g_assert_cmpint (level, ==, LLM_PRESSURE_CRITICAL);
  g_assert_false (llm_pressure_parse_level ("none", &level));
  g_assert_false (llm_pressure_parse_level ("severe", &level));
}

/* --- a trim that is asked for where another one ends --- */

typedef struct
{
  Fixture *fixture;
  guint n_ended;
} Chain;

static void
on_chained (GObject      *source,
            GAsyncResult *result,
            gpointer      data)
{
  Chain *chain = data;
  g_autoptr(LlmTrimResult) trimmed = llm_governor_trim_finish (LLM_GOVERNOR (source), result, NULL);
  LlmTrimRequest request = { .level = LLM_PRESSURE_MEDIUM };

  g_assert_nonnull (trimmed);
  if (++chain->n_ended < 3)
    {
      chain->fixture->kv->held = 100;
      llm_governor_trim_async (chain->fixture->governor, &request, on_chained, chain);
    }
}

/* The holder is asked once for each trim, however soon the next one comes. */
static void
test_trim_from_callback (Fixture      *fixture,
                         gconstpointer data)
{
  Chain chain = { fixture, 0 };
  LlmTrimRequest request = { .level = LLM_PRESSURE_MEDIUM };

  llm_governor_trim_async (fixture->governor, &request, on_chained, &chain);
  while (chain.n_ended < 3)
    g_main_context_iteration (NULL, TRUE);
  while (g_main_context_iteration (NULL, FALSE))
    ;
  g_assert_cmpuint (chain.n_ended, ==, 3);
  g_assert_cmpuint (fixture->kv->held, ==, 0);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add ("/governor/levels", Fixture, NULL, set_up, test_levels, tear_down);
  g_test_add ("/governor/target", Fixture, NULL, set_up, test_target, tear_down);
  g_test_add ("/governor/one-after-the-other", Fixture, NULL, set_up, test_one_after_the_other,
              tear_down);
  g_test_add ("/governor/deadline", Fixture, NULL, set_up, test_deadline, tear_down);
  g_test_add ("/governor/trim-from-callback", Fixture, NULL, set_up, test_trim_from_callback,
              tear_down);
  g_test_add_func ("/pressure/parse", test_parse);
  g_test_add_func ("/pressure/judge", test_judge);
  g_test_add ("/governor/scopes", Fixture, NULL, set_up, test_scopes, tear_down);
  g_test_add ("/governor/patience", Fixture, NULL, set_up, test_patience, tear_down);
  return g_test_run ();
}
