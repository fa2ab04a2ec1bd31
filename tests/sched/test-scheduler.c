/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "sched/llm-scheduler.h"

#include <string.h>

#define MAX_ROWS 64
/* Time of one row, in the tests that need any. */
#define ROW_US 1000

typedef struct
{
  LlmScheduler *scheduler;
  gint64 now_us;
  LlmAccount *accounts;
  GPtrArray *entries;   /* (element-type LlmSchedEntry) (owned) */
} Rig;

static LlmRowBudget shares[MAX_ROWS];

static void
entry_free (gpointer data)
{
  llm_app_unref (((LlmSchedEntry *) data)->app);
  g_free (data);
}

static void
rig_set_up (Rig          *rig,
            gconstpointer data)
{
  rig->accounts = llm_account_new ();
  rig->entries = g_ptr_array_new_with_free_func (entry_free);
  rig->scheduler = llm_scheduler_new (LLM_SCHEDULER_DEADLINE, MAX_ROWS, rig->accounts);
  rig->now_us = 1000000;
}

static void
rig_tear_down (Rig          *rig,
               gconstpointer data)
{
  llm_scheduler_free (rig->scheduler);
  llm_account_free (rig->accounts);
  g_ptr_array_unref (rig->entries);
}

static LlmSchedEntry *
add_like (Rig                 *rig,
          guint32              user,
          const char          *app,
          const LlmSchedEntry *config)
{
  LlmSchedEntry *entry = g_memdup2 (config, sizeof *config);

  entry->app = llm_app_intern (user, app);
  g_ptr_array_add (rig->entries, entry);
  llm_scheduler_add (rig->scheduler, entry);
  return entry;
}

static LlmSchedEntry *
add_for (Rig        *rig,
         guint32     user,
         const char *app,
         LlmSloClass slo_class,
         guint       n_prompt)
{
  const LlmSchedEntry config = {
    .slo = llm_slo_for_class (slo_class),
    .arrived_us = rig->now_us,
    .n_prompt = n_prompt,
  };

  return add_like (rig, user, app, &config);
}

static LlmSchedEntry *
add (Rig        *rig,
     const char *app,
     LlmSloClass slo_class,
     guint       n_prompt)
{
  return add_for (rig, 0, app, slo_class, n_prompt);
}

/* Plans a step of @lane and runs it to its end; returns the rows that @entry got. */
static guint
run_step (Rig        *rig,
          LlmQueueKind lane,
          LlmSchedEntry  *entry)
{
  guint n = llm_scheduler_plan (rig->scheduler, lane, rig->now_us, shares, MAX_ROWS);
  guint n_rows = 0;
  guint total = 0;

  for (guint i = 0; i < n; i++)
    {
      g_assert_cmpuint (shares[i].n_rows, >, 0);
      total += shares[i].n_rows;
      if (shares[i].entry == entry)
        n_rows += shares[i].n_rows;
    }
  g_assert_cmpuint (total, <=, MAX_ROWS);
  if (n == 0)
    return 0;
  llm_scheduler_begin_step (rig->scheduler, lane, shares, n);
  rig->now_us += total * ROW_US;
  llm_scheduler_note_turn (rig->scheduler, lane, rig->now_us, total * ROW_US);
  llm_scheduler_end_step (rig->scheduler, lane, shares, n, FALSE);
  if (lane == LLM_QUEUE_DECODE)
    for (guint i = 0; i < n; i++)
      llm_sched_entry_note_token (shares[i].entry, rig->now_us);
  return n_rows;
}

static guint
write_row (Rig       *rig,
           LlmSchedEntry *entry)
{
  return run_step (rig, LLM_QUEUE_DECODE, entry);
}

/* A step of those readers whose turn it is. */
static guint
read_rows (Rig       *rig,
           LlmSchedEntry *entry)
{
  LlmQueueKind lane = llm_scheduler_choose (rig->scheduler, rig->now_us, 1u << LLM_QUEUE_DECODE);

  return lane != LLM_QUEUE_NONE ? run_step (rig, lane, entry) : 0;
}

static void
test_nothing (Rig          *rig,
              gconstpointer data)
{
  g_assert_cmpint (llm_scheduler_choose (rig->scheduler, rig->now_us, 0), ==, LLM_QUEUE_NONE);
  for (LlmQueueKind lane = 0; lane < LLM_N_QUEUES; lane++)
    g_assert_cmpuint (llm_scheduler_plan (rig->scheduler, lane, rig->now_us, shares, MAX_ROWS), ==,
                      0);
  g_assert_cmpint (rig->scheduler->wake_us, ==, 0);
}

static void
test_prompt_in_pieces (Rig          *rig,
                       gconstpointer data)
{
  LlmSchedEntry *entry = add (rig, "a", LLM_SLO_RESPONSIVE, 150);

  g_assert_cmpuint (write_row (rig, entry), ==, 0);
  g_assert_cmpuint (read_rows (rig, entry), ==, 64);
  g_assert_cmpuint (read_rows (rig, entry), ==, 64);
  g_assert_cmpuint (read_rows (rig, entry), ==, 22);
  g_assert_cmpuint (entry->n_prompt, ==, 0);
  g_assert_cmpuint (read_rows (rig, entry), ==, 0);
  g_assert_cmpuint (write_row (rig, entry), ==, 1);
  llm_scheduler_remove (rig->scheduler, entry);
  g_assert_cmpuint (write_row (rig, NULL), ==, 0);
}

/* Who writes and who reads are planned apart. */
static void
test_writers_and_readers (Rig          *rig,
                          gconstpointer data)
{
  LlmSchedEntry *writer = add (rig, "a", LLM_SLO_BACKGROUND, 0);
  LlmSchedEntry *reader = add (rig, "b", LLM_SLO_INTERACTIVE, 1000);

  for (guint i = 0; i < 10; i++)
    {
      g_assert_cmpuint (write_row (rig, writer), ==, 1);
      g_assert_cmpuint (write_row (rig, reader), ==, 0);
      g_assert_cmpuint (read_rows (rig, writer), ==, 0);
    }
  g_assert_cmpuint (reader->n_prompt, ==, 1000 - 10 * MAX_ROWS);
}

static void
test_class_first (Rig          *rig,
                  gconstpointer data)
{
  LlmSchedEntry *background = add (rig, "a", LLM_SLO_BACKGROUND, 1000);
  LlmSchedEntry *interactive = add (rig, "b", LLM_SLO_INTERACTIVE, 100);

  g_assert_cmpuint (read_rows (rig, interactive), ==, 64);
  g_assert_cmpuint (background->n_prompt, ==, 1000);
  g_assert_cmpuint (read_rows (rig, interactive), ==, 36);
  g_assert_cmpuint (background->n_prompt, ==, 1000);
  g_assert_cmpuint (read_rows (rig, background), ==, 64);
}

/* One application with many calls gets no more than one with a single call. */
static void
test_fair_between_apps (Rig          *rig,
                        gconstpointer data)
{
  LlmSchedEntry *modest = add (rig, "modest", LLM_SLO_RESPONSIVE, 100000);
  LlmSchedEntry *greedy[7];
  guint served = 0;

  for (guint i = 0; i < G_N_ELEMENTS (greedy); i++)
    greedy[i] = add (rig, "greedy", LLM_SLO_RESPONSIVE, 100000);
  for (guint i = 0; i < 100; i++)
    served += read_rows (rig, modest);
  g_assert_cmpuint (served, >=, 45 * MAX_ROWS);
  g_assert_cmpuint (served, <=, 55 * MAX_ROWS);

  /* And among the calls of one application the turn goes round. */
  for (guint i = 0; i < G_N_ELEMENTS (greedy); i++)
    g_assert_cmpuint (greedy[i]->n_prompt, <=, 100000 - 6 * MAX_ROWS);
}

static void
test_newcomer_gets_no_arrears (Rig          *rig,
                               gconstpointer data)
{
  LlmSchedEntry *old = add (rig, "old", LLM_SLO_RESPONSIVE, 100000);
  LlmSchedEntry *young;
  guint served = 0;

  for (guint i = 0; i < 100; i++)
    read_rows (rig, old);
  young = add (rig, "young", LLM_SLO_RESPONSIVE, 100000);
  for (guint i = 0; i < 20; i++)
    served += read_rows (rig, young);
  g_assert_cmpuint (served, >=, 6 * MAX_ROWS);
  g_assert_cmpuint (served, <=, 14 * MAX_ROWS);
}

/* An application that ends its call and comes back is no newcomer. */
static void
test_no_gain_by_coming_back (Rig          *rig,
                             gconstpointer data)
{
  LlmSchedEntry *modest = add (rig, "modest", LLM_SLO_RESPONSIVE, 100000);
  guint served = 0;

  for (guint i = 0; i < 100; i++)
    {
      LlmSchedEntry *entry = add (rig, "quick", LLM_SLO_RESPONSIVE, MAX_ROWS);

      served += read_rows (rig, modest);
      llm_scheduler_remove (rig->scheduler, entry);
    }
  g_assert_cmpuint (served, >=, 45 * MAX_ROWS);
}

/* --- users, and who is over his share --- */

/* A user with many applications gets no more than one with a single one, and of these each as
 * much. */
static void
test_fair_between_users (Rig          *rig,
                         gconstpointer data)
{
  LlmSchedEntry *modest = add_for (rig, 1, "modest", LLM_SLO_RESPONSIVE, 100000);
  LlmSchedEntry *greedy[4];
  guint served = 0;

  for (guint i = 0; i < G_N_ELEMENTS (greedy); i++)
    {
      g_autofree char *app = g_strdup_printf ("app-%u", i);

      greedy[i] = add_for (rig, 2, app, LLM_SLO_RESPONSIVE, 100000);
    }
  for (guint i = 0; i < 100; i++)
    served += read_rows (rig, modest);
  g_assert_cmpuint (served, >=, 45 * MAX_ROWS);
  g_assert_cmpuint (served, <=, 55 * MAX_ROWS);
  for (guint i = 0; i < G_N_ELEMENTS (greedy); i++)
    g_assert_cmpuint (greedy[i]->n_prompt, <=, 100000 - 9 * MAX_ROWS);
}

/* Nothing is saved up by who has a call that stands still, and who goes on alone has all. */
static void
test_parked_user_gets_no_arrears (Rig          *rig,
                                  gconstpointer data)
{
  LlmSchedEntry *parked = add_for (rig, 1, "a", LLM_SLO_RESPONSIVE, 100000);
  LlmSchedEntry *other = add_for (rig, 2, "b", LLM_SLO_RESPONSIVE, 100000);
  guint served = 0;

  llm_sched_entry_set_suspended (parked, TRUE);
  for (guint i = 0; i < 100; i++)
    served += read_rows (rig, other);
  g_assert_cmpuint (served, ==, 100 * MAX_ROWS);
  llm_sched_entry_set_suspended (parked, FALSE);
  served = 0;
  for (guint i = 0; i < 20; i++)
    served += read_rows (rig, parked);
  g_assert_cmpuint (served, >=, 6 * MAX_ROWS);
  g_assert_cmpuint (served, <=, 14 * MAX_ROWS);
}

/* Rows of these calls in the step that was planned last. */
static guint
count_rows (LlmSchedEntry *const *entrys,
            guint             n_entrys)
{
  guint n = 0;

  for (guint i = 0; i < n_entrys; i++)
    for (guint j = 0; j < MAX_ROWS; j++)
      n += shares[j].entry == entrys[i] ? shares[j].n_rows : 0;
  return n;
}

/* Reads for user 2 what makes it one that is over its share beside user 1, and lets it write with
 * @n calls. */
static void
go_over (Rig        *rig,
         LlmSchedEntry **entrys,
         guint       n)
{
  LlmSchedEntry *reader = add_for (rig, 2, "b", LLM_SLO_INTERACTIVE, 100 * MAX_ROWS);

  for (guint i = 0; i < 30; i++)
    g_assert_cmpuint (run_step (rig, llm_scheduler_choose (rig->scheduler, rig->now_us,
                                                           1u << LLM_QUEUE_DECODE), reader), >, 0);
  llm_scheduler_remove (rig->scheduler, reader);
  for (guint i = 0; i < n; i++)
    entrys[i] = add_for (rig, 2, "b", LLM_SLO_INTERACTIVE, 0);
}

/* Who is over his share has one row of each step of answers while others write, and all of them
 * when these have ended. */
static void
test_rows_by_user (Rig          *rig,
                   gconstpointer data)
{
  LlmSchedEntry *writer = add_for (rig, 1, "a", LLM_SLO_INTERACTIVE, 0);
  LlmSchedEntry *greedy[8];
  guint served[G_N_ELEMENTS (greedy)] = { 0 };

  go_over (rig, greedy, G_N_ELEMENTS (greedy));
  for (guint i = 0; i < 16; i++)
    {
      memset (shares, 0, sizeof shares);
      g_assert_cmpuint (write_row (rig, writer), ==, 1);
      g_assert_cmpuint (count_rows (greedy, G_N_ELEMENTS (greedy)), ==, 1);
      for (guint j = 0; j < G_N_ELEMENTS (greedy); j++)
        served[j] += count_rows (&greedy[j], 1);
    }
  for (guint j = 0; j < G_N_ELEMENTS (greedy); j++)
    g_assert_cmpuint (served[j], ==, 2);

  llm_scheduler_remove (rig->scheduler, writer);
  memset (shares, 0, sizeof shares);
  write_row (rig, NULL);
  g_assert_cmpuint (count_rows (greedy, G_N_ELEMENTS (greedy)), ==, G_N_ELEMENTS (greedy));
}

/* What he reads keeps neither answers of others waiting, nor prompts for the end of its step; and
 * goes on when they have ended. */
static void
test_step_stands_still (Rig          *rig,
                        gconstpointer data)
{
  LlmSchedEntry *writer = add_for (rig, 1, "a", LLM_SLO_INTERACTIVE, 0);
  LlmSchedEntry *reader, *newcomer;
  LlmQueueKind lane;
  guint n;

  go_over (rig, NULL, 0);
  reader = add_for (rig, 2, "b", LLM_SLO_INTERACTIVE, 1000);
  llm_sched_entry_note_token (writer, rig->now_us);
  g_assert_cmpint (llm_scheduler_choose (rig->scheduler, rig->now_us, 0), ==, LLM_QUEUE_DECODE);
  llm_sched_entry_set_suspended (writer, TRUE);
  lane = llm_scheduler_choose (rig->scheduler, rig->now_us, 0);
  g_assert_cmpint (lane, ==, LLM_QUEUE_AHEAD);
  n = llm_scheduler_plan (rig->scheduler, lane, rig->now_us, shares, MAX_ROWS);
  g_assert_cmpuint (n, ==, 1);
  g_assert_true (shares[0].entry == reader);
  llm_scheduler_begin_step (rig->scheduler, lane, shares, n);
  llm_scheduler_note_turn (rig->scheduler, lane, rig->now_us += 2000, 2000);

  newcomer = add_for (rig, 3, "c", LLM_SLO_INTERACTIVE, MAX_ROWS);
  g_assert_cmpuint (read_rows (rig, newcomer), ==, MAX_ROWS);
  llm_scheduler_remove (rig->scheduler, newcomer);
  g_assert_cmpint (llm_scheduler_choose (rig->scheduler, rig->now_us, 0), ==, lane);
  /* of what it was behind no more is left than makes the other one just not over its share */
  llm_sched_entry_set_suspended (writer, FALSE);
  llm_scheduler_note_turn (rig->scheduler, lane, rig->now_us += 60000, 60000);
  g_assert_cmpint (llm_scheduler_choose (rig->scheduler, rig->now_us, 0), ==, LLM_QUEUE_DECODE);
  llm_scheduler_remove (rig->scheduler, writer);
  g_assert_cmpint (llm_scheduler_choose (rig->scheduler, rig->now_us, 0), ==, lane);
}

/* The class of their calls is no way around it: beside another user's answer in the lowest class
 * one of each step is theirs, and their prompts go behind. */
static void
test_class_is_no_way_around (Rig          *rig,
                             gconstpointer data)
{
  LlmSchedEntry *writer = add_for (rig, 1, "a", LLM_SLO_BACKGROUND, 0);
  LlmSchedEntry *greedy[8];
  LlmSchedEntry *reader;

  go_over (rig, greedy, G_N_ELEMENTS (greedy));
  for (guint i = 0; i < 8; i++)
    {
      memset (shares, 0, sizeof shares);
      g_assert_cmpuint (write_row (rig, writer), ==, 1);
      g_assert_cmpuint (count_rows (greedy, G_N_ELEMENTS (greedy)), ==, 1);
    }

  add_for (rig, 2, "b", LLM_SLO_INTERACTIVE, 1000);
  g_assert_cmpint (llm_scheduler_choose (rig->scheduler, rig->now_us, 0), ==, LLM_QUEUE_DECODE);
  reader = add_for (rig, 1, "a", LLM_SLO_BACKGROUND, 1000);
  g_assert_cmpuint (read_rows (rig, reader), ==, MAX_ROWS);
}

/* Nor with a model of its own: the turn between models is by users, then by class. */
static void
test_class_between_models (Rig          *rig,
                           gconstpointer data)
{
  g_autoptr(LlmScheduler) scheduler = llm_scheduler_new (LLM_SCHEDULER_DEADLINE, MAX_ROWS,
                                                         rig->accounts);
  Rig second = { scheduler, rig->now_us, rig->accounts, rig->entries };
  LlmSchedEntry *modest = add_for (rig, 1, "a", LLM_SLO_BACKGROUND, 100000);
  LlmSchedEntry *greedy = add_for (&second, 2, "b", LLM_SLO_INTERACTIVE, 100000);
  double least_us = llm_scheduler_get_least_us (rig->scheduler, rig->now_us);

  g_assert_cmpuint (llm_scheduler_get_class (rig->scheduler, rig->now_us, least_us), ==,
                    LLM_SLO_BACKGROUND);
  g_assert_cmpuint (llm_scheduler_get_class (scheduler, rig->now_us, least_us), ==,
                    LLM_SLO_INTERACTIVE);
  for (guint i = 0; i < 30; i++)
    read_rows (&second, greedy);
  g_assert_cmpfloat (llm_scheduler_get_least_us (scheduler, rig->now_us), >, least_us);
  g_assert_cmpuint (llm_scheduler_get_class (scheduler, rig->now_us, least_us), ==,
                    LLM_N_SLO_CLASSES);
  llm_scheduler_remove (rig->scheduler, modest);
  llm_scheduler_remove (scheduler, greedy);
}

/* Who is over his share has less, but not one of his classes nothing. */
static void
test_no_class_starves_over_share (Rig          *rig,
                                  gconstpointer data)
{
  LlmSchedEntry *background;
  guint served = 0;

  add_for (rig, 1, "a", LLM_SLO_INTERACTIVE, 0);
  go_over (rig, NULL, 0);
  add_for (rig, 2, "b", LLM_SLO_INTERACTIVE, 100000);
  background = add_for (rig, 2, "b", LLM_SLO_BACKGROUND, 100000);
  for (guint i = 0; i < 100; i++)
    served += read_rows (rig, background);
  g_assert_cmpuint (served, >=, 2 * MAX_ROWS);
  g_assert_cmpuint (served, <=, 10 * MAX_ROWS);
}

static void
test_background_is_not_starved (Rig          *rig,
                                gconstpointer data)
{
  LlmSchedEntry *background = add (rig, "a", LLM_SLO_BACKGROUND, 100000);
  guint served = 0;

  add (rig, "b", LLM_SLO_INTERACTIVE, 1000000);
  for (guint i = 0; i < 100; i++)
    served += read_rows (rig, background);
  g_assert_cmpuint (served, >=, 2 * MAX_ROWS);
  g_assert_cmpuint (served, <=, 10 * MAX_ROWS);
}

static void
test_parked (Rig          *rig,
             gconstpointer data)
{
  LlmSchedEntry *parked = add (rig, "a", LLM_SLO_INTERACTIVE, 0);
  LlmSchedEntry *other = add (rig, "b", LLM_SLO_INTERACTIVE, 0);

  llm_sched_entry_set_suspended (parked, TRUE);
  g_assert_cmpuint (write_row (rig, parked), ==, 0);
  g_assert_cmpuint (write_row (rig, other), ==, 1);
  llm_sched_entry_set_suspended (parked, FALSE);
  g_assert_cmpuint (write_row (rig, parked), ==, 1);
}

/* Rows of a tree fit into the target for the time per token; where reading the weights alone takes
 * longer than that, they are not fewer for it. */
static void
test_rows_of_trees (Rig          *rig,
                    gconstpointer data)
{
  LlmSchedEntry *writer = add (rig, "a", LLM_SLO_RESPONSIVE, 0);
  LlmCostCurve *curve = &rig->scheduler->costs.curves[LLM_COST_DECODE];

  for (guint i = 0; i < LLM_COST_POINTS; i++)
    {
      curve->us[i] = 20000.0 * llm_cost_rows[LLM_COST_DECODE][i];
      curve->n_seen[i] = 1;
    }
  curve->n_steps = 1000;
  llm_sched_entry_set_n_decode (writer, 40);
  g_assert_cmpuint (write_row (rig, writer), <, 20);
  rig->scheduler->reads.whole_us = 100000;
  g_assert_cmpuint (write_row (rig, writer), <, 20);
  rig->scheduler->reads.whole_us = 600000;
  g_assert_cmpuint (write_row (rig, writer), ==, 40);
}

/* With more writers than rows in a step, all get on. */
static void
test_many_writers (Rig          *rig,
                   gconstpointer data)
{
  LlmSchedEntry *writers[100];
  guint served[G_N_ELEMENTS (writers)] = { 0 };
  guint total = 0;

  for (guint i = 0; i < G_N_ELEMENTS (writers); i++)
    {
      g_autofree char *app = g_strdup_printf ("app-%u", i);

      writers[i] = add (rig, app, LLM_SLO_RESPONSIVE, 0);
    }
  while (total < 50 * G_N_ELEMENTS (writers))
    {
      g_assert_cmpuint (write_row (rig, NULL), ==, 0);
      total = 0;
      for (guint i = 0; i < G_N_ELEMENTS (writers); i++)
        for (guint j = 0; j < MAX_ROWS && shares[j].entry != NULL; j++)
          served[i] += shares[j].entry == writers[i];
      for (guint i = 0; i < G_N_ELEMENTS (writers); i++)
        total += served[i];
      for (guint j = 0; j < MAX_ROWS; j++)
        shares[j] = (LlmRowBudget) { NULL, 0 };
    }
  for (guint i = 0; i < G_N_ELEMENTS (writers); i++)
    {
      g_assert_cmpuint (served[i], >=, 48);
      g_assert_cmpuint (served[i], <=, 52);
    }
}

/* --- deadlines --- */

static LlmSchedEntry *
add_with_ttft (Rig        *rig,
               const char *app,
               double      ttft_ms,
               guint       n_prompt)
{
  const LlmSchedEntry config = {
    .slo = { LLM_SLO_RESPONSIVE, ttft_ms, 250 },
    .arrived_us = rig->now_us,
    .n_prompt = n_prompt,
  };

  return add_like (rig, 0, app, &config);
}

static void
test_earliest_deadline (Rig          *rig,
                        gconstpointer data)
{
  LlmSchedEntry *late = add_with_ttft (rig, "a", 20000, MAX_ROWS);
  LlmSchedEntry *soon = add_with_ttft (rig, "a", 4000, MAX_ROWS);
  LlmSchedEntry *between = add_with_ttft (rig, "b", 10000, MAX_ROWS);

  g_assert_cmpuint (read_rows (rig, soon), ==, MAX_ROWS);
  g_assert_cmpuint (read_rows (rig, between), ==, MAX_ROWS);
  g_assert_cmpuint (read_rows (rig, late), ==, MAX_ROWS);
}

/* A call that is late in any case does not make those late that need not be. */
static void
test_lost_one_goes_behind (Rig          *rig,
                           gconstpointer data)
{
  LlmSchedEntry *lost = add_with_ttft (rig, "a", 1500, 1000);
  LlmSchedEntry *other;

  rig->now_us += 5000000;
  other = add_with_ttft (rig, "b", 2000, MAX_ROWS);
  g_assert_cmpuint (read_rows (rig, other), ==, MAX_ROWS);
  g_assert_cmpuint (read_rows (rig, lost), ==, MAX_ROWS);
}

/* A call of a lower class goes first when it would be late, and the other would not be for that. */
static void
test_class_that_can_wait (Rig          *rig,
                          gconstpointer data)
{
  LlmSchedEntry *responsive = add (rig, "a", LLM_SLO_RESPONSIVE, MAX_ROWS);
  LlmSchedEntry *interactive;

  rig->now_us += 4400000;
  interactive = add (rig, "b", LLM_SLO_INTERACTIVE, MAX_ROWS);
  g_assert_cmpuint (read_rows (rig, responsive), ==, MAX_ROWS);
  g_assert_cmpuint (read_rows (rig, interactive), ==, MAX_ROWS);
}

/* Readers have their turn until the next token of an answer is due, and no longer. */
static void
test_tokens_in_time (Rig          *rig,
                     gconstpointer data)
{
  LlmSchedEntry *writer = add (rig, "a", LLM_SLO_INTERACTIVE, 0);
  LlmCostModel *costs = &rig->scheduler->costs;
  gint64 last_us = rig->now_us;
  gint64 longest_us = 0;
  guint n_tokens = 0;

  add (rig, "b", LLM_SLO_INTERACTIVE, 100000);
  for (guint i = 0; i < 8; i++)
    llm_cost_model_observe (costs, LLM_COST_DECODE, 1, 0, 22000);
  llm_sched_entry_note_token (writer, rig->now_us);
  while (n_tokens < 50)
    {
      LlmQueueKind lane = llm_scheduler_choose (rig->scheduler, rig->now_us, 0);

      if (lane != LLM_QUEUE_DECODE)
        {
          rig->now_us += 2000;
          llm_scheduler_note_turn (rig->scheduler, lane, rig->now_us, 2000);
          continue;
        }
      g_assert_cmpuint (llm_scheduler_plan (rig->scheduler, lane, rig->now_us, shares, MAX_ROWS),
                        ==, 1);
      llm_scheduler_begin_step (rig->scheduler, lane, shares, 1);
      rig->now_us += 22000;
      llm_scheduler_note_turn (rig->scheduler, lane, rig->now_us, 22000);
      llm_scheduler_end_step (rig->scheduler, lane, shares, 1, TRUE);
      llm_sched_entry_note_token (writer, rig->now_us);
      longest_us = MAX (longest_us, rig->now_us - last_us);
      last_us = rig->now_us;
      n_tokens++;
    }
  g_assert_cmpint (longest_us, <=, 100000);
  g_assert_cmpint (longest_us, >=, 50000);
}

/* A step of answers that nobody waits for stands still in the middle for a call that somebody
 * does. */
static void
test_background_yields (Rig          *rig,
                        gconstpointer data)
{
  add (rig, "a", LLM_SLO_BACKGROUND, 0);
  g_assert_cmpint (llm_scheduler_choose (rig->scheduler, rig->now_us, 0), ==, LLM_QUEUE_DECODE);
  g_assert_cmpuint (llm_scheduler_plan (rig->scheduler, LLM_QUEUE_DECODE, rig->now_us, shares,
                                        MAX_ROWS), ==, 1);
  llm_scheduler_begin_step (rig->scheduler, LLM_QUEUE_DECODE, shares, 1);
  g_assert_cmpint (llm_scheduler_choose (rig->scheduler, rig->now_us, 0), ==, LLM_QUEUE_DECODE);

  add (rig, "b", LLM_SLO_INTERACTIVE, 1000);
  g_assert_cmpint (llm_scheduler_choose (rig->scheduler, rig->now_us, 0), ==,
                   LLM_QUEUE_PREFILL + LLM_SLO_INTERACTIVE);
  rig->now_us += 2000000;
  g_assert_cmpint (llm_scheduler_choose (rig->scheduler, rig->now_us, 0), ==, LLM_QUEUE_DECODE);
}

/* --- the pace of background work --- */

static void
test_pace (Rig          *rig,
           gconstpointer data)
{
  LlmSchedEntry *background = add (rig, "a", LLM_SLO_BACKGROUND, 1000);
  LlmSchedEntry *other;
  gint64 begin_us, busy_us = 0;

  llm_scheduler_set_pace (rig->scheduler, LLM_PACE_WAIT);
  g_assert_cmpuint (read_rows (rig, background), ==, 0);
  other = add (rig, "b", LLM_SLO_INTERACTIVE, 10);
  g_assert_cmpuint (read_rows (rig, other), ==, 10);
  g_assert_cmpuint (read_rows (rig, background), ==, 0);
  llm_scheduler_remove (rig->scheduler, other);

  llm_scheduler_set_pace (rig->scheduler, LLM_PACE_SLOW);
  begin_us = rig->now_us;
  while (background->n_prompt > 0)
    {
      gint64 before_us = rig->now_us;

      if (read_rows (rig, background) == 0)
        {
          g_assert_cmpint (rig->scheduler->wake_us, >, rig->now_us);
          rig->now_us = rig->scheduler->wake_us;
        }
      else
        busy_us += rig->now_us - before_us;
    }
  g_assert_cmpint (rig->now_us - begin_us, >=, 2 * busy_us - MAX_ROWS * ROW_US);
  g_assert_cmpint (llm_scheduler_choose (rig->scheduler, rig->now_us + 1000000, 0), ==,
                   LLM_QUEUE_DECODE);
}

/* --- forecasts --- */

static void
teach (LlmCostModel *costs)
{
  for (guint i = 0; i < 20; i++)
    {
      llm_cost_model_observe (costs, LLM_COST_PREFILL, 64, 0, 64000);
      llm_cost_model_observe (costs, LLM_COST_DECODE, 1, 0, 20000);
    }
}

static void
test_forecast (Rig          *rig,
               gconstpointer data)
{
  g_autoptr(LlmApp) app = llm_app_intern (0, "z");
  LlmSchedEntry config = {
    .app = app,
    .slo = llm_slo_for_class (LLM_SLO_INTERACTIVE),
    .arrived_us = rig->now_us,
    .n_prompt = 64,
  };
  LlmForecast empty, busy, restored;

  teach (&rig->scheduler->costs);
  llm_scheduler_forecast (rig->scheduler, &config, rig->now_us, &empty);
  g_assert_cmpfloat_with_epsilon (empty.first_us, 64000, 2000);
  g_assert_cmpfloat_with_epsilon (empty.alone_us, empty.first_us, 1);
  g_assert_cmpfloat_with_epsilon (empty.latest_us, empty.first_us, 1);
  g_assert_cmpfloat_with_epsilon (empty.token_us, 20000, 2000);

  /* Others before it count, those behind it do not. */
  for (guint i = 0; i < 9; i++)
    add (rig, "a", LLM_SLO_BACKGROUND, 64);
  llm_scheduler_forecast (rig->scheduler, &config, rig->now_us, &busy);
  g_assert_cmpfloat (busy.first_us, <, empty.first_us * 1.1);
  for (guint i = 0; i < 9; i++)
    add (rig, "a", LLM_SLO_INTERACTIVE, 64);
  llm_scheduler_forecast (rig->scheduler, &config, rig->now_us, &busy);
  g_assert_cmpfloat (busy.first_us, >, empty.first_us * 8);
  g_assert_cmpfloat (busy.first_us, <, empty.first_us * 13);
  g_assert_cmpfloat (busy.latest_us, >=, busy.first_us);
  g_assert_cmpfloat_with_epsilon (busy.alone_us, 64000, 2000);

  /* Those that are late already are behind it, but who comes later goes before it as well. */
  config.arrived_us = rig->now_us += 1000000;
  llm_scheduler_forecast (rig->scheduler, &config, rig->now_us, &restored);
  g_assert_cmpfloat (restored.first_us, <, empty.first_us * 1.5);
  g_assert_cmpfloat (restored.latest_us, >=, busy.latest_us);

  config.slo = llm_slo_for_class (LLM_SLO_BACKGROUND);
  llm_scheduler_forecast (rig->scheduler, &config, rig->now_us, &busy);
  g_assert_cmpfloat (busy.first_us, >, empty.first_us * 17);

  config.restore_bytes = 100 << 20;
  llm_scheduler_forecast (rig->scheduler, &config, rig->now_us, &restored);
  g_assert_cmpfloat (restored.first_us, >, busy.first_us + 50000);
}

/* Who is over his share waits longer beside an answer of another user, and it is said: but his call
 * is refused for the others before it only, not for what it takes itself. */
static void
test_forecast_over_share (Rig          *rig,
                          gconstpointer data)
{
  g_autoptr(LlmApp) second = llm_app_intern (2, "b");
  g_autoptr(LlmApp) third = llm_app_intern (3, "b");
  LlmSchedEntry config = {
    .app = second,
    .slo = llm_slo_for_class (LLM_SLO_INTERACTIVE),
    .n_prompt = 640,
  };
  LlmForecast other, over, alone;

  teach (&rig->scheduler->costs);
  add_for (rig, 1, "a", LLM_SLO_INTERACTIVE, 0);
  go_over (rig, NULL, 0);
  config.arrived_us = rig->now_us;
  llm_scheduler_forecast (rig->scheduler, &config, rig->now_us, &over);
  config.app = third;
  llm_scheduler_forecast (rig->scheduler, &config, rig->now_us, &other);
  g_assert_cmpfloat (over.first_us, >, 3 * other.first_us);
  g_assert_cmpfloat_with_epsilon (over.latest_us, other.latest_us, 1);

  /* What the same user has before it does count. */
  config.app = second;
  add_for (rig, 2, "b", LLM_SLO_INTERACTIVE, 640);
  llm_scheduler_forecast (rig->scheduler, &config, rig->now_us, &alone);
  g_assert_cmpfloat (alone.latest_us, >, 3 * other.latest_us);
}

/* Another user's many calls in a higher class make no forecast longer than is fair. */
static void
test_forecast_of_lower_class (Rig          *rig,
                              gconstpointer data)
{
  g_autoptr(LlmApp) app = llm_app_intern (1, "a");
  LlmSchedEntry config = {
    .app = app,
    .slo = llm_slo_for_class (LLM_SLO_RESPONSIVE),
    .arrived_us = rig->now_us,
    .n_prompt = 64,
  };
  LlmForecast forecast;

  teach (&rig->scheduler->costs);
  for (guint i = 0; i < 100; i++)
    add_for (rig, 2, "b", LLM_SLO_INTERACTIVE, 64);
  llm_scheduler_forecast (rig->scheduler, &config, rig->now_us, &forecast);
  g_assert_cmpfloat (forecast.latest_us, <, 10 * 64000);
  g_assert_cmpfloat (forecast.first_us, <, 10 * 64000);

  /* its own user's do */
  for (guint i = 0; i < 100; i++)
    add_for (rig, 1, "a", LLM_SLO_INTERACTIVE, 64);
  llm_scheduler_forecast (rig->scheduler, &config, rig->now_us, &forecast);
  g_assert_cmpfloat (forecast.latest_us, >, 100 * 64000);
}

/* A request may have several rows of a step of decode, as far as the step has time for them; every
 * other one has its row first. */
static void
test_row_budgets (Rig          *rig,
                  gconstpointer data)
{
  const guint kinds[] = { LLM_SCHEDULER_DEADLINE, LLM_SCHEDULER_FIFO };

  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      g_autoptr(LlmScheduler) scheduler = llm_scheduler_new (kinds[i], MAX_ROWS, rig->accounts);
      Rig own = { scheduler, rig->now_us, rig->accounts, rig->entries };
      const LlmSchedEntry ahead = {
        .slo = llm_slo_for_class (LLM_SLO_RESPONSIVE),
        .arrived_us = rig->now_us,
        .n_decode = 5,
      };
      LlmSchedEntry *many = add_like (&own, 1, "a", &ahead);
      LlmSchedEntry *one = add_for (&own, 2, "b", LLM_SLO_RESPONSIVE, 0);
      guint n;

      for (guint j = 0; j < 20; j++)
        for (guint rows = 1; rows <= 8; rows++)
          llm_cost_model_observe (&scheduler->costs, LLM_COST_DECODE, rows, 0,
                                  rows * 1000);
      n = llm_scheduler_plan (scheduler, LLM_QUEUE_DECODE, own.now_us, shares, MAX_ROWS);
      g_assert_cmpuint (n, ==, 2);
      for (guint j = 0; j < n; j++)
        g_assert_cmpuint (shares[j].n_rows, ==, shares[j].entry == many ? 5 : 1);

      /* Rows that were not kept do not count as positions. */
      g_assert_cmpuint (write_row (&own, many), ==, 5);
      g_assert_cmpuint (many->depth, ==, 5);
      llm_sched_entry_take_back (many, 3);
      g_assert_cmpuint (many->depth, ==, 2);
      g_assert_cmpuint (one->depth, ==, 1);

      /* Where a step has time for few rows, others are not made late by guesses. */
      n = llm_scheduler_plan (scheduler, LLM_QUEUE_DECODE, own.now_us, shares, 3);
      g_assert_cmpuint (n, ==, 2);
      for (guint j = 0; j < n; j++)
        g_assert_cmpuint (shares[j].n_rows, ==, shares[j].entry == many ? 2 : 1);
      llm_scheduler_remove (scheduler, many);
      llm_scheduler_remove (scheduler, one);
    }
}

static void
test_fifo (Rig          *rig,
           gconstpointer data)
{
  g_autoptr(LlmScheduler) fifo = llm_scheduler_new (LLM_SCHEDULER_FIFO, MAX_ROWS, rig->accounts);
  Rig own = { fifo, rig->now_us, rig->accounts, rig->entries };
  LlmSchedEntry *first = add (&own, "a", LLM_SLO_BACKGROUND, 100);
  LlmSchedEntry *second = add (&own, "b", LLM_SLO_INTERACTIVE, 10);

  g_assert_cmpuint (read_rows (&own, first), ==, 64);
  g_assert_cmpuint (read_rows (&own, second), ==, 10);
  g_assert_cmpuint (first->n_prompt, ==, 0);
}

static void
test_slo (void)
{
  LlmSloClass slo_class;
  LlmSlo slo;

  g_assert_true (llm_slo_class_parse ("interactive", &slo_class));
  g_assert_cmpint (slo_class, ==, LLM_SLO_INTERACTIVE);
  g_assert_false (llm_slo_class_parse ("urgent", &slo_class));
  for (slo_class = 0; slo_class < LLM_N_SLO_CLASSES; slo_class++)
    {
      LlmSloClass found;

      g_assert_true (llm_slo_class_parse (llm_slo_class_to_string (slo_class), &found));
      g_assert_cmpint (found, ==, slo_class);
    }

  slo = llm_slo_for_class (LLM_SLO_INTERACTIVE);
  g_assert_true (llm_slo_is_met (&slo, slo.ttft_ms, slo.tpot_ms));
  g_assert_false (llm_slo_is_met (&slo, slo.ttft_ms + 1, slo.tpot_ms));
  g_assert_false (llm_slo_is_met (&slo, slo.ttft_ms, slo.tpot_ms + 1));
  slo = llm_slo_for_class (LLM_SLO_BACKGROUND);
  g_assert_true (llm_slo_is_met (&slo, 1e9, 1e9));

  g_assert_cmpint (llm_slo_class_for_ms (0, 0), ==, LLM_SLO_RESPONSIVE);
  g_assert_cmpint (llm_slo_class_for_ms (300, 0), ==, LLM_SLO_INTERACTIVE);
  g_assert_cmpint (llm_slo_class_for_ms (30000, 100), ==, LLM_SLO_INTERACTIVE);
  g_assert_cmpint (llm_slo_class_for_ms (30000, 1000), ==, LLM_SLO_RESPONSIVE);
}

#define ADD(name, function) \
  g_test_add (name, Rig, NULL, rig_set_up, function, rig_tear_down)

/* Requests that decode, and those that can wait, are not waited for. */
static void
test_count_ahead (Rig          *rig,
                  gconstpointer data)
{
  LlmSchedEntry *first = add (rig, "a", LLM_SLO_RESPONSIVE, 100);
  LlmSchedEntry *second = add (rig, "b", LLM_SLO_RESPONSIVE, 100);
  LlmSchedEntry *background = add (rig, "c", LLM_SLO_BACKGROUND, 100);
  LlmSchedEntry *third = add (rig, "d", LLM_SLO_RESPONSIVE, 100);

  add (rig, "e", LLM_SLO_INTERACTIVE, 0);
  run_step (rig, LLM_QUEUE_PREFILL + LLM_SLO_RESPONSIVE, first);
  g_assert_cmpuint (llm_scheduler_count_ahead (rig->scheduler, first), ==, 0);
  g_assert_cmpuint (llm_scheduler_count_ahead (rig->scheduler, second), ==, 1);
  g_assert_cmpuint (llm_scheduler_count_ahead (rig->scheduler, third), ==, 2);
  g_assert_cmpuint (llm_scheduler_count_ahead (rig->scheduler, background), ==, 3);
  llm_sched_entry_set_suspended (first, TRUE);
  g_assert_cmpuint (llm_scheduler_count_ahead (rig->scheduler, third), ==, 1);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("/scheduler/nothing", test_nothing);
  ADD ("/scheduler/prompt-in-pieces", test_prompt_in_pieces);
  ADD ("/scheduler/writers-and-readers", test_writers_and_readers);
  ADD ("/scheduler/class-first", test_class_first);
  ADD ("/scheduler/fair-between-apps", test_fair_between_apps);
  ADD ("/scheduler/newcomer-gets-no-arrears", test_newcomer_gets_no_arrears);
  ADD ("/scheduler/no-gain-by-coming-back", test_no_gain_by_coming_back);
  ADD ("/scheduler/fair-between-users", test_fair_between_users);
  ADD ("/scheduler/parked-user-gets-no-arrears", test_parked_user_gets_no_arrears);
  ADD ("/scheduler/rows-by-user", test_rows_by_user);
  ADD ("/scheduler/step-stands-still", test_step_stands_still);
  ADD ("/scheduler/class-is-no-way-around", test_class_is_no_way_around);
  ADD ("/scheduler/class-between-models", test_class_between_models);
  ADD ("/scheduler/no-class-starves-over-share", test_no_class_starves_over_share);
  ADD ("/scheduler/background-is-not-starved", test_background_is_not_starved);
  ADD ("/scheduler/parked", test_parked);
  ADD ("/scheduler/many-writers", test_many_writers);
  ADD ("/scheduler/rows-of-trees", test_rows_of_trees);
  ADD ("/scheduler/earliest-deadline", test_earliest_deadline);
  ADD ("/scheduler/lost-one-goes-behind", test_lost_one_goes_behind);
  ADD ("/scheduler/class-that-can-wait", test_class_that_can_wait);
  ADD ("/scheduler/tokens-in-time", test_tokens_in_time);
  ADD ("/scheduler/background-yields", test_background_yields);
  ADD ("/scheduler/pace", test_pace);
  ADD ("/scheduler/forecast", test_forecast);
  ADD ("/scheduler/forecast-over-share", test_forecast_over_share);
  ADD ("/scheduler/forecast-of-lower-class", test_forecast_of_lower_class);
  ADD ("/scheduler/count-ahead", test_count_ahead);
  ADD ("/scheduler/row-budgets", test_row_budgets);
  ADD ("/scheduler/fifo", test_fifo);
  g_test_add_func ("/slo/classes", test_slo);
  return g_test_run ();
}
