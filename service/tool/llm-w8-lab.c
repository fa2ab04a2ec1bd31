/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tool/llm-w8-lab.h"

#include <math.h>
#include <string.h>

#include "base/llm-fail.h"
#include "common/llmsvc-error.h"

typedef struct
{
  const LlmW8Lab *lab;
  const gint32 *tokens;         /* of the window */
  float *reference;             /* (nullable): of the window */
  gboolean is_reference;
  LlmW8Score *score;            /* sums */
} Window;

guint
llm_w8_lab_count_windows (const LlmW8Lab *lab)
{
  return MIN (lab->n_windows, lab->n_tokens / lab->n_ctx);
}

/* The first slot of a window that is scored. */
static guint
get_first (const LlmW8Lab *lab)
{
  return lab->n_ctx - 1 - lab->n_scored;
}

gsize
llm_w8_lab_get_reference_size (const LlmW8Lab *lab)
{
  return (gsize) llm_w8_lab_count_windows (lab) * lab->n_scored * lab->hparams->n_vocab;
}

static double
get_nll (const float *logits,
         guint        n,
         gint32       token)
{
  double sum = 0, largest = (double) logits[0];

  for (guint i = 1; i < n; i++)
    largest = MAX (largest, (double) logits[i]);
  for (guint i = 0; i < n; i++)
    sum += exp ((double) logits[i] - largest);
  return largest + log (sum) - (double) logits[token];
}

static void
add_score (guint        slot,
           const float *logits,
           gpointer     data)
{
  Window *window = data;
  const LlmW8Lab *lab = window->lab;
  guint n_vocab = lab->hparams->n_vocab;
  float *reference;

  if (slot + 1 >= lab->n_ctx)
    return;
  window->score->n_scored++;
  window->score->nll += get_nll (logits, n_vocab, window->tokens[slot + 1]);
  if (window->reference == NULL)
    return;
  reference = window->reference + (gsize) (slot - get_first (lab)) * n_vocab;
  if (window->is_reference)
    memcpy (reference, logits, n_vocab * sizeof *logits);
  else
    window->score->divergence += llm_measure_divergence (reference, logits, n_vocab, NULL);
}

gboolean
llm_w8_lab_score (const LlmW8Lab  *lab,
                  LlmBackend      *device,
                  float           *reference,
                  gboolean         is_reference,
                  LlmW8Score      *score,
                  GError         **error)
{
  const LlmPlanConfig config = { .kernels = lab->kernels, .device = device };
  g_autoptr(LlmPlan) plan = llm_plan_new (lab->hparams, lab->weights, &config);
  g_autoptr(LlmForward) forward = llm_forward_new (plan, lab->pool, NULL);
  guint n_windows = llm_w8_lab_count_windows (lab);

  *score = (LlmW8Score) { 0 };
  if (lab->n_ctx < 4 || n_windows == 0)
    return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "A text of %u tokens has no window of %u: give a longer text, or shorter "
                     "windows", lab->n_tokens, lab->n_ctx);
  for (guint w = 0; w < n_windows; w++)
    {
      g_autoptr(LlmKvSeq) seq = llm_kv_seq_new (lab->store, NULL, NULL);
      g_autofree gint32 *input =
        g_memdup2 (lab->tokens + (gsize) w * lab->n_ctx, lab->n_ctx * sizeof *input);
      Window window = { lab, input, NULL, is_reference, score };

      if (reference != NULL)
        window.reference =
          reference + (gsize) w * lab->n_scored * lab->hparams->n_vocab;
      if (lab->bos >= 0)
        input[0] = lab->bos;
      if (!llm_measure_call (forward, lab->store, seq, input, lab->n_ctx, LLM_MEASURE_TEXT, get_first (lab),
                             add_score, &window, error))
        return FALSE;
    }
  score->nll /= (double) score->n_scored;
  score->divergence /= (double) score->n_scored;
  return TRUE;
}

static void
add_scores (LlmW8Score       *sum,
            const LlmW8Score *score)
{
  sum->nll += score->nll * (double) score->n_scored;
  sum->divergence += score->divergence * (double) score->n_scored;
  sum->n_scored += score->n_scored;
}

static void
end_scores (LlmW8Score *sum)
{
  sum->nll /= (double) MAX (sum->n_scored, 1);
  sum->divergence /= (double) MAX (sum->n_scored, 1);
}

gboolean
llm_w8_lab_compare (const LlmW8Lab  *lab,
                    LlmBackend      *device,
                    void           (*on_run) (guint n),
                    LlmW8Score      *exact,
                    LlmW8Score      *score,
                    GError         **error)
{
  guint n_windows = llm_w8_lab_count_windows (lab);
  LlmW8Lab one = *lab;
  g_autofree float *reference = NULL;

  one.n_windows = 1;
  reference = g_try_new (float, llm_w8_lab_get_reference_size (&one));
  *exact = *score = (LlmW8Score) { 0 };
  if (reference == NULL && n_windows > 0)
    return llm_fail (error, LLMSVC_ERROR_NO_MEMORY,
                     "Not enough memory for the reference logits of a window");
  for (guint w = 0; w < n_windows; w++, one.tokens += one.n_ctx, one.n_tokens -= one.n_ctx)
    {
      LlmW8Score exactly, so;

      if (!llm_w8_lab_score (&one, NULL, reference, TRUE, &exactly, error)
          || !llm_w8_lab_score (&one, device, reference, FALSE, &so, error))
        return FALSE;
      add_scores (exact, &exactly);
      add_scores (score, &so);
      if (on_run != NULL)
        on_run (w + 1);
    }
  end_scores (exact);
  end_scores (score);
  return TRUE;
}
