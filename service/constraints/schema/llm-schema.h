/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * JSON Schema (draft 2020-12, older ones as far as they differ) to a grammar of the texts of its
 * valid instances: compact JSON, with a space allowed where people write one, keys that are
 * declared first and in their order, then all others. A schema is a term over sets of values:
 * keywords are taken together by intersection, union and complement, which are exact. What can't be
 * held to is refused, or left out and named, with a JSON pointer. docs/structured-output.md has the
 * list.
 */

#pragma once

#include "constraints/llm-grammar.h"
#include "template/llm-template.h"

G_BEGIN_DECLS

/* (transfer full) (nullable): @error, in LLMSVC_ERROR, names place and cause. @is_strict: a keyword
 * that can't be enforced is an error; else the grammar names it. */
LlmGrammar *llm_schema_compile (const char *text,
                                gsize       length,
                                gboolean    is_strict,
                                GError    **error) G_GNUC_WARN_UNUSED_RESULT;

/* Adds the rules of a schema to a grammar that is being made. @syntax: (nullable): how its
 * instances are written as the arguments of a call, with control tokens as in LlmTokenTrie; NULL:
 * as JSON. @unheld: (nullable) (element-type utf8): gets keywords that can't be enforced, as
 * "#/pointer: why"; NULL: they are an error. @rule: (out): the rule of its texts. */
gboolean    llm_schema_add_rules (LlmGrammarBuilder      *builder,
                                  const char             *text,
                                  gsize                   length,
                                  const LlmArgumentTexts *syntax,
                                  GPtrArray              *unheld,
                                  guint32                *rule,
                                  GError                **error) G_GNUC_WARN_UNUSED_RESULT;

/* Whether an argument may be a string, and anything else. */
enum
{
  LLM_ARGUMENT_STRINGS = 1 << 0,
  LLM_ARGUMENT_OTHERS = 1 << 1,
};
/* Adds that of the arguments that a schema declares to @kinds, as "@tool argument". */
void        llm_schema_find_kinds (const char *text,
                                   gsize       length,
                                   const char *tool,
                                   GHashTable *kinds);

G_END_DECLS
