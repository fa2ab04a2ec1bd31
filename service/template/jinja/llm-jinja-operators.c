/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Arithmetic, concatenation and slices, as Python has them. Integers have 64
 * bits: what needs more is refused. */

#include "template/jinja/llm-jinja-private.h"

#include <math.h>
#include <string.h>

static LlmJinjaOrigin
get_origin (const LlmJinjaValue *a,
            const LlmJinjaValue *b)
{
  return MAX (a->origin, b->origin);
}

G_NORETURN static void
fail_types (LlmJinja            *self,
            LlmJinjaOp           op,
            const LlmJinjaValue *a,
            const LlmJinjaValue *b)
{
  static const char *const names[] = { "", "+", "-", "*", "/", "//", "%", "**" };

  llm_jinja_fail (self, "“%s” is not defined for values of types %s and %s", names[op],
                  llm_jinja_type_name (a), llm_jinja_type_name (b));
}

static gint64
power (LlmJinja *self,
       gint64    base,
       gint64    exponent)
{
  gint64 result = 1;

  for (; exponent > 0; exponent--)
    {
      llm_jinja_step (self, 1);
      if (__builtin_mul_overflow (result, base, &result))
        llm_jinja_fail (self, "an integer is too large");
    }
  return result;
}

static LlmJinjaValue
calculate_integers (LlmJinja            *self,
                    LlmJinjaOp           op,
                    const LlmJinjaValue *left,
                    const LlmJinjaValue *right)
{
  gint64 a = left->type == LLM_JINJA_BOOL ? left->boolean : left->integer;
  gint64 b = right->type == LLM_JINJA_BOOL ? right->boolean : right->integer;
  LlmJinjaOrigin origin = get_origin (left, right);
  gboolean is_too_large = FALSE;
  gint64 result = 0;

  if ((op == LLM_JINJA_OP_DIV || op == LLM_JINJA_OP_FLOORDIV || op == LLM_JINJA_OP_MOD) && b == 0)
    llm_jinja_fail (self, "division by zero");
  switch (op)
    {
    case LLM_JINJA_OP_ADD:
      is_too_large = __builtin_add_overflow (a, b, &result);
      break;
    case LLM_JINJA_OP_SUB:
      is_too_large = __builtin_sub_overflow (a, b, &result);
      break;
    case LLM_JINJA_OP_MUL:
      is_too_large = __builtin_mul_overflow (a, b, &result);
      break;
    case LLM_JINJA_OP_DIV:
      return llm_jinja_float ((double) a / (double) b, origin);
    case LLM_JINJA_OP_POW:
      if (b < 0)
        return llm_jinja_float (pow ((double) a, (double) b), origin);
      result = power (self, a, b);
      break;
    default:
      is_too_large = a == G_MININT64 && b == -1;
      if (is_too_large)
        break;
      /* rounded down, as Python does */
      result = a / b;
      if (a % b != 0 && (a < 0) != (b < 0))
        result--;
      if (op == LLM_JINJA_OP_MOD)
        result = a - result * b;
    }
  if (is_too_large)
    llm_jinja_fail (self, "an integer is too large");
  return llm_jinja_int (result, origin);
}

static LlmJinjaValue
calculate_floats (LlmJinja            *self,
                  LlmJinjaOp           op,
                  const LlmJinjaValue *left,
                  const LlmJinjaValue *right)
{
  double a = llm_jinja_get_number (left);
  double b = llm_jinja_get_number (right);
  double result;

  if ((op == LLM_JINJA_OP_DIV || op == LLM_JINJA_OP_FLOORDIV || op == LLM_JINJA_OP_MOD) && b == 0)
    llm_jinja_fail (self, "division by zero");
  switch (op)
    {
    case LLM_JINJA_OP_ADD:
      result = a + b;
      break;
    case LLM_JINJA_OP_SUB:
      result = a - b;
      break;
    case LLM_JINJA_OP_MUL:
      result = a * b;
      break;
    case LLM_JINJA_OP_DIV:
      result = a / b;
      break;
    case LLM_JINJA_OP_FLOORDIV:
      result = floor (a / b);
      break;
    case LLM_JINJA_OP_MOD:
      result = fmod (a, b);
      if (result != 0 && (result < 0) != (b < 0))
        result += b;
      break;
    default:
      result = pow (a, b);
    }
  return llm_jinja_float (result, get_origin (left, right));
}

static LlmJinjaValue
add_lists (LlmJinja            *self,
           const LlmJinjaValue *a,
           const LlmJinjaValue *b)
{
  LlmJinjaValue result = llm_jinja_list_new (self, a->list->kind);

  result.origin = get_origin (a, b);
  for (guint i = 0; i < a->list->n_items; i++)
    llm_jinja_list_add (self, result.list, a->list->items[i]);
  for (guint i = 0; i < b->list->n_items; i++)
    llm_jinja_list_add (self, result.list, b->list->items[i]);
  return result;
}

static LlmJinjaValue
add_strings (LlmJinja            *self,
             const LlmJinjaValue *a,
             const LlmJinjaValue *b)
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
repeat (LlmJinja            *self,
        const LlmJinjaValue *value,
        gint64               n)
{
  if (value->type == LLM_JINJA_STRING)
    {
      LlmJinjaText *text = llm_jinja_text_new (self);
      LlmJinjaValue result;

      for (; n > 0 && value->string.length > 0; n--)
        {
          llm_jinja_step (self, 1);
          llm_jinja_text_add (self, text, &value->string);
        }
      result = llm_jinja_text_end (text);
      result.is_html = value->is_html;
      return result;
    }
  else
    {
      LlmJinjaValue result = llm_jinja_list_new (self, value->list->kind);

      result.origin = value->origin;
      for (; n > 0 && value->list->n_items > 0; n--)
        for (guint i = 0; i < value->list->n_items; i++)
          llm_jinja_list_add (self, result.list, value->list->items[i]);
      return result;
    }
}

static gboolean
is_sequence (const LlmJinjaValue *value)
{
  return value->type == LLM_JINJA_STRING
         || (value->type == LLM_JINJA_LIST && value->list->kind <= LLM_JINJA_LIST_TUPLE);
}

LlmJinjaValue
llm_jinja_calculate (LlmJinja            *self,
                     LlmJinjaOp           op,
                     const LlmJinjaValue *a,
                     const LlmJinjaValue *b)
{
  llm_jinja_step (self, 1);
  if (llm_jinja_is_number (a) && llm_jinja_is_number (b))
    return a->type == LLM_JINJA_FLOAT || b->type == LLM_JINJA_FLOAT
             ? calculate_floats (self, op, a, b) : calculate_integers (self, op, a, b);
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
    {
      gboolean is_tuple = b->type == LLM_JINJA_LIST && b->list->kind == LLM_JINJA_LIST_TUPLE;
      LlmJinjaValue value = *b;
      LlmJinjaArgs args = { .values = is_tuple ? b->list->items : &value,
                            .n_values = is_tuple ? b->list->n_items : 1 };

      if (a->is_html)
        llm_jinja_fail (self, "“%%” of a “safe” string is not supported");
      return llm_jinja_format_percent (self, &a->string, &args);
    }
  if (a->type == LLM_JINJA_UNDEFINED || b->type == LLM_JINJA_UNDEFINED)
    {
      const LlmJinjaValue *undefined = a->type == LLM_JINJA_UNDEFINED ? a : b;

      llm_jinja_fail (self, "“%.60s” is undefined", undefined->name != NULL ? undefined->name : "");
    }
  fail_types (self, op, a, b);
}

LlmJinjaValue
llm_jinja_concat (LlmJinja            *self,
                  const LlmJinjaValue *values,
                  guint                n_values)
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

/* Python's slice.indices(). */
LlmJinjaValue
llm_jinja_get_slice (LlmJinja            *self,
                     const LlmJinjaValue *value,
                     const LlmJinjaValue *bounds)
{
  gint64 length, step, start, end;
  LlmJinjaText *text = NULL;
  LlmJinjaValue result;

  if (value->type == LLM_JINJA_UNDEFINED || value->type == LLM_JINJA_DICT
      || !llm_jinja_get_length (self, value, &length)
      || (value->type == LLM_JINJA_LIST && value->list->kind > LLM_JINJA_LIST_RANGE))
    llm_jinja_fail (self, "a value of type %s has no slices", llm_jinja_type_name (value));

  step = bounds[2].type == LLM_JINJA_NONE ? 1 : llm_jinja_need_int (self, "slice", &bounds[2]);
  if (step == 0)
    llm_jinja_fail (self, "the step of a slice can't be 0");
  step = CLAMP (step, -G_MAXINT32, G_MAXINT32);
  start = bounds[0].type == LLM_JINJA_NONE ? (step > 0 ? 0 : length - 1)
                                           : llm_jinja_need_int (self, "slice", &bounds[0]);
  if (start < 0 && bounds[0].type != LLM_JINJA_NONE)
    start = start < -length ? -1 : start + length;
  start = CLAMP (start, step > 0 ? 0 : -1, step > 0 ? length : length - 1);
  end = bounds[1].type == LLM_JINJA_NONE ? (step > 0 ? length : -1)
                                         : llm_jinja_need_int (self, "slice", &bounds[1]);
  if (end < 0 && bounds[1].type != LLM_JINJA_NONE)
    end = end < -length ? -1 : end + length;
  end = CLAMP (end, step > 0 ? 0 : -1, step > 0 ? length : length - 1);

  if (value->type == LLM_JINJA_STRING && step == 1)
    {
      gsize from = llm_jinja_string_offset (&value->string, (gsize) start);
      LlmJinjaValue rest = llm_jinja_string_cut (&value->string, from, value->string.length);

      result = llm_jinja_string_cut (&rest.string, 0, start >= end ? 0 :
                                     llm_jinja_string_offset (&rest.string, (gsize) (end - start)));
      result.is_html = value->is_html;
      return result;
    }
  if (value->type == LLM_JINJA_STRING)
    {
      LlmJinjaList *characters = llm_jinja_iterate (self, value);

      text = llm_jinja_text_new (self);
      for (gint64 i = start; step > 0 ? i < end : i > end; i += step)
        llm_jinja_text_add (self, text, &characters->items[i].string);
      result = llm_jinja_text_end (text);
      result.is_html = value->is_html;
      return result;
    }
  result = llm_jinja_list_new (self, value->list->kind);
  result.origin = value->origin;
  for (gint64 i = start; step > 0 ? i < end : i > end; i += step)
    llm_jinja_list_add (self, result.list, value->list->items[i]);
  return result;
}
