/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Loops and their variable “loop”. Items pass the filter of the loop when they are needed, so that
 * it sees what the rounds before have set. */

#include "template/jinja/llm-jinja-private.h"

struct _LlmJinjaLoop
{
  const LlmJinjaNode *node;
  LlmJinjaScope *scope;         /* around the loop */
  const LlmJinjaList *over;
  guint n_seen;                 /* of @over */
  LlmJinjaList *items;          /* of these, those that passed the filter */
  guint index;                  /* of the item of this round */
  guint depth;
  LlmJinjaValue last_changed;   /* the values of the last loop.changed(), undefined before */
};

static gboolean
passes (LlmJinja *self, const LlmJinjaLoop *loop, const LlmJinjaValue *item)
{
  LlmJinjaScope *scope = self->scope;
  LlmJinjaValue value;

  if (loop->node->c == NULL)
    return TRUE;
  self->scope = llm_jinja_scope_new (self, loop->scope);
  llm_jinja_assign (self, loop->node->a, *item);
  value = llm_jinja_evaluate (self, loop->node->c);
  self->scope = scope;
  return llm_jinja_is_true (&value);
}

/* Whether there is an item @index. */
static gboolean
has_item (LlmJinja *self, LlmJinjaLoop *loop, guint index)
{
  while (loop->items->n_items <= index && loop->n_seen < loop->over->n_items)
    {
      const LlmJinjaValue *item = &loop->over->items[loop->n_seen++];

      if (passes (self, loop, item))
        llm_jinja_list_add (self, loop->items, *item);
    }
  return index < loop->items->n_items;
}

static guint
count_items (LlmJinja *self, LlmJinjaLoop *loop)
{
  has_item (self, loop, G_MAXUINT - 1);
  return loop->items->n_items;
}

/* @name: one that ends with 0 counts from there. */
static LlmJinjaValue
get_number (LlmJinja *self, LlmJinjaLoop *loop, const char *name)
{
  gint64 offset = !g_str_has_suffix (name, "0");

  if (g_str_has_prefix (name, "index"))
    return llm_jinja_int (loop->index + offset, 0);
  if (g_str_has_prefix (name, "depth"))
    return llm_jinja_int (loop->depth + offset, 0);
  return llm_jinja_int ((gint64) count_items (self, loop) - loop->index - 1 + offset, 0);
}

static LlmJinjaValue
new_method (LlmJinja *self, LlmJinjaLoop *loop, const char *name)
{
  LlmJinjaValue method = llm_jinja_new_method (self, name, NULL, NULL);

  method.function->loop = loop;
  return method;
}

LlmJinjaValue
llm_jinja_loop_get (LlmJinja *self, LlmJinjaLoop *loop, const char *name)
{
  static const char *const numbers[] = { "index", "index0", "depth", "depth0", "revindex",
                                         "revindex0", NULL };

  if (g_strv_contains (numbers, name))
    return get_number (self, loop, name);
  if (g_str_equal (name, "cycle") || g_str_equal (name, "changed"))
    return new_method (self, loop, name);
  if (g_str_equal (name, "first"))
    return llm_jinja_bool (loop->index == 0);
  if (g_str_equal (name, "last"))
    return llm_jinja_bool (!has_item (self, loop, loop->index + 1));
  if (g_str_equal (name, "length"))
    return llm_jinja_int (count_items (self, loop), 0);
  if (g_str_equal (name, "previtem") && loop->index > 0)
    return loop->items->items[loop->index - 1];
  if (g_str_equal (name, "nextitem") && has_item (self, loop, loop->index + 1))
    return loop->items->items[loop->index + 1];
  return llm_jinja_undefined (name);
}

LlmJinjaFlow
llm_jinja_run_loop (LlmJinja            *self,
                    const LlmJinjaNode  *node,
                    const LlmJinjaValue *over,
                    guint                depth)
{
  LlmJinjaScope *scope = self->scope;
  LlmJinjaLoop *loop = llm_jinja_alloc (self, sizeof *loop);
  LlmJinjaValue variable = new_method (self, loop, "loop");
  LlmJinjaFlow flow = LLM_JINJA_GO_ON;

  loop->node = node;
  loop->scope = scope;
  loop->over = llm_jinja_iterate (self, over);
  loop->items = llm_jinja_list_new (self, LLM_JINJA_LIST_LIST).list;
  loop->depth = depth;
  for (guint i = 0; flow != LLM_JINJA_LEAVE_LOOP && has_item (self, loop, i); i++)
    {
      LlmJinjaScope *own = llm_jinja_scope_new (self, scope);

      loop->index = i;
      self->scope = own;
      llm_jinja_scope_set (self, own, node->name, variable);
      llm_jinja_assign (self, node->a, loop->items->items[i]);
      flow = llm_jinja_execute (self, &node->body);
      self->scope = scope;
    }
  if (loop->items->n_items > 0)
    return LLM_JINJA_GO_ON;

  /* here “break” is one of the loop around this one */
  self->scope = llm_jinja_scope_new (self, scope);
  flow = llm_jinja_execute (self, &node->others);
  self->scope = scope;
  return flow;
}

static LlmJinjaValue
cycle (LlmJinja *self, const LlmJinjaLoop *loop, const LlmJinjaArgs *args)
{
  if (args->n_values == 0)
    llm_jinja_fail (self, "“cycle” needs values");
  return args->values[loop->index % args->n_values];
}

/* Whether the values differ from those of the call before. */
static LlmJinjaValue
changed (LlmJinja *self, LlmJinjaLoop *loop, const LlmJinjaArgs *args)
{
  LlmJinjaValue before = loop->last_changed;

  loop->last_changed = llm_jinja_list_new (self, LLM_JINJA_LIST_TUPLE);
  for (guint i = 0; i < args->n_values; i++)
    llm_jinja_list_add (self, loop->last_changed.list, args->values[i]);
  return llm_jinja_bool (!llm_jinja_equal (self, &before, &loop->last_changed));
}

LlmJinjaValue
llm_jinja_loop_call (LlmJinja *self, const LlmJinjaFunction *function, const LlmJinjaArgs *args)
{
  LlmJinjaLoop *loop = function->loop;
  LlmJinjaText *out = self->out;
  LlmJinjaText *text = llm_jinja_text_new (self);
  LlmJinjaScope *scope = self->scope;

  if (g_str_equal (function->name, "cycle") && args->n_names == 0)
    return cycle (self, loop, args);
  if (g_str_equal (function->name, "changed") && args->n_names == 0)
    return changed (self, loop, args);
  if (!loop->node->op)
    llm_jinja_fail (self, "this loop is not “recursive”, so it can't be called");
  if (args->n_values != 1)
    llm_jinja_fail (self, "“loop” is called with what to walk over, and nothing else");
  llm_jinja_enter (self);
  self->out = text;
  self->scope = loop->scope;
  llm_jinja_run_loop (self, loop->node, &args->values[0], loop->depth + 1);
  self->scope = scope;
  self->out = out;
  llm_jinja_leave (self);
  return llm_jinja_text_end (text);
}
