/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Out-of-order dispatch of a prompt's chunks over two processors (N6): the paper's case by each rule, in
 * simulation; how long a decision takes; and with --model, a prompt on one thread of the CPU beside the
 * paced device, which is another thread and no faster, beside what the simulation says.
 */

#include "dispatch/llm-chunk-run.h"
#include "bench-engine.h"
#include "bench.h"
#include "dispatch/llm-paced.h"
#include "support/llm-test-dispatch.h"

#define PERCENT 100

static char *opt_model;
static int opt_chunk = 64;
static int opt_runs = 5;
static double opt_rate = 10000;

static const GOptionEntry entries[] = {
  { "model", 'm', 0, G_OPTION_ARG_FILENAME, &opt_model,
    "Also prompts of the GGUF file on the paced device", "FILE" },
  { "chunk", 0, 0, G_OPTION_ARG_INT, &opt_chunk, "Tokens of a chunk (64)", "N" },
  { "rate", 0, 0, G_OPTION_ARG_DOUBLE, &opt_rate,
    "Multiplications of the paced device in a microsecond (10000)", "N" },
  { "runs", 0, 0, G_OPTION_ARG_INT, &opt_runs, "Prompts of each length and rule (5)", "N" },
  G_OPTION_ENTRY_NULL
};

static const guint lengths[] = { 1, 2, 4, 6 };

/* --- the paper's case --- */

static void
add_gains (Bench                  *bench,
           const LlmDispatchGraph *graph,
           double                  serial_us,
           const char             *name)
{
  for (LlmDispatchRule rule = 0; rule < LLM_N_DISPATCH_RULES; rule++)
    bench_add (bench, "%", PERCENT * (1 - llm_dispatch_simulate (graph, rule).makespan_us / serial_us),
               "%s, shorter by %s", name, llm_dispatch_rule_get_name (rule));
}

static void
simulate_paper (Bench *bench)
{
  g_autofree LlmTestDispatch *graph = g_new (LlmTestDispatch, 1);

  llm_test_dispatch_paper (graph, 1, 0);
  bench_add (bench, "%",
             PERCENT * (1 - llm_dispatch_simulate (&graph->graph, 0).busy_us[LLM_PROCESSOR_DEVICE]
                              / llm_test_dispatch_get_serial (graph)),
             "the paper's case, time that the device waits in one chunk");
  for (guint i = 1; i < G_N_ELEMENTS (lengths); i++)
    for (guint growth = 0; growth <= 1; growth++)
      {
        g_autofree char *name = g_strdup_printf ("%u chunks, attention %s", lengths[i],
                                                 growth > 0 ? "+ 50 % a chunk" : "alike");

        llm_test_dispatch_paper (graph, lengths[i], 0.5 * growth);
        add_gains (bench, &graph->graph, llm_test_dispatch_get_serial (graph), name);
      }
}

/* A begin and its end. */
static void
time_decisions (Bench *bench)
{
  static const guint n_chunks[] = { 4, 16, LLM_DISPATCH_MAX_CHUNKS };
  g_autofree LlmTestDispatch *graph = g_new (LlmTestDispatch, 1);

  for (guint i = 0; i < G_N_ELEMENTS (n_chunks); i++)
    for (LlmDispatchRule rule = 0; rule < LLM_N_DISPATCH_RULES; rule++)
      {
        gint64 begun_us;

        llm_test_dispatch_paper (graph, n_chunks[i], 0.5);
        begun_us = g_get_monotonic_time ();
        (void) llm_dispatch_simulate (&graph->graph, rule);
        bench_add (bench, "µs",
                   (double) (g_get_monotonic_time () - begun_us)
                     / (graph->graph.n_chunks * graph->graph.n_stages),
                   "a decision, %u chunks, %s", n_chunks[i], llm_dispatch_rule_get_name (rule));
      }
}

/* --- the paced device --- */

typedef struct
{
  BenchEngine *engine;
  LlmBackend *device;
  LlmPlan *plan;
  LlmWorkerPool *pool;
  LlmChunkRun *run;
} Pair;

/* @rule: LLM_N_DISPATCH_RULES for the run's choice. Seconds; negative with @error set. */
static double
run_prompt (Pair    *pair,
            guint    n_chunks,
            guint    rule,
            GError **error)
{
  guint n_rows = n_chunks * (guint) opt_chunk;
  g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (pair->engine->store, NULL, NULL);
  LlmKvSeq *sequences[] = { seq };
  g_autofree LlmRow *rows = g_new0 (LlmRow, n_rows);
  g_autofree LlmBatch *chunks = g_new0 (LlmBatch, n_chunks);
  LlmStatus status = LLM_PENDING;
  gint64 begun_us;

  if (!llm_kv_seq_append (seq, n_rows, error))
    return -1;
  for (guint i = 0; i < n_rows; i++)
    rows[i] = (LlmRow) {
      .token = (gint32) (i * 101 % pair->engine->hparams->n_vocab), .position = i, .slot = i,
      .sub_model = 100, .wants_logits = i + 1 == n_rows,
    };
  for (guint i = 0; i < n_chunks; i++)
    chunks[i] = (LlmBatch) { rows + i * (guint) opt_chunk, (guint) opt_chunk, sequences, 1 };

  begun_us = g_get_monotonic_time ();
  if (rule == LLM_N_DISPATCH_RULES
        ? !llm_chunk_run_begin (pair->run, chunks, n_chunks, error)
        : !llm_chunk_run_begin_by (pair->run, chunks, n_chunks, rule, error))
    return -1;
  while ((status = llm_chunk_run_resume (pair->run, error)) == LLM_PENDING)
    llm_paced_wait (pair->device);
  return status == LLM_READY ? (double) (g_get_monotonic_time () - begun_us) / 1e6 : -1;
}

/* Each prompt by itself, after the simulation with what was known before it. */
static gboolean
measure_prompts (Bench   *bench,
                 Pair    *pair,
                 GError **error)
{
  for (int i = 0; i < opt_runs; i++)
    for (guint n = 0; n < G_N_ELEMENTS (lengths); n++)
      for (guint rule = 0; rule <= LLM_N_DISPATCH_RULES; rule++)
        {
          const char *name = rule < LLM_N_DISPATCH_RULES ? llm_dispatch_rule_get_name (rule)
                                                         : "the choice";
          LlmDispatchGraph graph;
          double serial_us = 0, simulated_us, seconds;

          llm_chunk_run_get_graph (pair->run, lengths[n], &graph);
          for (guint k = 0; k < graph.n_chunks * graph.n_stages; k++)
            serial_us += graph.times_us[k];
          simulated_us = llm_dispatch_simulate (&graph, rule < LLM_N_DISPATCH_RULES
                                                          ? rule : llm_dispatch_choose (&graph))
                           .makespan_us;
          seconds = run_prompt (pair, lengths[n], rule, error);
          if (seconds < 0)
            return FALSE;
          bench_add (bench, "%", PERCENT * (1 - seconds * 1e6 / serial_us),
                     "paced, %u chunks, %s: shorter", lengths[n], name);
          bench_add (bench, "×", seconds * 1e6 / simulated_us,
                     "paced, %u chunks, %s: beside the simulation", lengths[n], name);
        }
  return TRUE;
}

static gboolean
measure_model (Bench   *bench,
               GError **error)
{
  const BenchEngineConfig config = { .path = opt_model, .n_threads = 1 };
  g_autoptr (BenchEngine) engine = bench_engine_new (&config, error);
  LlmPacedConfig paced = { (guint) opt_chunk, opt_rate, 20 };
  LlmPlanConfig plan = { 0 };
  Pair pair = { .engine = engine };
  LlmPacedFigures figures;
  gboolean is_done;

  if (engine == NULL)
    return FALSE;

  plan.kernels = engine->kernels;
  pair.device = plan.device = llm_paced_new (engine->kernels, &paced);
  pair.plan = llm_plan_new (engine->hparams, engine->weights, &plan);
  pair.run = llm_chunk_run_new (pair.plan, engine->pool, NULL);
  /* in order: what stages take is learned */
  is_done = run_prompt (&pair, lengths[G_N_ELEMENTS (lengths) - 1], LLM_N_DISPATCH_RULES, error) >= 0
            && measure_prompts (bench, &pair, error);
  figures = llm_paced_get_figures (pair.device);
  bench_add (bench, "%", figures.n_done > 0 ? (double) PERCENT * figures.n_late / figures.n_done : 0,
             "paced, operations that its thread had not computed in time");
  llm_chunk_run_free (pair.run);
  llm_plan_unref (pair.plan);
  llm_backend_free (pair.device);
  return is_done;
}

static gboolean
run_dispatch (Bench   *bench,
              GError **error)
{
  if (opt_chunk < 1 || opt_chunk > LLM_BATCH_MAX_ROWS || opt_runs < 1 || !(opt_rate > 0))
    return bench_fail_usage (error, "dispatch needs --chunk of 1 to 512, --runs of 1 or more, and a "
                                    "--rate");

  simulate_paper (bench);
  for (int i = 0; i < opt_runs; i++)
    time_decisions (bench);
  return opt_model == NULL || measure_model (bench, error);
}

const BenchCommand bench_dispatch_command = {
  .name = "dispatch",
  .summary = "a prompt's chunks on two processors, out of order: simulated and on a paced device",
  .entries = entries,
  .run = run_dispatch,
};
