/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Filters that apply others, or tests, to each item. */

#include "template/jinja/llm-jinja-private.h"

#include <string.h>

/* The name of a filter or a test, as text that ends. */
static const char *
take_name (LlmJinja            *self,
           const char          *function,
           const LlmJinjaValue *value)
{
  const LlmJinjaString *string = llm_jinja_need_string (self, function, value);
  char *name = llm_jinja_alloc (self, string->length + 1);

  if (string->length > 0)
    memcpy (name, string->bytes, string->length);
  return name;
}

/* Without the first @n values. */
static LlmJinjaArgs
skip_args (const LlmJinjaArgs *args,
           guint               n)
{
  return (LlmJinjaArgs) { args->values + n, args->n_values - n, args->names, args->n_names };
}

/* What is walked over: nothing where @subject is false, as in Jinja. */
static const LlmJinjaList *
iterate_true (LlmJinja            *self,
              const LlmJinjaValue *subject)
{
  return llm_jinja_is_true (subject) ? llm_jinja_iterate (self, subject)
                                     : llm_jinja_list_new (self, LLM_JINJA_LIST_LIST).list;
}

static LlmJinjaValue
map_attribute (LlmJinja            *self,
               const LlmJinjaValue *subject,
               const LlmJinjaArgs  *args)
{
  static const char *const names[] = { "attribute", "default", NULL };
  LlmJinjaValue arg[G_N_ELEMENTS (names)];
  const LlmJinjaList *over = iterate_true (self, subject);
  LlmJinjaValue result = llm_jinja_list_new (self, LLM_JINJA_LIST_GENERATOR);

  llm_jinja_args_take (self, "map", args, 1, names, arg);
  for (guint i = 0; i < over->n_items; i++)
    {
      LlmJinjaValue item = llm_jinja_get_path (self, &over->items[i], &arg[0]);

      if (item.type == LLM_JINJA_UNDEFINED && llm_jinja_arg_given (&arg[1]))
        item = arg[1];
      llm_jinja_list_add (self, result.list, item);
    }
  return result;
}

static LlmJinjaValue
filter_map (LlmJinja            *self,
            const LlmJinjaValue *subject,
            const LlmJinjaArgs  *args)
{
  guint n_positions = args->n_values - args->n_names;
  LlmJinjaValue result;
  const LlmJinjaList *over;
  const char *name;
  LlmJinjaArgs rest;

  if (n_positions == 0)
    return map_attribute (self, subject, args);
  over = iterate_true (self, subject);
  result = llm_jinja_list_new (self, LLM_JINJA_LIST_GENERATOR);
  name = take_name (self, "map", &args->values[0]);
  rest = skip_args (args, 1);
  for (guint i = 0; i < over->n_items; i++)
    llm_jinja_list_add (self, result.list, llm_jinja_run_filter (self, name, &over->items[i],
                                                                 &rest));
  return result;
}

/* The items for which the test is @wanted; of an attribute where @has_attribute. */
static LlmJinjaValue
pick (LlmJinja            *self,
      const LlmJinjaValue *subject,
      const LlmJinjaArgs  *args,
      gboolean             has_attribute,
      gboolean             wanted,
      const char          *function)
{
  const LlmJinjaList *over = iterate_true (self, subject);
  LlmJinjaValue result = llm_jinja_list_new (self, LLM_JINJA_LIST_GENERATOR);
  LlmJinjaValue attribute = llm_jinja_none ();
  guint n_positions = args->n_values - args->n_names;
  const char *test = NULL;
  LlmJinjaArgs rest = *args;

  if (has_attribute && n_positions == 0)
    llm_jinja_fail (self, "“%s” needs an attribute", function);
  if (has_attribute)
    {
      attribute = args->values[0];
      rest = skip_args (args, 1);
    }
  if (rest.n_values - rest.n_names > 0)
    {
      test = take_name (self, function, &rest.values[0]);
      rest = skip_args (&rest, 1);
    }
  for (guint i = 0; i < over->n_items; i++)
    {
      LlmJinjaValue item = llm_jinja_get_path (self, &over->items[i], &attribute);
      gboolean is_so = test != NULL ? llm_jinja_run_test (self, test, &item, &rest)
                                    : llm_jinja_is_true (&item);

      if (is_so == wanted)
        llm_jinja_list_add (self, result.list, over->items[i]);
    }
  return result;
}

static LlmJinjaValue
filter_select (LlmJinja            *self,
               const LlmJinjaValue *subject,
               const LlmJinjaArgs  *args)
{
  return pick (self, subject, args, FALSE, TRUE, "select");
}

static LlmJinjaValue
filter_reject (LlmJinja            *self,
               const LlmJinjaValue *subject,
               const LlmJinjaArgs  *args)
{
  return pick (self, subject, args, FALSE, FALSE, "reject");
}

static LlmJinjaValue
filter_selectattr (LlmJinja            *self,
                   const LlmJinjaValue *subject,
                   const LlmJinjaArgs  *args)
{
  return pick (self, subject, args, TRUE, TRUE, "selectattr");
}

static LlmJinjaValue
filter_rejectattr (LlmJinja            *self,
                   const LlmJinjaValue *subject,
                   const LlmJinjaArgs  *args)
{
  return pick (self, subject, args, TRUE, FALSE, "rejectattr");
}

/* Pairs of what the items of a group have in common, and these items. */
static LlmJinjaValue
filter_groupby (LlmJinja            *self,
                const LlmJinjaValue *subject,
                const LlmJinjaArgs  *args)
{
  static const char *const names[] = { "attribute", "default", "case_sensitive", NULL };
  LlmJinjaValue arg[G_N_ELEMENTS (names)];
  const LlmJinjaList *over = llm_jinja_iterate (self, subject);
  LlmJinjaValue result = llm_jinja_list_new (self, LLM_JINJA_LIST_LIST);
  LlmJinjaValue group = llm_jinja_none ();
  LlmJinjaEntry *entries;
  gboolean minds_case;

  llm_jinja_args_take (self, "groupby", args, 1, names, arg);
  minds_case = llm_jinja_is_true (&arg[2]);
  entries = llm_jinja_key_entries (self, over, &arg[0], minds_case);
  for (guint i = 0; i < over->n_items; i++)
    if (entries[i].key.type == LLM_JINJA_UNDEFINED && llm_jinja_arg_given (&arg[1]))
      entries[i].key = arg[1];
  llm_jinja_sort (self, entries, over->n_items, FALSE);
  for (guint i = 0; i < over->n_items; i++)
    {
      if (i == 0 || !llm_jinja_equal (self, &entries[i].key, &entries[i - 1].key))
        {
          LlmJinjaValue pair = llm_jinja_list_new (self, LLM_JINJA_LIST_TUPLE);
          LlmJinjaValue key = llm_jinja_get_path (self, &entries[i].value, &arg[0]);

          group = llm_jinja_list_new (self, LLM_JINJA_LIST_LIST);
          /* what the first of the group has, in its own case */
          llm_jinja_list_add (self, pair.list, key.type != LLM_JINJA_UNDEFINED ? key
                                                                              : entries[i].key);
          llm_jinja_list_add (self, pair.list, group);
          llm_jinja_list_add (self, result.list, pair);
        }
      llm_jinja_list_add (self, group.list, entries[i].value);
    }
  return result;
}

const LlmJinjaBuiltinEntry llm_jinja_filters_of_picks[] = {
  { "groupby", filter_groupby },
  { "map", filter_map },
  { "reject", filter_reject },
  { "rejectattr", filter_rejectattr },
  { "select", filter_select },
  { "selectattr", filter_selectattr },
  { NULL, NULL },
};
