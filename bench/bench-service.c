/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The service as its users meet it: from the first call on a bus to the first
 * byte of text; what the bus adds to an answer, beside the same engine in one
 * process, both interleaved; and what the process holds.
 */

#include "bench.h"

#include <sys/resource.h>

#include "bench-bus.h"
#include "common/llmsvc-names.h"
#include "decoding/llm-buffer-sink.h"
#include "engine/llm-engine.h"
#include "support/llm-test-folder.h"

#define SETTLE_US 500000
#define PROMPT "I want a restaurant in San Jose."

static char *opt_daemon;
static char *opt_model;
static int opt_runs = 11;
static int opt_tokens = 32;

static const GOptionEntry entries[] = {
  { "daemon", 0, 0, G_OPTION_ARG_FILENAME, &opt_daemon, "The llmsvcd to measure", "FILE" },
  { "model", 0, 0, G_OPTION_ARG_FILENAME, &opt_model, "The GGUF file to answer with", "FILE" },
  { "runs", 0, 0, G_OPTION_ARG_INT, &opt_runs, "Samples of each figure (11)", "N" },
  { "tokens", 0, 0, G_OPTION_ARG_INT, &opt_tokens, "Tokens of an answer (32)", "N" },
  G_OPTION_ENTRY_NULL
};

static const char *const moments[] = { "no model loaded yet", "model loaded, one context",
                                       "after Trim critical" };

static GVariant *
make_options (void)
{
  return bench_bus_make_options ((guint) opt_tokens);
}

/* --- readings of processes --- */

/* CPU milliseconds of a process so far. */
static double
read_cpu_ms (guint pid)
{
  g_autofree char *folder = g_strdup_printf ("/proc/%u/task", pid);
  g_autoptr(GDir) tasks = g_dir_open (folder, 0, NULL);
  const char *task;
  double ms = 0;

  /* schedstat counts nanoseconds, per thread; threads here live as long as we look. */
  while (tasks != NULL && (task = g_dir_read_name (tasks)) != NULL)
    {
      g_autofree char *file = g_build_filename (folder, task, "schedstat", NULL);
      g_autofree char *text = NULL;

      if (g_file_get_contents (file, &text, NULL, NULL))
        ms += g_ascii_strtoull (text, NULL, 10) / 1e6;
    }
  return ms;
}

static double
read_own_cpu_ms (void)
{
  struct rusage usage;

  getrusage (RUSAGE_SELF, &usage);
  return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000.0 +
         (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000.0;
}

/* --- the same engine in this process --- */

typedef struct
{
  gboolean is_done;
} Answer;

static void
on_answer (const char   *text,
           GVariant     *results,
           const GError *error,
           gpointer      data)
{
  if (error != NULL)
    g_error ("The engine failed: %s", error->message);
  ((Answer *) data)->is_done = TRUE;
}

static void
answer_in_process (LlmEngine *engine,
                   LlmCaller *caller)
{
  Answer answer = { FALSE };
  g_autoptr(LlmSink) sink = llm_buffer_sink_new (on_answer, &answer, NULL);
  g_autoptr(GVariant) dict = g_variant_ref_sink (make_options ());
  g_autoptr(LlmCallOptions) options =
      llm_call_options_parse (dict, LLMSVC_CALL_COMPLETE, NULL, NULL);

  llm_engine_complete_async (engine, caller, PROMPT, options, sink, NULL, NULL);
  while (!answer.is_done)
    g_main_context_iteration (NULL, TRUE);
}

static LlmEngine *
start_engine (void)
{
  LlmSettings *settings = llm_settings_new ();
  LlmEngine *engine;

  settings->model_file = g_strdup (opt_model);
  engine = llm_engine_new (settings);
  llm_engine_start (engine);
  return engine;
}

/* --- --- */

static double
time_first_byte (BenchBus *bus)
{
  return bench_bus_time_first_byte (bus, PROMPT, (guint) opt_tokens);
}

static double
get_ms_since (gint64 begin)
{
  return (double) (g_get_monotonic_time () - begin) / 1000;
}

/* The first start of all prepares the model, and does not count. */
static void
measure_activation (Bench      *bench,
                    const char *cache)
{
  BenchBus *bus = bench_bus_new (opt_daemon, opt_model, cache);

  time_first_byte (bus);
  bench_bus_free (bus);
  for (int i = 0; i < opt_runs; i++)
    {
      bench_drop_from_cache (opt_model);
      bench_drop_from_cache (cache);
      bus = bench_bus_new (opt_daemon, opt_model, cache);
      bench_add (bench, "ms", time_first_byte (bus),
                 "activation to first byte, model not in page cache");
      bench_bus_free (bus);

      bus = bench_bus_new (opt_daemon, opt_model, cache);
      bench_add (bench, "ms", time_first_byte (bus),
                 "activation to first byte, model in page cache");
      bench_add (bench, "ms", time_first_byte (bus), "the same call, service running");
      bench_bus_free (bus);
    }
}

static double
read_all_cpu_ms (BenchBus *bus)
{
  return read_cpu_ms (bus->daemon_pid) + read_cpu_ms (bus->bus_pid) + read_own_cpu_ms ();
}

static void
measure_bus (Bench      *bench,
             const char *cache)
{
  BenchBus *bus = bench_bus_new (opt_daemon, opt_model, cache);
  g_autoptr(LlmCaller) caller = llm_caller_new (0, "", "", LLM_CALLER_HOST);
  g_autoptr(LlmEngine) engine = start_engine ();

  time_first_byte (bus);
  answer_in_process (engine, caller);
  for (int i = 0; i < opt_runs; i++)
    {
      double bus_cpu = read_all_cpu_ms (bus), engine_cpu, bus_ms, engine_ms, get_ms;
      gint64 begin = g_get_monotonic_time ();

      g_variant_unref (bench_bus_call (bus, LLMSVC_PATH, LLMSVC_INTERFACE, "Complete",
                                       g_variant_new ("(s@a{sv})", PROMPT, make_options ()),
                                       "(sa{sv})"));
      bus_ms = get_ms_since (begin);
      bus_cpu = read_all_cpu_ms (bus) - bus_cpu;

      engine_cpu = read_own_cpu_ms ();
      begin = g_get_monotonic_time ();
      answer_in_process (engine, caller);
      engine_ms = get_ms_since (begin);
      engine_cpu = read_own_cpu_ms () - engine_cpu;

      begin = g_get_monotonic_time ();
      g_variant_unref (bench_bus_get (bus, LLMSVC_MEMORY_INTERFACE, "Resident"));
      get_ms = get_ms_since (begin);
      bench_add (bench, "ms", bus_ms, "whole answer over the bus");
      bench_add (bench, "ms", engine_ms, "whole answer in one process");
      bench_add (bench, "×", bus_ms / engine_ms, "over the bus / in one process");
      bench_add (bench, "ms", bus_cpu, "CPU over the bus: service, bus and caller");
      bench_add (bench, "ms", engine_cpu, "CPU in one process");
      bench_add (bench, "ms", get_ms, "property read");
    }
  llm_engine_stop (engine);
  bench_bus_free (bus);
}

/* One life of the service; two figures for each of its moments. */
static void
measure_life (BenchFigure **figures,
              const char   *cache)
{
  BenchBus *bus = bench_bus_new (opt_daemon, opt_model, cache);

  g_variant_unref (bench_bus_get (bus, LLMSVC_INTERFACE, "Version"));
  bus->daemon_pid = bench_bus_find_pid (bus, LLMSVC_BUS_NAME);
  for (guint i = 0; i < G_N_ELEMENTS (moments); i++)
    {
      if (i == 1)
        time_first_byte (bus);
      else if (i == 2)
        g_variant_unref (bench_bus_call (bus, LLMSVC_PATH, LLMSVC_MEMORY_INTERFACE, "Trim",
                                         g_variant_new ("(sa{sv})", "critical", NULL),
                                         "(a{sv})"));
      /* what it does behind the reply is done */
      g_usleep (SETTLE_US);
      bench_figure_add (figures[2 * i], bench_read_proc_mib (bus->daemon_pid, "status", "VmRSS:"));
      bench_figure_add (figures[2 * i + 1],
                        bench_read_proc_mib (bus->daemon_pid, "status", "RssAnon:"));
    }
  bench_bus_free (bus);
}

static void
measure_memory (Bench      *bench,
                const char *cache)
{
  BenchFigure *held[2 * G_N_ELEMENTS (moments)];

  for (guint i = 0; i < G_N_ELEMENTS (held); i++)
    {
      g_autofree char *name = g_strdup_printf ("resident, %s", moments[i / 2]);

      held[i] = bench_figure_new (i % 2 == 0 ? name : "of which not backed by files", "MiB");
      g_ptr_array_add (bench->figures, held[i]);
    }
  for (int i = 0; i < opt_runs; i++)
    measure_life (held, cache);
}

static gboolean
run_service (Bench   *bench,
             GError **error)
{
  g_autofree char *cache = NULL;

  if (opt_daemon == NULL || opt_model == NULL || opt_runs < 1 || opt_tokens < 1)
    return bench_fail_usage (error, "--daemon FILE and --model FILE are needed");
  g_log_set_always_fatal (G_LOG_LEVEL_ERROR);
  cache = llm_test_folder_new ();
  measure_activation (bench, cache);
  measure_bus (bench, cache);
  measure_memory (bench, cache);
  llm_test_folder_remove (cache);
  return TRUE;
}

const BenchCommand bench_service_command = {
  .name = "service",
  .summary = "activation, what the bus adds, resident memory",
  .entries = entries,
  .run = run_service,
};
