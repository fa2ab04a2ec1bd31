/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The machine's limits: reading memory by pages, streams and threads, the caches,
 * computing by set of instructions, the disk by size of reads. All figures
 * are taken in turns, so that a slow minute of a shared machine slows all of them.
 */

#include "bench.h"

#include <string.h>

#include "bench-disk.h"
#include "machine/bench-limits.h"

static int opt_threads;
static int opt_runs = 5;
static int opt_size = 1024;
static char *opt_folder;
static gboolean opt_no_disk;
static gboolean opt_json;

static const GOptionEntry entries[] = {
  { "threads", 0, 0, G_OPTION_ARG_INT, &opt_threads, "Most threads at once (all processors)",
    "N" },
  { "runs", 0, 0, G_OPTION_ARG_INT, &opt_runs, "Samples of each figure (5)", "N" },
  { "size", 0, 0, G_OPTION_ARG_INT, &opt_size, "Memory and file that are read, in MiB (1024)",
    "N" },
  { "folder", 0, 0, G_OPTION_ARG_FILENAME, &opt_folder,
    "Where the file is made (the folder for temporary files)", "FOLDER" },
  { "no-disk", 0, 0, G_OPTION_ARG_NONE, &opt_no_disk, "Leave out the disk", NULL },
  { "json", 0, 0, G_OPTION_ARG_NONE, &opt_json, "One JSON object", NULL },
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

static const char *
plural (guint n)
{
  return n == 1 ? "" : "s";
}

static void
add_sample (GPtrArray  *figures,
            const char *unit,
            double      sample,
            const char *format,
            ...) G_GNUC_PRINTF (4, 5);

static void
add_sample (GPtrArray  *figures,
            const char *unit,
            double      sample,
            const char *format,
            ...)
{
  g_autofree char *name = NULL;
  va_list arguments;

  va_start (arguments, format);
  name = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  bench_figures_add (figures, name, unit, sample);
}

static void
measure_memory (GPtrArray         *figures,
                const BenchMemory *memory,
                const char        *name,
                guint              n_threads)
{
  static const guint n_streams[] = BENCH_STREAMS;

  add_sample (figures, "GB/s", bench_read_memory (memory, n_threads, 1, FALSE) / GIGA,
              "%s, plain, %u thread%s", name, n_threads, plural (n_threads));
  for (guint i = 0; i < G_N_ELEMENTS (n_streams); i++)
    add_sample (figures, "GB/s", bench_read_memory (memory, n_threads, n_streams[i], TRUE) / GIGA,
                "%s, %u stream%s with prefetch, %u thread%s", name, n_streams[i],
                plural (n_streams[i]), n_threads, plural (n_threads));
}

static void
measure_computing (GPtrArray *figures,
                   guint      n_threads)
{
  const BenchSet *const *sets = bench_set_list ();

  for (guint i = 0; sets[i] != NULL; i++)
    for (const BenchPeak *peak = sets[i]->peaks; peak->name != NULL; peak++)
      add_sample (figures, "Gop/s", bench_compute (peak, n_threads) / GIGA,
                  "%s %s (%s), %u thread%s", sets[i]->name, peak->name, peak->instruction,
                  n_threads, plural (n_threads));
}

/* Rounds with one thread and with all, in turns. */
static void
measure_all (GPtrArray    *figures,
             BenchMemory **memories,
             guint         max_threads)
{
  for (int run = 0; run < opt_runs; run++)
    for (guint n_threads = 1; n_threads <= max_threads;
         n_threads = n_threads == max_threads ? max_threads + 1 : max_threads)
      {
        for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
          if (memories[i] != NULL)
            measure_memory (figures, memories[i], kinds[i].name, n_threads);
        add_sample (figures, "GB/s", bench_read_cache (n_threads) / GIGA,
                    "second-level cache, %u thread%s", n_threads, plural (n_threads));
        measure_computing (figures, n_threads);
      }
}

int
bench_machine (int    argc,
               char **argv)
{
  g_autoptr(GOptionContext) context = g_option_context_new (NULL);
  g_autoptr(GPtrArray) figures =
    g_ptr_array_new_with_free_func ((GDestroyNotify) bench_figure_free);
  g_autoptr(GError) error = NULL;
  BenchMemory *memories[G_N_ELEMENTS (kinds)] = { NULL };
  const char *folder;

  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error) || opt_runs < 1 ||
      opt_threads < 0 || opt_size < 8)
    {
      g_printerr ("llmsvc-bench: %s\n",
                  error != NULL ? error->message
                                : "machine needs --runs of 1, --size of 8 or more");
      return 2;
    }

  folder = opt_folder != NULL ? opt_folder : g_get_tmp_dir ();
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      memories[i] = bench_memory_new (kinds[i].pages, (gsize) opt_size << 20, folder, &error);
      if (memories[i] == NULL)
        {
          g_printerr ("llmsvc-bench: %s is left out: %s\n", kinds[i].name, error->message);
          g_clear_error (&error);
          continue;
        }
      add_sample (figures, "%", 100.0 * memories[i]->huge_bytes / memories[i]->bytes,
                  "%s, share mapped as huge pages", kinds[i].name);
    }

  measure_all (figures, memories, opt_threads > 0 ? (guint) opt_threads : g_get_num_processors ());
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    bench_memory_free (memories[i]);
  if (!opt_no_disk && !bench_disk_measure (figures, folder, (gsize) opt_size << 20, opt_runs,
                                           &error))
    g_printerr ("llmsvc-bench: the disk is left out: %s\n", error->message);
  bench_print (figures, opt_json);
  return 0;
}
