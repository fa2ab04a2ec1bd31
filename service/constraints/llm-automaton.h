/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Finite automata over bytes, whose edges may also call a rule of a grammar, which
 * makes a row of them a recursive transition network. LlmNfa is what is built,
 * LlmAutomaton what comes of it by the subset construction: for a byte at most one
 * next state, no state from which no end can be reached. Automata are immutable;
 * any thread. All work is limited, as what they are made from is untrusted.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define LLM_DEAD G_MAXUINT32
/* Of one automaton; more fails. */
#define LLM_AUTOMATON_MAX_STATES 200000

typedef struct
{
  guint32 rule;          /* that is called */
  guint32 target;        /* state to go on with behind it */
} LlmRuleCall;

typedef struct
{
  gatomicrefcount ref_count;
  guint n_states;        /* 0: accepts nothing; the first one is the start */
  guint n_classes;       /* of bytes that no edge tells apart */
  guint8 classes[256];
  guint32 *next;         /* (owned) [n_states][n_classes]: state, or LLM_DEAD */
  guint8 *is_final;      /* (owned) [n_states] */
  guint32 *first_calls;  /* (owned) [n_states + 1]: where a state's calls begin */
  GArray *calls;         /* (owned) (element-type LlmRuleCall) */
} LlmAutomaton;

typedef enum
{
  LLM_EDGE_FREE,         /* always */
  LLM_EDGE_AT_START,     /* only before the first byte */
  LLM_EDGE_AT_END,       /* only behind the last byte */
} LlmEdgeKind;

typedef struct
{
  guint n_states;
  GArray *bytes;         /* (element-type ByteEdge) */
  GArray *empties;       /* (element-type EmptyEdge) */
  GArray *calls;         /* (element-type CallEdge) */
} LlmNfa;

typedef enum
{
  LLM_COMBINE_AND,
  LLM_COMBINE_OR,
  LLM_COMBINE_WITHOUT,   /* in the first, not in the second */
} LlmCombine;

LlmNfa       *llm_nfa_new            (void);
void          llm_nfa_free           (LlmNfa             *self);
guint         llm_nfa_add_state      (LlmNfa             *self);
/* An edge for the bytes @low to @high. */
void          llm_nfa_add_bytes      (LlmNfa             *self,
                                      guint               from,
                                      guint8              low,
                                      guint8              high,
                                      guint               to);
void          llm_nfa_add_empty      (LlmNfa             *self,
                                      guint               from,
                                      guint               to,
                                      LlmEdgeKind         kind);
void          llm_nfa_add_call       (LlmNfa             *self,
                                      guint               from,
                                      guint32             rule,
                                      guint               to);
/* States for @length bytes after @from; the last one. */
guint         llm_nfa_add_text       (LlmNfa             *self,
                                      guint               from,
                                      const char         *text,
                                      gsize               length);
/* What @automaton accepts, between @from and @to. */
void          llm_nfa_add_automaton  (LlmNfa             *self,
                                      guint               from,
                                      const LlmAutomaton *automaton,
                                      guint               to);
/* (transfer full) (nullable): what leads from @start to @end; NULL when that takes more than
 * LLM_AUTOMATON_MAX_STATES states, or too many steps. */
LlmAutomaton *llm_nfa_determinize    (const LlmNfa       *self,
                                      guint               start,
                                      guint               end) G_GNUC_WARN_UNUSED_RESULT;

LlmAutomaton *llm_automaton_ref      (LlmAutomaton       *self);
void          llm_automaton_unref    (LlmAutomaton       *self);
/* (transfer full) (nullable): both must have no calls; NULL as above. */
LlmAutomaton *llm_automaton_combine  (const LlmAutomaton *a,
                                      const LlmAutomaton *b,
                                      LlmCombine          how) G_GNUC_WARN_UNUSED_RESULT;
gboolean      llm_automaton_accepts  (const LlmAutomaton *self,
                                      const char         *text,
                                      gsize               length);

static inline gboolean
llm_automaton_is_empty (const LlmAutomaton *self)
{
  return self->n_states == 0;
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmNfa, llm_nfa_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmAutomaton, llm_automaton_unref)

G_END_DECLS
