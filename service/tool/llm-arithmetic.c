/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-exec"

#include "tool/llm-arithmetic.h"

#include <math.h>
#include <string.h>

#include "base/llm-fail.h"
#include "common/llmsvc-error.h"

/* --- one operator --- */

/* Weights of which one operator's are as the service has them, and all others those of the file. */
typedef struct
{
  LlmWeights parent;
  LlmWeights *file, *service;  /* (unowned) */
  LlmOperator op;
} Mixed;

static LlmStatus
acquire (LlmWeights           *weights,
         LlmOperator           op,
         guint                 layer,
         guint                 segment,
         const LlmActivation  *activation,
         LlmWeightView        *view,
         GError              **error)
{
  Mixed *self = (Mixed *) weights;

  return llm_weights_acquire (op == self->op ? self->service : self->file, op, layer, segment,
                              activation, view, error);
}

static void
release (LlmWeights    *weights,
         LlmWeightView *view)
{
  Mixed *self = (Mixed *) weights;

  llm_weights_release (view->layout == LLM_LAYOUT_PANELS ? self->service : self->file, view);
}

static gboolean
check (LlmWeights  *weights,
       GError     **error)
{
  return TRUE;
}

static void
free_mixed (LlmWeights *weights)
{
  g_free (weights);
}

static LlmWeights *
new_mixed (LlmWeights  *file,
           LlmWeights  *service,
           LlmOperator  op)
{
  static const LlmWeightProvider provider = {
    .acquire = acquire, .release = release, .check = check, .free = free_mixed,
  };
  Mixed *self = g_new0 (Mixed, 1);

  self->parent = (LlmWeights) { .provider = &provider, .sub_models = file->sub_models,
                                .bytes = file->bytes };
  self->file = file;
  self->service = service;
  self->op = op;
  return &self->parent;
}

/* --- comparing --- */

typedef struct
{
  const gint32 *tokens;        /* of the window */
  guint n_ctx;
  guint n_vocab;
  float *reference;            /* [n_ctx - first × n_vocab] */
  gboolean is_reference;
  double reference_nll, nll;   /* sums */
  guint n_same_top;
  GArray *divergences;         /* (element-type double) */
} Comparison;

/* -log of the probability of @token. */
static double
get_nll (const float *logits,
         guint        n_vocab,
         gint32       token)
{
  double largest = -G_MAXDOUBLE, sum = 0;

  for (guint i = 0; i < n_vocab; i++)
    largest = MAX (largest, (double) logits[i]);
  for (guint i = 0; i < n_vocab; i++)
    sum += exp ((double) logits[i] - largest);
  return largest + log (sum) - (double) logits[token];
}

static void
compare (guint        slot,
         const float *logits,
         gpointer     data)
{
  Comparison *self = data;
  float *reference = self->reference + (gsize) (slot - self->n_ctx / 2) * self->n_vocab;
  double divergence;
  gboolean is_same_top;

  if (slot + 1 >= self->n_ctx)
    return;
  if (self->is_reference)
    {
      memcpy (reference, logits, self->n_vocab * sizeof *logits);
      self->reference_nll += get_nll (logits, self->n_vocab, self->tokens[slot + 1]);
      return;
    }
  self->nll += get_nll (logits, self->n_vocab, self->tokens[slot + 1]);
  divergence = llm_measure_divergence (reference, logits, self->n_vocab, &is_same_top);
  self->n_same_top += is_same_top;
  g_array_append_val (self->divergences, divergence);
}

static gboolean
run_window (LlmForward   *forward,
            LlmKvStore   *store,
            const gint32 *input,
            Comparison   *comparison,
            GError      **error)
{
  g_autoptr(LlmKvSeq) seq = llm_kv_seq_new (store, NULL, NULL);

  return llm_measure_call (forward, store, seq, input, comparison->n_ctx, LLM_MEASURE_TEXT,
                           comparison->n_ctx / 2, compare, comparison, error);
}

static gint
compare_doubles (gconstpointer a,
                 gconstpointer b)
{
  double x = *(const double *) a, y = *(const double *) b;

  return x < y ? -1 : x > y;
}

static void
sum_up (const Comparison  *comparison,
        LlmArithmeticLoss *loss)
{
  GArray *all = comparison->divergences;
  double sum = 0;

  g_array_sort (all, compare_doubles);
  for (guint i = 0; i < all->len; i++)
    sum += g_array_index (all, double, i);
  *loss = (LlmArithmeticLoss) {
    .n_scored = all->len,
    .reference_perplexity = exp (comparison->reference_nll / all->len),
    .perplexity = exp (comparison->nll / all->len),
    .mean = sum / all->len,
    .p99 = g_array_index (all, double, (all->len - 1) * 99 / 100),
    .largest = g_array_index (all, double, all->len - 1),
    .same_top = (double) comparison->n_same_top / all->len,
  };
}

/* All but @op in floats. */
static LlmForward *
new_mixed_forward (const LlmArithmetic *self,
                   LlmWeights          *mixed)
{
  LlmPlanConfig config = { .kernels = llk_ops_best () };
  g_autoptr(LlmPlan) plan = llm_plan_new (self->hparams, mixed, &config);

  return llm_forward_new (plan, self->pool, NULL);
}

gboolean
llm_arithmetic_measure (const LlmArithmetic  *self,
                        LlmOperator           op,
                        const GArray         *tokens,
                        guint                 n_ctx,
                        guint                 n_windows,
                        LlmArithmeticLoss    *loss,
                        GError              **error)
{
  const guint n_vocab = self->hparams->n_vocab;
  const gint32 *text = (const gint32 *) (gpointer) tokens->data;
  g_autofree float *reference = NULL;
  g_autofree gint32 *input = g_new (gint32, n_ctx);
  g_autoptr(GArray) divergences = g_array_new (FALSE, FALSE, sizeof (double));
  Comparison comparison = { .n_ctx = n_ctx, .n_vocab = n_vocab, .divergences = divergences };
  LlmWeights *mixed =
    op < LLM_N_OPS ? new_mixed (self->reference_weights, self->weights, op) : NULL;
  g_autoptr(LlmForward) mixed_forward = mixed != NULL ? new_mixed_forward (self, mixed) : NULL;
  LlmForward *forward = mixed != NULL ? mixed_forward : self->forward;
  gboolean is_done = TRUE;

  reference = g_new (float, (gsize) (n_ctx - n_ctx / 2) * n_vocab);
  comparison.reference = reference;
  for (gsize w = 0; is_done && w < n_windows && (w + 1) * n_ctx <= tokens->len; w++)
    {
      comparison.tokens = text + w * n_ctx;
      memcpy (input, comparison.tokens, n_ctx * sizeof *input);
      if (self->tokenizer->adds_bos)
        input[0] = self->tokenizer->bos;
      comparison.is_reference = TRUE;
      is_done = run_window (self->reference_forward, self->reference_store, input, &comparison, error);
      comparison.is_reference = FALSE;
      is_done = is_done && run_window (forward, self->store, input, &comparison, error);
    }
  g_clear_pointer (&mixed_forward, llm_forward_free);
  g_clear_pointer (&mixed, llm_weights_free);
  if (is_done && divergences->len == 0)
    return llm_fail (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "A text of %u tokens has no window of %u", tokens->len, n_ctx);
  if (is_done)
    sum_up (&comparison, loss);
  return is_done;
}

double
llm_arithmetic_get_growth (const LlmArithmeticLoss *loss)
{
  return 100 * (loss->perplexity / loss->reference_perplexity - 1);
}
