/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-exec"

#include "tool/llm-measure.h"

#include <math.h>

#include "base/llm-clock.h"
#include "base/llm-fail.h"

/* Rows of one step: enough to use each weight often, few enough for caches. */
#define STEP_ROWS 256
/* Between looks at what else there is to do: nothing. */
#define SLICE_US 100000

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

gboolean
llm_measure_rows (LlmForward      *forward,
                  LlmKvSeq        *seq,
                  const gint32    *tokens,
                  guint            n_tokens,
                  LlmMeasureKind   kind,
                  guint            first_wanted,
                  LlmMeasureFunc   func,
                  gpointer         data,
                  GError         **error)
{
  guint begin = seq->length;
  LlmRow rows[STEP_ROWS] = { 0 };
  LlmBatch batch = { rows, 0, &seq, 1 };

  if (!llm_kv_seq_append (seq, n_tokens - begin, error))
    return FALSE;

  for (guint first = begin; first < n_tokens; first += batch.n_rows)
    {
      batch.n_rows = MIN (STEP_ROWS, n_tokens - first);
      for (guint i = 0; i < batch.n_rows; i++)
        rows[i] = (LlmRow) {
          .token = tokens[first + i],
          .position = first + i,
          .slot = first + i,
          .sub_model = llm_forward_get_sub_model (forward),
          .sparsity = kind != LLM_MEASURE_PROMPT ? llm_forward_get_sparsity (forward) : 0,
          .adapter = llm_forward_has_adapters (forward) ? 1 : 0,
          .wants_logits = func != NULL && first + i >= first_wanted,
          .is_counted = kind == LLM_MEASURE_ANSWER || llm_row_is_sampled (first + i),
        };
      if (!run_step (forward, &batch, error))
        return FALSE;
      for (guint i = 0; i < batch.n_rows; i++)
        if (rows[i].wants_logits)
          func (first + i, llm_forward_get_logits (forward, i), data);
    }

  return TRUE;
}

void
llm_measure_end (LlmKvStore   *store,
                 LlmKvSeq     *seq,
                 const gint32 *tokens)
{
  llm_kv_seq_end_call (seq, tokens, seq->length);
  while (!llm_kv_store_is_settled (store))
    if (!llm_kv_store_work (store, llm_clock_now_us () + SLICE_US)
        && !llm_kv_store_is_settled (store))
      llm_kv_store_wait (store, SLICE_US);
}

gboolean
llm_measure_call (LlmForward      *forward,
                  LlmKvStore      *store,
                  LlmKvSeq        *seq,
                  const gint32    *tokens,
                  guint            n_tokens,
                  LlmMeasureKind   kind,
                  guint            first_wanted,
                  LlmMeasureFunc   func,
                  gpointer         data,
                  GError         **error)
{
  gboolean is_done;
  LlmKvPlan plan;

  if (!llm_kv_seq_begin_call (seq, n_tokens - seq->length, &plan, error))
    return FALSE;

  is_done = llm_measure_rows (forward, seq, tokens, n_tokens, kind, first_wanted, func,
                              data, error);
  llm_measure_end (store, seq, tokens);
  return is_done;
}

/* What turns logits into logarithms of probabilities. @top: (out): the likeliest token. */
static double
get_offset (const float *logits,
            guint        n,
            guint       *top)
{
  double sum = 0;

  *top = 0;
  for (guint i = 1; i < n; i++)
    if (logits[i] > logits[*top])
      *top = i;
  for (guint i = 0; i < n; i++)
    sum += exp ((double) logits[i] - (double) logits[*top]);

  return (double) logits[*top] + log (sum);
}

double
llm_measure_divergence (const float *p_logits,
                        const float *q_logits,
                        guint        n_vocab,
                        gboolean    *is_same_top)
{
  guint p_top, q_top;
  double p_offset = get_offset (p_logits, n_vocab, &p_top);
  double q_offset = get_offset (q_logits, n_vocab, &q_top);
  double sum = 0;

  for (guint i = 0; i < n_vocab; i++)
    {
      double p = (double) p_logits[i] - p_offset, q = (double) q_logits[i] - q_offset;

      sum += exp (p) * (p - q);
    }
  if (is_same_top != NULL)
    *is_same_top = p_top == q_top;

  return MAX (sum, 0);
}

double
llm_measure_nll (const float *logits,
                 guint        n_vocab,
                 gint32       token)
{
  guint top;

  return get_offset (logits, n_vocab, &top) - (double) logits[token];
}

typedef struct
{
  const gint32 *tokens;   /* of the window */
  guint n_tokens;         /* the last one predicts nothing */
  guint n_vocab;
  double total;           /* of -log of probabilities, over all windows */
} Scores;

static void
add_score (guint        slot,
           const float *logits,
           gpointer     data)
{
  Scores *scores = data;

  if (slot + 1 < scores->n_tokens)
    scores->total += llm_measure_nll (logits, scores->n_vocab, scores->tokens[slot + 1]);
}

static gboolean
run_window (LlmForward               *forward,
            LlmKvStore               *store,
            const LlmPerplexityRule  *rule,
            Scores                   *scores,
            GError                  **error)
{
  g_autoptr(LlmKvSeq) seq = llm_kv_seq_new (store, NULL, NULL);
  g_autofree gint32 *input = g_memdup2 (scores->tokens, rule->n_ctx * sizeof *input);
  guint n_call = rule->n_call > 0 ? rule->n_call : rule->n_ctx;
  gboolean is_done = TRUE;

  if (rule->bos >= 0)
    input[0] = rule->bos;
  for (guint first = 0; is_done && first < rule->n_ctx; first += n_call)
    is_done = llm_measure_call (forward, store, seq, input, MIN (first + n_call, rule->n_ctx),
                                LLM_MEASURE_TEXT, rule->n_ctx / 2, add_score, scores, error);
  return is_done;
}

gboolean
llm_perplexity_run (LlmForward               *forward,
                    const LlmHparams         *hparams,
                    LlmKvStore               *store,
                    const gint32             *tokens,
                    gsize                     n_tokens,
                    const LlmPerplexityRule  *rule,
                    void                    (*on_window) (const LlmPerplexity *so_far),
                    LlmPerplexity            *result,
                    GError                  **error)
{
  const guint n_ctx = rule->n_ctx;
  Scores scores = { .n_tokens = n_ctx, .n_vocab = hparams->n_vocab };

  *result = (LlmPerplexity) { 0 };
  if (n_ctx < 4 || n_tokens < n_ctx)
    return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "A text of %zu tokens has no window of %u: the window must be "
                     "at least 4 and at most the text", n_tokens, n_ctx);

  for (gsize i = 0; i < n_tokens; i++)
    if (tokens[i] < 0 || (guint) tokens[i] >= hparams->n_vocab)
      return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                       "Token %d is not one of the model's %u", tokens[i], hparams->n_vocab);

  for (gsize first = 0; first + n_ctx <= n_tokens; first += n_ctx)
    {
      scores.tokens = tokens + first;
      if (!run_window (forward, store, rule, &scores, error))
        return FALSE;

      result->n_windows++;
      result->n_scored += n_ctx - 1 - n_ctx / 2;
      result->nll = scores.total / result->n_scored;
      result->perplexity = exp (result->nll);
      if (on_window != NULL)
        on_window (result);
    }

  return TRUE;
}
