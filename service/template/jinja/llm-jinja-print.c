/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Values as text: str(), repr() and json.dumps() of Python. What is written for a value has the
 * value's origin, so a number of an app's data is the app's text too. */

#include "template/jinja/llm-jinja-private.h"

#include <math.h>
#include <string.h>

#include "tokenizer/llm-utf8.h"

static void
add (LlmJinja *self, LlmJinjaText *text, const char *bytes, LlmJinjaOrigin origin)
{
  llm_jinja_text_add_bytes (self, text, bytes, strlen (bytes), origin);
}

/* The fewest digits that read back as @number; an exponent below 1e-4 and from 1e16 on. */
static void
format_float (double number, char out[40])
{
  char format[8];
  char *exponent;
  int precision = -1;
  int shift;

  if (!isfinite (number))
    {
      strcpy (out, isnan (number) ? "nan" : number < 0 ? "-inf" : "inf");
      return;
    }
  do
    {
      g_snprintf (format, sizeof format, "%%.%de", ++precision);
      g_ascii_formatd (out, 40, format, number);
    }
  while (precision < 16 && g_ascii_strtod (out, NULL) != number);
  exponent = strchr (out, 'e');
  shift = (int) g_ascii_strtoll (exponent + 1, NULL, 10);
  if (shift < -4 || shift >= 16)
    return;
  g_snprintf (format, sizeof format, "%%.%df", MAX (1, precision - shift));
  g_ascii_formatd (out, 40, format, number);
}

/* A style is JSON's; without one, Python's own. */
typedef struct
{
  LlmJinja *jinja;
  LlmJinjaText *text;
  const LlmJinjaJsonStyle *style; /* (nullable) */
  guint level;
} Printer;

static void print (Printer *self, const LlmJinjaValue *value);

static void
print_scalar (Printer *self, const LlmJinjaValue *value)
{
  gboolean is_json = self->style != NULL;
  char buffer[40];
  const char *text = buffer;

  if (value->type == LLM_JINJA_NONE)
    text = is_json ? "null" : "None";
  else if (value->type == LLM_JINJA_BOOL)
    text = is_json ? (value->boolean ? "true" : "false") : (value->boolean ? "True" : "False");
  else if (value->type == LLM_JINJA_INT)
    g_snprintf (buffer, sizeof buffer, "%" G_GINT64_FORMAT, value->integer);
  else if (value->digits != NULL)
    text = value->digits;
  else if (is_json && !isfinite (value->number))
    text = isnan (value->number) ? "NaN" : value->number > 0 ? "Infinity" : "-Infinity";
  else
    format_float (value->number, buffer);
  add (self->jinja, self->text, text, value->origin);
}

/* --- strings --- */

/* What stands for @c; empty: itself. */
static void
escape_python (gunichar c, char quote, char escape[16])
{
  if (c == '\\' || c == (gunichar) quote)
    g_snprintf (escape, 16, "\\%c", (char) c);
  else if (c == '\n' || c == '\r' || c == '\t')
    g_snprintf (escape, 16, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
  else if (c != ' ' && (!g_unichar_isprint (c) || g_unichar_isspace (c)))
    g_snprintf (escape, 16, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
}

static void
escape_json (gunichar c, gboolean is_ascii, char escape[16])
{
  static const char plain[] = "\"\\\n\r\t\f\b", letters[] = "\"\\nrtfb";
  const char *known = c != 0 && c < 0x80 ? strchr (plain, (char) c) : NULL;

  if (known != NULL)
    g_snprintf (escape, 16, "\\%c", letters[known - plain]);
  else if (c >= 0x10000 && is_ascii)
    g_snprintf (escape, 16, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
                0xdc00 + ((c - 0x10000) & 0x3ff));
  else if (c < 0x20 || (c > 0x7f && is_ascii))
    g_snprintf (escape, 16, "\\u%04x", c);
}

static void
print_string (Printer *self, const LlmJinjaString *string, LlmJinjaOrigin origin)
{
  gboolean has_single = memchr (string->bytes, '\'', string->length) != NULL;
  gboolean has_double = memchr (string->bytes, '"', string->length) != NULL;
  const char *quote = self->style != NULL || (has_single && !has_double) ? "\"" : "'";
  gsize n, plain = 0;

  add (self->jinja, self->text, quote, origin);
  for (gsize at = 0; at < string->length; at += n)
    {
      gunichar c;
      char escape[16] = "";

      n = llm_utf8_get (string->bytes + at, string->bytes + string->length, &c);
      if (self->style != NULL)
        escape_json (c, self->style->is_ascii, escape);
      else
        escape_python (c, *quote, escape);
      if (*escape == '\0')
        continue;
      llm_jinja_text_add_part (self->jinja, self->text, string, plain, at);
      add (self->jinja, self->text, escape, llm_jinja_string_get_origin (string, at));
      plain = at + n;
    }
  llm_jinja_text_add_part (self->jinja, self->text, string, plain, string->length);
  add (self->jinja, self->text, quote, origin);
}

/* --- lists and dicts --- */

static void
break_line (Printer *self)
{
  if (self->style == NULL || self->style->indent.type != LLM_JINJA_STRING)
    return;
  add (self->jinja, self->text, "\n", 0);
  for (guint i = 0; i < self->level; i++)
    llm_jinja_text_add (self->jinja, self->text, &self->style->indent.string);
}

/* Before the item @index. */
static void
separate (Printer *self, guint index, LlmJinjaOrigin origin)
{
  if (index > 0 && self->style != NULL)
    llm_jinja_text_add (self->jinja, self->text, &self->style->item_separator);
  else if (index > 0)
    add (self->jinja, self->text, ", ", origin);
  break_line (self);
}

static void
print_list (Printer *self, const LlmJinjaValue *value)
{
  static const char *const brackets[][2] = {
    { "[", "]" }, { "(", ")" }, { NULL, NULL }, { "dict_keys([", "])" }, { "dict_values([", "])" },
    { "dict_items([", "])" }, { NULL, NULL },
  };
  const LlmJinjaList *list = value->list;
  const char *const *bracket = brackets[self->style != NULL ? LLM_JINJA_LIST_LIST : list->kind];

  if (*bracket == NULL || (self->style != NULL && list->kind > LLM_JINJA_LIST_TUPLE))
    llm_jinja_fail (self->jinja, "a %s can't be written as text; a list (“| list”) can",
                    llm_jinja_type_name (value));
  add (self->jinja, self->text, bracket[0], value->origin);
  self->level++;
  for (guint i = 0; i < list->n_items; i++)
    {
      separate (self, i, value->origin);
      print (self, &list->items[i]);
    }
  self->level--;
  if (list->n_items > 0)
    break_line (self);
  if (*bracket[0] == '(' && list->n_items == 1)
    add (self->jinja, self->text, ",", value->origin);
  add (self->jinja, self->text, bracket[1], value->origin);
}

static void
print_entry (Printer *self, const LlmJinjaEntry *entry, LlmJinjaOrigin origin)
{
  gboolean is_quoted = self->style != NULL && entry->key.type != LLM_JINJA_STRING;

  if (is_quoted)
    add (self->jinja, self->text, "\"", entry->key.origin);
  print (self, &entry->key);
  if (is_quoted)
    add (self->jinja, self->text, "\"", entry->key.origin);
  if (self->style != NULL)
    llm_jinja_text_add (self->jinja, self->text, &self->style->key_separator);
  else
    add (self->jinja, self->text, ": ", origin);
  print (self, &entry->value);
}

static void
print_dict (Printer *self, const LlmJinjaValue *value)
{
  const LlmJinjaDict *dict = value->dict;
  LlmJinjaEntry *entries = dict->entries;

  add (self->jinja, self->text, "{", value->origin);
  if (self->style != NULL && self->style->sorts_keys && dict->n_entries > 1)
    {
      gsize n_bytes = dict->n_entries * sizeof *entries;

      entries = llm_jinja_alloc (self->jinja, n_bytes);
      memcpy (entries, dict->entries, n_bytes);
      llm_jinja_sort (self->jinja, entries, dict->n_entries, FALSE);
    }
  self->level++;
  for (guint i = 0; i < dict->n_entries; i++)
    {
      separate (self, i, value->origin);
      print_entry (self, &entries[i], value->origin);
    }
  self->level--;
  if (dict->n_entries > 0)
    break_line (self);
  add (self->jinja, self->text, "}", value->origin);
}

static void
print (Printer *self, const LlmJinjaValue *value)
{
  llm_jinja_enter (self->jinja);
  if (value->type == LLM_JINJA_STRING)
    print_string (self, &value->string, value->origin);
  else if (value->type == LLM_JINJA_LIST)
    print_list (self, value);
  else if (value->type == LLM_JINJA_DICT)
    print_dict (self, value);
  else if (value->type == LLM_JINJA_NONE || llm_jinja_is_number (value))
    print_scalar (self, value);
  else if (value->type == LLM_JINJA_UNDEFINED && self->style == NULL)
    add (self->jinja, self->text, "Undefined", value->origin);
  else
    llm_jinja_fail (self->jinja, "a value of type %s can't be written as %s",
                    llm_jinja_type_name (value), self->style != NULL ? "JSON" : "text");
  llm_jinja_leave (self->jinja);
}

void
llm_jinja_print_repr (LlmJinja *self, LlmJinjaText *text, const LlmJinjaValue *value)
{
  Printer printer = { self, text, NULL, 0 };

  print (&printer, value);
}

void
llm_jinja_print_json (LlmJinja                *self,
                      LlmJinjaText            *text,
                      const LlmJinjaValue     *value,
                      const LlmJinjaJsonStyle *style)
{
  Printer printer = { self, text, style, 0 };

  print (&printer, value);
}

LlmJinjaValue
llm_jinja_to_string (LlmJinja *self, const LlmJinjaValue *value)
{
  LlmJinjaText *text;

  if (value->type == LLM_JINJA_STRING)
    return *value;
  text = llm_jinja_text_new (self);
  if (value->type != LLM_JINJA_UNDEFINED)
    llm_jinja_print_repr (self, text, value);
  return llm_jinja_text_end (text);
}

LlmJinjaValue
llm_jinja_string_escape (LlmJinja *self, const LlmJinjaValue *value)
{
  static const struct { char c; const char *text; } escapes[] = {
    { '&', "&amp;" }, { '<', "&lt;" }, { '>', "&gt;" }, { '\'', "&#39;" }, { '"', "&#34;" },
  };
  LlmJinjaValue result = llm_jinja_to_string (self, value);
  const LlmJinjaString string = result.string;
  LlmJinjaText *text;
  gsize plain = 0;

  if (result.is_html)
    return result;
  text = llm_jinja_text_new (self);
  for (gsize i = 0; i < string.length; i++)
    for (guint e = 0; e < G_N_ELEMENTS (escapes); e++)
      if (escapes[e].c == string.bytes[i])
        {
          llm_jinja_text_add_part (self, text, &string, plain, i);
          add (self, text, escapes[e].text, llm_jinja_string_get_origin (&string, i));
          plain = i + 1;
        }
  llm_jinja_text_add_part (self, text, &string, plain, string.length);
  result = llm_jinja_text_end (text);
  result.is_html = TRUE;
  return result;
}
