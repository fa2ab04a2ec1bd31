/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "w8/bench-w8.h"

#include <glib/gstdio.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "w8/llm-backend-q8.h"
#include "bench-engine.h"
#include "bench.h"
#include "kernels/llk.h"
#include "w8/bench-outliers.h"

#define N_CTX 512
#define MIN_ROWS 4
/* Of layers, that have outliers where they are uneven. */
#define UNEVEN_SHARE 4

static char *opt_model, *opt_calibration;
static double opt_inject, opt_divergence = 0.003;
static gboolean opt_uneven;
static int opt_windows = 8, opt_threads;

static const GOptionEntry entries[] = {
  { "model", 'm', 0, G_OPTION_ARG_FILENAME, &opt_model, "The GGUF file", "FILE" },
  { "calibration", 0, 0, G_OPTION_ARG_FILENAME, &opt_calibration,
    "A text, another than TEXT, on which scales are found", "FILE" },
  { "inject", 0, 0, G_OPTION_ARG_DOUBLE, &opt_inject,
    "Give the model, whose weights are F32, outliers that are larger by this factor", "FACTOR" },
  { "uneven", 0, 0, G_OPTION_ARG_NONE, &opt_uneven,
    "With --inject: the first quarter of the layers only", NULL },
  { "divergence", 0, 0, G_OPTION_ARG_DOUBLE, &opt_divergence,
    "What scales may lose on the calibration text, in nats (0.003)", "NATS" },
  { "windows", 0, 0, G_OPTION_ARG_INT, &opt_windows,
    "Pieces of 512 tokens of each text at most (8)", "N" },
  { "threads", 0, 0, G_OPTION_ARG_INT, &opt_threads, "Threads that compute", "N" },
  G_OPTION_ENTRY_NULL
};

static const char *const names[BENCH_W8_N_METHODS] = {
  [BENCH_W8_SMOOTH] = "SmoothQuant-like", [BENCH_W8_ROWS] = "LLM.int8()-like",
  [BENCH_W8_NAIVE] = "naive", [BENCH_W8_CLIPPED] = "clipped", [BENCH_W8_SHADOW] = "shadow",
  [BENCH_W8_PRUNED] = "pruned",
};

/* The model, exact, and one text after the other. */
typedef struct
{
  BenchEngine *engine;
  LlmKvStore *store;       /* of floats */
  GArray *tokens;
  LlmW8Lab lab;
} Comparison;

static gboolean
set_text (Comparison  *self,
          const char  *path,
          GError     **error)
{
  g_autofree char *text = NULL;

  if (!g_file_get_contents (path, &text, NULL, error))
    return FALSE;
  if (!g_utf8_validate (text, -1, NULL))
    {
      g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "%s is not valid UTF-8", path);
      return FALSE;
    }
  g_clear_pointer (&self->tokens, g_array_unref);
  self->tokens = g_array_new (FALSE, FALSE, sizeof (gint32));
  llm_tokenizer_encode (llm_model_get_tokenizer (self->engine->model),
                        &(LlmTextPart) { text, strlen (text), TRUE }, 1, TRUE, self->tokens);
  self->lab.tokens = (const gint32 *) (gpointer) self->tokens->data;
  self->lab.n_tokens = self->tokens->len;
  return TRUE;
}

static void
comparison_clear (Comparison *self)
{
  g_clear_pointer (&self->tokens, g_array_unref);
  g_clear_pointer (&self->store, llm_kv_store_free);
  g_clear_pointer (&self->engine, bench_engine_free);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Comparison, comparison_clear)

static gboolean
comparison_open (Comparison  *self,
                 const char  *model,
                 GError     **error)
{
  const BenchEngineConfig config = {
    .path = model, .n_threads = (guint) opt_threads, .is_exact = TRUE,
  };
  const LlmTokenizer *tokenizer;
  LlmKvLayer layers[LLM_MAX_LAYERS];
  LlmKvLayout layout;

  self->engine = bench_engine_new (&config, error);
  if (self->engine == NULL)
    return FALSE;
  layout = llm_forward_get_layout (self->engine->hparams, LLK_KV_F32, LLM_KV_CHUNK_SLOTS, layers);
  self->store = llm_kv_store_new (&layout, NULL, NULL, error);
  tokenizer = llm_model_get_tokenizer (self->engine->model);
  self->lab = (LlmW8Lab) {
    .hparams = self->engine->hparams, .weights = self->engine->weights, .store = self->store,
    .pool = self->engine->pool, .kernels = self->engine->kernels,
    .n_ctx = MIN (N_CTX, self->engine->hparams->n_ctx), .n_windows = (guint) opt_windows,
    .n_scored = MIN (N_CTX, self->engine->hparams->n_ctx) / 2 - 1,
    .bos = tokenizer->adds_bos ? tokenizer->bos : -1,
  };
  return self->store != NULL;
}

static void
on_run (guint n)
{
  if (isatty (STDERR_FILENO))
    g_printerr ("\rcalibrating, run %u ", n);
}

static void
print_calibration (const LlmW8Findings *calibration)
{
  for (guint kind = 0; kind < LLM_W8_N_KINDS; kind++)
    printf ("quantile of %s: %g\n", llm_w8_kind_get_name (kind), calibration->quantiles[kind]);
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
score_method (Comparison               *self,
              const LlmW8Findings *calibration,
              BenchW8Method            method,
              float                  *reference,
              double                  exact_nll,
              GError                **error)
{
  g_autoptr(BenchW8Table) table = bench_w8_table_new (&self->lab, calibration, method, error);
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
compare (Comparison               *self,
         const LlmW8Findings *calibration,
         GError                **error)
{
  g_autofree float *reference = g_try_new (float, llm_w8_lab_get_reference_size (&self->lab));
  g_autoptr(LlmBackend) q8 = llm_backend_q8_new (self->lab.kernels, self->lab.hparams);
  LlmW8Score exact, score;

  if (reference == NULL)
    {
      g_set_error_literal (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                           "Not enough memory for the reference logits: give fewer --windows");
      return FALSE;
    }
  if (!llm_w8_lab_score (&self->lab, NULL, reference, TRUE, &exact, error)
      || !llm_w8_lab_score (&self->lab, q8, reference, FALSE, &score, error))
    return FALSE;
  printf ("%-18s %10s %11s %10s %10s\n", "", "perplexity", "loss", "KL", "floats");
  print_row ("exact", &exact, exact.nll, 0);
  print_row ("Q8_0, as today", &score, exact.nll, 0);
  for (guint method = 0; method < BENCH_W8_N_METHODS; method++)
    if (!score_method (self, calibration, method, reference, exact.nll, error))
      return FALSE;
  return TRUE;
}

/* (transfer full): a copy with outliers, to be unlinked. */
static char *
make_copy (GError **error)
{
  g_autoptr(LlmModel) model = llm_model_open (opt_model, error);
  g_autofree char *copy = NULL;
  guint n_layers;
  int fd;

  if (model == NULL)
    return NULL;
  n_layers = llm_model_get_hparams (model)->n_layers;
  fd = g_file_open_tmp ("llmsvc-outliers-XXXXXX.gguf", &copy, error);
  if (fd < 0)
    return NULL;
  close (fd);
  if (bench_outliers_inject (opt_model, opt_inject,
                             opt_uneven ? (n_layers + UNEVEN_SHARE - 1) / UNEVEN_SHARE : 0, copy,
                             error))
    return g_steal_pointer (&copy);
  g_unlink (copy);
  return NULL;
}

static gboolean
compare_on (const char  *model,
            const char  *text,
            GError     **error)
{
  g_auto(Comparison) self = { 0 };
  g_autoptr(LlmW8Findings) calibration = NULL;

  if (!comparison_open (&self, model, error) || !set_text (&self, opt_calibration, error))
    return FALSE;
  calibration = llm_w8_lab_search (&self.lab, opt_divergence, on_run, error);
  if (calibration == NULL || !set_text (&self, text, error))
    return FALSE;
  print_calibration (calibration);
  return compare (&self, calibration, error);
}

static gboolean
run (Bench   *bench,
     GError **error)
{
  g_autofree char *copy = NULL;
  gboolean is_done;

  if (bench->as_json)
    return bench_fail_usage (error, "w8a8 prints a table only");
  if (bench->argc != 2 || opt_model == NULL || opt_calibration == NULL)
    return bench_fail_usage (error, "Say --model FILE, --calibration FILE and a text that is another");
  if (opt_inject != 0 && !(opt_inject >= 1 && opt_inject <= 10000))
    return bench_fail_usage (error, "--inject is from 1 to 10000");
  if (opt_uneven && opt_inject == 0)
    return bench_fail_usage (error, "--uneven needs --inject FACTOR");
  if (!(opt_divergence > 0 && opt_divergence <= 1))
    return bench_fail_usage (error, "--divergence is above 0, up to 1");
  if (opt_windows < 1 || opt_threads < 0)
    return bench_fail_usage (error, "--windows is 1 or more, --threads 0 or more");
  if (opt_inject != 0)
    {
      copy = make_copy (error);
      if (copy == NULL)
        return FALSE;
    }
  is_done = compare_on (copy != NULL ? copy : opt_model, bench->argv[1], error);
  if (copy != NULL)
    g_unlink (copy);
  return is_done;
}

const BenchCommand bench_w8a8_command = {
  .name = "w8a8",
  .summary = "ways to compute prompts with 8 bits: what each costs in accuracy on a text",
  .entries = entries,
  .arguments = "TEXT",
  .run = run,
};
