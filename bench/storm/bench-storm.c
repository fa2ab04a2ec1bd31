/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Storms: the service in a control group with less memory than its budget, beside a program
 * that takes memory, touches it and lets go. How long that program waits for memory, beside
 * the service and beside other servers; whether any is killed; what of the answers is lost.
 */

#include "bench.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "bench-bus.h"
#include "storm/bench-storm-plot.h"
#include "storm/bench-storm-report.h"
#include "io/llm-file-map.h"
#include "support/llm-test-folder.h"

#define OWN_NAME "llmsvc"
/* Where the machine can't do it: what test programs call skipped. */
#define SKIPPED 77
/* Of the model file, in the page cache when a server starts. */
#define MAX_SHARE_WARM 0.01
#define MAX_STORMS 1000
#define COPY_BYTES ((gsize) 1 << 20)

static char *opt_daemon;
static char *opt_model;
static char *opt_folder;
static char **opt_peers;
static char *opt_threads;
static int opt_storms = 10;
static int opt_minutes;
static int opt_hurry = 1;
static gint64 opt_seed = 1;
static char *opt_plot;
static char *opt_trace;
static char *opt_json_file;
static gboolean opt_json;

static const GOptionEntry entries[] = {
  { "daemon", 0, 0, G_OPTION_ARG_FILENAME, &opt_daemon, "The llmsvcd to measure", "FILE" },
  { "model", 'm', 0, G_OPTION_ARG_FILENAME, &opt_model, "The GGUF file to answer with", "FILE" },
  { "peer", 0, 0, G_OPTION_ARG_STRING_ARRAY, &opt_peers,
    "A program like llama-server, with arguments if any; may be given several times",
    "LLAMA_SERVER" },
  { "folder", 0, 0, G_OPTION_ARG_FILENAME, &opt_folder,
    "Where a copy of the model is kept meanwhile (the folder for temporary files)", "FOLDER" },
  { "threads", 0, 0, G_OPTION_ARG_STRING, &opt_threads, "Threads of each server (its own choice)",
    "N" },
  { "storms", 0, 0, G_OPTION_ARG_INT, &opt_storms, "How many (10)", "N" },
  { "minutes", 0, 0, G_OPTION_ARG_INT, &opt_minutes,
    "As many storms as fit into this time, over the service alone", "N" },
  { "hurry", 0, 0, G_OPTION_ARG_INT, &opt_hurry, "All times of a storm divided by this (1)", "N" },
  { "seed", 0, 0, G_OPTION_ARG_INT64, &opt_seed, "Makes other texts and another order (1)", "N" },
  { "plot", 0, 0, G_OPTION_ARG_FILENAME, &opt_plot, "Write a plot (SVG)", "FILE" },
  { "trace", 0, 0, G_OPTION_ARG_FILENAME, &opt_trace,
    "Write the readings beside the service, for llmsvc-bench pressure", "FILE" },
  { "json-file", 0, 0, G_OPTION_ARG_FILENAME, &opt_json_file, "Write the results as JSON, too",
    "FILE" },
  { "json", 0, 0, G_OPTION_ARG_NONE, &opt_json, "One JSON object instead of tables", NULL },
  G_OPTION_ENTRY_NULL
};

/* --- the model's file --- */

/* A fresh copy, of which nothing is in the page cache: pages belong to the group that reads them
 * first. */
static gboolean
copy_model (const char  *from,
            const char  *to,
            GError     **error)
{
  g_autofree char *buffer = g_malloc (COPY_BYTES);
  int source = open (from, O_RDONLY | O_CLOEXEC);
  int target = open (to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  gboolean is_copied = source >= 0 && target >= 0;
  gssize n = 0;

  while (is_copied && (n = read (source, buffer, COPY_BYTES)) > 0)
    is_copied = write (target, buffer, (gsize) n) == n;
  if (source >= 0)
    close (source);
  if (target >= 0)
    close (target);
  if (!is_copied || n < 0)
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "%s can't be copied to %s", from, to);
      return FALSE;
    }
  bench_drop_from_cache (to);
  return TRUE;
}

static gboolean
check_cold (const char  *model,
            GError     **error)
{
  g_autoptr(LlmFileMap) map = llm_file_map_open (model, error);
  guint64 size, warm;

  if (map == NULL)
    return FALSE;
  size = llm_file_map_get_size (map);
  warm = llm_file_map_count_resident (map, 0, size);
  if (warm <= MAX_SHARE_WARM * size)
    return TRUE;
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_BUSY,
               "%s: %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT " bytes stay in the page cache",
               model, warm, size);
  return FALSE;
}

/* --- what comes out --- */

static void
write_file (const char *path,
            char       *text)
{
  g_autofree char *owned = text;
  g_autoptr(GError) error = NULL;

  if (!g_file_set_contents (path, owned, -1, &error))
    g_printerr ("llmsvc-bench: %s\n", error->message);
}

/* After each run: they take long. */
static void
write_files (GPtrArray            *results,
             const BenchStormPlan *plan)
{
  if (opt_json_file != NULL)
    {
      g_autoptr(JsonBuilder) builder = json_builder_new ();
      g_autoptr(JsonNode) root = NULL;

      bench_storm_add_json (results, plan, builder);
      root = json_builder_get_root (builder);
      write_file (opt_json_file, json_to_string (root, TRUE));
    }
  if (opt_plot != NULL)
    write_file (opt_plot, bench_storm_plot (results, plan));
  if (opt_trace != NULL && results->len > 1)
    write_file (opt_trace, bench_storm_trace (g_ptr_array_index (results, 1), plan));
}

static void
print_results (GPtrArray            *results,
               const BenchStormPlan *plan)
{
  if (opt_json)
    {
      g_autoptr(JsonBuilder) builder = json_builder_new ();

      bench_storm_add_json (results, plan, builder);
      bench_print_json (builder);
    }
  else
    bench_storm_print (results, plan);
}

/* --- runs --- */

/* In a folder of its own, with the model's file cold. */
static gboolean
run_one (GPtrArray            *results,
         BenchStormKind        kind,
         const char           *name,
         const char           *program,
         const BenchStormPlan *plan,
         const char           *model,
         GError              **error)
{
  g_autofree char *folder = llm_test_folder_new ();
  BenchStormServerConfig config = { program, model, folder, opt_threads };
  BenchStormResult *result = NULL;
  gboolean is_done = TRUE;

  g_printerr ("llmsvc-bench: %u storms beside %s\n", plan->n_storms, name);
  bench_drop_from_cache (model);
  if (bench_storm_is_interrupted ())
    g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_CANCELLED, "ended by a signal");
  else if (check_cold (model, error))
    result = bench_storm_run (kind, &config, plan, error);
  if (result != NULL)
    {
      result->name = g_strdup (name);
      g_ptr_array_add (results, result);
      write_files (results, plan);
    }
  if (result != NULL && kind == BENCH_STORM_OURS && opt_minutes == 0)
    {
      g_autofree char *quiet = llm_test_folder_new ();

      g_printerr ("llmsvc-bench: the same answers undisturbed\n");
      config.folder = quiet;
      is_done = bench_storm_compare (result, &config, plan, error);
      llm_test_folder_remove (quiet);
      write_files (results, plan);
    }
  llm_test_folder_remove (folder);
  return result != NULL && is_done;
}

static gboolean
run_all (GPtrArray            *results,
         const BenchStormPlan *plan,
         const char           *model,
         GError              **error)
{
  if (!run_one (results, BENCH_STORM_NOBODY, "nobody", NULL, plan, model, error) ||
      !run_one (results, BENCH_STORM_OURS, OWN_NAME, opt_daemon, plan, model, error))
    return FALSE;
  for (guint i = 0; opt_peers != NULL && opt_peers[i] != NULL; i++)
    {
      g_autofree char *name = g_path_get_basename (opt_peers[i]);

      if (!run_one (results, BENCH_STORM_PEER, name, opt_peers[i], plan, model, error))
        return FALSE;
    }
  return TRUE;
}

/* --- all of it --- */

/* Whether what the service promises was kept: nobody killed, nothing lost or changed. */
static gboolean
is_kept (GPtrArray *results)
{
  const BenchStormResult *own = g_ptr_array_index (results, 1);

  return own->killed_in == 0 && own->oom_kills == 0 && own->failure == NULL &&
         own->n_different <= 0 && own->has_eater && own->n_answers >= BENCH_STORM_APPS;
}

static void
hurry (BenchStormPlan *plan)
{
  plan->grow_ms /= (guint) opt_hurry;
  plan->hold_ms /= (guint) opt_hurry;
  plan->pause_ms /= (guint) opt_hurry;
}

static BenchStormPlan *
make_plan (GError **error)
{
  BenchStormPlan *plan = bench_storm_plan_new (opt_model, (guint) opt_storms, (guint64) opt_seed,
                                               error);

  if (plan == NULL)
    return NULL;
  hurry (plan);
  if (opt_minutes > 0)
    {
      guint storm_ms = plan->grow_ms + plan->hold_ms + plan->pause_ms;

      bench_storm_plan_free (plan);
      plan = bench_storm_plan_new (opt_model, (guint) opt_minutes * 60000 / storm_ms,
                                   (guint64) opt_seed, error);
      if (plan != NULL)
        hurry (plan);
    }
  return plan;
}

/* The exit status. */
static int
run (void)
{
  g_autoptr(GPtrArray) results =
    g_ptr_array_new_with_free_func ((GDestroyNotify) bench_storm_result_free);
  g_autoptr(GError) error = NULL;
  g_autoptr(BenchStormPlan) plan = make_plan (&error);
  g_autoptr(BenchStormGroup) group = NULL;
  g_autofree char *folder = NULL;
  g_autofree char *model = NULL;
  gboolean is_done;

  if (plan == NULL)
    {
      g_printerr ("llmsvc-bench: %s\n", error->message);
      return 1;
    }
  group = bench_storm_group_new (plan->limit, &error);
  if (group == NULL)
    {
      g_printerr ("llmsvc-bench: no storms, as no control group with a limit on memory can be "
                  "made here: %s\n", error->message);
      return SKIPPED;
    }
  g_clear_pointer (&group, bench_storm_group_free);
  folder = llm_test_folder_new ();
  model = g_build_filename (folder, "model.gguf", NULL);
  is_done = copy_model (opt_model, model, &error) && run_all (results, plan, model, &error);
  llm_test_folder_remove (folder);
  if (results->len > 1)
    print_results (results, plan);
  if (!is_done)
    {
      g_printerr ("llmsvc-bench: %s\n", error->message);
      return 1;
    }
  return is_kept (results) ? 0 : 1;
}

static void
on_signal (int number)
{
  bench_storm_interrupt ();
}

int
bench_storm (int    argc,
             char **argv)
{
  g_autoptr(GOptionContext) context = g_option_context_new (NULL);
  const struct sigaction action = { .sa_handler = on_signal };
  g_autoptr(GError) error = NULL;

  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error) || opt_daemon == NULL ||
      opt_model == NULL || opt_storms < 1 || opt_storms > MAX_STORMS || opt_minutes < 0 ||
      opt_minutes > MAX_STORMS / 4 || opt_hurry < 1 || opt_hurry > 20 ||
      (opt_minutes > 0 && opt_peers != NULL))
    {
      g_printerr ("llmsvc-bench: %s\n",
                  error != NULL ? error->message
                                : "storm needs --daemon FILE, --model FILE and 1 to 1000 storms; "
                                  "--minutes is without peers");
      return 2;
    }
  if (opt_folder != NULL)
    g_setenv ("TMPDIR", opt_folder, TRUE);
  /* groups, processes and the copy of the model are not to be left behind */
  sigaction (SIGINT, &action, NULL);
  sigaction (SIGTERM, &action, NULL);
  return run ();
}
