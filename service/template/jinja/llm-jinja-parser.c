/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Statements, and the text between them. */

#include "template/jinja/llm-jinja-parse.h"

#include <string.h>

static void parse_body (LlmJinjaParser    *self,
                        LlmJinjaNodes     *body,
                        const char *const *ends);

static void
end_block (LlmJinjaParser *self)
{
  llm_jinja_parser_expect (self, LLM_JINJA_TOKEN_BLOCK_END, NULL);
}

static gboolean
skip_word (LlmJinjaParser *self, const char *word)
{
  return llm_jinja_parser_skip (self, LLM_JINJA_TOKEN_NAME, word);
}

/* A name, ns.name, or several of them. */
static LlmJinjaNode *
parse_target (LlmJinjaParser *self, gboolean with_namespace)
{
  LlmJinjaNode *tuple = NULL;

  for (;;)
    {
      gboolean has_parenthesis = llm_jinja_parser_skip (self, LLM_JINJA_TOKEN_OPERATOR, "(");
      LlmJinjaNode *node;

      if (has_parenthesis)
        {
          llm_jinja_enter (self->jinja);
          node = parse_target (self, with_namespace);
          llm_jinja_leave (self->jinja);
          llm_jinja_parser_expect (self, LLM_JINJA_TOKEN_OPERATOR, ")");
        }
      else
        {
          node = llm_jinja_node_new (self, LLM_JINJA_NODE_NAME);
          node->name = self->token->name;
          llm_jinja_parser_expect (self, LLM_JINJA_TOKEN_NAME, NULL);
          if (with_namespace && llm_jinja_parser_skip (self, LLM_JINJA_TOKEN_OPERATOR, "."))
            {
              LlmJinjaNode *attribute = llm_jinja_node_new (self, LLM_JINJA_NODE_ATTRIBUTE);

              attribute->a = node;
              attribute->name = self->token->name;
              llm_jinja_parser_expect (self, LLM_JINJA_TOKEN_NAME, NULL);
              node = attribute;
            }
        }
      if (tuple == NULL && !llm_jinja_parser_is (self, LLM_JINJA_TOKEN_OPERATOR, ","))
        return node;
      if (tuple == NULL)
        tuple = llm_jinja_node_new (self, LLM_JINJA_NODE_TUPLE);
      llm_jinja_nodes_add (self->jinja, &tuple->items, node);
      if (!llm_jinja_parser_skip (self, LLM_JINJA_TOKEN_OPERATOR, ",")
          || (self->token->kind != LLM_JINJA_TOKEN_NAME
              && !llm_jinja_parser_is (self, LLM_JINJA_TOKEN_OPERATOR, "("))
          || llm_jinja_parser_is (self, LLM_JINJA_TOKEN_NAME, "in"))
        return tuple;
    }
}

static void
parse_for (LlmJinjaParser *self, LlmJinjaNode *node)
{
  static const char *const middles[] = { "else", "endfor", NULL };

  node->kind = LLM_JINJA_NODE_FOR;
  node->name = llm_jinja_intern (self->jinja, "loop", strlen ("loop"));
  node->a = parse_target (self, FALSE);
  if (!skip_word (self, "in"))
    llm_jinja_parser_fail (self, "“in”");
  node->b = llm_jinja_parse_tuple (self, FALSE);
  if (skip_word (self, "if"))
    node->c = llm_jinja_parse_expression (self, TRUE);
  node->op = skip_word (self, "recursive");
  end_block (self);
  self->n_loops++;
  parse_body (self, &node->body, middles);
  self->n_loops--;
  if (skip_word (self, "else"))
    {
      end_block (self);
      parse_body (self, &node->others, middles + 1);
    }
  self->token++;
}

static void
parse_if (LlmJinjaParser *self, LlmJinjaNode *node)
{
  static const char *const ends[] = { "elif", "else", "endif", NULL };

  for (;;)
    {
      LlmJinjaNode *next;

      node->kind = LLM_JINJA_NODE_IF;
      node->a = llm_jinja_parse_tuple (self, FALSE);
      end_block (self);
      parse_body (self, &node->body, ends);
      if (!skip_word (self, "elif"))
        break;
      /* evaluated in a loop, not in depth */
      next = llm_jinja_node_new (self, LLM_JINJA_NODE_IF);
      node->b = next;
      node = next;
    }
  if (skip_word (self, "else"))
    {
      end_block (self);
      parse_body (self, &node->others, ends + 2);
    }
  self->token++;
}

/* A body whose text is taken apart is no part of the loops around it. */
static void
parse_own_body (LlmJinjaParser *self, LlmJinjaNode *node, const char *end)
{
  const char *const ends[] = { end, NULL };
  guint n_loops = self->n_loops;

  end_block (self);
  self->n_loops = 0;
  parse_body (self, &node->body, ends);
  self->n_loops = n_loops;
  self->token++;
}

static void
parse_set (LlmJinjaParser *self, LlmJinjaNode *node)
{
  node->a = parse_target (self, TRUE);
  if (llm_jinja_parser_skip (self, LLM_JINJA_TOKEN_OPERATOR, "="))
    {
      node->kind = LLM_JINJA_NODE_SET;
      node->b = llm_jinja_parse_tuple (self, TRUE);
      return;
    }
  node->kind = LLM_JINJA_NODE_SET_BLOCK;
  if (llm_jinja_parser_is (self, LLM_JINJA_TOKEN_OPERATOR, "|"))
    node->b = llm_jinja_parse_filters (self, NULL, FALSE);
  parse_own_body (self, node, "endset");
}

/* (name, name=default) */
static void
parse_parameters (LlmJinjaParser *self, LlmJinjaNode *node)
{
  guint n_room = 0;

  llm_jinja_parser_expect (self, LLM_JINJA_TOKEN_OPERATOR, "(");
  while (!llm_jinja_parser_skip (self, LLM_JINJA_TOKEN_OPERATOR, ")"))
    {
      if (node->n_names > 0)
        llm_jinja_parser_expect (self, LLM_JINJA_TOKEN_OPERATOR, ",");
      node->names = llm_jinja_grow (self->jinja, node->names, node->n_names, &n_room,
                                    sizeof *node->names);
      node->names[node->n_names++] = self->token->name;
      llm_jinja_parser_expect (self, LLM_JINJA_TOKEN_NAME, NULL);
      if (llm_jinja_parser_skip (self, LLM_JINJA_TOKEN_OPERATOR, "="))
        llm_jinja_nodes_add (self->jinja, &node->items, llm_jinja_parse_expression (self, TRUE));
      else if (node->items.n_items > 0)
        llm_jinja_parser_fail (self, "a default, as the parameter before has one,");
    }
}

static void
parse_macro (LlmJinjaParser *self, LlmJinjaNode *node)
{
  guint n_varargs = self->n_varargs;
  guint n_kwargs = self->n_kwargs;

  node->kind = LLM_JINJA_NODE_MACRO;
  node->name = self->token->name;
  llm_jinja_parser_expect (self, LLM_JINJA_TOKEN_NAME, NULL);
  parse_parameters (self, node);
  parse_own_body (self, node, "endmacro");
  node->op = (guint8) ((self->n_varargs > n_varargs ? LLM_JINJA_HAS_VARARGS : 0)
                       | (self->n_kwargs > n_kwargs ? LLM_JINJA_HAS_KWARGS : 0));
}

static void
parse_call_block (LlmJinjaParser *self, LlmJinjaNode *node)
{
  node->kind = LLM_JINJA_NODE_CALL_BLOCK;
  node->name = llm_jinja_intern (self->jinja, "caller", strlen ("caller"));
  if (llm_jinja_parser_is (self, LLM_JINJA_TOKEN_OPERATOR, "("))
    parse_parameters (self, node);
  node->a = llm_jinja_parse_expression (self, TRUE);
  if (node->a->kind != LLM_JINJA_NODE_CALL)
    llm_jinja_parser_fail (self, "a call before this");
  parse_own_body (self, node, "endcall");
}

static void
parse_filter_block (LlmJinjaParser *self, LlmJinjaNode *node)
{
  node->kind = LLM_JINJA_NODE_FILTER_BLOCK;
  node->a = llm_jinja_parse_filters (self, NULL, TRUE);
  parse_own_body (self, node, "endfilter");
}

static void
parse_with (LlmJinjaParser *self, LlmJinjaNode *node)
{
  static const char *const ends[] = { "endwith", NULL };

  node->kind = LLM_JINJA_NODE_WITH;
  while (self->token->kind != LLM_JINJA_TOKEN_BLOCK_END)
    {
      if (node->items.n_items > 0)
        llm_jinja_parser_expect (self, LLM_JINJA_TOKEN_OPERATOR, ",");
      llm_jinja_nodes_add (self->jinja, &node->items, parse_target (self, FALSE));
      llm_jinja_parser_expect (self, LLM_JINJA_TOKEN_OPERATOR, "=");
      llm_jinja_nodes_add (self->jinja, &node->items, llm_jinja_parse_expression (self, TRUE));
    }
  end_block (self);
  parse_body (self, &node->body, ends);
  self->token++;
}

/* Of transformers: marks what a model is trained to say, and prints it. */
static void
parse_generation (LlmJinjaParser *self, LlmJinjaNode *node)
{
  node->kind = LLM_JINJA_NODE_SCOPE;
  parse_own_body (self, node, "endgeneration");
}

static void
parse_jump (LlmJinjaParser *self, LlmJinjaNode *node)
{
  gboolean is_break = g_str_equal (self->token[-1].name, "break");

  if (self->n_loops == 0)
    {
      self->token--;
      llm_jinja_parser_fail (self, "a loop around this");
    }
  node->kind = is_break ? LLM_JINJA_NODE_BREAK : LLM_JINJA_NODE_CONTINUE;
}

static const struct
{
  const char *name;
  void (*parse) (LlmJinjaParser *self, LlmJinjaNode *node);
} statements[] = {
  { "for", parse_for }, { "if", parse_if }, { "set", parse_set }, { "macro", parse_macro },
  { "call", parse_call_block }, { "filter", parse_filter_block }, { "with", parse_with },
  { "generation", parse_generation }, { "break", parse_jump }, { "continue", parse_jump },
};

static LlmJinjaNode *
parse_statement (LlmJinjaParser *self)
{
  LlmJinjaNode *node = llm_jinja_node_new (self, LLM_JINJA_NODE_TEXT);
  const char *name = self->token->name;
  guint i = 0;

  if (self->token->kind != LLM_JINJA_TOKEN_NAME)
    llm_jinja_parser_fail (self, "the name of a statement");
  while (i < G_N_ELEMENTS (statements) && !g_str_equal (statements[i].name, name))
    i++;
  if (i == G_N_ELEMENTS (statements))
    {
      self->jinja->at = self->token->at;
      llm_jinja_fail (self->jinja,
                      "the statement “%.60s” is not supported, or nothing was begun that it ends",
                      name);
    }
  self->token++;
  llm_jinja_enter (self->jinja);
  statements[i].parse (self, node);
  llm_jinja_leave (self->jinja);
  end_block (self);
  return node;
}

static gboolean
is_end (LlmJinjaParser *self, const char *const *ends)
{
  if (self->token->kind != LLM_JINJA_TOKEN_BLOCK_BEGIN
      || self->token[1].kind != LLM_JINJA_TOKEN_NAME)
    return FALSE;
  for (guint i = 0; ends[i] != NULL; i++)
    if (g_str_equal (self->token[1].name, ends[i]))
      return TRUE;
  return FALSE;
}

/* Up to the name of one of @ends, which is the next token then. */
static void
parse_body (LlmJinjaParser *self, LlmJinjaNodes *body, const char *const *ends)
{
  while (!is_end (self, ends))
    {
      LlmJinjaNode *node;

      switch (self->token->kind)
        {
        case LLM_JINJA_TOKEN_DATA:
          node = llm_jinja_node_new (self, LLM_JINJA_NODE_TEXT);
          node->value = self->token->value;
          self->token++;
          break;
        case LLM_JINJA_TOKEN_VARIABLE_BEGIN:
          node = llm_jinja_node_new (self, LLM_JINJA_NODE_OUTPUT);
          self->token++;
          node->a = llm_jinja_parse_tuple (self, TRUE);
          if (!llm_jinja_parser_skip (self, LLM_JINJA_TOKEN_VARIABLE_END, NULL))
            llm_jinja_parser_fail (self, "“}}”");
          break;
        case LLM_JINJA_TOKEN_BLOCK_BEGIN:
          self->token++;
          node = parse_statement (self);
          break;
        default:
          if (ends[0] == NULL)
            return;
          llm_jinja_parser_fail (self, "“{%% %s %%}”", ends[0]);
        }
      llm_jinja_nodes_add (self->jinja, body, node);
    }
  self->token++;
}

void
llm_jinja_parse (LlmJinja *self, LlmJinjaNodes *body)
{
  static const char *const ends[] = { NULL };
  guint n_tokens;
  LlmJinjaParser parser = { .jinja = self, .token = llm_jinja_lex (self, &n_tokens) };

  parse_body (&parser, body, ends);
}
