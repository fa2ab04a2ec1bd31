/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Decoding beside other work: quiet, then beside busy processes that gave way by their
 * niceness, in turns. What is kept of the speed shows whether one slow
 * processor sets the pace.
 */

#include "bench.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench-engine.h"
#include "bench-peer.h"

#define OWN_NAME "llmsvc"
#define NICENESS 10
#define MAX_BUSY 256
/* Until the scheduler has spread the processes. */
#define SETTLE_US 100000

static char *opt_model;
static int opt_gen = 32;
static int opt_busy = 2;
static int opt_threads;
static int opt_runs = 5;
static char **opt_peers;
static char *opt_kernels;
static char *opt_cache;
static gboolean opt_json;

static const GOptionEntry entries[] = {
  { "model", 'm', 0, G_OPTION_ARG_FILENAME, &opt_model, "The GGUF file", "FILE" },
  { "gen", 0, 0, G_OPTION_ARG_INT, &opt_gen, "Tokens to generate (32)", "N" },
  { "busy", 0, 0, G_OPTION_ARG_INT, &opt_busy, "Busy processes at niceness 10 (2)", "N" },
  { "threads", 0, 0, G_OPTION_ARG_INT, &opt_threads, "Threads that compute (all processors)",
    "N" },
  { "runs", 0, 0, G_OPTION_ARG_INT, &opt_runs, "Rounds (5)", "N" },
  { "peer", 0, 0, G_OPTION_ARG_STRING_ARRAY, &opt_peers,
    "A program like llama-bench to run in turns; may be given several times", "LLAMA_BENCH" },
  { "kernels", 0, 0, G_OPTION_ARG_STRING, &opt_kernels, "Kernels to use (the best)", "NAME" },
  { "cache", 0, 0, G_OPTION_ARG_FILENAME, &opt_cache,
    "Where the prepared copy is kept (prepared in memory)", "FOLDER" },
  { "json", 0, 0, G_OPTION_ARG_NONE, &opt_json, "One JSON object", NULL },
  G_OPTION_ENTRY_NULL
};

/* --- the others --- */

/* A process that never ends by itself, but with this one. */
static pid_t
start_busy (void)
{
  pid_t pid = fork ();

  if (pid != 0)
    return pid;
  prctl (PR_SET_PDEATHSIG, SIGKILL);
  setpriority (PRIO_PROCESS, 0, NICENESS);
  for (volatile guint64 i = 0;; i++)
    ;
}

static void
start_all (pid_t *pids)
{
  for (int i = 0; i < opt_busy; i++)
    {
      pids[i] = start_busy ();
      if (pids[i] < 0)
        g_error ("No process can be started");
    }
  g_usleep (SETTLE_US);
}

static void
stop_all (const pid_t *pids)
{
  for (int i = 0; i < opt_busy; i++)
    {
      kill (pids[i], SIGKILL);
      waitpid (pids[i], NULL, 0);
    }
}

/* --- one run --- */

static double
time_own (BenchEngine *engine)
{
  LlmKvSeq *sequence = llm_kv_seq_new (engine->store, NULL, NULL);
  double seconds = bench_engine_decode (engine, &sequence, 1, (guint) opt_gen, NULL);

  llm_kv_seq_free (sequence);
  return seconds;
}

/* 0: not measured, and why was said. */
static double
time_peer (BenchPeer *peer,
           guint      n_threads)
{
  g_autoptr(GError) error = NULL;
  BenchPeerTimes times;

  if (peer->has_failed)
    return 0;
  if (bench_peer_run (peer, opt_model, 0, (guint) opt_gen, 0, 1, n_threads, &times, &error))
    return times.decode_seconds;
  g_printerr ("llmsvc-bench: left out: %s\n", error->message);
  peer->has_failed = TRUE;
  return 0;
}

/* Quiet, then busy. @peer: NULL for this engine. */
static void
run_pair (GPtrArray   *figures,
          BenchEngine *engine,
          BenchPeer   *peer)
{
  const char *name = peer != NULL ? peer->name : OWN_NAME;
  g_autofree char *quiet_name = g_strdup_printf ("%s, quiet", name);
  g_autofree char *busy_name = g_strdup_printf ("%s, beside %d busy processes", name, opt_busy);
  g_autofree char *kept_name = g_strdup_printf ("%s, kept", name);
  guint n_threads = llm_worker_pool_get_n_threads (engine->pool);
  pid_t pids[MAX_BUSY];
  double quiet, busy;

  quiet = peer != NULL ? time_peer (peer, n_threads) : time_own (engine);
  start_all (pids);
  busy = peer != NULL ? time_peer (peer, n_threads) : time_own (engine);
  stop_all (pids);
  if (quiet <= 0 || busy <= 0)
    return;
  bench_figures_add (figures, quiet_name, "tokens/s", opt_gen / quiet);
  bench_figures_add (figures, busy_name, "tokens/s", opt_gen / busy);
  bench_figures_add (figures, kept_name, "%", 100 * quiet / busy);
}

static gboolean
run_all (GPtrArray  *figures,
         GError    **error)
{
  const BenchEngineConfig config = {
    .path = opt_model,
    .kernels = opt_kernels,
    .cache = opt_cache,
    .n_threads = (guint) opt_threads,
  };
  g_autoptr(GPtrArray) peers = g_ptr_array_new_with_free_func ((GDestroyNotify) bench_peer_free);
  g_autoptr(BenchEngine) engine = NULL;

  for (guint i = 0; opt_peers != NULL && opt_peers[i] != NULL; i++)
    {
      BenchPeer *peer = bench_peer_new (opt_peers[i], error);

      if (peer == NULL)
        return FALSE;
      g_ptr_array_add (peers, peer);
    }
  engine = bench_engine_new (&config, error);
  if (engine == NULL)
    return FALSE;

  time_own (engine);
  for (int run = 0; run < opt_runs; run++)
    {
      run_pair (figures, engine, NULL);
      for (guint i = 0; i < peers->len; i++)
        run_pair (figures, engine, g_ptr_array_index (peers, i));
    }
  return TRUE;
}

int
bench_contention (int    argc,
                  char **argv)
{
  g_autoptr(GOptionContext) context = g_option_context_new (NULL);
  g_autoptr(GPtrArray) figures =
    g_ptr_array_new_with_free_func ((GDestroyNotify) bench_figure_free);
  g_autoptr(GError) error = NULL;

  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error) || opt_model == NULL ||
      opt_gen < 1 || opt_runs < 1 || opt_threads < 0 || opt_busy < 1 || opt_busy > MAX_BUSY)
    {
      g_printerr ("llmsvc-bench: %s\n",
                  error != NULL ? error->message
                                : "contention needs --model FILE, and --gen, --runs and --busy "
                                  "of 1 or more");
      return 2;
    }
  if (!run_all (figures, &error))
    {
      g_printerr ("llmsvc-bench: %s\n", error->message);
      return 1;
    }
  bench_print (figures, opt_json);
  return 0;
}
