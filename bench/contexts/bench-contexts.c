/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Contexts that are switched (L12): traces in virtual time through the real store under
 * several policies, and the same things measured in real time. docs/benchmarks/contexts.md says
 * what the figures mean.
 */

#include "contexts/bench-contexts.h"

#include <stdio.h>
#include <string.h>

#define DEFAULT_HOURS 72
#define QUICK_HOURS 12
#define DEFAULT_SWITCHES 200
#define QUICK_SWITCHES 20

static char **opt_policies;
static char **opt_shapes;
static char **opt_devices;
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
  { "json-file", 0, 0, G_OPTION_ARG_FILENAME, &opt_json_file, "The same, beside the tables",
    "FILE" },
  G_OPTION_ENTRY_NULL
};

typedef struct
{
  const char *name;
  gboolean is_virtual;
  gboolean (*run) (BenchParts *self,
                   GError    **error);
} Part;

/* In the order in which they run. */
static const Part parts[] = {
  { "grid", TRUE, bench_grid_part },
  { "capacity", TRUE, bench_capacity_part },
  { "ablations", TRUE, bench_ablations_part },
  { "sweeps", TRUE, bench_sweeps_part },
  { "switches", FALSE, bench_switches_part },
  { "ttft", FALSE, bench_ttft_part },
  { "slots", FALSE, bench_slots_part },
};

/* --- what is asked for --- */

typedef gconstpointer (*FindFunc) (BenchParts *self,
                                   const char *name,
                                   GError    **error);

static gconstpointer
find_shape (BenchParts *self,
            const char *name,
            GError    **error)
{
  for (const BenchModelShape *shape = bench_model_shapes; shape->name != NULL; shape++)
    if (strcmp (shape->name, name) == 0)
      return shape;
  return NULL;
}

static gconstpointer
find_policy (BenchParts *self,
             const char *name,
             GError    **error)
{
  return llm_kv_policy_find (name);
}

static BenchDevice disk;

static gconstpointer
find_device (BenchParts *self,
             const char *name,
             GError    **error)
{
  if (strcmp (name, "disk") != 0)
    return bench_device_find (name);
  return bench_rate_file_get_disk (self->rates, &disk, error) ? &disk : NULL;
}

/* @names: those that were given (nullable), else @defaults. */
static gboolean
choose (BenchParts        *self,
        GPtrArray         *list,
        const char        *what,
        char             **names,
        const char *const *defaults,
        FindFunc           find,
        GError           **error)
{
  const char *const *all = names != NULL ? (const char *const *) names : defaults;
  g_autoptr(GError) find_error = NULL;

  for (guint i = 0; all[i] != NULL; i++)
    {
      gconstpointer found = find (self, all[i], &find_error);

      if (found == NULL && find_error == NULL)
        g_set_error (&find_error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                     "There is no %s “%s”: see llmsvc-bench contexts --help", what, all[i]);
      if (found == NULL)
        {
          g_propagate_error (error, g_steal_pointer (&find_error));
          return FALSE;
        }
      g_ptr_array_add (list, (gpointer) found);
    }
  return TRUE;
}

static gboolean
choose_all (BenchParts *self,
            GError    **error)
{
  static const char *const policies[] = { "llms", "vllm-sq", "vllm-s", "swapping", "lmk", NULL };
  static const char *const shapes[] = { "8m", "1.1b", "1.3b-mha", NULL };
  static const char *const devices[] = { "disk", "ufs4", "ufs3", "sd", NULL };

  return choose (self, self->shapes, "model", opt_shapes, shapes, find_shape, error) &&
         choose (self, self->policies, "policy", opt_policies, policies, find_policy, error) &&
         choose (self, self->devices, "device", opt_devices, devices, find_device, error);
}

/* The parts of the command line; those in virtual time where it names none. */
static gboolean
choose_parts (Bench    *bench,
              gboolean *is_chosen,
              GError  **error)
{
  for (guint k = 0; k < G_N_ELEMENTS (parts); k++)
    is_chosen[k] = bench->argc == 1 && parts[k].is_virtual;
  for (int i = 1; i < bench->argc; i++)
    {
      gboolean is_found = FALSE;

      for (guint k = 0; k < G_N_ELEMENTS (parts); k++)
        if (strcmp (bench->argv[i], parts[k].name) == 0)
          is_chosen[k] = is_found = TRUE;
      if (!is_found)
        {
          g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                       "There is no part “%s”: see llmsvc-bench contexts --help", bench->argv[i]);
          return FALSE;
        }
    }
  return TRUE;
}

/* --- --- */

static gboolean
run_parts (BenchParts     *self,
           const gboolean *is_chosen,
           gboolean        is_virtual,
           GError        **error)
{
  gboolean runs = FALSE;

  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    runs = runs || (is_chosen[i] && parts[i].is_virtual == is_virtual);
  for (guint i = 0; i < self->devices->len && runs && is_virtual && !self->is_silent; i++)
    {
      const BenchDevice *device = self->devices->pdata[i];

      printf ("%s: %s\n", device->name, device->what);
    }
  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    if (is_chosen[i] && parts[i].is_virtual == is_virtual && !parts[i].run (self, error))
      return FALSE;
  if (!runs || !is_virtual)
    return TRUE;
  bench_cells_set_json (&self->grid, self->json);
  if (!self->is_silent)
    printf ("\n%" G_GUINT64_FORMAT " calls were replayed in %.0f s of all processors together, "
            "seed %" G_GINT64_FORMAT ", %g virtual hours a trace\n", self->grid.n_calls,
            self->grid.seconds, opt_seed, opt_hours);
  return TRUE;
}

static gboolean
end_json (Bench      *bench,
          JsonObject *json,
          GError    **error)
{
  g_autoptr(JsonNode) root = json_node_init_object (json_node_alloc (), json);
  g_autofree char *text = NULL;

  if (bench->as_json)
    bench_print_object (json);
  if (bench->as_json || opt_json_file == NULL)
    return TRUE;
  text = json_to_string (root, TRUE);
  return g_file_set_contents (opt_json_file, text, -1, error);
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
run_contexts (Bench   *bench,
              GError **error)
{
  static const guint all_contexts[] = { 2, 4, 6, 8, 12, 16, 0 }, quick_contexts[] = { 2, 8, 0 };
  static const double all_shares[] = { 0.25, 0.5, 0.75, 0 }, quick_shares[] = { 0.5, 0 };
  g_autoptr(GPtrArray) shapes = g_ptr_array_new ();
  g_autoptr(GPtrArray) devices = g_ptr_array_new ();
  g_autoptr(GPtrArray) policies = g_ptr_array_new ();
  g_autoptr(JsonObject) json = json_object_new ();
  gboolean is_chosen[G_N_ELEMENTS (parts)], is_done;
  BenchRateFile rates = { 0 };
  BenchParts self;

  if (!choose_parts (bench, is_chosen, error))
    return FALSE;
  if (opt_hours <= 0 || opt_switches < 1 || opt_jobs < 0)
    return bench_fail_usage (error, "contexts needs --hours above 0, --switches of 1 or more, and "
                                    "--jobs that is not negative");
  set_defaults ();
  rates.path = opt_rates;
  rates.folder = opt_folder;
  rates.model = opt_model;
  self = (BenchParts) {
    .shapes = shapes,
    .devices = devices,
    .policies = policies,
    .n_patterns = opt_quick ? 1 : BENCH_N_PATTERNS,
    .contexts = opt_quick ? quick_contexts : all_contexts,
    .shares = opt_quick ? quick_shares : all_shares,
    .n_switches = (guint) opt_switches,
    .seed = (guint64) opt_seed,
    .peer = opt_peer,
    .is_silent = bench->as_json,
    .rates = &rates,
    .grid = { .rates = &rates, .folder = opt_memory, .hours = opt_hours, .seed = (guint64) opt_seed,
              .n_jobs = (guint) opt_jobs },
    .json = json,
  };
  json_object_set_int_member (json, "seed", opt_seed);
  json_object_set_double_member (json, "hours", opt_hours);
  bench_grid_init (&self.grid);
  is_done = bench_rate_file_open (&rates, error) && choose_all (&self, error) &&
            run_parts (&self, is_chosen, TRUE, error) &&
            run_parts (&self, is_chosen, FALSE, error) && end_json (bench, json, error);
  bench_grid_clear (&self.grid);
  bench_rate_file_clear (&rates);
  return is_done;
}

const BenchCommand bench_contexts_command = {
  .name = "contexts",
  .summary = "what it costs to switch contexts, by policy",
  .entries = entries,
  .arguments = "[PART…]",
  .description = "Parts: grid, capacity, ablations and sweeps in virtual time (these, unless others "
                 "are named);\nswitches, ttft and slots in real time.",
  .run = run_contexts,
};
