/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* str.format() with fields without a format of their own, and the operator % with its plain
 * fields. Others are refused. */

#include "template/jinja/builtins/llm-jinja-builtins.h"

#include <math.h>
#include <string.h>

typedef struct
{
  LlmJinja *jinja;
  const LlmJinjaString *format;
  gsize at;
  LlmJinjaText *text;
} Reader;

static char
peek (const Reader *self)
{
  return self->at < self->format->length ? self->format->bytes[self->at] : '\0';
}

/* Writes what lies before the next of @signs, and one that stands twice; FALSE at the end. */
static gboolean
skip_to (Reader *self, const char *signs)
{
  while (self->at < self->format->length)
    {
      gsize at = self->at;
      gboolean is_sign = strchr (signs, peek (self)) != NULL && peek (self) != '\0';

      self->at++;
      if (is_sign && peek (self) != self->format->bytes[at])
        return TRUE;
      self->at += is_sign;
      llm_jinja_text_add_part (self->jinja, self->text, self->format, at, at + 1);
    }
  return FALSE;
}

static void
add_text (Reader *self, const LlmJinjaValue *value)
{
  LlmJinjaValue string = llm_jinja_to_string (self->jinja, value);

  llm_jinja_text_add (self->jinja, self->text, &string.string);
}

/* --- str.format() --- */

/* The argument of “name”, “0” or “”. */
static const LlmJinjaValue *
find_argument (Reader *self, const LlmJinjaArgs *args, const LlmJinjaString *name, guint *next)
{
  guint n_positions = args->n_values - args->n_names;
  guint index = *next;

  if (name->length == 0)
    (*next)++;
  else if (g_ascii_isdigit (*name->bytes))
    index = name->length == 1 ? (guint) (*name->bytes - '0') : G_MAXUINT;
  else
    index = G_MAXUINT;
  if (index < n_positions)
    return &args->values[index];
  for (guint i = 0; i < args->n_names; i++)
    if (llm_jinja_string_is (name, args->names[i]))
      return &args->values[n_positions + i];
  llm_jinja_fail (self->jinja, "“format” has no argument “%.*s”; fields are {}, {0} to {9} or {name}",
                  (int) MIN (60, name->length), name->bytes);
}

LlmJinjaValue
llm_jinja_format (LlmJinja *self, LlmJinjaCall *call)
{
  const LlmJinjaString *format = &call->subject.string;
  Reader reader = { self, format, 0, llm_jinja_text_new (self) };
  guint next = 0;

  if (call->subject.is_html)
    llm_jinja_fail (self, "“format” of a “safe” string is not supported");
  while (skip_to (&reader, "{}"))
    {
      gsize start = reader.at;
      LlmJinjaValue name;

      if (format->bytes[start - 1] == '}')
        llm_jinja_fail (self, "a format has a “}” too many");
      while (peek (&reader) != '}' && peek (&reader) != '\0')
        reader.at++;
      if (peek (&reader) == '\0')
        llm_jinja_fail (self, "a field of a format has no end");
      name = llm_jinja_string_cut (format, start, reader.at++);
      add_text (&reader, find_argument (&reader, call->args, &name.string, &next));
    }
  return llm_jinja_text_end (reader.text);
}

/* --- % --- */

/* %f with @n_digits behind the point, -1: as many as printf() has. */
static void
add_float (Reader *self, int n_digits, const LlmJinjaValue *value)
{
  char format[8] = "%f", digits[400];

  if (!isfinite (llm_jinja_get_number (value)))
    {
      add_text (self, value);
      return;
    }
  if (n_digits >= 0)
    g_snprintf (format, sizeof format, "%%.%df", n_digits);
  g_ascii_formatd (digits, sizeof digits, format, llm_jinja_get_number (value));
  llm_jinja_text_add_bytes (self->jinja, self->text, digits, strlen (digits), value->origin);
}

static void
add_field (Reader *self, const LlmJinjaValue *value)
{
  int n_digits = -1;
  char type = peek (self);

  if (type == '.' && self->at + 2 < self->format->length)
    {
      n_digits = g_ascii_digit_value (self->format->bytes[self->at + 1]);
      self->at += 2;
      type = n_digits >= 0 && peek (self) == 'f' ? 'f' : '\0';
    }
  self->at++;
  if (type == '\0' || strchr ("sdifr", type) == NULL)
    llm_jinja_fail (self->jinja, "this field of “%%” is not supported; %%s, %%r, %%d, %%f and"
                    " %%.0f to %%.9f are");
  if ((type == 'f' && !llm_jinja_is_number (value))
      || ((type == 'd' || type == 'i') && value->type != LLM_JINJA_INT))
    llm_jinja_fail (self->jinja, "a value of type %s can't be written with %%%c",
                    llm_jinja_type_name (value), type);
  if (type == 'f')
    add_float (self, n_digits, value);
  else if (type == 'r')
    llm_jinja_print_repr (self->jinja, self->text, value);
  else
    add_text (self, value);
}

LlmJinjaValue
llm_jinja_format_percent (LlmJinja *self, const LlmJinjaString *format, const LlmJinjaArgs *args)
{
  Reader reader = { self, format, 0, llm_jinja_text_new (self) };
  guint next = 0;

  if (args->n_names > 0)
    llm_jinja_fail (self, "“%%” with names is not supported");
  while (skip_to (&reader, "%"))
    {
      if (next >= args->n_values)
        llm_jinja_fail (self, "“%%” has too few values");
      add_field (&reader, &args->values[next++]);
    }
  if (next < args->n_values)
    llm_jinja_fail (self, "“%%” has too many values");
  return llm_jinja_text_end (reader.text);
}
