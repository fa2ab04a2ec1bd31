/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Switches in real time, at full size, on the real disk, with the real forward pass: beside
 * what the replays would say of the same switch with the same rates. Part of contexts is evicted,
 * one of them is called, and called again with all of it there.
 */

#include "contexts/bench-contexts.h"

#include <stdio.h>

#include "bench-engine.h"
#include "bench-random.h"
#include "contexts/bench-switch.h"
#include "support/llm-test-folder.h"

#define N_CONTEXTS 6
/* Rows of the question. */
#define N_NEW 32
#define WAIT_US (10 * G_TIME_SPAN_MILLISECOND)

typedef struct
{
  double measured;     /* sums, µs */
  double predicted;
} Pair;

typedef struct
{
  const BenchRealConfig *config;
  const BenchModelShape *shape;
  BenchRates rates;
  BenchDevice disk;
  BenchEngine *engine;
  LlmKvSeq *sequences[N_CONTEXTS];
  guint lengths[N_CONTEXTS];
  BenchRandom random;
  Pair reads;          /* all is read, nothing computed */
  Pair waits;          /* what the call waits more than with all there */
  Pair calls;          /* begin to first logits */
  guint n_rows;        /* computed again */
  double bytes;
} Run;

static double
now_us (void)
{
  return (double) g_get_monotonic_time ();
}

static gboolean
fill_contexts (Run     *run,
               GError **error)
{
  for (guint i = 0; i < N_CONTEXTS; i++)
    {
      g_autofree char *id = g_strdup_printf ("switch-%u", i);
      guint n_chunks = run->shape->max_slots / LLM_KV_CHUNK_SLOTS;
      LlmKvPlan plan;

      /* Whole chunks, an eighth of the longest at least. */
      run->lengths[i] = LLM_KV_CHUNK_SLOTS *
                        bench_random_range (&run->random, n_chunks / 8,
                                            n_chunks - N_NEW / LLM_KV_CHUNK_SLOTS);
      run->sequences[i] = llm_kv_seq_new (run->engine->store, "bench", id);
      if (!llm_kv_seq_begin_call (run->sequences[i], run->lengths[i], &plan, error) ||
          !bench_engine_fill (run->sequences[i], run->lengths[i], error))
        return FALSE;
      bench_engine_end_call (run->engine->store, run->sequences[i]);
    }
  return TRUE;
}

/* Some of what all contexts hold. */
static void
evict (Run *run)
{
  double all = (double) llm_kv_store_get_packed_bytes (run->engine->store);

  llm_kv_store_evict (run->engine->store, (guint64) (all * bench_random_get (&run->random)), FALSE);
}

static double
get_factor (Run *run)
{
  return (double) run->shape->n_layers /
         llm_kv_store_get_layout (run->engine->store)->n_layers;
}

/* A call begins and reads, and ends there. */
static gboolean
measure_read (Run     *run,
              guint    index,
              GError **error)
{
  LlmKvSeq *sequence = run->sequences[index];
  g_autofree LlmKvChunkInfo *infos = bench_switch_get_infos (sequence);
  g_autoptr(GArray) missing = g_array_new (FALSE, FALSE, sizeof (guint));
  BenchSwitch s = { 0 };
  double begin = now_us ();
  LlmStatus status = LLM_READY;
  BenchPrice alone;
  LlmKvPlan plan;

  if (!llm_kv_seq_begin_call (sequence, N_NEW, &plan, error))
    return FALSE;
  for (guint layer = 0; layer < run->shape->n_layers && status == LLM_READY; layer++)
    while ((status = llm_kv_seq_make_resident (sequence, layer, error)) == LLM_PENDING)
      llm_kv_store_wait (run->engine->store, WAIT_US);
  if (status != LLM_READY)
    return FALSE;
  run->reads.measured += now_us () - begin;
  llm_kv_seq_get_missing (sequence, missing);
  bench_switch_note (&s, run->engine->store, sequence, &run->rates.profile, infos, missing, N_NEW,
                     run->shape->n_layers, get_factor (run));
  alone = bench_switch_price (&s, llm_kv_store_get_policy (run->engine->store), &run->disk,
                              run->rates.resident_us, run->rates.take_us_per_byte);
  run->reads.predicted += alone.read_us;
  bench_engine_call (run->engine, sequence, missing, 0);
  bench_engine_end_call (run->engine->store, sequence);
  return TRUE;
}

/* A call begins and computes a question; then the same question again with all there. */
static gboolean
measure_call (Run     *run,
              guint    index,
              GError **error)
{
  LlmKvSeq *sequence = run->sequences[index];
  g_autofree LlmKvChunkInfo *infos = bench_switch_get_infos (sequence);
  g_autoptr(GArray) missing = g_array_new (FALSE, FALSE, sizeof (guint));
  g_autoptr(GArray) none = g_array_new (FALSE, FALSE, sizeof (guint));
  BenchSwitch s = { 0 };
  double begin = now_us (), away, there;
  BenchPrice price;
  LlmKvPlan plan;

  if (!llm_kv_seq_begin_call (sequence, N_NEW, &plan, error))
    return FALSE;
  llm_kv_seq_get_missing (sequence, missing);
  bench_switch_note (&s, run->engine->store, sequence, &run->rates.profile, infos, missing, N_NEW,
                     run->shape->n_layers, get_factor (run));
  bench_engine_call (run->engine, sequence, missing, N_NEW);
  away = now_us () - begin;

  llm_kv_seq_truncate (sequence, run->lengths[index]);
  begin = now_us ();
  bench_engine_call (run->engine, sequence, none, N_NEW);
  there = now_us () - begin;
  llm_kv_seq_truncate (sequence, run->lengths[index]);
  bench_engine_end_call (run->engine->store, sequence);

  price = bench_switch_price (&s, llm_kv_store_get_policy (run->engine->store), &run->disk,
                              run->rates.resident_us, run->rates.take_us_per_byte);
  run->calls.measured += away;
  run->calls.predicted += price.wait_us + s.new_us;
  run->waits.measured += away - there;
  run->waits.predicted += price.wait_us;
  run->n_rows += s.n_recomputed;
  run->bytes += s.read_bytes;
  return TRUE;
}

static gboolean
run_switches (Run     *run,
              GError **error)
{
  guint last = N_CONTEXTS;

  for (guint i = 0; i < run->config->n_switches; i++)
    {
      guint index;

      do
        index = bench_random_range (&run->random, 0, N_CONTEXTS - 1);
      while (index == last);
      last = index;
      evict (run);
      if (!measure_read (run, index, error))
        return FALSE;
      evict (run);
      if (!measure_call (run, index, error))
        return FALSE;
    }
  return TRUE;
}

static void
print_pair (const BenchRealConfig *config,
            const char            *name,
            const Pair            *pair)
{
  double n = config->n_switches * 1000.0;

  if (!config->is_silent)
    printf (" %.2f | %.2f | %.3f |", pair->predicted / n, pair->measured / n,
            pair->predicted / pair->measured);
  json_builder_set_member_name (config->json, name);
  json_builder_begin_object (config->json);
  json_builder_set_member_name (config->json, "predicted-ms");
  json_builder_add_double_value (config->json, pair->predicted / n);
  json_builder_set_member_name (config->json, "measured-ms");
  json_builder_add_double_value (config->json, pair->measured / n);
  json_builder_end_object (config->json);
}

static void
print_run (Run *run)
{
  const BenchRealConfig *config = run->config;

  if (!config->is_silent)
    printf ("| %s |", run->shape->title);
  json_builder_set_member_name (config->json, run->shape->name);
  json_builder_begin_object (config->json);
  print_pair (config, "read", &run->reads);
  print_pair (config, "wait", &run->waits);
  print_pair (config, "call", &run->calls);
  json_builder_end_object (config->json);
  if (!config->is_silent)
    printf (" %.1f | %.1f |\n", run->bytes / config->n_switches / 1048576,
            (double) run->n_rows / config->n_switches);
}

static gboolean
run_shape (const BenchRealConfig *config,
           const BenchModelShape *shape,
           GError               **error)
{
  g_autofree char *model = bench_rate_file_get_model (config->rates, shape, error);
  g_autofree char *folder = g_build_filename (config->folder, "llmsvc-bench-XXXXXX", NULL);
  const BenchEngineConfig engine = { .path = model, .policy = llm_kv_policy_find ("llms"),
                                     .chunks = folder };
  Run run = { .config = config, .shape = shape };
  gboolean is_done;

  if (model == NULL || !bench_rate_file_get_rates (config->rates, shape, &run.rates, error) ||
      !bench_rate_file_get_disk (config->rates, &run.disk, error))
    return FALSE;
  if (g_mkdtemp (folder) == NULL)
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "No folder can be made in %s",
                   config->folder);
      return FALSE;
    }
  run.random = bench_random_derive (config->seed, 2);
  run.engine = bench_engine_new (&engine, error);
  is_done = run.engine != NULL;
  if (is_done)
    {
      LlmKvProfile profile = run.rates.profile;

      profile.read_latency_us = run.disk.latency_us;
      profile.read_bytes_per_us = run.disk.read_bytes_per_us;
      profile.write_bytes_per_us = run.disk.write_bytes_per_us;
      llm_kv_store_set_profile (run.engine->store, &profile);
      is_done = fill_contexts (&run, error) && run_switches (&run, error);
    }
  for (guint i = 0; i < N_CONTEXTS; i++)
    g_clear_pointer (&run.sequences[i], llm_kv_seq_free);
  bench_engine_free (run.engine);
  llm_test_folder_remove (folder);
  if (is_done)
    print_run (&run);
  return is_done;
}

gboolean
bench_switches_run (const BenchRealConfig *config,
                    GError               **error)
{
  json_builder_set_member_name (config->json, "switches");
  json_builder_begin_object (config->json);
  if (!config->is_silent)
    printf ("\n%u real switches of each model to contexts of which a random part was away, "
            "question of %d tokens, means in ms: predicted, measured, ratio\n\n"
            "| model | read | | | wait | | | whole call | | | MiB read | rows recomputed |\n"
            "|---|---|---|---|---|---|---|---|---|---|---|---|\n", config->n_switches, N_NEW);
  for (guint i = 0; config->shapes[i] != NULL; i++)
    if (!run_shape (config, config->shapes[i], error))
      return FALSE;
  json_builder_end_object (config->json);
  return TRUE;
}
