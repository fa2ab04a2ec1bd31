/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Variables and where they are seen. As in Jinja, “for”, “with”, macros and blocks whose text is
 * taken have scopes of their own, “if” has none, and a name that is not set in a scope is looked up
 * around it. */

#include "template/jinja/llm-jinja-private.h"

LlmJinjaScope *
llm_jinja_scope_new (LlmJinja *self, LlmJinjaScope *parent)
{
  LlmJinjaScope *scope = llm_jinja_alloc (self, sizeof *scope);

  scope->parent = parent;
  return scope;
}

void
llm_jinja_scope_set (LlmJinja *self, LlmJinjaScope *scope, const char *name, LlmJinjaValue value)
{
  guint n_room = scope->n_room;

  for (guint i = 0; i < scope->n_names; i++)
    if (scope->names[i] == name)
      {
        scope->values[i] = value;
        return;
      }
  scope->names = llm_jinja_grow (self, scope->names, scope->n_names, &n_room, sizeof *scope->names);
  scope->values = llm_jinja_grow (self, scope->values, scope->n_names, &scope->n_room,
                                  sizeof *scope->values);
  scope->names[scope->n_names] = name;
  scope->values[scope->n_names++] = value;
}

LlmJinjaValue
llm_jinja_scope_get (LlmJinja *self, const char *name)
{
  for (const LlmJinjaScope *scope = self->scope; scope != NULL; scope = scope->parent)
    for (guint i = 0; i < scope->n_names; i++)
      if (scope->names[i] == name)
        return scope->values[i];
  return llm_jinja_undefined (name);
}

void
llm_jinja_assign (LlmJinja *self, const LlmJinjaNode *target, LlmJinjaValue value)
{
  self->at = target->at;
  if (target->kind == LLM_JINJA_NODE_NAME)
    {
      llm_jinja_scope_set (self, self->scope, target->name, value);
    }
  else if (target->kind == LLM_JINJA_NODE_ATTRIBUTE)
    {
      LlmJinjaValue holder = llm_jinja_scope_get (self, target->a->name);

      if (holder.type != LLM_JINJA_NAMESPACE)
        llm_jinja_fail (self, "attributes of a namespace can be set, not of a value of type %s",
                        llm_jinja_type_name (&holder));
      llm_jinja_dict_set_name (self, holder.dict, target->name, value);
    }
  else
    {
      const LlmJinjaList *list = llm_jinja_iterate (self, &value);

      if (list->n_items != target->items.n_items)
        llm_jinja_fail (self, "%u values can't be unpacked into %u variables", list->n_items,
                        target->items.n_items);
      for (guint i = 0; i < list->n_items; i++)
        llm_jinja_assign (self, target->items.items[i], list->items[i]);
    }
}
