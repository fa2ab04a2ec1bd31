/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The language that an answer keeps to: rules that call each other, each an automaton over bytes
 * (a recursive transition network; Woods, 1970). Built from rules, then checked and laid out
 * flat: states are numbered through all rules. Immutable once built; any thread.
 */

#pragma once

#include "constraints/llm-automaton.h"

G_BEGIN_DECLS

#define LLM_GRAMMAR_MAX_RULES 20000
#define LLM_GRAMMAR_MAX_STATES 400000
#define LLM_NO_WAY G_MAXUINT32
/* More ways to read one text are not followed: the text is refused from there on. */
#define LLM_MAX_THREADS 500

typedef struct
{
  gsize row;             /* of the next states, in @next: one for each class of bytes */
  guint32 rule;
  guint32 min_bytes;     /* of the shortest text from here to the end of the rule */
  guint32 first_call;    /* within @calls */
  guint16 n_calls;
  guint8 is_final;
  guint8 has_bytes;      /* some byte leads on */
} LlmGrammarState;

typedef struct
{
  guint32 start;         /* state of the rule that is called */
  guint32 target;        /* state to go on with */
  guint8 is_last;        /* nothing comes behind it: no need to come back */
} LlmGrammarCall;

typedef struct
{
  guint32 first;         /* state */
  const guint8 *classes; /* (unowned): of the bytes */
  guint32 follow[8];     /* bits: bytes that may come behind the rule */
} LlmGrammarRule;

typedef struct
{
  gatomicrefcount ref_count;
  GPtrArray *automata;      /* (element-type LlmAutomaton) by rule */
  guint n_rules;
  guint n_states;
  guint32 start;            /* state */
  guint32 min_bytes;        /* of the shortest text */
  LlmGrammarState *states;
  LlmGrammarCall *calls;
  LlmGrammarRule *rules;
  guint32 *next;            /* states, or LLM_DEAD; none from which no end can be reached */
  gsize n_next;
  GHashTable *kinds;        /* (nullable) (owned): of a grammar of calls: "tool argument" →
                             * LLM_ARGUMENT_…: how what has no quotes is to be read */
  char **unheld;            /* (nullable) (owned): what of a schema it does not hold to */
} LlmGrammar;

typedef struct
{
  GPtrArray *automata;      /* (element-type LlmAutomaton) (nullable elements) by rule */
  GPtrArray *names;         /* (element-type utf8) (nullable elements): for messages */
} LlmGrammarBuilder;

LlmGrammarBuilder *llm_grammar_builder_new  (void);
void               llm_grammar_builder_free (LlmGrammarBuilder *self);
/* A rule that is defined later. @name: (nullable) */
guint32            llm_grammar_builder_add  (LlmGrammarBuilder *self,
                                             const char        *name);
/* Takes @automaton. */
void               llm_grammar_builder_set  (LlmGrammarBuilder *self,
                                             guint32            rule,
                                             LlmAutomaton      *automaton);
/* (transfer full) (nullable): the texts of @root. Fails if that has none, and for rules that begin
 * with themselves or call LLM_MAX_THREADS others before a byte. All rules must have been set. */
LlmGrammar        *llm_grammar_new          (LlmGrammarBuilder *builder,
                                             guint32            root,
                                             GError           **error) G_GNUC_WARN_UNUSED_RESULT;
/* @unheld: (element-type utf8): what it leaves out, before any other thread has it. */
void               llm_grammar_set_unheld   (LlmGrammar        *self,
                                             GPtrArray         *unheld);
LlmGrammar        *llm_grammar_ref          (LlmGrammar        *self);
void               llm_grammar_unref        (LlmGrammar        *self);

static inline guint32
llm_grammar_step (const LlmGrammar *self,
                  guint32           state,
                  guint8            byte)
{
  const LlmGrammarState *from = &self->states[state];

  return self->next[from->row + self->rules[from->rule].classes[byte]];
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmGrammarBuilder, llm_grammar_builder_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmGrammar, llm_grammar_unref)

G_END_DECLS
