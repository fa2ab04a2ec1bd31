/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The log-probabilities of a token and of the most probable ones in its place, as JSON. They are
 * the model's own: of its logits, before bias, penalties, temperature, filters and masks, as OpenAI
 * and llama-server tell them. So they are the same with and without drafts. Executor's thread.
 */

#pragma once

#include "tokenizer/llm-tokenizer.h"

G_BEGIN_DECLS

/* What stands for minus infinity, which JSON has not; as OpenAI has it. */
#define LLM_LOGPROB_NEVER (-9999.0)

/* Appends to @items, with a comma where there is something before, what @logits (one float for each
 * token) say of @token: {"id", "token", "bytes", "logprob", "top_logprobs": [the same of the @n_top
 * most probable ones, the best first, equal ones by id]}. A NaN counts as minus infinity. */
void llm_logprobs_append (GString      *items,
                          LlmTokenizer *tokenizer,
                          const float  *logits,
                          gint32        token,
                          guint         n_top);

G_END_DECLS
