/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "memory/llm-reclaim-queue.h"

#include "base/llm-clock.h"

/* --- a holder of memory that gives on an idle callback --- */

typedef struct
{
  guint64 held;
  gboolean is_backed;
  gint64 deadline_us;     /* of the last request */
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

static gboolean
is_backed (gpointer holder)
{
  return ((Holder *) holder)->is_backed;
}

/* --- --- */

typedef struct
{
  LlmLedger *ledger;
  LlmReclaimQueue *queue;
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
  const LlmReclaimer reclaimer = { name, cost, get_held, give, NULL, is_backed, holder };

  holder->held = held;
  llm_ledger_add_reclaimer (fixture->ledger, &reclaimer);
  return holder;
}

static void
set_up (Fixture      *fixture,
        gconstpointer data)
{
  fixture->ledger = llm_ledger_new ();
  fixture->queue = llm_reclaim_queue_new (fixture->ledger);
  /* In the wrong order, on purpose: cost decides. */
  fixture->weights = add_holder (fixture, "weights", LLM_RECLAIM_COSTLY, 1000);
  fixture->kv = add_holder (fixture, "kv", LLM_RECLAIM_CHEAP, 100);
  fixture->scratch = add_holder (fixture, "scratch", LLM_RECLAIM_FREE, 10);
}

static void
tear_down (Fixture      *fixture,
           gconstpointer data)
{
  llm_reclaim_queue_free (fixture->queue);
  g_free (fixture->weights);
  g_free (fixture->kv);
  g_free (fixture->scratch);
  llm_ledger_unref (fixture->ledger);
}

typedef struct
{
  gboolean is_done;
  guint64 freed;
  char *steps;            /* (owned) */
} Result;

static void
on_result (const LlmReclaimResult *result,
           gpointer                data)
{
  Result *copy = data;

  *copy = (Result) { TRUE, result->freed, g_strjoinv (" ", (char **) result->steps) };
}

static void
push (Fixture          *fixture,
      LlmReclaimRequest request,
      Result           *result)
{
  *result = (Result) { FALSE };
  llm_reclaim_queue_push (fixture->queue, &request, on_result, result);
  g_assert_false (result->is_done);
}

static void
assert_result (Result     *result,
               guint64     freed,
               const char *steps)
{
  while (!result->is_done)
    g_main_context_iteration (NULL, TRUE);
  g_assert_cmpuint (result->freed, ==, freed);
  g_assert_cmpstr (result->steps, ==, steps);
  g_free (result->steps);
}

static void
assert_reclaim (Fixture    *fixture,
             LlmPressure level,
             guint64     target,
             guint64     freed,
             const char *steps)
{
  Result result;

  push (fixture, (LlmReclaimRequest) { .level = level, .target = target }, &result);
  assert_result (&result, freed, steps);
}

static void
test_levels (Fixture      *fixture,
             gconstpointer data)
{
  g_assert_cmpuint (llm_ledger_get_reclaimable (fixture->ledger, LLM_RECLAIM_CHEAP), ==, 100);
  assert_reclaim (fixture, LLM_PRESSURE_LOW, 0, 10, "scratch");
  g_assert_cmpuint (fixture->kv->held, ==, 100);
  fixture->scratch->held = 10;
  assert_reclaim (fixture, LLM_PRESSURE_MEDIUM, 0, 110, "scratch kv");
  g_assert_cmpuint (fixture->weights->held, ==, 1000);
  assert_reclaim (fixture, LLM_PRESSURE_CRITICAL, 0, 1000, "weights");
  assert_reclaim (fixture, LLM_PRESSURE_CRITICAL, 0, 0, "");
}

static void
test_target (Fixture      *fixture,
             gconstpointer data)
{
  assert_reclaim (fixture, LLM_PRESSURE_CRITICAL, 60, 60, "scratch kv");
  g_assert_cmpuint (fixture->kv->held, ==, 50);
  g_assert_cmpuint (fixture->weights->held, ==, 1000);
}

static void
test_one_after_the_other (Fixture      *fixture,
                          gconstpointer data)
{
  Result first, second;

  push (fixture, (LlmReclaimRequest) { .level = LLM_PRESSURE_MEDIUM }, &first);
  push (fixture, (LlmReclaimRequest) { .level = LLM_PRESSURE_CRITICAL }, &second);
  while (!second.is_done)
    g_main_context_iteration (NULL, TRUE);
  g_assert_true (first.is_done);
  assert_result (&first, 110, "scratch kv");
  assert_result (&second, 1000, "weights");
}

static void
test_deadline (Fixture      *fixture,
               gconstpointer data)
{
  Result result;

  /* A deadline that has passed: nothing is begun. */
  push (fixture, (LlmReclaimRequest) { .level = LLM_PRESSURE_CRITICAL, .deadline_us = 1 },
        &result);
  assert_result (&result, 0, "");
}

/* Memory of files eases only those who need that, and the other way round. */
static void
test_scopes (Fixture      *fixture,
             gconstpointer data)
{
  const struct
  {
    LlmReclaimScope scope;
    guint64 freed;
    const char *steps;
  } cases[] = {
    /* what costs nothing is asked in any case */
    { LLM_RECLAIM_BACKED, 1010, "scratch weights" },
    { LLM_RECLAIM_ANONYMOUS, 100, "kv" },
    { LLM_RECLAIM_ALL, 0, "" },
  };
  const LlmReclaimer *weights;

  fixture->weights->is_backed = TRUE;
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      Result result;

      push (fixture,
            (LlmReclaimRequest) { .level = LLM_PRESSURE_CRITICAL, .scope = cases[i].scope },
            &result);
      assert_result (&result, cases[i].freed, cases[i].steps);
    }
  weights = g_ptr_array_index (llm_ledger_get_reclaimers (fixture->ledger), 0);
  g_assert_cmpuint (weights->reclaimed, ==, 1000);
}

/* Holders hear how long they may write, and the request goes on behind them. */
static void
test_patience (Fixture      *fixture,
               gconstpointer data)
{
  Result result;

  llm_clock_set_for_test (1000);
  push (fixture, (LlmReclaimRequest) { .level = LLM_PRESSURE_CRITICAL, .patience_us = 50 },
        &result);
  llm_clock_set_for_test (2000);
  assert_result (&result, 1110, "scratch kv weights");
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
    "some avg10=0 avg60=0 avg300=0 total=x\nfull avg10=0 avg60=0 avg300=0 total=0\n",
    "some avg10=0 avg60=0 avg300=0 total=-1\nfull avg10=0 avg60=0 avg300=0 total=0\n",
    "some avg10=0 avg60=0 avg300=0\nfull avg10=0 avg60=0 avg300=0 total=0\n",
    "some avg10=0 avg60=0 avg300=0 total=0\nsome avg10=0 avg60=0 avg300=0 total=0\n"
    "full avg10=0 avg60=0 avg300=0 total=0\n",
  };
  LlmStall stall;

  g_assert_true (llm_pressure_parse (good, &stall));
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
on_chained (const LlmReclaimResult *result,
            gpointer                data)
{
  Chain *chain = data;
  LlmReclaimRequest request = { .level = LLM_PRESSURE_MEDIUM };

  if (++chain->n_ended < 3)
    {
      chain->fixture->kv->held = 100;
      llm_reclaim_queue_push (chain->fixture->queue, &request, on_chained, chain);
    }
}

/* The holder is asked once for each trim, however soon the next one comes. */
static void
test_push_from_callback (Fixture      *fixture,
                         gconstpointer data)
{
  Chain chain = { fixture, 0 };
  LlmReclaimRequest request = { .level = LLM_PRESSURE_MEDIUM };

  llm_reclaim_queue_push (fixture->queue, &request, on_chained, &chain);
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
  g_test_add ("/reclaim/levels", Fixture, NULL, set_up, test_levels, tear_down);
  g_test_add ("/reclaim/target", Fixture, NULL, set_up, test_target, tear_down);
  g_test_add ("/reclaim/one-after-the-other", Fixture, NULL, set_up, test_one_after_the_other,
              tear_down);
  g_test_add ("/reclaim/deadline", Fixture, NULL, set_up, test_deadline, tear_down);
  g_test_add ("/reclaim/push-from-callback", Fixture, NULL, set_up, test_push_from_callback,
              tear_down);
  g_test_add_func ("/pressure/parse", test_parse);
  g_test_add_func ("/pressure/judge", test_judge);
  g_test_add ("/reclaim/scopes", Fixture, NULL, set_up, test_scopes, tear_down);
  g_test_add ("/reclaim/patience", Fixture, NULL, set_up, test_patience, tear_down);
  return g_test_run ();
}
