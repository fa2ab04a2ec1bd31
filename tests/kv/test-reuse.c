/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What is expected to be called next (L8), from calls that were drawn by a law. */

#include "kv/llm-kv-reuse.h"

#include <math.h>

#define N 16
#define N_CALLS 800
/* Of what is rounded. */
#define STEP 1.3

typedef struct
{
  LlmKvReuseModel model;
  LlmKvReuse contexts[N];
} World;

static void
open_world (World *world)
{
  *world = (World) { 0 };
  for (guint i = 0; i < N; i++)
    {
      char id[8];

      g_snprintf (id, sizeof id, "c%u", i);
      llm_kv_reuse_add (&world->model, &world->contexts[i], "app", id);
    }
}

static double
get_chance (World *world,
            guint  context)
{
  llm_kv_reuse_estimate (&world->model);
  return world->contexts[context].chance;
}

static double
get_sum (World *world)
{
  double sum = 0;

  llm_kv_reuse_estimate (&world->model);
  for (GList *l = world->model.contexts.head; l != NULL; l = l->next)
    sum += ((LlmKvReuse *) l->data)->chance;
  return sum;
}

static guint
pick (guint n)
{
  return (guint) g_test_rand_int_range (0, (gint32) n);
}

/* Nothing is made of noise: the last use decides between them. */
static void
test_alike (void)
{
  World world;
  double least = 1, most = 0;

  open_world (&world);
  for (guint i = 0; i < N_CALLS; i++)
    llm_kv_reuse_call (&world.model, &world.contexts[pick (N)], 100);
  for (guint i = 0; i < N; i++)
    {
      least = MIN (least, get_chance (&world, i));
      most = MAX (most, get_chance (&world, i));
    }
  g_assert_cmpfloat (most / least, <, 2.5);
  g_assert_cmpfloat (fabs (get_sum (&world) - 1), <, 0.3);
}

/* A context is 0.6 times as likely as the one called after it: the last one 0.4, … */
static void
test_recency (void)
{
  World world;
  double before = 1, error = 0;
  guint rank = 0;

  open_world (&world);
  for (guint i = 0; i < N_CALLS; i++)
    {
      GList *l = world.model.contexts.head;

      while (l->next != NULL && g_test_rand_double () < 0.6)
        l = l->next;
      llm_kv_reuse_call (&world.model, l->data, 100);
    }
  llm_kv_reuse_estimate (&world.model);
  for (GList *l = world.model.contexts.head; l != NULL; l = l->next, rank++)
    {
      double chance = ((LlmKvReuse *) l->data)->chance;
      double truth = 0.4 * pow (0.6, rank);

      g_assert_cmpfloat (chance, <=, before);
      if (rank < 4)
        g_assert_cmpfloat (fabs (log (chance / truth)), <, log (3));
      error += fabs (log (chance / truth)) / N;
      before = chance;
    }
  /* also of those that were hardly ever called, which bins can't tell from each other */
  g_assert_cmpfloat (error, <, 0.8);
  g_assert_cmpfloat (((LlmKvReuse *) world.model.contexts.tail->data)->chance, <, 0.02);
}

/* All take turns: the one that was not called for longest is next, and as often called as the
 * others. */
static void
test_turns (void)
{
  World world;
  double last = 0;

  open_world (&world);
  for (guint i = 0; i < N_CALLS; i++)
    llm_kv_reuse_call (&world.model, &world.contexts[i % N], 100);
  for (guint i = 0; i < 4; i++)
    last += get_chance (&world, (N_CALLS + i) % N);
  g_assert_cmpfloat (last, >, 0.7);
  g_assert_cmpfloat (get_chance (&world, (N_CALLS - 1) % N), <, 0.05);
}

/* Half of them are called five times as often as the others, in any order. */
static void
test_frequency (void)
{
  World world;

  open_world (&world);
  for (guint i = 0; i < N_CALLS; i++)
    {
      guint half = pick (6) > 0 ? 0 : N / 2;

      llm_kv_reuse_call (&world.model, &world.contexts[half + pick (N / 2)], 100);
    }
  /* The last use is none of a rare one's merit. */
  llm_kv_reuse_call (&world.model, &world.contexts[N - 1], 100);
  for (guint i = 0; i < N / 2; i++)
    for (guint j = N / 2; j < N; j++)
      g_assert_cmpfloat (get_chance (&world, i), >, get_chance (&world, j));
  g_assert_cmpfloat (get_chance (&world, 0), >, 0.4 / (N / 2));
}

/* Habits change. */
static void
test_change (void)
{
  World world;

  open_world (&world);
  for (guint i = 0; i < N_CALLS; i++)
    llm_kv_reuse_call (&world.model, &world.contexts[pick (4)], 100);
  for (guint i = 0; i < 3 * N_CALLS; i++)
    llm_kv_reuse_call (&world.model, &world.contexts[4 + pick (N - 4)], 100);
  for (guint i = 0; i < 4; i++)
    for (guint j = 4; j < N; j++)
      g_assert_cmpfloat (get_chance (&world, i), <, get_chance (&world, j));
}

/* What follows a context that went, goes on where it ended. */
static void
test_names (void)
{
  World world;
  LlmKvReuse other, same, next;

  open_world (&world);
  for (guint i = 0; i < 20; i++)
    llm_kv_reuse_call (&world.model, &world.contexts[3], 40);
  for (guint i = 0; i < 5; i++)
    llm_kv_reuse_call (&world.model, &world.contexts[4], 80);
  llm_kv_reuse_remove (&world.model, &world.contexts[3]);
  llm_kv_reuse_remove (&world.model, &world.contexts[4]);

  llm_kv_reuse_add (&world.model, &other, "other", "c3");
  g_assert_cmpfloat (other.history.n_calls, ==, 0);
  llm_kv_reuse_add (&world.model, &same, "app", "c3");
  g_assert_cmpfloat_with_epsilon (same.history.n_new, 40, 1e-9);
  g_assert_cmpfloat (same.history.n_calls, >, 19);
  llm_kv_reuse_add (&world.model, &next, "app", "new");
  g_assert_cmpfloat_with_epsilon (next.history.n_new, 80, 1e-9);
  g_assert_true (next.is_new);
  llm_kv_reuse_remove (&world.model, &next);

  /* what belongs to no application is alone */
  llm_kv_reuse_add (&world.model, &next, NULL, NULL);
  llm_kv_reuse_call (&world.model, &next, 7);
  llm_kv_reuse_remove (&world.model, &next);
  llm_kv_reuse_add (&world.model, &next, NULL, NULL);
  g_assert_cmpfloat (next.history.n_calls, ==, 0);
}

/* Whatever comes: the order of last use is that of a list that is kept apart, and chances are
 * numbers whose sum is nearly 1. */
static void
test_random (void)
{
  World world;
  gboolean is_there[N];
  guint used[N] = { 0 };

  open_world (&world);
  for (guint i = 0; i < N; i++)
    {
      is_there[i] = TRUE;
      used[i] = i + 1;
    }
  for (guint round = N + 1; round < 20000; round++)
    {
      guint i = pick (N), n = 0, last = G_MAXUINT;

      if (is_there[i] && pick (10) == 0)
        {
          llm_kv_reuse_remove (&world.model, &world.contexts[i]);
          is_there[i] = FALSE;
        }
      else if (!is_there[i])
        {
          char id[8];

          g_snprintf (id, sizeof id, "c%u", pick (2 * N));
          llm_kv_reuse_add (&world.model, &world.contexts[i], pick (2) == 0 ? "app" : "other", id);
          is_there[i] = TRUE;
          used[i] = round;
        }
      else
        {
          llm_kv_reuse_call (&world.model, &world.contexts[i], pick (2000));
          used[i] = round;
        }
      for (guint k = 0; k < N; k++)
        n += is_there[k];
      g_assert_cmpuint (world.model.contexts.length, ==, n);
      for (GList *l = world.model.contexts.head; l != NULL; l = l->next)
        {
          guint k = (guint) ((LlmKvReuse *) l->data - world.contexts);

          g_assert_true (is_there[k]);
          g_assert_cmpuint (used[k], <, last);
          last = used[k];
        }
      if (n == 0 || pick (10) > 0)
        continue;
      g_assert_cmpfloat (get_sum (&world), >, 1 / STEP);
      g_assert_cmpfloat (get_sum (&world), <, STEP);
    }
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/reuse/alike", test_alike);
  g_test_add_func ("/reuse/recency", test_recency);
  g_test_add_func ("/reuse/turns", test_turns);
  g_test_add_func ("/reuse/frequency", test_frequency);
  g_test_add_func ("/reuse/change", test_change);
  g_test_add_func ("/reuse/names", test_names);
  g_test_add_func ("/reuse/random", test_random);
  return g_test_run ();
}
