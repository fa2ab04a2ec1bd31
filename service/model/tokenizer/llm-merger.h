/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Joins neighbouring symbols of a text, the best pair first and the leftmost of
 * equals, until no pair can be joined. Both kinds of tokenizer do this and
 * differ in what makes a pair good. A heap of pairs keeps it O(n log n).
 * Lives on the stack of one call; one thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

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

G_END_DECLS
