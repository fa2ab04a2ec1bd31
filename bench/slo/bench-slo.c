/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How many calls meet their latency targets as the load rises: of our service, of our
 * service when it takes calls in their order, and of other programs, with the same calls at
 * the same moments. With --fair, what users keep beside one who floods the service.
 * docs/benchmarks/slo.md tells how.
 */

#include "bench.h"

#include <math.h>
#include <string.h>

#include "slo/bench-slo-fair.h"
#include "slo/bench-slo-report.h"
#include "support/llm-test-folder.h"

#define DEFAULT_SECONDS 20
#define DEFAULT_CALLS 40
#define DEFAULT_LOADS "0.3,0.5,0.7,0.9,1.1"

#define QUICK_SECONDS 3
#define QUICK_CALLS 20
#define QUICK_LOADS "0.5,0.9"
#define QUICK_DIVISOR 4

#define FAIR_SECONDS 30
#define FAIR_ROUNDS 3
#define FAIR_USERS "2,4,8"
#define FAIR_QUICK_SECONDS 2
#define FAIR_QUICK_USERS "2"
#define FAIR_QUICK_DIVISOR 8

static char *opt_daemon;
static char *opt_model;
static char *opt_folder;
static char **opt_policies;
static char **opt_peers;
static char *opt_loads;
static double opt_seconds;
static int opt_calls;
static int opt_rounds = -1;  /* that of the benchmark */
static int opt_slots = 8;
static int opt_threads;
static gint64 opt_seed = 1;
static gboolean opt_fair;
static char *opt_users;
static char *opt_class;
static gboolean opt_quick;
static char *opt_plots;
static gboolean opt_json;
static char *opt_json_file;

static const GOptionEntry entries[] = {
  { "daemon", 0, 0, G_OPTION_ARG_FILENAME, &opt_daemon, "The llmsvcd to measure", "FILE" },
  { "model", 'm', 0, G_OPTION_ARG_FILENAME, &opt_model, "The GGUF file to answer with", "FILE" },
  { "policy", 0, 0, G_OPTION_ARG_STRING_ARRAY, &opt_policies,
    "deadline or fifo; may be given several times (both)", "NAME" },
  { "peer", 0, 0, G_OPTION_ARG_STRING_ARRAY, &opt_peers,
    "A program like llama-server, with arguments; may be given several times", "[NAME: ]COMMAND" },
  { "slots", 0, 0, G_OPTION_ARG_INT, &opt_slots, "Calls that a peer answers at once (8)", "N" },
  { "threads", 0, 0, G_OPTION_ARG_INT, &opt_threads, "Threads of peers (all processors)", "N" },
  { "loads", 0, 0, G_OPTION_ARG_STRING, &opt_loads,
    "Shares of the capacity, rising (" DEFAULT_LOADS ")", "LIST" },
  { "seconds", 0, 0, G_OPTION_ARG_DOUBLE, &opt_seconds, "Of calls in one run (20)", "S" },
  { "calls", 0, 0, G_OPTION_ARG_INT, &opt_calls,
    "At once, to measure the capacity (40)", "N" },
  { "rounds", 0, 0, G_OPTION_ARG_INT, &opt_rounds,
    "Runs of each policy at each load, with other calls each time (1; with --fair 3)", "N" },
  { "seed", 0, 0, G_OPTION_ARG_INT64, &opt_seed, "Makes other calls (1)", "N" },
  { "fair", 0, 0, G_OPTION_ARG_NONE, &opt_fair,
    "What users keep beside one who floods the service; needs --model only", NULL },
  { "users", 0, 0, G_OPTION_ARG_STRING, &opt_users,
    "With --fair: how many there are, rising (" FAIR_USERS ")", "LIST" },
  { "class", 0, 0, G_OPTION_ARG_STRING, &opt_class,
    "With --fair: of all calls (interactive)", "CLASS" },
  { "quick", 0, 0, G_OPTION_ARG_NONE, &opt_quick, "Two loads, short runs and prompts", NULL },
  { "folder", 0, 0, G_OPTION_ARG_FILENAME, &opt_folder,
    "Where prepared copies are kept meanwhile (the folder for temporary files)", "FOLDER" },
  { "plots", 0, 0, G_OPTION_ARG_FILENAME, &opt_plots, "Where plots go, as SVG", "FOLDER" },
  { "json", 0, 0, G_OPTION_ARG_NONE, &opt_json, "One JSON object instead of tables", NULL },
  { "json-file", 0, 0, G_OPTION_ARG_FILENAME, &opt_json_file, "The same, beside the tables",
    "FILE" },
  G_OPTION_ENTRY_NULL
};

/* --- what is asked for --- */

static gboolean
fail_option (GError    **error,
             const char *message)
{
  g_set_error_literal (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, message);
  return FALSE;
}

static gboolean
parse_loads (BenchSlo *bench,
             GError  **error)
{
  g_auto(GStrv) words = g_strsplit (opt_loads, ",", -1);

  for (guint i = 0; words[i] != NULL; i++)
    {
      char *end;
      double load = g_ascii_strtod (words[i], &end);

      if (end == words[i] || *end != '\0' || !isfinite (load) || load <= 0 || load > 100 ||
          bench->n_loads == BENCH_SLO_MAX_LOADS || (i > 0 && load <= bench->loads[i - 1]))
        return fail_option (error, "--loads takes up to 16 rising numbers above 0, with commas");
      bench->loads[bench->n_loads++] = load;
    }
  return bench->n_loads > 0 || fail_option (error, "--loads is empty");
}

static gboolean
choose_policies (BenchSlo *bench,
                 GError  **error)
{
  static const char *const both[] = { "deadline", "fifo", NULL };
  const char *const *names = opt_policies != NULL ? (const char *const *) opt_policies : both;

  for (guint i = 0; names[i] != NULL; i++)
    {
      BenchSloPolicy policy = { names[i], names[i], FALSE };

      if (!g_strv_contains (both, names[i]))
        return fail_option (error, "--policy takes deadline or fifo");
      g_array_append_val (bench->policies, policy);
    }
  for (guint i = 0; opt_peers != NULL && opt_peers[i] != NULL; i++)
    {
      char *colon = strstr (opt_peers[i], ": ");
      BenchSloPolicy policy = { opt_peers[i], opt_peers[i], TRUE };

      if (colon != NULL)
        {
          *colon = '\0';
          policy.name = colon + 2;
        }
      g_array_append_val (bench->policies, policy);
    }
  return TRUE;
}

static gboolean
check_options (BenchSlo *bench,
               GError  **error)
{
  if (opt_rounds == -1)
    opt_rounds = 1;
  if (opt_users != NULL || opt_class != NULL)
    return fail_option (error, "--users and --class go with --fair");
  if (opt_daemon == NULL || opt_model == NULL)
    return fail_option (error, "--daemon FILE and --model FILE are needed");
  if (opt_seconds < 0 || !isfinite (opt_seconds) || opt_seconds > 86400 || opt_calls < 0 ||
      opt_calls > 10000 || opt_rounds < 1 || opt_slots < 1 || opt_slots > 256 || opt_threads < 0)
    return fail_option (error, "slo needs --seconds and --calls that are not negative, --rounds of "
                               "1 or more and --slots from 1 to 256");
  if (opt_seconds <= 0)
    opt_seconds = opt_quick ? QUICK_SECONDS : DEFAULT_SECONDS;
  if (opt_calls == 0)
    opt_calls = opt_quick ? QUICK_CALLS : DEFAULT_CALLS;
  if (opt_loads == NULL)
    opt_loads = g_strdup (opt_quick ? QUICK_LOADS : DEFAULT_LOADS);
  if (opt_threads == 0)
    opt_threads = (int) g_get_num_processors ();
  bench->daemon = opt_daemon;
  bench->model = opt_model;
  bench->seconds = opt_seconds;
  bench->n_calls = (guint) opt_calls;
  bench->n_rounds = (guint) opt_rounds;
  bench->n_slots = (guint) opt_slots;
  bench->n_threads = (guint) opt_threads;
  bench->seed = (guint64) opt_seed;
  bench->divisor = opt_quick ? QUICK_DIVISOR : 1;
  bench->is_silent = opt_json;
  return parse_loads (bench, error) && choose_policies (bench, error);
}

/* --- what users keep --- */

static gboolean
parse_users (BenchFair *bench,
             GError   **error)
{
  g_auto(GStrv) words = g_strsplit (opt_users, ",", -1);

  for (guint i = 0; words[i] != NULL; i++)
    {
      guint64 n = 0;

      if (!g_ascii_string_to_unsigned (words[i], 10, 2, BENCH_FAIR_MAX_USERS, &n, NULL) ||
          bench->n_cases == BENCH_FAIR_MAX_CASES || (i > 0 && n <= bench->n_users[i - 1]))
        return fail_option (error, "--users takes up to 4 rising numbers from 2 to 16, with "
                                   "commas");
      bench->n_users[bench->n_cases++] = (guint) n;
    }
  return bench->n_cases > 0 || fail_option (error, "--users is empty");
}

static gboolean
check_fair_options (BenchFair *bench,
                    GError   **error)
{
  if (opt_model == NULL)
    return fail_option (error, "--model FILE is needed");
  if (opt_daemon != NULL || opt_policies != NULL || opt_peers != NULL || opt_loads != NULL ||
      opt_calls != 0 || opt_plots != NULL)
    return fail_option (error, "--fair needs no --daemon, and takes no policies, peers, loads, "
                               "calls or plots");
  if (opt_seconds < 0 || !isfinite (opt_seconds) || opt_seconds > 3600 || opt_rounds < -1 ||
      opt_rounds == 0 || opt_rounds > 1000 || opt_threads < 0)
    return fail_option (error, "--fair takes --seconds up to 3600, and 1 to 1000 --rounds");
  if (opt_class != NULL && !llm_slo_class_parse (opt_class, &bench->slo_class))
    return fail_option (error, "--class takes interactive, responsive or background");
  if (opt_users == NULL)
    opt_users = g_strdup (opt_quick ? FAIR_QUICK_USERS : FAIR_USERS);
  if (opt_seconds <= 0)
    opt_seconds = opt_quick ? FAIR_QUICK_SECONDS : FAIR_SECONDS;
  bench->model = opt_model;
  bench->seconds = opt_seconds;
  bench->n_rounds = opt_rounds > 0 ? (guint) opt_rounds : opt_quick ? 1 : FAIR_ROUNDS;
  bench->n_threads = opt_threads > 0 ? (guint) opt_threads : g_get_num_processors ();
  bench->seed = (guint64) opt_seed;
  bench->divisor = opt_quick ? FAIR_QUICK_DIVISOR : 1;
  bench->is_silent = opt_json;
  return parse_users (bench, error);
}

static gboolean
report (BenchSlo *bench,
        GError  **error)
{
  if (!opt_json)
    bench_slo_report_print (bench);
  if ((opt_json || opt_json_file != NULL) &&
      !bench_slo_report_json (bench, opt_json ? NULL : opt_json_file, error))
    return FALSE;
  return opt_plots == NULL || bench_slo_report_plots (bench, opt_plots, error);
}

int
bench_slo (int    argc,
           char **argv)
{
  g_autoptr(GOptionContext) context = g_option_context_new (NULL);
  g_autoptr(GArray) policies = g_array_new (FALSE, FALSE, sizeof (BenchSloPolicy));
  g_autoptr(GPtrArray) saturated =
    g_ptr_array_new_with_free_func ((GDestroyNotify) bench_slo_result_free);
  g_autoptr(GPtrArray) results =
    g_ptr_array_new_with_free_func ((GDestroyNotify) bench_slo_result_free);
  g_autoptr(GError) error = NULL;
  BenchSlo bench = { .policies = policies, .saturated = saturated, .results = results };
  BenchFair fair = { .slo_class = LLM_SLO_INTERACTIVE };
  g_autofree char *cache = NULL;
  gboolean is_done;

  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error) ||
      !(opt_fair ? check_fair_options (&fair, &error) : check_options (&bench, &error)))
    {
      g_printerr ("llmsvc-bench: %s\n", error->message);
      return 2;
    }
  if (opt_folder == NULL)
    opt_folder = g_strdup (g_get_tmp_dir ());
  bench.cache = fair.cache = cache = g_build_filename (opt_folder, "llmsvc-bench-XXXXXX", NULL);
  if (g_mkdtemp (cache) == NULL)
    {
      g_printerr ("llmsvc-bench: No folder can be made in %s\n", opt_folder);
      return 1;
    }
  is_done = opt_fair ? bench_fair_run (&fair, opt_json_file, &error)
                     : bench_slo_play (&bench, &error) && report (&bench, &error);
  llm_test_folder_remove (cache);
  if (is_done)
    return 0;
  g_printerr ("llmsvc-bench: %s\n", error->message);
  return 1;
}
