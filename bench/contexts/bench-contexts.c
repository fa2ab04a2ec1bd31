/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "contexts/bench-contexts.h"

#include <string.h>

#include "contexts/bench-replay.h"
#include "policies/bench-kv-policies.h"
#include "support/llm-test-folder.h"

#define MS 1000.0
/* The number of contexts whose bytes with 8 bits budgets are shares of. */
#define ALL_CONTEXTS 16
/* Seconds between calls of which the hours of a trace are. */
#define INTERVAL_S 300

static char **opt_policies;
static char **opt_shapes;
static char **opt_devices;
static char *opt_rates;
static char *opt_folder;
static char *opt_model;
static char *opt_peer;
static char *opt_pattern;
static gint64 opt_seed;
static double opt_hours;
static double opt_share;
static double opt_interval;
static int opt_switches;
static int opt_contexts;
static int opt_chunk;
static int opt_longest;
static int opt_deepest = 4096;

static const GOptionEntry entries[] = {
  { "policy", 0, 0, G_OPTION_ARG_STRING_ARRAY, &opt_policies, NULL, NULL },
  { "shape", 0, 0, G_OPTION_ARG_STRING_ARRAY, &opt_shapes, NULL, NULL },
  { "device", 0, 0, G_OPTION_ARG_STRING_ARRAY, &opt_devices, NULL, NULL },
  { "rates", 0, 0, G_OPTION_ARG_FILENAME, &opt_rates, NULL, NULL },
  { "folder", 0, 0, G_OPTION_ARG_FILENAME, &opt_folder, NULL, NULL },
  { "model", 0, 0, G_OPTION_ARG_FILENAME, &opt_model, NULL, NULL },
  { "peer", 0, 0, G_OPTION_ARG_STRING, &opt_peer, NULL, NULL },
  { "seed", 0, 0, G_OPTION_ARG_INT64, &opt_seed, NULL, NULL },
  { "switches", 0, 0, G_OPTION_ARG_INT, &opt_switches, NULL, NULL },
  /* of a replay */
  { "hours", 0, 0, G_OPTION_ARG_DOUBLE, &opt_hours, NULL, NULL },
  { "pattern", 0, 0, G_OPTION_ARG_STRING, &opt_pattern, NULL, NULL },
  { "share", 0, 0, G_OPTION_ARG_DOUBLE, &opt_share, NULL, NULL },
  { "contexts", 0, 0, G_OPTION_ARG_INT, &opt_contexts, NULL, NULL },
  { "chunk", 0, 0, G_OPTION_ARG_INT, &opt_chunk, NULL, NULL },
  { "longest", 0, 0, G_OPTION_ARG_INT, &opt_longest, NULL, NULL },
  { "deepest", 0, 0, G_OPTION_ARG_INT, &opt_deepest, NULL, NULL },
  { "interval", 0, 0, G_OPTION_ARG_DOUBLE, &opt_interval, NULL, NULL },
  G_OPTION_ENTRY_NULL
};

/* --- names --- */

static gboolean
fail_unknown (GError    **error,
              const char *what,
              const char *name)
{
  g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
               "There is no %s “%s”: see llmsvc-bench contexts --help", what, name);
  return FALSE;
}

static const BenchModelShape *
find_shape (const char *name)
{
  for (const BenchModelShape *shape = bench_model_shapes; shape->name != NULL; shape++)
    if (strcmp (shape->name, name) == 0)
      return shape;
  return NULL;
}

/* The real disk is measured where it is not in the file. */
static gboolean
find_all (BenchParts  *self,
          BenchDevice *disk,
          GError     **error)
{
  for (guint i = 0; opt_shapes != NULL && opt_shapes[i] != NULL; i++)
    {
      g_ptr_array_add (self->shapes, (gpointer) find_shape (opt_shapes[i]));
      if (self->shapes->pdata[i] == NULL)
        return fail_unknown (error, "model", opt_shapes[i]);
    }
  for (guint i = 0; opt_policies != NULL && opt_policies[i] != NULL; i++)
    {
      g_ptr_array_add (self->policies, (gpointer) bench_kv_policy_find (opt_policies[i]));
      if (self->policies->pdata[i] == NULL)
        return fail_unknown (error, "policy", opt_policies[i]);
    }
  for (guint i = 0; opt_devices != NULL && opt_devices[i] != NULL; i++)
    {
      gboolean is_disk = strcmp (opt_devices[i], "disk") == 0;

      g_ptr_array_add (self->devices,
                       is_disk ? disk : (gpointer) bench_device_find (opt_devices[i]));
      if (self->devices->pdata[i] == NULL)
        return fail_unknown (error, "device", opt_devices[i]);
      if (is_disk && !bench_rate_file_get_disk (&self->rates, disk, error))
        return FALSE;
    }
  return TRUE;
}

/* Titles and lengths of models, what devices are, which policies plan with them. */
static gboolean
names_part (BenchParts *self,
            GError    **error)
{
  JsonObject *shapes = json_object_new (), *devices = json_object_new ();
  JsonObject *policies = json_object_new ();

  for (guint i = 0; i < self->shapes->len; i++)
    {
      const BenchModelShape *shape = self->shapes->pdata[i];
      JsonArray *list = json_array_new ();

      json_array_add_string_element (list, shape->title);
      json_array_add_int_element (list, shape->max_slots);
      json_object_set_array_member (shapes, shape->name, list);
    }
  for (guint i = 0; i < self->devices->len; i++)
    {
      const BenchDevice *device = self->devices->pdata[i];

      json_object_set_string_member (devices, device->name, device->what);
    }
  for (guint i = 0; i < self->policies->len; i++)
    {
      const LlmKvPolicy *policy = self->policies->pdata[i];

      json_object_set_boolean_member (policies, policy->name, bench_policy_plans (policy));
    }
  json_object_set_object_member (self->json, "shapes", shapes);
  json_object_set_object_member (self->json, "devices", devices);
  json_object_set_object_member (self->json, "policies", policies);
  return TRUE;
}

/* Measures what computing costs where it is not in the file, and says which figures of the file no
 * undisturbed machine shows: "doubtful". */
static gboolean
rates_part (BenchParts *self,
            GError    **error)
{
  JsonArray *doubtful = json_array_new ();

  json_object_set_array_member (self->json, "doubtful", doubtful);
  for (guint i = 0; i < self->shapes->len; i++)
    {
      const BenchModelShape *shape = self->shapes->pdata[i];
      BenchRates rates;
      guint outlier;

      if (!bench_rate_file_get_rates (&self->rates, shape, &rates, error))
        return FALSE;
      outlier = bench_steps_find_outlier (llm_kv_profile_rows, rates.profile.prompt_us,
                                          LLM_KV_PROFILE_POINTS, rates.profile.depth_us);
      if (outlier < G_MAXUINT)
        {
          g_autofree char *text = g_strdup_printf ("%s: %u rows in %.3g ms", shape->title,
                                                   llm_kv_profile_rows[outlier],
                                                   rates.profile.prompt_us[outlier] / MS);

          json_array_add_string_element (doubtful, text);
        }
    }
  return TRUE;
}

/* --- a replay --- */

static BenchTrace *
make_trace (guint n_contexts)
{
  BenchTraceConfig config = {
    .n_contexts = n_contexts,
    .max_slots = (guint) opt_longest,
    /* as many calls, whatever their rate */
    .hours = opt_hours * opt_interval / INTERVAL_S,
    .interval_s = opt_interval,
    .seed = (guint64) opt_seed,
  };

  while (config.pattern < BENCH_N_PATTERNS - 1 &&
         g_strcmp0 (bench_pattern_names[config.pattern], opt_pattern) != 0)
    config.pattern++;
  return bench_trace_new (&config);
}

/* A share of what the contexts hold, and no less than the context of a call that runs may take
 * where chunks stay floats. */
static double
get_budget (const BenchReplayConfig *config)
{
  g_autoptr(BenchTrace) all = make_trace (ALL_CONTEXTS);
  guint slots = config->chunk_slots;
  double packed = bench_replay_get_slot_bytes (config->shape, slots, LLK_KV_Q8);
  double floats = bench_replay_get_slot_bytes (config->shape, slots, LLK_KV_F16);

  return MAX (opt_share * all->mean_slots * packed, (opt_longest + 2.0 * slots) * floats);
}

/* Sorts @us. */
static void
set_latency (JsonObject *object,
             const char *name,
             double     *us,
             guint       n)
{
  BenchLatency latency = bench_latency_new (us, n);
  JsonObject *member = json_object_new ();

  json_object_set_double_member (member, "mean-ms", latency.mean / MS);
  json_object_set_double_member (member, "p50-ms", latency.p50 / MS);
  json_object_set_double_member (member, "p95-ms", latency.p95 / MS);
  json_object_set_double_member (member, "p99-ms", latency.p99 / MS);
  json_object_set_double_member (member, "most-ms", latency.most / MS);
  json_object_set_object_member (object, name, member);
}

/* What the counted switches cost on @device; "waits" are in the order of the trace, µs. */
static JsonObject *
make_cell (const GArray            *switches,
           const BenchReplayConfig *config,
           const BenchDevice       *device)
{
  g_autofree double *waits = g_new (double, switches->len + 1);
  g_autofree double *reads = g_new (double, switches->len + 1);
  g_autofree double *overlapped = g_new (double, switches->len + 1);
  double n_resident = 0, read_bytes = 0, written_bytes = 0, n_recomputed = 0;
  JsonObject *cell = json_object_new ();
  JsonArray *list = json_array_new ();
  guint n = 0, n_least;

  for (guint i = 0; i < switches->len; i++)
    {
      const BenchSwitch *s = &g_array_index (switches, BenchSwitch, i);
      BenchPrice price;

      if (!s->is_counted)
        continue;
      price = bench_switch_price (s, config->policy, device, config->rates);
      json_array_add_double_element (list, price.wait_us);
      waits[n] = price.wait_us;
      reads[n] = price.read_us;
      overlapped[n++] = price.overlapped_us;
      read_bytes += s->read_bytes;
      written_bytes += s->written_bytes;
      n_recomputed += s->n_recomputed;
      n_resident += s->read_bytes == 0 && s->n_recomputed == 0 ? 1 : 0;
    }
  n_least = MAX (n, 1);
  json_object_set_double_member (cell, "budget-bytes", config->budget);
  json_object_set_double_member (cell, "switches", n);
  json_object_set_double_member (cell, "resident-share", n_resident / n_least);
  json_object_set_double_member (cell, "read-bytes", read_bytes / n_least);
  json_object_set_double_member (cell, "written-bytes", written_bytes / n_least);
  json_object_set_double_member (cell, "recomputed-rows", n_recomputed / n_least);
  set_latency (cell, "wait", waits, n);
  set_latency (cell, "without-prompt", reads, n);
  set_latency (cell, "if-overlapped", overlapped, n);
  json_object_set_array_member (cell, "waits", list);
  return cell;
}

/* Of the first model and policy; plans expect the first device, and cells are of all. */
static gboolean
replay_part (BenchParts *self,
             GError    **error)
{
  g_autoptr(BenchTrace) trace = NULL;
  g_autofree char *folder = NULL;
  BenchRates rates;
  BenchReplayConfig config = { .rates = &rates, .chunk_slots = (guint) opt_chunk };
  g_autoptr(GArray) switches = NULL;
  JsonArray *cells;

  if (self->shapes->len == 0 || self->policies->len == 0 || self->devices->len == 0 ||
      opt_contexts < 1 || opt_chunk < 1 || opt_longest < opt_chunk || opt_folder == NULL)
    return bench_fail_usage (error, "A replay needs a model, a policy, a device and numbers");
  config.shape = self->shapes->pdata[0];
  config.policy = self->policies->pdata[0];
  config.is_clairvoyant = strcmp (config.policy->name, "clairvoyant") == 0;
  config.device = self->devices->pdata[0];
  config.trace = trace = make_trace ((guint) opt_contexts);
  config.folder = folder = bench_make_folder (opt_folder, error);
  if (folder == NULL || !bench_rate_file_get_rates (&self->rates, config.shape, &rates, error))
    return FALSE;
  config.budget = get_budget (&config);
  switches = bench_replay_run (&config, error);
  llm_test_folder_remove (folder);
  if (switches == NULL)
    return FALSE;
  cells = json_array_new ();
  for (guint i = 0; i < self->devices->len; i++)
    json_array_add_object_element (cells, make_cell (switches, &config, self->devices->pdata[i]));
  json_object_set_array_member (self->json, "cells", cells);
  json_object_set_int_member (self->json, "calls", switches->len);
  return TRUE;
}

/* --- --- */

static const struct
{
  const char *name;
  gboolean (*run) (BenchParts *self,
                   GError    **error);
} parts[] = {
  { "names", names_part }, { "rates", rates_part }, { "replay", replay_part },
  { "switches", bench_switches_part }, { "ttft", bench_ttft_part }, { "slots", bench_slots_part },
};

static gboolean
run_parts (Bench      *bench,
           BenchParts *self,
           GError    **error)
{
  for (int i = 1; i < bench->argc; i++)
    for (guint k = 0; k < G_N_ELEMENTS (parts); k++)
      if (strcmp (bench->argv[i], parts[k].name) == 0 && !parts[k].run (self, error))
        return FALSE;
  bench_print_object (self->json);
  return TRUE;
}

static gboolean
run_contexts (Bench   *bench,
              GError **error)
{
  g_autoptr(GPtrArray) shapes = g_ptr_array_new ();
  g_autoptr(GPtrArray) devices = g_ptr_array_new ();
  g_autoptr(GPtrArray) policies = g_ptr_array_new ();
  g_autoptr(JsonObject) json = json_object_new ();
  BenchParts self = {
    .shapes = shapes,
    .devices = devices,
    .policies = policies,
    .n_switches = (guint) opt_switches,
    .deepest = (guint) MAX (opt_deepest, 1),
    .seed = (guint64) opt_seed,
    .peer = opt_peer,
    .rates = { .path = opt_rates, .folder = opt_folder, .model = opt_model },
    .json = json,
  };
  BenchDevice disk;
  gboolean is_done = bench_rate_file_open (&self.rates, error) && find_all (&self, &disk, error) &&
                     run_parts (bench, &self, error);

  bench_rate_file_clear (&self.rates);
  return is_done;
}

/* For `contexts`, which is written in Python. */
const BenchCommand bench_contexts_command = {
  .name = "contexts-part",
  .entries = entries,
  .arguments = "PART…",
  .run = run_contexts,
};
