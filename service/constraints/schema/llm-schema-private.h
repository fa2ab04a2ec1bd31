/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the files of the schema's compiler share. A term (LlmTerm) names a set of values: a schema,
 * a literal, an intersection or a complement of others; each once. Its shape says, type by type,
 * what these values are, and names the terms of what they contain: so recursive schemas are read
 * only as deep as the grammar needs, which has a rule for each term. One thread; the compiler owns
 * all.
 */

#pragma once

#include "constraints/llm-automaton.h"
#include "constraints/llm-grammar.h"
#include "base/llm-json.h"
#include "template/llm-template.h"

G_BEGIN_DECLS

typedef guint32 LlmTerm;

#define LLM_TERM_ANY  0u
#define LLM_TERM_NONE 1u
#define LLM_NO_MAX    G_MAXUINT

/* Items that are counted. */
typedef struct
{
  LlmTerm item;
  guint min, max;
  guint from;            /* items before this one aren't */
} LlmContained;

typedef struct
{
  GArray *prefix;        /* (element-type LlmTerm) */
  LlmTerm rest;
  guint min, max;
  GArray *contained;     /* (element-type LlmContained) */
  gboolean is_unique;
} LlmArrayShape;

/* How many characters a string has. */
typedef struct
{
  guint min, max;
} LlmCharCount;

typedef struct
{
  char *key;             /* as it is written, without the quotes */
  gsize length;
  LlmTerm value;
  gboolean is_required;
} LlmMember;

/* All members whose keys are in a language. */
typedef struct
{
  LlmAutomaton *keys;    /* (unowned) */
  LlmTerm value;
} LlmRegion;

typedef struct
{
  GPtrArray *members;    /* (element-type LlmMember): in the order of the schema */
  GArray *regions;       /* (element-type LlmRegion): disjoint, all other keys are in one */
  GArray *some;          /* (element-type LlmRegion): at least one member as it says */
  guint min, max;
} LlmObjectShape;

/* A value is in it if it is one of its literals, numbers, strings, or in one of the arrays or
 * objects. */
typedef struct
{
  gboolean has_null, has_false, has_true;
  LlmAutomaton *numbers; /* (unowned) */
  LlmAutomaton *strings; /* likewise; and of these, those of @chars */
  LlmCharCount chars;
  GPtrArray *arrays;     /* (element-type LlmArrayShape) (unowned elements) */
  GPtrArray *objects;    /* (element-type LlmObjectShape) likewise */
  gboolean is_loose;     /* it holds values that the schema does not */
} LlmShape;

typedef enum
{
  LLM_TERM_KIND_ANY,
  LLM_TERM_KIND_NONE,
  LLM_TERM_KIND_SCHEMA,
  LLM_TERM_KIND_LITERAL,
  LLM_TERM_KIND_AND,
  LLM_TERM_KIND_NOT,
} LlmTermKind;

typedef struct
{
  LlmTermKind kind;
  const LlmJson *node;   /* of SCHEMA and LITERAL */
  GArray *parts;         /* (element-type LlmTerm): of AND, in order; of NOT, one */
  const LlmShape *shape; /* (nullable): once it is known */
  gboolean is_open;      /* its shape is being read */
} LlmTermNode;

typedef struct _LlmSchema LlmSchema;

struct _LlmSchema
{
  LlmJson *root;         /* (owned) */
  GArray *terms;         /* (element-type LlmTermNode) */
  GHashTable *ids;       /* key → term + 1 */
  GPtrArray *owned;      /* (element-type Owned): shapes and what they have */
  GHashTable *resources; /* absolute URI, perhaps with an anchor → LlmJson */
  GHashTable *counts;    /* "min max" → LlmAutomaton of strings with as many characters (unowned) */
  GHashTable *dynamic;   /* anchors that a reference finds at run time: name → how many */
  guint draft;           /* 4, 6, 7, 2019 or 2020 */
  gboolean is_known_draft; /* it says none, or one of these */
  LlmAutomaton *numbers, *integers, *strings, *nothing; /* (unowned) */
  LlmAutomaton *character; /* (unowned) */
  const LlmJson *at;     /* (nullable): the keyword that is being read, for messages */
  const LlmJson *emptied; /* (nullable): the first keyword that left nothing of a schema */
  guint depth;
  guint n_shapes;
  GError *error;         /* (nullable) (owned): the first */
  gboolean is_unheld;    /* the error is of a valid keyword that can't be enforced */
  GPtrArray *unheld;     /* (nullable) (element-type utf8) (unowned): what is left out, with its
                          * pointer; NULL: it is an error */

  /* what a schema, or a literal, says: keywords need terms, and terms need these */
  const LlmShape *(*read_node) (LlmSchema *self, const LlmJson *node);
  const LlmShape *(*read_literal) (LlmSchema *self, const LlmJson *node);
};

/* Sets the error, unless there is one; @node: (nullable): where; else the keyword that is being
 * read. Returns NULL. */
gpointer         llm_schema_fail          (LlmSchema           *self,
                                           const LlmJson       *node,
                                           const char          *format,
                                           ...) G_GNUC_PRINTF (3, 4);
/* The same for valid JSON Schema that can't be enforced: where that may be left out, the keyword
 * reader continues without it (llm_schema_leave_out()). */
gpointer         llm_schema_refuse        (LlmSchema           *self,
                                           const LlmJson       *node,
                                           const char          *format,
                                           ...) G_GNUC_PRINTF (3, 4);
/* Notes and clears such an error; FALSE: there is another one, or nothing may be left out. */
gboolean         llm_schema_leave_out     (LlmSchema           *self);
/* Gives @data to the compiler. Returns it. */
gpointer         llm_schema_own           (LlmSchema           *self,
                                           gpointer             data,
                                           GDestroyNotify       free);
/* The same; NULL with an error set if @automaton is. */
LlmAutomaton    *llm_schema_own_automaton (LlmSchema           *self,
                                           LlmAutomaton        *automaton);
LlmAutomaton    *llm_schema_combine       (LlmSchema           *self,
                                           LlmAutomaton        *a,
                                           LlmAutomaton        *b,
                                           LlmCombine           how);
/* (transfer full): as within a JSON string. */
GString         *llm_schema_encode        (const LlmJson       *string);

/* (transfer full): what LlmSchema.owned is. */
GPtrArray       *llm_schema_new_owned     (void);

/* --- llm-schema-terms.c --- */

LlmTermNode     *llm_schema_get_term      (LlmSchema           *self,
                                           LlmTerm              term);
/* Takes @key and @parts. */
LlmTerm          llm_schema_find_term     (LlmSchema           *self,
                                           char                *key,
                                           LlmTermKind          kind,
                                           const LlmJson       *node,
                                           GArray              *parts);

LlmTerm          llm_term_schema          (LlmSchema           *self,
                                           const LlmJson       *node);
LlmTerm          llm_term_literal         (LlmSchema           *self,
                                           const LlmJson       *node);
LlmTerm          llm_term_and             (LlmSchema           *self,
                                           LlmTerm              a,
                                           LlmTerm              b);
LlmTerm          llm_term_not             (LlmSchema           *self,
                                           LlmTerm              term);
/* (nullable): a schema in it, for messages. */
const LlmJson   *llm_term_get_node        (LlmSchema           *self,
                                           LlmTerm              term);
/* --- llm-schema-term-shapes.c --- */

/* (nullable): NULL with the error set. */
const LlmShape  *llm_term_get_shape       (LlmSchema           *self,
                                           LlmTerm              term);
/* FALSE only if no value is in it; TRUE, too, where that would take long to find out. */
gboolean         llm_term_may_hold        (LlmSchema           *self,
                                           LlmTerm              term,
                                           guint                depth);

/* --- llm-schema-shape.c: their algebra; NULL with the error set --- */

LlmShape        *llm_shape_new_none       (LlmSchema           *self);
LlmShape        *llm_shape_new_any        (LlmSchema           *self);
LlmArrayShape   *llm_array_shape_new      (LlmSchema           *self);
LlmObjectShape  *llm_object_shape_new     (LlmSchema           *self);
LlmMember       *llm_object_shape_add     (LlmSchema           *self,
                                           LlmObjectShape      *shape,
                                           const char          *key,
                                           gsize                length,
                                           LlmTerm              value);
/* (nullable) */
LlmMember       *llm_object_shape_find    (const LlmObjectShape *shape,
                                           const char          *key,
                                           gsize                length);
/* What a member with this key must be. */
LlmTerm          llm_object_shape_get     (const LlmObjectShape *shape,
                                           const char          *key,
                                           gsize                length);
const LlmShape  *llm_shape_and            (LlmSchema           *self,
                                           const LlmShape      *a,
                                           const LlmShape      *b);
const LlmShape  *llm_shape_or             (LlmSchema           *self,
                                           const LlmShape      *a,
                                           const LlmShape      *b);
const LlmShape  *llm_shape_not            (LlmSchema           *self,
                                           const LlmShape      *a);
gboolean         llm_shape_is_none        (const LlmShape      *self);
/* (nullable): its strings with their counts as states; NULL with the error set. */
LlmAutomaton    *llm_shape_count_strings  (LlmSchema           *self,
                                           const LlmShape      *shape);

/* --- llm-schema-read.c: keywords --- */

const LlmShape  *llm_schema_read_node     (LlmSchema           *self,
                                           const LlmJson       *node);
const LlmShape  *llm_schema_read_literal  (LlmSchema           *self,
                                           const LlmJson       *node);

/* --- llm-schema-keywords.c: those of one type; FALSE: it is no such keyword --- */

gboolean         llm_schema_read_keyword  (LlmSchema           *self,
                                           const LlmJson       *node,
                                           const char          *keyword,
                                           const LlmJson       *value,
                                           const LlmShape     **shape);
/* A whole number from 0 on; FALSE with the error set if @value is none. */
gboolean         llm_schema_read_count    (LlmSchema           *self,
                                           const LlmJson       *value,
                                           guint               *count);

/* --- llm-schema-refs.c --- */

void             llm_schema_index         (LlmSchema           *self);
/* (nullable): what @ref in @node refers to; NULL with the error set. @is_dynamic: of
 * “$dynamicRef” and “$recursiveRef”, where there is one choice. */
const LlmJson   *llm_schema_resolve       (LlmSchema           *self,
                                           const LlmJson       *node,
                                           const LlmJson       *ref,
                                           gboolean             is_dynamic);

/* --- llm-schema-unique.c --- */

/* (transfer full) (nullable) (element-type LlmTerm): the values that all items of @shape are among,
 * each once; NULL: they can't be listed, or have too many sets. */
GArray          *llm_schema_list_values   (LlmSchema           *self,
                                           const LlmArrayShape *shape);

/* --- llm-schema-unevaluated.c: FALSE with the error set --- */

/* Gives @object the members that the keywords of @node evaluate, and of all others that they are
 * @rest. */
gboolean         llm_schema_rest_object   (LlmSchema           *self,
                                           const LlmJson       *node,
                                           LlmTerm              rest,
                                           LlmObjectShape      *object);
/* The same of items. */
gboolean         llm_schema_rest_array    (LlmSchema           *self,
                                           const LlmJson       *node,
                                           LlmTerm              rest,
                                           LlmArrayShape       *array);

/* --- llm-schema-rules.c: a rule for each term --- */

typedef struct
{
  LlmSchema *schema;
  LlmGrammarBuilder *builder;
  GHashTable *rules;     /* term → rule + 1 */
  GHashTable *texts;     /* automaton → rule + 1 */
  GHashTable *mixed;     /* likewise, of strings beside which there are other values */
  GHashTable *counted;   /* "automaton power less" → rule + 1, of llm_rules_add_counted() */
  const LlmArgumentTexts *syntax; /* (nullable): how all of it is written; NULL: as JSON */
  const LlmArgumentTexts *flat;   /* (nullable): how the members of the root are */
  gboolean is_python;    /* values may also be as Python writes them */
  GArray *pending;       /* (element-type LlmTerm): whose rules are not made yet */
  guint n_states;        /* of the rules of terms */
} LlmRules;

/* --- llm-schema-rules.c --- */

/* The rule of a term. */
guint32          llm_rules_find           (LlmRules            *self,
                                           LlmTerm              term);
/* One space, or none; the state behind it. */
guint            llm_rules_add_space      (LlmNfa              *nfa,
                                           guint                from);
/* --- llm-schema-counts.c: @unit @min to @max times (LLM_NO_MAX: no limit), in states and rules of
 * the order of the logarithms of these; the grammar counts in its stack --- */
gboolean         llm_rules_add_counted    (LlmRules            *self,
                                           LlmNfa              *nfa,
                                           guint                from,
                                           LlmAutomaton        *unit,
                                           guint                min,
                                           guint                max,
                                           guint                to);
/* --- llm-schema-arrays.c, llm-schema-objects.c: between @from and @to; FALSE with an error --- */
gboolean         llm_rules_add_array      (LlmRules            *self,
                                           LlmNfa              *nfa,
                                           const LlmArrayShape *shape,
                                           guint                from,
                                           guint                to);
/* @flat: (nullable): how the members are written, if not as the rules' syntax has it */
gboolean         llm_rules_add_objects    (LlmRules               *self,
                                           LlmNfa                 *nfa,
                                           GPtrArray              *shapes,
                                           const LlmArgumentTexts *flat,
                                           guint                   from,
                                           guint                   to);

/* --- llm-schema-calls.c: arguments that are no JSON --- */

/* Whether an argument may be a string, and anything else. */
typedef struct
{
  gboolean has_strings;
  gboolean has_others;
} LlmArgumentKinds;

/* Of the member @key, as in LlmMember, of objects in any of @shapes; @key: (nullable): of one that
 * no shape declares, which may be both. */
LlmArgumentKinds llm_schema_get_kinds     (LlmSchema           *self,
                                           GPtrArray           *shapes,
                                           const char          *key,
                                           gsize                length);
/* A key without quotes; FALSE with the error set if it can't be told from what follows. */
gboolean         llm_rules_check_bare_key (LlmRules            *self,
                                           const LlmMember     *member);
/* (nullable): the keys of @keys that can be. */
LlmAutomaton    *llm_rules_find_bare_keys (LlmRules            *self,
                                           LlmAutomaton        *keys);
/* A rule for the texts of strings in the rules' syntax; LLM_DEAD with the error set.
 * @is_mixed: and none that could be another value. */
guint32          llm_rules_find_strings   (LlmRules            *self,
                                           LlmAutomaton        *strings,
                                           gboolean             is_mixed);
/* (nullable): the strings of a shape as one automaton, without a count that is too large where that
 * may be left out; NULL with the error set. */
LlmAutomaton    *llm_rules_count_strings  (LlmRules            *self,
                                           const LlmShape      *shape);
/* Python's words for those of JSON that are in @shape. */
void             llm_rules_add_words      (LlmNfa              *nfa,
                                           const LlmShape      *shape,
                                           guint                from,
                                           guint                to);
/* A value of @term, with what stands before it. */
gboolean         llm_rules_add_argument   (LlmRules            *self,
                                           LlmNfa              *nfa,
                                           guint                from,
                                           LlmTerm              term,
                                           LlmArgumentKinds     kinds,
                                           guint                to);

/* Adds them to @builder; @rule: (out): that of @root. FALSE with the error set. */
gboolean         llm_schema_make_rules    (LlmSchema              *self,
                                           LlmTerm                 root,
                                           LlmGrammarBuilder      *builder,
                                           const LlmArgumentTexts *syntax,
                                           guint32                *rule);

G_END_DECLS
