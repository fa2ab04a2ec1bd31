/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How byte-pair vocabularies cut text into words before merging: each was trained with one of some
 * forty lists of patterns, named by tokenizer.ggml.pre (llm-pretokenizer-table.c). Patterns are
 * matched by PCRE2; each takes time in proportion to the text, whatever that is.
 * Owned by its tokenizer; immutable once made, any thread.
 */

#pragma once

#include <glib.h>

#define LLM_PRETOKENIZER_MAX_STAGES 6

/* Rules that a name stands for. Constant. */
typedef struct
{
  const char *name;
  const char *const *patterns;   /* each cuts what the ones before it left, matches as well as the
                                  * gaps between them; NULL behind the last */
  gboolean ignores_merges;       /* a word that is a token is taken whole, whatever the merges
                                  * say */
  gboolean adds_bos;             /* its models want a BOS where the file doesn't say */
  gboolean has_characters;       /* tokens are of characters, not of bytes, and "▁" is a space */
} LlmPretokenizerRules;

/* NULL if there are none of this name. */
const LlmPretokenizerRules *llm_pretokenizer_find_rules (const char *name);
/* (transfer full): all names with commas between them, for messages. */
char                       *llm_pretokenizer_list_names (void);

typedef struct _LlmPretokenizer LlmPretokenizer;

typedef void (*LlmWordFunc) (const char *word,
                             gsize       length,
                             gpointer    user_data);

LlmPretokenizer *llm_pretokenizer_new   (const LlmPretokenizerRules *rules);
void             llm_pretokenizer_free  (LlmPretokenizer            *self);

/* Calls @func for each word in order; together they are the text. A byte that is no part of a
 * character in UTF-8 is taken for a control character. */
void             llm_pretokenizer_split (const LlmPretokenizer      *self,
                                         const char                 *text,
                                         gsize                       length,
                                         LlmWordFunc                 func,
                                         gpointer                    user_data);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmPretokenizer, llm_pretokenizer_free)
