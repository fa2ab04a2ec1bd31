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
static gboolean opt_json;

static const GOptionEntry entries[] = {
  { "daemon", 0, 0, G_OPTION_ARG_FILENAME, &opt_daemon, "The llmsvcd to measure", "FILE" },
  { "model", 'm', 0, G_OPTION_ARG_FILENAME, &opt_model, "The GGUF file to answer with", "FILE" },
  { "folder", 0, 0, G_OPTION_ARG_FILENAME, &opt_folder,
    "Where prepared copies are kept meanwhile (the folder for temporary files)", "FOLDER" },
  { "peer", 0, 0, G_OPTION_ARG_STRING_ARRAY, &opt_peers,
    "A program like llama-bench to run in turns; may be given several times", "LLAMA_BENCH" },
  { "threads", 0, 0, G_OPTION_ARG_INT, &opt_threads, "Threads of peers (all processors)", "N" },
  { "runs", 0, 0, G_OPTION_ARG_INT, &opt_runs, "Samples of each figure (5)", "N" },
  { "json", 0, 0, G_OPTION_ARG_NONE, &opt_json, "One JSON object", NULL },
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

/* A service that ends finishes writing its copy. */
static void
measure_starts (GPtrArray *figures)
{
  g_autofree char *cache = g_build_filename (opt_folder, "llmsvc-bench-XXXXXX", NULL);

  if (g_mkdtemp (cache) == NULL)
    g_error ("No folder can be made in %s", opt_folder);

  bench_drop_from_cache (opt_model);
  bench_figures_add (figures, "first start, model file not in the page cache", "ms",
                     time_start (cache));
  llm_test_folder_remove (cache);

  g_mkdir_with_parents (cache, 0700);
  bench_figures_add (figures, "first start, model file in the page cache", "ms",
                     time_start (cache));
  bench_figures_add (figures, "second start, prepared copy in the page cache", "ms",
                     time_start (cache));
  bench_drop_from_cache (opt_model);
  bench_drop_from_cache (cache);
  bench_figures_add (figures, "second start, nothing in the page cache", "ms", time_start (cache));
  llm_test_folder_remove (cache);
}

static void
measure_peer (GPtrArray *figures,
              BenchPeer *peer,
              gboolean   is_warm)
{
  g_autofree char *name = g_strdup_printf ("%s, from its start to one token, model file %s",
                                           peer->name, is_warm ? "in the page cache"
                                                               : "not in the page cache");
  g_autoptr(GError) error = NULL;
  guint n_threads = opt_threads > 0 ? (guint) opt_threads : g_get_num_processors ();
  BenchPeerTimes times;
  gint64 begin;

  if (peer->has_failed)
    return;
  if (!is_warm)
    bench_drop_from_cache (opt_model);
  begin = g_get_monotonic_time ();
  if (bench_peer_run (peer, opt_model, 0, 1, 0, 1, n_threads, &times, &error))
    bench_figures_add (figures, name, "ms", (double) (g_get_monotonic_time () - begin) / 1000);
  else
    {
      g_printerr ("llmsvc-bench: left out: %s\n", error->message);
      peer->has_failed = TRUE;
    }
}

/* Of memory that several processes map, each one's Pss has its share only, so that the
 * sum of them is what is really held. */
static void
measure_sharing (GPtrArray *figures)
{
  g_autofree char *cache = g_build_filename (opt_folder, "llmsvc-bench-XXXXXX", NULL);
  BenchBus *buses[2];
  double rss = 0, pss = 0;

  if (g_mkdtemp (cache) == NULL)
    g_error ("No folder can be made in %s", opt_folder);
  time_start (cache);
  for (guint i = 0; i < G_N_ELEMENTS (buses); i++)
    {
      buses[i] = bench_bus_new (opt_daemon, opt_model, cache);
      bench_bus_time_first_byte (buses[i], PROMPT, TOKENS);
      if (i == 0)
        bench_figures_add (figures, "one service: memory of its own and its share (Pss)", "MiB",
                           bench_read_proc_mib (buses[0]->daemon_pid, "smaps_rollup", "\nPss:"));
    }
  for (guint i = 0; i < G_N_ELEMENTS (buses); i++)
    {
      rss += bench_read_proc_mib (buses[i]->daemon_pid, "smaps_rollup", "Rss:");
      pss += bench_read_proc_mib (buses[i]->daemon_pid, "smaps_rollup", "\nPss:");
    }
  bench_figures_add (figures, "two services: sum of resident memory (Rss)", "MiB", rss);
  bench_figures_add (figures, "two services: sum of what they really hold (Pss)", "MiB", pss);
  for (guint i = 0; i < G_N_ELEMENTS (buses); i++)
    bench_bus_free (buses[i]);
  llm_test_folder_remove (cache);
}

int
bench_load (int    argc,
            char **argv)
{
  g_autoptr(GOptionContext) context = g_option_context_new (NULL);
  g_autoptr(GPtrArray) figures =
    g_ptr_array_new_with_free_func ((GDestroyNotify) bench_figure_free);
  g_autoptr(GPtrArray) peers = g_ptr_array_new_with_free_func ((GDestroyNotify) bench_peer_free);
  g_autoptr(GError) error = NULL;

  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error) || opt_daemon == NULL ||
      opt_model == NULL || opt_runs < 1 || opt_threads < 0)
    {
      g_printerr ("llmsvc-bench: %s\n",
                  error != NULL ? error->message : "--daemon FILE and --model FILE are needed");
      return 2;
    }
  for (guint i = 0; opt_peers != NULL && opt_peers[i] != NULL; i++)
    {
      BenchPeer *peer = bench_peer_new (opt_peers[i], &error);

      if (peer == NULL)
        {
          g_printerr ("llmsvc-bench: %s\n", error->message);
          return 2;
        }
      g_ptr_array_add (peers, peer);
    }
  if (opt_folder == NULL)
    opt_folder = g_strdup (g_get_tmp_dir ());

  for (int run = 0; run < opt_runs; run++)
    {
      measure_starts (figures);
      for (guint i = 0; i < peers->len; i++)
        for (int is_warm = 0; is_warm < 2; is_warm++)
          measure_peer (figures, g_ptr_array_index (peers, i), is_warm);
    }
  measure_sharing (figures);
  bench_print (figures, opt_json);
  return 0;
}
