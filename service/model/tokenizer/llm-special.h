/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Finds the tokens that split a text before any merging: control tokens, in
 * what a template wrote, and user-defined tokens, everywhere.
 * Owned by the tokenizer; immutable once made, any thread.
 */

#pragma once

#include "model/tokenizer/llm-vocab.h"

G_BEGIN_DECLS

/* Tokens in the order of their texts. */
typedef struct
{
  const LlmVocab *vocab;
  gint32 *ids;
  guint n_ids;
  guint first[257];   /* the ids whose text begins with byte B: first[B] up to first[B + 1] */
} LlmSpecialSet;

/* One found in a text. */
typedef struct
{
  gsize start;
  gsize end;          /* with the spaces that the token swallows */
  gint32 id;          /* -1: plain text, from one token to the next */
} LlmFragment;

/* @ids: (element-type gint32): whose texts are not empty. @vocab must stay. */
void    llm_special_set_init   (LlmSpecialSet  *self,
                                const LlmVocab *vocab,
                                GArray         *ids);
void    llm_special_set_clear  (LlmSpecialSet  *self);

/* The longest token that the text at @at begins with, -1 if there is none. */
gint32  llm_special_set_match  (const LlmSpecialSet *self,
                                const char          *at,
                                const char          *end,
                                gsize               *length);

G_END_DECLS
