/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Filters of lists, dicts and attributes, and the methods of lists and dicts. */

#include "template/jinja/builtins/llm-jinja-builtins.h"

#include <string.h>

/* --- what “attribute” names --- */

/* Names and indexes with dots between them; where nothing is named, @value itself. */
static LlmJinjaValue
get_path (LlmJinja *self, const LlmJinjaValue *value, const LlmJinjaValue *attribute)
{
  const LlmJinjaString *path = &attribute->string;
  LlmJinjaValue at = *value;

  if (attribute->type == LLM_JINJA_UNDEFINED || attribute->type == LLM_JINJA_NONE)
    return at;
  if (attribute->type == LLM_JINJA_INT)
    return llm_jinja_get_item (self, value, attribute);
  llm_jinja_need_string (self, "attribute", attribute);
  for (gsize start = 0, end; start <= path->length; start = end + 1)
    {
      LlmJinjaValue key;
      const char *name;

      for (end = start; end < path->length && path->bytes[end] != '.';)
        end++;
      key = llm_jinja_string_cut (path, start, end);
      name = llm_jinja_copy (self, &key.string);
      if (*name != '\0' && strspn (name, "0123456789") == end - start)
        key = llm_jinja_int (g_ascii_strtoll (name, NULL, 10), 0);
      at = llm_jinja_get_item (self, &at, &key);
    }
  return at;
}

/* As in Jinja, never an item. */
static LlmJinjaValue
run_attr (LlmJinja *self, LlmJinjaCall *call)
{
  const LlmJinjaValue *subject = &call->subject;
  const char *name = llm_jinja_copy (self, &call->arg[0].string);

  if (subject->type == LLM_JINJA_UNDEFINED || subject->type == LLM_JINJA_FUNCTION)
    llm_jinja_fail (self, "“attr” of a value of type %s is not supported",
                    llm_jinja_type_name (subject));
  return subject->type == LLM_JINJA_NAMESPACE ? llm_jinja_get_attribute (self, subject, name)
                                              : llm_jinja_find_method (self, subject, name);
}

/* The entries to sort of @over by that, in lower case unless @minds_case. */
static LlmJinjaEntry *
get_keys (LlmJinja            *self,
          const LlmJinjaList  *over,
          const LlmJinjaValue *attribute,
          const LlmJinjaValue *minds_case)
{
  LlmJinjaEntry *entries = llm_jinja_alloc (self, over->n_items * sizeof *entries);

  for (guint i = 0; i < over->n_items; i++)
    {
      entries[i].value = over->items[i];
      entries[i].key = get_path (self, &over->items[i], attribute);
      if (!llm_jinja_is_true (minds_case) && entries[i].key.type == LLM_JINJA_STRING)
        entries[i].key = llm_jinja_change_case (self, &entries[i].key.string,
                                                LLM_JINJA_CASE_LOWER);
    }
  return entries;
}

/* --- filters of a whole list --- */

static LlmJinjaValue
run_list (LlmJinja *self, LlmJinjaCall *call)
{
  LlmJinjaValue result = llm_jinja_list_new (self, LLM_JINJA_LIST_LIST);

  llm_jinja_list_add_all (self, result.list, llm_jinja_iterate (self, &call->subject));
  result.origin = call->subject.origin;
  return result;
}

static gboolean
is_generator (const LlmJinjaValue *value)
{
  return value->type == LLM_JINJA_LIST && value->list->kind == LLM_JINJA_LIST_GENERATOR;
}

static LlmJinjaValue
run_first (LlmJinja *self, LlmJinjaCall *call)
{
  LlmJinjaList *over = call->subject.list;

  if (is_generator (&call->subject))
    return over->next < over->n_items ? over->items[over->next++] : llm_jinja_undefined ("first");
  over = llm_jinja_iterate (self, &call->subject);
  return over->n_items > 0 ? over->items[0] : llm_jinja_undefined ("first");
}

static LlmJinjaValue
run_last (LlmJinja *self, LlmJinjaCall *call)
{
  const LlmJinjaList *over;

  if (is_generator (&call->subject))
    llm_jinja_fail (self, "a generator has no last item; a list (“| list”) has");
  over = llm_jinja_iterate (self, &call->subject);
  return over->n_items > 0 ? over->items[over->n_items - 1] : llm_jinja_undefined ("last");
}

static LlmJinjaValue
run_reverse (LlmJinja *self, LlmJinjaCall *call)
{
  LlmJinjaValue result = run_list (self, call);
  LlmJinjaText *text;

  llm_jinja_list_reverse (result.list);
  if (call->subject.type != LLM_JINJA_STRING)
    {
      result.list->kind = LLM_JINJA_LIST_GENERATOR;
      return result;
    }
  text = llm_jinja_text_new (self);
  for (guint i = 0; i < result.list->n_items; i++)
    llm_jinja_text_add (self, text, &result.list->items[i].string);
  return llm_jinja_text_end (text);
}

static LlmJinjaValue
run_join (LlmJinja *self, LlmJinjaCall *call)
{
  const LlmJinjaList *over = llm_jinja_iterate (self, &call->subject);
  LlmJinjaText *text = llm_jinja_text_new (self);
  LlmJinjaValue between = llm_jinja_to_string (self, &call->arg[0]);

  for (guint i = 0; i < over->n_items; i++)
    {
      LlmJinjaValue item = get_path (self, &over->items[i], &call->arg[1]);

      if (i > 0)
        llm_jinja_text_add (self, text, &between.string);
      item = llm_jinja_to_string (self, &item);
      llm_jinja_text_add (self, text, &item.string);
    }
  return llm_jinja_text_end (text);
}

static LlmJinjaValue
sort (LlmJinja *self, LlmJinjaEntry *entries, guint n_entries, gboolean is_reverse)
{
  LlmJinjaValue result = llm_jinja_list_new (self, LLM_JINJA_LIST_LIST);

  llm_jinja_sort (self, entries, n_entries, is_reverse);
  for (guint i = 0; i < n_entries; i++)
    llm_jinja_list_add (self, result.list, entries[i].value);
  return result;
}

static LlmJinjaValue
run_sort (LlmJinja *self, LlmJinjaCall *call)
{
  const LlmJinjaList *over = llm_jinja_iterate (self, &call->subject);
  const LlmJinjaValue *attribute = &call->arg[2];

  if (attribute->type == LLM_JINJA_STRING && attribute->string.length > 0
      && memchr (attribute->string.bytes, ',', attribute->string.length) != NULL)
    llm_jinja_fail (self, "“sort” by several attributes is not supported");
  return sort (self, get_keys (self, over, attribute, &call->arg[1]), over->n_items,
               llm_jinja_is_true (&call->arg[0]));
}

static LlmJinjaValue
run_unique (LlmJinja *self, LlmJinjaCall *call)
{
  const LlmJinjaList *over = llm_jinja_iterate (self, &call->subject);
  LlmJinjaEntry *entries = get_keys (self, over, &call->arg[1], &call->arg[0]);
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

/* “max” where @way is set. */
static LlmJinjaValue
run_extreme (LlmJinja *self, LlmJinjaCall *call)
{
  const LlmJinjaList *over = llm_jinja_iterate (self, &call->subject);
  LlmJinjaEntry *entries = get_keys (self, over, &call->arg[1], &call->arg[0]);
  guint best = 0;

  for (guint i = 1; i < over->n_items; i++)
    {
      int order = llm_jinja_compare (self, &entries[i].key, &entries[best].key);

      if (call->builtin->way ? order > 0 : order < 0)
        best = i;
    }
  return over->n_items > 0 ? entries[best].value : llm_jinja_undefined ("no item");
}

static LlmJinjaValue
run_sum (LlmJinja *self, LlmJinjaCall *call)
{
  const LlmJinjaList *over = llm_jinja_iterate (self, &call->subject);
  LlmJinjaValue sum = llm_jinja_arg_given (&call->arg[1]) ? call->arg[1] : llm_jinja_int (0, 0);

  if (sum.type == LLM_JINJA_STRING)
    llm_jinja_fail (self, "“sum” can't add strings");
  for (guint i = 0; i < over->n_items; i++)
    {
      LlmJinjaValue item = get_path (self, &over->items[i], &call->arg[0]);

      sum = llm_jinja_calculate (self, LLM_JINJA_OP_ADD, &sum, &item);
    }
  return sum;
}

#define OF_SLICES 1

/* Lists of so many items, or so many lists of as many items each as there are; with a fill, short
 * ones get it. */
static LlmJinjaValue
run_rows (LlmJinja *self, LlmJinjaCall *call)
{
  const LlmJinjaList *over = llm_jinja_iterate (self, &call->subject);
  LlmJinjaValue rows = llm_jinja_list_new (self, LLM_JINJA_LIST_GENERATOR);
  gboolean has_fill = llm_jinja_arg_given (&call->arg[1]) && call->arg[1].type != LLM_JINJA_NONE;
  gboolean is_slice = call->builtin->way == OF_SLICES;
  gint64 n = call->arg[0].integer;
  guint at = 0;

  if (n < 1 || n > G_MAXINT32)
    llm_jinja_fail (self, "“%s” needs a positive number", call->builtin->name);
  for (gint64 i = 0; is_slice ? i < n : at < over->n_items; i++)
    {
      LlmJinjaValue row = llm_jinja_list_new (self, LLM_JINJA_LIST_LIST);
      gint64 full = is_slice ? over->n_items / n + 1 : n;
      gint64 share = full - (is_slice && i >= over->n_items % n);

      while (row.list->n_items < share && at < over->n_items)
        llm_jinja_list_add (self, row.list, over->items[at++]);
      while (has_fill && row.list->n_items < full)
        llm_jinja_list_add (self, row.list, call->arg[1]);
      llm_jinja_list_add (self, rows.list, row);
    }
  return rows;
}

/* Pairs of what the items of a group have in common, and these items. */
static LlmJinjaValue
run_groupby (LlmJinja *self, LlmJinjaCall *call)
{
  const LlmJinjaList *over = llm_jinja_iterate (self, &call->subject);
  LlmJinjaEntry *entries = get_keys (self, over, &call->arg[0], &call->arg[2]);
  LlmJinjaValue result = llm_jinja_list_new (self, LLM_JINJA_LIST_LIST);
  LlmJinjaValue group = llm_jinja_none ();

  for (guint i = 0; i < over->n_items; i++)
    if (entries[i].key.type == LLM_JINJA_UNDEFINED && llm_jinja_arg_given (&call->arg[1]))
      entries[i].key = call->arg[1];
  llm_jinja_sort (self, entries, over->n_items, FALSE);
  for (guint i = 0; i < over->n_items; i++)
    {
      if (i == 0 || !llm_jinja_equal (self, &entries[i].key, &entries[i - 1].key))
        {
          LlmJinjaValue pair = llm_jinja_list_new (self, LLM_JINJA_LIST_TUPLE);
          LlmJinjaValue key = get_path (self, &entries[i].value, &call->arg[0]);

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

/* --- methods of lists --- */

/* Nothing changes a value, so it is its own copy. */
static LlmJinjaValue
run_copy (LlmJinja *self, LlmJinjaCall *call)
{
  return call->subject;
}

#define THE_FIRST 1

/* How many items are so, or where the first of them is. */
static LlmJinjaValue
run_count (LlmJinja *self, LlmJinjaCall *call)
{
  const LlmJinjaList *list = call->subject.list;
  gint64 n = 0;

  for (guint i = 0; i < list->n_items; i++)
    {
      if (!llm_jinja_equal (self, &list->items[i], &call->arg[0]))
        continue;
      if (call->builtin->way == THE_FIRST)
        return llm_jinja_int (i, 0);
      n++;
    }
  if (call->builtin->way == THE_FIRST)
    llm_jinja_fail (self, "“index” found no such item");
  return llm_jinja_int (n, 0);
}

/* --- filters of each item --- */

/* What is walked over: nothing where the subject is false, as in Jinja. */
static const LlmJinjaList *
iterate_true (LlmJinja *self, const LlmJinjaValue *subject)
{
  return llm_jinja_is_true (subject) ? llm_jinja_iterate (self, subject)
                                     : llm_jinja_list_new (self, LLM_JINJA_LIST_LIST).list;
}

/* Takes the next argument without a name off @rest; NULL: none is left. */
static const LlmJinjaValue *
take_next (LlmJinjaArgs *rest)
{
  if (rest->n_values == rest->n_names)
    return NULL;
  rest->n_values--;
  return rest->values++;
}

/* The same for the name of a filter or a test, as text that ends. */
static const char *
take_name (LlmJinja *self, const LlmJinjaCall *call, LlmJinjaArgs *rest)
{
  const LlmJinjaValue *value = take_next (rest);

  return value == NULL ? NULL
                       : llm_jinja_copy (self, llm_jinja_need_string (self, call->builtin->name,
                                                                      value));
}

/* map(attribute=name, default=value) */
static LlmJinjaValue
map_attribute (LlmJinja *self, const LlmJinjaCall *call, const LlmJinjaValue *item)
{
  LlmJinjaValue attribute = llm_jinja_undefined (NULL), otherwise = attribute, value;

  for (guint i = 0; i < call->args->n_names; i++)
    if (g_str_equal (call->args->names[i], "attribute"))
      attribute = call->args->values[i];
    else if (g_str_equal (call->args->names[i], "default"))
      otherwise = call->args->values[i];
    else
      llm_jinja_fail (self, "the argument “%.60s” of “map” is not supported", call->args->names[i]);
  if (!llm_jinja_arg_given (&attribute))
    llm_jinja_fail (self, "“map” lacks the name of a filter, or its argument “attribute”");
  value = get_path (self, item, &attribute);
  return value.type == LLM_JINJA_UNDEFINED && llm_jinja_arg_given (&otherwise) ? otherwise : value;
}

static LlmJinjaValue
run_map (LlmJinja *self, LlmJinjaCall *call)
{
  const LlmJinjaList *over = iterate_true (self, &call->subject);
  LlmJinjaValue result = llm_jinja_list_new (self, LLM_JINJA_LIST_GENERATOR);
  LlmJinjaArgs rest = *call->args;
  const char *name = take_name (self, call, &rest);

  for (guint i = 0; i < over->n_items; i++)
    llm_jinja_list_add (self, result.list,
                        name == NULL ? map_attribute (self, call, &over->items[i])
                                     : llm_jinja_run_filter (self, name, &over->items[i], &rest));
  return result;
}

#define REJECTS 1
#define OF_ATTRIBUTE 2

/* The items for which a test is true, or false where the way is REJECTS. */
static LlmJinjaValue
run_pick (LlmJinja *self, LlmJinjaCall *call)
{
  const LlmJinjaList *over = iterate_true (self, &call->subject);
  LlmJinjaValue result = llm_jinja_list_new (self, LLM_JINJA_LIST_GENERATOR);
  LlmJinjaValue none = llm_jinja_none ();
  LlmJinjaArgs rest = *call->args;
  const LlmJinjaValue *attribute = call->builtin->way & OF_ATTRIBUTE ? take_next (&rest) : &none;
  const char *test = take_name (self, call, &rest);

  if (attribute == NULL)
    llm_jinja_fail (self, "“%s” needs an attribute", call->builtin->name);
  for (guint i = 0; i < over->n_items; i++)
    {
      LlmJinjaValue item = get_path (self, &over->items[i], attribute);
      gboolean is_so = test != NULL ? llm_jinja_run_test (self, test, &item, &rest)
                                    : llm_jinja_is_true (&item);

      if (is_so == !(call->builtin->way & REJECTS))
        llm_jinja_list_add (self, result.list, over->items[i]);
    }
  return result;
}

/* --- dicts --- */

static LlmJinjaValue
new_pair (LlmJinja *self, const LlmJinjaEntry *entry)
{
  LlmJinjaValue pair = llm_jinja_list_new (self, LLM_JINJA_LIST_TUPLE);

  llm_jinja_list_add (self, pair.list, entry->key);
  llm_jinja_list_add (self, pair.list, entry->value);
  return pair;
}

static LlmJinjaValue
view_dict (LlmJinja *self, const LlmJinjaValue *subject, LlmJinjaListKind kind)
{
  LlmJinjaValue view = llm_jinja_list_new (self, kind);

  for (guint i = 0; i < subject->dict->n_entries; i++)
    {
      const LlmJinjaEntry *entry = &subject->dict->entries[i];

      llm_jinja_list_add (self, view.list, kind == LLM_JINJA_LIST_KEYS ? entry->key
                                      : kind == LLM_JINJA_LIST_VALUES ? entry->value
                                      : new_pair (self, entry));
    }
  view.origin = subject->origin;
  return view;
}

static LlmJinjaValue
run_view (LlmJinja *self, LlmJinjaCall *call)
{
  return view_dict (self, &call->subject, call->builtin->way);
}

static void
check_dict (LlmJinja *self, const LlmJinjaCall *call)
{
  if (call->subject.type != LLM_JINJA_DICT)
    llm_jinja_fail (self, "“%s” needs a dict, not a value of type %s", call->builtin->name,
                    llm_jinja_type_name (&call->subject));
}

/* Unlike the method, the filter takes what is undefined. */
static LlmJinjaValue
run_items (LlmJinja *self, LlmJinjaCall *call)
{
  LlmJinjaValue view;

  if (call->subject.type == LLM_JINJA_UNDEFINED)
    return llm_jinja_list_new (self, LLM_JINJA_LIST_GENERATOR);
  check_dict (self, call);
  view = view_dict (self, &call->subject, LLM_JINJA_LIST_ITEMS);
  view.list->kind = LLM_JINJA_LIST_GENERATOR;
  return view;
}

static LlmJinjaValue
run_get (LlmJinja *self, LlmJinjaCall *call)
{
  const LlmJinjaValue *value = NULL;

  if (call->arg[0].type != LLM_JINJA_UNDEFINED)
    value = llm_jinja_dict_get (self, call->subject.dict, &call->arg[0]);
  if (value != NULL)
    return *value;
  return llm_jinja_arg_given (&call->arg[1]) ? call->arg[1] : llm_jinja_none ();
}

static LlmJinjaValue
run_dictsort (LlmJinja *self, LlmJinjaCall *call)
{
  const LlmJinjaValue *by = &call->arg[1];
  LlmJinjaValue position = llm_jinja_int (0, 0);
  LlmJinjaValue pairs;

  check_dict (self, call);
  if (by->type == LLM_JINJA_STRING)
    {
      position.integer = llm_jinja_string_is (&by->string, "value");
      if (!position.integer && !llm_jinja_string_is (&by->string, "key"))
        llm_jinja_fail (self, "“dictsort” sorts by “key” or “value”");
    }
  pairs = view_dict (self, &call->subject, LLM_JINJA_LIST_ITEMS);
  return sort (self, get_keys (self, pairs.list, &position, &call->arg[0]), pairs.list->n_items,
               llm_jinja_is_true (&call->arg[2]));
}

#define FILTER LLM_JINJA_IS_FILTER
#define TAKES_ALL (LLM_JINJA_IS_FILTER | LLM_JINJA_TAKES_ALL)
#define NONE { { NULL, 0, 0 } }
#define BY_CASE { { .name = "case_sensitive" }, { .name = "attribute" } }

const LlmJinjaBuiltin llm_jinja_builtins_of_lists[] = {
  { "attr", FILTER, run_attr, 0, { { "name", LLM_JINJA_TAKE_TEXT, 0 } } },
  { "batch", FILTER, run_rows, 0,
    { { "linecount", LLM_JINJA_TAKE_NEEDED_INT, 0 }, { .name = "fill_with" } } },
  { "copy", LLM_JINJA_OF_DICT | LLM_JINJA_OF_LIST, run_copy, 0, NONE },
  { "count", LLM_JINJA_OF_LIST, run_count, 0, { { "value", LLM_JINJA_TAKE_VALUE, 0 } } },
  { "dictsort", FILTER, run_dictsort, 0,
    { { .name = "case_sensitive" }, { "by", LLM_JINJA_TAKE_TEXT_OR_NONE, 0 },
      { .name = "reverse" } } },
  { "first", FILTER, run_first, 0, NONE },
  { "get", LLM_JINJA_OF_DICT, run_get, 0,
    { { "key", LLM_JINJA_TAKE_VALUE, 0 }, { .name = "default" } } },
  { "groupby", FILTER, run_groupby, 0,
    { { "attribute", LLM_JINJA_TAKE_VALUE, 0 }, { .name = "default" },
      { .name = "case_sensitive" } } },
  { "index", LLM_JINJA_OF_LIST, run_count, THE_FIRST, { { "value", LLM_JINJA_TAKE_VALUE, 0 } } },
  { "items", FILTER, run_items, 0, NONE },
  { "items", LLM_JINJA_OF_DICT, run_view, LLM_JINJA_LIST_ITEMS, NONE },
  { "join", FILTER, run_join, 0, { { .name = "d" }, { .name = "attribute" } } },
  { "keys", LLM_JINJA_OF_DICT, run_view, LLM_JINJA_LIST_KEYS, NONE },
  { "last", FILTER, run_last, 0, NONE },
  { "list", FILTER, run_list, 0, NONE },
  { "map", TAKES_ALL, run_map, 0, NONE },
  { "max", FILTER, run_extreme, 1, BY_CASE },
  { "min", FILTER, run_extreme, 0, BY_CASE },
  { "reject", TAKES_ALL, run_pick, REJECTS, NONE },
  { "rejectattr", TAKES_ALL, run_pick, REJECTS | OF_ATTRIBUTE, NONE },
  { "reverse", FILTER, run_reverse, 0, NONE },
  { "select", TAKES_ALL, run_pick, 0, NONE },
  { "selectattr", TAKES_ALL, run_pick, OF_ATTRIBUTE, NONE },
  { "slice", FILTER, run_rows, OF_SLICES,
    { { "slices", LLM_JINJA_TAKE_NEEDED_INT, 0 }, { .name = "fill_with" } } },
  { "sort", FILTER, run_sort, 0,
    { { .name = "reverse" }, { .name = "case_sensitive" }, { .name = "attribute" } } },
  { "sum", FILTER, run_sum, 0, { { .name = "attribute" }, { .name = "start" } } },
  { "unique", FILTER, run_unique, 0, BY_CASE },
  { "values", LLM_JINJA_OF_DICT, run_view, LLM_JINJA_LIST_VALUES, NONE },
  { NULL, 0, NULL, 0, NONE },
};
