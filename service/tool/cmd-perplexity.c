/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tool.h"

#include <glib/gi18n.h>
#include <stdio.h>
#include <unistd.h>

#include "forward/llm-perplexity.h"
#include "weights/llm-prepared-copy.h"
#include "tool-model.h"

/* Progress on a terminal only. */
static gboolean
on_window (const LlmPerplexity *so_far,
           gpointer             data)
{
  if (isatty (STDERR_FILENO))
    fprintf (stderr, "\r%u windows, %.4f ", so_far->n_windows, so_far->perplexity);
  return TRUE;
}

int
tool_perplexity (int    argc,
                 char **argv)
{
  g_auto(ToolModelOptions) options = TOOL_MODEL_OPTIONS;
  int n_ctx = 512;
  gboolean is_plain = FALSE;
  gboolean is_generated = FALSE;
  const GOptionEntry entries[] = {
    TOOL_MODEL_ENTRIES (&options),
    { "ctx", 'c', 0, G_OPTION_ARG_INT, &n_ctx, N_("Tokens in one window (512)"), "N" },
    { "no-special", 0, 0, G_OPTION_ARG_NONE, &is_plain, N_("The text holds no control tokens"),
      NULL },
    { "exact", 0, 0, G_OPTION_ARG_NONE, &options.is_exact,
      N_("Compute in floats with the weights as the file has them"), NULL },
    { "generated", 0, 0, G_OPTION_ARG_NONE, &is_generated,
      N_("Compute the text as if it were generated, and not a prompt"), NULL },
    { "kv-f32", 0, 0, G_OPTION_ARG_NONE, &options.is_f32, N_("Keep context memory in 32 bits"),
      NULL },
    TOOL_MODEL_KV_ENTRIES (&options),
    { "call-tokens", 0, 0, G_OPTION_ARG_INT, &options.n_call,
      N_("Tokens of a call, with --kv (64)"), "N" },
    G_OPTION_ENTRY_NULL
  };
  g_autoptr(GError) error = NULL;
  g_autoptr(ToolModel) model = NULL;
  g_autoptr(GArray) tokens = NULL;
  g_autofree char *text = NULL;
  const char *fault;
  LlmPerplexityRule rule = { 0 };
  LlmPerplexity result;

  if (!tool_parse (&argc, &argv, entries, N_("TEXT"),
                   N_("Perplexity of the file TEXT (- for standard input); the last line is "
                      "“perplexity: X”."), 1))
    return TOOL_USAGE;
  fault = n_ctx < 4 ? _("--ctx is 4 or more") : tool_model_options_check (&options);
  if (fault != NULL)
    {
      g_printerr ("llmsvc-tool: %s\n", fault);
      return TOOL_USAGE;
    }

  text = tool_read (argv[1], &error);
  if (text == NULL)
    return tool_fail (error);
  if (!g_utf8_validate (text, -1, NULL))
    {
      g_printerr (_("llmsvc-tool: %s is not valid UTF-8\n"), argv[1]);
      return TOOL_FAILED;
    }
  model = tool_model_open (&options, &error);
  if (model == NULL)
    return tool_fail (error);

  tokens = tool_model_encode (model, text, !is_plain);
  rule.n_ctx = (guint) n_ctx;
  rule.n_call = tool_model_has_policy (&options) ? (guint) options.n_call : 0;
  rule.kind = options.is_exact || is_generated ? LLK_ROWS_GENERATED : LLK_ROWS_PROMPT;
  rule.bos =
    llm_tokenizer_adds_bos (model->tokenizer) ? llm_tokenizer_get_bos (model->tokenizer) : -1;
  if (!llm_perplexity_run (model->forward, model->hparams, model->store,
                           (const gint32 *) (gpointer) tokens->data, tokens->len, &rule, on_window,
                           NULL, &result, &error))
    return tool_fail (error);

  if (isatty (STDERR_FILENO))
    fputc ('\n', stderr);
  printf ("tokens: %u\nwindows: %u\nscored: %" G_GUINT64_FORMAT "\nnll: %.6f\nperplexity: %.4f\n",
          tokens->len, result.n_windows, result.n_scored, result.nll, result.perplexity);
  fflush (stdout);
  llm_prepared_copy_wait_for_all ();
  return TOOL_OK;
}
