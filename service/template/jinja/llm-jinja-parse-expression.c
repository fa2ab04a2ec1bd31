/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Expressions, with the precedences of Jinja's own parser (jinja2/parser.py): “**”, unary signs
 * with filters and tests behind them, “* / // %”, “~”, “+ -”, comparisons, not, and, or,
 * if-else. */

#include "template/jinja/llm-jinja-parse.h"

/* Of operators, filters, attributes and calls: as many as Python takes, and no more than can be
 * evaluated. */
#define MAX_CHAIN 500

static gboolean
is_operator (LlmJinjaParser *self, const char *name)
{
  return llm_jinja_parser_is (self, LLM_JINJA_TOKEN_OPERATOR, name);
}

static gboolean
skip_operator (LlmJinjaParser *self, const char *name)
{
  return llm_jinja_parser_skip (self, LLM_JINJA_TOKEN_OPERATOR, name);
}

static gboolean
is_name (LlmJinjaParser *self, const char *name)
{
  return llm_jinja_parser_is (self, LLM_JINJA_TOKEN_NAME, name);
}

static LlmJinjaNode *
new_node (LlmJinjaParser *self, LlmJinjaNodeKind kind, LlmJinjaNode *a, LlmJinjaNode *b)
{
  LlmJinjaNode *node = llm_jinja_node_new (self, kind);

  node->a = a;
  node->b = b;
  return node;
}

static void
add_item (LlmJinjaParser *self, LlmJinjaNode *node, LlmJinjaNode *item)
{
  llm_jinja_nodes_add (self->jinja, &node->items, item);
}

static LlmJinjaNode *
new_const (LlmJinjaParser *self, LlmJinjaValue value)
{
  LlmJinjaNode *node = llm_jinja_node_new (self, LLM_JINJA_NODE_CONST);

  node->value = value;
  return node;
}

/* --- what stands alone --- */

/* Whether another of the items up to @close follows, behind its comma; @n were before. */
static gboolean
has_next (LlmJinjaParser *self, const char *close, guint n)
{
  if (skip_operator (self, close))
    return FALSE;
  if (n == 0)
    return TRUE;
  llm_jinja_parser_expect (self, LLM_JINJA_TOKEN_OPERATOR, ",");
  return !skip_operator (self, close);
}

static LlmJinjaNode *
parse_list (LlmJinjaParser *self)
{
  LlmJinjaNode *node = llm_jinja_node_new (self, LLM_JINJA_NODE_LIST);

  self->token++;
  while (has_next (self, "]", node->items.n_items))
    add_item (self, node, llm_jinja_parse_expression (self, TRUE));
  return node;
}

static LlmJinjaNode *
parse_dict (LlmJinjaParser *self)
{
  LlmJinjaNode *node = llm_jinja_node_new (self, LLM_JINJA_NODE_DICT);

  self->token++;
  while (has_next (self, "}", node->items.n_items))
    {
      add_item (self, node, llm_jinja_parse_expression (self, TRUE));
      llm_jinja_parser_expect (self, LLM_JINJA_TOKEN_OPERATOR, ":");
      add_item (self, node, llm_jinja_parse_expression (self, TRUE));
    }
  return node;
}

/* Up to the closing parenthesis. */
static LlmJinjaNode *
parse_parentheses (LlmJinjaParser *self)
{
  LlmJinjaNode *node;

  self->token++;
  if (is_operator (self, ")"))
    node = llm_jinja_node_new (self, LLM_JINJA_NODE_TUPLE);
  else
    node = llm_jinja_parse_tuple (self, TRUE);
  llm_jinja_parser_expect (self, LLM_JINJA_TOKEN_OPERATOR, ")");
  return node;
}

static LlmJinjaNode *
parse_name (LlmJinjaParser *self)
{
  static const struct { const char *name; LlmJinjaType type; gboolean boolean; } constants[] = {
    { "true", LLM_JINJA_BOOL, TRUE }, { "True", LLM_JINJA_BOOL, TRUE },
    { "false", LLM_JINJA_BOOL, FALSE }, { "False", LLM_JINJA_BOOL, FALSE },
    { "none", LLM_JINJA_NONE, FALSE }, { "None", LLM_JINJA_NONE, FALSE },
  };
  LlmJinjaNode *node;

  for (guint i = 0; i < G_N_ELEMENTS (constants); i++)
    if (is_name (self, constants[i].name))
      {
        node = new_const (self, constants[i].type == LLM_JINJA_NONE
                                  ? llm_jinja_none () : llm_jinja_bool (constants[i].boolean));
        self->token++;
        return node;
      }
  node = llm_jinja_node_new (self, LLM_JINJA_NODE_NAME);
  node->name = self->token->name;
  self->n_varargs += g_str_equal (node->name, "varargs");
  self->n_kwargs += g_str_equal (node->name, "kwargs");
  self->token++;
  return node;
}

static LlmJinjaNode *
parse_primary (LlmJinjaParser *self)
{
  LlmJinjaNode *node;

  switch (self->token->kind)
    {
    case LLM_JINJA_TOKEN_NAME:
      return parse_name (self);
    case LLM_JINJA_TOKEN_STRING:
      node = new_const (self, self->token->value);
      for (self->token++; self->token->kind == LLM_JINJA_TOKEN_STRING; self->token++)
        {
          node->value = llm_jinja_string_join (self->jinja, &node->value.string,
                                               &self->token->value.string);
          /* no rendering may grow what belongs to the tree */
          node->value.string.text = NULL;
        }
      return node;
    case LLM_JINJA_TOKEN_INTEGER:
    case LLM_JINJA_TOKEN_FLOAT:
      node = new_const (self, self->token->value);
      self->token++;
      return node;
    default:
      if (is_operator (self, "("))
        return parse_parentheses (self);
      if (is_operator (self, "["))
        return parse_list (self);
      if (is_operator (self, "{"))
        return parse_dict (self);
      llm_jinja_parser_fail (self, "an expression");
    }
}

/* --- what follows it --- */

/* name=value, or a value where no name was before. */
static void
parse_argument (LlmJinjaParser *self, LlmJinjaNode *node, guint *n_room)
{
  if (self->token->kind == LLM_JINJA_TOKEN_NAME && self->token[1].kind == LLM_JINJA_TOKEN_OPERATOR
      && g_str_equal (self->token[1].name, "="))
    {
      node->names = llm_jinja_grow (self->jinja, node->names, node->n_names, n_room,
                                    sizeof *node->names);
      node->names[node->n_names++] = self->token->name;
      self->token += 2;
    }
  else if (node->n_names > 0 || node->b != NULL || node->c != NULL)
    {
      llm_jinja_parser_fail (self, "an argument with a name, as those before it");
    }
  add_item (self, node, llm_jinja_parse_expression (self, TRUE));
}

static void
parse_arguments (LlmJinjaParser *self, LlmJinjaNode *node)
{
  guint n_room = 0;

  llm_jinja_parser_expect (self, LLM_JINJA_TOKEN_OPERATOR, "(");
  for (guint n = 0; has_next (self, ")", n); n++)
    {
      gboolean is_dict = skip_operator (self, "**");

      if (!is_dict && !skip_operator (self, "*"))
        {
          parse_argument (self, node, &n_room);
          continue;
        }
      if (node->c != NULL || (node->b != NULL && !is_dict))
        llm_jinja_parser_fail (self, "one %s of arguments", is_dict ? "dict" : "list");
      *(is_dict ? &node->c : &node->b) = llm_jinja_parse_expression (self, TRUE);
    }
}

/* a[1], a[1:2], a[:] */
static LlmJinjaNode *
parse_brackets (LlmJinjaParser *self, LlmJinjaNode *node)
{
  LlmJinjaNode *bounds[3] = { NULL };
  LlmJinjaNode *result;
  guint n = 0;

  llm_jinja_parser_expect (self, LLM_JINJA_TOKEN_OPERATOR, "[");
  if (!is_operator (self, ":"))
    {
      bounds[0] = llm_jinja_parse_expression (self, TRUE);
      if (skip_operator (self, "]"))
        return new_node (self, LLM_JINJA_NODE_ITEM, node, bounds[0]);
    }
  while (n < 2 && skip_operator (self, ":"))
    {
      n++;
      if (!is_operator (self, ":") && !is_operator (self, "]"))
        bounds[n] = llm_jinja_parse_expression (self, TRUE);
    }
  llm_jinja_parser_expect (self, LLM_JINJA_TOKEN_OPERATOR, "]");
  result = new_node (self, LLM_JINJA_NODE_SLICE, node, NULL);
  for (guint i = 0; i < 3; i++)
    add_item (self, result, bounds[i]);
  return result;
}

static LlmJinjaNode *
parse_call (LlmJinjaParser *self, LlmJinjaNode *node)
{
  LlmJinjaNode *call = new_node (self, LLM_JINJA_NODE_CALL, node, NULL);

  parse_arguments (self, call);
  return call;
}

static LlmJinjaNode *
parse_postfix (LlmJinjaParser *self, LlmJinjaNode *node)
{
  for (guint n = 0;; n++)
    {
      if (n > MAX_CHAIN)
        llm_jinja_parser_fail (self, "a shorter chain of attributes and calls");
      if (skip_operator (self, "."))
        {
          if (self->token->kind == LLM_JINJA_TOKEN_NAME)
            {
              node = new_node (self, LLM_JINJA_NODE_ATTRIBUTE, node, NULL);
              node->name = self->token->name;
            }
          else if (self->token->kind == LLM_JINJA_TOKEN_INTEGER)
            {
              node = new_node (self, LLM_JINJA_NODE_ITEM, node,
                               new_const (self, self->token->value));
            }
          else
            {
              llm_jinja_parser_fail (self, "an attribute");
            }
          self->token++;
        }
      else if (is_operator (self, "["))
        node = parse_brackets (self, node);
      else if (is_operator (self, "("))
        node = parse_call (self, node);
      else
        return node;
    }
}

static LlmJinjaNode *
parse_filter (LlmJinjaParser *self, LlmJinjaNode *node)
{
  LlmJinjaNode *filter = new_node (self, LLM_JINJA_NODE_FILTER, node, NULL);

  if (self->token->kind != LLM_JINJA_TOKEN_NAME)
    llm_jinja_parser_fail (self, "the name of a filter");
  filter->name = self->token->name;
  self->token++;
  if (is_operator (self, "("))
    parse_arguments (self, filter);
  return filter;
}

static LlmJinjaNode *
parse_test (LlmJinjaParser *self, LlmJinjaNode *node)
{
  gboolean is_negated = llm_jinja_parser_skip (self, LLM_JINJA_TOKEN_NAME, "not");
  LlmJinjaNode *test = new_node (self, LLM_JINJA_NODE_TEST, node, NULL);
  LlmJinjaTokenKind kind;

  if (self->token->kind != LLM_JINJA_TOKEN_NAME)
    llm_jinja_parser_fail (self, "the name of a test");
  test->name = self->token->name;
  self->token++;
  kind = self->token->kind;
  if (is_operator (self, "("))
    {
      parse_arguments (self, test);
    }
  else if (kind == LLM_JINJA_TOKEN_STRING || kind == LLM_JINJA_TOKEN_INTEGER
           || kind == LLM_JINJA_TOKEN_FLOAT || is_operator (self, "[") || is_operator (self, "{")
           || (kind == LLM_JINJA_TOKEN_NAME && !is_name (self, "else") && !is_name (self, "or")
               && !is_name (self, "and")))
    {
      if (is_name (self, "is"))
        llm_jinja_parser_fail (self, "no second test without parentheses");
      /* “if a is b if c”: an argument can't be the word of a condition */
      if (!is_name (self, "if") && !is_name (self, "in") && !is_name (self, "not")
          && !is_name (self, "recursive"))
        add_item (self, test, parse_postfix (self, parse_primary (self)));
    }
  return is_negated ? new_node (self, LLM_JINJA_NODE_NOT, test, NULL) : test;
}

LlmJinjaNode *
llm_jinja_parse_filters (LlmJinjaParser *self, LlmJinjaNode *node, gboolean is_chain)
{
  for (guint n = 0;; n++)
    {
      if (n > MAX_CHAIN)
        llm_jinja_parser_fail (self, "a shorter chain of filters");
      if ((is_chain && n == 0) || skip_operator (self, "|"))
        node = parse_filter (self, node);
      else if (!is_chain && is_name (self, "is"))
        {
          self->token++;
          node = parse_test (self, node);
        }
      else if (is_operator (self, "("))
        node = parse_call (self, node);
      else
        return node;
    }
}

/* --- operators --- */

static LlmJinjaNode *
parse_unary (LlmJinjaParser *self, gboolean with_filters)
{
  LlmJinjaNode *node;

  llm_jinja_enter (self->jinja);
  if (is_operator (self, "-") || is_operator (self, "+"))
    {
      node = llm_jinja_node_new (self, LLM_JINJA_NODE_SIGN);
      node->op = is_operator (self, "-") ? LLM_JINJA_OP_SUB : LLM_JINJA_OP_ADD;
      self->token++;
      node->a = parse_unary (self, FALSE);
    }
  else
    {
      node = parse_primary (self);
    }
  node = parse_postfix (self, node);
  if (with_filters)
    node = llm_jinja_parse_filters (self, node, FALSE);
  llm_jinja_leave (self->jinja);
  return node;
}

/* Those that bind tighter stand behind. */
typedef enum
{
  COMPARISONS,
  SUMS,
  CONCATS,
  PRODUCTS,
  POWERS,
  UNARIES,
} Level;

static LlmJinjaNode *parse_binary (LlmJinjaParser *self, Level level);

static const struct
{
  const char *name;
  Level level;
  LlmJinjaOp op;
} operators[] = {
  { "==", COMPARISONS, LLM_JINJA_OP_EQ }, { "!=", COMPARISONS, LLM_JINJA_OP_NE },
  { "<", COMPARISONS, LLM_JINJA_OP_LT }, { "<=", COMPARISONS, LLM_JINJA_OP_LE },
  { ">", COMPARISONS, LLM_JINJA_OP_GT }, { ">=", COMPARISONS, LLM_JINJA_OP_GE },
  { "+", SUMS, LLM_JINJA_OP_ADD }, { "-", SUMS, LLM_JINJA_OP_SUB },
  { "*", PRODUCTS, LLM_JINJA_OP_MUL }, { "/", PRODUCTS, LLM_JINJA_OP_DIV },
  { "//", PRODUCTS, LLM_JINJA_OP_FLOORDIV }, { "%", PRODUCTS, LLM_JINJA_OP_MOD },
  { "**", POWERS, LLM_JINJA_OP_POW },
};

static LlmJinjaOp
take_operator (LlmJinjaParser *self, Level level)
{
  for (guint i = 0; i < G_N_ELEMENTS (operators); i++)
    if (operators[i].level == level && skip_operator (self, operators[i].name))
      return operators[i].op;
  return LLM_JINJA_OP_NONE;
}

static LlmJinjaNode *
parse_concat (LlmJinjaParser *self)
{
  LlmJinjaNode *node = parse_binary (self, PRODUCTS);
  LlmJinjaNode *concat;

  if (!is_operator (self, "~"))
    return node;
  concat = llm_jinja_node_new (self, LLM_JINJA_NODE_CONCAT);
  add_item (self, concat, node);
  while (skip_operator (self, "~"))
    add_item (self, concat, parse_binary (self, PRODUCTS));
  return concat;
}

/* Left to right. The evaluator walks the left side in depth, so its length is limited. */
static LlmJinjaNode *
parse_binary (LlmJinjaParser *self, Level level)
{
  LlmJinjaNode *left;
  LlmJinjaOp op;
  guint32 at;

  if (level == CONCATS)
    return parse_concat (self);
  if (level == UNARIES)
    return parse_unary (self, TRUE);
  left = parse_binary (self, level + 1);
  at = self->token->at;
  for (guint n = 0; (op = take_operator (self, level)) != LLM_JINJA_OP_NONE; n++)
    {
      if (n > MAX_CHAIN)
        llm_jinja_parser_fail (self, "a shorter chain of operators");
      left = new_node (self, LLM_JINJA_NODE_BINARY, left, parse_binary (self, level + 1));
      left->op = op;
      left->at = at;
      at = self->token->at;
    }
  return left;
}

static LlmJinjaOp
take_comparison (LlmJinjaParser *self)
{
  LlmJinjaOp op = take_operator (self, COMPARISONS);

  if (op == LLM_JINJA_OP_NONE && llm_jinja_parser_skip (self, LLM_JINJA_TOKEN_NAME, "in"))
    return LLM_JINJA_OP_IN;
  if (op != LLM_JINJA_OP_NONE || !is_name (self, "not")
      || self->token[1].kind != LLM_JINJA_TOKEN_NAME || !g_str_equal (self->token[1].name, "in"))
    return op;
  self->token += 2;
  return LLM_JINJA_OP_NOT_IN;
}

static LlmJinjaNode *
parse_comparison (LlmJinjaParser *self)
{
  LlmJinjaNode *first = parse_binary (self, SUMS);
  LlmJinjaNode *compare = NULL;

  for (;;)
    {
      guint32 at = self->token->at;
      LlmJinjaOp op = take_comparison (self);
      LlmJinjaNode *side;

      if (op == LLM_JINJA_OP_NONE)
        return compare != NULL ? compare : first;
      if (compare == NULL)
        {
          compare = llm_jinja_node_new (self, LLM_JINJA_NODE_COMPARE);
          compare->at = at;
          add_item (self, compare, first);
        }
      /* a node around it, as it may be part of no other comparison */
      side = new_node (self, LLM_JINJA_NODE_SCOPE, parse_binary (self, SUMS), NULL);
      side->op = op;
      side->at = at;
      add_item (self, compare, side);
    }
}

static LlmJinjaNode *
parse_not (LlmJinjaParser *self)
{
  LlmJinjaNode *node;

  if (!is_name (self, "not"))
    return parse_comparison (self);
  llm_jinja_enter (self->jinja);
  node = llm_jinja_node_new (self, LLM_JINJA_NODE_NOT);
  self->token++;
  node->a = parse_not (self);
  llm_jinja_leave (self->jinja);
  return node;
}

/* “a and b and c” is a row of items: it may be long. */
static LlmJinjaNode *
parse_row (LlmJinjaParser *self, LlmJinjaNodeKind kind)
{
  gboolean is_or = kind == LLM_JINJA_NODE_OR;
  LlmJinjaNode *first = is_or ? parse_row (self, LLM_JINJA_NODE_AND) : parse_not (self);
  const char *word = is_or ? "or" : "and";
  LlmJinjaNode *row;

  if (!is_name (self, word))
    return first;
  row = llm_jinja_node_new (self, kind);
  add_item (self, row, first);
  while (llm_jinja_parser_skip (self, LLM_JINJA_TOKEN_NAME, word))
    add_item (self, row, is_or ? parse_row (self, LLM_JINJA_NODE_AND) : parse_not (self));
  return row;
}

LlmJinjaNode *
llm_jinja_parse_expression (LlmJinjaParser *self, gboolean with_condition)
{
  LlmJinjaNode *node;

  llm_jinja_enter (self->jinja);
  node = parse_row (self, LLM_JINJA_NODE_OR);
  while (with_condition && is_name (self, "if"))
    {
      LlmJinjaNode *choice = new_node (self, LLM_JINJA_NODE_IF_ELSE, node, NULL);

      self->token++;
      choice->b = parse_row (self, LLM_JINJA_NODE_OR);
      if (llm_jinja_parser_skip (self, LLM_JINJA_TOKEN_NAME, "else"))
        choice->c = llm_jinja_parse_expression (self, TRUE);
      node = choice;
    }
  llm_jinja_leave (self->jinja);
  return node;
}

LlmJinjaNode *
llm_jinja_parse_tuple (LlmJinjaParser *self, gboolean with_condition)
{
  LlmJinjaNode *first = llm_jinja_parse_expression (self, with_condition);
  LlmJinjaNode *tuple;

  if (!is_operator (self, ","))
    return first;
  tuple = llm_jinja_node_new (self, LLM_JINJA_NODE_TUPLE);
  add_item (self, tuple, first);
  while (skip_operator (self, ","))
    {
      if (self->token->kind == LLM_JINJA_TOKEN_VARIABLE_END
          || self->token->kind == LLM_JINJA_TOKEN_BLOCK_END || is_operator (self, ")")
          || is_operator (self, "=") || is_name (self, "in"))
        break;
      add_item (self, tuple, llm_jinja_parse_expression (self, with_condition));
    }
  return tuple;
}
