/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tool.h"

#include <glib/gi18n.h>
#include <stdio.h>
#include <unistd.h>

#include "engine/llm-settings.h"
#include "model/llm-model.h"
#include "weights/llm-prepared-cache.h"

static gboolean
prepare (LlmPreparedCache *cache,
         const char       *path,
         guint             n_threads,
         GError          **error)
{
  g_autoptr(LlmModel) model = llm_model_open (path, error);
  g_autoptr(LlmPreparedPlan) plan = NULL;
  g_autofree char *made = NULL;
  g_autofree char *shown = NULL;

  if (model == NULL)
    return FALSE;
  plan = llm_prepared_plan_new (llm_model_get_gguf (model), llm_model_get_hparams (model), error);
  if (plan == NULL)
    return FALSE;
  made = llm_prepared_cache_make (cache, plan, llm_model_get_gguf (model), n_threads, error);
  if (made == NULL)
    return FALSE;
  shown = g_filename_display_name (made);
  puts (shown);
  return TRUE;
}

int
tool_prepare (int    argc,
              char **argv)
{
  g_autofree char *folder = NULL;
  int threads = 0;
  const GOptionEntry entries[] = {
    { "output-dir", 'o', 0, G_OPTION_ARG_FILENAME, &folder,
      N_("Instead of the cache of the system, or of this user"), N_("DIR") },
    { "threads", 0, 0, G_OPTION_ARG_INT, &threads, N_("Threads that compute"), "N" },
    G_OPTION_ENTRY_NULL
  };
  /* What the administrator prepares is for everybody. */
  gboolean is_system = geteuid () == 0;
  g_autoptr(LlmSettings) settings = NULL;
  g_autoptr(LlmPreparedCache) cache = NULL;
  g_autoptr(GError) error = NULL;
  int status = TOOL_OK;

  if (!tool_parse (&argc, &argv, entries, N_("MODEL…"),
                   N_("Prepares models for a quick start: for all users when root does it. Prints "
                      "the names of the files made."), TOOL_SOME))
    return TOOL_USAGE;
  if (threads < 0)
    {
      g_printerr ("llmsvc-tool: %s\n", _("--threads needs a number from 0 on"));
      return TOOL_USAGE;
    }

  settings = llm_settings_load (is_system, NULL, &error);
  if (settings == NULL)
    return tool_fail (error);
  cache = llm_prepared_cache_new (folder != NULL ? folder : settings->cache_folder, is_system, NULL,
                                  settings->cache_limit);
  for (int i = 1; i < argc; i++)
    {
      g_clear_error (&error);
      if (!prepare (cache, argv[i], (guint) threads, &error))
        status = tool_fail (error);
    }
  return status;
}
