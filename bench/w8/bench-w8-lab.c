/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "w8/bench-w8-lab.h"

#include <math.h>
#include <string.h>

#include "base/llm-fail.h"
#include "common/llmsvc-error.h"

typedef struct
{
  const BenchW8Lab *lab;
  const gint32 *tokens;         /* of the window */
  float *reference;             /* (nullable): of the window */
  gboolean is_reference;
  BenchW8Score *score;            /* sums */
} Window;

guint
bench_w8_lab_count_windows (const BenchW8Lab *lab)
{
  return MIN (lab->n_windows, lab->n_tokens / lab->n_ctx);
}

static guint
count_scored (const BenchW8Lab *lab)
{
  return lab->n_ctx - 1 - lab->n_ctx / 2;
}

gsize
bench_w8_lab_get_reference_size (const BenchW8Lab *lab)
{
  return (gsize) bench_w8_lab_count_windows (lab) * count_scored (lab) * lab->hparams->n_vocab;
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
  const BenchW8Lab *lab = window->lab;
  guint n_vocab = lab->hparams->n_vocab;
  float *reference;

  if (slot + 1 >= lab->n_ctx)
    return;
  window->score->n_scored++;
  window->score->nll += get_nll (logits, n_vocab, window->tokens[slot + 1]);
  if (window->reference == NULL)
    return;
  reference = window->reference + (gsize) (slot - lab->n_ctx / 2) * n_vocab;
  if (window->is_reference)
    memcpy (reference, logits, n_vocab * sizeof *logits);
  else
    window->score->divergence += llm_measure_divergence (reference, logits, n_vocab, NULL);
}

gboolean
bench_w8_lab_score (const BenchW8Lab  *lab,
                  LlmBackend      *device,
                  float           *reference,
                  gboolean         is_reference,
                  BenchW8Score      *score,
                  GError         **error)
{
  const LlmPlanConfig config = { .kernels = lab->kernels, .device = device };
  g_autoptr(LlmPlan) plan = llm_plan_new (lab->hparams, lab->weights, &config);
  g_autoptr(LlmForward) forward = llm_forward_new (plan, lab->pool, NULL);
  guint n_windows = bench_w8_lab_count_windows (lab);

  *score = (BenchW8Score) { 0 };
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
          reference + (gsize) w * count_scored (lab) * lab->hparams->n_vocab;
      if (lab->bos >= 0)
        input[0] = lab->bos;
      if (!llm_measure_call (forward, lab->store, seq, input, lab->n_ctx, FALSE, lab->n_ctx / 2,
                             add_score, &window, error))
        return FALSE;
    }
  score->nll /= (double) score->n_scored;
  score->divergence /= (double) score->n_scored;
  return TRUE;
}
