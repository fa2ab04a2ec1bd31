/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The tokens of a vocabulary by their bytes, as a trie in preorder: what a grammar allows is found
 * in one walk, which leaves out what no byte leads to. Control tokens are in it behind a byte that
 * no text has, so that only grammars that name them allow them; those that end an answer are not.
 * Immutable once made; any thread.
 */

#pragma once

#include "tokenizer/llm-tokenizer.h"

G_BEGIN_DECLS

typedef struct
{
  guint n_nodes;
  guint8 *bytes;         /* [n_nodes]: the byte that leads to it */
  guint32 *ends;         /* [n_nodes]: the first node behind it and those below it */
  guint32 *first_tokens; /* [n_nodes + 1]: where its tokens begin */
  guint32 *tokens;       /* those that end in a node, in the order of nodes */
  guint8 *heights;       /* (nullable) [n_nodes]: of a node behind a whole character, the characters
                          * of the longest token below, if all of these are plain; else
                          * LLM_TRIE_MIXED */
} LlmTrie;

/* Tokens are kept apart by their lengths: states of a grammar that differ only far behind allow
 * the same short tokens (llm-alike-states.h). */
#define LLM_N_TOKEN_LENGTHS 4

typedef struct
{
  gatomicrefcount ref_count;
  LlmTrie tries[LLM_N_TOKEN_LENGTHS]; /* of tokens of up to llm_token_lengths[i] bytes that are in
                                       * none before */
  guint n_tokens;        /* of the vocabulary */
  guint max_bytes;       /* of a token */
  guint max_text_bytes;  /* of one that is no control token */
  GArray *endings;       /* (element-type guint32): tokens that end an answer */
  /* bytes of token i: text + offsets[i] up to offsets[i + 1]; none of those left out */
  char *text;
  guint32 *offsets;
} LlmTokenTrie;

#define LLM_TRIE_MIXED 255
/* In bytes, the last one unlimited. */
extern const guint llm_token_lengths[LLM_N_TOKEN_LENGTHS];
/* Stands before the text of a control token. */
#define LLM_TRIE_CONTROL '\xff'

/* How far a character in UTF-8 has come. */
typedef enum
{
  LLM_UTF8_WHOLE,
  LLM_UTF8_ONE_MORE,
  LLM_UTF8_TWO_MORE,
  LLM_UTF8_THREE_MORE,
  LLM_UTF8_BEHIND_E0,
  LLM_UTF8_BEHIND_ED,
  LLM_UTF8_BEHIND_F0,
  LLM_UTF8_BEHIND_F4,
  LLM_UTF8_NOT_PLAIN,
  LLM_UTF8_N_STATES,
} LlmUtf8State;

/* Plain are the characters that mean nothing in JSON's strings, nor to most patterns: all but
 * controls, the quote and the backslash. What @byte makes of @state. */
LlmUtf8State  llm_utf8_state_step  (LlmUtf8State  state,
                                    guint8        byte);

/* Nodes of a trie, with those above them left out. */
typedef struct
{
  const LlmTrie *trie;
  guint32 first;
  guint32 end;
} LlmTrieNodes;

/* Makes a trie of all @nodes (element-type LlmTrieNodes), as if they were of one. @allowed:
 * (nullable): bits: the first bytes to take. */
void          llm_trie_merge       (LlmTrie       *to,
                                    const GArray  *nodes,
                                    const guint32 *allowed);
void          llm_trie_clear       (LlmTrie       *trie);

/* Appends the bytes of @id as they are in the trie. */
void          llm_token_trie_decode (LlmTokenizer *tokenizer,
                                     gint32        id,
                                     GString      *text);
LlmTokenTrie *llm_token_trie_new   (LlmTokenizer *tokenizer);
LlmTokenTrie *llm_token_trie_ref   (LlmTokenTrie *self);
void          llm_token_trie_unref (LlmTokenTrie *self);
/* Bytes that it has in memory. */
gsize         llm_token_trie_get_bytes (const LlmTokenTrie *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmTokenTrie, llm_token_trie_unref)

G_END_DECLS
