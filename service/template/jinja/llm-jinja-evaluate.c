/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Values of expressions. */

#include "template/jinja/llm-jinja-private.h"


static LlmJinjaValue *
evaluate_items (LlmJinja *self, const LlmJinjaNodes *items)
{
  LlmJinjaValue *values = llm_jinja_alloc (self, items->n_items * sizeof *values);

  for (guint i = 0; i < items->n_items; i++)
    values[i] = items->items[i] != NULL ? llm_jinja_evaluate (self, items->items[i])
                                        : llm_jinja_none ();
  return values;
}

/* Names are compared by address. One that the template does not have is none of its parameters. */
static const char *
find_name (LlmJinja *self, const LlmJinjaString *string)
{
  char *name = llm_jinja_copy (self, string);
  const char *known = g_hash_table_lookup (self->names, name);

  return known != NULL ? known : name;
}

/* @args with those of the list behind the other ones without a name, and those of the dict behind
 * all. There is room for one more. */
static LlmJinjaArgs
spread_args (LlmJinja *self, const LlmJinjaNode *node, const LlmJinjaArgs *args)
{
  LlmJinjaValue list = node->b != NULL ? llm_jinja_evaluate (self, node->b)
                                       : llm_jinja_list_new (self, LLM_JINJA_LIST_LIST);
  LlmJinjaValue dict = node->c != NULL ? llm_jinja_evaluate (self, node->c)
                                       : llm_jinja_dict_new (self);
  const LlmJinjaList *more = llm_jinja_iterate (self, &list);
  guint n_positions = args->n_values - args->n_names;
  LlmJinjaArgs all = { .n_names = args->n_names };

  if (dict.type != LLM_JINJA_DICT)
    llm_jinja_fail (self, "what is behind “**” must be a dict");
  llm_jinja_step (self, more->n_items + dict.dict->n_entries);
  all.values = llm_jinja_alloc (self, (args->n_values + more->n_items + dict.dict->n_entries + 1)
                                        * sizeof *all.values);
  all.names = llm_jinja_alloc (self, (args->n_names + dict.dict->n_entries + 1)
                                       * sizeof *all.names);
  if (args->n_names > 0)
    memcpy (all.names, args->names, args->n_names * sizeof *all.names);
  for (guint i = 0; i < n_positions; i++)
    all.values[all.n_values++] = args->values[i];
  for (guint i = 0; i < more->n_items; i++)
    all.values[all.n_values++] = more->items[i];
  for (guint i = n_positions; i < args->n_values; i++)
    all.values[all.n_values++] = args->values[i];
  for (guint i = 0; i < dict.dict->n_entries; i++)
    {
      const LlmJinjaValue *key = &dict.dict->entries[i].key;

      if (key->type != LLM_JINJA_STRING)
        llm_jinja_fail (self, "the names of arguments must be strings");
      all.names[all.n_names++] = find_name (self, &key->string);
      all.values[all.n_values++] = dict.dict->entries[i].value;
    }
  return all;
}

static LlmJinjaArgs
evaluate_args (LlmJinja *self, const LlmJinjaNode *node, const LlmJinjaValue *caller)
{
  LlmJinjaArgs args = { .values = evaluate_items (self, &node->items),
                        .n_values = node->items.n_items,
                        .names = node->names, .n_names = node->n_names };

  if (node->b != NULL || node->c != NULL || caller != NULL)
    args = spread_args (self, node, &args);
  if (caller == NULL)
    return args;
  args.names[args.n_names++] = caller->function->name;
  args.values[args.n_values++] = *caller;
  return args;
}

static LlmJinjaValue
call (LlmJinja *self, const LlmJinjaValue *function, const LlmJinjaArgs *args)
{
  if (function->type == LLM_JINJA_UNDEFINED)
    llm_jinja_fail (self, "“%.60s” is undefined, so it can't be called",
                    function->name != NULL ? function->name : "");
  if (function->type != LLM_JINJA_FUNCTION)
    llm_jinja_fail (self, "a value of type %s can't be called", llm_jinja_type_name (function));
  if (function->function->builtin != NULL)
    return llm_jinja_run_builtin (self, function->function->builtin, &function->function->subject,
                                  args);
  if (function->function->loop != NULL)
    return llm_jinja_loop_call (self, function->function, args);
  return llm_jinja_run_macro (self, function->function, args);
}

LlmJinjaValue
llm_jinja_evaluate_call (LlmJinja *self, const LlmJinjaNode *node, const LlmJinjaValue *caller)
{
  LlmJinjaValue function = llm_jinja_evaluate (self, node->a);
  LlmJinjaArgs args = evaluate_args (self, node, caller);

  self->at = node->at;
  return call (self, &function, &args);
}

static LlmJinjaValue
evaluate_list (LlmJinja *self, const LlmJinjaNode *node)
{
  LlmJinjaValue list = llm_jinja_list_new (self, node->kind == LLM_JINJA_NODE_TUPLE
                                                 ? LLM_JINJA_LIST_TUPLE : LLM_JINJA_LIST_LIST);

  for (guint i = 0; i < node->items.n_items; i++)
    llm_jinja_list_add (self, list.list, llm_jinja_evaluate (self, node->items.items[i]));
  return list;
}

static LlmJinjaValue
evaluate_dict (LlmJinja *self, const LlmJinjaNode *node)
{
  LlmJinjaValue dict = llm_jinja_dict_new (self);

  for (guint i = 0; i < node->items.n_items; i += 2)
    {
      LlmJinjaValue key = llm_jinja_evaluate (self, node->items.items[i]);

      llm_jinja_dict_set (self, dict.dict, key,
                          llm_jinja_evaluate (self, node->items.items[i + 1]));
    }
  return dict;
}

/* a < b < c: what is between is evaluated once. */
static LlmJinjaValue
evaluate_compare (LlmJinja *self, const LlmJinjaNode *node)
{
  LlmJinjaValue left = llm_jinja_evaluate (self, node->items.items[0]);

  for (guint i = 1; i < node->items.n_items; i++)
    {
      const LlmJinjaNode *side = node->items.items[i];
      LlmJinjaValue right = llm_jinja_evaluate (self, side->a);

      self->at = side->at;
      if (!llm_jinja_holds (self, side->op, &left, &right))
        return llm_jinja_bool (FALSE);
      left = right;
    }
  return llm_jinja_bool (TRUE);
}

/* The first that decides, or the last one. */
static LlmJinjaValue
evaluate_row (LlmJinja *self, const LlmJinjaNode *node)
{
  gboolean deciding = node->kind == LLM_JINJA_NODE_OR;
  LlmJinjaValue value = llm_jinja_none ();

  for (guint i = 0; i < node->items.n_items; i++)
    {
      value = llm_jinja_evaluate (self, node->items.items[i]);
      if (llm_jinja_is_true (&value) == deciding)
        break;
    }
  return value;
}

static LlmJinjaValue
evaluate_filter (LlmJinja *self, const LlmJinjaNode *node)
{
  LlmJinjaValue subject = node->a != NULL ? llm_jinja_evaluate (self, node->a) : self->hole;
  LlmJinjaArgs args = evaluate_args (self, node, NULL);

  self->at = node->at;
  return llm_jinja_run_filter (self, node->name, &subject, &args);
}

static LlmJinjaValue
evaluate_test (LlmJinja *self, const LlmJinjaNode *node)
{
  LlmJinjaValue subject = llm_jinja_evaluate (self, node->a);
  LlmJinjaArgs args = evaluate_args (self, node, NULL);

  self->at = node->at;
  return llm_jinja_bool (llm_jinja_run_test (self, node->name, &subject, &args));
}

static LlmJinjaValue
evaluate_sign (LlmJinja *self, const LlmJinjaNode *node)
{
  LlmJinjaValue value = llm_jinja_evaluate (self, node->a);
  LlmJinjaValue zero = llm_jinja_int (0, 0);

  self->at = node->at;
  if (node->op == LLM_JINJA_OP_SUB && value.type == LLM_JINJA_FLOAT)
    return llm_jinja_float (-value.number, value.origin);
  return llm_jinja_calculate (self, node->op, &zero, &value);
}

static LlmJinjaValue
evaluate_here (LlmJinja *self, const LlmJinjaNode *node)
{
  LlmJinjaValue a, b;

  switch ((LlmJinjaNodeKind) node->kind)
    {
    case LLM_JINJA_NODE_CONST:
      return node->value;
    case LLM_JINJA_NODE_NAME:
      return llm_jinja_scope_get (self, node->name);
    case LLM_JINJA_NODE_LIST:
    case LLM_JINJA_NODE_TUPLE:
      return evaluate_list (self, node);
    case LLM_JINJA_NODE_DICT:
      return evaluate_dict (self, node);
    case LLM_JINJA_NODE_ATTRIBUTE:
      a = llm_jinja_evaluate (self, node->a);
      self->at = node->at;
      if (a.type == LLM_JINJA_FUNCTION && a.function->loop != NULL)
        return llm_jinja_loop_get (self, a.function->loop, node->name);
      return llm_jinja_get_attribute (self, &a, node->name);
    case LLM_JINJA_NODE_ITEM:
      a = llm_jinja_evaluate (self, node->a);
      b = llm_jinja_evaluate (self, node->b);
      self->at = node->at;
      return llm_jinja_get_item (self, &a, &b);
    case LLM_JINJA_NODE_SLICE:
      a = llm_jinja_evaluate (self, node->a);
      return llm_jinja_get_slice (self, &a, evaluate_items (self, &node->items));
    case LLM_JINJA_NODE_CALL:
      return llm_jinja_evaluate_call (self, node, NULL);
    case LLM_JINJA_NODE_FILTER:
      return evaluate_filter (self, node);
    case LLM_JINJA_NODE_TEST:
      return evaluate_test (self, node);
    case LLM_JINJA_NODE_NOT:
      a = llm_jinja_evaluate (self, node->a);
      return llm_jinja_bool (!llm_jinja_is_true (&a));
    case LLM_JINJA_NODE_AND:
    case LLM_JINJA_NODE_OR:
      return evaluate_row (self, node);
    case LLM_JINJA_NODE_SIGN:
      return evaluate_sign (self, node);
    case LLM_JINJA_NODE_BINARY:
      a = llm_jinja_evaluate (self, node->a);
      b = llm_jinja_evaluate (self, node->b);
      self->at = node->at;
      return llm_jinja_calculate (self, node->op, &a, &b);
    case LLM_JINJA_NODE_CONCAT:
      return llm_jinja_concat (self, evaluate_items (self, &node->items), node->items.n_items);
    case LLM_JINJA_NODE_COMPARE:
      return evaluate_compare (self, node);
    case LLM_JINJA_NODE_IF_ELSE:
      a = llm_jinja_evaluate (self, node->b);
      if (llm_jinja_is_true (&a))
        return llm_jinja_evaluate (self, node->a);
      return node->c != NULL ? llm_jinja_evaluate (self, node->c)
                             : llm_jinja_undefined ("the else of an if");
    default:
      g_assert_not_reached ();
    }
}

LlmJinjaValue
llm_jinja_evaluate (LlmJinja *self, const LlmJinjaNode *node)
{
  LlmJinjaValue value;

  self->at = node->at;
  llm_jinja_enter (self);
  value = evaluate_here (self, node);
  llm_jinja_leave (self);
  return value;
}
