/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* str.format() and the operator %, with the widths and digits that templates use. Others are
 * refused. */

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

/* --- fields --- */

typedef struct
{
  char align;               /* “-” and “<”: to the left */
  gboolean has_zeros;       /* before a number */
  gint64 width;             /* of at most three digits */
  int n_digits;             /* behind the point; -1: as many as printf() has */
  char type;
} Field;

/* [align][0][width][.digits][type], with one of @aligns. */
static Field
read_field (Reader *self, const char *aligns)
{
  Field field = { .n_digits = -1 };

  if (peek (self) != '\0' && strchr (aligns, peek (self)) != NULL)
    field.align = self->format->bytes[self->at++];
  field.has_zeros = peek (self) == '0';
  for (; g_ascii_isdigit (peek (self)) && field.width < 100; self->at++)
    field.width = field.width * 10 + g_ascii_digit_value (peek (self));
  if (peek (self) == '.')
    {
      self->at++;
      field.n_digits = g_ascii_digit_value (peek (self));
      self->at += field.n_digits >= 0;
    }
  if (g_ascii_isalpha (peek (self)))
    field.type = self->format->bytes[self->at++];
  return field;
}

static LlmJinjaValue
write_value (LlmJinja *self, const Field *field, const LlmJinjaValue *value)
{
  LlmJinjaText *text = llm_jinja_text_new (self);
  char format[8] = "%f", digits[400];

  if (field->type == 'r')
    {
      llm_jinja_print_repr (self, text, value);
      return llm_jinja_text_end (text);
    }
  if (field->type != 'f' || !isfinite (llm_jinja_get_number (value)))
    return llm_jinja_to_string (self, value);
  if (field->n_digits >= 0)
    g_snprintf (format, sizeof format, "%%.%df", field->n_digits);
  g_ascii_formatd (digits, sizeof digits, format, llm_jinja_get_number (value));
  return llm_jinja_string_new (self, digits, strlen (digits), value->origin);
}

/* What pads a value is the template's. */
static void
add_field (Reader *self, const Field *field, const LlmJinjaValue *value)
{
  gboolean is_left = field->align == '-' || field->align == '<';
  gboolean has_zeros = field->has_zeros && !is_left && field->type != 's' && field->type != 'r';
  LlmJinjaString string;
  gsize n_sign;

  if ((field->n_digits >= 0 && field->type != 'f')
      || (field->type == 'f' && !llm_jinja_is_number (value))
      || ((field->type == 'd' || field->type == 'i') && value->type != LLM_JINJA_INT))
    llm_jinja_fail (self->jinja, "a value of type %s can't be written so",
                    llm_jinja_type_name (value));
  string = write_value (self->jinja, field, value).string;
  n_sign = has_zeros && string.length > 0 && *string.bytes == '-';
  llm_jinja_text_add_part (self->jinja, self->text, &string, 0, n_sign);
  if (is_left)
    llm_jinja_text_add (self->jinja, self->text, &string);
  for (gint64 n = (gint64) llm_jinja_string_count (&string); n < field->width; n++)
    llm_jinja_text_add_bytes (self->jinja, self->text, has_zeros ? "0" : " ", 1, 0);
  if (!is_left)
    llm_jinja_text_add_part (self->jinja, self->text, &string, n_sign, string.length);
}

/* --- str.format() --- */

/* A field with a format of its own, where Python has the rules of “%” for it. */
static void
add_formatted (Reader *self, const LlmJinjaValue *value)
{
  Field field = read_field (self, "<>");
  gboolean is_text = value->type == LLM_JINJA_STRING;

  if ((!is_text && value->type != LLM_JINJA_INT && value->type != LLM_JINJA_FLOAT)
      || (field.type != '\0' && strchr (is_text ? "s" : "df", field.type) == NULL)
      || (field.has_zeros && (is_text || field.align != '\0')))
    llm_jinja_fail (self->jinja, "this format of a value of type %s is not supported",
                    llm_jinja_type_name (value));
  field.align = is_text && field.align == '\0' ? '<' : field.align;
  add_field (self, &field, value);
}

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
      const LlmJinjaValue *value;
      LlmJinjaValue name;

      if (format->bytes[start - 1] == '}')
        llm_jinja_fail (self, "a format has a “}” too many");
      while (peek (&reader) != '\0' && strchr ("}:", peek (&reader)) == NULL)
        reader.at++;
      name = llm_jinja_string_cut (format, start, reader.at);
      value = find_argument (&reader, call->args, &name.string, &next);
      reader.at += peek (&reader) == ':';
      if (peek (&reader) == '}')
        add_text (&reader, value);
      else
        add_formatted (&reader, value);
      if (peek (&reader) != '}')
        llm_jinja_fail (self, "a field of a format has no end, or is not supported");
      reader.at++;
    }
  return llm_jinja_text_end (reader.text);
}

/* --- % --- */

LlmJinjaValue
llm_jinja_format_percent (LlmJinja *self, const LlmJinjaString *format, const LlmJinjaArgs *args)
{
  Reader reader = { self, format, 0, llm_jinja_text_new (self) };
  guint next = 0;

  if (args->n_names > 0)
    llm_jinja_fail (self, "“%%” with names is not supported");
  while (skip_to (&reader, "%"))
    {
      Field field = read_field (&reader, "-");

      if (field.type == '\0' || strchr ("sdifr", field.type) == NULL)
        llm_jinja_fail (self, "this field of “%%” is not supported; s, r, d, f, a width and digits are");
      if (next >= args->n_values)
        llm_jinja_fail (self, "“%%” has too few values");
      add_field (&reader, &field, &args->values[next++]);
    }
  if (next < args->n_values)
    llm_jinja_fail (self, "“%%” has too many values");
  return llm_jinja_text_end (reader.text);
}
