/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Values as text: str(), repr() and json.dumps() of Python. What is written for a value has the
 * value's origin, so a number of an app's data is the app's text too. */

#include "template/jinja/llm-jinja-private.h"

#include <math.h>
#include <string.h>

#include "tokenizer/llm-utf8.h"

static void
add (LlmJinja      *self,
     LlmJinjaText  *text,
     const char    *bytes,
     LlmJinjaOrigin origin)
{
  llm_jinja_text_add_bytes (self, text, bytes, strlen (bytes), origin);
}

/* The fewest digits that read back as @number; an exponent below 1e-4 and from 1e16 on. */
static char *
format_float (double number,
              char   out[40])
{
  char digits[40];
  char *exponent;
  gsize n_digits;
  int shift;
  char *at = out;

  if (isnan (number))
    return strcpy (out, "nan");
  if (isinf (number))
    return strcpy (out, number < 0 ? "-inf" : "inf");
  for (int precision = 0; precision < 17; precision++)
    {
      char format[8];

      g_snprintf (format, sizeof format, "%%.%de", precision);
      g_ascii_formatd (digits, sizeof digits, format, number);
      if (g_ascii_strtod (digits, NULL) == number)
        break;
    }
  exponent = strchr (digits, 'e');
  shift = (int) g_ascii_strtoll (exponent + 1, NULL, 10);
  *exponent = '\0';
  if (shift < -4 || shift >= 16)
    {
      g_snprintf (out, 40, "%se%c%02d", digits, shift < 0 ? '-' : '+', ABS (shift));
      return out;
    }

  /* d.ddd to ddd.d: the digits without their point, and the point elsewhere */
  if (*digits == '-')
    *at++ = '-';
  {
    char plain[32];
    const char *from = *digits == '-' ? digits + 1 : digits;

    n_digits = 0;
    for (; *from != '\0'; from++)
      if (*from != '.')
        plain[n_digits++] = *from;
    if (shift < 0)
      {
        *at++ = '0';
        *at++ = '.';
        for (int i = -1; i > shift; i--)
          *at++ = '0';
        memcpy (at, plain, n_digits);
        at += n_digits;
      }
    else
      {
        for (int i = 0; i <= shift || i < (int) n_digits; i++)
          {
            if (i == shift + 1)
              *at++ = '.';
            *at++ = i < (int) n_digits ? plain[i] : '0';
          }
        if ((int) n_digits <= shift + 1)
          {
            *at++ = '.';
            *at++ = '0';
          }
      }
  }
  *at = '\0';
  return out;
}

static void
print_scalar (LlmJinja            *self,
              LlmJinjaText        *text,
              const LlmJinjaValue *value,
              const char          *true_text,
              const char          *false_text,
              const char          *none_text)
{
  char buffer[40];

  if (value->type == LLM_JINJA_BOOL)
    add (self, text, value->boolean ? true_text : false_text, value->origin);
  else if (value->type == LLM_JINJA_NONE)
    add (self, text, none_text, value->origin);
  else if (value->type == LLM_JINJA_INT)
    {
      g_snprintf (buffer, sizeof buffer, "%" G_GINT64_FORMAT, value->integer);
      add (self, text, buffer, value->origin);
    }
  else if (value->digits != NULL)
    add (self, text, value->digits, value->origin);
  else
    add (self, text, format_float (value->number, buffer), value->origin);
}

static void
print_string_repr (LlmJinja             *self,
                   LlmJinjaText         *text,
                   const LlmJinjaString *string,
                   LlmJinjaOrigin        origin)
{
  gboolean has_single = memchr (string->bytes, '\'', string->length) != NULL;
  gboolean has_double = memchr (string->bytes, '"', string->length) != NULL;
  const char *quote = has_single && !has_double ? "\"" : "'";

  add (self, text, quote, origin);
  for (gsize at = 0; at < string->length;)
    {
      gunichar c;
      gsize n = llm_utf8_get (string->bytes + at, string->bytes + string->length, &c);
      char escape[12] = "";

      if (c == '\\' || c == (gunichar) *quote)
        g_snprintf (escape, sizeof escape, "\\%c", (char) c);
      else if (c == '\n' || c == '\r' || c == '\t')
        g_snprintf (escape, sizeof escape, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
      else if (c != ' ' && (!g_unichar_isprint (c) || g_unichar_isspace (c)))
        g_snprintf (escape, sizeof escape,
                    c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
      if (*escape != '\0')
        add (self, text, escape, string->origins[at]);
      else
        {
          LlmJinjaValue character = llm_jinja_string_cut (string, at, at + n);

          llm_jinja_text_add (self, text, &character.string);
        }
      at += n;
    }
  add (self, text, quote, origin);
}

static void
print_list_repr (LlmJinja            *self,
                 LlmJinjaText        *text,
                 const LlmJinjaValue *value)
{
  static const char *const opens[] = { "[", "(", NULL, "dict_keys([", "dict_values([",
                                       "dict_items([", NULL };
  static const char *const closes[] = { "]", ")", NULL, "])", "])", "])", NULL };
  const LlmJinjaList *list = value->list;

  if (opens[list->kind] == NULL)
    llm_jinja_fail (self, "a %s can't be written as text; a list (“| list”) can",
                    llm_jinja_type_name (value));
  add (self, text, opens[list->kind], value->origin);
  for (guint i = 0; i < list->n_items; i++)
    {
      if (i > 0)
        add (self, text, ", ", value->origin);
      llm_jinja_print_repr (self, text, &list->items[i]);
    }
  if (list->kind == LLM_JINJA_LIST_TUPLE && list->n_items == 1)
    add (self, text, ",", value->origin);
  add (self, text, closes[list->kind], value->origin);
}

void
llm_jinja_print_repr (LlmJinja            *self,
                      LlmJinjaText        *text,
                      const LlmJinjaValue *value)
{
  llm_jinja_enter (self);
  switch ((LlmJinjaType) value->type)
    {
    case LLM_JINJA_UNDEFINED:
      add (self, text, "Undefined", value->origin);
      break;
    case LLM_JINJA_STRING:
      print_string_repr (self, text, &value->string, value->origin);
      break;
    case LLM_JINJA_LIST:
      print_list_repr (self, text, value);
      break;
    case LLM_JINJA_DICT:
      add (self, text, "{", value->origin);
      for (guint i = 0; i < value->dict->n_entries; i++)
        {
          if (i > 0)
            add (self, text, ", ", value->origin);
          llm_jinja_print_repr (self, text, &value->dict->entries[i].key);
          add (self, text, ": ", value->origin);
          llm_jinja_print_repr (self, text, &value->dict->entries[i].value);
        }
      add (self, text, "}", value->origin);
      break;
    case LLM_JINJA_NAMESPACE:
    case LLM_JINJA_FUNCTION:
      llm_jinja_fail (self, "a %s can't be written as text", llm_jinja_type_name (value));
    default:
      print_scalar (self, text, value, "True", "False", "None");
    }
  llm_jinja_leave (self);
}

LlmJinjaValue
llm_jinja_to_string (LlmJinja            *self,
                     const LlmJinjaValue *value)
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
llm_jinja_string_escape (LlmJinja            *self,
                         const LlmJinjaValue *value)
{
  static const struct { char c; const char *text; } escapes[] = {
    { '&', "&amp;" }, { '<', "&lt;" }, { '>', "&gt;" }, { '\'', "&#39;" }, { '"', "&#34;" },
  };
  LlmJinjaValue string = llm_jinja_to_string (self, value);
  LlmJinjaText *text;
  LlmJinjaValue result;

  if (string.is_html)
    return string;
  text = llm_jinja_text_new (self);
  for (gsize i = 0; i < string.string.length; i++)
    {
      guint e = 0;

      while (e < G_N_ELEMENTS (escapes) && escapes[e].c != string.string.bytes[i])
        e++;
      if (e < G_N_ELEMENTS (escapes))
        llm_jinja_text_add_bytes (self, text, escapes[e].text, strlen (escapes[e].text),
                                  string.string.origins[i]);
      else
        llm_jinja_text_add_bytes (self, text, string.string.bytes + i, 1, string.string.origins[i]);
    }
  result = llm_jinja_text_end (text);
  result.is_html = TRUE;
  return result;
}

/* --- JSON --- */

static void
print_json_string (LlmJinja             *self,
                   LlmJinjaText         *text,
                   const LlmJinjaString *string,
                   LlmJinjaOrigin        origin,
                   gboolean              is_ascii)
{
  static const char escapes[] = "\"\"\\\\\nn\rr\tt\ff\bb";

  add (self, text, "\"", origin);
  for (gsize at = 0; at < string->length;)
    {
      gunichar c;
      gsize n = llm_utf8_get (string->bytes + at, string->bytes + string->length, &c);
      const char *known = c != 0 && c < 0x80 ? strchr (escapes, (char) c) : NULL;
      char escape[16] = "";

      /* every other one is what stands for the one before */
      if (known != NULL && (known - escapes) % 2 != 0)
        known = NULL;
      if (c == '"' || c == '\\')
        g_snprintf (escape, sizeof escape, "\\%c", (char) c);
      else if (known != NULL)
        g_snprintf (escape, sizeof escape, "\\%c", known[1]);
      else if (c >= 0x10000 && is_ascii)
        g_snprintf (escape, sizeof escape, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
                    0xdc00 + ((c - 0x10000) & 0x3ff));
      else if (c < 0x20 || (c >= 0x7f && is_ascii && c != 0x7f))
        g_snprintf (escape, sizeof escape, "\\u%04x", c);
      if (*escape != '\0')
        add (self, text, escape, string->origins[at]);
      else
        {
          LlmJinjaValue character = llm_jinja_string_cut (string, at, at + n);

          llm_jinja_text_add (self, text, &character.string);
        }
      at += n;
    }
  add (self, text, "\"", origin);
}

typedef struct
{
  LlmJinja *jinja;
  LlmJinjaText *text;
  const LlmJinjaJsonStyle *style;
  guint level;
} JsonPrinter;

static void print_json (JsonPrinter         *self,
                        const LlmJinjaValue *value);

static void
break_line (JsonPrinter *self)
{
  if (self->style->indent.type != LLM_JINJA_STRING)
    return;
  add (self->jinja, self->text, "\n", 0);
  for (guint i = 0; i < self->level; i++)
    llm_jinja_text_add (self->jinja, self->text, &self->style->indent.string);
}

static void
separate (JsonPrinter *self,
          guint        index)
{
  if (index > 0)
    llm_jinja_text_add (self->jinja, self->text, &self->style->item_separator);
  break_line (self);
}

static void
print_json_dict (JsonPrinter         *self,
                 const LlmJinjaValue *value)
{
  const LlmJinjaDict *dict = value->dict;
  LlmJinjaEntry *entries = dict->entries;

  add (self->jinja, self->text, "{", value->origin);
  if (self->style->sorts_keys && dict->n_entries > 1)
    {
      gsize n_bytes = dict->n_entries * sizeof *entries;

      entries = llm_jinja_alloc (self->jinja, n_bytes);
      memcpy (entries, dict->entries, n_bytes);
      llm_jinja_sort (self->jinja, entries, dict->n_entries, FALSE);
    }
  self->level++;
  for (guint i = 0; i < dict->n_entries; i++)
    {
      const LlmJinjaValue *key = &entries[i].key;

      separate (self, i);
      if (key->type == LLM_JINJA_STRING)
        print_json (self, key);
      else
        {
          add (self->jinja, self->text, "\"", key->origin);
          print_json (self, key);
          add (self->jinja, self->text, "\"", key->origin);
        }
      llm_jinja_text_add (self->jinja, self->text, &self->style->key_separator);
      print_json (self, &entries[i].value);
    }
  self->level--;
  if (dict->n_entries > 0)
    break_line (self);
  add (self->jinja, self->text, "}", value->origin);
}

static void
print_json (JsonPrinter         *self,
            const LlmJinjaValue *value)
{
  llm_jinja_enter (self->jinja);
  if (value->type == LLM_JINJA_STRING)
    {
      print_json_string (self->jinja, self->text, &value->string, value->origin,
                         self->style->is_ascii);
    }
  else if (value->type == LLM_JINJA_DICT)
    {
      print_json_dict (self, value);
    }
  else if (value->type == LLM_JINJA_LIST && value->list->kind <= LLM_JINJA_LIST_TUPLE)
    {
      add (self->jinja, self->text, "[", value->origin);
      self->level++;
      for (guint i = 0; i < value->list->n_items; i++)
        {
          separate (self, i);
          print_json (self, &value->list->items[i]);
        }
      self->level--;
      if (value->list->n_items > 0)
        break_line (self);
      add (self->jinja, self->text, "]", value->origin);
    }
  else if (value->type == LLM_JINJA_FLOAT && value->digits == NULL && !isfinite (value->number))
    {
      add (self->jinja, self->text, isnan (value->number) ? "NaN"
                                    : value->number > 0 ? "Infinity" : "-Infinity", value->origin);
    }
  else if (llm_jinja_is_number (value) || value->type == LLM_JINJA_NONE)
    {
      print_scalar (self->jinja, self->text, value, "true", "false", "null");
    }
  else
    {
      llm_jinja_fail (self->jinja, "a value of type %s can't be written as JSON",
                      llm_jinja_type_name (value));
    }
  llm_jinja_leave (self->jinja);
}

void
llm_jinja_print_json (LlmJinja                *self,
                      LlmJinjaText            *text,
                      const LlmJinjaValue     *value,
                      const LlmJinjaJsonStyle *style)
{
  JsonPrinter printer = { self, text, style, 0 };

  print_json (&printer, value);
}
