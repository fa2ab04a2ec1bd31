/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "sched/llm-scheduler.h"

#define MAX_ROWS 64

static LlmShare shares[MAX_ROWS];

static guint
charge (LlmScheduler *scheduler,
        LlmTicket    *ticket,
        guint         n)
{
  guint n_rows = 0;
  guint total = 0;

  for (guint i = 0; i < n; i++)
    {
      g_assert_cmpuint (shares[i].n_rows, >, 0);
      total += shares[i].n_rows;
      if (shares[i].ticket == ticket)
        n_rows += shares[i].n_rows;
    }
  g_assert_cmpuint (total, <=, MAX_ROWS);
  for (guint i = 0; i < n; i++)
    llm_scheduler_charge (scheduler, &shares[i]);
  return n_rows;
}

/* Plans and charges a step of the writers; returns the rows that @ticket got. */
static guint
write_row (LlmScheduler *scheduler,
           LlmTicket    *ticket)
{
  return charge (scheduler, ticket, llm_scheduler_plan_writers (scheduler, shares, MAX_ROWS));
}

/* The same for readers of the class whose turn it is. */
static guint
read_rows (LlmScheduler *scheduler,
           LlmTicket    *ticket)
{
  LlmSloClass slo_class;
  guint n_rows;

  if (!llm_scheduler_choose_class (scheduler, &slo_class))
    return 0;
  n_rows = charge (scheduler, ticket,
                   llm_scheduler_plan_readers (scheduler, slo_class, shares, MAX_ROWS));
  llm_scheduler_note_turn (scheduler, slo_class);
  return n_rows;
}

static void
test_nothing (void)
{
  g_autoptr(LlmScheduler) scheduler = llm_scheduler_new (MAX_ROWS);

  LlmSloClass slo_class;

  g_assert_cmpuint (llm_scheduler_plan_writers (scheduler, shares, MAX_ROWS), ==, 0);
  g_assert_cmpuint (llm_scheduler_plan_readers (scheduler, LLM_SLO_RESPONSIVE, shares, MAX_ROWS),
                    ==, 0);
  g_assert_false (llm_scheduler_choose_class (scheduler, &slo_class));
}

static void
test_prompt_in_pieces (void)
{
  g_autoptr(LlmScheduler) scheduler = llm_scheduler_new (MAX_ROWS);
  LlmTicket *ticket = llm_scheduler_add (scheduler, "a", LLM_SLO_RESPONSIVE, 150, NULL);

  g_assert_cmpuint (write_row (scheduler, ticket), ==, 0);
  g_assert_cmpuint (read_rows (scheduler, ticket), ==, 64);
  g_assert_cmpuint (read_rows (scheduler, ticket), ==, 64);
  g_assert_cmpuint (read_rows (scheduler, ticket), ==, 22);
  g_assert_cmpuint (llm_ticket_get_n_prompt (ticket), ==, 0);
  g_assert_cmpuint (read_rows (scheduler, ticket), ==, 0);
  g_assert_cmpuint (write_row (scheduler, ticket), ==, 1);
  llm_scheduler_remove (scheduler, ticket);
  g_assert_cmpuint (write_row (scheduler, NULL), ==, 0);
}

/* Who writes and who reads are planned apart. */
static void
test_writers_and_readers (void)
{
  g_autoptr(LlmScheduler) scheduler = llm_scheduler_new (MAX_ROWS);
  LlmTicket *writer = llm_scheduler_add (scheduler, "a", LLM_SLO_BACKGROUND, 0, NULL);
  LlmTicket *reader = llm_scheduler_add (scheduler, "b", LLM_SLO_INTERACTIVE, 1000, NULL);

  for (guint i = 0; i < 10; i++)
    {
      g_assert_cmpuint (write_row (scheduler, writer), ==, 1);
      g_assert_cmpuint (write_row (scheduler, reader), ==, 0);
      g_assert_cmpuint (read_rows (scheduler, writer), ==, 0);
    }
  g_assert_cmpuint (llm_ticket_get_n_prompt (reader), ==, 1000 - 10 * MAX_ROWS);
}

static void
test_class_first (void)
{
  g_autoptr(LlmScheduler) scheduler = llm_scheduler_new (MAX_ROWS);
  LlmTicket *background = llm_scheduler_add (scheduler, "a", LLM_SLO_BACKGROUND, 1000, NULL);
  LlmTicket *interactive = llm_scheduler_add (scheduler, "b", LLM_SLO_INTERACTIVE, 100, NULL);

  g_assert_cmpuint (read_rows (scheduler, interactive), ==, 64);
  g_assert_cmpuint (llm_ticket_get_n_prompt (background), ==, 1000);
  g_assert_cmpuint (read_rows (scheduler, interactive), ==, 36);
  g_assert_cmpuint (llm_ticket_get_n_prompt (background), ==, 1000);
  g_assert_cmpuint (read_rows (scheduler, background), ==, 64);
}

/* One application with many calls gets no more than one with a single call. */
static void
test_fair_between_apps (void)
{
  g_autoptr(LlmScheduler) scheduler = llm_scheduler_new (MAX_ROWS);
  LlmTicket *modest = llm_scheduler_add (scheduler, "modest", LLM_SLO_RESPONSIVE, 100000, NULL);
  LlmTicket *greedy[7];
  guint served = 0;

  for (guint i = 0; i < G_N_ELEMENTS (greedy); i++)
    greedy[i] = llm_scheduler_add (scheduler, "greedy", LLM_SLO_RESPONSIVE, 100000, NULL);
  for (guint i = 0; i < 100; i++)
    served += read_rows (scheduler, modest);
  g_assert_cmpuint (served, ==, 50 * MAX_ROWS);

  /* And among the calls of one application the turn goes round. */
  for (guint i = 0; i < G_N_ELEMENTS (greedy); i++)
    g_assert_cmpuint (llm_ticket_get_n_prompt (greedy[i]), <=, 100000 - 7 * MAX_ROWS);
}

static void
test_newcomer_gets_no_arrears (void)
{
  g_autoptr(LlmScheduler) scheduler = llm_scheduler_new (MAX_ROWS);
  LlmTicket *old = llm_scheduler_add (scheduler, "old", LLM_SLO_RESPONSIVE, 100000, NULL);
  LlmTicket *young;
  guint served = 0;

  for (guint i = 0; i < 100; i++)
    read_rows (scheduler, old);
  young = llm_scheduler_add (scheduler, "young", LLM_SLO_RESPONSIVE, 100000, NULL);
  for (guint i = 0; i < 20; i++)
    served += read_rows (scheduler, young);
  g_assert_cmpuint (served, ==, 10 * MAX_ROWS);
}

static void
test_background_is_not_starved (void)
{
  g_autoptr(LlmScheduler) scheduler = llm_scheduler_new (MAX_ROWS);
  LlmTicket *background = llm_scheduler_add (scheduler, "a", LLM_SLO_BACKGROUND, 100000, NULL);
  guint served = 0;

  llm_scheduler_add (scheduler, "b", LLM_SLO_INTERACTIVE, 1000000, NULL);
  for (guint i = 0; i < 100; i++)
    served += read_rows (scheduler, background);
  g_assert_cmpuint (served, >=, 4 * MAX_ROWS);
  g_assert_cmpuint (served, <=, 10 * MAX_ROWS);
}

static void
test_parked (void)
{
  g_autoptr(LlmScheduler) scheduler = llm_scheduler_new (MAX_ROWS);
  LlmTicket *parked = llm_scheduler_add (scheduler, "a", LLM_SLO_INTERACTIVE, 0, NULL);
  LlmTicket *other = llm_scheduler_add (scheduler, "b", LLM_SLO_INTERACTIVE, 0, NULL);

  llm_ticket_set_parked (parked, TRUE);
  g_assert_cmpuint (write_row (scheduler, parked), ==, 0);
  g_assert_cmpuint (write_row (scheduler, other), ==, 1);
  llm_ticket_set_parked (parked, FALSE);
  g_assert_cmpuint (write_row (scheduler, parked), ==, 1);
}

/* With more writers than rows in a step, all get on. */
static void
test_many_writers (void)
{
  g_autoptr(LlmScheduler) scheduler = llm_scheduler_new (MAX_ROWS);
  guint served[100] = { 0 };

  for (guint i = 0; i < G_N_ELEMENTS (served); i++)
    {
      g_autofree char *app = g_strdup_printf ("app-%u", i);

      llm_scheduler_add (scheduler, app, LLM_SLO_RESPONSIVE, 0, GUINT_TO_POINTER (i));
    }
  for (guint i = 0; i < 100; i++)
    {
      guint n = llm_scheduler_plan_writers (scheduler, shares, MAX_ROWS);

      g_assert_cmpuint (n, ==, MAX_ROWS);
      for (guint j = 0; j < n; j++)
        {
          served[GPOINTER_TO_UINT (llm_ticket_get_data (shares[j].ticket))]++;
          llm_scheduler_charge (scheduler, &shares[j]);
        }
    }
  for (guint i = 0; i < G_N_ELEMENTS (served); i++)
    g_assert_cmpuint (served[i], ==, MAX_ROWS);
}

static void
test_set_rows (void)
{
  g_autoptr(LlmScheduler) scheduler = llm_scheduler_new (MAX_ROWS);
  LlmTicket *reader = llm_scheduler_add (scheduler, "a", LLM_SLO_RESPONSIVE, 100, NULL);

  llm_scheduler_set_rows (scheduler, 8);
  g_assert_cmpuint (read_rows (scheduler, reader), ==, 8);
}

static void
test_slo (void)
{
  LlmSloClass slo_class;
  LlmSlo slo;

  g_assert_true (llm_slo_class_parse ("interactive", &slo_class));
  g_assert_cmpint (slo_class, ==, LLM_SLO_INTERACTIVE);
  g_assert_false (llm_slo_class_parse ("urgent", &slo_class));

  slo = llm_slo_for_class (LLM_SLO_INTERACTIVE);
  g_assert_true (llm_slo_is_met (&slo, slo.ttft_ms, slo.tpot_ms));
  g_assert_false (llm_slo_is_met (&slo, slo.ttft_ms + 1, slo.tpot_ms));
  g_assert_false (llm_slo_is_met (&slo, slo.ttft_ms, slo.tpot_ms + 1));
  slo = llm_slo_for_class (LLM_SLO_BACKGROUND);
  g_assert_true (llm_slo_is_met (&slo, 1e9, 1e9));
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/scheduler/nothing", test_nothing);
  g_test_add_func ("/scheduler/prompt-in-pieces", test_prompt_in_pieces);
  g_test_add_func ("/scheduler/writers-and-readers", test_writers_and_readers);
  g_test_add_func ("/scheduler/class-first", test_class_first);
  g_test_add_func ("/scheduler/fair-between-apps", test_fair_between_apps);
  g_test_add_func ("/scheduler/newcomer-gets-no-arrears", test_newcomer_gets_no_arrears);
  g_test_add_func ("/scheduler/background-is-not-starved", test_background_is_not_starved);
  g_test_add_func ("/scheduler/parked", test_parked);
  g_test_add_func ("/scheduler/many-writers", test_many_writers);
  g_test_add_func ("/scheduler/set-rows", test_set_rows);
  g_test_add_func ("/slo/classes", test_slo);
  return g_test_run ();
}
