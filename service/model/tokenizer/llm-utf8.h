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

/* (transfer full): the beginning of @text, for messages: valid and not long. */
static inline char *
llm_utf8_shorten (const char *text)
{
  g_autofree char *valid = g_utf8_make_valid (text, -1);

  return g_utf8_strlen (valid, -1) <= 64 ? g_steal_pointer (&valid)
                                         : g_utf8_substring (valid, 0, 64);
}
