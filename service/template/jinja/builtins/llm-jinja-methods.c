/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Methods of dicts and lists, and where those of strings are found. Those that change a value are
 * refused, as the sandbox that transformers uses refuses them. */

#include "template/jinja/llm-jinja-private.h"

#include <string.h>

static void
take_none (LlmJinja           *self,
           const char         *function,
           const LlmJinjaArgs *args)
{
  static const char *const names[] = { NULL };

  llm_jinja_args_take (self, function, args, 0, names, NULL);
}

static LlmJinjaValue
dict_get (LlmJinja            *self,
          const LlmJinjaValue *subject,
          const LlmJinjaArgs  *args)
{
  static const char *const names[] = { "key", "default", NULL };
  LlmJinjaValue arg[G_N_ELEMENTS (names)];
  LlmJinjaValue *value;

  llm_jinja_args_take (self, "get", args, 1, names, arg);
  if (args->n_names > 0)
    llm_jinja_fail (self, "“get” takes no arguments by name");
  if (arg[0].type == LLM_JINJA_UNDEFINED)
    return llm_jinja_arg_given (&arg[1]) ? arg[1] : llm_jinja_none ();
  value = llm_jinja_dict_get (self, subject->dict, &arg[0]);
  if (value != NULL)
    return *value;
  return llm_jinja_arg_given (&arg[1]) ? arg[1] : llm_jinja_none ();
}

static LlmJinjaValue
view_dict (LlmJinja            *self,
           const LlmJinjaValue *subject,
           LlmJinjaListKind     kind)
{
  LlmJinjaValue view = llm_jinja_list_new (self, kind);

  for (guint i = 0; i < subject->dict->n_entries; i++)
    {
      const LlmJinjaEntry *entry = &subject->dict->entries[i];
      LlmJinjaValue pair;

      if (kind == LLM_JINJA_LIST_KEYS)
        pair = entry->key;
      else if (kind == LLM_JINJA_LIST_VALUES)
        pair = entry->value;
      else
        {
          pair = llm_jinja_list_new (self, LLM_JINJA_LIST_TUPLE);
          llm_jinja_list_add (self, pair.list, entry->key);
          llm_jinja_list_add (self, pair.list, entry->value);
        }
      llm_jinja_list_add (self, view.list, pair);
    }
  view.origin = subject->origin;
  return view;
}

static LlmJinjaValue
dict_items (LlmJinja            *self,
            const LlmJinjaValue *subject,
            const LlmJinjaArgs  *args)
{
  take_none (self, "items", args);
  return view_dict (self, subject, LLM_JINJA_LIST_ITEMS);
}

static LlmJinjaValue
dict_keys (LlmJinja            *self,
           const LlmJinjaValue *subject,
           const LlmJinjaArgs  *args)
{
  take_none (self, "keys", args);
  return view_dict (self, subject, LLM_JINJA_LIST_KEYS);
}

static LlmJinjaValue
dict_values (LlmJinja            *self,
             const LlmJinjaValue *subject,
             const LlmJinjaArgs  *args)
{
  take_none (self, "values", args);
  return view_dict (self, subject, LLM_JINJA_LIST_VALUES);
}

static LlmJinjaValue
copy_value (LlmJinja            *self,
            const LlmJinjaValue *subject,
            const LlmJinjaArgs  *args)
{
  take_none (self, "copy", args);
  return *subject;
}

static LlmJinjaValue
list_index (LlmJinja            *self,
            const LlmJinjaValue *subject,
            const LlmJinjaArgs  *args)
{
  static const char *const names[] = { "value", NULL };
  LlmJinjaValue arg[G_N_ELEMENTS (names)];

  llm_jinja_args_take (self, "index", args, 1, names, arg);
  for (guint i = 0; i < subject->list->n_items; i++)
    if (llm_jinja_equal (self, &subject->list->items[i], &arg[0]))
      return llm_jinja_int (i, 0);
  llm_jinja_fail (self, "“index” found no such item");
}

static LlmJinjaValue
list_count (LlmJinja            *self,
            const LlmJinjaValue *subject,
            const LlmJinjaArgs  *args)
{
  static const char *const names[] = { "value", NULL };
  LlmJinjaValue arg[G_N_ELEMENTS (names)];
  gint64 n = 0;

  llm_jinja_args_take (self, "count", args, 1, names, arg);
  for (guint i = 0; i < subject->list->n_items; i++)
    n += llm_jinja_equal (self, &subject->list->items[i], &arg[0]);
  return llm_jinja_int (n, 0);
}

static const LlmJinjaBuiltinEntry of_dicts[] = {
  { "copy", copy_value }, { "get", dict_get }, { "items", dict_items }, { "keys", dict_keys },
  { "values", dict_values }, { NULL, NULL },
};

static const LlmJinjaBuiltinEntry of_lists[] = {
  { "copy", copy_value }, { "count", list_count }, { "index", list_index }, { NULL, NULL },
};

/* What Python has besides: to take it for undefined would write a wrong text. */
static const char *const refused_of_dicts[] = { "clear", "fromkeys", "pop", "popitem", "setdefault",
                                                "update", NULL };
static const char *const refused_of_lists[] = { "append", "clear", "extend", "insert", "pop",
                                                "remove", "reverse", "sort", "grouper", "list",
                                                NULL };
static const char *const refused_of_text[] = { "casefold", "encode", "expandtabs", "format_map",
                                               "index", "isascii", "isdecimal", "isidentifier",
                                               "isnumeric", "isprintable", "istitle", "maketrans",
                                               "rindex", "swapcase", "translate", NULL };
static const char *const refused_of_numbers[] = { "as_integer_ratio", "bit_count", "bit_length",
                                                  "conjugate", "denominator", "from_bytes",
                                                  "fromhex", "hex", "imag", "is_integer",
                                                  "numerator", "real", "to_bytes", NULL };
static const char *const refused_of_macros[] = { "arguments", "caller", "catch_kwargs",
                                                 "catch_varargs", "defaults", "name", NULL };

static LlmJinjaBuiltin
find_in (const LlmJinjaBuiltinEntry *table,
         const char                 *name)
{
  for (; table->name != NULL; table++)
    if (strcmp (table->name, name) == 0)
      return table->run;
  return NULL;
}

LlmJinjaValue
llm_jinja_find_method (LlmJinja            *self,
                       const LlmJinjaValue *value,
                       const char          *name)
{
  LlmJinjaBuiltin method = NULL;
  const char *const *refused = NULL;

  if (value->type == LLM_JINJA_STRING)
    {
      method = find_in (llm_jinja_methods_of_text, name);
      if (method == NULL)
        method = find_in (llm_jinja_methods_of_splits, name);
      refused = refused_of_text;
    }
  else if (value->type == LLM_JINJA_DICT)
    {
      method = find_in (of_dicts, name);
      refused = refused_of_dicts;
    }
  else if (value->type == LLM_JINJA_LIST)
    {
      if (value->list->kind <= LLM_JINJA_LIST_RANGE)
        method = find_in (of_lists, name);
      refused = refused_of_lists;
    }
  else if (llm_jinja_is_number (value))
    refused = refused_of_numbers;
  else if (value->type == LLM_JINJA_FUNCTION)
    refused = refused_of_macros;

  if (method != NULL)
    return llm_jinja_new_method (self, name, method, value);
  for (guint i = 0; refused != NULL && refused[i] != NULL; i++)
    if (strcmp (refused[i], name) == 0)
      llm_jinja_fail (self, "“%s” of a value of type %s is not supported", name,
                      llm_jinja_type_name (value));
  return llm_jinja_undefined (name);
}
