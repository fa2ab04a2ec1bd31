/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* JSON (RFC 8259) to values. */

#include "template/jinja/llm-jinja-private.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* Any double is told from all others by so many. */
#define MAX_DOUBLE_DIGITS 17

typedef struct
{
  LlmJinja *jinja;
  const char *at;
  LlmJinjaOrigin origin;
} Reader;

static gboolean read_value (Reader        *self,
                            LlmJinjaValue *value);

static void
skip_spaces (Reader *self)
{
  while (*self->at != '\0' && strchr (" \t\r\n", *self->at) != NULL)
    self->at++;
}

static gboolean
skip_byte (Reader *self, char byte)
{
  skip_spaces (self);
  if (*self->at != byte)
    return FALSE;
  self->at++;
  return TRUE;
}

static gboolean
read_hex (Reader *self, gunichar *code)
{
  *code = 0;
  for (guint i = 0; i < 4; i++, self->at++)
    {
      if (!g_ascii_isxdigit (*self->at))
        return FALSE;
      *code = *code * 16 + (gunichar) g_ascii_xdigit_value (*self->at);
    }
  return TRUE;
}

/* Behind a backslash. */
static gboolean
read_escape (Reader *self, LlmJinjaText *text)
{
  static const char plain[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
  char buffer[6];
  gunichar code, low;

  for (guint i = 0; i < sizeof plain - 1; i += 2)
    if (plain[i] == *self->at)
      {
        llm_jinja_text_add_bytes (self->jinja, text, plain + i + 1, 1, self->origin);
        self->at++;
        return TRUE;
      }
  if (*self->at++ != 'u' || !read_hex (self, &code))
    return FALSE;
  if (code >= 0xd800 && code < 0xdc00)
    {
      if (self->at[0] != '\\' || self->at[1] != 'u')
        return FALSE;
      self->at += 2;
      if (!read_hex (self, &low) || low < 0xdc00 || low >= 0xe000)
        return FALSE;
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
  if (code == 0 || !g_unichar_validate (code))
    return FALSE;
  llm_jinja_text_add_bytes (self->jinja, text, buffer, (gsize) g_unichar_to_utf8 (code, buffer),
                            self->origin);
  return TRUE;
}

static gboolean
read_string (Reader *self, LlmJinjaValue *value)
{
  LlmJinjaText *text = llm_jinja_text_new (self->jinja);

  if (!skip_byte (self, '"'))
    return FALSE;
  while (*self->at != '"')
    {
      const char *start = self->at;

      while ((guint8) *self->at >= 0x20 && *self->at != '"' && *self->at != '\\')
        self->at++;
      llm_jinja_text_add_bytes (self->jinja, text, start, (gsize) (self->at - start), self->origin);
      if (*self->at == '\\')
        {
          self->at++;
          if (!read_escape (self, text))
            return FALSE;
        }
      else if (*self->at != '"')
        {
          return FALSE;
        }
    }
  self->at++;
  *value = llm_jinja_text_end (text);
  value->origin = self->origin;
  return TRUE;
}

/* Whether the number from @text to @end has no more digits than a double has: then it is written as
 * Python writes doubles. */
static gboolean
is_double (double number, const char *text, const char *end)
{
  gsize n_digits = 0, n_zeros = 0;

  for (; text < end && *text != 'e' && *text != 'E'; text++)
    {
      if (!g_ascii_isdigit (*text) || (*text == '0' && n_digits == 0))
        continue;
      n_digits++;
      n_zeros = *text == '0' ? n_zeros + 1 : 0;
    }
  return isfinite (number) && n_digits - n_zeros <= MAX_DOUBLE_DIGITS && (number != 0 || n_digits == 0);
}

/* Goes behind the digits at @at; FALSE where there are none. */
static gboolean
skip_digits (const char **at)
{
  const char *start = *at;

  while (g_ascii_isdigit (**at))
    (*at)++;
  return *at > start;
}

static gboolean
read_number (Reader *self, LlmJinjaValue *value)
{
  const char *start = self->at;
  const char *at = start + (*start == '-');
  gboolean is_float;

  if ((at[0] == '0' && g_ascii_isdigit (at[1])) || !skip_digits (&at))
    return FALSE;
  is_float = *at == '.' || *at == 'e' || *at == 'E';
  if (*at == '.')
    {
      at++;
      if (!skip_digits (&at))
        return FALSE;
    }
  if (*at == 'e' || *at == 'E')
    {
      at += at[1] == '-' || at[1] == '+' ? 2 : 1;
      if (!skip_digits (&at))
        return FALSE;
    }
  self->at = at;
  errno = 0;
  *value = llm_jinja_int (g_ascii_strtoll (start, NULL, 10), self->origin);
  if (!is_float && errno == 0)
    return TRUE;
  *value = llm_jinja_float (g_ascii_strtod (start, NULL), self->origin);
  if (!is_float || !is_double (value->number, start, at))
    {
      const LlmJinjaString digits = { .bytes = start, .length = (gsize) (at - start) };

      value->digits = llm_jinja_copy (self->jinja, &digits);
    }
  return TRUE;
}

static gboolean
read_array (Reader *self, LlmJinjaValue *value)
{
  LlmJinjaValue item;

  *value = llm_jinja_list_new (self->jinja, LLM_JINJA_LIST_LIST);
  value->origin = self->origin;
  if (skip_byte (self, ']'))
    return TRUE;
  do
    {
      if (!read_value (self, &item))
        return FALSE;
      llm_jinja_list_add (self->jinja, value->list, item);
    }
  while (skip_byte (self, ','));
  return skip_byte (self, ']');
}

static gboolean
read_object (Reader *self, LlmJinjaValue *value)
{
  LlmJinjaValue key, item;

  *value = llm_jinja_dict_new (self->jinja);
  value->origin = self->origin;
  if (skip_byte (self, '}'))
    return TRUE;
  do
    {
      if (!read_string (self, &key) || !skip_byte (self, ':') || !read_value (self, &item))
        return FALSE;
      llm_jinja_dict_set (self->jinja, value->dict, key, item);
    }
  while (skip_byte (self, ','));
  return skip_byte (self, '}');
}

static gboolean
read_word (Reader *self, LlmJinjaValue *value)
{
  static const struct { const char *name; LlmJinjaValue value; } words[] = {
    { "true", { .type = LLM_JINJA_BOOL, .boolean = TRUE } },
    { "false", { .type = LLM_JINJA_BOOL } },
    { "null", { .type = LLM_JINJA_NONE } },
  };

  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    if (g_str_has_prefix (self->at, words[i].name))
      {
        self->at += strlen (words[i].name);
        *value = words[i].value;
        value->origin = self->origin;
        return TRUE;
      }
  return FALSE;
}

static gboolean
read_value (Reader *self, LlmJinjaValue *value)
{
  gboolean is_read;

  llm_jinja_enter (self->jinja);
  skip_spaces (self);
  if (*self->at == '"')
    is_read = read_string (self, value);
  else if (skip_byte (self, '['))
    is_read = read_array (self, value);
  else if (skip_byte (self, '{'))
    is_read = read_object (self, value);
  else if (*self->at == '-' || g_ascii_isdigit (*self->at))
    is_read = read_number (self, value);
  else
    is_read = read_word (self, value);
  llm_jinja_leave (self->jinja);
  return is_read;
}

gboolean
llm_jinja_read_json (LlmJinja *self, const char *text, LlmJinjaOrigin origin, LlmJinjaValue *value)
{
  Reader reader = { self, text, origin };

  if (!read_value (&reader, value))
    return FALSE;
  skip_spaces (&reader);
  return *reader.at == '\0';
}
