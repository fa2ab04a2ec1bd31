/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Contexts that are switched (L12): traces in virtual time through the real store under
 * several policies, and the same things measured in real time. docs/benchmarks/contexts.md says
 * what the figures mean.
 */

#include "contexts/bench-contexts.h"

#include <stdio.h>
#include <string.h>

#include "contexts/bench-capacity.h"
#include "contexts/bench-sweeps.h"
#include "contexts/bench-tables.h"


#define DEFAULT_HOURS 72
#define QUICK_HOURS 12
#define DEFAULT_SWITCHES 200
#define QUICK_SWITCHES 20

static char **opt_policies;
static char **opt_shapes;
static char **opt_devices;
static char *opt_plots;
static char *opt_json_file;
static char *opt_rates;
static char *opt_folder;
static char *opt_memory;
static char *opt_model;
static char *opt_peer;
static gint64 opt_seed = 1;
static double opt_hours = DEFAULT_HOURS;
static int opt_switches = DEFAULT_SWITCHES;
static int opt_jobs;
static gboolean opt_quick;
static gboolean opt_json;

static const GOptionEntry entries[] = {
  { "policy", 0, 0, G_OPTION_ARG_STRING_ARRAY, &opt_policies,
    "Policies to compare, with the first one; several times (llms, vllm-sq, vllm-s, swapping, lmk)",
    "NAME" },
  { "shape", 0, 0, G_OPTION_ARG_STRING_ARRAY, &opt_shapes,
    "Models, several times (8m, 1.1b, 1.3b-mha)", "NAME" },
  { "device", 0, 0, G_OPTION_ARG_STRING_ARRAY, &opt_devices,
    "Devices, several times (disk, ufs4, ufs3, sd)", "NAME" },
  { "seed", 0, 0, G_OPTION_ARG_INT64, &opt_seed, "Other traces (1)", "N" },
  { "hours", 0, 0, G_OPTION_ARG_DOUBLE, &opt_hours, "Virtual time of a trace (72)", "HOURS" },
  { "switches", 0, 0, G_OPTION_ARG_INT, &opt_switches, "Real switches of each model (200)", "N" },
  { "quick", 0, 0, G_OPTION_ARG_NONE, &opt_quick, "Few points, short traces", NULL },
  { "rates", 0, 0, G_OPTION_ARG_FILENAME, &opt_rates,
    "What computing and reading cost here: used where it has them, measured and added where not",
    "FILE" },
  { "model", 'm', 0, G_OPTION_ARG_FILENAME, &opt_model, "The shipped model, for the shape 8m",
    "FILE" },
  { "folder", 0, 0, G_OPTION_ARG_FILENAME, &opt_folder,
    "On the disk to measure; models with random weights go there for a while (the temporary one)",
    "FOLDER" },
  { "memory", 0, 0, G_OPTION_ARG_FILENAME, &opt_memory,
    "In memory, for the chunks of the replays (/dev/shm)", "FOLDER" },
  { "peer", 0, 0, G_OPTION_ARG_STRING, &opt_peer,
    "A program that saves and loads the context of a model, for the part slots", "PROGRAM" },
  { "jobs", 0, 0, G_OPTION_ARG_INT, &opt_jobs, "Replays at once (all processors)", "N" },
  { "plots", 0, 0, G_OPTION_ARG_FILENAME, &opt_plots, "Where plots go, as SVG", "FOLDER" },
  { "json", 0, 0, G_OPTION_ARG_NONE, &opt_json, "One JSON object instead of tables", NULL },
  { "json-file", 0, 0, G_OPTION_ARG_FILENAME, &opt_json_file, "The same, beside the tables",
    "FILE" },
  G_OPTION_ENTRY_NULL
};

static const char *const default_policies[] = { "llms", "vllm-sq", "vllm-s", "swapping", "lmk",
                                                NULL };
static const guint all_contexts[] = { 2, 4, 6, 8, 12, 16, 0 };
static const guint quick_contexts[] = { 2, 8, 0 };
static const double all_shares[] = { 0.25, 0.5, 0.75, 0 };
static const double quick_shares[] = { 0.5, 0 };
static const BenchPattern patterns[] = { BENCH_RANDOM, BENCH_MARKOV, BENCH_GAUSSIAN };

typedef enum
{
  PART_GRID = 1 << 0,
  PART_CAPACITY = 1 << 1,
  PART_ABLATIONS = 1 << 2,
  PART_SWEEPS = 1 << 3,
  PART_SWITCHES = 1 << 4,
  PART_TTFT = 1 << 5,
  PART_SLOTS = 1 << 6,
} Part;

#define VIRTUAL_PARTS (PART_GRID | PART_CAPACITY | PART_ABLATIONS | PART_SWEEPS)

static const struct
{
  const char *name;
  Part part;
} part_names[] = {
  { "grid", PART_GRID }, { "capacity", PART_CAPACITY }, { "ablations", PART_ABLATIONS },
  { "sweeps", PART_SWEEPS }, { "switches", PART_SWITCHES }, { "ttft", PART_TTFT },
  { "slots", PART_SLOTS },
};

typedef struct
{
  BenchRateFile *rates;
  BenchDevice disk;
  GPtrArray *shapes;      /* (element-type BenchModelShape) NULL-terminated */
  GPtrArray *devices;     /* (element-type BenchDevice) likewise */
  GPtrArray *policies;    /* (element-type LlmKvPolicy) likewise */
  BenchAxes axes;
  JsonBuilder *json;
} Bench;

/* --- what is asked for --- */

static gboolean
fail_unknown (GError    **error,
              const char *what,
              const char *name)
{
  g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
               "There is no %s “%s”: see llmsvc-bench contexts --help", what, name);
  return FALSE;
}

static gboolean
choose_shapes (Bench   *bench,
               GError **error)
{
  for (const BenchModelShape *s = bench_model_shape_list (); opt_shapes == NULL && s->name != NULL;
       s++)
    g_ptr_array_add (bench->shapes, (gpointer) s);
  for (guint i = 0; opt_shapes != NULL && opt_shapes[i] != NULL; i++)
    {
      const BenchModelShape *shape = bench_model_shape_find (opt_shapes[i]);

      if (shape == NULL)
        return fail_unknown (error, "model", opt_shapes[i]);
      g_ptr_array_add (bench->shapes, (gpointer) shape);
    }
  g_ptr_array_add (bench->shapes, NULL);
  return TRUE;
}

static gboolean
choose_policies (Bench   *bench,
                 GError **error)
{
  const char *const *names = opt_policies != NULL ? (const char *const *) opt_policies
                                                  : default_policies;

  for (guint i = 0; names[i] != NULL; i++)
    {
      const LlmKvPolicy *policy = llm_kv_policy_find (names[i]);

      if (policy == NULL)
        return fail_unknown (error, "policy", names[i]);
      g_ptr_array_add (bench->policies, (gpointer) policy);
    }
  g_ptr_array_add (bench->policies, NULL);
  return TRUE;
}

static gboolean
choose_devices (Bench   *bench,
                GError **error)
{
  static const char *const all[] = { "disk", "ufs4", "ufs3", "sd", NULL };
  const char *const *names = opt_devices != NULL ? (const char *const *) opt_devices : all;

  for (guint i = 0; names[i] != NULL; i++)
    {
      const BenchDevice *device = bench_device_find (names[i]);

      if (strcmp (names[i], "disk") == 0)
        {
          if (!bench_rate_file_get_disk (bench->rates, &bench->disk, error))
            return FALSE;
          device = &bench->disk;
        }
      if (device == NULL)
        return fail_unknown (error, "device", names[i]);
      g_ptr_array_add (bench->devices, (gpointer) device);
    }
  g_ptr_array_add (bench->devices, NULL);
  return TRUE;
}

static void
set_axes (Bench *bench)
{
  bench->axes = (BenchAxes) {
    .shapes = (const BenchModelShape *const *) bench->shapes->pdata,
    .policies = (const LlmKvPolicy *const *) bench->policies->pdata,
    .devices = (const BenchDevice *const *) bench->devices->pdata,
    .patterns = patterns,
    .n_patterns = opt_quick ? 1 : G_N_ELEMENTS (patterns),
    .contexts = opt_quick ? quick_contexts : all_contexts,
    .shares = opt_quick ? quick_shares : all_shares,
  };
}

static gboolean
choose_parts (int      argc,
              char   **argv,
              guint   *parts,
              GError **error)
{
  *parts = argc > 1 ? 0 : VIRTUAL_PARTS;
  for (int i = 1; i < argc; i++)
    {
      guint found = 0;

      for (guint k = 0; k < G_N_ELEMENTS (part_names); k++)
        if (strcmp (argv[i], part_names[k].name) == 0)
          found = part_names[k].part;
      if (found == 0)
        return fail_unknown (error, "part", argv[i]);
      *parts |= found;
    }
  return TRUE;
}

/* --- parts in virtual time --- */

static gboolean
run_grid (Bench     *bench,
          BenchGrid *grid,
          GError   **error)
{
  bench_axes_add (&bench->axes, grid);
  if (!bench_grid_run (grid, error))
    return FALSE;
  if (!opt_json)
    bench_tables_print (&bench->axes, grid);
  return opt_plots == NULL || bench_tables_plot (&bench->axes, grid, opt_plots, error);
}

static gboolean
run_capacity (Bench     *bench,
              BenchGrid *grid,
              GError   **error)
{
  BenchAxes axes = bench->axes;
  g_autoptr(BenchCapacity) capacity = NULL;

  /* Many replays: of the largest model alone. */
  axes.shapes += bench->shapes->len - 2;
  capacity = bench_capacity_new (&axes, grid);
  if (!bench_capacity_run (capacity, error))
    return FALSE;
  if (!opt_json)
    bench_capacity_print (capacity);
  bench_capacity_add_json (capacity, bench->json);
  return TRUE;
}

static gboolean
run_virtual (Bench   *bench,
             guint    parts,
             GError **error)
{
  g_autoptr(BenchGrid) grid = bench_grid_new (bench->rates, opt_memory, opt_hours,
                                              (guint64) opt_seed, (guint) opt_jobs);
  guint64 n_calls;
  double seconds;

  if (!opt_json)
    for (guint d = 0; bench->axes.devices[d] != NULL; d++)
      printf ("%s: %s\n", bench->axes.devices[d]->name, bench->axes.devices[d]->what);
  if ((parts & PART_GRID) != 0 && !run_grid (bench, grid, error))
    return FALSE;
  if ((parts & PART_CAPACITY) != 0 && !run_capacity (bench, grid, error))
    return FALSE;
  if ((parts & PART_ABLATIONS) != 0 && !bench_sweeps_ablate (&bench->axes, grid, opt_json, error))
    return FALSE;
  if ((parts & PART_SWEEPS) != 0 && !bench_sweeps_run (&bench->axes, grid, opt_json, error))
    return FALSE;

  bench_tables_add_json (grid, bench->json);
  seconds = bench_grid_get_seconds (grid, &n_calls);
  if (!opt_json)
    printf ("\n%" G_GUINT64_FORMAT " calls were replayed in %.0f s of all processors together, "
            "seed %" G_GINT64_FORMAT ", %g virtual hours a trace\n", n_calls, seconds, opt_seed,
            opt_hours);
  return TRUE;
}

/* --- --- */

static gboolean
run_real (Bench   *bench,
          guint    parts,
          GError **error)
{
  const BenchRealConfig config = {
    .rates = bench->rates,
    .shapes = bench->axes.shapes,
    .folder = opt_folder,
    .n_switches = (guint) opt_switches,
    .seed = (guint64) opt_seed,
    .peer = opt_peer,
    .is_silent = opt_json,
    .json = bench->json,
  };

  return ((parts & PART_SWITCHES) == 0 || bench_switches_run (&config, error)) &&
         ((parts & PART_TTFT) == 0 || bench_ttft_run (&config, error)) &&
         ((parts & PART_SLOTS) == 0 || bench_slots_run (&config, error));
}

static gboolean
end_json (Bench   *bench,
          GError **error)
{
  g_autoptr(JsonGenerator) generator = json_generator_new ();
  g_autoptr(JsonNode) root = NULL;

  json_builder_end_object (bench->json);
  if (opt_json)
    {
      bench_print_json (bench->json);
      return TRUE;
    }
  if (opt_json_file == NULL)
    return TRUE;
  root = json_builder_get_root (bench->json);
  json_generator_set_root (generator, root);
  json_generator_set_pretty (generator, TRUE);
  return json_generator_to_file (generator, opt_json_file, error);
}

static gboolean
run_parts (Bench   *bench,
           guint    parts,
           GError **error)
{
  json_builder_begin_object (bench->json);
  json_builder_set_member_name (bench->json, "seed");
  json_builder_add_int_value (bench->json, opt_seed);
  json_builder_set_member_name (bench->json, "hours");
  json_builder_add_double_value (bench->json, opt_hours);
  return ((parts & VIRTUAL_PARTS) == 0 || run_virtual (bench, parts, error)) &&
         run_real (bench, parts, error) && end_json (bench, error);
}

static void
set_defaults (void)
{
  if (opt_folder == NULL)
    opt_folder = g_strdup (g_get_tmp_dir ());
  if (opt_memory == NULL)
    opt_memory = g_strdup (g_file_test ("/dev/shm", G_FILE_TEST_IS_DIR) ? "/dev/shm" : opt_folder);
  if (opt_quick && opt_hours >= DEFAULT_HOURS)
    opt_hours = QUICK_HOURS;
  if (opt_quick && opt_switches >= DEFAULT_SWITCHES)
    opt_switches = QUICK_SWITCHES;
}

static gboolean
open_bench (Bench   *bench,
            GError **error)
{
  bench->rates = bench_rate_file_new (opt_rates, opt_folder, opt_model, error);
  if (bench->rates == NULL || !choose_shapes (bench, error) || !choose_policies (bench, error) ||
      !choose_devices (bench, error))
    return FALSE;
  set_axes (bench);
  return TRUE;
}

int
bench_contexts (int    argc,
                char **argv)
{
  g_autoptr(GOptionContext) context = g_option_context_new ("[PART…]");
  g_autoptr(GPtrArray) shapes = g_ptr_array_new ();
  g_autoptr(GPtrArray) devices = g_ptr_array_new ();
  g_autoptr(GPtrArray) policies = g_ptr_array_new ();
  g_autoptr(JsonBuilder) json = json_builder_new ();
  g_autoptr(GError) error = NULL;
  Bench bench = { .shapes = shapes, .devices = devices, .policies = policies, .json = json };
  gboolean is_done;
  guint parts;

  g_option_context_add_main_entries (context, entries, NULL);
  g_option_context_set_summary (context,
                                "Parts: grid, capacity, ablations and sweeps in virtual time "
                                "(these, unless others are named);\nswitches, ttft and slots in "
                                "real time.");
  if (!g_option_context_parse (context, &argc, &argv, &error) ||
      !choose_parts (argc, argv, &parts, &error))
    {
      g_printerr ("llmsvc-bench: %s\n", error->message);
      return 2;
    }
  if (opt_hours <= 0 || opt_switches < 1 || opt_jobs < 0)
    {
      g_printerr ("llmsvc-bench: contexts needs --hours above 0, --switches of 1 or more, and "
                  "--jobs that is not negative\n");
      return 2;
    }
  set_defaults ();
  is_done = open_bench (&bench, &error) && run_parts (&bench, parts, &error);
  g_clear_pointer (&bench.rates, bench_rate_file_free);
  if (is_done)
    return 0;
  g_printerr ("llmsvc-bench: %s\n", error->message);
  return error->domain == G_OPTION_ERROR ? 2 : 1;
}
