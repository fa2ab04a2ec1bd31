/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A walk through a trie of tokens, which finds those that a grammar allows. Made for one use; one
 * thread, except what is atomic.
 */

#pragma once

#include "constraints/llm-mask.h"

G_BEGIN_DECLS

/* What has not been found out of a state, among LlmMaskWalk.commons. */
#define LLM_MASK_COMMON_UNKNOWN (G_MAXUINT32 - 1)

typedef struct
{
  const LlmGrammar *grammar;
  LlmStacks *stacks;
  const LlmTrie *trie;
  guint64 *bits;         /* a bit per token: those that were found */
  GArray *exits;         /* (nullable) (element-type guint32): nodes where the bottom was left */
  guint32 *commons;      /* (nullable) [n_states], atomic: the state that all plain characters lead
                          * to from each, or LLM_DEAD */
  GArray *threads;       /* (owned) (element-type LlmThread): a set for each level */
  guint64 n_steps;
} LlmMaskWalk;

void llm_mask_walk_init     (LlmMaskWalk      *walk,
                             const LlmGrammar *grammar,
                             LlmStacks        *stacks,
                             const LlmTrie    *trie,
                             guint64          *bits);
void llm_mask_walk_clear    (LlmMaskWalk      *walk);
/* Sets the tokens that end in @node. */
void llm_mask_walk_add_node (LlmMaskWalk      *walk,
                             guint32           node);
/* Sets the tokens of nodes [@node, @end) that may come next, where the threads from @first on are
 * the set. */
void llm_mask_walk_run      (LlmMaskWalk      *walk,
                             guint             first,
                             guint32           node,
                             guint32           end);

G_END_DECLS
