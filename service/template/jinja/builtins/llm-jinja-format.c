/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* str.format() with fields without a format of their own, and the operator %: numbers with sign,
 * width and precision, texts as they are. Other fields are refused. */

#include "template/jinja/builtins/llm-jinja-builtins.h"

#include <math.h>
#include <string.h>

#define MAX_EXACT 9e15

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
skip_to (Reader     *self,
         const char *signs)
{
  while (self->at < self->format->length)
    {
      gsize at = self->at;
      gboolean is_sign = strchr (signs, peek (self)) != NULL && peek (self) != '\0';
      LlmJinjaValue byte = llm_jinja_string_cut (self->format, at, at + 1);

      self->at++;
      if (is_sign && peek (self) != *byte.string.bytes)
        return TRUE;
      self->at += is_sign;
      llm_jinja_text_add (self->jinja, self->text, &byte.string);
    }
  return FALSE;
}

static void
add_text (Reader              *self,
          const LlmJinjaValue *value)
{
  LlmJinjaValue string = llm_jinja_to_string (self->jinja, value);

  llm_jinja_text_add (self->jinja, self->text, &string.string);
}

/* --- str.format() --- */

/* The argument of “name”, “0” or “”. */
static const LlmJinjaValue *
find_argument (Reader               *self,
               const LlmJinjaArgs   *args,
               const LlmJinjaString *name,
               guint                *next)
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
llm_jinja_format (LlmJinja     *self,
                  LlmJinjaCall *call)
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

G_NORETURN static void
fail_field (Reader *self)
{
  llm_jinja_fail (self->jinja, "this field of “%%” is not supported: numbers have %%d or %%.2f with a"
                  " sign and up to three digits of width and precision, texts %%s");
}

/* Moves at most @max characters of @set behind @flags. */
static void
take_flags (Reader     *self,
            char       *flags,
            const char *set,
            guint       max)
{
  gsize n = strlen (flags);

  for (; max > 0 && peek (self) != '\0' && strchr (set, peek (self)) != NULL; max--)
    flags[n++] = self->format->bytes[self->at++];
  flags[n] = '\0';
}

/* What printf() takes between “%” and the type. */
static void
read_flags (Reader *self,
            char    flags[16])
{
  strcpy (flags, "%");
  take_flags (self, flags, "-+0", 3);
  take_flags (self, flags, "0123456789", 3);
  take_flags (self, flags, ".", 1);
  if (flags[strlen (flags) - 1] == '.')
    take_flags (self, flags, "0123456789", 3);
}

/* Whole numbers with a width are printed as doubles, which have all of them up to MAX_EXACT. */
static void
add_number (Reader              *self,
            const char          *flags,
            gboolean             is_float,
            const LlmJinjaValue *value)
{
  char digits[1400], format[24];
  double number;

  if (!llm_jinja_is_number (value))
    llm_jinja_fail (self->jinja, "a value of type %s can't be formatted as a number",
                    llm_jinja_type_name (value));
  number = llm_jinja_get_number (value);
  if (!is_float && value->type == LLM_JINJA_FLOAT)
    llm_jinja_fail (self->jinja, "a float can't be formatted as an integer here");
  if (is_float ? !isfinite (number) : flags[1] == '\0')
    {
      LlmJinjaValue whole = is_float ? *value : llm_jinja_int (
        llm_jinja_need_int (self->jinja, "%", value), value->origin);

      add_text (self, &whole);
      return;
    }
  if (!is_float && (fabs (number) > MAX_EXACT || strchr (flags, '.') != NULL))
    fail_field (self);
  g_snprintf (format, sizeof format, "%s%s", flags, is_float ? "f" : ".0f");
  g_ascii_formatd (digits, sizeof digits, format, number);
  llm_jinja_text_add_bytes (self->jinja, self->text, digits, strlen (digits), value->origin);
}

static void
add_field (Reader              *self,
           const LlmJinjaValue *value)
{
  char flags[16];
  char type;

  read_flags (self, flags);
  type = peek (self);
  self->at++;
  if (type == 'd' || type == 'i' || type == 'f')
    add_number (self, flags, type == 'f', value);
  else if ((type != 's' && type != 'r') || flags[1] != '\0')
    fail_field (self);
  else if (type == 's')
    add_text (self, value);
  else
    llm_jinja_print_repr (self->jinja, self->text, value);
}

LlmJinjaValue
llm_jinja_format_percent (LlmJinja             *self,
                          const LlmJinjaString *format,
                          const LlmJinjaArgs   *args)
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
