/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tool.h"

#include <glib/gi18n.h>
#include <stdio.h>

#include "tool-model.h"

static int n_ctx = 512;
static gboolean is_plain;

static const GOptionEntry entries[] = {
  TOOL_MODEL_ENTRIES,
  { "ctx", 'c', 0, G_OPTION_ARG_INT, &n_ctx, N_("Tokens in one window (512)"), "N" },
  { "no-special", 0, 0, G_OPTION_ARG_NONE, &is_plain, N_("The text holds no control tokens"),
    NULL },
  TOOL_MODEL_SUB_MODEL_ENTRY,
  TOOL_MODEL_ACTIVE_ENTRIES,
  TOOL_MODEL_EXACT_ENTRY,
  { "kv-f32", 0, 0, G_OPTION_ARG_NONE, &tool_model_options.is_f32,
    N_("Keep context memory in 32 bits"), NULL },
  TOOL_MODEL_KV_ENTRIES,
  { "call-tokens", 0, 0, G_OPTION_ARG_INT, &tool_model_options.n_call,
    N_("Tokens of a call, with --kv (64)"), "N" },
  G_OPTION_ENTRY_NULL
};

static void
on_window (const LlmPerplexity *so_far)
{
  tool_progress ("%u windows, %.4f ", so_far->n_windows, so_far->perplexity);
}

static int
run (char **arguments)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(ToolModel) model = NULL;
  g_autoptr(GArray) tokens = NULL;
  g_autofree char *text = NULL;
  const char *fault = n_ctx < 4 ? _("--ctx is 4 or more") : tool_model_options_check ();
  LlmPerplexityRule rule = { .n_ctx = (guint) n_ctx, .bos = -1 };
  LlmPerplexity result;

  if (fault != NULL)
    return tool_fail_usage (fault);
  text = tool_read (arguments[0], &error);
  if (text == NULL)
    return tool_fail (error);
  if (!g_utf8_validate (text, -1, NULL))
    {
      g_printerr (_("llmsvc-tool: %s is not valid UTF-8\n"), arguments[0]);
      return TOOL_FAILED;
    }
  model = tool_model_open (&error);
  if (model == NULL)
    return tool_fail (error);

  tokens = tool_model_encode (model, text, !is_plain);
  rule.n_call = tool_model_has_policy () ? (guint) tool_model_options.n_call : 0;
  if (model->tokenizer->adds_bos)
    rule.bos = model->tokenizer->bos;
  if (!llm_perplexity_run (model->forward, model->hparams, model->store,
                           tool_model_tokens (tokens), tokens->len, &rule, on_window,
                           &result, &error))
    return tool_fail (error);

  tool_progress (NULL);
  printf ("tokens: %u\nwindows: %u\nscored: %" G_GUINT64_FORMAT "\nnll: %.6f\nperplexity: %.4f\n",
          tokens->len, result.n_windows, result.n_scored, result.nll, result.perplexity);
  return TOOL_OK;
}

const ToolCommand tool_perplexity = {
  "perplexity", N_("Measure how well a model predicts a text"), N_("TEXT"),
  N_("Perplexity of the file TEXT (- for standard input); the last line is "
     "“perplexity: X”."), 1, entries, run,
};
