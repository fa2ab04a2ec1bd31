/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * States of a grammar that short texts can't tell apart: with 50 or 40 characters left of a
 * string, each token of up to 16 bytes leads on from both or from none. What is found out for
 * one of them holds for all (partition refinement; Moore, 1956). A pure function; any thread.
 */

#pragma once

#include "constraints/llm-grammar.h"

G_BEGIN_DECLS

typedef struct
{
  guint32 *ids;          /* (owned) [n_states]: the same for those that are alike */
  guint n_ids;
} LlmAlikeStates;

/* Fills @alike, one for each of @lengths, in bytes, which rise. States of two rules are never
 * alike. Where it takes too long to find out, each state is alike to itself only. */
void llm_alike_states_find (const LlmGrammar *grammar,
                            const guint      *lengths,
                            guint             n,
                            LlmAlikeStates   *alike);

G_END_DECLS
