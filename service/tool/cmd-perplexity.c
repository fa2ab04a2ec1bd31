/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tool.h"

#include <glib/gi18n.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/llm-settings.h"
#include "exec/llm-perplexity.h"
#include "model/llm-model.h"
#include "model/llm-weights-prepared.h"

/* Progress on a terminal only. */
static gboolean
on_window (const LlmPerplexity *so_far,
           gpointer             data)
{
  if (isatty (STDERR_FILENO))
    fprintf (stderr, "\r%u windows, %.4f ", so_far->n_windows, so_far->perplexity);
  return TRUE;
}

static LlmKvStore *
new_store (const LlmHparams *hparams,
           gboolean          is_f32,
           GError          **error)
{
  const LlmKvLayout layout = {
    .kind = LLM_KV_FULL,
    .format = is_f32 ? LLM_KV_F32 : LLM_KV_F16,
    .n_layers = hparams->n_layers,
    .n_kv_heads = hparams->n_kv_heads,
    .head_dim = hparams->head_dim,
    .chunk_slots = LLM_KV_CHUNK_SLOTS,
  };

  return llm_kv_store_new (&layout, NULL, error);
}

/* As the service would use them, or as the file has them. */
static LlmWeights *
new_weights (LlmModel *model,
             gboolean  is_exact,
             guint     n_threads,
             GError  **error)
{
  LlmGguf *gguf = llm_model_get_gguf (model);
  const LlmHparams *hparams = llm_model_get_hparams (model);
  g_autoptr(LlmSettings) settings = llm_settings_new ();
  g_autoptr(LlmPreparedCache) cache = NULL;

  if (is_exact)
    return llm_weights_new_mapped (gguf, hparams, NULL, error);

  llm_settings_set_cache (settings, FALSE);
  cache = llm_prepared_cache_new (settings->cache_folder, FALSE, settings->system_cache_folder, 0);
  return llm_weights_new_prepared (gguf, hparams, cache, n_threads, NULL, error);
}

int
tool_perplexity (int    argc,
                 char **argv)
{
  g_autofree char *path = NULL;
  int n_ctx = 512;
  int threads = 0;
  gboolean is_plain = FALSE;
  gboolean is_f32 = FALSE;
  gboolean is_exact = FALSE;
  gboolean is_generated = FALSE;
  const GOptionEntry entries[] = {
    { "model", 'm', 0, G_OPTION_ARG_FILENAME, &path, N_("The GGUF file"), N_("FILE") },
    { "ctx", 'c', 0, G_OPTION_ARG_INT, &n_ctx, N_("Tokens in one window (512)"), "N" },
    { "threads", 0, 0, G_OPTION_ARG_INT, &threads, N_("Threads that compute"), "N" },
    { "no-special", 0, 0, G_OPTION_ARG_NONE, &is_plain, N_("The text holds no control tokens"), NULL },
    { "exact", 0, 0, G_OPTION_ARG_NONE, &is_exact, N_("Compute in floats with the weights as the file has them"), NULL },
    { "generated", 0, 0, G_OPTION_ARG_NONE, &is_generated, N_("Compute the text as if it were generated, and not a prompt"), NULL },
    { "kv-f32", 0, 0, G_OPTION_ARG_NONE, &is_f32, N_("Keep context memory in 32 bits"), NULL },
    G_OPTION_ENTRY_NULL
  };
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmModel) model = NULL;
  g_autoptr(LlmWeights) weights = NULL;
  g_autoptr(LlmKvStore) store = NULL;
  g_autoptr(LlmWorkerPool) pool = NULL;
  g_autoptr(LlmForward) forward = NULL;
  g_autoptr(GArray) tokens = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_autofree char *text = NULL;
  const LlmHparams *hparams;
  LlmTokenizer *tokenizer;
  LlmTextPart part;
  LlmPerplexity result;

  if (!tool_parse (&argc, &argv, entries, N_("TEXT"),
                   N_("Perplexity of the file TEXT (- for standard input); the last line is “perplexity: X”."), 1))
    return TOOL_USAGE;
  if (path == NULL || n_ctx < 4 || threads < 0)
    {
      g_printerr ("llmsvc-tool: %s\n", _("perplexity needs --model FILE, and --ctx of 4 or more"));
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
  model = llm_model_open (path, &error);
  if (model == NULL)
    return tool_fail (error);
  hparams = llm_model_get_hparams (model);
  tokenizer = llm_model_get_tokenizer (model);
  weights = new_weights (model, is_exact, (guint) threads, &error);
  store = weights != NULL ? new_store (hparams, is_f32, &error) : NULL;
  if (store == NULL)
    return tool_fail (error);

  part = (LlmTextPart) { text, strlen (text), !is_plain };
  llm_tokenizer_encode (tokenizer, &part, 1, TRUE, tokens);
  pool = llm_worker_pool_new (threads);
  forward = llm_forward_new (hparams, weights, pool, llk_ops_best (), NULL);
  if (!llm_perplexity_run (forward, hparams, store, (const gint32 *) tokens->data, tokens->len, n_ctx,
                           is_exact || is_generated ? LLK_ROWS_GENERATED : LLK_ROWS_PROMPT,
                           llm_tokenizer_adds_bos (tokenizer) ? llm_tokenizer_get_bos (tokenizer) : -1,
                           on_window, NULL, &result, &error))
    return tool_fail (error);

  if (isatty (STDERR_FILENO))
    fputc ('\n', stderr);
  printf ("tokens: %u\nwindows: %u\nscored: %" G_GUINT64_FORMAT "\nnll: %.6f\nperplexity: %.4f\n",
          tokens->len, result.n_windows, result.n_scored, result.nll, result.perplexity);
  fflush (stdout);
  llm_prepared_copy_wait_for_all ();
  return TOOL_OK;
}
