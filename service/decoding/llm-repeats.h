/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Whether an answer goes round: the same run of tokens again and again, as small models write at
 * temperature 0 until their context is full. What a list or a table repeats is not enough. One
 * thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Tokens of the longest run that is noticed. */
#define LLM_REPEATS_MAX_RUN 150

typedef struct
{
  /* By length of the run: so many tokens, up to the last one, are each what was that far before
   * it. */
  guint n_same[LLM_REPEATS_MAX_RUN + 1];
} LlmRepeats;

/* Looks at the last of @tokens, each of which is given once. Returns whether they go round. */
gboolean llm_repeats_push (LlmRepeats   *self,
                           const gint32 *tokens,
                           guint         n_tokens);

G_END_DECLS
