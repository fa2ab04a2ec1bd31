/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Finds filters; those of single values. */

#include "template/jinja/llm-jinja-private.h"

#include <math.h>
#include <string.h>

static LlmJinjaBuiltin
find_filter (const char *name)
{
  const LlmJinjaBuiltinEntry *const tables[] = {
    llm_jinja_filters_of_values, llm_jinja_filters_of_text, llm_jinja_filters_of_lists,
    llm_jinja_filters_of_picks,
  };

  for (guint t = 0; t < G_N_ELEMENTS (tables); t++)
    for (guint i = 0; tables[t][i].name != NULL; i++)
      if (strcmp (tables[t][i].name, name) == 0)
        return tables[t][i].run;
  return NULL;
}

LlmJinjaValue
llm_jinja_run_filter (LlmJinja            *self,
                      const char          *name,
                      const LlmJinjaValue *subject,
                      const LlmJinjaArgs  *args)
{
  LlmJinjaBuiltin filter = find_filter (name);

  if (filter == NULL)
    llm_jinja_fail (self, "the filter “%.60s” is not supported", name);
  llm_jinja_charge (self, subject, 1);
  llm_jinja_charge (self, args->values, args->n_values);
  return filter (self, subject, args);
}

#define TAKE(function, n_needed, ...)                                                 \
  static const char *const names[] = { __VA_ARGS__, NULL };                           \
  LlmJinjaValue arg[G_N_ELEMENTS (names)];                                            \
  llm_jinja_args_take (self, function, args, n_needed, names, arg)

static void
take_none (LlmJinja           *self,
           const char         *function,
           const LlmJinjaArgs *args)
{
  static const char *const names[] = { NULL };

  llm_jinja_args_take (self, function, args, 0, names, NULL);
}

static LlmJinjaValue
filter_default (LlmJinja            *self,
                const LlmJinjaValue *subject,
                const LlmJinjaArgs  *args)
{
  TAKE ("default", 0, "default_value", "boolean");

  if (subject->type != LLM_JINJA_UNDEFINED
      && (!llm_jinja_is_true (&arg[1]) || llm_jinja_is_true (subject)))
    return *subject;
  return llm_jinja_arg_given (&arg[0]) ? arg[0] : llm_jinja_string_new (self, "", 0, 0);
}

static LlmJinjaValue
filter_string (LlmJinja            *self,
               const LlmJinjaValue *subject,
               const LlmJinjaArgs  *args)
{
  take_none (self, "string", args);
  return llm_jinja_to_string (self, subject);
}

static LlmJinjaValue
filter_safe (LlmJinja            *self,
             const LlmJinjaValue *subject,
             const LlmJinjaArgs  *args)
{
  LlmJinjaValue value = llm_jinja_to_string (self, subject);

  take_none (self, "safe", args);
  value.is_html = TRUE;
  return value;
}

static LlmJinjaValue
filter_escape (LlmJinja            *self,
               const LlmJinjaValue *subject,
               const LlmJinjaArgs  *args)
{
  take_none (self, "escape", args);
  return llm_jinja_string_escape (self, subject);
}

static LlmJinjaValue
filter_forceescape (LlmJinja            *self,
                    const LlmJinjaValue *subject,
                    const LlmJinjaArgs  *args)
{
  LlmJinjaValue value = llm_jinja_to_string (self, subject);

  take_none (self, "forceescape", args);
  value.is_html = FALSE;
  return llm_jinja_string_escape (self, &value);
}

static LlmJinjaValue
filter_length (LlmJinja            *self,
               const LlmJinjaValue *subject,
               const LlmJinjaArgs  *args)
{
  gint64 length;

  take_none (self, "length", args);
  if (!llm_jinja_get_length (self, subject, &length))
    llm_jinja_fail (self, "a value of type %s has no length", llm_jinja_type_name (subject));
  return llm_jinja_int (length, subject->type == LLM_JINJA_STRING && length > 0
                                ? subject->string.origins[0] : subject->origin);
}

/* The text between spaces, for numbers; FALSE if it is too long to be one. */
static gboolean
copy_number (const LlmJinjaString *string,
             char                  copy[64])
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
read_float (const LlmJinjaValue *value,
            double              *number)
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

static LlmJinjaOrigin
get_origin (const LlmJinjaValue *value)
{
  return value->type == LLM_JINJA_STRING && value->string.length > 0 ? value->string.origins[0]
                                                                     : value->origin;
}

static LlmJinjaValue
filter_int (LlmJinja            *self,
            const LlmJinjaValue *subject,
            const LlmJinjaArgs  *args)
{
  TAKE ("int", 0, "default", "base");
  char copy[64];
  char *end;
  double number;
  int base = 10;

  if (llm_jinja_arg_given (&arg[1]))
    base = (int) CLAMP (llm_jinja_need_int (self, "int", &arg[1]), 1, 37);
  if (base < 2 || base > 36 || (base != 10 && subject->type == LLM_JINJA_STRING))
    llm_jinja_fail (self, "“int” with a base other than 10 is not supported");
  if (subject->type == LLM_JINJA_INT)
    return *subject;
  if (subject->type == LLM_JINJA_STRING && copy_number (&subject->string, copy))
    {
      gint64 integer;

      integer = g_ascii_strtoll (copy, &end, 10);
      if (*end == '\0' && end > copy && strlen (copy) < 19)
        return llm_jinja_int (integer, get_origin (subject));
    }
  if (read_float (subject, &number) && isfinite (number))
    {
      if (fabs (number) >= 9e18)
        llm_jinja_fail (self, "an integer is too large");
      return llm_jinja_int ((gint64) number, get_origin (subject));
    }
  return llm_jinja_arg_given (&arg[0]) ? arg[0] : llm_jinja_int (0, 0);
}

static LlmJinjaValue
filter_float (LlmJinja            *self,
              const LlmJinjaValue *subject,
              const LlmJinjaArgs  *args)
{
  TAKE ("float", 0, "default");
  double number;

  if (read_float (subject, &number))
    return llm_jinja_float (number, get_origin (subject));
  return llm_jinja_arg_given (&arg[0]) ? arg[0] : llm_jinja_float (0, 0);
}

static LlmJinjaValue
filter_abs (LlmJinja            *self,
            const LlmJinjaValue *subject,
            const LlmJinjaArgs  *args)
{
  take_none (self, "abs", args);
  if (subject->type == LLM_JINJA_FLOAT)
    return llm_jinja_float (fabs (subject->number), subject->origin);
  {
    gint64 integer = llm_jinja_need_int (self, "abs", subject);

    if (integer == G_MININT64)
      llm_jinja_fail (self, "an integer is too large");
    return llm_jinja_int (ABS (integer), subject->origin);
  }
}

static LlmJinjaValue
filter_round (LlmJinja            *self,
              const LlmJinjaValue *subject,
              const LlmJinjaArgs  *args)
{
  TAKE ("round", 0, "precision", "method");
  gint64 precision = llm_jinja_arg_given (&arg[0])
                       ? llm_jinja_need_int (self, "round", &arg[0]) : 0;
  const LlmJinjaString *method = llm_jinja_arg_given (&arg[1])
                                   ? llm_jinja_need_string (self, "round", &arg[1]) : NULL;
  double number, scale;

  if (!llm_jinja_is_number (subject))
    llm_jinja_fail (self, "“round” needs a number");
  if (precision < 0 || precision > 15)
    llm_jinja_fail (self, "“round” to fewer than 0 or more than 15 digits is not supported");
  number = llm_jinja_get_number (subject);
  scale = pow (10, (double) precision);
  if (method == NULL || llm_jinja_string_is (method, "common"))
    {
      char format[16], digits[400];

      if (subject->type != LLM_JINJA_FLOAT)
        return llm_jinja_int (llm_jinja_need_int (self, "round", subject), subject->origin);
      g_snprintf (format, sizeof format, "%%.%df", (int) precision);
      g_ascii_formatd (digits, sizeof digits, format, number);
      return llm_jinja_float (g_ascii_strtod (digits, NULL), subject->origin);
    }
  if (llm_jinja_string_is (method, "ceil"))
    return llm_jinja_float (ceil (number * scale) / scale, subject->origin);
  if (llm_jinja_string_is (method, "floor"))
    return llm_jinja_float (floor (number * scale) / scale, subject->origin);
  llm_jinja_fail (self, "“round” has the methods common, ceil and floor");
}

static LlmJinjaValue
filter_attr (LlmJinja            *self,
             const LlmJinjaValue *subject,
             const LlmJinjaArgs  *args)
{
  TAKE ("attr", 1, "name");
  const LlmJinjaString *name = llm_jinja_need_string (self, "attr", &arg[0]);
  char copy[64];

  if (name->length >= sizeof copy)
    return llm_jinja_undefined ("attr");
  memcpy (copy, name->length > 0 ? name->bytes : "", name->length);
  copy[name->length] = '\0';
  if (subject->type == LLM_JINJA_NAMESPACE)
    return llm_jinja_get_attribute (self, subject, copy);
  return llm_jinja_find_method (self, subject, copy);
}

/* As transformers defines it: json.dumps(), nothing of HTML is escaped. */
static LlmJinjaValue
filter_tojson (LlmJinja            *self,
               const LlmJinjaValue *subject,
               const LlmJinjaArgs  *args)
{
  TAKE ("tojson", 0, "ensure_ascii", "indent", "separators", "sort_keys");
  LlmJinjaText *text = llm_jinja_text_new (self);
  LlmJinjaJsonStyle style = { .is_ascii = llm_jinja_is_true (&arg[0]),
                              .sorts_keys = llm_jinja_is_true (&arg[3]),
                              .indent = arg[1] };
  LlmJinjaValue item = llm_jinja_string_new (self, ", ", 2, 0);
  LlmJinjaValue key = llm_jinja_string_new (self, ": ", 2, 0);

  if (style.indent.type == LLM_JINJA_INT || style.indent.type == LLM_JINJA_BOOL)
    {
      gint64 n = llm_jinja_need_int (self, "tojson", &style.indent);
      LlmJinjaValue space = llm_jinja_string_new (self, " ", 1, 0);
      LlmJinjaValue width = llm_jinja_int (CLAMP (n, 0, 256), 0);

      style.indent = llm_jinja_calculate (self, LLM_JINJA_OP_MUL, &space, &width);
    }
  else if (style.indent.type != LLM_JINJA_STRING && style.indent.type != LLM_JINJA_NONE
           && llm_jinja_arg_given (&style.indent))
    {
      llm_jinja_fail (self, "“indent” of “tojson” is a number or a string");
    }
  style.item_separator = item.string;
  style.key_separator = key.string;
  if (style.indent.type == LLM_JINJA_STRING)
    style.item_separator.length = 1;
  if (llm_jinja_arg_given (&arg[2]) && arg[2].type != LLM_JINJA_NONE)
    {
      const LlmJinjaList *pair = llm_jinja_iterate (self, &arg[2]);

      if (pair->n_items != 2)
        llm_jinja_fail (self, "“separators” of “tojson” are two strings");
      style.item_separator = *llm_jinja_need_string (self, "tojson", &pair->items[0]);
      style.key_separator = *llm_jinja_need_string (self, "tojson", &pair->items[1]);
    }
  llm_jinja_print_json (self, text, subject, &style);
  return llm_jinja_text_end (text);
}

const LlmJinjaBuiltinEntry llm_jinja_filters_of_values[] = {
  { "abs", filter_abs },
  { "attr", filter_attr },
  { "count", filter_length },
  { "d", filter_default },
  { "default", filter_default },
  { "e", filter_escape },
  { "escape", filter_escape },
  { "float", filter_float },
  { "forceescape", filter_forceescape },
  { "int", filter_int },
  { "length", filter_length },
  { "round", filter_round },
  { "safe", filter_safe },
  { "string", filter_string },
  { "tojson", filter_tojson },
  { NULL, NULL },
};
