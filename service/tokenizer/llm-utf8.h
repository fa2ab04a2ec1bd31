/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * One character of a text of known length: never reads behind the end and
 * always goes on, whatever the bytes are. Constant; any thread.
 */

#pragma once

#include <glib.h>

/* Bytes of the character at @at, which must be before @end. A byte that begins
 * none is one of its own, U+FFFD. */
static inline gsize
llm_utf8_get (const char *at,
              const char *end,
              gunichar   *character)
{
  guint8 first = (guint8) *at;
  gunichar c;

  if (first < 0x80)
    {
      *character = first;
      return 1;
    }

  c = g_utf8_get_char_validated (at, end - at);
  if (c >= (gunichar) -2)
    {
      *character = 0xfffd;
      return 1;
    }
  *character = c;
  return (gsize) (g_utf8_next_char (at) - at);
}

/* A set of general categories. */
#define LLM_UTF8_TYPE(type) (1u << G_UNICODE_##type)
#define LLM_UTF8_LETTERS                                                                    \
  (LLM_UTF8_TYPE (LOWERCASE_LETTER) | LLM_UTF8_TYPE (MODIFIER_LETTER) |                     \
   LLM_UTF8_TYPE (OTHER_LETTER) | LLM_UTF8_TYPE (TITLECASE_LETTER) |                        \
   LLM_UTF8_TYPE (UPPERCASE_LETTER))
#define LLM_UTF8_NUMBERS                                                                    \
  (LLM_UTF8_TYPE (DECIMAL_NUMBER) | LLM_UTF8_TYPE (LETTER_NUMBER) |                         \
   LLM_UTF8_TYPE (OTHER_NUMBER))
#define LLM_UTF8_PUNCTUATION                                                                \
  (LLM_UTF8_TYPE (CONNECT_PUNCTUATION) | LLM_UTF8_TYPE (DASH_PUNCTUATION) |                 \
   LLM_UTF8_TYPE (CLOSE_PUNCTUATION) | LLM_UTF8_TYPE (FINAL_PUNCTUATION) |                  \
   LLM_UTF8_TYPE (INITIAL_PUNCTUATION) | LLM_UTF8_TYPE (OTHER_PUNCTUATION) |                \
   LLM_UTF8_TYPE (OPEN_PUNCTUATION))

static inline gboolean
llm_utf8_is_of (gunichar c,
                guint    types)
{
  return (types & (1u << g_unichar_type (c))) != 0;
}

/* \s: White_Space in Unicode. */
static inline gboolean
llm_utf8_is_space (gunichar c)
{
  return c == ' ' || (c >= '\t' && c <= '\r') ||
         (c >= 0x80 && (c == 0x85 || llm_utf8_is_of (c, LLM_UTF8_TYPE (SPACE_SEPARATOR) |
                                                          LLM_UTF8_TYPE (LINE_SEPARATOR) |
                                                          LLM_UTF8_TYPE (PARAGRAPH_SEPARATOR))));
}

/* (transfer full): the beginning of @text, for messages: valid and not long. */
static inline char *
llm_utf8_shorten (const char *text)
{
  g_autofree char *valid = g_utf8_make_valid (text, -1);

  return g_utf8_strlen (valid, -1) <= 64 ? g_steal_pointer (&valid)
                                         : g_utf8_substring (valid, 0, 64);
}
