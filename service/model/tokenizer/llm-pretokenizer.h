/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How byte-level BPE vocabularies cut text into words before merging: each was
 * trained with one of a few patterns, named by tokenizer.ggml.pre. The patterns
 * are tables of what may follow each other, one or two characters looked ahead, so that
 * no text makes them slow. Constant tables; any thread.
 */

#pragma once

#include <glib.h>

typedef struct _LlmPattern LlmPattern;

#define LLM_PRETOKENIZER_MAX_STAGES 5

/* Each stage cuts what the ones before it left, matches as well as the gaps between them. */
typedef struct
{
  const char *name;
  const LlmPattern *stages[LLM_PRETOKENIZER_MAX_STAGES + 1];   /* NULL behind the last */
  gboolean ignores_merges;   /* a word that is a token is taken whole, whatever the merges say */
  gboolean adds_bos;         /* its models want a BOS where the file doesn't say */
} LlmPretokenizer;

typedef void (*LlmWordFunc) (const char *word,
                             gsize       length,
                             gpointer    user_data);

/* NULL if there is none of this name. */
const LlmPretokenizer *llm_pretokenizer_find       (const char            *name);
/* (transfer full): all names with commas between them, for messages. */
char                  *llm_pretokenizer_list_names (void);

/* Calls @func for each word in order; together they are the text. */
void                   llm_pretokenizer_split      (const LlmPretokenizer *self,
                                                    const char            *text,
                                                    gsize                  length,
                                                    LlmWordFunc            func,
                                                    gpointer               user_data);
