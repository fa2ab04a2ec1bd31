/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What both parts of the parser do with tokens. */

#include "template/jinja/llm-jinja-parse.h"

LlmJinjaNode *
llm_jinja_node_new (LlmJinjaParser *self, LlmJinjaNodeKind kind)
{
  LlmJinjaNode *node = llm_jinja_alloc (self->jinja, sizeof *node);

  node->kind = (guint8) kind;
  node->at = self->token->at;
  return node;
}

gboolean
llm_jinja_parser_is (LlmJinjaParser *self, LlmJinjaTokenKind kind, const char *name)
{
  return self->token->kind == kind && (name == NULL || g_str_equal (self->token->name, name));
}

gboolean
llm_jinja_parser_skip (LlmJinjaParser *self, LlmJinjaTokenKind kind, const char *name)
{
  if (!llm_jinja_parser_is (self, kind, name))
    return FALSE;
  self->token++;
  return TRUE;
}

void
llm_jinja_parser_fail (LlmJinjaParser *self, const char *format, ...)
{
  static const char *const kinds[] = { "the end of the template", "text", "“{{”", "“}}”", "“{%”",
                                       "“%}”", NULL, "a string", "a number", "a number", NULL };
  const LlmJinjaToken *token = self->token;
  const char *kind = kinds[token->kind];
  char wanted[120];
  va_list args;

  va_start (args, format);
  g_vsnprintf (wanted, sizeof wanted, format, args);
  va_end (args);
  self->jinja->at = token->at;
  if (kind != NULL)
    llm_jinja_fail (self->jinja, "%s was expected, but here is %s", wanted, kind);
  llm_jinja_fail (self->jinja, "%s was expected, but here is “%.60s”", wanted, token->name);
}

void
llm_jinja_parser_expect (LlmJinjaParser *self, LlmJinjaTokenKind kind, const char *name)
{
  if (llm_jinja_parser_skip (self, kind, name))
    return;
  if (name != NULL)
    llm_jinja_parser_fail (self, "“%s”", name);
  llm_jinja_parser_fail (self, "%s", kind == LLM_JINJA_TOKEN_NAME ? "a name" : "the end of the tag");
}
