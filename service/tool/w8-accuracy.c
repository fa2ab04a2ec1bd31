/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "w8-accuracy.h"

#include <glib/gi18n.h>
#include <glib/gstdio.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "backends/llm-backend-q8.h"
#include "kernels/llk.h"
#include "tool.h"
#include "tool/llm-outliers.h"

#define N_CTX 512
#define MIN_ROWS 4
/* Of layers, that have outliers where they are uneven. */
#define UNEVEN_SHARE 4

static const char *const names[TOOL_W8_N_METHODS] = {
  [TOOL_W8_SMOOTH] = "SmoothQuant-like", [TOOL_W8_ROWS] = "LLM.int8()-like",
  [TOOL_W8_NAIVE] = "naive", [TOOL_W8_CLIPPED] = "clipped", [TOOL_W8_SHADOW] = "shadow",
  [TOOL_W8_PRUNED] = "pruned",
};

gboolean
tool_w8_set_text (ToolW8      *self,
                  const char  *text,
                  GError     **error)
{
  g_autofree char *content = tool_read (text, error);

  if (content == NULL)
    return FALSE;
  if (!g_utf8_validate (content, -1, NULL))
    {
      g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, _("%s is not valid UTF-8"),
                   text);
      return FALSE;
    }
  g_clear_pointer (&self->tokens, g_array_unref);
  self->tokens = tool_model_encode (self->model, content, TRUE);
  self->lab.tokens = tool_model_tokens (self->tokens);
  self->lab.n_tokens = self->tokens->len;
  return TRUE;
}

ToolW8 *
tool_w8_open (const char  *text,
              guint        n_ctx,
              guint        n_windows,
              GError     **error)
{
  g_autoptr(ToolW8) self = g_new0 (ToolW8, 1);

  tool_model_options.is_exact = tool_model_options.is_f32 = TRUE;
  self->model = tool_model_open (error);
  if (self->model == NULL)
    return NULL;
  self->lab = (LlmW8Lab) {
    .hparams = self->model->hparams, .weights = self->model->weights,
    .store = self->model->store, .pool = self->model->pool, .kernels = llk_ops_best (),
    .n_ctx = MIN (n_ctx, self->model->hparams->n_ctx), .n_windows = n_windows,
    .bos = self->model->tokenizer->adds_bos ? self->model->tokenizer->bos : -1,
  };
  return tool_w8_set_text (self, text, error) ? g_steal_pointer (&self) : NULL;
}

void
tool_w8_free (ToolW8 *self)
{
  if (self == NULL)
    return;

  g_clear_pointer (&self->tokens, g_array_unref);
  g_clear_pointer (&self->model, tool_model_free);
  g_free (self);
}

static void
on_run (guint n)
{
  tool_progress (_("calibrating, run %u "), n);
}

LlmW8Calibration *
tool_w8_calibrate (ToolW8  *self,
                   double   max_loss,
                   GError **error)
{
  LlmW8Calibration *made = llm_w8_calibrate (&self->lab, max_loss, on_run, error);

  tool_progress (NULL);
  return made;
}

void
tool_w8_print_calibration (const LlmW8Calibration *calibration)
{
  for (guint kind = 0; kind < LLM_W8_N_KINDS; kind++)
    printf ("quantile of %s: %g, without shadow %g\n", llm_w8_kind_get_name (kind),
            calibration->quantiles[TRUE][kind], calibration->quantiles[FALSE][kind]);
  printf ("shadow divergence: %.6f\nshadow loss: %+.3f %%\nshadow share: %.4f %%\n"
          "pruned sites: %u of %u\npruned divergence: %.6f\npruned loss: %+.3f %%\n",
          calibration->shadow.divergence,
          100 * expm1 (calibration->shadow.nll - calibration->exact_nll),
          100 * calibration->shadow_share, calibration->n_pruned, calibration->n_sites,
          calibration->pruned.divergence,
          100 * expm1 (calibration->pruned.nll - calibration->exact_nll));
}

static void
print_row (const char       *name,
           const LlmW8Score *score,
           double            exact_nll,
           double            shadow_share)
{
  printf ("%-18s %10.4f %+9.2f %% %10.5f %8.3f %%\n", name, exp (score->nll),
          100 * expm1 (score->nll - exact_nll), score->divergence, 100 * shadow_share);
}

static gboolean
score_method (ToolW8                 *self,
              const LlmW8Calibration *calibration,
              ToolW8Method            method,
              float                  *reference,
              double                  exact_nll,
              GError                **error)
{
  g_autoptr(ToolW8Table) table = tool_w8_table_new (&self->lab, calibration, method, error);
  g_autoptr(LlmBackend) backend = NULL;
  LlmW8Config config = { .hparams = self->lab.hparams, .min_rows = MIN_ROWS };
  LlmW8Counts counts;
  LlmW8Score score;

  if (table == NULL)
    return FALSE;
  config.sites = table->sites;
  config.methods = table->methods;
  backend = llm_backend_w8_new (self->lab.kernels, &config);
  if (!llm_w8_lab_score (&self->lab, backend, reference, FALSE, &score, error))
    return FALSE;
  counts = llm_backend_w8_get_counts (backend);
  print_row (names[method], &score, exact_nll,
             (double) counts.n_shadow_products / (double) MAX (counts.n_products, 1));
  return TRUE;
}

/* All rows of the table. */
static gboolean
compare (ToolW8                 *self,
         const LlmW8Calibration *calibration,
         GError                **error)
{
  g_autofree float *reference = g_try_new (float, llm_w8_lab_get_reference_size (&self->lab));
  g_autoptr(LlmBackend) q8 = llm_backend_q8_new (self->lab.kernels, self->lab.hparams);
  LlmW8Score exact, score;

  if (reference == NULL)
    {
      g_set_error_literal (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                           _("There is no memory for what is compared: give fewer --windows"));
      return FALSE;
    }
  if (!llm_w8_lab_score (&self->lab, NULL, reference, TRUE, &exact, error)
      || !llm_w8_lab_score (&self->lab, q8, reference, FALSE, &score, error))
    return FALSE;
  printf ("%-18s %10s %11s %10s %10s\n", "", "perplexity", "loss", "KL", "floats");
  print_row ("exact", &exact, exact.nll, 0);
  print_row ("Q8_0, as today", &score, exact.nll, 0);
  for (guint method = 0; method < TOOL_W8_N_METHODS; method++)
    if (!score_method (self, calibration, method, reference, exact.nll, error))
      return FALSE;
  return TRUE;
}

/* A copy with outliers takes the model's place. */
static gboolean
open_copy (double    factor,
           gboolean  is_uneven,
           char    **copy,
           GError  **error)
{
  g_autoptr(LlmModel) model = llm_model_open (tool_model_options.path, error);
  guint n_layers;
  int fd;

  if (model == NULL)
    return FALSE;
  n_layers = llm_model_get_hparams (model)->n_layers;
  fd = g_file_open_tmp ("llmsvc-outliers-XXXXXX.gguf", copy, error);
  if (fd < 0)
    return FALSE;
  close (fd);
  if (!llm_outliers_inject (tool_model_options.path, factor,
                            is_uneven ? (n_layers + UNEVEN_SHARE - 1) / UNEVEN_SHARE : 0, *copy,
                            error))
    return FALSE;
  tool_model_options.path = *copy;
  return TRUE;
}

static gboolean
run (const char  *text,
     const char  *calibration_text,
     guint        n_windows,
     GError     **error)
{
  g_autoptr(ToolW8) self = tool_w8_open (calibration_text, N_CTX, n_windows, error);
  g_autoptr(LlmW8Calibration) calibration = NULL;

  if (self == NULL)
    return FALSE;
  calibration = tool_w8_calibrate (self, 0.01, error);
  if (calibration == NULL || !tool_w8_set_text (self, text, error))
    return FALSE;
  tool_w8_print_calibration (calibration);
  return compare (self, calibration, error);
}

int
tool_w8_accuracy_run (const char *text,
                      const char *calibration,
                      double      factor,
                      gboolean    is_uneven,
                      guint       n_windows)
{
  g_autoptr(GError) error = NULL;
  char *path = tool_model_options.path;
  g_autofree char *copy = NULL;
  gboolean is_done = (factor == 0 || open_copy (factor, is_uneven, &copy, &error))
                     && run (text, calibration, n_windows, &error);

  tool_model_options.path = path;
  if (copy != NULL)
    g_unlink (copy);
  return is_done ? TOOL_OK : tool_fail (error);
}
