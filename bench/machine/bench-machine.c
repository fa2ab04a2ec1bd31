/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The machine's limits: reading memory by pages, streams and threads, the caches,
 * computing by set of instructions, the disk by size of reads. All figures
 * are taken in turns, so that a slow minute of a shared machine slows all of them.
 */

#include "machine/bench-limits.h"

static int opt_threads;
static int opt_runs = 5;
static int opt_size = 1024;
static char *opt_folder;
static gboolean opt_no_disk;

static const GOptionEntry entries[] = {
  { "threads", 0, 0, G_OPTION_ARG_INT, &opt_threads, "Most threads at once (all processors)",
    "N" },
  { "runs", 0, 0, G_OPTION_ARG_INT, &opt_runs, "Samples of each figure (5)", "N" },
  { "size", 0, 0, G_OPTION_ARG_INT, &opt_size, "Memory and file that are read, in MiB (1024)",
    "N" },
  { "folder", 0, 0, G_OPTION_ARG_FILENAME, &opt_folder,
    "Where the file is made (the folder for temporary files)", "FOLDER" },
  { "no-disk", 0, 0, G_OPTION_ARG_NONE, &opt_no_disk, "Leave out the disk", NULL },
  G_OPTION_ENTRY_NULL
};

static const struct
{
  BenchPages pages;
  const char *name;
} kinds[] = {
  { BENCH_PAGES_HUGE, "memory in huge pages" },
  { BENCH_PAGES_SMALL, "memory in 4 KiB pages" },
  { BENCH_PAGES_FILE, "mapped file" },
};

#define GIGA 1e9

/* What a step does between its products. */
static const double pauses_ms[] = { 0.1, 1, 10 };

static void
measure_memory (Bench             *bench,
                const BenchMemory *memory,
                const char        *name,
                guint              n_threads)
{
  static const guint n_streams[] = BENCH_STREAMS;
  const char *s = bench_plural (n_threads);

  bench_add (bench, "GB/s", bench_read_memory (memory, n_threads, 1, FALSE) / GIGA,
             "%s, plain, %u thread%s", name, n_threads, s);
  for (guint i = 0; i < G_N_ELEMENTS (n_streams); i++)
    bench_add (bench, "GB/s", bench_read_memory (memory, n_threads, n_streams[i], TRUE) / GIGA,
               "%s, %u stream%s with prefetch, %u thread%s", name, n_streams[i],
               bench_plural (n_streams[i]), n_threads, s);
}

static void
measure_computing (Bench   *bench,
                   guint    n_threads,
                   gboolean has_pauses)
{
  const BenchSet *const *sets = bench_set_list ();

  for (guint i = 0; sets[i] != NULL; i++)
    for (const BenchPeak *peak = sets[i]->peaks; peak->name != NULL; peak++)
      {
        g_autofree char *name = g_strdup_printf ("%s %s (%s), %u thread%s", sets[i]->name, peak->name,
                                                 peak->instruction, n_threads,
                                                 bench_plural (n_threads));
        BenchSpeeds speeds = bench_compute (peak, n_threads);

        bench_add (bench, "Gop/s", speeds.steady / GIGA, "%s", name);
        bench_add (bench, "Gop/s", speeds.rested / GIGA, "%s, behind a rest", name);
        bench_add (bench, "ms", speeds.rise_ms, "%s, until it is fast", name);
        for (guint k = 0; has_pauses && k < G_N_ELEMENTS (pauses_ms); k++)
          bench_add (bench, "Gop/s",
                     bench_compute_with_pauses (peak, n_threads, pauses_ms[k]) / GIGA,
                     "%s, with other work of %g ms between", name, pauses_ms[k]);
      }
}

/* With one thread and with all. */
static void
measure_round (Bench        *bench,
               BenchMemory **memories,
               guint         max_threads,
               gboolean      is_first)
{
  for (guint n_threads = 1; n_threads <= max_threads;
       n_threads = n_threads == max_threads ? max_threads + 1 : max_threads)
    {
      for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
        if (memories[i] != NULL)
          measure_memory (bench, memories[i], kinds[i].name, n_threads);
      bench_add (bench, "GB/s", bench_read_cache (n_threads) / GIGA,
                 "second-level cache, %u thread%s", n_threads, bench_plural (n_threads));
      measure_computing (bench, n_threads, is_first);
    }
}

static gboolean
run_machine (Bench   *bench,
             GError **error)
{
  BenchMemory *memories[G_N_ELEMENTS (kinds)] = { NULL };
  const char *folder = opt_folder != NULL ? opt_folder : g_get_tmp_dir ();
  g_autoptr(GError) disk_error = NULL;

  if (opt_runs < 1 || opt_threads < 0 || opt_size < 8)
    return bench_fail_usage (error, "machine needs --runs of 1, --size of 8 or more");

  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      g_autoptr(GError) memory_error = NULL;

      memories[i] = bench_memory_new (kinds[i].pages, (gsize) opt_size << 20, folder,
                                      &memory_error);
      if (memories[i] == NULL)
        g_printerr ("llmsvc-bench: %s is left out: %s\n", kinds[i].name, memory_error->message);
      else
        bench_add (bench, "%", 100.0 * memories[i]->huge_bytes / memories[i]->bytes,
                   "%s, share mapped as huge pages", kinds[i].name);
    }

  for (int run = 0; run < opt_runs; run++)
    measure_round (bench, memories,
                   opt_threads > 0 ? (guint) opt_threads : g_get_num_processors (), run == 0);
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    bench_memory_free (memories[i]);
  if (!opt_no_disk && !bench_disk_measure (bench, folder, (gsize) opt_size << 20, (guint) opt_runs,
                                           &disk_error))
    g_printerr ("llmsvc-bench: the disk is left out: %s\n", disk_error->message);
  return TRUE;
}

const BenchCommand bench_machine_command = {
  .name = "machine",
  .summary = "the machine's limits: memory, caches, computing, disk",
  .entries = entries,
  .run = run_machine,
};
