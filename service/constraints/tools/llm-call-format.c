/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "constraints/tools/llm-call-format.h"

#include <string.h>

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
  return features != NULL
         && (features->format == LLM_TOOL_FORMAT_JSON || features->arguments != NULL);
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

/* (transfer full) (nullable): NULL where a token in it would end the answer. */
static LlmArgumentTexts *
convert_arguments (const LlmArgumentTexts *texts,
                   const Controls         *controls)
{
  LlmArgumentTexts *self = g_new0 (LlmArgumentTexts, 1);

  self->begin = convert (texts->begin, controls, FALSE, NULL);
  self->middle_text = convert (texts->middle_text, controls, FALSE, NULL);
  self->middle = convert (texts->middle, controls, FALSE, NULL);
  self->between = convert (texts->between, controls, FALSE, NULL);
  self->end = convert (texts->end, controls, FALSE, NULL);
  self->empty = convert (texts->empty, controls, FALSE, NULL);
  self->quote = convert (texts->quote, controls, FALSE, NULL);
  self->stop = texts->stop != NULL ? convert (texts->stop, controls, FALSE, NULL) : NULL;
  self->is_nested = texts->is_nested;
  self->is_sorted = texts->is_sorted;
  if (self->begin == NULL || self->middle_text == NULL || self->middle == NULL
      || self->between == NULL || self->end == NULL || self->empty == NULL || self->quote == NULL
      || (self->stop == NULL && texts->stop != NULL))
    g_clear_pointer (&self, llm_argument_texts_free);
  return self;
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
  if (features->arguments != NULL)
    self->arguments = convert_arguments (features->arguments, controls);
  if (self->begin == NULL || self->middle == NULL || self->end == NULL
      || (self->arguments == NULL && (features->arguments != NULL || *self->middle == '\0')))
    return NULL;
  self->marker = find_marker (self, first);
  /* “<” alone, of a tag that has a control token within, would begin calls in any text */
  if (strlen (self->marker) < 2 && !self->is_at_start)
    return NULL;
  if (features->call_next != NULL)
    {
      self->next = convert (features->call_next, controls, TRUE, NULL);
      self->next_middle = convert (features->next_middle, controls, TRUE, NULL);
    }
  if (self->next == NULL || self->next_middle == NULL
      || (*self->next_middle == '\0' && self->arguments == NULL))
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
  g_clear_pointer (&self->arguments, llm_argument_texts_free);
  g_free (self);
}
