/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench-loss.h"

#include <stdio.h>

#include "common/llmsvc-error.h"
#include "tool/llm-arithmetic.h"

/* Tokens of a window, as published perplexities have them. */
#define WINDOW 512
/* Shorter windows have next to nothing to score. */
#define MIN_WINDOW 4

struct _BenchLoss
{
  char *name;              /* of the text */
  GArray *tokens;          /* (element-type gint32) */
  guint n_ctx, n_windows;
  guint n_vocab;
  LlmArithmeticLoss loss;
};

BenchLoss *
bench_loss_new (BenchEngine  *engine,
                const char   *path,
                guint         n_windows,
                GError      **error)
{
  g_autoptr(BenchLoss) self = g_new0 (BenchLoss, 1);
  g_autofree char *text = NULL;
  LlmTextPart part = { .is_markup = TRUE };

  self->name = g_path_get_basename (path);
  self->tokens = g_array_new (FALSE, FALSE, sizeof (gint32));
  self->n_ctx = MIN (WINDOW, engine->hparams->n_ctx);
  self->n_windows = n_windows;
  self->n_vocab = engine->hparams->n_vocab;
  if (!g_file_get_contents (path, &text, &part.length, error))
    {
      g_prefix_error (error, "--text: ");
      return NULL;
    }
  part.text = text;
  llm_tokenizer_encode (llm_model_get_tokenizer (engine->model), &part, 1, TRUE, self->tokens);
  if (self->n_ctx < MIN_WINDOW || self->tokens->len < self->n_ctx)
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                   "--text: %s has %u token%s for this model, and one window is %u: give a longer "
                   "text", path, self->tokens->len, self->tokens->len == 1 ? "" : "s",
                   MAX (self->n_ctx, MIN_WINDOW));
      return NULL;
    }
  return g_steal_pointer (&self);
}

void
bench_loss_free (BenchLoss *self)
{
  g_free (self->name);
  g_array_unref (self->tokens);
  g_free (self);
}

gboolean
bench_loss_measure (BenchLoss    *self,
                    BenchEngine  *engine,
                    const char   *model,
                    GError      **error)
{
  const BenchEngineConfig config = {
    .path = model, .kernels = engine->kernels->name, .n_threads = engine->n_threads,
    .is_exact = TRUE,
  };
  g_autoptr(BenchEngine) exact = bench_engine_new (&config, error);
  LlmArithmetic arithmetic;

  if (exact == NULL)
    return FALSE;
  arithmetic = (LlmArithmetic) {
    .hparams = engine->hparams, .tokenizer = llm_model_get_tokenizer (engine->model),
    .reference_forward = exact->forward, .reference_store = exact->store,
    .forward = engine->forward, .store = engine->store,
  };
  return llm_arithmetic_measure (&arithmetic, LLM_N_OPS, self->tokens, self->n_ctx,
                                 self->n_windows, &self->loss, error);
}

/* A model of random weights is as good as a die with a side for each token, or worse; no model that
 * has learned anything comes near that. */
static gboolean
beats_chance (BenchLoss *self)
{
  return self->loss.reference_perplexity < self->n_vocab / 2.0;
}

void
bench_loss_print (BenchLoss *self)
{
  const LlmArithmeticLoss *loss = &self->loss;

  printf ("loss of the arithmetic on %s (%u tokens scored): perplexity %+.2f %%, mean divergence "
          "%.3g, 99th percentile %.3g, same top %.1f %%%s\n", self->name, loss->n_scored,
          llm_arithmetic_get_growth (loss), loss->mean, loss->p99, 100 * loss->same_top,
          beats_chance (self) ? "" : "; the model guesses this text no better than random weights "
                                    "would: what it loses on one that it knows does not show");
}

JsonObject *
bench_loss_get_json (BenchLoss *self)
{
  const LlmArithmeticLoss *loss = &self->loss;
  JsonObject *object = json_object_new ();

  json_object_set_string_member (object, "text", self->name);
  json_object_set_int_member (object, "window", self->n_ctx);
  json_object_set_int_member (object, "scored", loss->n_scored);
  json_object_set_double_member (object, "perplexity-in-floats", loss->reference_perplexity);
  json_object_set_double_member (object, "perplexity", loss->perplexity);
  json_object_set_double_member (object, "perplexity-growth-percent",
                                 llm_arithmetic_get_growth (loss));
  json_object_set_double_member (object, "mean-divergence", loss->mean);
  json_object_set_double_member (object, "p99-divergence", loss->p99);
  json_object_set_double_member (object, "largest-divergence", loss->largest);
  json_object_set_double_member (object, "same-top-percent", 100 * loss->same_top);
  json_object_set_boolean_member (object, "beats-chance", beats_chance (self));
  return object;
}
