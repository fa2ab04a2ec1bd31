/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which way to read is chosen, on storage of made-up speed, and what a read costs there. */

#include "weights/llm-read-choice.h"
#include "weights/llm-read-cost.h"

#include <glib.h>

#define N_LAYERS 4
#define SPARSITY 50

typedef struct
{
  LlmReadChoice choice;
  gint64 now_us;
  double us[LLM_N_READS];   /* that a pass takes */
  double first_us;          /* the first by channel: 0 for as long */
  guint n[LLM_N_READS];     /* passes so far */
} Machine;

/* Layers come several times, and callers wait between tokens. */
static LlmRead
run_pass (Machine *self,
          double   whole_us)
{
  LlmRead way = LLM_READ_WHOLE;
  gboolean is_first = self->n[LLM_READ_BY_CHANNEL] == 0 && self->first_us > 0;

  for (guint layer = 0; layer < N_LAYERS; layer++)
    {
      for (guint i = 0; i < 3; i++)
        way = llm_read_choice_take (&self->choice, SPARSITY, layer, N_LAYERS, whole_us, self->now_us);
      self->now_us += (gint64) ((is_first && way == LLM_READ_BY_CHANNEL ? self->first_us : self->us[way])
                                / (N_LAYERS - 1));
    }
  self->n[way]++;
  self->now_us += 10000000;
  return way;
}

static void
run_passes (Machine *self,
            guint    n,
            double   whole_us)
{
  self->n[LLM_READ_WHOLE] = self->n[LLM_READ_BY_CHANNEL] = 0;
  for (guint i = 0; i < n; i++)
    run_pass (self, whole_us);
}

/* By channel first; whole as soon as it is known to be faster, and tried again from time to time. */
static void
test_choice (void)
{
  Machine slow = { .now_us = 1000, .us = { 4000, 7000 } };
  Machine fast = { .now_us = 1000, .us = { 4000, 1000 } };
  Machine near = { .now_us = 1000, .us = { 4000, 3900 } };

  run_passes (&slow, 2000, 7000);
  g_assert_cmpuint (slow.n[LLM_READ_WHOLE], >, 0);
  g_assert_cmpuint (slow.n[LLM_READ_WHOLE], <, 50);
  run_passes (&fast, 2000, 1000);
  g_assert_cmpuint (fast.n[LLM_READ_BY_CHANNEL], <, 10);
  /* not for a difference that chance makes */
  run_passes (&near, 100, 3900);
  g_assert_cmpuint (near.n[LLM_READ_WHOLE], ==, 0);
}

/* The first pass by channel takes longer: that is not held against it, unless it is far behind. */
static void
test_first (void)
{
  Machine slow = { .now_us = 1000, .us = { 4000, 5000 }, .first_us = 8000 };
  Machine fast = { .now_us = 1000, .us = { 4000, 1500 }, .first_us = 8000 };

  run_passes (&slow, 100, 5000);
  g_assert_cmpuint (slow.n[LLM_READ_WHOLE], ==, 0);
  run_passes (&fast, 100, 1500);
  g_assert_cmpuint (fast.n[LLM_READ_BY_CHANNEL], ==, 1);
}

/* What reading takes is not known: by channel, until the other way is tried. */
static void
test_unknown (void)
{
  Machine machine = { .now_us = 1000, .us = { 4000, 1000 } };

  run_passes (&machine, 100, 0);
  g_assert_cmpuint (machine.n[LLM_READ_WHOLE], ==, 0);
  run_passes (&machine, 200, 0);
  g_assert_cmpuint (machine.n[LLM_READ_WHOLE], >, 150);
}

/* Storage that becomes slow is noticed. */
static void
test_change (void)
{
  Machine machine = { .now_us = 1000, .us = { 4000, 3000 } };

  run_passes (&machine, 100, 3000);
  g_assert_cmpuint (machine.n[LLM_READ_WHOLE], >, 90);
  machine.us[LLM_READ_WHOLE] = 20000;
  run_passes (&machine, 100, 20000);
  g_assert_cmpuint (machine.n[LLM_READ_BY_CHANNEL], >, 90);
}

static void
test_cost (void)
{
  LlmReadCost cost = { 0 };

  g_assert_cmpfloat (llm_read_cost_get_gap (&cost), ==, 4096);
  llm_read_cost_add (&cost, 0, 0, 5);
  /* of one size: nothing is learned */
  for (guint i = 0; i < 20; i++)
    llm_read_cost_add (&cost, 10, 80000, 200);
  g_assert_cmpfloat (llm_read_cost_get_gap (&cost), ==, 4096);
  for (guint i = 0; i < 500; i++)
    {
      guint n = (guint) g_test_rand_int_range (1, 200);
      double bytes = g_test_rand_double_range (1e3, 60e3) * n;

      llm_read_cost_add (&cost, n, bytes, 9 * n + bytes * 0.0009);
    }
  g_assert_cmpfloat_with_epsilon (llm_read_cost_get_gap (&cost), 10000, 100);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/reads/choice", test_choice);
  g_test_add_func ("/reads/first", test_first);
  g_test_add_func ("/reads/unknown", test_unknown);
  g_test_add_func ("/reads/change", test_change);
  g_test_add_func ("/reads/cost", test_cost);
  return g_test_run ();
}
