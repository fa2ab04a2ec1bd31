/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Arithmetic, concatenation and slices, as Python has them. Integers have 64
 * bits: what needs more is refused. */

#include "template/jinja/llm-jinja-private.h"

#include <math.h>

static LlmJinjaOrigin
get_origin (const LlmJinjaValue *a, const LlmJinjaValue *b)
{
  return MAX (a->origin, b->origin);
}

G_NORETURN static void
fail_types (LlmJinja *self, LlmJinjaOp op, const LlmJinjaValue *a, const LlmJinjaValue *b)
{
  static const char *const names[] = { "", "+", "-", "*", "/", "//", "%", "**" };

  llm_jinja_fail (self, "“%s” is not defined for values of types %s and %s", names[op],
                  llm_jinja_type_name (a), llm_jinja_type_name (b));
}

/* FALSE: it is too large. */
static gboolean
power (LlmJinja *self, gint64 base, gint64 exponent, gint64 *result)
{
  *result = 1;
  for (; exponent > 0; exponent--)
    {
      llm_jinja_step (self, 1);
      if (__builtin_mul_overflow (*result, base, result))
        return FALSE;
    }
  return TRUE;
}

/* What has a whole result; FALSE: it is too large. */
static gboolean
calculate_integers (LlmJinja *self, LlmJinjaOp op, gint64 a, gint64 b, gint64 *result)
{
  if (op == LLM_JINJA_OP_ADD)
    return !__builtin_add_overflow (a, b, result);
  if (op == LLM_JINJA_OP_SUB)
    return !__builtin_sub_overflow (a, b, result);
  if (op == LLM_JINJA_OP_MUL)
    return !__builtin_mul_overflow (a, b, result);
  if (op == LLM_JINJA_OP_POW)
    return power (self, a, b, result);
  if (a == G_MININT64 && b == -1)
    return FALSE;
  /* rounded down, as Python does */
  *result = a / b - (a % b != 0 && (a < 0) != (b < 0));
  if (op == LLM_JINJA_OP_MOD)
    *result = a - *result * b;
  return TRUE;
}

static double
calculate_floats (LlmJinjaOp op, double a, double b)
{
  double rest;

  switch (op)
    {
    case LLM_JINJA_OP_ADD:
      return a + b;
    case LLM_JINJA_OP_SUB:
      return a - b;
    case LLM_JINJA_OP_MUL:
      return a * b;
    case LLM_JINJA_OP_DIV:
      return a / b;
    case LLM_JINJA_OP_FLOORDIV:
      return floor (a / b);
    case LLM_JINJA_OP_MOD:
      rest = fmod (a, b);
      return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    default:
      return pow (a, b);
    }
}

static LlmJinjaValue
calculate_numbers (LlmJinja *self, LlmJinjaOp op, const LlmJinjaValue *a, const LlmJinjaValue *b)
{
  double left = llm_jinja_get_number (a), right = llm_jinja_get_number (b);
  gint64 result;

  if ((op == LLM_JINJA_OP_DIV || op == LLM_JINJA_OP_FLOORDIV || op == LLM_JINJA_OP_MOD)
      && right == 0)
    llm_jinja_fail (self, "division by zero");
  if (a->type == LLM_JINJA_FLOAT || b->type == LLM_JINJA_FLOAT || op == LLM_JINJA_OP_DIV
      || (op == LLM_JINJA_OP_POW && right < 0))
    return llm_jinja_float (calculate_floats (op, left, right), get_origin (a, b));
  if (!calculate_integers (self, op, llm_jinja_need_int (self, "", a),
                           llm_jinja_need_int (self, "", b), &result))
    llm_jinja_fail (self, "an integer is too large");
  return llm_jinja_int (result, get_origin (a, b));
}

static LlmJinjaValue
add_lists (LlmJinja *self, const LlmJinjaValue *a, const LlmJinjaValue *b)
{
  LlmJinjaValue result = llm_jinja_list_new (self, a->list->kind);

  result.origin = get_origin (a, b);
  llm_jinja_list_add_all (self, result.list, a->list);
  llm_jinja_list_add_all (self, result.list, b->list);
  return result;
}

static LlmJinjaValue
add_strings (LlmJinja *self, const LlmJinjaValue *a, const LlmJinjaValue *b)
{
  LlmJinjaValue result, left = *a, right = *b;

  if (a->is_html || b->is_html)
    {
      left = llm_jinja_string_escape (self, a);
      right = llm_jinja_string_escape (self, b);
    }
  result = llm_jinja_string_join (self, &left.string, &right.string);
  result.is_html = a->is_html || b->is_html;
  return result;
}

static LlmJinjaValue
repeat (LlmJinja *self, const LlmJinjaValue *value, gint64 n)
{
  LlmJinjaText *text = llm_jinja_text_new (self);
  LlmJinjaValue result;

  if (value->type == LLM_JINJA_STRING)
    {
      for (; n > 0 && value->string.length > 0; n--)
        {
          llm_jinja_step (self, 1);
          llm_jinja_text_add (self, text, &value->string);
        }
      result = llm_jinja_text_end (text);
      result.is_html = value->is_html;
      return result;
    }
  result = llm_jinja_list_new (self, value->list->kind);
  result.origin = value->origin;
  for (; n > 0 && value->list->n_items > 0; n--)
    llm_jinja_list_add_all (self, result.list, value->list);
  return result;
}

static gboolean
is_sequence (const LlmJinjaValue *value)
{
  return value->type == LLM_JINJA_STRING
         || (value->type == LLM_JINJA_LIST && value->list->kind <= LLM_JINJA_LIST_TUPLE);
}

/* @values: a tuple of them, or one. */
static LlmJinjaValue
format_values (LlmJinja *self, const LlmJinjaValue *format, const LlmJinjaValue *values)
{
  gboolean is_tuple = values->type == LLM_JINJA_LIST && values->list->kind == LLM_JINJA_LIST_TUPLE;
  LlmJinjaValue value = *values;
  LlmJinjaArgs args = { .values = is_tuple ? values->list->items : &value,
                        .n_values = is_tuple ? values->list->n_items : 1 };

  if (format->is_html)
    llm_jinja_fail (self, "“%%” of a “safe” string is not supported");
  return llm_jinja_format_percent (self, &format->string, &args);
}

LlmJinjaValue
llm_jinja_calculate (LlmJinja *self, LlmJinjaOp op, const LlmJinjaValue *a, const LlmJinjaValue *b)
{
  llm_jinja_step (self, 1);
  if (llm_jinja_is_number (a) && llm_jinja_is_number (b))
    return calculate_numbers (self, op, a, b);
  if (op == LLM_JINJA_OP_ADD && a->type == LLM_JINJA_STRING && b->type == LLM_JINJA_STRING)
    return add_strings (self, a, b);
  if (op == LLM_JINJA_OP_ADD && is_sequence (a) && a->type == b->type
      && a->list->kind == b->list->kind)
    return add_lists (self, a, b);
  if (op == LLM_JINJA_OP_MUL && is_sequence (a) && b->type == LLM_JINJA_INT)
    return repeat (self, a, b->integer);
  if (op == LLM_JINJA_OP_MUL && is_sequence (b) && a->type == LLM_JINJA_INT)
    return repeat (self, b, a->integer);
  if (op == LLM_JINJA_OP_MOD && a->type == LLM_JINJA_STRING)
    return format_values (self, a, b);
  if (a->type == LLM_JINJA_UNDEFINED || b->type == LLM_JINJA_UNDEFINED)
    {
      const LlmJinjaValue *undefined = a->type == LLM_JINJA_UNDEFINED ? a : b;

      llm_jinja_fail (self, "“%.60s” is undefined", undefined->name != NULL ? undefined->name : "");
    }
  fail_types (self, op, a, b);
}

LlmJinjaValue
llm_jinja_concat (LlmJinja *self, const LlmJinjaValue *values, guint n_values)
{
  LlmJinjaValue result = { .type = LLM_JINJA_STRING };

  for (guint i = 0; i < n_values; i++)
    {
      LlmJinjaValue string = llm_jinja_to_string (self, &values[i]);

      result = i == 0 ? string : llm_jinja_string_join (self, &result.string, &string.string);
    }
  /* unlike “+”, “~” neither escapes nor keeps what is safe, as autoescape is off */
  result.is_html = FALSE;
  return result;
}

/* A bound of a slice as Python has it: from the end where it is negative. */
static gint64
take_bound (LlmJinja            *self,
            const LlmJinjaValue *bound,
            gint64               otherwise,
            gint64               length,
            gint64               step)
{
  gint64 at = otherwise;

  if (bound->type != LLM_JINJA_NONE)
    {
      at = llm_jinja_need_int (self, "slice", bound);
      if (at < 0)
        at = at < -length ? -1 : at + length;
    }
  return CLAMP (at, step > 0 ? 0 : -1, step > 0 ? length : length - 1);
}

static LlmJinjaValue
slice_string (LlmJinja *self, const LlmJinjaValue *value, gint64 start, gint64 end, gint64 step)
{
  gsize from = llm_jinja_string_offset (&value->string, (gsize) start);
  LlmJinjaValue rest = llm_jinja_string_cut (&value->string, from, value->string.length);
  LlmJinjaText *text = llm_jinja_text_new (self);
  const LlmJinjaList *characters;

  if (step == 1)
    return llm_jinja_string_cut (&rest.string, 0, start >= end ? 0 :
                                 llm_jinja_string_offset (&rest.string, (gsize) (end - start)));
  characters = llm_jinja_iterate (self, value);
  for (gint64 i = start; step > 0 ? i < end : i > end; i += step)
    llm_jinja_text_add (self, text, &characters->items[i].string);
  return llm_jinja_text_end (text);
}

LlmJinjaValue
llm_jinja_get_slice (LlmJinja *self, const LlmJinjaValue *value, const LlmJinjaValue *bounds)
{
  gint64 length, step, start, end;
  LlmJinjaValue result;

  if (value->type == LLM_JINJA_UNDEFINED || value->type == LLM_JINJA_DICT
      || !llm_jinja_get_length (self, value, &length)
      || (value->type == LLM_JINJA_LIST && value->list->kind > LLM_JINJA_LIST_RANGE))
    llm_jinja_fail (self, "a value of type %s has no slices", llm_jinja_type_name (value));

  step = bounds[2].type == LLM_JINJA_NONE ? 1 : llm_jinja_need_int (self, "slice", &bounds[2]);
  if (step == 0)
    llm_jinja_fail (self, "the step of a slice can't be 0");
  step = CLAMP (step, -G_MAXINT32, G_MAXINT32);
  start = take_bound (self, &bounds[0], step > 0 ? 0 : length - 1, length, step);
  end = take_bound (self, &bounds[1], step > 0 ? length : -1, length, step);
  if (value->type == LLM_JINJA_STRING)
    {
      result = slice_string (self, value, start, end, step);
      result.is_html = value->is_html;
      return result;
    }
  result = llm_jinja_list_new (self, value->list->kind);
  result.origin = value->origin;
  for (gint64 i = start; step > 0 ? i < end : i > end; i += step)
    llm_jinja_list_add (self, result.list, value->list->items[i]);
  return result;
}
