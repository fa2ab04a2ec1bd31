/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Out-of-order dispatch, by numbers: beside schedules computed by hand, the optimum of small graphs,
 * and the paper's case (N6). */

#include "support/llm-test-dispatch.h"

static double
find_makespan (const LlmTestDispatch *self)
{
  return llm_dispatch_simulate (&self->graph, llm_dispatch_choose (&self->graph)).makespan_us;
}

/* --- the optimum: all orders, but for those that can't be better --- */

#define SMALL_CHUNKS 3
#define SMALL_STAGES 5

typedef struct
{
  const LlmTestDispatch *graph;
  double best_us;
  guint n_done[SMALL_CHUNKS];
  double ends_us[SMALL_CHUNKS][SMALL_STAGES];
  double free_us[LLM_N_PROCESSORS];
} Search;

static double
find_bound (const Search *self)
{
  const LlmDispatchGraph *graph = &self->graph->graph;
  double free_us[LLM_N_PROCESSORS] = { self->free_us[0], self->free_us[1] };
  double bound_us = 0;

  for (guint c = 0; c < graph->n_chunks; c++)
    {
      double end_us = self->n_done[c] > 0 ? self->ends_us[c][self->n_done[c] - 1] : 0;

      for (guint s = self->n_done[c]; s < graph->n_stages; s++)
        {
          end_us += graph->times_us[c * graph->n_stages + s];
          free_us[graph->stages[s].processor] += graph->times_us[c * graph->n_stages + s];
        }
      bound_us = MAX (bound_us, end_us);
    }
  return MAX (bound_us, MAX (free_us[0], free_us[1]));
}

static void
search (Search *self)
{
  const LlmDispatchGraph *graph = &self->graph->graph;
  gboolean is_done = TRUE;

  if (find_bound (self) >= self->best_us - 1e-9)
    return;
  for (guint c = 0; c < graph->n_chunks; c++)
    {
      guint s = self->n_done[c];
      double begin_us, before_us;
      gboolean is_ready = TRUE;
      LlmProcessor processor;

      if (s == graph->n_stages)
        continue;
      is_done = FALSE;
      processor = graph->stages[s].processor;
      begin_us = MAX (self->free_us[processor], s > 0 ? self->ends_us[c][s - 1] : 0);
      for (guint i = 0; graph->stages[s].needs_earlier && i < c; i++)
        {
          is_ready = is_ready && self->n_done[i] >= s;
          begin_us = MAX (begin_us, self->ends_us[i][s - 1]);
        }
      if (!is_ready)
        continue;
      before_us = self->free_us[processor];
      self->ends_us[c][s] = begin_us + graph->times_us[c * graph->n_stages + s];
      self->free_us[processor] = self->ends_us[c][s];
      self->n_done[c]++;
      search (self);
      self->n_done[c]--;
      self->free_us[processor] = before_us;
    }
  if (is_done)
    self->best_us = MAX (self->free_us[0], self->free_us[1]);
}

static double
find_optimum (const LlmTestDispatch *graph,
              double      bound_us)
{
  Search self = { .graph = graph, .best_us = bound_us };

  search (&self);
  return self.best_us;
}

/* --- tests --- */

/* Two chunks of CPU 2, device 5, CPU 2. On the device the chunks follow each other from 2 on: 2 + 5 + 5
 * + 2. One after the other they would take 18. */
static void
test_by_hand (void)
{
  const LlmDispatchStage stages[] = { { LLM_PROCESSOR_CPU, FALSE },
                                      { LLM_PROCESSOR_DEVICE, FALSE },
                                      { LLM_PROCESSOR_CPU, TRUE } };
  const double times_us[] = { 2, 5, 2, 2, 5, 2 };
  const LlmDispatchGraph graph = { stages, 3, 2, times_us };

  for (LlmDispatchRule rule = 0; rule < LLM_N_DISPATCH_RULES; rule++)
    {
      LlmDispatchFigures figures = llm_dispatch_simulate (&graph, rule);

      g_assert_cmpfloat (figures.makespan_us, ==, 14);
      g_assert_cmpfloat (figures.busy_us[LLM_PROCESSOR_CPU], ==, 8);
      g_assert_cmpfloat (figures.busy_us[LLM_PROCESSOR_DEVICE], ==, 10);
    }
}

/* The device has done the first chunk's first at 7, and gets its second when the CPU has ended the other
 * chunk's at 12; and each half of what it takes to hand over and to take back is the CPU's. */
static void
test_driven (void)
{
  const LlmDispatchStage stages[] = { { LLM_PROCESSOR_CPU, FALSE },
                                      { LLM_PROCESSOR_DEVICE, FALSE },
                                      { LLM_PROCESSOR_DEVICE, FALSE },
                                      { LLM_PROCESSOR_CPU, FALSE } };
  const double times_us[] = { 2, 5, 5, 2, 10, 5, 5, 2 };
  const double none_us[8] = { 0 }, driver_us[] = { 0, 1, 1, 0, 0, 1, 1, 0 };
  LlmDispatchGraph graph = { stages, 4, 2, times_us, NULL };

  g_assert_cmpfloat (llm_dispatch_simulate (&graph, LLM_DISPATCH_CHUNKS).makespan_us, ==, 24);
  graph.driver_us = none_us;
  g_assert_cmpfloat (llm_dispatch_simulate (&graph, LLM_DISPATCH_CHUNKS).makespan_us, ==, 29);
  graph.driver_us = driver_us;
  g_assert_cmpfloat (llm_dispatch_simulate (&graph, LLM_DISPATCH_CHUNKS).makespan_us, ==, 30);
}

/* Two chunks wait for the CPU: behind the first comes more work for the CPU, behind the second one work
 * for the device, and equation 6 prefers that. Of two that wait for the device it prefers the
 * one behind which is less for the CPU. */
static void
test_equation (void)
{
  const LlmDispatchStage stages[] = { { LLM_PROCESSOR_CPU, FALSE },
                                      { LLM_PROCESSOR_CPU, FALSE },
                                      { LLM_PROCESSOR_DEVICE, FALSE },
                                      { LLM_PROCESSOR_CPU, FALSE } };
  const double times_us[] = { 1, 1, 1, 9, 1, 1, 1, 3 };
  const LlmDispatchGraph graph = { stages, 4, 2, times_us };
  g_autoptr (LlmDispatch) self = llm_dispatch_new (&graph, LLM_DISPATCH_STALLS);
  guint chunk = 9, stage = 9;

  g_assert_false (llm_dispatch_begin (self, LLM_PROCESSOR_DEVICE, &chunk, &stage));
  g_assert_true (llm_dispatch_begin (self, LLM_PROCESSOR_CPU, &chunk, &stage));
  g_assert_cmpuint (chunk, ==, 0);
  llm_dispatch_end (self, 0);

  /* chunk 1 was ready first, but only chunk 0 brings work to the device */
  g_assert_true (llm_dispatch_begin (self, LLM_PROCESSOR_CPU, &chunk, &stage));
  g_assert_cmpuint (chunk, ==, 0);
  g_assert_cmpuint (stage, ==, 1);
  llm_dispatch_end (self, 0);
  for (guint i = 0; i < 2; i++)
    {
      g_assert_true (llm_dispatch_begin (self, LLM_PROCESSOR_CPU, &chunk, &stage));
      g_assert_cmpuint (chunk, ==, 1);
      llm_dispatch_end (self, 1);
    }

  g_assert_true (llm_dispatch_begin (self, LLM_PROCESSOR_DEVICE, &chunk, &stage));
  g_assert_cmpuint (chunk, ==, 1);
  g_assert_cmpuint (stage, ==, 2);
}

/* Whatever the times and whoever is free: a stage begins when all that it needs has ended, and all of
 * them do. */
static void
test_needs (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (3);

  for (guint run = 0; run < 300; run++)
    {
      LlmTestDispatch graph;
      guint n_done[8] = { 0 }, running[LLM_N_PROCESSORS] = { G_MAXUINT, G_MAXUINT };
      g_autoptr (LlmDispatch) self = NULL;

      llm_test_dispatch_init (&graph, (guint) g_rand_int_range (random, 1, 9),
                 (guint) g_rand_int_range (random, 1, 13));
      llm_test_dispatch_randomize (&graph, random);
      self = llm_dispatch_new (&graph.graph, run % LLM_N_DISPATCH_RULES);
      while (!llm_dispatch_is_done (self))
        {
          LlmProcessor processor = g_rand_boolean (random);
          guint chunk, stage;

          if (running[processor] != G_MAXUINT)
            {
              n_done[running[processor]]++;
              llm_dispatch_end (self, running[processor]);
              running[processor] = G_MAXUINT;
            }
          else if (llm_dispatch_begin (self, processor, &chunk, &stage))
            {
              g_assert_cmpuint (stage, ==, n_done[chunk]);
              g_assert_cmpuint (chunk, !=, running[!processor]);
              g_assert_cmpint (graph.stages[stage].processor, ==, processor);
              for (guint i = 0; graph.stages[stage].needs_earlier && i < chunk; i++)
                g_assert_cmpuint (n_done[i], >=, stage);
              running[processor] = chunk;
            }
          else
            g_assert_true (running[!processor] != G_MAXUINT
                           || llm_dispatch_begin (self, !processor, &running[!processor], &stage));
        }
      for (guint i = 0; i < graph.graph.n_chunks; i++)
        g_assert_cmpuint (n_done[i], ==, graph.graph.n_stages);
    }
}

static void
test_optimum (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (11);
  double worst = 0, worst_fifo = 0, worst_stalls = 0, sum = 0;
  guint n = 200;

  for (guint run = 0; run < n; run++)
    {
      LlmTestDispatch graph;
      double found_us, best_us, fifo_us, stalls_us;

      llm_test_dispatch_init (&graph, (guint) g_rand_int_range (random, 2, SMALL_CHUNKS + 1),
                 (guint) g_rand_int_range (random, 3, SMALL_STAGES + 1));
      llm_test_dispatch_randomize (&graph, random);
      found_us = find_makespan (&graph);
      fifo_us = llm_dispatch_simulate (&graph.graph, LLM_DISPATCH_FIFO).makespan_us;
      stalls_us = llm_dispatch_simulate (&graph.graph, LLM_DISPATCH_STALLS).makespan_us;
      best_us = find_optimum (&graph, found_us + 1e-6);
      worst = MAX (worst, found_us / best_us);
      worst_fifo = MAX (worst_fifo, fifo_us / best_us);
      worst_stalls = MAX (worst_stalls, stalls_us / best_us);
      sum += found_us / best_us;
    }
  g_test_message ("beside the optimum: %.4f on average, %.3f at worst; fifo alone %.3f, stalls alone "
                  "%.3f at worst", sum / n, worst, worst_fifo, worst_stalls);
  g_assert_cmpfloat (worst, <=, 1.10);
  /* one rule for all graphs would not do */
  g_assert_cmpfloat (worst_fifo, >, 1.10);
  g_assert_cmpfloat (worst_stalls, >, 1.10);
}

static void
test_random (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (7);
  double sum = 0, sum_stalls = 0;
  guint n = 1000, n_better = 0;

  for (guint run = 0; run < n; run++)
    {
      LlmTestDispatch graph;
      double fifo_us, found_us;

      llm_test_dispatch_init (&graph, (guint) g_rand_int_range (random, 2, 9),
                 (guint) g_rand_int_range (random, 6, 49));
      llm_test_dispatch_randomize (&graph, random);
      fifo_us = llm_dispatch_simulate (&graph.graph, LLM_DISPATCH_FIFO).makespan_us;
      found_us = find_makespan (&graph);
      g_assert_cmpfloat (found_us, <=, fifo_us);
      n_better += found_us < fifo_us;
      sum += found_us / fifo_us;
      sum_stalls += llm_dispatch_simulate (&graph.graph, LLM_DISPATCH_STALLS).makespan_us
                    / fifo_us;
    }
  g_test_message ("beside fifo: %.4f on average, stalls alone %.4f; better in %u of %u", sum / n,
                  sum_stalls / n, n_better, n);
  g_assert_cmpfloat (sum / n, <=, 1.02);
  g_assert_cmpuint (n_better, >, n / 4);
}

static void
test_paper (void)
{
  static const struct
  {
    guint n_chunks;
    double growth;
    double least_gain;
  } cases[] = { { 2, 0, 0.16 }, { 2, 0.5, 0.16 }, { 4, 0, 0.30 }, { 4, 0.5, 0.30 } };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      LlmTestDispatch graph;
      double serial_us, gain;

      llm_test_dispatch_paper (&graph, 1, 0);
      serial_us = llm_test_dispatch_get_serial (&graph);
      /* one chunk: the device waits for the CPU */
      g_assert_cmpfloat_with_epsilon (find_makespan (&graph), serial_us, 1e-3);
      g_assert_cmpfloat (157e3 / serial_us, >=, 0.33);
      g_assert_cmpfloat (157e3 / serial_us, <=, 0.37);

      llm_test_dispatch_paper (&graph, cases[i].n_chunks, cases[i].growth);
      gain = 1 - find_makespan (&graph) / llm_test_dispatch_get_serial (&graph);
      g_test_message ("%u chunks, attention + %.0f %% a chunk: %.1f %% shorter", cases[i].n_chunks,
                      cases[i].growth * 100, gain * 100);
      g_assert_cmpfloat (gain, >=, cases[i].least_gain);
    }
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/backends/dispatch/by-hand", test_by_hand);
  g_test_add_func ("/backends/dispatch/driven", test_driven);
  g_test_add_func ("/backends/dispatch/equation", test_equation);
  g_test_add_func ("/backends/dispatch/needs", test_needs);
  g_test_add_func ("/backends/dispatch/optimum", test_optimum);
  g_test_add_func ("/backends/dispatch/random", test_random);
  g_test_add_func ("/backends/dispatch/paper", test_paper);

  return g_test_run ();
}
