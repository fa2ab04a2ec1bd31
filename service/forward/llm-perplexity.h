/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Perplexity of a text, by the rule that published figures use: windows of
 * n_ctx tokens one after the other, each on its own, its first token replaced
 * by BOS; the second half of each is scored. A window may be read in several calls,
 * between which the store packs what is remembered as it does for the service. The
 * executor's thread, or the only one of a tool.
 */

#pragma once

#include "forward/llm-forward.h"

G_BEGIN_DECLS

typedef struct
{
  guint n_windows;      /* done so far */
  guint64 n_scored;     /* tokens */
  double nll;           /* mean negative log-likelihood, in nats */
  double perplexity;    /* e^nll */
} LlmPerplexity;

typedef struct
{
  guint n_ctx;          /* tokens in one window, at least 4; what is left behind the last whole
                         * window is not used */
  guint n_call;         /* tokens read in one call, 0 for all of a window */
  LlkRowKind kind;      /* of the rows: GENERATED with weights as rows is the exact path */
  gint32 bos;           /* takes the place of each window's first token; -1 for none */
} LlmPerplexityRule;

/* Called after each window; FALSE stops there. */
typedef gboolean (*LlmPerplexityFunc) (const LlmPerplexity *so_far,
                                       gpointer             data);

/**
 * llm_perplexity_run:
 * @forward: a forward pass between steps
 * @hparams: those of @forward's model
 * @store: where the windows' context memory goes
 * @tokens: (array length=n_tokens): the text, with a BOS in front where the tokenizer adds one
 * @callback: (nullable):
 * @result: (out): the figure over all windows done
 *
 * Returns: %FALSE with @error set when a step failed or there is no whole window
 */
gboolean llm_perplexity_run (LlmForward              *forward,
                             const LlmHparams        *hparams,
                             LlmKvStore              *store,
                             const gint32            *tokens,
                             gsize                    n_tokens,
                             const LlmPerplexityRule *rule,
                             LlmPerplexityFunc        callback,
                             gpointer                 data,
                             LlmPerplexity           *result,
                             GError                 **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
