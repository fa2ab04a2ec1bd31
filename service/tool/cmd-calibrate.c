/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tool.h"

#include <glib/gi18n.h>
#include <math.h>
#include <stdio.h>

#include "base/llm-fail.h"
#include "common/llmsvc-error.h"
#include "tool-companion.h"
#include "tool-draw.h"
#include "tool/llm-w8-lab.h"

#define N_CTX 512
/* Steps of the search have many rows. */
#define MIN_ROWS 4
/* Tokens of a window that the search scores: their logits take most of its time. */
#define N_SEARCHED 64
/* Windows that are scored, exactly, too, which takes most of the time: 4,080 tokens. */
#define N_SCORED 16

static int n_windows = 4, n_scored = N_SCORED;
/* Texts of another kind lose twice as much, and the service bears 0.007. */
static double divergence = 0.003;

static const GOptionEntry entries[] = {
  { "model", 'm', 0, G_OPTION_ARG_FILENAME, &tool_model_options.path, N_("The GGUF file"), N_("FILE") },
  { "threads", 0, 0, G_OPTION_ARG_INT, &tool_model_options.threads, N_("Threads that compute"), "N" },
  { "windows", 0, 0, G_OPTION_ARG_INT, &n_windows,
    N_("Pieces of 512 tokens at the text's beginning that scales are found on (4)"), "N" },
  { "scored", 0, 0, G_OPTION_ARG_INT, &n_scored,
    N_("Pieces of 512 tokens behind them that the loss is measured on (16)"), "N" },
  { "divergence", 0, 0, G_OPTION_ARG_DOUBLE, &divergence,
    N_("What scales may lose on the former, in nats: with less, more is computed in floats (0.003)"),
    N_("NATS") },
  G_OPTION_ENTRY_NULL
};

static void
on_search (guint n)
{
  tool_progress (_("finding scales, run %u"), n);
}

static void
on_window (guint n)
{
  tool_progress (_("measuring the loss, window %u"), n);
}

/* (transfer full): as the companion has it, without the loss. */
static LlmCalibration *
take_findings (const LlmW8Findings *findings,
               const LlmHparams    *hparams)
{
  LlmCalibration *made = llm_calibration_new (hparams);

  for (guint at = 0; at < made->n_sites; at++)
    {
      made->sites[at] = findings->sites[at];
      made->sites[at].hot_of = NULL;
      if (findings->hot[at] == NULL)
        continue;
      made->sites[at].hot_of = made->hot[at] =
        g_memdup2 (findings->hot[at],
                   llm_w8_kind_get_size (at % LLM_W8_N_KINDS, hparams) * sizeof (guint16));
    }
  return made;
}

static gboolean
measure_loss (const LlmW8Lab  *lab,
              LlmCalibration  *calibration,
              GError         **error)
{
  const LlmW8Config config = {
    .hparams = lab->hparams, .sites = calibration->sites, .min_rows = MIN_ROWS,
  };
  g_autoptr(LlmBackend) backend = llm_backend_w8_new (lab->kernels, &config);
  LlmW8Score exact, score;
  LlmW8Counts counts;

  if (!llm_w8_lab_compare (lab, backend, on_window, &exact, &score, error))
    return FALSE;
  counts = llm_backend_w8_get_counts (backend);
  calibration->loss = (LlmCalibrationLoss) {
    .exact_nll = exact.nll,
    .nll = score.nll,
    .divergence = score.divergence,
    .shadow_share = (double) counts.n_shadow_products / (double) MAX (counts.n_products, 1),
    .n_scored = score.n_scored,
  };
  return TRUE;
}

/* (transfer full): on the first windows of the text, measured on the next ones. */
static LlmCalibration *
calibrate (ToolModel     *model,
           const GArray  *tokens,
           GError       **error)
{
  LlmW8Lab lab = {
    .hparams = model->hparams, .weights = model->weights, .store = model->store,
    .pool = model->pool, .kernels = llk_ops_best (), .tokens = tool_model_tokens (tokens),
    .n_tokens = tokens->len, .n_ctx = MIN (N_CTX, model->hparams->n_ctx),
    .n_scored = N_SEARCHED, .n_windows = (guint) n_windows,
    .bos = model->tokenizer->adds_bos ? model->tokenizer->bos : -1,
  };
  guint n_first = (guint) n_windows * lab.n_ctx;
  g_autoptr(LlmW8Findings) findings = NULL;
  g_autoptr(LlmCalibration) calibration = NULL;

  if (tokens->len < n_first + lab.n_ctx)
    return llm_fail_null (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                          "The text has %u tokens: %u are needed to find scales, and %u more to measure "
                          "what they cost: give a longer text, or fewer --windows",
                          tokens->len, n_first, lab.n_ctx);
  findings = llm_w8_lab_search (&lab, divergence, on_search, error);
  if (findings == NULL)
    return NULL;
  calibration = take_findings (findings, lab.hparams);
  lab.tokens += n_first;
  lab.n_tokens -= n_first;
  lab.n_windows = (guint) n_scored;
  lab.n_scored = lab.n_ctx / 2 - 1;
  return measure_loss (&lab, calibration, error) ? g_steal_pointer (&calibration) : NULL;
}

static void
print (const LlmCalibration *calibration)
{
  guint n_products = 0, n_pruned = 0;

  for (guint at = 0; at < calibration->n_sites; at++)
    {
      n_products += calibration->sites[at].scale > 0;
      n_pruned += calibration->sites[at].scale > 0 && !calibration->sites[at].has_shadow;
    }
  printf ("sites: %u, without a shadow: %u\n", n_products, n_pruned);
  printf ("tokens scored: %u\n", (guint) calibration->loss.n_scored);
  printf ("perplexity: %.4f, exact: %.4f (%+.2f %%)\n", exp (calibration->loss.nll),
          exp (calibration->loss.exact_nll), 100 * llm_calibration_get_growth (calibration));
  printf ("divergence from the exact model: %.5f\n", calibration->loss.divergence);
  printf ("products in floats: %.3f %%\n", 100 * calibration->loss.shadow_share);
  if (!llm_calibration_is_near (calibration))
    printf (_("Perplexity grows by more than %.3g %%, or the divergence is above %.3g: prompts are computed "
              "so only where a call asks for it\n"), 100 * LLM_CALIBRATION_MAX_GROWTH,
            LLM_CALIBRATION_MAX_DIVERGENCE);
}

/* @path: (nullable): NULL for text that the model draws. */
static gboolean
run_on (const char  *path,
        GError     **error)
{
  static const char *const prefixes[] = { LLM_CALIBRATION_PREFIX, NULL };
  g_autoptr(LlmCompanion) companion = NULL;
  g_autofree char *text = NULL;
  g_autoptr(GArray) tokens = NULL;
  g_autoptr(ToolModel) model = NULL;
  g_autoptr(LlmCalibration) calibration = NULL;
  g_autoptr(LlmGgufWriter) writer = NULL;

  if (!tool_companion_open (&companion, error))
    return FALSE;
  if (path != NULL)
    text = tool_read (path, error);
  else
    tokens = tool_draw ((guint) (n_windows + n_scored), N_CTX, error);
  if (text == NULL && tokens == NULL)
    return FALSE;
  tool_model_options.is_exact = tool_model_options.is_f32 = TRUE;
  model = tool_model_open (error);
  if (model == NULL)
    return FALSE;
  if (tokens == NULL)
    tokens = tool_model_encode (model, text, TRUE);
  calibration = calibrate (model, tokens, error);
  tool_progress (NULL);
  if (calibration == NULL)
    return FALSE;
  print (calibration);
  writer = tool_companion_begin (model->model, companion, prefixes);
  llm_calibration_write (calibration, model->hparams, writer);
  return tool_companion_save (model->model, writer, error);
}

static int
run (char **arguments)
{
  g_autoptr(GError) error = NULL;
  const char *fault = tool_model_options_check ();

  if (fault != NULL)
    return tool_fail_usage (fault);
  if (n_windows < 1 || n_scored < 1)
    return tool_fail_usage (_("--windows and --scored need a number from 1 on"));
  if (!(divergence > 0 && divergence <= 1))
    return tool_fail_usage (_("--divergence needs a number above 0, up to 1"));
  return run_on (arguments[0], &error) ? TOOL_OK : tool_fail (error);
}

const ToolCommand tool_calibrate = {
  "calibrate", N_("Prepare a model's prompts for computing with 8 bits"), N_("[TEXT]"),
  N_("Finds the scales with which the service computes the model's prompts in 8 bits on the beginning of "
     "TEXT, a file of text like that which the model will read, measures on the rest what that costs, and "
     "writes both into the model's companion. Without TEXT the model draws one itself."),
  TOOL_AT_MOST_ONE, entries, run,
};
