/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Strings whose every byte knows where it came from. */

#include "template/jinja/llm-jinja-private.h"

#include <string.h>

#include "tokenizer/llm-utf8.h"

/* Of an indentation. */
#define MAX_SPACES 1024
#define STEP_BYTES LLM_JINJA_STEP_BYTES

LlmJinjaText *
llm_jinja_text_new (LlmJinja *self)
{
  return llm_jinja_alloc (self, sizeof (LlmJinjaText));
}

static void
reserve (LlmJinja *self, LlmJinjaText *text, gsize n)
{
  gsize room;
  char *bytes;
  LlmJinjaOrigin *origins;

  if (n <= text->room - text->length)
    return;
  if (n > self->max_bytes)
    llm_jinja_fail (self, "a text is too long");
  room = MAX (64, (text->length + n) * 2);
  bytes = llm_jinja_alloc (self, room);
  origins = llm_jinja_alloc (self, room * sizeof *origins);
  if (text->length > 0)
    {
      memcpy (bytes, text->bytes, text->length);
      memcpy (origins, text->origins, text->length * sizeof *origins);
    }
  text->bytes = bytes;
  text->origins = origins;
  text->room = room;
}

void
llm_jinja_text_add (LlmJinja *self, LlmJinjaText *text, const LlmJinjaString *string)
{
  gsize n = string->length;

  if (n == 0)
    return;
  llm_jinja_step (self, n / STEP_BYTES);
  reserve (self, text, n);
  memcpy (text->bytes + text->length, string->bytes, n);
  memcpy (text->origins + text->length, string->origins, n * sizeof *text->origins);
  text->length += n;
}

void
llm_jinja_text_add_bytes (LlmJinja       *self,
                          LlmJinjaText   *text,
                          const char     *bytes,
                          gsize           length,
                          LlmJinjaOrigin  origin)
{
  if (length == 0)
    return;
  llm_jinja_step (self, length / STEP_BYTES);
  reserve (self, text, length);
  memcpy (text->bytes + text->length, bytes, length);
  for (gsize i = 0; i < length; i++)
    text->origins[text->length + i] = origin;
  text->length += length;
}

LlmJinjaValue
llm_jinja_text_end (LlmJinjaText *text)
{
  static const LlmJinjaOrigin none[1];

  if (text->length == 0)
    return (LlmJinjaValue) { .type = LLM_JINJA_STRING, .string = { "", none, 0, NULL } };
  return (LlmJinjaValue) {
    .type = LLM_JINJA_STRING,
    .string = { text->bytes, text->origins, text->length, text },
  };
}

LlmJinjaValue
llm_jinja_string_new (LlmJinja *self, const char *bytes, gsize length, LlmJinjaOrigin origin)
{
  LlmJinjaOrigin *origins = llm_jinja_alloc (self, length * sizeof *origins);
  char *copy = llm_jinja_alloc (self, length);
  LlmJinjaValue value = { .type = LLM_JINJA_STRING, .origin = origin };

  if (length > 0)
    memcpy (copy, bytes, length);
  for (gsize i = 0; i < length; i++)
    origins[i] = origin;
  value.string = (LlmJinjaString) { copy, origins, length, NULL };
  return value;
}

LlmJinjaValue
llm_jinja_spaces (LlmJinja *self, gint64 n)
{
  char spaces[MAX_SPACES];

  memset (spaces, ' ', sizeof spaces);
  return llm_jinja_string_new (self, spaces, (gsize) CLAMP (n, 0, MAX_SPACES), 0);
}

char *
llm_jinja_copy (LlmJinja *self, const LlmJinjaString *string)
{
  char *copy = llm_jinja_alloc (self, string->length + 1);

  if (string->length > 0)
    memcpy (copy, string->bytes, string->length);
  return copy;
}

LlmJinjaValue
llm_jinja_string_cut (const LlmJinjaString *string, gsize start, gsize end)
{
  LlmJinjaValue value = { .type = LLM_JINJA_STRING };

  value.string = (LlmJinjaString) {
    .bytes = string->bytes + start,
    .origins = string->origins != NULL ? string->origins + start : NULL,
    .length = end - start,
    .text = string->text,
  };
  return value;
}

LlmJinjaValue
llm_jinja_string_join (LlmJinja *self, const LlmJinjaString *a, const LlmJinjaString *b)
{
  LlmJinjaText *text = a->text;

  /* What is built by adding to it again and again grows in place: others see only their part. */
  if (text == NULL || a->bytes + a->length != text->bytes + text->length)
    {
      text = llm_jinja_text_new (self);
      reserve (self, text, a->length + b->length);
      llm_jinja_text_add (self, text, a);
      llm_jinja_text_add (self, text, b);
      return llm_jinja_text_end (text);
    }
  else
    {
      gsize start = text->length - a->length;
      LlmJinjaValue value;

      llm_jinja_text_add (self, text, b);
      value = llm_jinja_text_end (text);
      return llm_jinja_string_cut (&value.string, start, text->length);
    }
}

gboolean
llm_jinja_string_is (const LlmJinjaString *string, const char *text)
{
  gsize n = strlen (text);

  return string->length == n && (n == 0 || memcmp (string->bytes, text, n) == 0);
}

gsize
llm_jinja_string_find (LlmJinja             *self,
                       const LlmJinjaString *string,
                       const LlmJinjaString *part,
                       gsize                 from)
{
  const char *found;

  llm_jinja_step (self, 1 + (string->length - from) / STEP_BYTES);
  if (part->length == 0)
    return from;
  found = memmem (string->bytes + from, string->length - from, part->bytes, part->length);
  return found != NULL ? (gsize) (found - string->bytes) : G_MAXSIZE;
}

gsize
llm_jinja_string_find_last (LlmJinja             *self,
                            const LlmJinjaString *string,
                            const LlmJinjaString *part,
                            gsize                 end)
{
  if (part->length > end)
    return G_MAXSIZE;
  for (gsize at = end - part->length + 1; at-- > 0;)
    {
      llm_jinja_step (self, at % STEP_BYTES == 0 ? 1 + part->length / STEP_BYTES * STEP_BYTES : 0);
      if (part->length == 0 || memcmp (string->bytes + at, part->bytes, part->length) == 0)
        return at;
    }
  return G_MAXSIZE;
}

gsize
llm_jinja_string_count (const LlmJinjaString *string)
{
  gsize n = 0;

  for (gsize i = 0; i < string->length; i++)
    n += ((guint8) string->bytes[i] & 0xc0) != 0x80;
  return n;
}

gsize
llm_jinja_next_character (const LlmJinjaString *string, gsize at)
{
  at++;
  while (at < string->length && ((guint8) string->bytes[at] & 0xc0) == 0x80)
    at++;
  return at;
}

gsize
llm_jinja_string_offset (const LlmJinjaString *string, gsize index)
{
  gsize at = 0;

  for (; index > 0 && at < string->length; index--)
    at = llm_jinja_next_character (string, at);
  return at;
}

/* str.isspace() of Python, which has four more than Unicode's White_Space. */
gboolean
llm_jinja_is_space (gunichar c)
{
  return llm_utf8_is_space (c) || (c >= 0x1c && c <= 0x1f);
}

static gboolean
is_trimmed (const LlmJinjaString *set, const char *at, gsize n, gunichar c)
{
  return set == NULL ? llm_jinja_is_space (c)
                     : set->length > 0 && memmem (set->bytes, set->length, at, n) != NULL;
}

LlmJinjaValue
llm_jinja_string_trim (const LlmJinjaString *string,
                       const LlmJinjaString *set,
                       gboolean              at_start,
                       gboolean              at_end)
{
  gsize start = 0;
  gsize end = string->length;
  gunichar c;

  while (at_start && start < end)
    {
      gsize n = llm_utf8_get (string->bytes + start, string->bytes + end, &c);

      if (!is_trimmed (set, string->bytes + start, n, c))
        break;
      start += n;
    }
  while (at_end && end > start)
    {
      gsize last = end - 1;
      gsize n;

      while (last > start && ((guint8) string->bytes[last] & 0xc0) == 0x80)
        last--;
      n = llm_utf8_get (string->bytes + last, string->bytes + end, &c);
      if (!is_trimmed (set, string->bytes + last, n, c))
        break;
      end = last;
    }
  return llm_jinja_string_cut (string, start, end);
}

static void
add_part (LlmJinja *self, LlmJinjaText *text, const LlmJinjaString *string, gsize start, gsize end)
{
  LlmJinjaValue part = llm_jinja_string_cut (string, start, end);

  llm_jinja_text_add (self, text, &part.string);
}

LlmJinjaValue
llm_jinja_string_replace (LlmJinja             *self,
                          const LlmJinjaString *string,
                          const LlmJinjaString *old,
                          const LlmJinjaString *with,
                          gint64                max)
{
  LlmJinjaText *text = llm_jinja_text_new (self);
  gsize at = 0, found, next;

  for (; max != 0; max--)
    {
      found = llm_jinja_string_find (self, string, old, at);
      if (found == G_MAXSIZE)
        break;
      add_part (self, text, string, at, found);
      llm_jinja_text_add (self, text, with);
      at = found + old->length;
      if (old->length == 0 && at == string->length)
        break;
      /* nothing is found before each character, and at the end */
      next = old->length == 0 ? llm_jinja_next_character (string, at) : at;
      add_part (self, text, string, at, next);
      at = next;
    }
  add_part (self, text, string, at, string->length);
  return llm_jinja_text_end (text);
}
