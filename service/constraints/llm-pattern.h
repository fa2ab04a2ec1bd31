/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What regular expressions and rules of grammars are read into: a tree of sets of characters,
 * sequences, choices, repetitions and references to rules, which is then added to an automaton
 * in one of two encodings. One thread, while something is compiled.
 */

#pragma once

#include "constraints/llm-automaton.h"

G_BEGIN_DECLS

typedef enum
{
  LLM_ENCODING_UTF8,
  LLM_ENCODING_JSON,     /* as within a JSON string, each character in one way: \", \\, \b \f \n \r
                          * \t, \u00XX for other controls, all else as it is */
} LlmEncoding;

typedef struct
{
  gunichar low;
  gunichar high;
} LlmCharRange;

typedef enum
{
  LLM_PATTERN_SET,
  LLM_PATTERN_SEQUENCE,
  LLM_PATTERN_CHOICE,
  LLM_PATTERN_REPEAT,
  LLM_PATTERN_RULE,
  LLM_PATTERN_START,     /* ^ */
  LLM_PATTERN_END,       /* $ */
  LLM_PATTERN_AHEAD,     /* (?=…): what follows begins so; it takes nothing */
  LLM_PATTERN_NOT_AHEAD, /* (?!…) */
} LlmPatternKind;

#define LLM_PATTERN_NO_LIMIT G_MAXUINT

typedef struct
{
  LlmPatternKind kind;
  GArray *set;           /* (nullable) (element-type LlmCharRange): of SET, in order, disjoint */
  GPtrArray *parts;      /* (nullable) (element-type LlmPattern): of SEQUENCE, CHOICE, REPEAT,
                          * AHEAD, NOT_AHEAD */
  guint min, max;        /* of REPEAT */
  guint32 rule;          /* of RULE */
} LlmPattern;

/* Nested deeper, nothing is read. */
#define LLM_PATTERN_MAX_DEPTH 100

LlmPattern *llm_pattern_new        (LlmPatternKind      kind);
LlmPattern *llm_pattern_new_repeat (LlmPattern         *part,
                                    guint               min,
                                    guint               max);
LlmPattern *llm_pattern_new_char   (gunichar            c);
void        llm_pattern_free       (LlmPattern         *self);
/* Whether there is one of @kinds, 1 << LlmPatternKind, in it. */
gboolean    llm_pattern_has        (const LlmPattern   *self,
                                    guint               kinds);
/* Adds it after @from; the state behind it, or LLM_DEAD when it has become too large. It must look
 * ahead nowhere. */
guint       llm_pattern_add        (const LlmPattern   *self,
                                    LlmNfa             *nfa,
                                    guint               from,
                                    LlmEncoding         encoding);

/* --- sets of characters: the scalar values of Unicode --- */

void        llm_set_add            (GArray             *set,
                                    gunichar            low,
                                    gunichar            high);
void        llm_set_add_all        (GArray             *set,
                                    const GArray       *other);
/* Sorts it, and takes the complement if @negate. */
void        llm_set_settle         (GArray             *set,
                                    gboolean            negate);
/* Adds the characters that @name, of a “\p{…}”, stands for; FALSE: none is known. */
gboolean    llm_set_add_property   (GArray             *set,
                                    const char         *name,
                                    gboolean            negate);
/* Edges from @from to @to for the characters of a settled set. */
void        llm_nfa_add_set        (LlmNfa             *nfa,
                                    guint               from,
                                    const GArray       *set,
                                    guint               to,
                                    LlmEncoding         encoding);

/* --- regular expressions: those of ECMA-262 that describe regular languages --- */

/* (transfer full) (nullable): what @text stands for; @error, in LLMSVC_ERROR, says where and
 * what. */
LlmPattern *llm_regex_parse        (const char         *text,
                                    GError            **error) G_GNUC_WARN_UNUSED_RESULT;
/* --- llm-regex-ahead.c --- */

/* (transfer full) (nullable): as llm_regex_compile(), of what looks ahead; NULL, without an error:
 * it is too large; with one: it can't be read. */
LlmAutomaton *llm_regex_look_ahead (const LlmPattern   *pattern,
                                    gboolean            search,
                                    LlmEncoding         encoding,
                                    GError            **error) G_GNUC_WARN_UNUSED_RESULT;

/* (transfer full) (nullable): texts that it matches as a whole, or (@search) somewhere. */
LlmAutomaton *llm_regex_compile    (const char         *text,
                                    gboolean            search,
                                    LlmEncoding         encoding,
                                    GError            **error) G_GNUC_WARN_UNUSED_RESULT;

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmPattern, llm_pattern_free)

G_END_DECLS
