/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Tests: “x is defined”. */

#include "template/jinja/llm-jinja-private.h"

#include <string.h>

/* What tests of types tell apart, a bit each. */
enum
{
  UNDEFINED = 1 << 0, NONE = 1 << 1, TRUE_BOOL = 1 << 2, FALSE_BOOL = 1 << 3, INTEGER = 1 << 4,
  FLOAT = 1 << 5, STRING = 1 << 6, LIST = 1 << 7, DICT = 1 << 8, NAMESPACE = 1 << 9,
  FUNCTION = 1 << 10,
  VIEW = 1 << 11,           /* a list that has no indexes */
};

static guint
get_kind (const LlmJinjaValue *value)
{
  static const guint kinds[] = { UNDEFINED, NONE, 0, INTEGER, FLOAT, STRING, LIST, DICT, NAMESPACE,
                                 FUNCTION };

  if (value->type == LLM_JINJA_BOOL)
    return value->boolean ? TRUE_BOOL : FALSE_BOOL;
  if (value->type == LLM_JINJA_LIST && value->list->kind > LLM_JINJA_LIST_RANGE)
    return VIEW;
  /* whole numbers have any number of digits */
  if (value->type == LLM_JINJA_FLOAT && value->digits != NULL
      && strpbrk (value->digits, ".eE") == NULL)
    return INTEGER;
  return kinds[value->type];
}

/* In Jinja, what is undefined can be called, walked over and measured. */
static const struct
{
  const char *name;
  guint kinds;
} of_types[] = {
  { "boolean", TRUE_BOOL | FALSE_BOOL }, { "callable", FUNCTION | UNDEFINED },
  { "defined", ~(guint) UNDEFINED }, { "false", FALSE_BOOL }, { "float", FLOAT },
  { "integer", INTEGER }, { "iterable", STRING | LIST | VIEW | DICT | UNDEFINED },
  { "mapping", DICT }, { "none", NONE }, { "number", TRUE_BOOL | FALSE_BOOL | INTEGER | FLOAT },
  { "sequence", STRING | LIST | DICT | UNDEFINED }, { "string", STRING }, { "true", TRUE_BOOL },
  { "undefined", UNDEFINED },
};

static gboolean
is_divisible (LlmJinja *self, const LlmJinjaValue *value, const LlmJinjaValue *by)
{
  llm_jinja_need_int (self, "even, odd, divisibleby", value);
  llm_jinja_need_int (self, "divisibleby", by);
  return llm_jinja_calculate (self, LLM_JINJA_OP_MOD, value, by).integer == 0;
}

static gboolean
is_even (LlmJinja *self, const LlmJinjaValue *value, const LlmJinjaValue *unused)
{
  LlmJinjaValue two = llm_jinja_int (2, 0);

  return is_divisible (self, value, &two);
}

static gboolean
is_odd (LlmJinja *self, const LlmJinjaValue *value, const LlmJinjaValue *unused)
{
  return !is_even (self, value, unused);
}

static gboolean
is_lower (LlmJinja *self, const LlmJinjaValue *value, const LlmJinjaValue *unused)
{
  LlmJinjaValue string = llm_jinja_to_string (self, value);

  return llm_jinja_string_is_of (&string.string, LLM_JINJA_CLASS_LOWER);
}

static gboolean
is_upper (LlmJinja *self, const LlmJinjaValue *value, const LlmJinjaValue *unused)
{
  LlmJinjaValue string = llm_jinja_to_string (self, value);

  return llm_jinja_string_is_of (&string.string, LLM_JINJA_CLASS_UPPER);
}

/* “is” of Python, which is defined for what there is only one of. */
static gboolean
is_same (LlmJinja *self, const LlmJinjaValue *value, const LlmJinjaValue *other)
{
  if (value->type != other->type)
    return FALSE;
  if (value->type != LLM_JINJA_NONE && value->type != LLM_JINJA_BOOL)
    llm_jinja_fail (self, "“sameas” is not supported for values of type %s",
                    llm_jinja_type_name (value));
  return value->type == LLM_JINJA_NONE || value->boolean == other->boolean;
}

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

static const struct
{
  const char *name;
  guint n_arguments;
  gboolean (*is_so) (LlmJinja *self, const LlmJinjaValue *value, const LlmJinjaValue *argument);
} others[] = {
  { "divisibleby", 1, is_divisible }, { "even", 0, is_even }, { "lower", 0, is_lower },
  { "odd", 0, is_odd }, { "sameas", 1, is_same }, { "upper", 0, is_upper },
};

static void
check_arguments (LlmJinja *self, const char *name, const LlmJinjaArgs *args, guint n_wanted)
{
  if (args->n_values != n_wanted || args->n_names > 0)
    llm_jinja_fail (self, "the test “%s” takes %s", name,
                    n_wanted > 0 ? "one argument" : "no arguments");
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
        check_arguments (self, name, args, 0);
        return (get_kind (subject) & of_types[i].kinds) != 0;
      }
  for (guint i = 0; i < G_N_ELEMENTS (of_order); i++)
    if (strcmp (of_order[i].name, name) == 0)
      {
        check_arguments (self, name, args, 1);
        return llm_jinja_holds (self, of_order[i].op, subject, args->values);
      }
  for (guint i = 0; i < G_N_ELEMENTS (others); i++)
    if (strcmp (others[i].name, name) == 0)
      {
        check_arguments (self, name, args, others[i].n_arguments);
        return others[i].is_so (self, subject, args->values);
      }
  llm_jinja_fail (self, "the test “%.60s” is not supported", name);
}
