/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Text that a model draws itself, for who has no other, with the probabilities that the model gives (as
 * LLM-QAT, arXiv:2305.17888, draws its training data): from a token drawn at random on, and every other
 * window from where a user begins to write. The only thread of a tool.
 */

#pragma once

#include "forward/llm-forward.h"
#include "tokenizer/llm-tokenizer.h"

typedef struct
{
  LlmForward *forward;          /* (unowned), as all of it */
  LlmKvStore *store;
  const LlmHparams *hparams;
  LlmTokenizer *tokenizer;
  const GArray *beginning;      /* (nullable) (element-type gint32): what stands before a user's text, BOS
                                 * with it; fewer than n_ctx */
  guint n_ctx;                  /* tokens of a window */
  guint n_windows;
} LlmOwnText;

/* (transfer full) (element-type gint32): the windows, one behind the other; the same ones each time.
 * @on_tokens (nullable): called with the number of tokens so far. */
GArray *llm_own_text_draw (const LlmOwnText *self,
                           void            (*on_tokens) (guint n),
                           GError          **error);
