/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How a template writes the arguments of a call where that is not as a JSON object: as tags or as
 * code. Found out by rendering calls; what is not understood is left unknown. */

#include "template/llm-template-private.h"

#include <string.h>

#define NAME LLM_TEMPLATE_PROBE_NAME
#define OTHER_NAME LLM_TEMPLATE_PROBE_OTHER_NAME
#define KEY "probe_key"
#define VALUE "probe_value"
/* Sorted, it comes before KEY. */
#define OTHER_KEY "probe_also"
#define OTHER_VALUE "probe_second"
#define NUMBER "47110815"
#define CALL(name, arguments)                                                                    \
  "{\"id\": \"" LLM_TEMPLATE_CALL_ID "\", \"type\": \"function\", \"function\": {\"name\": \""     \
  name "\", \"arguments\": {" arguments "}}}"
#define ONE "\"" KEY "\": \"" VALUE "\""
#define EXTRAS(calls) "{\"tool_calls\": [" calls "]}"

/* An answer from the name of the function it calls on: (transfer full) (nullable). */
static char *
render (LlmTemplate *self,
        const char  *extras,
        const char  *name)
{
  const LlmMessage messages[] = { { (char *) "user", (char *) "probe" },
                                  { (char *) "assistant", (char *) "", (char *) extras } };
  const LlmTemplateCall call = { .messages = messages, .n_messages = 2,
                                 .tools = LLM_TEMPLATE_PROBE_TOOLS };
  g_auto(LlmJinjaOutput) out = { NULL };
  g_autofree char *text = NULL;
  const char *at;

  if (!llm_template_run (self, &call, &out, NULL))
    return NULL;
  text = g_strndup (out.text, out.length);
  at = g_strrstr (text, name);
  return at != NULL ? g_strdup (at + strlen (name)) : NULL;
}

/* Up to the end of the answer. */
static void
cut_end (LlmTemplate *self,
         char        *text)
{
  for (guint i = 0; i < self->ends->len; i++)
    {
      const char *end = g_ptr_array_index (self->ends, i);
      char *at = *end != '\0' ? strstr (text, end) : NULL;

      if (at != NULL)
        *at = '\0';
    }
}

/* (transfer full) (nullable): between the end of @before, from the start of @text where it is NULL,
 * and @behind, or the end of the text. */
static char *
between (const char *text,
         const char *before,
         const char *behind)
{
  const char *start = before != NULL && text != NULL ? strstr (text, before) : text;
  const char *end;

  if (start == NULL)
    return NULL;
  start += before != NULL ? strlen (before) : 0;
  end = behind != NULL ? strstr (start, behind) : start + strlen (start);
  return end != NULL ? g_strndup (start, (gsize) (end - start)) : NULL;
}

/* How much of both is alike, up to where a tag or a bracket ends. */
static gsize
count_alike (const char *a,
             const char *b)
{
  gsize n = 0;

  while (a[n] != '\0' && a[n] == b[n])
    n++;
  while (n > 0 && strchr (">])}\n", a[n - 1]) == NULL)
    n--;
  return n;
}

/* (transfer full) (nullable): @text without @start, which it must begin with. */
static char *
without_start (const char *text,
               const char *start)
{
  return text != NULL && g_str_has_prefix (text, start) ? g_strdup (text + strlen (start)) : NULL;
}

static gboolean
find_strings (LlmArgumentTexts *found,
              const char       *one,
              const char       *two,
              const char       *numbers)
{
  const char *first = found->is_sorted ? OTHER_KEY : KEY;
  const char *second = found->is_sorted ? KEY : OTHER_KEY;
  g_autofree char *next = between (two, found->is_sorted ? OTHER_VALUE : VALUE, second);
  g_autofree char *middle_text = between (one, KEY, VALUE);
  gsize n;

  found->begin = between (two, NULL, first);
  found->middle = between (numbers, first, NUMBER);
  found->between = between (numbers, NUMBER, second);
  if (found->begin == NULL || found->middle == NULL || found->between == NULL || next == NULL
      || middle_text == NULL || !g_str_has_suffix (next, found->between))
    return FALSE;
  n = strlen (next) - strlen (found->between);
  found->quote = g_strndup (next, n);
  if (n > 0 && (!g_str_has_suffix (middle_text, found->quote)
                || strlen (middle_text) != strlen (found->middle) + n
                || !g_str_has_prefix (middle_text, found->middle)))
    return FALSE;
  found->middle_text = g_strndup (middle_text, strlen (middle_text) - n);
  return TRUE;
}

/* Whether what is within a value is JSON, or written as the value itself. */
static gboolean
find_nested (LlmArgumentTexts *found,
             const char       *nested,
             const char       *behind)
{
  g_autofree char *before = g_strconcat (KEY, found->middle, NULL);
  g_autofree char *value = between (nested, before, behind);
  g_autofree char *same =
    g_strdup_printf ("{probe_in:[%sprobe_item%s]}", found->quote, found->quote);
  GString *plain = g_string_new (value);
  gboolean is_json;

  g_string_replace (plain, " ", "", 0);
  is_json = g_str_equal (plain->str, "{\"probe_in\":[\"probe_item\"]}");
  found->is_nested = g_str_equal (plain->str, same);
  g_string_free (plain, TRUE);
  return is_json
         || (found->is_nested && *found->quote != '\0' && g_str_equal (found->begin, "{")
             && g_str_equal (found->middle, ":") && g_str_equal (found->between, ",")
             && *behind == '}');
}

/* What is behind the last argument: of its call, between calls, and at the end. */
static gboolean
find_end (LlmTemplate      *self,
          LlmArgumentTexts *found,
          const char       *one,
          const char       *none,
          const char       *twice)
{
  LlmTemplateFeatures *features = &self->features;
  g_autofree char *end = between (one, VALUE, NULL);
  g_autofree char *next = between (twice, VALUE, OTHER_NAME);
  g_autofree char *behind = without_start (end, found->quote);
  g_autofree char *to_next = without_start (next, found->quote);
  gsize n;

  if (behind == NULL || none == NULL)
    return FALSE;
  n = found->is_nested ? 1 : to_next != NULL ? count_alike (behind, to_next) : strlen (behind);
  if (n == 0 || !g_str_has_suffix (none, behind + n))
    return FALSE;
  found->end = g_strndup (behind, n);
  found->empty = g_strndup (none, strlen (none) - strlen (behind + n));
  features->call_end = g_strdup (behind + n);
  features->call_middle = g_strdup ("");
  if (to_next != NULL && strlen (to_next) > n)
    {
      features->call_next = g_strdup (to_next + n);
      features->next_middle = g_strdup ("");
    }
  return TRUE;
}

/* Where nothing is around a string, what follows it must tell where it ends. */
static gboolean
find_stop (LlmArgumentTexts *found)
{
  gsize n = count_alike (found->between, found->end);
  gsize from = strspn (found->between, " \n");
  const char *last = from < n ? memchr (found->between + from, '>', n - from) : NULL;

  if (last != NULL)
    found->stop = g_strndup (found->between + from, (gsize) (last - found->between) - from + 1);
  return *found->quote != '\0' || last != NULL;
}

void
llm_template_find_arguments (LlmTemplate *self,
                             const char  *begin)
{
  static const char *const calls[] = {
    EXTRAS (CALL (NAME, "")), EXTRAS (CALL (NAME, ONE)),
    EXTRAS (CALL (NAME, ONE ", \"" OTHER_KEY "\": \"" OTHER_VALUE "\"")),
    EXTRAS (CALL (NAME, "\"" KEY "\": " NUMBER ", \"" OTHER_KEY "\": " NUMBER)),
    EXTRAS (CALL (NAME, "\"" KEY "\": {\"probe_in\": [\"probe_item\"]}")),
    EXTRAS (CALL (NAME, ONE) ", " CALL (OTHER_NAME, ONE)),
  };
  g_auto(GStrv) texts = g_new0 (char *, G_N_ELEMENTS (calls) + 1);
  LlmTemplateFeatures *features = &self->features;
  LlmArgumentTexts *found;
  const char *at;

  for (guint i = 0; i < G_N_ELEMENTS (calls); i++)
    {
      texts[i] = render (self, calls[i], NAME);
      if (texts[i] == NULL)
        texts[i] = g_strdup ("");
      cut_end (self, texts[i]);
    }
  found = g_new0 (LlmArgumentTexts, 1);
  at = strstr (texts[2], OTHER_KEY);
  found->is_sorted = at != NULL && strstr (at, KEY) != NULL;
  if (find_strings (found, texts[1], texts[2], texts[3])
      && strstr (found->between, KEY) == NULL && strstr (found->between, OTHER_KEY) == NULL)
    {
      g_autofree char *end = between (texts[1], VALUE, NULL);
      g_autofree char *behind = without_start (end, found->quote);

      if (behind != NULL && find_nested (found, texts[4], behind)
          && find_end (self, found, texts[1], texts[0], texts[5]) && find_stop (found))
        {
          features->arguments = found;
          /* thoughts that the template closes are no part of the call */
          at = g_strrstr (begin, "</");
          at = at != NULL ? strchr (at, '>') : NULL;
          features->call_begin = g_strdup (at != NULL ? at + 1 : begin);
          return;
        }
    }
  llm_argument_texts_free (found);
}

void
llm_argument_texts_free (LlmArgumentTexts *self)
{
  g_free (self->begin);
  g_free (self->middle_text);
  g_free (self->middle);
  g_free (self->between);
  g_free (self->end);
  g_free (self->empty);
  g_free (self->quote);
  g_free (self->stop);
  g_free (self);
}
