/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Filters of lists and dicts. */

#include "template/jinja/llm-jinja-private.h"

#include <string.h>

#define TAKE(function, n_needed, ...)                                                 \
  static const char *const names[] = { __VA_ARGS__, NULL };                           \
  LlmJinjaValue arg[G_N_ELEMENTS (names)];                                            \
  llm_jinja_args_take (self, function, args, n_needed, names, arg)

static void
take_none (LlmJinja           *self,
           const char         *function,
           const LlmJinjaArgs *args)
{
  static const char *const names[] = { NULL };

  llm_jinja_args_take (self, function, args, 0, names, NULL);
}

static LlmJinjaValue
copy_list (LlmJinja            *self,
           const LlmJinjaValue *value)
{
  const LlmJinjaList *over = llm_jinja_iterate (self, value);
  LlmJinjaValue result = llm_jinja_list_new (self, LLM_JINJA_LIST_LIST);

  for (guint i = 0; i < over->n_items; i++)
    llm_jinja_list_add (self, result.list, over->items[i]);
  result.origin = value->origin;
  return result;
}

static LlmJinjaValue
filter_list (LlmJinja            *self,
             const LlmJinjaValue *subject,
             const LlmJinjaArgs  *args)
{
  take_none (self, "list", args);
  return copy_list (self, subject);
}

static LlmJinjaValue
filter_first (LlmJinja            *self,
              const LlmJinjaValue *subject,
              const LlmJinjaArgs  *args)
{
  take_none (self, "first", args);
  if (subject->type == LLM_JINJA_LIST && subject->list->kind == LLM_JINJA_LIST_GENERATOR)
    return subject->list->next < subject->list->n_items
             ? subject->list->items[subject->list->next++] : llm_jinja_undefined ("first");
  {
    const LlmJinjaList *over = llm_jinja_iterate (self, subject);

    return over->n_items > 0 ? over->items[0] : llm_jinja_undefined ("first");
  }
}

static LlmJinjaValue
filter_last (LlmJinja            *self,
             const LlmJinjaValue *subject,
             const LlmJinjaArgs  *args)
{
  const LlmJinjaList *over;

  take_none (self, "last", args);
  if (subject->type == LLM_JINJA_LIST && subject->list->kind == LLM_JINJA_LIST_GENERATOR)
    llm_jinja_fail (self, "a generator has no last item; a list (“| list”) has");
  over = llm_jinja_iterate (self, subject);
  return over->n_items > 0 ? over->items[over->n_items - 1] : llm_jinja_undefined ("last");
}

static LlmJinjaValue
filter_reverse (LlmJinja            *self,
                const LlmJinjaValue *subject,
                const LlmJinjaArgs  *args)
{
  const LlmJinjaList *over = llm_jinja_iterate (self, subject);
  LlmJinjaValue result = llm_jinja_list_new (self, LLM_JINJA_LIST_GENERATOR);

  take_none (self, "reverse", args);
  if (subject->type == LLM_JINJA_STRING)
    {
      LlmJinjaText *text = llm_jinja_text_new (self);

      for (guint i = over->n_items; i-- > 0;)
        llm_jinja_text_add (self, text, &over->items[i].string);
      return llm_jinja_text_end (text);
    }
  for (guint i = over->n_items; i-- > 0;)
    llm_jinja_list_add (self, result.list, over->items[i]);
  return result;
}

static LlmJinjaValue
filter_join (LlmJinja            *self,
             const LlmJinjaValue *subject,
             const LlmJinjaArgs  *args)
{
  TAKE ("join", 0, "d", "attribute");
  const LlmJinjaList *over = llm_jinja_iterate (self, subject);
  LlmJinjaText *text = llm_jinja_text_new (self);
  LlmJinjaValue between = llm_jinja_to_string (self, &arg[0]);

  for (guint i = 0; i < over->n_items; i++)
    {
      LlmJinjaValue item = llm_jinja_get_path (self, &over->items[i], &arg[1]);

      if (i > 0)
        llm_jinja_text_add (self, text, &between.string);
      item = llm_jinja_to_string (self, &item);
      llm_jinja_text_add (self, text, &item.string);
    }
  return llm_jinja_text_end (text);
}

static LlmJinjaValue
filter_sort (LlmJinja            *self,
             const LlmJinjaValue *subject,
             const LlmJinjaArgs  *args)
{
  TAKE ("sort", 0, "reverse", "case_sensitive", "attribute");
  const LlmJinjaList *over = llm_jinja_iterate (self, subject);
  LlmJinjaValue result = llm_jinja_list_new (self, LLM_JINJA_LIST_LIST);
  LlmJinjaEntry *entries;

  if (arg[2].type == LLM_JINJA_STRING && arg[2].string.length > 0
      && memchr (arg[2].string.bytes, ',', arg[2].string.length) != NULL)
    llm_jinja_fail (self, "“sort” by several attributes is not supported");
  entries = llm_jinja_key_entries (self, over, &arg[2], llm_jinja_is_true (&arg[1]));
  llm_jinja_sort (self, entries, over->n_items, llm_jinja_is_true (&arg[0]));
  for (guint i = 0; i < over->n_items; i++)
    llm_jinja_list_add (self, result.list, entries[i].value);
  return result;
}

static LlmJinjaValue
filter_unique (LlmJinja            *self,
               const LlmJinjaValue *subject,
               const LlmJinjaArgs  *args)
{
  TAKE ("unique", 0, "case_sensitive", "attribute");
  const LlmJinjaList *over = llm_jinja_iterate (self, subject);
  LlmJinjaEntry *entries = llm_jinja_key_entries (self, over, &arg[1], llm_jinja_is_true (&arg[0]));
  LlmJinjaValue result = llm_jinja_list_new (self, LLM_JINJA_LIST_GENERATOR);
  LlmJinjaValue seen = llm_jinja_dict_new (self);

  for (guint i = 0; i < over->n_items; i++)
    {
      if (llm_jinja_dict_get (self, seen.dict, &entries[i].key) != NULL)
        continue;
      llm_jinja_dict_set (self, seen.dict, entries[i].key, llm_jinja_none ());
      llm_jinja_list_add (self, result.list, entries[i].value);
    }
  return result;
}

static LlmJinjaValue
find_extreme (LlmJinja            *self,
              const LlmJinjaValue *subject,
              const LlmJinjaArgs  *args,
              int                  sign)
{
  TAKE (sign < 0 ? "min" : "max", 0, "case_sensitive", "attribute");
  const LlmJinjaList *over = llm_jinja_iterate (self, subject);
  LlmJinjaEntry *entries = llm_jinja_key_entries (self, over, &arg[1], llm_jinja_is_true (&arg[0]));
  guint best = 0;

  for (guint i = 1; i < over->n_items; i++)
    if (llm_jinja_compare (self, &entries[i].key, &entries[best].key) * sign > 0)
      best = i;
  return over->n_items > 0 ? entries[best].value : llm_jinja_undefined ("no item");
}

static LlmJinjaValue
filter_min (LlmJinja            *self,
            const LlmJinjaValue *subject,
            const LlmJinjaArgs  *args)
{
  return find_extreme (self, subject, args, -1);
}

static LlmJinjaValue
filter_max (LlmJinja            *self,
            const LlmJinjaValue *subject,
            const LlmJinjaArgs  *args)
{
  return find_extreme (self, subject, args, 1);
}

static LlmJinjaValue
filter_sum (LlmJinja            *self,
            const LlmJinjaValue *subject,
            const LlmJinjaArgs  *args)
{
  TAKE ("sum", 0, "attribute", "start");
  const LlmJinjaList *over = llm_jinja_iterate (self, subject);
  LlmJinjaValue sum = llm_jinja_arg_given (&arg[1]) ? arg[1] : llm_jinja_int (0, 0);

  if (sum.type == LLM_JINJA_STRING)
    llm_jinja_fail (self, "“sum” can't add strings");
  for (guint i = 0; i < over->n_items; i++)
    {
      LlmJinjaValue item = llm_jinja_get_path (self, &over->items[i], &arg[0]);

      sum = llm_jinja_calculate (self, LLM_JINJA_OP_ADD, &sum, &item);
    }
  return sum;
}

static LlmJinjaValue
filter_batch (LlmJinja            *self,
              const LlmJinjaValue *subject,
              const LlmJinjaArgs  *args)
{
  TAKE ("batch", 1, "linecount", "fill_with");
  const LlmJinjaList *over = llm_jinja_iterate (self, subject);
  LlmJinjaValue result = llm_jinja_list_new (self, LLM_JINJA_LIST_GENERATOR);
  gint64 n = llm_jinja_need_int (self, "batch", &arg[0]);

  if (n < 1 || n > G_MAXINT32)
    llm_jinja_fail (self, "“batch” needs a positive number");
  for (guint i = 0; i < over->n_items; i += (guint) n)
    {
      LlmJinjaValue row = llm_jinja_list_new (self, LLM_JINJA_LIST_LIST);

      for (guint j = 0; j < (guint) n; j++)
        if (i + j < over->n_items)
          llm_jinja_list_add (self, row.list, over->items[i + j]);
        else if (llm_jinja_arg_given (&arg[1]) && arg[1].type != LLM_JINJA_NONE)
          llm_jinja_list_add (self, row.list, arg[1]);
        else
          break;
      llm_jinja_list_add (self, result.list, row);
    }
  return result;
}

static LlmJinjaValue
filter_slice (LlmJinja            *self,
              const LlmJinjaValue *subject,
              const LlmJinjaArgs  *args)
{
  TAKE ("slice", 1, "slices", "fill_with");
  const LlmJinjaList *over = llm_jinja_iterate (self, subject);
  LlmJinjaValue result = llm_jinja_list_new (self, LLM_JINJA_LIST_GENERATOR);
  gint64 n = llm_jinja_need_int (self, "slice", &arg[0]);
  guint at = 0;

  if (n < 1 || n > 100000)
    llm_jinja_fail (self, "“slice” needs a positive number up to 100000");
  for (guint i = 0; i < (guint) n; i++)
    {
      LlmJinjaValue row = llm_jinja_list_new (self, LLM_JINJA_LIST_LIST);
      guint extra = over->n_items % (guint) n;

      for (guint j = 0; j < over->n_items / (guint) n + (i < extra); j++)
        llm_jinja_list_add (self, row.list, over->items[at++]);
      if (llm_jinja_arg_given (&arg[1]) && arg[1].type != LLM_JINJA_NONE && i >= extra)
        llm_jinja_list_add (self, row.list, arg[1]);
      llm_jinja_list_add (self, result.list, row);
    }
  return result;
}

static LlmJinjaValue
new_pair (LlmJinja            *self,
          const LlmJinjaValue *first,
          const LlmJinjaValue *second)
{
  LlmJinjaValue pair = llm_jinja_list_new (self, LLM_JINJA_LIST_TUPLE);

  llm_jinja_list_add (self, pair.list, *first);
  llm_jinja_list_add (self, pair.list, *second);
  return pair;
}

static LlmJinjaValue
filter_items (LlmJinja            *self,
              const LlmJinjaValue *subject,
              const LlmJinjaArgs  *args)
{
  LlmJinjaValue result = llm_jinja_list_new (self, LLM_JINJA_LIST_GENERATOR);

  take_none (self, "items", args);
  if (subject->type == LLM_JINJA_UNDEFINED)
    return result;
  if (subject->type != LLM_JINJA_DICT)
    llm_jinja_fail (self, "“items” needs a dict, not a value of type %s",
                    llm_jinja_type_name (subject));
  for (guint i = 0; i < subject->dict->n_entries; i++)
    llm_jinja_list_add (self, result.list, new_pair (self, &subject->dict->entries[i].key,
                                                     &subject->dict->entries[i].value));
  return result;
}

static LlmJinjaValue
filter_dictsort (LlmJinja            *self,
                 const LlmJinjaValue *subject,
                 const LlmJinjaArgs  *args)
{
  TAKE ("dictsort", 0, "case_sensitive", "by", "reverse");
  LlmJinjaValue result = llm_jinja_list_new (self, LLM_JINJA_LIST_LIST);
  LlmJinjaList *pairs = llm_jinja_list_new (self, LLM_JINJA_LIST_LIST).list;
  LlmJinjaValue position = llm_jinja_int (0, 0);
  LlmJinjaEntry *entries;

  if (subject->type != LLM_JINJA_DICT)
    llm_jinja_fail (self, "“dictsort” needs a dict, not a value of type %s",
                    llm_jinja_type_name (subject));
  if (llm_jinja_arg_given (&arg[1]))
    {
      const LlmJinjaString *by = llm_jinja_need_string (self, "dictsort", &arg[1]);

      if (!llm_jinja_string_is (by, "key") && !llm_jinja_string_is (by, "value"))
        llm_jinja_fail (self, "“dictsort” sorts by “key” or “value”");
      position.integer = llm_jinja_string_is (by, "value");
    }
  for (guint i = 0; i < subject->dict->n_entries; i++)
    llm_jinja_list_add (self, pairs, new_pair (self, &subject->dict->entries[i].key,
                                               &subject->dict->entries[i].value));
  entries = llm_jinja_key_entries (self, pairs, &position, llm_jinja_is_true (&arg[0]));
  llm_jinja_sort (self, entries, pairs->n_items, llm_jinja_is_true (&arg[2]));
  for (guint i = 0; i < pairs->n_items; i++)
    llm_jinja_list_add (self, result.list, entries[i].value);
  return result;
}

const LlmJinjaBuiltinEntry llm_jinja_filters_of_lists[] = {
  { "batch", filter_batch },
  { "dictsort", filter_dictsort },
  { "first", filter_first },
  { "items", filter_items },
  { "join", filter_join },
  { "last", filter_last },
  { "list", filter_list },
  { "max", filter_max },
  { "min", filter_min },
  { "reverse", filter_reverse },
  { "slice", filter_slice },
  { "sort", filter_sort },
  { "sum", filter_sum },
  { "unique", filter_unique },
  { NULL, NULL },
};
