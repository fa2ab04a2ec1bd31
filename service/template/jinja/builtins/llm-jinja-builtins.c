/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Finds filters and methods by name. */

#include "template/jinja/builtins/llm-jinja-builtins.h"

#include <string.h>

/* @places: those where it is looked for. */
static const LlmJinjaBuiltin *
find (const char *name, guint places)
{
  const LlmJinjaBuiltin *const tables[] = { llm_jinja_builtins_of_values, llm_jinja_builtins_of_text,
                                            llm_jinja_builtins_of_lists };

  for (guint t = 0; t < G_N_ELEMENTS (tables); t++)
    for (const LlmJinjaBuiltin *row = tables[t]; row->name != NULL; row++)
      if ((row->places & places) != 0 && strcmp (row->name, name) == 0)
        return row;
  return NULL;
}

LlmJinjaValue
llm_jinja_run_filter (LlmJinja            *self,
                      const char          *name,
                      const LlmJinjaValue *subject,
                      const LlmJinjaArgs  *args)
{
  const LlmJinjaBuiltin *filter = find (name, LLM_JINJA_IS_FILTER);

  if (filter == NULL)
    llm_jinja_fail (self, "the filter “%.60s” is not supported", name);
  return llm_jinja_run_builtin (self, filter, subject, args);
}

/* What Python has besides, with spaces around each name: to take it for undefined would write a
 * wrong text. What changes a value is refused by the sandbox of transformers too. */
static const char *
get_refused (const LlmJinjaValue *value)
{
  if (value->type == LLM_JINJA_STRING)
    return " casefold center encode expandtabs format_map index isascii isdecimal isidentifier"
           " isnumeric isprintable istitle ljust maketrans partition rindex rjust rpartition swapcase"
           " translate ";
  if (value->type == LLM_JINJA_DICT)
    return " clear fromkeys pop popitem setdefault update ";
  if (value->type == LLM_JINJA_LIST)
    return " append clear extend grouper insert list pop remove reverse sort ";
  if (value->type == LLM_JINJA_FUNCTION)
    return " arguments caller catch_kwargs catch_varargs defaults name ";
  if (llm_jinja_is_number (value))
    return " as_integer_ratio bit_count bit_length conjugate denominator from_bytes fromhex hex imag"
           " is_integer numerator real to_bytes ";
  return "";
}

static gboolean
has_word (const char *words, const char *word)
{
  gsize n = strlen (word);

  for (const char *at = strchr (words, ' '); at != NULL; at = strchr (at + 1, ' '))
    if (strncmp (at + 1, word, n) == 0 && at[n + 1] == ' ')
      return TRUE;
  return FALSE;
}

LlmJinjaValue
llm_jinja_find_method (LlmJinja *self, const LlmJinjaValue *value, const char *name)
{
  const LlmJinjaBuiltin *method = NULL;

  if (value->type == LLM_JINJA_STRING)
    method = find (name, LLM_JINJA_OF_STRING);
  else if (value->type == LLM_JINJA_DICT)
    method = find (name, LLM_JINJA_OF_DICT);
  else if (value->type == LLM_JINJA_LIST && value->list->kind <= LLM_JINJA_LIST_RANGE)
    method = find (name, LLM_JINJA_OF_LIST);
  if (method != NULL)
    return llm_jinja_new_method (self, name, method, value);
  if (*name != '\0' && has_word (get_refused (value), name))
    llm_jinja_fail (self, "“%s” of a value of type %s is not supported", name,
                    llm_jinja_type_name (value));
  return llm_jinja_undefined (name);
}
