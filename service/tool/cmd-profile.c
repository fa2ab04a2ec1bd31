/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tool.h"

#include <errno.h>
#include <glib/gi18n.h>
#include <unistd.h>

#include "runtime/llm-profile.h"
#include "engine/llm-settings.h"
#include "model/llm-catalogue.h"
#include "model/llm-model.h"
#include "tool/tool-forecast.h"
#include "weights/llm-repacked-cache.h"

/* A stage takes less, so this is how often it is asked whether there is more to do. */
#define SLICE_US 100000

static char *path, *folder;
static int budget_mib, token_ms;
static gboolean as_json;

static const GOptionEntry entries[] = {
  { "model", 'm', 0, G_OPTION_ARG_FILENAME, &path, N_("The GGUF file"), N_("FILE") },
  { "output-dir", 'o', 0, G_OPTION_ARG_FILENAME, &folder,
    N_("Instead of the cache of the system, or of this user"), N_("DIR") },
  { "budget", 0, 0, G_OPTION_ARG_INT, &budget_mib,
    N_("Tell instead what a token takes where the model has only so much memory, and keep nothing"), "MIB" },
  { "token-ms", 0, 0, G_OPTION_ARG_INT, &token_ms,
    N_("With --budget: find the least that answers must leave out to take so long"), "MS" },
  { "json", 0, 0, G_OPTION_ARG_NONE, &as_json, N_("As one JSON object"), NULL },
  G_OPTION_ENTRY_NULL
};

/* The configured one, or the first that can be used. */
static LlmModel *
open_model (const LlmSettings *settings,
            GError           **error)
{
  g_autoptr(GPtrArray) found = NULL;

  if (path != NULL)
    return llm_model_open (path, error);
  found = llm_catalogue_scan ((const char *const *) settings->model_folders, settings->model_file,
                              settings->takes_any_tokenizer, NULL);
  for (guint i = 0; i < found->len; i++)
    {
      LlmModelInfo *info = g_ptr_array_index (found, i);

      if (info->error == NULL)
        return llm_model_info_open (info, error);
      if (i + 1 == found->len)
        g_propagate_error (error, g_error_copy (info->error));
    }
  if (found->len == 0)
    {
      g_autofree char *joined = g_strjoinv (G_SEARCHPATH_SEPARATOR_S, settings->model_folders);
      g_autofree char *folders = g_filename_display_name (joined);

      g_set_error (error, G_FILE_ERROR, G_FILE_ERROR_NOENT,
                   _("There is no model in the folders “%s”; name one with --model FILE"), folders);
    }
  return NULL;
}

static gboolean
measure (LlmModel          *model,
         LlmRepackedCache  *cache,
         LlmWorkerPool     *pool,
         const LlkOps      *kernels,
         const char        *disk_folder,
         LlmKvProfile      *profile,
         GError           **error)
{
  const LlmHparams *hparams = llm_model_get_hparams (model);
  const LlmPlanConfig config = { .kernels = kernels };
  g_autoptr(LlmWeights) weights = NULL;
  g_autoptr(LlmPlan) plan = NULL;
  g_autoptr(LlmDisk) disk = NULL;
  g_autoptr(LlmProfileRun) profiling = NULL;
  LlmStatus status;

  weights = llm_weights_new_repacked (llm_model_get_gguf (model), hparams, NULL, cache,
                                      llm_worker_pool_get_n_threads (pool), NULL, error);
  disk = weights != NULL ? llm_disk_new (NULL, error) : NULL;
  if (disk == NULL)
    return FALSE;
  plan = llm_plan_new (hparams, weights, &config);
  profiling = llm_profile_run_new (plan, pool, NULL, disk, disk_folder);
  do
    status = llm_profile_run_work (profiling, g_get_monotonic_time () + SLICE_US, profile, error);
  while (status == LLM_PENDING);
  return status == LLM_READY;
}

static void
print_json (const LlmProfileKey *key,
            const LlmKvProfile  *profile)
{
  GVariantBuilder rows;

  g_variant_builder_init (&rows, G_VARIANT_TYPE ("a{sd}"));
  for (guint i = 0; i < LLM_KV_PROFILE_POINTS; i++)
    {
      g_autofree char *name = g_strdup_printf ("%u", llm_kv_profile_rows[i]);

      g_variant_builder_add (&rows, "{sd}", name, profile->prompt_us[i]);
    }
  tool_print_json (g_variant_new_parsed ("{'version': <%u>, 'identity': <%s>, 'kernels': <%s>, "
                                         "'threads': <%u>, 'prompt-us': <%a{sd}>, "
                                         "'depth-us': <%d>, 'read-latency-us': <%d>, "
                                         "'read-bytes-per-us': <%d>, 'write-bytes-per-us': <%d>}",
                                         (guint) TOOL_JSON_VERSION, key->identity, key->kernels,
                                         key->n_threads, &rows, profile->depth_us,
                                         profile->read_latency_us, profile->read_bytes_per_us,
                                         profile->write_bytes_per_us), FALSE);
}

static void
print_text (const LlmProfileKey *key,
            const LlmKvProfile  *profile,
            const char          *disk_folder)
{
  g_autofree char *shown = g_filename_display_name (disk_folder);

  g_print (_("Model %s, kernels %s, %u threads\n"), key->identity, key->kernels, key->n_threads);
  for (guint i = 0; i < LLM_KV_PROFILE_POINTS; i++)
    g_print (_("Reading %u tokens: %.2f ms\n"), llm_kv_profile_rows[i],
             profile->prompt_us[i] / 1000);
  g_print (_("More for each token and 1000 tokens before it: %.1f µs\n"), profile->depth_us);
  /* Bytes in a microsecond are millions in a second. */
  g_print (_("The disk under %s: %.0f µs for one read, %.0f MB/s reading, %.0f MB/s writing\n"),
           shown, profile->read_latency_us, profile->read_bytes_per_us, profile->write_bytes_per_us);
}

static int
run (char **arguments)
{
  /* What the administrator measures is for the system's service. */
  gboolean is_system = geteuid () == 0;
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmSettings) settings = NULL;
  g_autoptr(LlmModel) model = NULL;
  g_autoptr(LlmRepackedCache) cache = NULL;
  g_autoptr(LlmWorkerPool) pool = NULL;
  const LlkOps *kernels;
  const char *disk_folder;
  LlmProfileKey key;
  LlmKvProfile profile;

  settings = llm_settings_load (is_system, NULL, &error);
  model = settings != NULL ? open_model (settings, &error) : NULL;
  if (model == NULL)
    return tool_fail (error);
  if (budget_mib < 0 || token_ms < 0 || (token_ms > 0 && budget_mib == 0))
    {
      g_printerr ("%s\n", _("llmsvc-tool: --budget and --token-ms are above 0, and --token-ms needs --budget"));
      return TOOL_USAGE;
    }
  if (folder == NULL)
    folder = g_strdup (settings->cache_folder);
  if (g_mkdir_with_parents (folder, is_system ? 0755 : 0700) < 0)
    {
      g_printerr (_("llmsvc-tool: %s can't be made: %s\n"), folder, g_strerror (errno));
      return TOOL_FAILED;
    }
  /* Where contexts are kept, or will be. */
  disk_folder =
    settings->state_folder != NULL && g_file_test (settings->state_folder, G_FILE_TEST_IS_DIR)
      ? settings->state_folder : folder;
  kernels = settings->kernels != NULL ? llk_ops_find (settings->kernels) : llk_ops_best ();
  pool = llm_worker_pool_new (settings->n_threads);
  cache = llm_repacked_cache_new (budget_mib > 0 ? folder : settings->cache_folder, is_system, settings->system_cache_folder,
                                  settings->cache_limit);
  key = (LlmProfileKey) {
    .identity = llm_model_get_identity (model),
    .kernels = kernels->name,
    .n_threads = llm_worker_pool_get_n_threads (pool),
  };
  if (budget_mib > 0)
    {
      const ToolForecast forecast = {
        .budget = (guint64) budget_mib << 20,
        .most_us = token_ms * 1000.0,
        .as_json = as_json,
      };

      return tool_forecast_print (&forecast, model, cache, pool, kernels, &error) ? TOOL_OK
                                                                                  : tool_fail (error);
    }
  if (!measure (model, cache, pool, kernels, disk_folder, &profile, &error)
      || !llm_profile_save (folder, is_system, &key, &profile, &error))
    return tool_fail (error);

  if (as_json)
    print_json (&key, &profile);
  else
    print_text (&key, &profile, disk_folder);
  return TOOL_OK;
}

const ToolCommand tool_profile = {
  "profile", N_("Measure what bringing contexts back costs"), NULL,
  N_("Measures how long the model takes to read prompts and how fast the disk is, "
     "and keeps the result for the service.\n"
     "With --budget: what a token takes where the model has no more memory and the rest of it comes "
     "from the disk, whole or without what answers leave out (“active”)."), 0, entries, run,
};
