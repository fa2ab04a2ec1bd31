/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Statements, and calls of macros and of the bodies of call blocks. */

#include "template/jinja/llm-jinja-private.h"

static void
output (LlmJinja *self, const LlmJinjaValue *value)
{
  LlmJinjaValue text = llm_jinja_to_string (self, value);

  llm_jinja_text_add (self, self->out, &text.string);
  if (self->out->length > self->max_output)
    llm_jinja_fail (self, "it writes more than %" G_GSIZE_FORMAT " MiB", self->max_output >> 20);
}

/* The text of @body. */
static LlmJinjaValue
capture (LlmJinja *self, const LlmJinjaNodes *body)
{
  LlmJinjaText *out = self->out;
  LlmJinjaText *text = llm_jinja_text_new (self);
  LlmJinjaScope *scope = self->scope;

  self->out = text;
  self->scope = llm_jinja_scope_new (self, scope);
  llm_jinja_execute (self, body);
  self->scope = scope;
  self->out = out;
  return llm_jinja_text_end (text);
}

/* @chain (nullable): filters. */
static LlmJinjaValue
capture_filtered (LlmJinja *self, const LlmJinjaNodes *body, const LlmJinjaNode *chain)
{
  LlmJinjaValue text = capture (self, body);

  if (chain != NULL)
    {
      LlmJinjaValue hole = self->hole;

      self->hole = text;
      text = llm_jinja_evaluate (self, chain);
      self->hole = hole;
    }
  return text;
}

static void
define_macro (LlmJinja *self, const LlmJinjaNode *node)
{
  LlmJinjaValue macro = llm_jinja_new_method (self, node->name, NULL, NULL);

  macro.function->node = node;
  macro.function->scope = self->scope;
  llm_jinja_scope_set (self, self->scope, node->name, macro);
}

static void
run_call_block (LlmJinja *self, const LlmJinjaNode *node)
{
  LlmJinjaValue caller = llm_jinja_new_method (self, node->name, NULL, NULL);
  LlmJinjaValue text;

  caller.function->node = node;
  caller.function->scope = self->scope;
  text = llm_jinja_evaluate_call (self, node->a, &caller);
  output (self, &text);
}

/* --- macros --- */

/* What was given for no parameter. */
typedef struct
{
  LlmJinjaValue positions;
  LlmJinjaValue names;
} Rest;

static void
bind_rest (LlmJinja *self, const LlmJinjaNode *node, LlmJinjaScope *scope, const Rest *rest)
{
  if (node->kind == LLM_JINJA_NODE_MACRO && node->op & LLM_JINJA_HAS_VARARGS)
    llm_jinja_scope_set (self, scope, g_hash_table_lookup (self->names, "varargs"),
                         rest->positions);
  else if (rest->positions.list->n_items > 0)
    llm_jinja_fail (self, "the macro “%.60s” takes at most %u arguments", node->name,
                    node->n_names);
  if (node->kind == LLM_JINJA_NODE_MACRO && node->op & LLM_JINJA_HAS_KWARGS)
    llm_jinja_scope_set (self, scope, g_hash_table_lookup (self->names, "kwargs"), rest->names);
  else if (rest->names.dict->n_entries > 0)
    llm_jinja_fail (self, "the macro “%.60s” has no parameter “%.*s”", node->name,
                    (int) MIN (60, rest->names.dict->entries[0].key.string.length),
                    rest->names.dict->entries[0].key.string.bytes);
}

/* A parameter has its argument, its default, or is undefined. */
static LlmJinjaValue
take_parameter (LlmJinja *self, const LlmJinjaNode *node, const LlmJinjaArgs *args, guint index)
{
  guint first_default = node->n_names - node->items.n_items;
  guint n_positions = args->n_values - args->n_names;

  if (index < n_positions)
    return args->values[index];
  for (guint n = 0; n < args->n_names; n++)
    if (args->names[n] == node->names[index])
      return args->values[n_positions + n];
  return index >= first_default
           ? llm_jinja_evaluate (self, node->items.items[index - first_default])
           : llm_jinja_undefined (node->names[index]);
}

static void
bind (LlmJinja *self, const LlmJinjaNode *node, LlmJinjaScope *scope, const LlmJinjaArgs *args)
{
  guint n_positions = args->n_values - args->n_names;
  Rest rest = { llm_jinja_list_new (self, LLM_JINJA_LIST_TUPLE), llm_jinja_dict_new (self) };

  for (guint i = node->n_names; i < n_positions; i++)
    llm_jinja_list_add (self, rest.positions.list, args->values[i]);
  for (guint i = 0; i < args->n_names; i++)
    {
      const LlmJinjaValue *value = &args->values[n_positions + i];
      guint at = 0;

      while (at < node->n_names && node->names[at] != args->names[i])
        at++;
      if (at < n_positions && at < node->n_names)
        llm_jinja_fail (self, "the argument “%.60s” is given twice", args->names[i]);
      if (at < node->n_names)
        continue;
      if (node->kind == LLM_JINJA_NODE_MACRO && g_str_equal (args->names[i], "caller"))
        llm_jinja_scope_set (self, scope, args->names[i], *value);
      else
        llm_jinja_dict_set_name (self, rest.names.dict, args->names[i], *value);
    }
  bind_rest (self, node, scope, &rest);

  for (guint i = 0; i < node->n_names; i++)
    llm_jinja_scope_set (self, scope, node->names[i], take_parameter (self, node, args, i));
}

LlmJinjaValue
llm_jinja_run_macro (LlmJinja *self, const LlmJinjaFunction *function, const LlmJinjaArgs *args)
{
  LlmJinjaScope *scope = self->scope;
  LlmJinjaValue text;

  llm_jinja_enter (self);
  self->scope = llm_jinja_scope_new (self, function->scope);
  bind (self, function->node, self->scope, args);
  text = capture (self, &function->node->body);
  self->scope = scope;
  llm_jinja_leave (self);
  return text;
}

/* --- statements --- */

static LlmJinjaFlow
run_in_scope (LlmJinja *self, const LlmJinjaNode *node)
{
  LlmJinjaScope *scope = self->scope;
  LlmJinjaScope *own = llm_jinja_scope_new (self, scope);
  LlmJinjaFlow flow;

  for (guint i = 0; i < node->items.n_items; i += 2)
    {
      /* values are those around it */
      LlmJinjaValue value = llm_jinja_evaluate (self, node->items.items[i + 1]);

      self->scope = own;
      llm_jinja_assign (self, node->items.items[i], value);
      self->scope = scope;
    }
  self->scope = own;
  flow = llm_jinja_execute (self, &node->body);
  self->scope = scope;
  return flow;
}

static LlmJinjaFlow
run_if (LlmJinja *self, const LlmJinjaNode *node)
{
  for (;;)
    {
      LlmJinjaValue value = llm_jinja_evaluate (self, node->a);

      if (llm_jinja_is_true (&value))
        return llm_jinja_execute (self, &node->body);
      if (node->b == NULL)
        return llm_jinja_execute (self, &node->others);
      node = node->b;
    }
}

static LlmJinjaFlow
execute_one (LlmJinja *self, const LlmJinjaNode *node)
{
  LlmJinjaValue value;

  self->at = node->at;
  switch ((LlmJinjaNodeKind) node->kind)
    {
    case LLM_JINJA_NODE_TEXT:
      output (self, &node->value);
      return LLM_JINJA_GO_ON;
    case LLM_JINJA_NODE_OUTPUT:
      value = llm_jinja_evaluate (self, node->a);
      output (self, &value);
      return LLM_JINJA_GO_ON;
    case LLM_JINJA_NODE_FOR:
      value = llm_jinja_evaluate (self, node->b);
      return llm_jinja_run_loop (self, node, &value, 0);
    case LLM_JINJA_NODE_IF:
      return run_if (self, node);
    case LLM_JINJA_NODE_SET:
      llm_jinja_assign (self, node->a, llm_jinja_evaluate (self, node->b));
      return LLM_JINJA_GO_ON;
    case LLM_JINJA_NODE_SET_BLOCK:
      llm_jinja_assign (self, node->a, capture_filtered (self, &node->body, node->b));
      return LLM_JINJA_GO_ON;
    case LLM_JINJA_NODE_FILTER_BLOCK:
      value = capture_filtered (self, &node->body, node->a);
      output (self, &value);
      return LLM_JINJA_GO_ON;
    case LLM_JINJA_NODE_MACRO:
      define_macro (self, node);
      return LLM_JINJA_GO_ON;
    case LLM_JINJA_NODE_CALL_BLOCK:
      run_call_block (self, node);
      return LLM_JINJA_GO_ON;
    case LLM_JINJA_NODE_WITH:
    case LLM_JINJA_NODE_SCOPE:
      return run_in_scope (self, node);
    case LLM_JINJA_NODE_BREAK:
      return LLM_JINJA_LEAVE_LOOP;
    case LLM_JINJA_NODE_CONTINUE:
      return LLM_JINJA_NEXT_ROUND;
    default:
      g_assert_not_reached ();
    }
}

LlmJinjaFlow
llm_jinja_execute (LlmJinja *self, const LlmJinjaNodes *body)
{
  LlmJinjaFlow flow = LLM_JINJA_GO_ON;

  llm_jinja_enter (self);
  for (guint i = 0; flow == LLM_JINJA_GO_ON && i < body->n_items; i++)
    {
      llm_jinja_step (self, 1);
      flow = execute_one (self, body->items[i]);
    }
  llm_jinja_leave (self);
  return flow;
}
