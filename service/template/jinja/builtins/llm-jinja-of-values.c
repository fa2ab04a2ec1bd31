/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Filters of single values. */

#include "template/jinja/builtins/llm-jinja-builtins.h"

#include <math.h>
#include <string.h>

static LlmJinjaValue
run_default (LlmJinja *self, LlmJinjaCall *call)
{
  if (call->subject.type != LLM_JINJA_UNDEFINED
      && (!llm_jinja_is_true (&call->arg[1]) || llm_jinja_is_true (&call->subject)))
    return call->subject;
  return llm_jinja_arg_given (&call->arg[0]) ? call->arg[0] : llm_jinja_string_new (self, "", 0, 0);
}

static LlmJinjaValue
run_string (LlmJinja *self, LlmJinjaCall *call)
{
  return call->subject;
}

static LlmJinjaValue
run_safe (LlmJinja *self, LlmJinjaCall *call)
{
  call->subject.is_html = TRUE;
  return call->subject;
}

#define ALWAYS 1

static LlmJinjaValue
run_escape (LlmJinja *self, LlmJinjaCall *call)
{
  if (call->builtin->way == ALWAYS)
    call->subject.is_html = FALSE;
  return llm_jinja_string_escape (self, &call->subject);
}

static LlmJinjaValue
run_length (LlmJinja *self, LlmJinjaCall *call)
{
  gint64 length;

  if (!llm_jinja_get_length (self, &call->subject, &length))
    llm_jinja_fail (self, "a value of type %s has no length", llm_jinja_type_name (&call->subject));
  return llm_jinja_int (length, llm_jinja_get_origin (&call->subject));
}

/* --- numbers --- */

/* The text between spaces; FALSE if it is too long to be a number. */
static gboolean
copy_number (const LlmJinjaString *string, char copy[64])
{
  LlmJinjaValue trimmed = llm_jinja_string_trim (string, NULL, TRUE, TRUE);

  if (trimmed.string.length == 0 || trimmed.string.length > 63)
    return FALSE;
  memcpy (copy, trimmed.string.bytes, trimmed.string.length);
  copy[trimmed.string.length] = '\0';
  /* what strtod() takes and Python does not, and the other way round */
  return strpbrk (copy, "xXpP_") == NULL;
}

static gboolean
read_float (const LlmJinjaValue *value, double *number)
{
  char copy[64];
  char *end;

  if (llm_jinja_is_number (value))
    {
      *number = llm_jinja_get_number (value);
      return TRUE;
    }
  if (value->type != LLM_JINJA_STRING || !copy_number (&value->string, copy))
    return FALSE;
  *number = g_ascii_strtod (copy, &end);
  return *end == '\0' && end > copy;
}

static LlmJinjaValue
run_int (LlmJinja *self, LlmJinjaCall *call)
{
  const LlmJinjaValue *subject = &call->subject;
  LlmJinjaOrigin origin = llm_jinja_get_origin (subject);
  char copy[64];
  char *end;
  double number;

  if (call->arg[1].integer != 10)
    llm_jinja_fail (self, "“int” with a base other than 10 is not supported");
  if (subject->type == LLM_JINJA_INT)
    return *subject;
  if (subject->type == LLM_JINJA_STRING && copy_number (&subject->string, copy))
    {
      gint64 integer = g_ascii_strtoll (copy, &end, 10);

      if (*end == '\0' && end > copy && strlen (copy) < 19)
        return llm_jinja_int (integer, origin);
    }
  if (!read_float (subject, &number) || !isfinite (number))
    return llm_jinja_arg_given (&call->arg[0]) ? call->arg[0] : llm_jinja_int (0, 0);
  if (fabs (number) >= 9e18)
    llm_jinja_fail (self, "an integer is too large");
  return llm_jinja_int ((gint64) number, origin);
}

static LlmJinjaValue
run_float (LlmJinja *self, LlmJinjaCall *call)
{
  double number;

  if (read_float (&call->subject, &number))
    return llm_jinja_float (number, llm_jinja_get_origin (&call->subject));
  return llm_jinja_arg_given (&call->arg[0]) ? call->arg[0] : llm_jinja_float (0, 0);
}

static LlmJinjaValue
run_abs (LlmJinja *self, LlmJinjaCall *call)
{
  const LlmJinjaValue *subject = &call->subject;
  gint64 integer;

  if (subject->type == LLM_JINJA_FLOAT)
    return llm_jinja_float (fabs (subject->number), subject->origin);
  integer = llm_jinja_need_int (self, "abs", subject);
  if (integer == G_MININT64)
    llm_jinja_fail (self, "an integer is too large");
  return llm_jinja_int (ABS (integer), subject->origin);
}

/* As %.f of printf() rounds, which is how Python does, or up or down. */
static LlmJinjaValue
run_round (LlmJinja *self, LlmJinjaCall *call)
{
  const LlmJinjaValue *subject = &call->subject;
  const LlmJinjaValue *method = &call->arg[1];
  gint64 precision = call->arg[0].integer;
  char format[16], digits[400];

  if (precision < 0 || precision > 15)
    llm_jinja_fail (self, "“round” to fewer than 0 or more than 15 digits is not supported");
  if (method->type == LLM_JINJA_STRING && !llm_jinja_string_is (&method->string, "common"))
    {
      gboolean is_ceil = llm_jinja_string_is (&method->string, "ceil");
      double scale = pow (10, (double) precision);
      double scaled = llm_jinja_get_number (subject) * scale;

      if (!llm_jinja_is_number (subject) || (!is_ceil && !llm_jinja_string_is (&method->string, "floor")))
        llm_jinja_fail (self, "“round” takes a number, and the methods common, ceil and floor");
      return llm_jinja_float ((is_ceil ? ceil (scaled) : floor (scaled)) / scale, subject->origin);
    }
  if (subject->type != LLM_JINJA_FLOAT)
    return llm_jinja_int (llm_jinja_need_int (self, "round", subject), subject->origin);
  g_snprintf (format, sizeof format, "%%.%df", (int) precision);
  g_ascii_formatd (digits, sizeof digits, format, subject->number);
  return llm_jinja_float (g_ascii_strtod (digits, NULL), subject->origin);
}

/* --- JSON --- */

/* Spaces for a number, the text itself, or nothing. */
static LlmJinjaValue
take_json_indent (LlmJinja *self, const LlmJinjaValue *indent)
{
  if (indent->type == LLM_JINJA_INT || indent->type == LLM_JINJA_BOOL)
    return llm_jinja_spaces (self, llm_jinja_need_int (self, "tojson", indent));
  if (indent->type != LLM_JINJA_STRING && indent->type != LLM_JINJA_NONE
      && llm_jinja_arg_given (indent))
    llm_jinja_fail (self, "“indent” of “tojson” is a number or a string");
  return *indent;
}

/* As transformers defines it: json.dumps(), nothing of HTML is escaped. */
static LlmJinjaValue
run_tojson (LlmJinja *self, LlmJinjaCall *call)
{
  LlmJinjaText *text = llm_jinja_text_new (self);
  LlmJinjaJsonStyle style = { .is_ascii = llm_jinja_is_true (&call->arg[0]),
                              .indent = take_json_indent (self, &call->arg[1]),
                              .sorts_keys = llm_jinja_is_true (&call->arg[3]) };

  style.item_separator = llm_jinja_string_new (self, ", ", 2, 0).string;
  style.key_separator = llm_jinja_string_new (self, ": ", 2, 0).string;
  if (style.indent.type == LLM_JINJA_STRING)
    style.item_separator.length = 1;
  if (llm_jinja_arg_given (&call->arg[2]) && call->arg[2].type != LLM_JINJA_NONE)
    {
      const LlmJinjaList *pair = llm_jinja_iterate (self, &call->arg[2]);

      if (pair->n_items != 2)
        llm_jinja_fail (self, "“separators” of “tojson” are two strings");
      style.item_separator = *llm_jinja_need_string (self, "tojson", &pair->items[0]);
      style.key_separator = *llm_jinja_need_string (self, "tojson", &pair->items[1]);
    }
  llm_jinja_print_json (self, text, &call->subject, &style);
  return llm_jinja_text_end (text);
}

#define NONE { { NULL, 0, 0 } }
#define FILTER LLM_JINJA_IS_FILTER
#define AS_TEXT (LLM_JINJA_IS_FILTER | LLM_JINJA_AS_TEXT)

const LlmJinjaBuiltin llm_jinja_builtins_of_values[] = {
  { "abs", FILTER, run_abs, 0, NONE },
  { "count", FILTER, run_length, 0, NONE },
  { "d", FILTER, run_default, 0, { { .name = "default_value" }, { .name = "boolean" } } },
  { "default", FILTER, run_default, 0, { { .name = "default_value" }, { .name = "boolean" } } },
  { "e", AS_TEXT, run_escape, 0, NONE },
  { "escape", AS_TEXT, run_escape, 0, NONE },
  { "float", FILTER, run_float, 0, { { .name = "default" } } },
  { "forceescape", AS_TEXT, run_escape, ALWAYS, NONE },
  { "int", FILTER, run_int, 0, { { .name = "default" },
                                 { "base", LLM_JINJA_TAKE_INT, 10 } } },
  { "length", FILTER, run_length, 0, NONE },
  { "round", FILTER, run_round, 0, { { "precision", LLM_JINJA_TAKE_INT, 0 },
                                     { "method", LLM_JINJA_TAKE_TEXT_OR_NONE, 0 } } },
  { "safe", AS_TEXT, run_safe, 0, NONE },
  { "string", AS_TEXT, run_string, 0, NONE },
  { "tojson", FILTER, run_tojson, 0, { { .name = "ensure_ascii" }, { .name = "indent" },
                                       { .name = "separators" }, { .name = "sort_keys" } } },
  { NULL, 0, NULL, 0, NONE },
};
