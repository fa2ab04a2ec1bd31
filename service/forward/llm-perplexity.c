/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-exec"

#include "forward/llm-perplexity.h"

#include <math.h>

#include "common/llmsvc-error.h"
#include "forward/llm-measured-call.h"

/* -log of the probability of @token. */
static double
score (const float *logits,
       guint        n_vocab,
       gint32       token)
{
  float max = logits[0];
  double sum = 0;

  for (guint i = 1; i < n_vocab; i++)
    max = MAX (max, logits[i]);
  for (guint i = 0; i < n_vocab; i++)
    sum += exp ((double) logits[i] - max);

  return log (sum) + max - logits[token];
}

typedef struct
{
  const gint32 *tokens;   /* of the window */
  guint n_vocab;
  guint end;              /* the last token predicts nothing */
  double total;
} Window;

static void
add_score (guint        slot,
           const float *logits,
           gpointer     data)
{
  Window *window = data;

  if (slot + 1 < window->end)
    window->total += score (logits, window->n_vocab, window->tokens[slot + 1]);
}

/* Adds the window's sum of -log probabilities to @total. */
static gboolean
run_window (LlmForward              *forward,
            const LlmHparams        *hparams,
            LlmKvStore              *store,
            const gint32            *tokens,
            const LlmPerplexityRule *rule,
            double                  *total,
            GError                 **error)
{
  g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (store, NULL, NULL);
  g_autofree gint32 *input = g_memdup2 (tokens, rule->n_ctx * sizeof *tokens);
  guint n_call = rule->n_call > 0 ? rule->n_call : rule->n_ctx;
  Window window = { tokens, hparams->n_vocab, rule->n_ctx, 0 };
  gboolean is_read = TRUE;

  if (rule->bos >= 0)
    input[0] = rule->bos;
  for (guint first = 0; is_read && first < rule->n_ctx; first += n_call)
    {
      guint end = MIN (first + n_call, rule->n_ctx);

      if (!llm_measured_call_begin (seq, end - first, error))
        return FALSE;
      is_read = llm_measured_call_read (forward, seq, input, end, rule->kind, rule->n_ctx / 2,
                                        add_score, &window, error);
      llm_measured_call_end (store, seq, input);
    }
  *total += window.total;

  return is_read;
}

gboolean
llm_perplexity_run (LlmForward              *forward,
                    const LlmHparams        *hparams,
                    LlmKvStore              *store,
                    const gint32            *tokens,
                    gsize                    n_tokens,
                    const LlmPerplexityRule *rule,
                    LlmPerplexityFunc        callback,
                    gpointer                 data,
                    LlmPerplexity           *result,
                    GError                 **error)
{
  const guint n_ctx = rule->n_ctx;
  double total = 0;

  *result = (LlmPerplexity) { 0 };
  if (n_ctx < 4 || n_tokens < n_ctx)
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                   "A text of %zu tokens has no window of %u: the window must be "
                   "at least 4 and at most the text", n_tokens, n_ctx);
      return FALSE;
    }

  for (gsize i = 0; i < n_tokens; i++)
    if (tokens[i] < 0 || (guint) tokens[i] >= hparams->n_vocab)
      {
        g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "Token %d is not one of the model's %u", tokens[i], hparams->n_vocab);
        return FALSE;
      }

  for (gsize first = 0; first + n_ctx <= n_tokens; first += n_ctx)
    {
      if (!run_window (forward, hparams, store, tokens + first, rule, &total, error))
        return FALSE;

      result->n_windows++;
      result->n_scored += n_ctx - 1 - n_ctx / 2;
      result->nll = total / result->n_scored;
      result->perplexity = exp (result->nll);
      if (callback != NULL && !callback (result, data))
        break;
    }

  return TRUE;
}
