/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What replays are made of: traces, devices, percentiles. */

#include <string.h>

#include "bench/contexts/bench-trace.h"

static BenchTraceConfig
get_config (BenchPattern pattern,
            guint        n_contexts)
{
  return (BenchTraceConfig) {
    .pattern = pattern,
    .n_contexts = n_contexts,
    .max_slots = 4096,
    .hours = 2000,
    .interval_s = 300,
    .seed = 3,
  };
}

static const BenchCall *
get_call (const BenchTrace *trace,
          guint             i)
{
  return &g_array_index (trace->calls, BenchCall, i);
}

static void
test_trace_repeats (void)
{
  for (BenchPattern pattern = 0; pattern < BENCH_N_PATTERNS; pattern++)
    {
      BenchTraceConfig config = get_config (pattern, 6);
      g_autoptr(BenchTrace) first = bench_trace_new (&config);
      g_autoptr(BenchTrace) second = bench_trace_new (&config);
      g_autoptr(BenchTrace) other = NULL;

      config.seed++;
      other = bench_trace_new (&config);
      g_assert_cmpmem (first->calls->data, first->calls->len * sizeof (BenchCall),
                       second->calls->data, second->calls->len * sizeof (BenchCall));
      g_assert_cmpint (memcmp (first->calls->data, other->calls->data, sizeof (BenchCall)), !=, 0);
    }
}

/* Lengths add up, and stay within what a context may have. */
static void
test_trace_lengths (void)
{
  BenchTraceConfig config = get_config (BENCH_RANDOM, 7);
  g_autoptr(BenchTrace) trace = bench_trace_new (&config);
  guint lengths[7], n_anew = 0;

  memcpy (lengths, trace->first_slots, sizeof lengths);
  for (guint i = 0; i < 7; i++)
    {
      g_assert_cmpuint (lengths[i], >=, 512);
      g_assert_cmpuint (lengths[i], <=, 4096);
    }
  for (guint i = 0; i < trace->calls->len; i++)
    {
      const BenchCall *call = get_call (trace, i);

      g_assert_cmpuint (call->context, <, 7);
      g_assert_cmpuint (call->n_prompt, >, 0);
      g_assert_cmpuint (call->n_answer, >, 0);
      if (call->n_before == 0)
        {
          n_anew++;
          g_assert_false (call->is_counted);
          g_assert_cmpuint (lengths[call->context] + call->n_prompt + call->n_answer, >, 512);
          lengths[call->context] = 0;
        }
      g_assert_cmpuint (call->n_before, ==, lengths[call->context]);
      lengths[call->context] += call->n_prompt + call->n_answer;
      g_assert_cmpuint (lengths[call->context], >=, 512);
      g_assert_cmpuint (lengths[call->context], <=, 4096);
      if (i > 0)
        {
          g_assert_cmpfloat (call->at_s, >=, get_call (trace, i - 1)->at_s);
          g_assert_false (call->is_counted && call->context == get_call (trace, i - 1)->context);
        }
    }
  g_assert_cmpuint (n_anew, >, 0);
  /* 2000 hours, a call in 300 seconds; the deviation is 155 */
  g_assert_cmpuint (trace->calls->len, >, 24000 - 800);
  g_assert_cmpuint (trace->calls->len, <, 24000 + 800);
  g_assert_cmpfloat (trace->mean_slots, >, 7 * 512);
  g_assert_cmpfloat (trace->mean_slots, <, 7 * 4096);
}

/* A sweep of the rate: the same calls in less time. */
static void
test_trace_rate (void)
{
  for (BenchPattern pattern = 0; pattern < BENCH_N_PATTERNS; pattern++)
    {
      BenchTraceConfig config = get_config (pattern, 6);
      g_autoptr(BenchTrace) slow = bench_trace_new (&config);
      g_autoptr(BenchTrace) fast = NULL;

      config.interval_s /= 64;
      config.hours /= 64;
      fast = bench_trace_new (&config);
      g_assert_cmpuint (slow->calls->len, ==, fast->calls->len);
      for (guint i = 0; i < slow->calls->len; i++)
        {
          const BenchCall *first = get_call (slow, i), *second = get_call (fast, i);

          g_assert_cmpfloat_with_epsilon (second->at_s * 64, first->at_s, 1e-3);
          g_assert_cmpuint (second->context, ==, first->context);
          g_assert_cmpuint (second->n_before, ==, first->n_before);
          g_assert_cmpuint (second->n_prompt, ==, first->n_prompt);
          g_assert_cmpuint (second->n_answer, ==, first->n_answer);
          g_assert_cmpint (second->is_counted, ==, first->is_counted);
        }
    }
}

/* @share: of the switches behind another one, those back to where that one came from. */
static void
count_contexts (BenchPattern  pattern,
                guint        *counts,
                double       *share,
                guint        *n_calls)
{
  BenchTraceConfig config = get_config (pattern, 6);
  g_autoptr(BenchTrace) trace = bench_trace_new (&config);

  guint n_back = 0, n_switches = 0;

  *n_calls = trace->calls->len;
  for (guint i = 0; i < trace->calls->len; i++)
    {
      counts[get_call (trace, i)->context]++;
      if (i < 2 || get_call (trace, i - 1)->context == get_call (trace, i - 2)->context ||
          get_call (trace, i - 1)->context == get_call (trace, i)->context)
        continue;
      n_switches++;
      if (get_call (trace, i)->context == get_call (trace, i - 2)->context)
        n_back++;
    }
  *share = (double) n_back / n_switches;
}

static void
test_trace_patterns (void)
{
  guint random[6] = { 0 }, markov[6] = { 0 }, gaussian[6] = { 0 };
  double random_share, markov_share, gaussian_share;
  guint n;

  count_contexts (BENCH_RANDOM, random, &random_share, &n);
  for (guint i = 0; i < 6; i++)
    {
      g_assert_cmpuint (random[i], >, n / 6 - n / 50);
      g_assert_cmpuint (random[i], <, n / 6 + n / 50);
    }
  g_assert_cmpfloat_with_epsilon (random_share, 1.0 / 5, 0.01);
  /* Of the ranks behind the first, the second has (1 - 0.6) / (1 - 0.6⁵). */
  count_contexts (BENCH_MARKOV, markov, &markov_share, &n);
  g_assert_cmpfloat_with_epsilon (markov_share, 0.4 / (1 - 0.07776), 0.01);
  for (guint i = 0; i < 6; i++)
    g_assert_cmpuint (markov[i], >, n / 12);

  /* In the order of work: sentiment (5), chats (2), translation (4), news (0), reading (3), summary
   * (1). Those in the middle are called most. */
  count_contexts (BENCH_GAUSSIAN, gaussian, &gaussian_share, &n);
  g_assert_cmpuint (gaussian[4], >, 2 * gaussian[5]);
  g_assert_cmpuint (gaussian[0], >, 2 * gaussian[1]);
  g_assert_cmpuint (gaussian[0] + gaussian[4], >, gaussian[2] + gaussian[3]);
}

/* --- devices --- */

static void
test_device_reads (void)
{
  const BenchDevice device = { "test", "", 100, 10, 5, 4 };

  g_assert_cmpfloat (bench_device_get_read_us (&device, 0, 0), ==, 0);
  /* by bytes */
  g_assert_cmpfloat (bench_device_get_read_us (&device, 10000, 4), ==, 100 + 1000);
  /* by requests: 4 at once */
  g_assert_cmpfloat (bench_device_get_read_us (&device, 1000, 80), ==, 100 + 80 * 25);
  g_assert_cmpfloat (bench_device_get_write_us (&device, 0), ==, 0);
  g_assert_cmpfloat (bench_device_get_write_us (&device, 1000), ==, 100 + 200);
  g_assert_nonnull (bench_device_find ("sd"));
  g_assert_null (bench_device_find ("tape"));
}

static void
test_device_restores (void)
{
  BenchDevice device = { "test", "", 100, 10, 5, 1 };
  BenchRestore restore = { 8000, 4, 4, 4, 400, 50, 0 };

  /* one after the other */
  g_assert_cmpfloat (bench_restore_get_us (&restore, &device, FALSE), ==, 100 + 800 + 400 + 50);
  /* The last group arrives at 900, and its layer takes 100. */
  g_assert_cmpfloat (bench_restore_get_us (&restore, &device, TRUE), ==, 900 + 100 + 50);
  /* Computing takes longer than reading: only the first group is waited for. */
  restore.first_us = 8000;
  g_assert_cmpfloat (bench_restore_get_us (&restore, &device, TRUE), ==, 100 + 200 + 8000 + 50);
  /* Several requests at once come later, each of them. */
  device.depth = 3;
  g_assert_cmpfloat (bench_restore_get_us (&restore, &device, TRUE), ==, 100 + 400 + 8000 + 50);
  device.depth = 8;
  g_assert_cmpfloat (bench_restore_get_us (&restore, &device, TRUE), ==, 900 + 8000 + 50);
  device.depth = 1;
  /* What is done with it goes the same way, before computing or between. */
  restore.first_us = 400;
  restore.take_us = 40;
  g_assert_cmpfloat (bench_restore_get_us (&restore, &device, FALSE), ==, 900 + 10 + 400 + 50);
  g_assert_cmpfloat (bench_restore_get_us (&restore, &device, TRUE), ==, 900 + 110 + 50);
  restore.take_us = 0;
  restore.first_us = 8000;
  /* One group: nothing overlaps. */
  restore.n_groups = 1;
  g_assert_cmpfloat (bench_restore_get_us (&restore, &device, TRUE), ==,
                     bench_restore_get_us (&restore, &device, FALSE));
  /* Nothing to read. */
  restore.bytes = restore.n_requests = 0;
  g_assert_cmpfloat (bench_restore_get_us (&restore, &device, TRUE), ==, 8050);
}

/* --- percentiles --- */

static void
test_latency (void)
{
  double samples[200];
  BenchLatency latency = bench_latency_new (samples, 0);

  g_assert_cmpfloat (latency.mean, ==, 0);
  for (guint i = 0; i < 200; i++)
    samples[i] = (i * 77) % 200 + 1;
  latency = bench_latency_new (samples, 200);
  g_assert_cmpuint (latency.n, ==, 200);
  g_assert_cmpfloat_with_epsilon (latency.mean, 100.5, 1e-9);
  g_assert_cmpfloat (latency.p50, ==, 100);
  g_assert_cmpfloat (latency.p95, ==, 190);
  g_assert_cmpfloat (latency.p99, ==, 198);
  g_assert_cmpfloat (latency.most, ==, 200);
}

/* --- rates --- */

static const guint rows[] = { 1, 16, 64, 128, 256, 512 };

static void
test_steps_outlier (void)
{
  /* Two models, in milliseconds, on a processor with AMX. */
  const double good[] = { 0.63, 0.90, 2.19, 4.01, 8.43, 19.1 };
  const double disturbed[] = { 50.3, 60.4, 112, 175, 330, 1065 };
  double us[6];

  g_assert_cmpuint (bench_steps_find_outlier (rows, good, 6, 0.026), ==, G_MAXUINT);
  g_assert_cmpuint (bench_steps_find_outlier (rows, disturbed, 6, 0.549), ==, 5);
  for (guint i = 0; i < 6; i++)
    {
      memcpy (us, good, sizeof us);
      us[i] *= 30;
      g_assert_cmpuint (bench_steps_find_outlier (rows, us, 6, 0.026), ==, MAX (i, 1));
    }
  /* A long context costs more a row: attention, which is not taken for a disturbance. */
  memcpy (us, good, sizeof us);
  for (guint i = 0; i < 6; i++)
    us[i] += 0.3 * rows[i] * rows[i] / 2000;
  g_assert_cmpuint (bench_steps_find_outlier (rows, us, 6, 0.026), ==, 5);
  g_assert_cmpuint (bench_steps_find_outlier (rows, us, 6, 0.326), ==, G_MAXUINT);
  memcpy (us, good, sizeof us);
  us[3] = 2.1;
  g_assert_cmpuint (bench_steps_find_outlier (rows, us, 6, 0.026), ==, 3);
}

/* What is late is hidden by computing where that goes on meanwhile. */
static void
test_stall (void)
{
  const BenchDevice device = { .latency_us = 0, .read_bytes_per_us = 1, .depth = 1 };
  BenchRestore restore = { .bytes = 1000, .n_requests = 1, .n_groups = 10, .n_layers = 10,
                           .first_us = 5000 };
  double alone = bench_restore_get_us (&restore, &device, FALSE);
  double overlapped = bench_restore_get_us (&restore, &device, TRUE);

  restore.stall_us = 500;
  g_assert_cmpfloat_with_epsilon (bench_restore_get_us (&restore, &device, FALSE), alone + 500,
                                  1e-6);
  g_assert_cmpfloat_with_epsilon (bench_restore_get_us (&restore, &device, TRUE), overlapped + 50,
                                  1e-6);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/trace/repeats", test_trace_repeats);
  g_test_add_func ("/trace/lengths", test_trace_lengths);
  g_test_add_func ("/trace/rate", test_trace_rate);
  g_test_add_func ("/trace/patterns", test_trace_patterns);
  g_test_add_func ("/device/reads", test_device_reads);
  g_test_add_func ("/device/restores", test_device_restores);
  g_test_add_func ("/device/stall", test_stall);
  g_test_add_func ("/steps/outlier", test_steps_outlier);
  g_test_add_func ("/latency", test_latency);
  return g_test_run ();
}
