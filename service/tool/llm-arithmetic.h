/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the service's arithmetic (kernels/llk-product.h) costs on a text: against the file's weights
 * in floats, with the same context memory. Or what a part of a model costs against the whole one.
 * The only thread of a tool. */

#pragma once

#include "tool/llm-measure.h"

/* One file, twice: what is compared with, its weights in floats or the whole model, and what is
 * compared. (unowned), all of it */
typedef struct
{
  const LlmHparams *hparams;
  const LlmTokenizer *tokenizer;
  LlmForward *reference_forward, *forward;
  LlmKvStore *reference_store, *store;

  /* (nullable) but for one operator of them: */
  LlmWeights *reference_weights, *weights;
  LlmWorkerPool *pool;
} LlmArithmetic;

typedef struct
{
  guint n_scored;              /* tokens */
  double reference_perplexity;
  double perplexity;
  double mean, p99, largest;   /* divergence from the reference, in nats */
  double same_top;             /* share of tokens */
} LlmArithmeticLoss;

/* @op: what the service's arithmetic computes, LLM_N_OPS for all that it can. The text @tokens
 * (element-type gint32) in windows of @n_ctx, of which the second half of each is scored,
 * @n_windows of them at most. Fails when a step failed or there is no whole window. */
gboolean llm_arithmetic_measure      (const LlmArithmetic      *self,
                                      LlmOperator               op,
                                      const GArray             *tokens,
                                      guint                     n_ctx,
                                      guint                     n_windows,
                                      LlmArithmeticLoss        *loss,
                                      GError                  **error) G_GNUC_WARN_UNUSED_RESULT;
/* What the perplexity grows by, in percent. */
double   llm_arithmetic_get_growth   (const LlmArithmeticLoss  *loss);
