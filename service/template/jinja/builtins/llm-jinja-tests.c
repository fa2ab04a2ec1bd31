/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Tests: “x is defined”. */

#include "template/jinja/llm-jinja-private.h"

#include <string.h>

#include "tokenizer/llm-utf8.h"

static gboolean
is_defined (const LlmJinjaValue *value)
{
  return value->type != LLM_JINJA_UNDEFINED;
}

static gboolean
is_undefined (const LlmJinjaValue *value)
{
  return value->type == LLM_JINJA_UNDEFINED;
}

static gboolean
is_none (const LlmJinjaValue *value)
{
  return value->type == LLM_JINJA_NONE;
}

static gboolean
is_boolean (const LlmJinjaValue *value)
{
  return value->type == LLM_JINJA_BOOL;
}

static gboolean
is_true (const LlmJinjaValue *value)
{
  return value->type == LLM_JINJA_BOOL && value->boolean;
}

static gboolean
is_false (const LlmJinjaValue *value)
{
  return value->type == LLM_JINJA_BOOL && !value->boolean;
}

static gboolean
is_float (const LlmJinjaValue *value)
{
  return value->type == LLM_JINJA_FLOAT
         && (value->digits == NULL || strpbrk (value->digits, ".eE") != NULL);
}

static gboolean
is_integer (const LlmJinjaValue *value)
{
  /* whole numbers have any number of digits */
  return value->type == LLM_JINJA_INT || (value->type == LLM_JINJA_FLOAT && !is_float (value));
}


static gboolean
is_string (const LlmJinjaValue *value)
{
  return value->type == LLM_JINJA_STRING;
}

static gboolean
is_mapping (const LlmJinjaValue *value)
{
  return value->type == LLM_JINJA_DICT;
}

static gboolean
is_iterable (const LlmJinjaValue *value)
{
  return value->type == LLM_JINJA_STRING || value->type == LLM_JINJA_LIST
         || value->type == LLM_JINJA_DICT || value->type == LLM_JINJA_UNDEFINED;
}

/* With a length and items: in Jinja, also what is undefined. */
static gboolean
is_sequence (const LlmJinjaValue *value)
{
  return is_iterable (value)
         && (value->type != LLM_JINJA_LIST || value->list->kind <= LLM_JINJA_LIST_RANGE);
}

static gboolean
is_callable (const LlmJinjaValue *value)
{
  return value->type == LLM_JINJA_FUNCTION || value->type == LLM_JINJA_UNDEFINED;
}

static gboolean
is_escaped (const LlmJinjaValue *value)
{
  return value->type == LLM_JINJA_STRING && value->is_html;
}

static const struct
{
  const char *name;
  gboolean (*is_so) (const LlmJinjaValue *value);
} of_types[] = {
  { "boolean", is_boolean }, { "callable", is_callable }, { "defined", is_defined },
  { "escaped", is_escaped }, { "false", is_false }, { "float", is_float },
  { "integer", is_integer }, { "iterable", is_iterable }, { "mapping", is_mapping },
  { "none", is_none }, { "number", llm_jinja_is_number }, { "sequence", is_sequence },
  { "string", is_string }, { "true", is_true }, { "undefined", is_undefined },
};

static const struct
{
  const char *name;
  LlmJinjaOp op;
} of_order[] = {
  { "==", LLM_JINJA_OP_EQ }, { "eq", LLM_JINJA_OP_EQ }, { "equalto", LLM_JINJA_OP_EQ },
  { "!=", LLM_JINJA_OP_NE }, { "ne", LLM_JINJA_OP_NE }, { "<", LLM_JINJA_OP_LT },
  { "lt", LLM_JINJA_OP_LT }, { "lessthan", LLM_JINJA_OP_LT }, { "<=", LLM_JINJA_OP_LE },
  { "le", LLM_JINJA_OP_LE }, { ">", LLM_JINJA_OP_GT }, { "gt", LLM_JINJA_OP_GT },
  { "greaterthan", LLM_JINJA_OP_GT }, { ">=", LLM_JINJA_OP_GE }, { "ge", LLM_JINJA_OP_GE },
  { "in", LLM_JINJA_OP_IN },
};

static const char *const others[] = { "divisibleby", "even", "lower", "odd", "sameas", "upper" };

/* str.islower() and isupper(): there are cased characters, and all are so. */
static gboolean
is_case (LlmJinja            *self,
         const LlmJinjaValue *value,
         gboolean             is_upper)
{
  LlmJinjaValue string = llm_jinja_to_string (self, value);
  gboolean has_cased = FALSE;

  for (gsize at = 0; at < string.string.length;)
    {
      gunichar c;

      at += llm_utf8_get (string.string.bytes + at, string.string.bytes + string.string.length, &c);
      if (is_upper ? g_unichar_islower (c) : g_unichar_isupper (c) || g_unichar_istitle (c))
        return FALSE;
      has_cased |= is_upper ? g_unichar_isupper (c) : g_unichar_islower (c);
    }
  return has_cased;
}

/* “is” of Python, where two values can be told apart. */
static gboolean
is_same (LlmJinja            *self,
         const LlmJinjaValue *a,
         const LlmJinjaValue *b)
{
  if (a->type != b->type)
    return FALSE;
  switch ((LlmJinjaType) a->type)
    {
    case LLM_JINJA_NONE:
      return TRUE;
    case LLM_JINJA_BOOL:
      return a->boolean == b->boolean;
    case LLM_JINJA_LIST:
      return a->list == b->list;
    case LLM_JINJA_DICT:
    case LLM_JINJA_NAMESPACE:
      return a->dict == b->dict;
    default:
      llm_jinja_fail (self, "“sameas” is not supported for values of type %s",
                      llm_jinja_type_name (a));
    }
}

static gboolean
run_order (LlmJinja            *self,
           LlmJinjaOp           op,
           const LlmJinjaValue *a,
           const LlmJinjaValue *b)
{
  switch (op)
    {
    case LLM_JINJA_OP_EQ:
      return llm_jinja_equal (self, a, b);
    case LLM_JINJA_OP_NE:
      return !llm_jinja_equal (self, a, b);
    case LLM_JINJA_OP_LT:
      return llm_jinja_compare (self, a, b) < 0;
    case LLM_JINJA_OP_LE:
      return llm_jinja_compare (self, a, b) <= 0;
    case LLM_JINJA_OP_GT:
      return llm_jinja_compare (self, a, b) > 0;
    case LLM_JINJA_OP_GE:
      return llm_jinja_compare (self, a, b) >= 0;
    default:
      return llm_jinja_contains (self, b, a);
    }
}

static gboolean
is_divisible (LlmJinja            *self,
              const char          *name,
              const LlmJinjaValue *value,
              gint64               by)
{
  LlmJinjaValue divisor = llm_jinja_int (by, 0);
  LlmJinjaValue rest;

  llm_jinja_need_int (self, name, value);
  rest = llm_jinja_calculate (self, LLM_JINJA_OP_MOD, value, &divisor);
  return rest.integer == 0;
}

static gboolean
run_other (LlmJinja            *self,
           const char          *name,
           const LlmJinjaValue *subject,
           const LlmJinjaArgs  *args)
{
  gboolean has_argument = strcmp (name, "divisibleby") == 0 || strcmp (name, "sameas") == 0;

  if (args->n_values != (guint) has_argument)
    llm_jinja_fail (self, "the test “%s” takes %u arguments", name, (guint) has_argument);
  if (strcmp (name, "even") == 0)
    return is_divisible (self, name, subject, 2);
  if (strcmp (name, "odd") == 0)
    return !is_divisible (self, name, subject, 2);
  if (strcmp (name, "lower") == 0 || strcmp (name, "upper") == 0)
    return is_case (self, subject, *name == 'u');
  if (strcmp (name, "divisibleby") == 0)
    return is_divisible (self, name, subject, llm_jinja_need_int (self, name, &args->values[0]));
  return is_same (self, subject, &args->values[0]);
}

gboolean
llm_jinja_run_test (LlmJinja            *self,
                    const char          *name,
                    const LlmJinjaValue *subject,
                    const LlmJinjaArgs  *args)
{
  llm_jinja_charge (self, subject, 1);
  llm_jinja_charge (self, args->values, args->n_values);
  for (guint i = 0; i < G_N_ELEMENTS (of_types); i++)
    if (strcmp (of_types[i].name, name) == 0)
      {
        if (args->n_values > 0)
          llm_jinja_fail (self, "the test “%s” takes no arguments", name);
        return of_types[i].is_so (subject);
      }
  for (guint i = 0; i < G_N_ELEMENTS (of_order); i++)
    if (strcmp (of_order[i].name, name) == 0)
      {
        if (args->n_values != 1 || args->n_names != 0)
          llm_jinja_fail (self, "the test “%s” takes one argument", name);
        return run_order (self, of_order[i].op, subject, &args->values[0]);
      }
  for (guint i = 0; i < G_N_ELEMENTS (others); i++)
    if (strcmp (others[i], name) == 0)
      return run_other (self, name, subject, args);
  llm_jinja_fail (self, "the test “%.60s” is not supported", name);
}
