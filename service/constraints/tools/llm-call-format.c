/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "constraints/tools/llm-call-format.h"

#include <string.h>

#include "common/llmsvc-json.h"
#include "constraints/llm-token-trie.h"

static const LlmTemplateFeatures general = {
  .has_parallel_calls = TRUE,
  .format = LLM_TOOL_FORMAT_JSON,
  .call_begin = (char *) "<tool_call>\n{\"name\": \"",
  .call_middle = (char *) "\", \"arguments\": ",
  .call_end = (char *) "}\n</tool_call>",
  .call_next = (char *) "}\n</tool_call>\n<tool_call>\n{\"name\": \"",
  .next_middle = (char *) "\", \"arguments\": ",
};

gboolean
llm_call_format_is_known (const LlmTemplateFeatures *features)
{
  return features != NULL && features->format == LLM_TOOL_FORMAT_JSON;
}

/* --- the texts --- */

typedef struct
{
  GPtrArray *texts;      /* (element-type utf8): of control tokens, */
  GArray *ends;          /* (element-type gboolean): and whether they end an answer */
} Controls;

static void
controls_init (Controls     *self,
               LlmTokenizer *tokenizer)
{
  self->texts = g_ptr_array_new_with_free_func (g_free);
  self->ends = g_array_new (FALSE, FALSE, sizeof (gboolean));
  for (gint32 id = 0; tokenizer != NULL && id < (gint32) tokenizer->n_tokens; id++)
    {
      gboolean ends = llm_tokenizer_ends_answer (tokenizer, id);
      GString *text;

      if (!ends && !llm_tokenizer_is_control (tokenizer, id))
        continue;
      text = g_string_new (NULL);
      llm_tokenizer_decode_token (tokenizer, id, TRUE, text);
      g_ptr_array_add (self->texts, g_string_free (text, FALSE));
      g_array_append_val (self->ends, ends);
    }
}

static void
controls_clear (Controls *self)
{
  g_ptr_array_unref (self->texts);
  g_array_unref (self->ends);
}

/* The longest that @text begins with; its length, or 0. */
static gsize
find_control (const Controls *self,
              const char     *text,
              gboolean       *ends)
{
  gsize longest = 0;

  for (guint i = 0; i < self->texts->len; i++)
    {
      const char *control = g_ptr_array_index (self->texts, i);
      gsize n = strlen (control);

      if (n > longest && strncmp (text, control, n) == 0)
        {
          longest = n;
          *ends = g_array_index (self->ends, gboolean, i);
        }
    }
  return longest;
}

static gboolean
stands_alone (const char *text,
              const char *at)
{
  return (at == text || !g_ascii_isalnum (at[-1])) && !g_ascii_isalnum (at[1]);
}

/* (transfer full) (nullable): @text with control tokens, ids and, if @is_next, the number of the
 * call as they are in an LlmCallFormat; NULL where a token in it would end the answer. @first:
 * (out) (optional): length of the control token that it begins with, or 0. */
static char *
convert (const char     *text,
         const Controls *controls,
         gboolean        is_next,
         gsize          *first)
{
  static const char *const ids[] = { LLM_TEMPLATE_CALL_ID, LLM_TEMPLATE_NEXT_ID };
  g_autoptr(GString) converted = g_string_new (NULL);
  const char *at = text;

  while (*at != '\0')
    {
      gboolean ends = FALSE;
      gsize n = find_control (controls, at, &ends);
      gboolean is_id = FALSE;

      if (ends)
        return NULL;
      if (n > 0)
        {
          if (at == text && first != NULL)
            *first = n + 1;
          g_string_append_c (converted, LLM_TRIE_CONTROL);
          g_string_append_len (converted, at, (gssize) n);
          at += n;
          continue;
        }
      for (guint i = 0; i < G_N_ELEMENTS (ids); i++)
        is_id |= g_str_has_prefix (at, ids[i]);
      if (is_id)
        {
          g_string_append_c (converted, LLM_CALL_ID);
          at += strlen (ids[0]);
        }
      else if (is_next && *at == '1' && stands_alone (text, at))
        {
          g_string_append_c (converted, LLM_CALL_NUMBER);
          at++;
        }
      else
        {
          g_string_append_c (converted, *at++);
        }
    }
  return g_string_free (g_steal_pointer (&converted), FALSE);
}

/* Up to the end of the first tag; without one, up to where JSON begins. */
static char *
find_marker (LlmCallFormat *self,
             gsize          first)
{
  const char *stops = "\x01\x02\xff{\"";
  gsize n;

  self->is_at_start = *self->begin == '{';
  if (self->is_at_start)
    return g_strdup ("{");
  if (first > 0)
    return g_strndup (self->begin, first);
  n = strcspn (self->begin, ">]");
  if (self->begin[n] != '\0' && n < strcspn (self->begin, stops))
    return g_strndup (self->begin, n + 1);
  return g_strchomp (g_strndup (self->begin, strcspn (self->begin, stops)));
}

static LlmCallFormat *
new_of_texts (const LlmTemplateFeatures *features,
              const Controls            *controls)
{
  g_autoptr(LlmCallFormat) self = g_new0 (LlmCallFormat, 1);
  const char *begin = features->call_begin + strspn (features->call_begin, " \n\t");
  gsize first = 0;

  self->begin = convert (begin, controls, FALSE, &first);
  self->middle = convert (features->call_middle, controls, FALSE, NULL);
  self->end = convert (features->call_end, controls, FALSE, NULL);
  if (self->begin == NULL || self->middle == NULL || self->end == NULL)
    return NULL;
  self->marker = find_marker (self, first);
  if (*self->marker == '\0' || *self->middle == '\0')
    return NULL;
  if (features->call_next != NULL)
    {
      self->next = convert (features->call_next, controls, TRUE, NULL);
      self->next_middle = convert (features->next_middle, controls, TRUE, NULL);
    }
  if (self->next == NULL || self->next_middle == NULL || *self->next_middle == '\0')
    {
      g_clear_pointer (&self->next, g_free);
      g_clear_pointer (&self->next_middle, g_free);
    }
  return g_steal_pointer (&self);
}

LlmCallFormat *
llm_call_format_new (const LlmTemplateFeatures *features,
                     LlmTokenizer              *tokenizer)
{
  Controls controls;
  LlmCallFormat *self = NULL;

  controls_init (&controls, tokenizer);
  if (llm_call_format_is_known (features))
    self = new_of_texts (features, &controls);
  if (self == NULL)
    self = new_of_texts (&general, &controls);
  /* a vocabulary whose end of answers is the general way's tag */
  if (self == NULL)
    {
      g_ptr_array_set_size (controls.texts, 0);
      self = new_of_texts (&general, &controls);
    }
  controls_clear (&controls);
  return self;
}

void
llm_call_format_free (LlmCallFormat *self)
{
  g_free (self->begin);
  g_free (self->middle);
  g_free (self->next);
  g_free (self->next_middle);
  g_free (self->end);
  g_free (self->marker);
  g_free (self);
}

/* --- reading --- */

static const char *
skip_space (const char *at,
            const char *end)
{
  while (at < end && g_ascii_isspace (*at))
    at++;
  return at;
}

/* (nullable): behind what @pattern stands for, spaces aside; @id: an id in it. */
static const char *
match (const char *pattern,
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
          g_string_assign (id, "");
          g_string_append_len (id, start, at - start);
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
  return skip_space (at, end);
}

/* (nullable): behind the JSON object at @at. */
static const char *
skip_object (const char *at,
             const char *end)
{
  guint depth = 0;
  gboolean is_string = FALSE;

  if (at == end || *at != '{')
    return NULL;
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

static void
make_id (GString *id)
{
  static const char characters[] = "abcdefghijklmnopqrstuvwxyz0123456789";

  while (id->len < LLM_CALL_ID_LENGTH)
    g_string_append_c (id, characters[g_random_int_range (0, sizeof characters - 1)]);
}

/* Where the calls begin. */
static const char *
find_start (const LlmCallFormat *self,
            const char          *answer,
            gsize                length)
{
  const char *end = answer + length;
  const char *start = skip_space (answer, end);

  if (self->is_at_start)
    return start < end && *start == *self->marker ? start : NULL;
  return length > 0 ? memmem (answer, length, self->marker, strlen (self->marker)) : NULL;
}

char *
llm_call_format_read (const LlmCallFormat *self,
                      const char          *answer,
                      gsize                length,
                      gboolean            *is_cut)
{
  const char *end = answer + length;
  const char *at = find_start (self, answer, length);
  g_autoptr(GString) calls = g_string_new ("[");
  g_autoptr(GString) id = g_string_new (NULL);
  const char *middle = self->middle;

  *is_cut = at != NULL;
  if (at != NULL)
    at = match (self->begin, at, end, id);
  while (at != NULL)
    {
      const char *name = at;
      const char *name_end, *object, *behind;

      while (at < end && (g_ascii_isalnum (*at) || strchr ("_-.", *at) != NULL) && *at != '\0')
        at++;
      name_end = at;
      object = name_end > name ? match (middle, at, end, id) : NULL;
      at = object != NULL ? skip_object (object, end) : NULL;
      if (at == NULL || !g_utf8_validate (object, at - object, NULL))
        break;
      /* an id may come behind */
      behind = self->next != NULL ? match (self->next, at, end, id) : NULL;
      if (behind == NULL)
        *is_cut = match (self->end, at, end, id) == NULL;
      make_id (id);
      g_string_append_printf (calls,
                              "%s{\"id\":\"%s\",\"type\":\"function\",\"function\":{\"name\":"
                              "\"%.*s\",\"arguments\":\"", calls->len > 1 ? "," : "", id->str,
                              (int) (name_end - name), name);
      llmsvc_json_append_escaped (calls, object, (gsize) (at - object));
      g_string_append (calls, "\"}}");
      g_string_assign (id, "");
      at = behind;
      middle = self->next_middle;
    }
  if (calls->len == 1)
    return NULL;
  g_string_append_c (calls, ']');
  return g_string_free (g_steal_pointer (&calls), FALSE);
}
