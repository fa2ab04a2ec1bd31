/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the service's arithmetic (kernels/llk-product.h) costs on a text: against the file's weights in
 * floats, with the same context memory. */

#pragma once

#include "tool/tool-model.h"

typedef struct
{
  guint n_scored;              /* tokens */
  double exact_perplexity;     /* with floats */
  double perplexity;           /* as the service computes */
  double mean, p99, largest;   /* divergence from floats, in nats */
  double same_top;             /* share of tokens */
} ToolArithmetic;

/* @op: what the service's arithmetic computes, LLM_N_OPS for all that it can. The text @tokens in
 * windows of @n_ctx, of which the second half of each is scored, @n_windows of them at most. */
gboolean tool_arithmetic_measure (ToolModel       *exact,
                                  ToolModel       *model,
                                  LlmOperator      op,
                                  const GArray    *tokens,
                                  guint            n_ctx,
                                  guint            n_windows,
                                  ToolArithmetic  *result,
                                  GError         **error);
