/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Perplexity of a text, by the rule that published figures use: windows of
 * n_ctx tokens one after the other, each on its own, its first token replaced
 * by BOS; the second half of each is scored. The executor's thread, or the only
 * one of a tool.
 */

#pragma once

#include "exec/llm-forward.h"

G_BEGIN_DECLS

typedef struct
{
  guint n_windows;      /* done so far */
  guint64 n_scored;     /* tokens */
  double nll;           /* mean negative log-likelihood, in nats */
  double perplexity;    /* e^nll */
} LlmPerplexity;

/* Called after each window; FALSE stops there. */
typedef gboolean (*LlmPerplexityFunc) (const LlmPerplexity *so_far,
                                       gpointer             data);

/**
 * llm_perplexity_run:
 * @forward: a forward pass between steps
 * @hparams: those of @forward's model
 * @store: where the windows' context memory goes
 * @tokens: (array length=n_tokens): the text, with a BOS in front where the tokenizer adds one
 * @n_ctx: tokens in one window, at least 4; what is left behind the last whole window is not used
 * @kind: of the rows: LLK_ROWS_GENERATED with weights as rows is the exact path
 * @bos: takes the place of each window's first token; -1 for none
 * @callback: (nullable):
 * @result: (out): the figure over all windows done
 *
 * Returns: %FALSE with @error set when a step failed or there is no whole window
 */
gboolean llm_perplexity_run (LlmForward        *forward,
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
                             GError           **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
