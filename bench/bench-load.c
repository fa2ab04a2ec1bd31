/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * From the first call on a bus, which starts the service, to the first byte of an
 * answer: with a model that was never prepared, with a prepared copy in the page cache
 * and on the disk only; beside how long other programs take for a token; and
 * what two daemons share of a model.
 */

#include "bench.h"

#include "bench-bus.h"
#include "bench-peer.h"
#include "support/llm-test-folder.h"

#define PROMPT "Hi"
#define TOKENS 4

static char *opt_daemon;
static char *opt_model;
static char *opt_folder;
static char **opt_peers;
static int opt_threads;
static int opt_runs = 5;

static const GOptionEntry entries[] = {
  { "daemon", 0, 0, G_OPTION_ARG_FILENAME, &opt_daemon, "The llmsvcd to measure", "FILE" },
  { "model", 'm', 0, G_OPTION_ARG_FILENAME, &opt_model, "The GGUF file to answer with", "FILE" },
  { "folder", 0, 0, G_OPTION_ARG_FILENAME, &opt_folder,
    "Where prepared copies are kept meanwhile (the folder for temporary files)", "FOLDER" },
  { "peer", 0, 0, G_OPTION_ARG_STRING_ARRAY, &opt_peers,
    "A program like llama-bench to run in turns; may be given several times", "LLAMA_BENCH" },
  { "threads", 0, 0, G_OPTION_ARG_INT, &opt_threads, "Threads of peers (all processors)", "N" },
  { "runs", 0, 0, G_OPTION_ARG_INT, &opt_runs, "Samples of each figure (5)", "N" },
  G_OPTION_ENTRY_NULL
};

static double
time_start (const char *cache)
{
  BenchBus *bus = bench_bus_new (opt_daemon, opt_model, cache);
  double ms = bench_bus_time_first_byte (bus, PROMPT, TOKENS);

  bench_bus_free (bus);
  return ms;
}

/* Milliseconds are of a service that ends before the next one starts: it finishes writing its
 * copy then. */
static gboolean
measure_starts (Bench   *bench,
                GError **error)
{
  g_autofree char *first = bench_make_folder (opt_folder, error);
  g_autofree char *cache = first != NULL ? bench_make_folder (opt_folder, error) : NULL;

  if (cache == NULL)
    return FALSE;
  bench_drop_from_cache (opt_model);
  bench_add (bench, "ms", time_start (first), "first start, model file not in the page cache");
  llm_test_folder_remove (first);

  bench_add (bench, "ms", time_start (cache), "first start, model file in the page cache");
  bench_add (bench, "ms", time_start (cache), "second start, prepared copy in the page cache");
  bench_drop_from_cache (opt_model);
  bench_drop_from_cache (cache);
  bench_add (bench, "ms", time_start (cache), "second start, nothing in the page cache");
  llm_test_folder_remove (cache);
  return TRUE;
}

static void
measure_peer (Bench     *bench,
              BenchPeer *peer,
              gboolean   is_warm)
{
  const BenchPeerTest test = {
    opt_model, 0, 1, 0, 1, opt_threads > 0 ? (guint) opt_threads : g_get_num_processors (),
  };
  BenchPeerTimes times;
  gint64 begin;

  if (!is_warm)
    bench_drop_from_cache (opt_model);
  begin = g_get_monotonic_time ();
  if (bench_peer_run (peer, &test, &times))
    bench_add (bench, "ms", (double) (g_get_monotonic_time () - begin) / 1000,
               "%s, from its start to one token, model file %s", peer->name,
               is_warm ? "in the page cache" : "not in the page cache");
}

/* Of memory that several processes map, each one's Pss has its share only, so that the
 * sum of them is what is really held. */
static gboolean
measure_sharing (Bench   *bench,
                 GError **error)
{
  g_autofree char *cache = bench_make_folder (opt_folder, error);
  BenchBus *buses[2];
  double rss = 0, pss = 0;

  if (cache == NULL)
    return FALSE;
  time_start (cache);
  for (guint i = 0; i < G_N_ELEMENTS (buses); i++)
    {
      buses[i] = bench_bus_new (opt_daemon, opt_model, cache);
      bench_bus_time_first_byte (buses[i], PROMPT, TOKENS);
      if (i == 0)
        bench_add (bench, "MiB",
                   bench_read_proc_mib (buses[0]->daemon_pid, "smaps_rollup", "\nPss:"),
                   "one service: memory of its own and its share (Pss)");
    }
  for (guint i = 0; i < G_N_ELEMENTS (buses); i++)
    {
      rss += bench_read_proc_mib (buses[i]->daemon_pid, "smaps_rollup", "Rss:");
      pss += bench_read_proc_mib (buses[i]->daemon_pid, "smaps_rollup", "\nPss:");
    }
  bench_add (bench, "MiB", rss, "two services: sum of resident memory (Rss)");
  bench_add (bench, "MiB", pss, "two services: sum of what they really hold (Pss)");
  for (guint i = 0; i < G_N_ELEMENTS (buses); i++)
    bench_bus_free (buses[i]);
  llm_test_folder_remove (cache);
  return TRUE;
}

static gboolean
run_load (Bench   *bench,
          GError **error)
{
  g_autoptr(GPtrArray) peers = NULL;

  if (opt_daemon == NULL || opt_model == NULL || opt_runs < 1 || opt_threads < 0)
    return bench_fail_usage (error, "--daemon FILE and --model FILE are needed");
  peers = bench_peers_new (opt_peers, error);
  if (peers == NULL)
    return FALSE;
  if (opt_folder == NULL)
    opt_folder = g_strdup (g_get_tmp_dir ());

  for (int run = 0; run < opt_runs; run++)
    {
      if (!measure_starts (bench, error))
        return FALSE;
      for (guint i = 0; i < peers->len; i++)
        for (int is_warm = 0; is_warm < 2; is_warm++)
          measure_peer (bench, g_ptr_array_index (peers, i), is_warm);
    }
  return measure_sharing (bench, error);
}

const BenchCommand bench_load_command = {
  .name = "load",
  .summary = "from activation to the first token, what two services share",
  .entries = entries,
  .run = run_load,
};
