/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The policy, by single readings and by thousands of simulated afternoons. */

#include "memory/llm-memory-policy.h"

#include "support/llm-test-memory.h"

#define MIB (G_GUINT64_CONSTANT (1) << 20)
#define GIB (G_GUINT64_CONSTANT (1) << 30)
#define STEPS_PER_SECOND (G_USEC_PER_SEC / LLM_TEST_MEMORY_STEP_US)

/* --- single readings --- */

typedef struct
{
  LlmMemoryPolicy policy;
  LlmMemoryReading reading;
  LlmMemoryHeld held;
  LlmMemoryAction action;
} Fixture;

static void
set_up (Fixture      *fixture,
        gconstpointer data)
{
  llm_memory_policy_init (&fixture->policy);
  fixture->reading = (LlmMemoryReading) { .total = 16 * GIB, .available = 12 * GIB };
  fixture->held =
    (LlmMemoryHeld) { .anonymous = GIB, .backed = GIB, .used = GIB, .allowed = 12 * GIB };
}

static void
tear_down (Fixture      *fixture,
           gconstpointer data)
{
}

static void
decide_at (Fixture *fixture,
           gint64   ms)
{
  fixture->reading.time_us = ms * 1000;
  llm_memory_policy_decide (&fixture->policy, &fixture->reading, &fixture->held, &fixture->action);
}

static void
test_calm (Fixture      *fixture,
           gconstpointer data)
{
  fixture->reading.available = 14 * GIB;
  decide_at (fixture, 1000);
  g_assert_cmpint (fixture->action.level, ==, LLM_PRESSURE_NONE);
  g_assert_cmpuint (fixture->action.budget, ==, 12 * GIB);
  g_assert_cmpuint (fixture->action.give_anonymous + fixture->action.give_backed, ==, 0);
  g_assert_false (fixture->action.is_tight);
  g_assert_true (fixture->action.may_grow);
  fixture->held.is_trimmed = TRUE;
  decide_at (fixture, 2000);
  g_assert_false (fixture->action.may_grow);
  /* an unknown machine limits nothing */
  fixture->reading.total = fixture->reading.available = 0;
  decide_at (fixture, 3000);
  g_assert_cmpuint (fixture->action.budget, ==, 12 * GIB);
}

/* What others took is not ours to hold; what is left of the group's limit is, but for the
 * reserve. */
static void
test_group (Fixture      *fixture,
            gconstpointer data)
{
  fixture->held =
    (LlmMemoryHeld) { .anonymous = 300 * MIB, .backed = 600 * MIB, .used = 600 * MIB,
                      .allowed = 12 * GIB };
  fixture->reading.group = (LlmGroupUsage) { 1000 * MIB, 1000 * MIB, 600 * MIB };
  decide_at (fixture, 1000);
  g_assert_cmpuint (fixture->action.budget, ==, 400 * MIB);
  g_assert_cmpuint (fixture->action.urgent_budget, ==, 875 * MIB);
  g_assert_cmpuint (fixture->action.give_anonymous, ==, 0);
  g_assert_cmpuint (fixture->action.give_backed, ==, 100 * MIB);
  fixture->held.is_busy = TRUE;
  decide_at (fixture, 1050);
  g_assert_cmpuint (fixture->action.give_backed, ==, 0);

  /* 650 MiB are others': the file pages are gone already, and 20 MiB of ours have to follow */
  fixture->held.backed = 20 * MIB;
  fixture->reading.group = (LlmGroupUsage) { 1000 * MIB, 990 * MIB, 40 * MIB };
  decide_at (fixture, 1100);
  g_assert_cmpint (fixture->action.level, ==, LLM_PRESSURE_MEDIUM);
  g_assert_cmpuint (fixture->action.give_anonymous, ==, 50 * MIB);
  g_assert_true (fixture->action.was_cut);
  g_assert_true (fixture->action.is_tight);
  fixture->reading.group.cache = 0;
  decide_at (fixture, 1200);
  g_assert_cmpint (fixture->action.level, ==, LLM_PRESSURE_CRITICAL);
  g_assert_cmpint (fixture->action.depth, ==, LLM_PRESSURE_CRITICAL);
  fixture->held.is_busy = FALSE;
  decide_at (fixture, 1300);
  g_assert_cmpuint (fixture->action.give_backed, ==, 20 * MIB);

  /* a reserve that was configured */
  llm_memory_policy_init (&fixture->policy);
  fixture->held.reserve = 200 * MIB;
  decide_at (fixture, 1400);
  g_assert_cmpuint (fixture->action.give_anonymous, ==, 190 * MIB);
}

/* Stalls of others elsewhere are no reason; with little left they are, by degrees. */
static void
test_stalls (Fixture      *fixture,
             gconstpointer data)
{
  fixture->reading.machine = (LlmStallShare) { 0.5, 0.3 };
  fixture->reading.own = (LlmStallShare) { 0.5, 0.3 };
  decide_at (fixture, 1000);
  g_assert_cmpint (fixture->action.level, ==, LLM_PRESSURE_NONE);
  fixture->reading.own = (LlmStallShare) { 0 };
  fixture->reading.available = 5 * GIB;
  decide_at (fixture, 2000);
  g_assert_cmpint (fixture->action.level, ==, LLM_PRESSURE_LOW);
  g_assert_cmpuint (fixture->action.give_anonymous, ==, 0);
  fixture->reading.available = 3 * GIB;
  decide_at (fixture, 3000);
  g_assert_cmpint (fixture->action.level, ==, LLM_PRESSURE_CRITICAL);
  g_assert_cmpuint (fixture->action.give_anonymous, ==, GIB / 2);
  /* not again before what was given can show */
  fixture->held.anonymous = GIB / 2;
  decide_at (fixture, 3100);
  g_assert_cmpuint (fixture->action.give_anonymous, ==, 0);
  decide_at (fixture, 3600);
  g_assert_cmpuint (fixture->action.give_anonymous, ==, GIB / 4);
  fixture->held.anonymous = 10 * MIB;
  decide_at (fixture, 4200);
  g_assert_cmpuint (fixture->action.give_anonymous, ==, 10 * MIB);
  g_assert_cmpuint (fixture->action.budget, ==, 0);
  g_assert_cmpuint (fixture->action.urgent_budget, >, 0);
}

static void
test_hint (Fixture      *fixture,
           gconstpointer data)
{
  fixture->reading.hint = LLM_PRESSURE_MEDIUM;
  decide_at (fixture, 1000);
  g_assert_cmpint (fixture->action.level, ==, LLM_PRESSURE_MEDIUM);
  g_assert_cmpuint (fixture->action.give_anonymous, ==, GIB / 4);
}

/* A cut to nothing, and room again: a call can go on before the long calm period has passed. */
static void
test_least (Fixture      *fixture,
            gconstpointer data)
{
  fixture->held =
    (LlmMemoryHeld) { .anonymous = 60 * MIB, .backed = 20 * MIB, .allowed = 12 * GIB };
  fixture->reading.group = (LlmGroupUsage) { 1000 * MIB, 1000 * MIB, 0 };
  decide_at (fixture, 1000);
  g_assert_cmpuint (fixture->action.budget, ==, 0);

  fixture->reading.group.usage = 20 * MIB;
  decide_at (fixture, 1200);
  g_assert_cmpuint (fixture->action.budget, ==, 0);
  decide_at (fixture, 2300);
  g_assert_cmpuint (fixture->action.budget, ==, 128 * MIB);
  decide_at (fixture, 4300);
  g_assert_cmpuint (fixture->action.budget, ==, 128 * MIB);
}

/* Of weights that don't all fit, what fits stays: less at once, more when there was room for it for
 * a second. */
static void
test_keep (Fixture      *fixture,
           gconstpointer data)
{
  fixture->held = (LlmMemoryHeld) {
    .anonymous = 100 * MIB, .backed = 600 * MIB, .used = 600 * MIB, .allowed = 12 * GIB,
    .is_busy = TRUE,
  };
  decide_at (fixture, 1000);
  g_assert_cmpuint (fixture->action.keep_backed, ==, 11 * GIB);

  fixture->reading.group = (LlmGroupUsage) { 1000 * MIB, 900 * MIB, 500 * MIB };
  decide_at (fixture, 1100);
  g_assert_cmpuint (fixture->action.keep_backed, ==, 500 * MIB);
  g_assert_cmpuint (fixture->action.give_backed, ==, 0);
  fixture->reading.group.usage = 1000 * MIB;
  decide_at (fixture, 1200);
  g_assert_cmpuint (fixture->action.keep_backed, ==, 400 * MIB);
  fixture->reading.group = (LlmGroupUsage) { 1000 * MIB, 950 * MIB, 40 * MIB };
  decide_at (fixture, 1300);
  g_assert_cmpuint (fixture->action.keep_backed, ==, 0);

  /* room for an instant is no room */
  fixture->reading.group = (LlmGroupUsage) { 1000 * MIB, 500 * MIB, 0 };
  decide_at (fixture, 2000);
  decide_at (fixture, 2100);
  g_assert_cmpuint (fixture->action.keep_backed, ==, 0);
  fixture->reading.group.usage = 800 * MIB;
  decide_at (fixture, 2200);
  fixture->reading.group.usage = 500 * MIB;
  decide_at (fixture, 3000);
  g_assert_cmpuint (fixture->action.keep_backed, ==, 100 * MIB);
  decide_at (fixture, 4000);
  g_assert_cmpuint (fixture->action.keep_backed, ==, 400 * MIB);

  fixture->reading.group = (LlmGroupUsage) { 0 };
  decide_at (fixture, 5000);
  decide_at (fixture, 6000);
  g_assert_cmpuint (fixture->action.keep_backed, ==, 11 * GIB);
}

/* A budget that is raised is followed at once, however often; but not beyond what there is room for. */
static void
test_keep_allowed (Fixture      *fixture,
                   gconstpointer data)
{
  gint64 ms = 1000;

  fixture->held = (LlmMemoryHeld) {
    .anonymous = 100 * MIB, .backed = 4 * GIB, .used = 4 * GIB, .allowed = 2100 * MIB, .is_busy = TRUE,
  };
  for (guint i = 0; i < 5; i++)
    {
      fixture->held.allowed = 2100 * MIB;
      decide_at (fixture, ms += 100);
      g_assert_cmpuint (fixture->action.keep_backed, ==, 2000 * MIB);
      fixture->held.allowed = 1100 * MIB;
      decide_at (fixture, ms += 100);
      g_assert_cmpuint (fixture->action.keep_backed, ==, 1000 * MIB);
    }
  fixture->reading.group = (LlmGroupUsage) { 3000 * MIB, 1500 * MIB, 0 };
  fixture->held.allowed = 2100 * MIB;
  decide_at (fixture, ms += 100);
  g_assert_cmpuint (fixture->action.keep_backed, ==, 1200 * MIB);
}

/* What is left when little is held: calls keep it, and what none uses is asked for, again after a
 * second. */
static void
test_little (Fixture      *fixture,
             gconstpointer data)
{
  fixture->held.anonymous = 10 * MIB;
  fixture->reading.hint = LLM_PRESSURE_LOW;
  decide_at (fixture, 1000);
  g_assert_cmpuint (fixture->action.give_anonymous, ==, 0);
  fixture->reading.hint = LLM_PRESSURE_MEDIUM;
  decide_at (fixture, 2000);
  g_assert_cmpuint (fixture->action.give_anonymous, ==, 10 * MIB);
  g_assert_cmpint (fixture->action.depth, ==, LLM_PRESSURE_MEDIUM);
  g_assert_cmpuint (fixture->action.budget, ==, 10 * MIB);
  decide_at (fixture, 2100);
  g_assert_cmpuint (fixture->action.give_anonymous, ==, 0);
  decide_at (fixture, 3000);
  g_assert_cmpuint (fixture->action.give_anonymous, ==, 10 * MIB);
}

/* File pages that had to go come back after ten calm seconds, where twice the reserve stays, and
 * after twice as long when they had to go again. */
static void
test_pages (Fixture      *fixture,
            gconstpointer data)
{
  const LlmGroupUsage free = { 1000 * MIB, 700 * MIB, 600 * MIB };
  const LlmGroupUsage full = { 1000 * MIB, 1000 * MIB, 600 * MIB };
  gint64 ms = 1000;

  fixture->held = (LlmMemoryHeld) {
    .anonymous = 10 * MIB, .backed = 600 * MIB, .used = 600 * MIB, .allowed = 12 * GIB,
  };
  fixture->reading.group = free;
  decide_at (fixture, ms);
  /* 900 MiB are no others', less twice the reserve, less what is there */
  g_assert_cmpuint (fixture->action.grow_backed, ==, 100 * MIB);
  for (gint64 period_s = 10; period_s <= 40; period_s *= 2)
    {
      fixture->reading.group = full;
      fixture->held.backed = 600 * MIB;
      decide_at (fixture, ms += 1000);
      g_assert_cmpuint (fixture->action.give_backed, ==, 100 * MIB);
      g_assert_cmpuint (fixture->action.grow_backed, ==, 0);
      fixture->held.backed = 500 * MIB;
      fixture->reading.group = free;
      for (gint64 second = 1; second < period_s; second++)
        {
          decide_at (fixture, ms += 1000);
          g_assert_cmpuint (fixture->action.grow_backed, ==, 0);
        }
      decide_at (fixture, ms += 1000);
      g_assert_cmpuint (fixture->action.grow_backed, ==, 100 * MIB);
      fixture->held.backed = 600 * MIB;
      decide_at (fixture, ms += 1000);
    }
  /* a trim that somebody holds */
  fixture->held.is_trimmed = TRUE;
  decide_at (fixture, ms += 1000);
  g_assert_cmpuint (fixture->action.grow_backed, ==, 0);
}

/* Room that comes and goes, in the group or beside what calls hold of the budget: what stays of the weights
 * follows ever more slowly. */
static void
test_keep_relapses (Fixture      *fixture,
                    gconstpointer data)
{
  gboolean is_budget = GPOINTER_TO_INT (data);
  guint n_changes = 0;
  gboolean has_grown = FALSE;
  guint64 before = 0;

  fixture->held = (LlmMemoryHeld) {
    .anonymous = 100 * MIB, .backed = 600 * MIB, .used = 600 * MIB, .allowed = 12 * GIB,
    .is_busy = TRUE,
  };
  if (is_budget)
    fixture->held.allowed = 800 * MIB;
  for (guint i = 0; i < 120 * 10; i++)
    {
      guint64 others = i / 20 % 2 == 0 ? 300 * MIB : 500 * MIB;

      if (is_budget)
        fixture->held.anonymous = others;
      else
        fixture->reading.group = (LlmGroupUsage) { 1000 * MIB, 500 * MIB + others, 500 * MIB };
      decide_at (fixture, 1000 + 100 * i);
      if (i > 0 && fixture->action.keep_backed != before
          && has_grown != (fixture->action.keep_backed > before))
        {
          has_grown = !has_grown;
          n_changes++;
        }
      before = fixture->action.keep_backed;
    }
  g_assert_cmpuint (n_changes, <=, 6);
  g_assert_cmpint (fixture->policy.kept.period_us, <=, 30 * G_USEC_PER_SEC);
}

/* Background calls are lowered when a second of pressure has not ended it, responsive ones another
 * second later, and both sooner when the system is at its end. They have the whole model again after
 * ten calm seconds, one class a second, and after twice as long when that was too early. */
static void
test_lowered (Fixture      *fixture,
              gconstpointer data)
{
  gint64 ms = 1000;

  fixture->reading.hint = LLM_PRESSURE_LOW;
  decide_at (fixture, ms);
  decide_at (fixture, ms += 5000);
  g_assert_cmpint (fixture->action.lowered, ==, LLM_LOWERED_NONE);
  for (gint64 period_s = 10; period_s <= 40; period_s *= 2)
    {
      fixture->reading.hint = LLM_PRESSURE_MEDIUM;
      decide_at (fixture, ms += 100);
      decide_at (fixture, ms += 900);
      g_assert_cmpint (fixture->action.lowered, ==, LLM_LOWERED_NONE);
      decide_at (fixture, ms += 100);
      g_assert_cmpint (fixture->action.lowered, ==, LLM_LOWERED_BACKGROUND);
      decide_at (fixture, ms += 900);
      g_assert_cmpint (fixture->action.lowered, ==, LLM_LOWERED_BACKGROUND);
      decide_at (fixture, ms += 100);
      g_assert_cmpint (fixture->action.lowered, ==, LLM_LOWERED_RESPONSIVE);

      fixture->reading.hint = LLM_PRESSURE_NONE;
      for (gint64 second = 1; second <= period_s; second++)
        {
          decide_at (fixture, ms += 1000);
          g_assert_cmpint (fixture->action.lowered, ==, LLM_LOWERED_RESPONSIVE);
        }
      decide_at (fixture, ms += 1000);
      g_assert_cmpint (fixture->action.lowered, ==, LLM_LOWERED_BACKGROUND);
      decide_at (fixture, ms += 900);
      g_assert_cmpint (fixture->action.lowered, ==, LLM_LOWERED_BACKGROUND);
      fixture->held.is_trimmed = TRUE;
      decide_at (fixture, ms += 100);
      g_assert_cmpint (fixture->action.lowered, ==, LLM_LOWERED_BACKGROUND);
      fixture->held.is_trimmed = FALSE;
      decide_at (fixture, ms += 100);
      g_assert_cmpint (fixture->action.lowered, ==, LLM_LOWERED_NONE);
    }

  fixture->reading.hint = LLM_PRESSURE_CRITICAL;
  decide_at (fixture, ms += 1000);
  g_assert_cmpint (fixture->action.lowered, ==, LLM_LOWERED_BACKGROUND);
  decide_at (fixture, ms += 500);
  g_assert_cmpint (fixture->action.lowered, ==, LLM_LOWERED_RESPONSIVE);
}

/* Ten calm seconds, then a sixteenth a second; no growth while somebody holds a trim. */
static void
test_growth (Fixture      *fixture,
             gconstpointer data)
{
  gint64 ms = 1000;
  guint64 budget;

  fixture->reading.available = 14 * GIB;
  fixture->reading.hint = LLM_PRESSURE_CRITICAL;
  decide_at (fixture, ms);
  fixture->held.anonymous /= 2;
  fixture->reading.hint = LLM_PRESSURE_NONE;
  budget = fixture->action.budget;
  for (guint i = 0; i < 10; i++)
    {
      decide_at (fixture, ms += 1000);
      g_assert_cmpuint (fixture->action.budget, ==, budget);
      g_assert_false (fixture->action.may_grow);
    }
  fixture->held.is_trimmed = TRUE;
  decide_at (fixture, ms += 1000);
  g_assert_cmpuint (fixture->action.budget, ==, budget);
  fixture->held.is_trimmed = FALSE;
  decide_at (fixture, ms += 1000);
  g_assert_cmpuint (fixture->action.budget, ==, budget + 768 * MIB);
  decide_at (fixture, ms += 100);
  g_assert_cmpuint (fixture->action.budget, ==, budget + 768 * MIB);
  for (guint i = 0; i < 16; i++)
    decide_at (fixture, ms += 1000);
  g_assert_cmpuint (fixture->action.budget, ==, 12 * GIB);
  g_assert_cmpint (fixture->policy.anonymous.period_us, ==, 10 * G_USEC_PER_SEC);
  /* a relapse: twice as long */
  fixture->reading.hint = LLM_PRESSURE_CRITICAL;
  decide_at (fixture, ms += 1000);
  g_assert_cmpint (fixture->policy.anonymous.period_us, ==, 20 * G_USEC_PER_SEC);
  /* and so on, up to five minutes */
  for (guint i = 0; i < 6; i++)
    {
      fixture->reading.hint = LLM_PRESSURE_NONE;
      for (guint second = 0; second < 310; second++)
        decide_at (fixture, ms += 1000);
      fixture->held.anonymous = GIB;
      fixture->reading.hint = LLM_PRESSURE_CRITICAL;
      decide_at (fixture, ms += 1000);
    }
  g_assert_cmpint (fixture->policy.anonymous.period_us, ==, 300 * G_USEC_PER_SEC);
}

/* --- simulations --- */

typedef enum { STEPS, RAMPS, SAWTOOTH, WALK, LEAK, N_SHAPES } Shape;

typedef struct
{
  Shape shape;
  GRand *rand;
  guint64 bound;
  guint64 most;       /* that others take */
  guint64 rate;       /* bytes a second they take it at, at most */
  guint64 target;
  guint64 now;
  guint left;         /* steps until the next target */
} Others;

static guint64
next_target (Others *self)
{
  switch (self->shape)
    {
    case SAWTOOTH:
      return self->target == 0 ? self->most : 0;
    case LEAK:
      return MIN (self->target + self->bound / 50, self->most);
    case STEPS:
    case RAMPS:
    case WALK:
    default:
      return (guint64) (g_rand_double (self->rand) * (double) self->most);
    }
}

/* Memory comes at a rate, and goes at once. */
static guint64
advance (Others *self)
{
  guint64 step = self->rate / STEPS_PER_SECOND;

  if (self->left-- == 0)
    {
      self->target = next_target (self);
      self->left = (guint) g_rand_int_range (self->rand, 1, self->shape == WALK ? 100 : 2000);
    }
  if (self->shape == RAMPS)
    step /= 10;
  self->now = self->target > self->now ? MIN (self->target, self->now + step) : self->target;
  return self->now;
}

static void
set_shape (LlmTestMemory *memory,
           GRand         *rand)
{
  llm_test_memory_init (memory);
  memory->total = (guint64) g_rand_int_range (rand, 2, 64) * GIB;
  if (g_rand_boolean (rand))
    memory->limit = (guint64) g_rand_int_range (rand, 256, 2048) * MIB;
  /* a model that the memory is too small for makes pressure itself, as long as it is used */
  memory->model = (guint64) (g_rand_double (rand) / 2 *
                             (double) (memory->limit > 0 ? memory->limit : memory->total));
  memory->wanted = (guint64) g_rand_int_range (rand, 8, 4000) * MIB;
  memory->growth = (guint64) g_rand_int_range (rand, 1, 200) * MIB;
  memory->allowed = memory->total / 4 * 3;
  memory->is_busy = g_rand_boolean (rand);
}

/* How often growth may end in a cut: each time it has to be calm for twice as long, up to five
 * minutes; after ten minutes without it begins anew. */
static guint64
count_relapses_allowed (guint seconds)
{
  guint64 n = 1;

  for (guint calm = 10; seconds > calm; calm = MIN (2 * calm, 300))
    {
      seconds -= calm;
      n++;
    }
  return n;
}

/* The service never holds what nobody has, never oscillates, and always comes back. */
static void
simulate (guint32 seed)
{
  g_autoptr(GRand) rand = g_rand_new_with_seed (seed);
  const guint seconds = 600;
  LlmTestMemory memory;
  Others others = { .shape = seed % N_SHAPES, .rand = rand };
  guint64 bound, reserve;
  guint64 was_killed = 0;

  set_shape (&memory, rand);
  bound = memory.limit > 0 ? MIN (memory.limit, memory.total) : memory.total;
  reserve = llm_memory_policy_get_reserve (bound, memory.limit == 0, FALSE);
  others.bound = bound;
  others.most = bound - memory.overhead - MIN (reserve, bound / 4);
  /* half of the reserve between two looks, ten times a second; and not faster than memory can be
   * given */
  others.rate = MIN (reserve * 5, 2 * GIB);
  for (guint i = 0; i < seconds * STEPS_PER_SECOND; i++)
    {
      /* a group wakes us when its usage passes a mark: simulated by looking always often */
      memory.action.is_tight = TRUE;
      llm_test_memory_step (&memory, advance (&others));
      if (memory.n_killed > was_killed)
        g_error ("seed %u: at %.2f s others hold %ju, we %ju, of %ju", seed, memory.now_us / 1e6,
                 memory.others, memory.anonymous, bound);
      g_assert_cmpuint (memory.action.budget, <=, memory.allowed);
      g_assert_cmpuint (memory.action.budget, <=, MAX (memory.action.urgent_budget, 0));
    }
  g_assert_cmpuint (memory.n_relapses, <=, count_relapses_allowed (seconds));

  /* all others go: within the longest calm period and sixteen steps all is as it was */
  for (guint i = 0; i < (300 + 40) * STEPS_PER_SECOND; i++)
    llm_test_memory_step (&memory, 0);
  g_assert_cmpint (memory.action.level, <=, LLM_PRESSURE_LOW);
  /* or it holds all but twice the reserve itself */
  if (memory.policy.cut != G_MAXUINT64)
    g_assert_cmpuint (memory.anonymous + memory.overhead + 2 * reserve, >=, bound);
  if (memory.limit == 0)
    g_assert_cmpuint (memory.action.budget, >=,
                      MIN (memory.allowed, memory.total - memory.backed - 4 * reserve));
}

static void
test_simulations (void)
{
  const guint n = g_test_thorough () ? 20000 : 2000;

  for (guint32 seed = 1; seed <= n; seed++)
    simulate (seed);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add ("/policy/calm", Fixture, NULL, set_up, test_calm, tear_down);
  g_test_add ("/policy/group", Fixture, NULL, set_up, test_group, tear_down);
  g_test_add ("/policy/stalls", Fixture, NULL, set_up, test_stalls, tear_down);
  g_test_add ("/policy/hint", Fixture, NULL, set_up, test_hint, tear_down);
  g_test_add ("/policy/least", Fixture, NULL, set_up, test_least, tear_down);
  g_test_add ("/policy/keep", Fixture, NULL, set_up, test_keep, tear_down);
  g_test_add ("/policy/keep-allowed", Fixture, NULL, set_up, test_keep_allowed, tear_down);
  g_test_add ("/policy/little", Fixture, NULL, set_up, test_little, tear_down);
  g_test_add ("/policy/pages", Fixture, NULL, set_up, test_pages, tear_down);
  g_test_add ("/policy/keep-relapses", Fixture, NULL, set_up, test_keep_relapses, tear_down);
  g_test_add ("/policy/keep-relapses/budget", Fixture, GINT_TO_POINTER (TRUE), set_up, test_keep_relapses, tear_down);
  g_test_add ("/policy/growth", Fixture, NULL, set_up, test_growth, tear_down);
  g_test_add ("/policy/lowered", Fixture, NULL, set_up, test_lowered, tear_down);
  g_test_add_func ("/policy/simulations", test_simulations);
  return g_test_run ();
}
