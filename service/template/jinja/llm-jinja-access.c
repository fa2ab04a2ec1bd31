/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Attributes and items. */

#include "template/jinja/llm-jinja-private.h"

/* No method has a longer name. */
#define MAX_METHOD_BYTES 64

static LlmJinjaValue
get_by_index (LlmJinja *self, const LlmJinjaValue *value, gint64 index, const char *name)
{
  gint64 length;
  gsize start;

  llm_jinja_charge (self, value, 1);
  if (!llm_jinja_get_length (self, value, &length)
      || (value->type == LLM_JINJA_LIST && value->list->kind > LLM_JINJA_LIST_RANGE))
    return llm_jinja_undefined (name);
  if (index < 0)
    index += length;
  if (index < 0 || index >= length)
    return llm_jinja_undefined (name);
  if (value->type == LLM_JINJA_LIST)
    return value->list->items[index];
  start = llm_jinja_string_offset (&value->string, (gsize) index);
  return llm_jinja_string_cut (&value->string, start,
                               llm_jinja_next_character (&value->string, start));
}

static void
check_defined (LlmJinja *self, const LlmJinjaValue *value, const char *what)
{
  if (value->type == LLM_JINJA_UNDEFINED)
    llm_jinja_fail (self, "“%.60s” is undefined, so it has no “%.60s”",
                    value->name != NULL ? value->name : "", what);
}

LlmJinjaValue
llm_jinja_get_item (LlmJinja *self, const LlmJinjaValue *value, const LlmJinjaValue *key)
{
  const char *name = "item";
  LlmJinjaValue *item = NULL;

  check_defined (self, value, name);
  if (key->type == LLM_JINJA_UNDEFINED)
    return llm_jinja_undefined (name);
  if ((value->type == LLM_JINJA_DICT || value->type == LLM_JINJA_NAMESPACE)
      && (key->type == LLM_JINJA_STRING || key->type == LLM_JINJA_NONE
          || llm_jinja_is_number (key)))
    item = llm_jinja_dict_get (self, value->dict, key);
  if (item != NULL)
    return *item;
  if (key->type == LLM_JINJA_INT || key->type == LLM_JINJA_BOOL)
    return value->type == LLM_JINJA_STRING || value->type == LLM_JINJA_LIST
             ? get_by_index (self, value, llm_jinja_need_int (self, name, key), name)
             : llm_jinja_undefined (name);
  /* a method may be asked for so, too */
  return key->type == LLM_JINJA_STRING && key->string.length < MAX_METHOD_BYTES
           ? llm_jinja_find_method (self, value, llm_jinja_copy (self, &key->string))
           : llm_jinja_undefined (name);
}

LlmJinjaValue
llm_jinja_get_attribute (LlmJinja *self, const LlmJinjaValue *value, const char *name)
{
  LlmJinjaValue *item = NULL;
  LlmJinjaValue method;

  check_defined (self, value, name);
  if (value->type == LLM_JINJA_NAMESPACE)
    {
      item = llm_jinja_dict_get_name (self, value->dict, name);
      return item != NULL ? *item : llm_jinja_undefined (name);
    }
  /* as Python's attributes do, methods come first */
  method = llm_jinja_find_method (self, value, name);
  if (method.type != LLM_JINJA_UNDEFINED)
    return method;
  if (value->type == LLM_JINJA_DICT)
    item = llm_jinja_dict_get_name (self, value->dict, name);
  return item != NULL ? *item : llm_jinja_undefined (name);
}
