/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Prompt compression: a prompt becomes shorter by words that are left out of its messages. What to
 * leave out is decided without a model, from where words stand and how rare their tokens are. Any
 * thread.
 */

#pragma once

#include "template/llm-template.h"
#include "tokenizer/llm-tokenizer.h"

G_BEGIN_DECLS

/* Leaves words out of the texts of @messages (element-type LlmMessage) from @first on, of
 * @n_tokens tokens or slightly more, as far as that can be: system messages stay whole, and at least
 * a fifth of each text stays. Returns how many tokens they had. */
guint llm_shorten (LlmTokenizer *tokenizer,
                   GArray       *messages,
                   guint         first,
                   guint         n_tokens);

G_END_DECLS
