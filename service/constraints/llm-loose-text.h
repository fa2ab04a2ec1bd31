/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The texts around the calls of a model's answer, as a part of an automaton: spaces beside brackets
 * and tags may be other ones, or none. Any thread.
 */

#pragma once

#include "constraints/llm-automaton.h"

G_BEGIN_DECLS

/* Within the texts: an id that the model makes up, and a number. No text has these bytes; control
 * tokens are as in LlmTokenTrie. */
#define LLM_CALL_ID '\x01'
#define LLM_CALL_NUMBER '\x02'
/* Letters and digits of an id. */
#define LLM_CALL_ID_LENGTH 9

/* @pattern after @from; the first @n_exact bytes as they are. Returns the state behind it. */
guint llm_nfa_add_loose    (LlmNfa     *nfa,
                            guint       from,
                            const char *pattern,
                            gsize       n_exact);
/* @text, or nothing. */
guint llm_nfa_add_optional (LlmNfa     *nfa,
                            guint       from,
                            const char *text);

G_END_DECLS
