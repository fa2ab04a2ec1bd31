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
  double seconds = bench_engine_decode (engine, &sequence, 1, 1, FALSE, (guint) opt_gen, NULL);

  llm_kv_seq_free (sequence);
  return seconds;
}

/* 0: not measured. @peer: NULL for this engine. */
static double
time_one (BenchEngine *engine,
          BenchPeer   *peer)
{
  const BenchPeerTest test = { opt_model, 0, (guint) opt_gen, 0, 1, engine->n_threads };
  BenchPeerTimes times;

  if (peer == NULL)
    return time_own (engine);
  return bench_peer_run (peer, &test, &times) ? times.decode_seconds : 0;
}

/* Quiet, then busy. */
static void
run_pair (Bench       *bench,
          BenchEngine *engine,
          BenchPeer   *peer)
{
  const char *name = peer != NULL ? peer->name : OWN_NAME;
  pid_t pids[MAX_BUSY];
  double quiet = time_one (engine, peer), busy;

  start_all (pids);
  busy = time_one (engine, peer);
  stop_all (pids);
  if (quiet <= 0 || busy <= 0)
    return;
  bench_add (bench, "tokens/s", opt_gen / quiet, "%s, quiet", name);
  bench_add (bench, "tokens/s", opt_gen / busy, "%s, beside %d busy processes", name, opt_busy);
  bench_add (bench, "%", 100 * quiet / busy, "%s, kept", name);
}

static gboolean
run_contention (Bench   *bench,
                GError **error)
{
  const BenchEngineConfig config = {
    .path = opt_model,
    .kernels = opt_kernels,
    .cache = opt_cache,
    .n_threads = (guint) opt_threads,
  };
  g_autoptr(GPtrArray) peers = NULL;
  g_autoptr(BenchEngine) engine = NULL;

  if (opt_model == NULL || opt_gen < 1 || opt_runs < 1 || opt_threads < 0 || opt_busy < 1 ||
      opt_busy > MAX_BUSY)
    return bench_fail_usage (error, "contention needs --model FILE, and --gen, --runs and --busy "
                                    "of 1 or more");
  peers = bench_peers_new (opt_peers, error);
  engine = peers != NULL ? bench_engine_new (&config, error) : NULL;
  if (engine == NULL)
    return FALSE;

  time_own (engine);
  for (int run = 0; run < opt_runs; run++)
    {
      run_pair (bench, engine, NULL);
      for (guint i = 0; i < peers->len; i++)
        run_pair (bench, engine, g_ptr_array_index (peers, i));
    }
  return TRUE;
}

const BenchCommand bench_contention_command = {
  .name = "contention",
  .summary = "how much of its speed is left beside busy processes",
  .entries = entries,
  .run = run_contention,
};
