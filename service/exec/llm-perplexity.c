/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-exec"

#include "exec/llm-perplexity.h"

#include <math.h>

#include "common/llmsvc-error.h"

/* Rows of one step: enough to use each weight often, few enough for caches. */
#define STEP_ROWS 256

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

static gboolean
run_step (LlmForward     *forward,
          const LlmBatch *batch,
          GError        **error)
{
  LlmStatus status;

  if (!llm_forward_begin (forward, batch, error))
    return FALSE;

  /* Nothing else runs beside this: what is awaited comes from other threads. */
  while ((status = llm_forward_resume (forward, error)) == LLM_PENDING)
    g_thread_yield ();

  return status == LLM_READY;
}

/* Adds the window's sum of -log probabilities to @total. */
static gboolean
run_window (LlmForward       *forward,
            const LlmHparams *hparams,
            LlmKvStore       *store,
            const gint32     *tokens,
            guint             n_ctx,
            LlkRowKind        kind,
            gint32            bos,
            double           *total,
            GError          **error)
{
  g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (store);
  LlmRow rows[STEP_ROWS] = { 0 };
  LlmBatch batch = { rows, 0, &seq, 1 };

  if (!llm_kv_seq_append (seq, n_ctx, error))
    return FALSE;

  for (guint first = 0; first < n_ctx; first += batch.n_rows)
    {
      batch.n_rows = MIN (STEP_ROWS, n_ctx - first);
      for (guint i = 0; i < batch.n_rows; i++)
        {
          guint at = first + i;

          rows[i].token = at == 0 && bos >= 0 ? bos : tokens[at];
          rows[i].position = at;
          rows[i].slot = at;
          rows[i].kind = kind;
          rows[i].sub_model = 100;
          rows[i].wants_logits = at >= n_ctx / 2 && at + 1 < n_ctx;
        }
      if (!run_step (forward, &batch, error))
        return FALSE;
      for (guint i = 0; i < batch.n_rows; i++)
        if (rows[i].wants_logits)
          *total += score (llm_forward_get_logits (forward, i), hparams->n_vocab,
                           tokens[first + i + 1]);
    }

  return TRUE;
}

gboolean
llm_perplexity_run (LlmForward        *forward,
                    const LlmHparams  *hparams,
                    LlmKvStore        *store,
                    const gint32      *tokens,
                    gsize              n_tokens,
                    guint              n_ctx,
                    LlkRowKind         kind,
                    gint32             bos,
                    LlmPerplexityFunc  callback,
                    gpointer           data,
                    LlmPerplexity     *result,
                    GError           **error)
{
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
      if (!run_window (forward, hparams, store, tokens + first, n_ctx, kind, bos, &total, error))
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
