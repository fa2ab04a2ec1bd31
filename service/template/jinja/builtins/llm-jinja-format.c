/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* str.format() and the operator %: fields by position or name, with fill, alignment, width,
 * precision and the types s, d, f and r. Others are refused. */

#include "template/jinja/llm-jinja-private.h"

#include <math.h>
#include <string.h>

#define MAX_WIDTH 1000

typedef struct
{
  LlmJinjaString fill;      /* one character; empty: a space, or 0 */
  char align;               /* < > ^, or 0 */
  gboolean has_zeros;
  gboolean has_sign;
  gint64 width;             /* -1: none, as precision */
  gint64 precision;
  char type;                /* 0: none */
} Spec;

static void
print_padded (LlmJinja            *self,
              LlmJinjaText        *text,
              const Spec          *spec,
              const LlmJinjaValue *value,
              gboolean             is_number)
{
  gint64 n = (gint64) llm_jinja_string_count (&value->string);
  gint64 padding = MAX (0, spec->width - n);
  char align = spec->align != 0 ? spec->align : is_number ? '>' : '<';
  gint64 left = align == '>' ? padding : align == '^' ? padding / 2 : 0;
  LlmJinjaValue zero = llm_jinja_string_new (self, spec->has_zeros ? "0" : " ", 1, 0);
  const LlmJinjaString *fill = spec->fill.length > 0 ? &spec->fill : &zero.string;
  LlmJinjaValue rest = *value;

  if (spec->has_zeros && spec->align == 0 && value->string.length > 0
      && (value->string.bytes[0] == '-' || value->string.bytes[0] == '+'))
    {
      /* zeros go behind the sign */
      LlmJinjaValue sign = llm_jinja_string_cut (&value->string, 0, 1);

      llm_jinja_text_add (self, text, &sign.string);
      rest = llm_jinja_string_cut (&value->string, 1, value->string.length);
    }
  for (gint64 i = 0; i < left; i++)
    llm_jinja_text_add (self, text, fill);
  llm_jinja_text_add (self, text, &rest.string);
  for (gint64 i = left; i < padding; i++)
    llm_jinja_text_add (self, text, fill);
}

static LlmJinjaValue
print_number (LlmJinja            *self,
              const Spec          *spec,
              const LlmJinjaValue *value)
{
  char digits[400], format[16];

  if (!llm_jinja_is_number (value))
    llm_jinja_fail (self, "a value of type %s can't be formatted as a number",
                    llm_jinja_type_name (value));
  if (spec->type == 'f')
    {
      double number = llm_jinja_get_number (value);

      if (!isfinite (number))
        return llm_jinja_to_string (self, value);
      g_snprintf (format, sizeof format, "%%%s.%df", spec->has_sign ? "+" : "",
                  spec->precision < 0 ? 6 : (int) MIN (spec->precision, 40));
      g_ascii_formatd (digits, sizeof digits, format, number);
    }
  else if (value->type == LLM_JINJA_FLOAT)
    {
      llm_jinja_fail (self, "a float can't be formatted as an integer here");
    }
  else
    {
      g_snprintf (digits, sizeof digits,
                  spec->has_sign ? "%+" G_GINT64_FORMAT : "%" G_GINT64_FORMAT,
                  llm_jinja_need_int (self, "format", value));
    }
  return llm_jinja_string_new (self, digits, strlen (digits), value->origin);
}

static void
print_field (LlmJinja            *self,
             LlmJinjaText        *text,
             const Spec          *spec,
             const LlmJinjaValue *value)
{
  gboolean is_number = spec->type == 'd' || spec->type == 'f';
  LlmJinjaValue printed;

  if (spec->type == 'r')
    {
      LlmJinjaText *repr = llm_jinja_text_new (self);

      llm_jinja_print_repr (self, repr, value);
      printed = llm_jinja_text_end (repr);
    }
  else if (is_number)
    {
      printed = print_number (self, spec, value);
    }
  else
    {
      printed = llm_jinja_to_string (self, value);
      if (llm_jinja_is_number (value) && value->type != LLM_JINJA_BOOL && spec->type == 0)
        is_number = TRUE;
    }
  if (!is_number && spec->precision >= 0)
    printed = llm_jinja_string_cut (&printed.string, 0,
                                    llm_jinja_string_offset (&printed.string,
                                                             (gsize) spec->precision));
  print_padded (self, text, spec, &printed, is_number);
}

/* --- str.format() --- */

typedef struct
{
  LlmJinja *jinja;
  const LlmJinjaString *format;
  gsize at;
} Reader;

static char
peek (const Reader *self)
{
  return self->at < self->format->length ? self->format->bytes[self->at] : '\0';
}

static gint64
read_integer (Reader *self)
{
  gint64 integer = -1;

  while (g_ascii_isdigit (peek (self)))
    {
      integer = MAX (integer, 0) * 10 + (peek (self) - '0');
      if (integer > MAX_WIDTH)
        llm_jinja_fail (self->jinja, "a number in a format is too large");
      self->at++;
    }
  return integer;
}

static void
read_spec (Reader *self,
           Spec   *spec)
{
  LlmJinjaValue rest = llm_jinja_string_cut (self->format, self->at, self->format->length);
  gsize n = llm_jinja_string_offset (&rest.string, 1);

  if (n < rest.string.length && n > 0 && strchr ("<>^", rest.string.bytes[n]) != NULL)
    {
      spec->fill = llm_jinja_string_cut (&rest.string, 0, n).string;
      spec->align = rest.string.bytes[n];
      self->at += n + 1;
    }
  else if (peek (self) != '\0' && strchr ("<>^", peek (self)) != NULL)
    {
      spec->align = peek (self);
      self->at++;
    }
  if (peek (self) == '+')
    {
      spec->has_sign = TRUE;
      self->at++;
    }
  spec->has_zeros = peek (self) == '0';
  spec->width = read_integer (self);
  if (peek (self) == '.')
    {
      self->at++;
      spec->precision = read_integer (self);
    }
  if (peek (self) != '\0' && strchr ("sdf", peek (self)) != NULL)
    {
      spec->type = peek (self);
      self->at++;
    }
}

/* The argument of “{name}”, “{0}” or “{}”. */
static const LlmJinjaValue *
read_name (Reader             *self,
           const LlmJinjaArgs *args,
           guint              *next)
{
  guint n_positions = args->n_values - args->n_names;
  gsize start = self->at;
  LlmJinjaValue name;
  gint64 index = read_integer (self);

  if (index < 0 && (peek (self) == '}' || peek (self) == ':' || peek (self) == '!'))
    index = (*next)++;
  if (index >= 0)
    {
      if (index >= n_positions)
        llm_jinja_fail (self->jinja, "“format” has no argument %" G_GINT64_FORMAT, index);
      return &args->values[index];
    }
  while (g_ascii_isalnum (peek (self)) || peek (self) == '_')
    self->at++;
  name = llm_jinja_string_cut (self->format, start, self->at);
  for (guint i = 0; i < args->n_names; i++)
    if (llm_jinja_string_is (&name.string, args->names[i]))
      return &args->values[n_positions + i];
  llm_jinja_fail (self->jinja, "“format” has no argument “%.*s”",
                  (int) MIN (60, name.string.length), name.string.bytes);
}

LlmJinjaValue
llm_jinja_format (LlmJinja            *self,
                  const LlmJinjaValue *subject,
                  const LlmJinjaArgs  *args)
{
  Reader reader = { self, &subject->string, 0 };
  LlmJinjaText *text = llm_jinja_text_new (self);
  guint next = 0;

  if (subject->is_html)
    llm_jinja_fail (self, "“format” of a “safe” string is not supported");
  while (reader.at < reader.format->length)
    {
      char c = peek (&reader);
      Spec spec = { .width = -1, .precision = -1 };
      const LlmJinjaValue *value;

      if ((c != '{' && c != '}') || (reader.at + 1 < reader.format->length
                                     && reader.format->bytes[reader.at + 1] == c))
        {
          LlmJinjaValue byte = llm_jinja_string_cut (reader.format, reader.at, reader.at + 1);

          llm_jinja_text_add (self, text, &byte.string);
          reader.at += c == '{' || c == '}' ? 2 : 1;
          continue;
        }
      reader.at++;
      if (c == '}')
        llm_jinja_fail (self, "a format has a “}” too many");
      value = read_name (&reader, args, &next);
      if (peek (&reader) == '!')
        {
          reader.at++;
          if (peek (&reader) != 'r' && peek (&reader) != 's')
            llm_jinja_fail (self, "this conversion in a format is not supported");
          spec.type = peek (&reader);
          reader.at++;
        }
      if (peek (&reader) == ':')
        {
          char conversion = spec.type;

          reader.at++;
          read_spec (&reader, &spec);
          if (conversion != 0 && spec.type != 0 && spec.type != 's')
            llm_jinja_fail (self, "this field of a format is not supported");
          if (conversion != 0)
            spec.type = conversion;
        }
      if (peek (&reader) != '}')
        llm_jinja_fail (self, "this field of a format is not supported");
      reader.at++;
      print_field (self, text, &spec, value);
    }
  return llm_jinja_text_end (text);
}

/* --- % --- */

LlmJinjaValue
llm_jinja_format_percent (LlmJinja             *self,
                          const LlmJinjaString *format,
                          const LlmJinjaArgs   *args)
{
  Reader reader = { self, format, 0 };
  LlmJinjaText *text = llm_jinja_text_new (self);
  guint next = 0;

  if (args->n_names > 0)
    llm_jinja_fail (self, "“%%” with names is not supported");
  while (reader.at < format->length)
    {
      Spec spec = { .width = -1, .precision = -1, .align = '>' };
      LlmJinjaValue byte = llm_jinja_string_cut (format, reader.at, reader.at + 1);

      reader.at++;
      if (byte.string.bytes[0] != '%' || peek (&reader) == '%')
        {
          reader.at += byte.string.bytes[0] == '%';
          llm_jinja_text_add (self, text, &byte.string);
          continue;
        }
      if (peek (&reader) == '-')
        {
          spec.align = '<';
          reader.at++;
        }
      if (peek (&reader) == '0')
        {
          spec.has_zeros = TRUE;
          spec.align = 0;
        }
      spec.width = read_integer (&reader);
      if (peek (&reader) == '.')
        {
          reader.at++;
          spec.precision = read_integer (&reader);
        }
      if (peek (&reader) == '\0' || strchr ("srdif", peek (&reader)) == NULL)
        llm_jinja_fail (self, "this field of “%%” is not supported");
      spec.type = peek (&reader) == 'i' ? 'd' : peek (&reader);
      reader.at++;
      if (next >= args->n_values)
        llm_jinja_fail (self, "“%%” has too few values");
      print_field (self, text, &spec, &args->values[next++]);
    }
  if (next < args->n_values)
    llm_jinja_fail (self, "“%%” has too many values");
  return llm_jinja_text_end (text);
}
