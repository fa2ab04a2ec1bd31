/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tool.h"

#include <errno.h>
#include <glib/gi18n.h>
#include <json-glib/json-glib.h>
#include <stdio.h>
#include <unistd.h>

#include "runtime/llm-profile.h"
#include "engine/llm-settings.h"
#include "model/llm-catalogue.h"
#include "model/llm-model.h"
#include "weights/llm-weights-prepared.h"

/* A stage takes less, so this is how often it is asked whether there is more to do. */
#define SLICE_US 100000

/* The configured one, or the first that can be used. */
static LlmModel *
open_model (const char        *path,
            const LlmSettings *settings,
            GError           **error)
{
  g_autoptr(GPtrArray) found = NULL;

  if (path != NULL)
    return llm_model_open (path, error);
  found = llm_catalogue_scan ((const char *const *) settings->model_folders, settings->model_file);
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

/* Where contexts are kept, or will be. */
static const char *
find_disk_folder (const LlmSettings *settings,
                  const char        *folder)
{
  if (settings->state_folder != NULL && g_file_test (settings->state_folder, G_FILE_TEST_IS_DIR))
    return settings->state_folder;
  return folder;
}

static gboolean
measure (LlmModel          *model,
         LlmPreparedCache  *cache,
         LlmWorkerPool     *pool,
         const LlkOps      *kernels,
         const char        *folder,
         LlmKvProfile      *profile,
         GError           **error)
{
  const LlmHparams *hparams = llm_model_get_hparams (model);
  g_autoptr(LlmWeights) weights = NULL;
  g_autoptr(LlmDisk) disk = NULL;
  g_autoptr(LlmProfileRun) run = NULL;
  LlmStatus status;

  weights = llm_weights_new_prepared (llm_model_get_gguf (model), hparams, cache,
                                      llm_worker_pool_get_n_threads (pool), NULL, error);
  disk = weights != NULL ? llm_disk_new (NULL, error) : NULL;
  if (disk == NULL)
    return FALSE;
  run = llm_profile_run_new (hparams, weights, pool, kernels, FALSE, NULL, disk, folder);
  do
    status = llm_profile_run_work (run, g_get_monotonic_time () + SLICE_US, profile, error);
  while (status == LLM_PENDING);
  return status == LLM_READY;
}

static void
print_json (const LlmProfileKey *key,
            const LlmKvProfile  *profile)
{
  g_autofree char *text = NULL;
  g_autoptr(GVariant) all = NULL;
  GVariantDict dict;
  GVariantBuilder rows;

  g_variant_builder_init (&rows, G_VARIANT_TYPE ("a{sd}"));
  for (guint i = 0; i < LLM_KV_PROFILE_POINTS; i++)
    {
      g_autofree char *name = g_strdup_printf ("%u", llm_kv_profile_rows[i]);

      g_variant_builder_add (&rows, "{sd}", name, profile->prompt_us[i]);
    }
  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "version", "u", TOOL_JSON_VERSION);
  g_variant_dict_insert (&dict, "identity", "s", key->identity);
  g_variant_dict_insert (&dict, "kernels", "s", key->kernels);
  g_variant_dict_insert (&dict, "threads", "u", key->n_threads);
  g_variant_dict_insert (&dict, "prompt-us", "a{sd}", &rows);
  g_variant_dict_insert (&dict, "depth-us", "d", profile->depth_us);
  g_variant_dict_insert (&dict, "read-latency-us", "d", profile->read_latency_us);
  g_variant_dict_insert (&dict, "read-bytes-per-us", "d", profile->read_bytes_per_us);
  g_variant_dict_insert (&dict, "write-bytes-per-us", "d", profile->write_bytes_per_us);
  all = g_variant_ref_sink (g_variant_dict_end (&dict));
  text = json_gvariant_serialize_data (all, NULL);
  puts (text);
}

static void
print_text (const LlmProfileKey *key,
            const LlmKvProfile  *profile,
            const char          *folder)
{
  g_autofree char *shown = g_filename_display_name (folder);

  g_print (_("Model %s, kernels %s, %u threads\n"), key->identity, key->kernels, key->n_threads);
  for (guint i = 0; i < LLM_KV_PROFILE_POINTS; i++)
    g_print (_("Reading %u tokens: %.2f ms\n"), llm_kv_profile_rows[i],
             profile->prompt_us[i] / 1000);
  g_print (_("More for each token and 1000 tokens before it: %.1f µs\n"), profile->depth_us);
  /* Bytes in a microsecond are millions in a second. */
  g_print (_("The disk under %s: %.0f µs for one read, %.0f MB/s reading, %.0f MB/s writing\n"),
           shown, profile->read_latency_us, profile->read_bytes_per_us, profile->write_bytes_per_us);
}

int
tool_profile (int    argc,
              char **argv)
{
  g_autofree char *path = NULL;
  g_autofree char *folder = NULL;
  gboolean as_json = FALSE;
  const GOptionEntry entries[] = {
    { "model", 'm', 0, G_OPTION_ARG_FILENAME, &path, N_("The GGUF file"), N_("FILE") },
    { "output-dir", 'o', 0, G_OPTION_ARG_FILENAME, &folder,
      N_("Instead of the cache of the system, or of this user"), N_("DIR") },
    { "json", 0, 0, G_OPTION_ARG_NONE, &as_json, N_("As one JSON object"), NULL },
    G_OPTION_ENTRY_NULL
  };
  /* What the administrator measures is for the system's service. */
  gboolean is_system = geteuid () == 0;
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmSettings) settings = NULL;
  g_autoptr(LlmModel) model = NULL;
  g_autoptr(LlmPreparedCache) cache = NULL;
  g_autoptr(LlmWorkerPool) pool = NULL;
  const LlkOps *kernels;
  const char *disk_folder;
  LlmProfileKey key;
  LlmKvProfile profile;

  if (!tool_parse (&argc, &argv, entries, NULL,
                   N_("Measures how long the model takes to read prompts and how fast the disk is, "
                      "and keeps the result for the service."), 0))
    return TOOL_USAGE;

  settings = llm_settings_load (is_system, NULL, &error);
  model = settings != NULL ? open_model (path, settings, &error) : NULL;
  if (model == NULL)
    return tool_fail (error);
  if (folder == NULL)
    folder = g_strdup (settings->cache_folder);
  if (g_mkdir_with_parents (folder, is_system ? 0755 : 0700) < 0)
    {
      g_printerr (_("llmsvc-tool: %s can't be made: %s\n"), folder, g_strerror (errno));
      return TOOL_FAILED;
    }
  disk_folder = find_disk_folder (settings, folder);
  kernels = settings->kernels != NULL ? llk_ops_find (settings->kernels) : llk_ops_best ();
  pool = llm_worker_pool_new (settings->n_threads);
  cache = llm_prepared_cache_new (settings->cache_folder, is_system, settings->system_cache_folder,
                                  settings->cache_limit);
  key = (LlmProfileKey) {
    .identity = llm_model_get_identity (model),
    .kernels = kernels->name,
    .n_threads = llm_worker_pool_get_n_threads (pool),
  };
  if (!measure (model, cache, pool, kernels, disk_folder, &profile, &error)
      || !llm_profile_save (folder, is_system, &key, &profile, &error))
    return tool_fail (error);

  if (as_json)
    print_json (&key, &profile);
  else
    print_text (&key, &profile, disk_folder);
  fflush (stdout);
  llm_prepared_copy_wait_for_all ();
  return TOOL_OK;
}
