/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Statements. */

#include "template/jinja/llm-jinja-private.h"

#include <string.h>

static void
output (LlmJinja            *self,
        const LlmJinjaValue *value)
{
  LlmJinjaValue text = llm_jinja_to_string (self, value);

  llm_jinja_text_add (self, self->out, &text.string);
  if (self->out->length > self->max_output)
    llm_jinja_fail (self, "it writes more than %" G_GSIZE_FORMAT " MiB", self->max_output >> 20);
}

/* @chain (nullable): filters. */
static LlmJinjaValue
capture_filtered (LlmJinja            *self,
                  const LlmJinjaNodes *body,
                  const LlmJinjaNode  *chain)
{
  LlmJinjaValue text = llm_jinja_capture (self, body);

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
define_macro (LlmJinja           *self,
              const LlmJinjaNode *node)
{
  LlmJinjaValue macro = llm_jinja_new_method (self, node->name, NULL, NULL);

  macro.function->node = node;
  macro.function->scope = self->scope;
  llm_jinja_scope_set (self, self->scope, node->name, macro);
}

static void
run_call_block (LlmJinja           *self,
                const LlmJinjaNode *node)
{
  LlmJinjaValue caller = llm_jinja_new_method (self, node->name, NULL, NULL);
  LlmJinjaValue text;

  caller.function->node = node;
  caller.function->scope = self->scope;
  text = llm_jinja_evaluate_call (self, node->a, &caller);
  output (self, &text);
}

static LlmJinjaFlow
run_in_scope (LlmJinja           *self,
              const LlmJinjaNode *node)
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
run_if (LlmJinja           *self,
        const LlmJinjaNode *node)
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
execute_one (LlmJinja           *self,
             const LlmJinjaNode *node)
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
llm_jinja_execute (LlmJinja            *self,
                   const LlmJinjaNodes *body)
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
