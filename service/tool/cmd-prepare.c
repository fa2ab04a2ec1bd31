/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tool.h"

#include <glib/gi18n.h>
#include <stdio.h>
#include <unistd.h>

#include "engine/llm-settings.h"
#include "model/llm-model.h"
#include "weights/llm-repacked-cache.h"

static char *folder;
static int threads;

static const GOptionEntry entries[] = {
  { "output-dir", 'o', 0, G_OPTION_ARG_FILENAME, &folder,
    N_("Instead of the cache of the system, or of this user"), N_("DIR") },
  { "threads", 0, 0, G_OPTION_ARG_INT, &threads, N_("Threads that compute"), "N" },
  G_OPTION_ENTRY_NULL
};

/* (transfer full): the path of the repacked weights. */
static char *
repack (LlmRepackedCache *cache,
        const char       *path,
        GError          **error)
{
  g_autoptr(LlmModel) model = llm_model_open (path, error);

  return model != NULL
           ? llm_repacked_cache_make (cache, llm_model_get_gguf (model),
                                      llm_model_get_hparams (model), (guint) threads, error)
           : NULL;
}

static int
run (char **arguments)
{
  /* The copies that the administrator makes are for all users. */
  gboolean is_system = geteuid () == 0;
  g_autoptr(LlmSettings) settings = NULL;
  g_autoptr(LlmRepackedCache) cache = NULL;
  g_autoptr(GError) error = NULL;
  int status = TOOL_OK;

  if (threads < 0)
    return tool_fail_usage (_("--threads needs a number from 0 on"));

  settings = llm_settings_load (is_system, NULL, &error);
  if (settings == NULL)
    return tool_fail (error);
  cache = llm_repacked_cache_new (folder != NULL ? folder : settings->cache_folder, is_system, NULL,
                                  settings->cache_limit);
  for (; *arguments != NULL; arguments++)
    {
      g_autofree char *made = NULL;
      g_autofree char *shown = NULL;

      g_clear_error (&error);
      made = repack (cache, *arguments, &error);
      if (made == NULL)
        {
          status = tool_fail (error);
          continue;
        }
      shown = g_filename_display_name (made);
      puts (shown);
    }
  return status;
}

const ToolCommand tool_prepare = {
  "prepare", N_("Prepare models for a quick start"), N_("MODEL…"),
  N_("Prepares models for a quick start: for all users when root does it. Prints "
     "the names of the files made."), TOOL_SOME, entries, run,
};
