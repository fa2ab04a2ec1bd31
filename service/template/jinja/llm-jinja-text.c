/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Strings whose bytes are known by where they came from. */

#include "template/jinja/llm-jinja-private.h"

#include <string.h>

#include "tokenizer/llm-utf8.h"

/* Of an indentation. */
#define MAX_SPACES 1024
#define STEP_BYTES LLM_JINJA_STEP_BYTES

LlmJinjaText *
llm_jinja_text_new (LlmJinja *self)
{
  LlmJinjaText *text = llm_jinja_alloc (self, sizeof *text);

  text->runs = &text->first;
  text->n_run_room = 1;
  return text;
}

const LlmJinjaRun *
llm_jinja_find_run (const LlmJinjaRun *runs, guint n_runs, gsize at)
{
  guint first = 0;

  while (first + 1 < n_runs)
    {
      guint middle = first + (n_runs - first) / 2;

      if (runs[middle - 1].end > at)
        n_runs = middle;
      else
        first = middle;
    }
  return &runs[first];
}

static void
reserve (LlmJinja *self, LlmJinjaText *text, gsize n)
{
  char *bytes;

  if (n <= text->room - text->length)
    return;
  if (n > self->max_bytes)
    llm_jinja_fail (self, "a text is too long");
  /* many texts never grow */
  text->room = MAX (64, text->length == 0 ? n : (text->length + n) * 2);
  bytes = llm_jinja_alloc (self, text->room);
  if (text->length > 0)
    memcpy (bytes, text->bytes, text->length);
  text->bytes = bytes;
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
  if (text->n_runs == 0 || text->runs[text->n_runs - 1].origin != origin)
    {
      text->runs = llm_jinja_grow (self, text->runs, text->n_runs, &text->n_run_room,
                                   sizeof *text->runs);
      text->runs[text->n_runs++].origin = origin;
    }
  text->length += length;
  text->runs[text->n_runs - 1].end = text->length;
}

static const LlmJinjaRun *
find_run (const LlmJinjaString *string, gsize at)
{
  static const LlmJinjaRun own = { G_MAXSIZE, 0 };

  return string->text == NULL ? &own
                              : llm_jinja_find_run (string->text->runs, string->text->n_runs,
                                                    string->start + at);
}

void
llm_jinja_text_add (LlmJinja *self, LlmJinjaText *text, const LlmJinjaString *string)
{
  for (gsize at = 0, n; at < string->length; at += n)
    {
      const LlmJinjaRun run = *find_run (string, at);

      n = MIN (string->length - at, run.end - string->start - at);
      llm_jinja_step (self, at > 0);
      llm_jinja_text_add_bytes (self, text, string->bytes + at, n, run.origin);
    }
}

void
llm_jinja_text_add_part (LlmJinja             *self,
                         LlmJinjaText         *text,
                         const LlmJinjaString *string,
                         gsize                 start,
                         gsize                 end)
{
  LlmJinjaValue part = llm_jinja_string_cut (string, start, end);

  llm_jinja_text_add (self, text, &part.string);
}

LlmJinjaValue
llm_jinja_text_end (LlmJinjaText *text)
{
  LlmJinjaValue value = { .type = LLM_JINJA_STRING, .string = { .bytes = "" } };

  if (text->length > 0)
    value.string = (LlmJinjaString) { text->bytes, text->length, text, 0 };
  return value;
}

LlmJinjaValue
llm_jinja_string_new (LlmJinja *self, const char *bytes, gsize length, LlmJinjaOrigin origin)
{
  LlmJinjaValue value = { .type = LLM_JINJA_STRING, .string = { bytes, length, NULL, 0 } };

  if (origin == 0)
    {
      value.string.bytes = llm_jinja_copy (self, &value.string);
    }
  else
    {
      LlmJinjaText *text = llm_jinja_text_new (self);

      llm_jinja_text_add_bytes (self, text, bytes, length, origin);
      value = llm_jinja_text_end (text);
    }
  value.origin = origin;
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

LlmJinjaOrigin
llm_jinja_string_get_origin (const LlmJinjaString *string, gsize at)
{
  return find_run (string, at)->origin;
}

LlmJinjaValue
llm_jinja_string_cut (const LlmJinjaString *string, gsize start, gsize end)
{
  return (LlmJinjaValue) {
    .type = LLM_JINJA_STRING,
    .string = { string->bytes + start, end - start, string->text, string->start + start },
  };
}

LlmJinjaValue
llm_jinja_string_join (LlmJinja *self, const LlmJinjaString *a, const LlmJinjaString *b)
{
  LlmJinjaText *text = a->text;

  /* What is built by adding to it again and again grows in place: others see only their part. */
  if (text == NULL || a->start + a->length != text->length)
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

  if (part->length == 0)
    return from;
  found = memmem (string->bytes + from, string->length - from, part->bytes, part->length);
  /* as far as it has looked, so that many finds in a long text count it once */
  llm_jinja_step (self, 1 + (part->length + (found != NULL ? (gsize) (found - string->bytes) - from
                                                           : string->length - from)) / STEP_BYTES);
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
is_of (gunichar c, LlmJinjaClass class)
{
  switch (class)
    {
    case LLM_JINJA_CLASS_ALNUM:
      return llm_utf8_is_of (c, LLM_UTF8_LETTERS | LLM_UTF8_NUMBERS);
    case LLM_JINJA_CLASS_ALPHA:
      return g_unichar_isalpha (c);
    case LLM_JINJA_CLASS_DIGIT:
      return g_unichar_isdigit (c);
    case LLM_JINJA_CLASS_SPACE:
      return llm_jinja_is_space (c);
    case LLM_JINJA_CLASS_LOWER:
      return g_unichar_islower (c);
    default:
      return g_unichar_isupper (c);
    }
}

gboolean
llm_jinja_string_is_of (const LlmJinjaString *string, LlmJinjaClass class)
{
  LlmJinjaClass other = class == LLM_JINJA_CLASS_LOWER ? LLM_JINJA_CLASS_UPPER
                                                       : LLM_JINJA_CLASS_LOWER;
  gboolean has_some = FALSE;
  gunichar c;

  for (gsize at = 0; at < string->length;)
    {
      at += llm_utf8_get (string->bytes + at, string->bytes + string->length, &c);
      if (class < LLM_JINJA_CLASS_LOWER ? !is_of (c, class) : is_of (c, other) || g_unichar_istitle (c))
        return FALSE;
      has_some |= is_of (c, class);
    }
  return has_some;
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
      llm_jinja_text_add_part (self, text, string, at, found);
      llm_jinja_text_add (self, text, with);
      at = found + old->length;
      if (old->length == 0 && at == string->length)
        break;
      /* nothing is found before each character, and at the end */
      next = old->length == 0 ? llm_jinja_next_character (string, at) : at;
      llm_jinja_text_add_part (self, text, string, at, next);
      at = next;
    }
  llm_jinja_text_add_part (self, text, string, at, string->length);
  return llm_jinja_text_end (text);
}
