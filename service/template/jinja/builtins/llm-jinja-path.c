/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What filters name by “attribute”. */

#include "template/jinja/llm-jinja-private.h"

#include <string.h>

static LlmJinjaValue
get_part (LlmJinja             *self,
          const LlmJinjaValue  *value,
          const LlmJinjaString *part)
{
  LlmJinjaValue key = { .type = LLM_JINJA_STRING };
  gint64 index = 0;
  gboolean is_index = part->length > 0 && part->length < 10;

  for (gsize i = 0; i < part->length && is_index; i++)
    {
      is_index = g_ascii_isdigit (part->bytes[i]);
      index = index * 10 + (part->bytes[i] - '0');
    }
  key.string = *part;
  if (is_index)
    key = llm_jinja_int (index, 0);
  return llm_jinja_get_item (self, value, &key);
}

LlmJinjaValue
llm_jinja_get_path (LlmJinja            *self,
                    const LlmJinjaValue *value,
                    const LlmJinjaValue *attribute)
{
  LlmJinjaValue at = *value;

  if (attribute->type == LLM_JINJA_UNDEFINED || attribute->type == LLM_JINJA_NONE)
    return at;
  if (attribute->type == LLM_JINJA_INT)
    return llm_jinja_get_item (self, value, attribute);
  if (attribute->type != LLM_JINJA_STRING)
    llm_jinja_fail (self, "an attribute can't be of type %s", llm_jinja_type_name (attribute));
  for (gsize start = 0; start <= attribute->string.length;)
    {
      const char *bytes = attribute->string.bytes;
      gsize end = start;
      LlmJinjaValue part;

      while (end < attribute->string.length && bytes[end] != '.')
        end++;
      part = llm_jinja_string_cut (&attribute->string, start, end);
      at = get_part (self, &at, &part.string);
      start = end + 1;
    }
  return at;
}

LlmJinjaEntry *
llm_jinja_key_entries (LlmJinja            *self,
                       const LlmJinjaList  *over,
                       const LlmJinjaValue *attribute,
                       gboolean             minds_case)
{
  LlmJinjaEntry *entries = llm_jinja_alloc (self, over->n_items * sizeof *entries);

  for (guint i = 0; i < over->n_items; i++)
    {
      entries[i].value = over->items[i];
      entries[i].key = llm_jinja_get_path (self, &over->items[i], attribute);
      if (!minds_case && entries[i].key.type == LLM_JINJA_STRING)
        entries[i].key = llm_jinja_change_case (self, &entries[i].key.string,
                                                LLM_JINJA_CASE_LOWER);
    }
  return entries;
}
