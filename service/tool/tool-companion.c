/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tool-companion.h"

#include <stdio.h>
#include <unistd.h>

#include "base/llm-fail.h"
#include "common/llmsvc-error.h"

gboolean
tool_companion_open (LlmCompanion **made,
                     GError       **error)
{
  g_autoptr(LlmModel) model = llm_model_open (tool_model_options.path, error);
  g_autofree char *path = NULL, *folder = NULL;
  g_autoptr(GError) cause = NULL;

  if (model == NULL)
    return FALSE;
  path = llm_companion_get_path (llm_model_get_gguf (model)->path);
  folder = g_path_get_dirname (path);
  *made = llm_companion_open (model, &cause);
  if (cause != NULL)
    g_propagate_error (error, g_steal_pointer (&cause));
  else if (access (folder, W_OK) < 0)
    return llm_fail (error, LLMSVC_ERROR_STORAGE,
                     "“%s” can't be written: work on a copy of the model in a folder of yours, or do it "
                     "as who may write there", path);
  else
    return TRUE;
  return FALSE;
}

LlmGgufWriter *
tool_companion_begin (LlmModel          *model,
                      LlmCompanion      *companion,
                      const char *const *prefixes)
{
  LlmGgufWriter *writer = llm_gguf_writer_new ();

  if (companion != NULL)
    {
      llm_gguf_writer_copy (writer, companion->gguf, prefixes);
      return writer;
    }
  llm_gguf_writer_add_string (writer, "general.type", "companion");
  llm_gguf_writer_add_uint (writer, "llmsvc.companion.version", LLM_COMPANION_VERSION);
  llm_gguf_writer_add_string (writer, "llmsvc.companion.weights", llm_model_get_weight_identity (model));
  return writer;
}

gboolean
tool_companion_save (LlmModel       *model,
                     LlmGgufWriter  *writer,
                     GError        **error)
{
  g_autofree char *path = llm_companion_get_path (llm_model_get_gguf (model)->path);

  if (!llm_gguf_writer_save (writer, path, error))
    return FALSE;
  puts (path);
  return TRUE;
}
