/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Upper and lower case, character by character, and lines. */

#include "template/jinja/llm-jinja-private.h"

#include <string.h>

#include "tokenizer/llm-utf8.h"

static void
add_character (LlmJinja             *self,
               LlmJinjaText         *text,
               const LlmJinjaString *string,
               gsize                 at,
               gsize                 n,
               gboolean              is_upper)
{
  LlmJinjaOrigin origin = string->origins[at];

  if (n == 1)
    {
      char c = is_upper ? g_ascii_toupper (string->bytes[at]) : g_ascii_tolower (string->bytes[at]);

      llm_jinja_text_add_bytes (self, text, &c, 1, origin);
    }
  else
    {
      /* one may become several, as ß does */
      g_autofree char *changed = is_upper ? g_utf8_strup (string->bytes + at, (gssize) n)
                                          : g_utf8_strdown (string->bytes + at, (gssize) n);
      char copy[32];
      gsize length = MIN (strlen (changed), sizeof copy);

      memcpy (copy, changed, length);
      g_clear_pointer (&changed, g_free);
      llm_jinja_text_add_bytes (self, text, copy, length, origin);
    }
}

/* Behind these, the filter “title” begins a word. */
static gboolean
ends_word (gunichar c)
{
  return llm_jinja_is_space (c) || (c < 0x80 && strchr ("-({[<", (char) c) != NULL && c != 0);
}

LlmJinjaValue
llm_jinja_change_case (LlmJinja             *self,
                       const LlmJinjaString *string,
                       LlmJinjaCase          way)
{
  LlmJinjaText *text = llm_jinja_text_new (self);
  gboolean is_start = TRUE;

  for (gsize at = 0; at < string->length;)
    {
      gunichar c;
      gsize n = llm_utf8_get (string->bytes + at, string->bytes + string->length, &c);

      add_character (self, text, string, at, n,
                     way == LLM_JINJA_CASE_UPPER || (way != LLM_JINJA_CASE_LOWER && is_start));
      if (way == LLM_JINJA_CASE_WORDS)
        is_start = g_unichar_tolower (c) == c && g_unichar_toupper (c) == c;
      else
        is_start = way == LLM_JINJA_CASE_TITLE && ends_word (c);
      at += n;
    }
  return llm_jinja_text_end (text);
}

static gboolean
is_line_end (gunichar c)
{
  return (c >= '\n' && c <= '\r') || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028
         || c == 0x2029;
}

LlmJinjaList *
llm_jinja_split_lines (LlmJinja             *self,
                       const LlmJinjaString *string)
{
  LlmJinjaList *lines = llm_jinja_list_new (self, LLM_JINJA_LIST_LIST).list;
  gsize start = 0;

  for (gsize at = 0; at < string->length;)
    {
      gunichar c;
      gsize n = llm_utf8_get (string->bytes + at, string->bytes + string->length, &c);

      if (is_line_end (c))
        {
          llm_jinja_list_add (self, lines, llm_jinja_string_cut (string, start, at));
          if (c == '\r' && at + 1 < string->length && string->bytes[at + 1] == '\n')
            n = 2;
          start = at + n;
        }
      at += n;
    }
  if (start < string->length)
    llm_jinja_list_add (self, lines, llm_jinja_string_cut (string, start, string->length));
  return lines;
}
