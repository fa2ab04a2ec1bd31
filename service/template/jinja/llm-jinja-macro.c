/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Calls of macros, and of the bodies of call blocks. */

#include "template/jinja/llm-jinja-private.h"

#include <string.h>

/* What was given for no parameter. */
typedef struct
{
  LlmJinjaValue positions;
  LlmJinjaValue names;
} Rest;

static void
bind_rest (LlmJinja           *self,
           const LlmJinjaNode *node,
           LlmJinjaScope      *scope,
           const Rest         *rest)
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

/* Each parameter has its argument, its default, or is undefined. */
static void
bind (LlmJinja           *self,
      const LlmJinjaNode *node,
      LlmJinjaScope      *scope,
      const LlmJinjaArgs *args)
{
  guint n_positions = args->n_values - args->n_names;
  guint first_default = node->n_names - node->items.n_items;
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
    {
      LlmJinjaValue value = llm_jinja_undefined (node->names[i]);
      gboolean is_given = i < n_positions;

      if (is_given)
        value = args->values[i];
      for (guint n = 0; n < args->n_names; n++)
        if (args->names[n] == node->names[i])
          {
            value = args->values[n_positions + n];
            is_given = TRUE;
          }
      if (!is_given && i >= first_default)
        value = self->evaluate (self, node->items.items[i - first_default]);
      llm_jinja_scope_set (self, scope, node->names[i], value);
    }
}

LlmJinjaValue
llm_jinja_run_macro (LlmJinja               *self,
                     const LlmJinjaFunction *function,
                     const LlmJinjaArgs     *args)
{
  LlmJinjaScope *scope = self->scope;
  LlmJinjaValue text;

  llm_jinja_enter (self);
  self->scope = llm_jinja_scope_new (self, function->scope);
  bind (self, function->node, self->scope, args);
  text = llm_jinja_capture (self, &function->node->body);
  self->scope = scope;
  llm_jinja_leave (self);
  return text;
}
