/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What measures a model's accuracy: calls on a sequence as the service makes them, one after the
 * other and without a service; perplexity; divergence. What the store does between calls (it
 * quantizes chunks) is then all done. Where the forward pass has adapters, the first is measured.
 * The store's thread, or the only one of a tool.
 */

#pragma once

#include "forward/llm-forward.h"

/* @logits of the row in slot @slot; n_vocab floats, valid while it runs. */
typedef void (*LlmMeasureFunc) (guint        slot,
                                const float *logits,
                                gpointer     data);

/* What rows are: of an answer all are counted for density, and of a prompt none is sparse. */
typedef enum
{
  LLM_MEASURE_TEXT,
  LLM_MEASURE_PROMPT,
  LLM_MEASURE_ANSWER,
} LlmMeasureKind;

/* Appends rows that see all before them to @seq, which is in a call: those of @tokens, which are of
 * all slots, behind its length. @func (nullable) gets the logits from slot @first_wanted on. */
gboolean llm_measure_rows       (LlmForward        *forward,
                                 LlmKvSeq          *seq,
                                 const gint32      *tokens,
                                 guint              n_tokens,
                                 LlmMeasureKind     kind,
                                 guint              first_wanted,
                                 LlmMeasureFunc     func,
                                 gpointer           data,
                                 GError           **error) G_GNUC_WARN_UNUSED_RESULT;
/* Ends a call of llm_kv_seq_begin_call(), also when computing rows failed, and does what the store
 * does between calls. @tokens: of all slots. */
void     llm_measure_end        (LlmKvStore        *store,
                                 LlmKvSeq          *seq,
                                 const gint32      *tokens);
/* All three: a call of its own for the rows. */
gboolean llm_measure_call       (LlmForward        *forward,
                                 LlmKvStore        *store,
                                 LlmKvSeq          *seq,
                                 const gint32      *tokens,
                                 guint              n_tokens,
                                 LlmMeasureKind     kind,
                                 guint              first_wanted,
                                 LlmMeasureFunc     func,
                                 gpointer           data,
                                 GError           **error) G_GNUC_WARN_UNUSED_RESULT;

/* Both of the same text's next token: the sum of p × log (p / q), in nats, at least 0.
 * @is_same_top (nullable): set to whether both think the same token likeliest. */
double   llm_measure_divergence (const float       *p_logits,
                                 const float       *q_logits,
                                 guint              n_vocab,
                                 gboolean          *is_same_top);

/* -log of the probability of @token, in nats. */
double   llm_measure_nll        (const float       *logits,
                                 guint              n_vocab,
                                 gint32             token);

/* Perplexity by the rule that published figures use: windows of n_ctx tokens one after the other,
 * each on its own, its first token replaced by BOS; the second half of each is scored. */
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
  guint n_call;         /* tokens of one call, 0 for all of a window */
  gint32 bos;           /* takes the place of each window's first token; -1 for none */
} LlmPerplexityRule;

/* Of the text @tokens, with a BOS in front where the tokenizer adds one; its windows' KV cache goes
 * to @store. @on_window (nullable) is called after each window. Fails when a step failed or there
 * is no whole window. */
gboolean llm_perplexity_run     (LlmForward              *forward,
                                 const LlmHparams        *hparams,
                                 LlmKvStore              *store,
                                 const gint32            *tokens,
                                 gsize                    n_tokens,
                                 const LlmPerplexityRule *rule,
                                 void                   (*on_window) (const LlmPerplexity *so_far),
                                 LlmPerplexity           *result,
                                 GError                 **error);
