/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "engine/llm-settings.h"
#include "sched/llm-scheduler.h"

#include <string.h>

#include "common/llmsvc-error.h"
#include "support/llm-test-folder.h"

static LlmSettings *
load (const char *text,
      GError    **error)
{
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *path = g_build_filename (folder, "llmsvc.conf", NULL);
  LlmSettings *settings;

  g_assert_true (g_file_set_contents (path, text, -1, NULL));
  settings = llm_settings_load (FALSE, path, error);
  llm_test_folder_remove (folder);
  return settings;
}

static void
test_defaults (void)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmSettings) settings = load ("", &error);

  g_assert_no_error (error);
  g_assert_null (settings->model_file);
  g_assert_cmpuint (settings->max_message, ==, 1024 * 1024);
  g_assert_cmpuint (settings->stall_timeout_s, ==, 600);
  g_assert_cmpuint (settings->quotas.max_contexts, ==, 64);
  g_assert_cmpuint (g_strv_length (settings->model_folders), >=, 3);
  g_assert_nonnull (settings->state_folder);
  g_assert_cmpuint (settings->cache_limit, ==, 0);
  g_assert_false (settings->shares_cache);
}

/* A user's own folder, the system's for the system, and what systemd says before both. */
static void
test_cache_folder (void)
{
  g_autofree char *own = g_build_filename (g_get_user_cache_dir (), "llmsvc", NULL);

  for (gboolean is_system = FALSE; is_system <= TRUE; is_system++)
    {
      g_autoptr(LlmSettings) settings = llm_settings_new ();
      g_autoptr(LlmSettings) from_systemd = llm_settings_new ();

      g_assert_null (settings->cache_folder);
      llm_settings_set_cache (settings, is_system);
      g_assert_cmpstr (settings->cache_folder, ==, is_system ? settings->system_cache_folder : own);
      g_assert_true (g_str_has_suffix (settings->system_cache_folder, "/cache/llmsvc"));
      g_assert_cmpint (settings->shares_cache, ==, is_system);

      g_setenv ("CACHE_DIRECTORY", "/given", TRUE);
      llm_settings_set_cache (from_systemd, is_system);
      g_unsetenv ("CACHE_DIRECTORY");
      g_assert_cmpstr (from_systemd->cache_folder, ==, "/given");
    }
}

static void
test_values (void)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmSettings) settings =
    load ("[model]\nfile=/a/b.gguf\nfolders=/one;/two\ncache-limit=3M\n"
          "[service]\nthreads=3\nbudget=2G\n"
          "max-message=64K\nstall-timeout=5\nidle-unload=60\n[contexts]\nratio=35\n"
          "chunk-tokens=32\ndisk=threads\nstorage-limit=5G\nstorage-limit-per-app=64M\n"
          "[quota]\ncontexts=7\ncalls=2\ntokens=1000\n",
          &error);

  g_assert_no_error (error);
  g_assert_cmpstr (settings->model_file, ==, "/a/b.gguf");
  g_assert_cmpstr (settings->model_folders[0], ==, "/one");
  g_assert_cmpstr (settings->model_folders[1], ==, "/two");
  g_assert_cmpuint (settings->cache_limit, ==, 3 << 20);
  g_assert_cmpuint (settings->n_threads, ==, 3);
  g_assert_cmpuint (settings->budget, ==, G_GUINT64_CONSTANT (2) << 30);
  g_assert_cmpuint (settings->max_message, ==, 65536);
  g_assert_cmpuint (settings->stall_timeout_s, ==, 5);
  g_assert_cmpuint (settings->idle_unload_s, ==, 60);
  g_assert_cmpuint (settings->context_ratio, ==, 35);
  g_assert_cmpuint (settings->chunk_tokens, ==, 32);
  g_assert_cmpstr (settings->disk, ==, "threads");
  g_assert_cmpuint (settings->storage_limit, ==, G_GUINT64_CONSTANT (5) << 30);
  g_assert_cmpuint (settings->app_storage_limit, ==, 64 << 20);
  g_assert_cmpuint (settings->quotas.max_contexts, ==, 7);
  g_assert_cmpuint (settings->quotas.max_calls, ==, 2);
  g_assert_cmpuint (settings->quotas.max_tokens, ==, 1000);
}

/* What is set for one model goes before what is set for all, wherever it stands. */
static void
test_for_models (void)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmSettings) settings =
    load ("[model]\nactive=big:50; 30;a:b:70\nprefill=big:exact\n", &error);

  g_assert_no_error (error);
  g_assert_cmpstr (llm_settings_find_for (settings->active, "big"), ==, "50");
  g_assert_cmpstr (llm_settings_find_for (settings->active, "a:b"), ==, "70");
  g_assert_cmpstr (llm_settings_find_for (settings->active, "bigger"), ==, "30");
  g_assert_cmpstr (llm_settings_find_for (settings->active, "bi"), ==, "30");
  g_assert_cmpstr (llm_settings_find_for (settings->prefill, "big"), ==, "exact");
  g_assert_null (llm_settings_find_for (settings->prefill, "small"));
  g_assert_null (llm_settings_find_for (NULL, "big"));
}

static void
test_ratio_off (void)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmSettings) settings = load ("[contexts]\nratio=off\ndisk=off\n", &error);

  g_assert_no_error (error);
  g_assert_cmpuint (settings->context_ratio, ==, 0);
  g_assert_cmpstr (settings->disk, ==, "off");
}

static void
test_power (void)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmSettings) usual = load ("", &error);
  g_autoptr(LlmSettings) settings =
      load ("[power]\nbackground-on-battery=wait\nbackground-on-power-saver=run\nlongest-wait=60\n",
            &error);

  g_assert_no_error (error);
  g_assert_cmpuint (usual->pace_on_battery, ==, LLM_PACE_SLOW);
  g_assert_cmpuint (usual->pace_on_power_saver, ==, LLM_PACE_SLOW);
  g_assert_cmpuint (usual->longest_wait_s, ==, 900);
  g_assert_cmpuint (settings->pace_on_battery, ==, LLM_PACE_WAIT);
  g_assert_cmpuint (settings->pace_on_power_saver, ==, LLM_PACE_RUN);
  g_assert_cmpuint (settings->longest_wait_s, ==, 60);
}

/* Every fault is an error that names file and key. */
static void
test_faults (void)
{
  const struct
  {
    const char *text;
    const char *named;
  } faults[] = {
    { "[model]\nprefill=fast\n", "prefill" },
    { "[model]\nactive=81\n", "active" },
    { "[model]\nactive=:50\n", "active" },
    { "[model]\nactive=30;big:half\n", "active" },
    { "[service]\nthreads=many\n", "threads" },
    { "[service]\nthreads=-1\n", "threads" },
    { "[service]\nthreads=100000\n", "threads" },
    { "[service]\nbudget=1T\n", "budget" },
    { "[service]\nbudget=99999999999999999999\n", "budget" },
    { "[service]\nmax-message=1G\n", "max-message" },
    { "[service]\nnise=1\n", "nise" },
    { "[contexts]\nratio=5\n", "ratio" },
    { "[contexts]\nratio=101\n", "ratio" },
    { "[contexts]\nratio=none\n", "ratio" },
    { "[contexts]\nchunk-tokens=0\n", "chunk-tokens" },
    { "[contexts]\nchunk-tokens=24\n", "chunk-tokens" },
    { "[contexts]\nchunk-tokens=80\n", "chunk-tokens" },
    { "[contexts]\ndisk=tape\n", "disk" },
    { "[contexts]\nstorage-limit=much\n", "storage-limit" },
    { "[memory]\nlongest-wait=soon\n", "longest-wait" },
    { "[power]\nbackground-on-battery=stop\n", "background-on-battery" },
    { "[power]\nbackground-on-power-saver=\n", "background-on-power-saver" },
    { "[power]\nlongest-wait=604801\n", "longest-wait" },
    { "[servcie]\nthreads=1\n", "servcie" },
    { "threads=1\n", "llmsvc.conf" },
    { "[service\n", "llmsvc.conf" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (faults); i++)
    {
      g_autoptr(GError) error = NULL;
      LlmSettings *settings = load (faults[i].text, &error);

      g_assert_null (settings);
      g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT);
      g_assert_nonnull (strstr (error->message, faults[i].named));
      g_assert_nonnull (strstr (error->message, "llmsvc.conf"));
    }
}

static void
test_missing_file (void)
{
  g_autoptr(GError) error = NULL;

  g_assert_null (llm_settings_load (FALSE, "/nowhere/llmsvc.conf", &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT);
}

/* The example file and the keys of the source are the same list. */
static void
test_example (void)
{
  g_autofree char *path = g_build_filename (g_getenv ("LLM_MODEL_DIR"), "..", "llmsvc.conf", NULL);
  g_autofree char *text = NULL;
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmSettings) settings = NULL;
  g_autoptr(GRegex) regex = g_regex_new ("^#([a-z-]+=)", G_REGEX_MULTILINE, 0, NULL);
  g_autofree char *active = NULL;

  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  active = g_regex_replace (regex, text, -1, 0, "\\1", 0, NULL);
  settings = load (active, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (settings->max_message, ==, 1024 * 1024);
  g_assert_cmpuint (settings->stall_timeout_s, ==, 600);
  g_assert_cmpuint (settings->quotas.max_contexts, ==, 64);
  g_assert_cmpuint (settings->quotas.max_calls, ==, 16);
  g_assert_cmpuint (settings->quotas.max_tokens, ==, 1048576);
  g_assert_cmpuint (settings->context_ratio, ==, 50);
  g_assert_cmpuint (settings->chunk_tokens, ==, 16);
  g_assert_cmpstr (settings->disk, ==, "auto");
  g_assert_cmpuint (settings->storage_limit, ==, 0);
  g_assert_cmpuint (settings->app_storage_limit, ==, 0);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/settings/defaults", test_defaults);
  g_test_add_func ("/settings/cache-folder", test_cache_folder);
  g_test_add_func ("/settings/values", test_values);
  g_test_add_func ("/settings/for-models", test_for_models);
  g_test_add_func ("/settings/ratio-off", test_ratio_off);
  g_test_add_func ("/settings/power", test_power);
  g_test_add_func ("/settings/faults", test_faults);
  g_test_add_func ("/settings/missing-file", test_missing_file);
  g_test_add_func ("/settings/example", test_example);
  return g_test_run ();
}
