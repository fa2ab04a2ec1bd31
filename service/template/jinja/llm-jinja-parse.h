/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the lexer gives to the parser, and the parts of the parser to each other. */

#pragma once

#include "template/jinja/llm-jinja-private.h"

typedef enum
{
  LLM_JINJA_TOKEN_END, LLM_JINJA_TOKEN_DATA,
  LLM_JINJA_TOKEN_VARIABLE_BEGIN, LLM_JINJA_TOKEN_VARIABLE_END,
  LLM_JINJA_TOKEN_BLOCK_BEGIN, LLM_JINJA_TOKEN_BLOCK_END,
  LLM_JINJA_TOKEN_NAME, LLM_JINJA_TOKEN_STRING, LLM_JINJA_TOKEN_INTEGER, LLM_JINJA_TOKEN_FLOAT,
  LLM_JINJA_TOKEN_OPERATOR, /* its text, in name */
} LlmJinjaTokenKind;

typedef struct
{
  LlmJinjaTokenKind kind;
  guint32 at;
  const char *name;         /* interned */
  LlmJinjaValue value;
} LlmJinjaToken;

/* (transfer none) (array length=n_tokens): of @self's source, END at the end. */
LlmJinjaToken *llm_jinja_lex (LlmJinja *self, guint *n_tokens);

typedef struct
{
  LlmJinja *jinja;
  const LlmJinjaToken *token; /* the next one */
  guint n_loops;              /* around what is parsed */
  guint n_varargs;          /* how often the special variables of macros were named */
  guint n_kwargs;
} LlmJinjaParser;

void llm_jinja_parse (LlmJinja *self, LlmJinjaNodes *body);
LlmJinjaNode *llm_jinja_parse_expression (LlmJinjaParser *self, gboolean with_condition);
/* An expression or a tuple of them. */
LlmJinjaNode *llm_jinja_parse_tuple (LlmJinjaParser *self, gboolean with_condition);
/* Filters behind @node (nullable); @is_chain: the first without its “|”. */
LlmJinjaNode *llm_jinja_parse_filters (LlmJinjaParser *self, LlmJinjaNode *node, gboolean is_chain);
LlmJinjaNode *llm_jinja_node_new (LlmJinjaParser *self, LlmJinjaNodeKind kind);
gboolean llm_jinja_parser_is (LlmJinjaParser *self, LlmJinjaTokenKind kind, const char *name);
/* Skips that token if it is next. */
gboolean llm_jinja_parser_skip (LlmJinjaParser *self, LlmJinjaTokenKind kind, const char *name);
void llm_jinja_parser_expect (LlmJinjaParser *self, LlmJinjaTokenKind kind, const char *name);
/* What is wanted, instead of the next token. */
G_NORETURN void llm_jinja_parser_fail (LlmJinjaParser *self, const char *format, ...)
  G_GNUC_PRINTF (2, 3);
