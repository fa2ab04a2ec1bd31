/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Arguments that are written as tags or code, to a JSON object. */

#include <string.h>

#include "common/llmsvc-json.h"
#include "constraints/schema/llm-schema.h"
#include "constraints/tools/llm-call-read.h"

static const char *
skip_space (const char *at,
            const char *end)
{
  while (at < end && g_ascii_isspace (*at))
    at++;
  return at;
}

/* (nullable): behind the text that @pattern begins with, up to a space at the end of that. */
static const char *
match_text (const char *pattern,
            const char *at,
            const char *end,
            GString    *id)
{
  for (; *pattern != '\0'; pattern++)
    {
      const char *start;

      if (g_ascii_isspace (*pattern))
        continue;
      at = skip_space (at, end);
      start = at;
      if (*pattern == LLM_CALL_ID)
        {
          while (at < end && g_ascii_isalnum (*at) && at - start < LLM_CALL_ID_LENGTH)
            at++;
          if (id != NULL)
            {
              g_string_assign (id, "");
              g_string_append_len (id, start, at - start);
            }
        }
      else if (*pattern == LLM_CALL_NUMBER)
        {
          while (at < end && g_ascii_isdigit (*at))
            at++;
        }
      else if (at < end && *at == *pattern)
        {
          at++;
        }
      if (at == start)
        return NULL;
    }
  return at;
}

const char *
llm_call_match (const char *pattern,
                const char *at,
                const char *end,
                GString    *id)
{
  at = match_text (pattern, at, end, id);
  return at != NULL ? skip_space (at, end) : NULL;
}

const char *
llm_call_skip_json (const char *at,
                    const char *end)
{
  guint depth = 0;
  gboolean is_string = FALSE;

  for (; at < end; at++)
    {
      if (is_string && *at == '\\')
        at++;
      else if (*at == '"')
        is_string = !is_string;
      else if (!is_string && (*at == '{' || *at == '['))
        depth++;
      else if (!is_string && (*at == '}' || *at == ']') && --depth == 0)
        return at + 1;
    }
  return NULL;
}

static gboolean
starts_with (const char *at,
             const char *end,
             const char *text)
{
  gsize n = strlen (text);

  return (gsize) (end - at) >= n && memcmp (at, text, n) == 0;
}

static void
append_string (GString    *json,
               const char *text,
               gsize       length)
{
  g_string_append_c (json, '"');
  llmsvc_json_append_escaped (json, text, length);
  g_string_append_c (json, '"');
}

/* --- values that are no plain strings --- */

static const char *
read_word (const char *at,
           const char *end,
           GString    *json)
{
  static const struct
  {
    const char *text;
    const char *json;
  } words[] = { { "true", "true" }, { "false", "false" }, { "null", "null" },
                { "True", "true" }, { "False", "false" }, { "None", "null" } };

  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    if (starts_with (at, end, words[i].text))
      {
        g_string_append (json, words[i].json);
        return at + strlen (words[i].text);
      }
  return NULL;
}

static const char *
skip_json_string (const char *at,
                  const char *end)
{
  for (at++; at < end && *at != '"'; at++)
    at += *at == '\\';
  return at < end ? at + 1 : NULL;
}

/* As Python has it, between single quotes. */
static const char *
read_python_string (const char *at,
                    const char *end,
                    GString    *json)
{
  g_string_append_c (json, '"');
  for (at++; at < end && *at != '\''; at++)
    {
      if (*at == '\\' && at + 1 < end && at[1] == '\'')
        g_string_append_c (json, *++at);
      else if (*at == '\\' && at + 1 < end)
        g_string_append_len (json, at++, 2);
      else
        llmsvc_json_append_escaped (json, at, 1);
    }
  g_string_append_c (json, '"');
  return at < end ? at + 1 : NULL;
}

/* (nullable): behind an object or array, whose strings and words may be Python's. */
static const char *
read_container (const char *at,
                const char *end,
                GString    *json)
{
  guint depth = 0;

  while (at != NULL && at < end)
    {
      const char *start = at;

      if (*at == '\'')
        {
          at = read_python_string (at, end, json);
          continue;
        }
      if (g_ascii_isalpha (*at))
        {
          at = read_word (at, end, json);
          continue;
        }
      at = *at == '"' ? skip_json_string (at, end) : at + 1;
      if (at != NULL)
        g_string_append_len (json, start, at - start);
      if (*start == '{' || *start == '[')
        depth++;
      else if ((*start == '}' || *start == ']') && --depth == 0)
        return at;
    }
  return NULL;
}

/* (nullable): behind a value that is JSON, or one of Python's. */
static const char *
read_value (const char *at,
            const char *end,
            GString    *json)
{
  const char *start = at;

  if (at == end)
    return NULL;
  if (*at == '\'')
    return read_python_string (at, end, json);
  if (*at == '{' || *at == '[')
    return read_container (at, end, json);
  if (*at == '"')
    at = skip_json_string (at, end);
  else if (*at == '-' || g_ascii_isdigit (*at))
    while (at < end && *at != '\0' && strchr ("0123456789+-.eE", *at) != NULL)
      at++;
  else
    return read_word (at, end, json);
  if (at != NULL)
    g_string_append_len (json, start, at - start);
  return at;
}

/* --- tags and the like --- */

/* Up to where @texts' stop is; spaces that belong to the text before it are no part of the
 * string. */
static const char *
find_string_end (const LlmArgumentTexts *texts,
                 const char             *at,
                 const char             *end)
{
  gsize n_space = strspn (texts->between, " \n");
  const char *stop = end > at ? memmem (at, (gsize) (end - at), texts->stop, strlen (texts->stop))
                              : NULL;

  if (stop != NULL && (gsize) (stop - at) >= n_space
      && memcmp (stop - n_space, texts->between, n_space) == 0)
    stop -= n_space;
  return stop;
}

/* Whether the text is what a schema that allows strings and other values takes for one of the
 * latter: what llm_rules_find_strings() leaves out. */
static gboolean
is_other (const char *at,
          const char *end)
{
  g_autoptr(GString) json = g_string_new (NULL);

  return at < end && *at != '\''
         && (strchr ("[{\"", *at) != NULL || read_value (at, end, json) == end);
}

/* (nullable): behind one argument's value, with what stands before it. */
static const char *
read_argument (const LlmArgumentTexts *texts,
               const char             *at,
               const char             *end,
               guint8                  kinds,
               GString                *json)
{
  const char *text = match_text (texts->middle_text, at, end, NULL);
  gboolean is_told = !g_str_equal (texts->middle, texts->middle_text);
  gsize n_space = strlen (texts->middle_text);
  const char *stop;

  if (*texts->quote == '\0' && text != NULL && (kinds & LLM_ARGUMENT_STRINGS) != 0)
    {
      while (n_space > 0 && g_ascii_isspace (texts->middle_text[n_space - 1]))
        n_space--;
      if (starts_with (text, end, texts->middle_text + n_space))
        text += strlen (texts->middle_text + n_space);
      stop = find_string_end (texts, text, end);
      if (stop == NULL)
        return NULL;
      if (is_told || (kinds & LLM_ARGUMENT_OTHERS) == 0 || !is_other (text, stop))
        {
          append_string (json, text, (gsize) (stop - text));
          return stop;
        }
    }
  at = llm_call_match (texts->middle, at, end, NULL);
  return at != NULL ? read_value (at, end, json) : NULL;
}

static const char *
read_flat (const LlmArgumentTexts *texts,
           const char             *at,
           const char             *end,
           LlmArgumentKindsFunc    kinds,
           gpointer                data,
           GString                *json)
{
  const char *behind = llm_call_match (texts->empty, at, end, NULL);
  const char *next = llm_call_match (texts->begin, at, end, NULL);

  g_string_assign (json, behind != NULL ? "{}" : "{");
  while (next != NULL && behind == NULL)
    {
      const char *key = next;
      g_autofree char *name = NULL;

      for (at = key; at < end && *at != '\0' && (g_ascii_isalnum (*at) || (*at & 0x80) != 0
                                                 || strchr ("_-.$", *at) != NULL); at++)
        ;
      name = g_strndup (key, (gsize) (at - key));
      if (json->len > 1)
        g_string_append (json, ", ");
      append_string (json, key, (gsize) (at - key));
      g_string_append (json, ": ");
      at = *name != '\0' ? read_argument (texts, at, end, kinds (name, data), json) : NULL;
      if (at == NULL)
        break;
      next = llm_call_match (texts->between, at, end, NULL);
      if (next == NULL)
        {
          g_string_append_c (json, '}');
          behind = llm_call_match (texts->end, at, end, NULL);
        }
    }
  return behind;
}

/* --- code that nests --- */

/* Keys are bare, strings stand between @texts' quotes. */
static const char *
read_nested (const LlmArgumentTexts *texts,
             const char             *at,
             const char             *end,
             GString                *json)
{
  gsize n_quote = strlen (texts->quote);
  guint64 is_object = 0;
  guint depth = 0;
  gboolean is_key = FALSE;

  for (; at < end; at++)
    {
      if (is_key && *at != '}' && !g_ascii_isspace (*at))
        {
          const char *colon = memchr (at, ':', (gsize) (end - at));

          if (colon == NULL)
            return NULL;
          append_string (json, at, (gsize) (colon - at));
          at = colon;
          is_key = FALSE;
          g_string_append_c (json, ':');
          continue;
        }
      if (starts_with (at, end, texts->quote))
        {
          const char *close = memmem (at + n_quote, (gsize) (end - at) - n_quote, texts->quote, n_quote);

          if (close == NULL)
            return NULL;
          append_string (json, at + n_quote, (gsize) (close - at) - n_quote);
          at = close + n_quote - 1;
          continue;
        }
      g_string_append_c (json, *at);
      if (*at == '{' || *at == '[')
        {
          if (++depth >= 64)
            return NULL;
          is_object = (is_object & ~(G_GUINT64_CONSTANT (1) << depth))
                      | (guint64) (*at == '{') << depth;
          is_key = *at == '{';
        }
      else if (*at == ',')
        {
          is_key = (is_object >> depth & 1) != 0;
        }
      else if (*at == '}' || *at == ']')
        {
          is_key = FALSE;
          if (--depth == 0)
            return at + 1;
        }
    }
  return NULL;
}

const char *
llm_arguments_read (const LlmArgumentTexts *texts,
                    const char             *at,
                    const char             *end,
                    LlmArgumentKindsFunc    kinds,
                    gpointer                data,
                    GString                *json)
{
  if (texts->is_nested)
    return at < end && *at == '{' ? read_nested (texts, at, end, json) : NULL;
  return read_flat (texts, at, end, kinds, data, json);
}
