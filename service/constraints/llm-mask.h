/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A grammar compiled for a vocabulary: which tokens each state of the grammar allows. Found when
 * a state is first asked for, and kept: what the tokens' bytes lead to within the state's rule is
 * the same wherever the rule is called from. What leaves the rule depends on the callers: for it
 * a small trie of the rest of these tokens is kept. (The idea is XGrammar's, arXiv 2411.15100.)
 *
 * Any thread: what is added is published atomically.
 */

#pragma once

#include "constraints/llm-grammar.h"
#include "constraints/llm-token-trie.h"
#include "memory/llm-ledger.h"

G_BEGIN_DECLS

/* A place in the text: a state, and the states to go on with when its rule and those that called
 * it end. */
typedef struct
{
  guint32 state;
  guint32 stack;         /* frame, or LLM_STACK_BOTTOM */
} LlmThread;

#define LLM_STACK_BOTTOM G_MAXUINT32

typedef struct
{
  guint32 state;         /* to go on with */
  guint32 below;         /* frame */
  guint32 next;          /* with the same hash */
} LlmFrame;

/* Frames, each once. */
typedef struct
{
  GArray *frames;        /* (owned) (element-type LlmFrame) */
  guint32 *buckets;      /* (owned) [1 << bits] */
  guint bits;
} LlmStacks;

void     llm_stacks_init     (LlmStacks        *self);
void     llm_stacks_clear    (LlmStacks        *self);
guint32  llm_stacks_push     (LlmStacks        *self,
                              guint32           state,
                              guint32           below);
/* Forgets all frames but the first @n. */
void     llm_stacks_truncate (LlmStacks        *self,
                              guint             n);

/* Adds @state and all that it calls or ends in, of which bytes lead on, to @threads (element-type
 * LlmThread), from element @first on each once. Returns whether the bottom of the stack was
 * left. */
gboolean llm_threads_add     (GArray           *threads,
                              guint             first,
                              const LlmGrammar *grammar,
                              LlmStacks        *stacks,
                              LlmThread         thread);

typedef struct _LlmMaskTable LlmMaskTable;

/* @ledger: (nullable): where its bytes are counted; without room there, no mask is kept. */
LlmMaskTable *llm_mask_table_new      (LlmGrammar   *grammar,
                                       LlmTokenTrie *tokens,
                                       LlmLedger    *ledger);
LlmMaskTable *llm_mask_table_ref      (LlmMaskTable *self);
void          llm_mask_table_unref    (LlmMaskTable *self);
LlmGrammar   *llm_mask_table_get_grammar (LlmMaskTable *self);
LlmTokenTrie *llm_mask_table_get_tokens  (LlmMaskTable *self);
/* Whether there are other references than the caller's. */
gboolean      llm_mask_table_is_shared   (LlmMaskTable *self);
/* Bytes that it has in memory, without those of the vocabulary's trie. */
gsize         llm_mask_table_get_bytes   (LlmMaskTable *self);
/* Finds the masks of the first states ahead, as many as about a tenth of a second allows. */
void          llm_mask_table_warm     (LlmMaskTable *self);
/* Sets in @bits (one per token, in words of 64) those that @thread allows. */
void          llm_mask_table_add      (LlmMaskTable *self,
                                       LlmStacks    *stacks,
                                       LlmThread     thread,
                                       guint64      *bits);
/* The same for what begins with @byte, which leads to @threads. */
void          llm_mask_table_add_behind (LlmMaskTable *self,
                                         LlmStacks    *stacks,
                                         guint8        byte,
                                         const GArray *threads,
                                         guint64      *bits);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmMaskTable, llm_mask_table_unref)

G_END_DECLS
