/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the files of the tokenizer share, and what its tests look at.
 * See llm-tokenizer.h for owners and threads.
 */

#pragma once

#include <string.h>

#include "tokenizer/llm-pretokenizer.h"
#include "tokenizer/llm-tokenizer.h"
#include "tokenizer/llm-vocab.h"

/* --- llm-special.c: finds the tokens that split a text before any merging: control tokens, in
 * what a template wrote, and user-defined tokens, everywhere --- */

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

/* The longest token that the text at @at begins with, or -1. */
gint32  llm_special_set_match  (const LlmSpecialSet *self,
                                const char          *at,
                                const char          *end,
                                gsize               *length);

/* --- llm-merger.c: joins neighbouring symbols of a text, the best pair first and the leftmost of
 * equals, until no pair can be joined. A heap of pairs keeps it O(n log n). Lives on the stack of
 * one call --- */

/* Longer texts than this are not taken: indices are 32 bits wide. */
#define LLM_MERGER_MAX_TEXT (256u << 20)

typedef struct
{
  guint32 start;    /* byte within the text */
  guint32 length;   /* 0: it has become part of the symbol before it */
  gint32 id;        /* -1: no token */
  gint32 prev;      /* -1: none */
  gint32 next;
} LlmSymbol;

typedef struct _LlmMerger LlmMerger;

/* Whether two neighbours can become one token: then its id, and a rank of
 * which the smallest goes first. */
typedef gboolean (*LlmMergeFunc) (const LlmMerger *merger,
                                  const LlmSymbol *left,
                                  const LlmSymbol *right,
                                  guint32         *rank,
                                  gint32          *id);

struct _LlmMerger
{
  LlmMergeFunc can_merge;
  gconstpointer data;   /* for @can_merge */
  const char *text;

  GArray *symbols;      /* (element-type LlmSymbol), the first is where the row begins */
  GArray *pairs;        /* (element-type MergePair), a heap */
  guint64 n_steps;      /* look-ups and moves in the heap so far */
};

void             llm_merger_init   (LlmMerger    *self,
                                    LlmMergeFunc  can_merge,
                                    gconstpointer data);
void             llm_merger_clear  (LlmMerger    *self);

/* Forgets the symbols and begins a text, which must stay until the next one. */
void             llm_merger_begin  (LlmMerger    *self,
                                    const char   *text);
void             llm_merger_add    (LlmMerger    *self,
                                    guint32       start,
                                    guint32       length,
                                    gint32        id);
void             llm_merger_run    (LlmMerger    *self);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (LlmMerger, llm_merger_clear)

/* --- tokens that stand for a byte where a vocabulary is of characters --- */

/* Of <0x0A> the byte, -1 if @text is no such name. */
static inline int
llm_byte_token_parse (const char *text,
                      gsize       length)
{
  int high, low;

  if (length != 6 || memcmp (text, "<0x", 3) != 0 || text[5] != '>')
    return -1;
  high = g_ascii_xdigit_value (text[3]);
  low = g_ascii_xdigit_value (text[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* --- one of the algorithms --- */

typedef struct _LlmCodec LlmCodec;

struct _LlmCodec
{
  const LlmVocab *vocab;       /* (unowned) */
  gboolean adds_bos;           /* where the file doesn't say; likewise */
  gboolean adds_eos;
  /* @behind_special: at the start, or behind a token that splits. Returns the steps it took. */
  guint64 (*encode) (const LlmCodec *self,
                     const char     *text,
                     gsize           length,
                     gboolean        behind_special,
                     GArray         *ids);
  void    (*decode) (const LlmCodec *self,
                     gint32          id,
                     GString        *out);
  void    (*free)   (LlmCodec       *self);
};

/* SentencePiece, BPE, WordPiece. */
LlmCodec *llm_spm_new (LlmGguf         *gguf,
                       const LlmVocab  *vocab,
                       GError         **error) G_GNUC_WARN_UNUSED_RESULT;
LlmCodec *llm_bpe_new (LlmGguf                     *gguf,
                       const LlmVocab              *vocab,
                       const LlmPretokenizerRules  *rules,
                       GError                     **error) G_GNUC_WARN_UNUSED_RESULT;
LlmCodec *llm_wpm_new (LlmGguf         *gguf,
                       const LlmVocab  *vocab,
                       GError         **error) G_GNUC_WARN_UNUSED_RESULT;

static inline void
llm_codec_free (LlmCodec *self)
{
  self->free (self);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmCodec, llm_codec_free)
