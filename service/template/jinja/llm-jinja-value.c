/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Values as Python has them: lists, dicts in the order of their keys' arrival, what is true, equal
 * or less. */

#include "template/jinja/llm-jinja-private.h"

#include <string.h>

/* From here on keys are found by hash. */
#define MANY_ENTRIES 8

LlmJinjaValue
llm_jinja_list_new (LlmJinja *self, LlmJinjaListKind kind)
{
  LlmJinjaValue value = { .type = LLM_JINJA_LIST };

  value.list = llm_jinja_alloc (self, sizeof *value.list);
  value.list->kind = kind;
  return value;
}

void
llm_jinja_list_add (LlmJinja *self, LlmJinjaList *list, LlmJinjaValue value)
{
  llm_jinja_step (self, 1);
  list->items = llm_jinja_grow (self, list->items, list->n_items, &list->n_room,
                                sizeof *list->items);
  list->items[list->n_items++] = value;
}

/* @more may be the list itself. */
void
llm_jinja_list_add_all (LlmJinja *self, LlmJinjaList *list, const LlmJinjaList *more)
{
  guint n = more->n_items;

  for (guint i = 0; i < n; i++)
    llm_jinja_list_add (self, list, more->items[i]);
}

void
llm_jinja_list_reverse (LlmJinjaList *list)
{
  for (guint i = 0; i < list->n_items / 2; i++)
    {
      LlmJinjaValue item = list->items[i];

      list->items[i] = list->items[list->n_items - 1 - i];
      list->items[list->n_items - 1 - i] = item;
    }
}

LlmJinjaValue
llm_jinja_dict_new (LlmJinja *self)
{
  LlmJinjaValue value = { .type = LLM_JINJA_DICT };

  value.dict = llm_jinja_alloc (self, sizeof *value.dict);
  return value;
}

LlmJinjaValue
llm_jinja_new_method (LlmJinja            *self,
                      const char          *name,
                      const LlmJinjaBuiltin *builtin,
                      const LlmJinjaValue *subject)
{
  LlmJinjaValue value = { .type = LLM_JINJA_FUNCTION };

  value.function = llm_jinja_alloc (self, sizeof *value.function);
  value.function->name = name;
  value.function->builtin = builtin;
  if (subject != NULL)
    value.function->subject = *subject;
  return value;
}

/* Equal keys have equal hashes: 1, 1.0 and True are one key. */
static guint
hash_key (const LlmJinjaValue *key)
{
  guint hash = 5381;

  if (key->type == LLM_JINJA_STRING)
    {
      for (gsize i = 0; i < key->string.length; i++)
        hash = hash * 33 + (guint8) key->string.bytes[i];
      return hash;
    }
  if (llm_jinja_is_number (key))
    {
      double number = llm_jinja_get_number (key);

      return g_double_hash (&number);
    }
  return 1;
}

static guint
find_slot (LlmJinja *self, const LlmJinjaDict *dict, const LlmJinjaValue *key)
{
  guint slot = hash_key (key) % dict->n_table;

  for (; dict->table[slot] != 0; slot = (slot + 1) % dict->n_table)
    {
      llm_jinja_step (self, 1);
      if (llm_jinja_equal (self, &dict->entries[dict->table[slot] - 1].key, key))
        break;
    }
  return slot;
}

static void
check_key (LlmJinja *self, const LlmJinjaValue *key)
{
  if (key->type != LLM_JINJA_STRING && key->type != LLM_JINJA_NONE && !llm_jinja_is_number (key))
    llm_jinja_fail (self, "a key of a dict can't be of type %s", llm_jinja_type_name (key));
}

LlmJinjaValue *
llm_jinja_dict_get (LlmJinja *self, const LlmJinjaDict *dict, const LlmJinjaValue *key)
{
  check_key (self, key);
  llm_jinja_charge (self, key, 1);
  if (dict->table != NULL)
    {
      guint entry = dict->table[find_slot (self, dict, key)];

      return entry > 0 ? &dict->entries[entry - 1].value : NULL;
    }
  for (guint i = 0; i < dict->n_entries; i++)
    if (llm_jinja_equal (self, &dict->entries[i].key, key))
      return &dict->entries[i].value;
  return NULL;
}

LlmJinjaValue *
llm_jinja_dict_get_name (LlmJinja *self, const LlmJinjaDict *dict, const char *name)
{
  LlmJinjaValue key = { .type = LLM_JINJA_STRING };

  key.string.bytes = name;
  key.string.length = strlen (name);
  return llm_jinja_dict_get (self, dict, &key);
}

static void
rehash (LlmJinja *self, LlmJinjaDict *dict)
{
  dict->n_table = dict->n_room * 2 + 1;
  dict->table = llm_jinja_alloc (self, dict->n_table * sizeof *dict->table);
  for (guint i = 0; i < dict->n_entries; i++)
    dict->table[find_slot (self, dict, &dict->entries[i].key)] = i + 1;
}

void
llm_jinja_dict_set (LlmJinja *self, LlmJinjaDict *dict, LlmJinjaValue key, LlmJinjaValue value)
{
  LlmJinjaValue *known = llm_jinja_dict_get (self, dict, &key);
  guint n_room = dict->n_room;

  llm_jinja_step (self, 1);
  if (known != NULL)
    {
      *known = value;
      return;
    }
  dict->entries = llm_jinja_grow (self, dict->entries, dict->n_entries, &dict->n_room,
                                  sizeof *dict->entries);
  dict->entries[dict->n_entries++] = (LlmJinjaEntry) { key, value };
  if (dict->n_entries > MANY_ENTRIES && (dict->table == NULL || dict->n_room != n_room))
    rehash (self, dict);
  else if (dict->table != NULL)
    dict->table[find_slot (self, dict, &key)] = dict->n_entries;
}

void
llm_jinja_dict_set_name (LlmJinja *self, LlmJinjaDict *dict, const char *name, LlmJinjaValue value)
{
  llm_jinja_dict_set (self, dict, llm_jinja_string_new (self, name, strlen (name), 0), value);
}

gboolean
llm_jinja_is_true (const LlmJinjaValue *value)
{
  switch ((LlmJinjaType) value->type)
    {
    case LLM_JINJA_UNDEFINED:
    case LLM_JINJA_NONE:
      return FALSE;
    case LLM_JINJA_STRING:
      return value->string.length > 0;
    case LLM_JINJA_LIST:
      return value->list->kind == LLM_JINJA_LIST_GENERATOR || value->list->n_items > 0;
    case LLM_JINJA_DICT:
      return value->dict->n_entries > 0;
    default:
      return !llm_jinja_is_number (value) || llm_jinja_get_number (value) != 0;
    }
}

gboolean
llm_jinja_is_number (const LlmJinjaValue *value)
{
  return value->type == LLM_JINJA_BOOL || value->type == LLM_JINJA_INT
         || value->type == LLM_JINJA_FLOAT;
}

double
llm_jinja_get_number (const LlmJinjaValue *value)
{
  if (value->type == LLM_JINJA_FLOAT)
    return value->number;
  return value->type == LLM_JINJA_BOOL ? value->boolean : (double) value->integer;
}

#define COMPARE(a, b) (((a) > (b)) - ((a) < (b)))

/* What is no number (nan) equals nothing, and comes before all. */
static int
compare_numbers (const LlmJinjaValue *a, const LlmJinjaValue *b)
{
  double left = llm_jinja_get_number (a), right = llm_jinja_get_number (b);

  if (a->type == LLM_JINJA_INT && b->type == LLM_JINJA_INT)
    return COMPARE (a->integer, b->integer);
  return left == right ? 0 : left > right ? 1 : -1;
}

static gboolean
are_lists_equal (LlmJinja *self, const LlmJinjaList *a, const LlmJinjaList *b)
{
  if (a->kind != b->kind || a->kind == LLM_JINJA_LIST_GENERATOR || a->n_items != b->n_items)
    return a == b;
  for (guint i = 0; i < a->n_items; i++)
    if (!llm_jinja_equal (self, &a->items[i], &b->items[i]))
      return FALSE;
  return TRUE;
}

static gboolean
are_dicts_equal (LlmJinja *self, const LlmJinjaDict *a, const LlmJinjaDict *b)
{
  if (a->n_entries != b->n_entries)
    return FALSE;
  for (guint i = 0; i < a->n_entries; i++)
    {
      const LlmJinjaValue *other = llm_jinja_dict_get (self, b, &a->entries[i].key);

      if (other == NULL || !llm_jinja_equal (self, &a->entries[i].value, other))
        return FALSE;
    }
  return TRUE;
}

static gboolean
are_equal (LlmJinja *self, const LlmJinjaValue *a, const LlmJinjaValue *b)
{
  switch ((LlmJinjaType) a->type)
    {
    case LLM_JINJA_STRING:
      llm_jinja_step (self, a->string.length / LLM_JINJA_STEP_BYTES);
      return a->string.length == b->string.length
             && (a->string.length == 0
                 || memcmp (a->string.bytes, b->string.bytes, a->string.length) == 0);
    case LLM_JINJA_LIST:
      return are_lists_equal (self, a->list, b->list);
    case LLM_JINJA_DICT:
      return are_dicts_equal (self, a->dict, b->dict);
    case LLM_JINJA_NAMESPACE:
      return a->dict == b->dict;
    case LLM_JINJA_FUNCTION:
      return a->function == b->function;
    default:
      return TRUE;
    }
}

gboolean
llm_jinja_equal (LlmJinja *self, const LlmJinjaValue *a, const LlmJinjaValue *b)
{
  gboolean is_equal;

  llm_jinja_step (self, 1);
  if (llm_jinja_is_number (a) && llm_jinja_is_number (b))
    return compare_numbers (a, b) == 0;
  if (a->type != b->type)
    return FALSE;
  llm_jinja_enter (self);
  is_equal = are_equal (self, a, b);
  llm_jinja_leave (self);
  return is_equal;
}

static int
compare_strings (LlmJinja *self, const LlmJinjaString *a, const LlmJinjaString *b)
{
  gsize n = MIN (a->length, b->length);
  int order = n > 0 ? memcmp (a->bytes, b->bytes, n) : 0;

  llm_jinja_step (self, 1 + n / LLM_JINJA_STEP_BYTES);
  /* the order of UTF-8's bytes is that of characters */
  return order != 0 ? order : COMPARE (a->length, b->length);
}

static int
compare_lists (LlmJinja *self, const LlmJinjaList *a, const LlmJinjaList *b)
{
  int order = 0;

  llm_jinja_enter (self);
  for (guint i = 0; order == 0 && i < MIN (a->n_items, b->n_items); i++)
    if (!llm_jinja_equal (self, &a->items[i], &b->items[i]))
      order = llm_jinja_compare (self, &a->items[i], &b->items[i]);
  llm_jinja_leave (self);
  return order != 0 ? order : COMPARE (a->n_items, b->n_items);
}

int
llm_jinja_compare (LlmJinja *self, const LlmJinjaValue *a, const LlmJinjaValue *b)
{
  llm_jinja_step (self, 1);
  if (llm_jinja_is_number (a) && llm_jinja_is_number (b))
    return compare_numbers (a, b);
  if (a->type == LLM_JINJA_STRING && b->type == LLM_JINJA_STRING)
    return compare_strings (self, &a->string, &b->string);
  if (a->type == LLM_JINJA_LIST && b->type == LLM_JINJA_LIST && a->list->kind == b->list->kind
      && a->list->kind <= LLM_JINJA_LIST_TUPLE)
    return compare_lists (self, a->list, b->list);
  llm_jinja_fail (self, "%s and %s can't be compared", llm_jinja_type_name (a),
                  llm_jinja_type_name (b));
}

static gboolean
contains (LlmJinja *self, const LlmJinjaValue *value, const LlmJinjaValue *part)
{
  if (value->type == LLM_JINJA_STRING)
    {
      if (part->type != LLM_JINJA_STRING)
        llm_jinja_fail (self, "“in” a string can be only a string, not %s",
                        llm_jinja_type_name (part));
      return llm_jinja_string_find (self, &value->string, &part->string, 0) != G_MAXSIZE;
    }
  if (value->type == LLM_JINJA_DICT)
    return llm_jinja_dict_get (self, value->dict, part) != NULL;
  if (value->type == LLM_JINJA_LIST)
    {
      LlmJinjaList *list = value->list;
      gboolean is_generator = list->kind == LLM_JINJA_LIST_GENERATOR;
      gboolean is_found = FALSE;
      guint i = is_generator ? list->next : 0;

      for (; !is_found && i < list->n_items; i++)
        is_found = llm_jinja_equal (self, &list->items[i], part);
      if (is_generator)
        list->next = i;
      return is_found;
    }
  if (value->type == LLM_JINJA_UNDEFINED)
    return FALSE;
  llm_jinja_fail (self, "nothing can be “in” a value of type %s", llm_jinja_type_name (value));
}

gboolean
llm_jinja_holds (LlmJinja *self, LlmJinjaOp op, const LlmJinjaValue *a, const LlmJinjaValue *b)
{
  switch (op)
    {
    case LLM_JINJA_OP_EQ:
      return llm_jinja_equal (self, a, b);
    case LLM_JINJA_OP_NE:
      return !llm_jinja_equal (self, a, b);
    case LLM_JINJA_OP_LT:
      return llm_jinja_compare (self, a, b) < 0;
    case LLM_JINJA_OP_LE:
      return llm_jinja_compare (self, a, b) <= 0;
    case LLM_JINJA_OP_GT:
      return llm_jinja_compare (self, a, b) > 0;
    case LLM_JINJA_OP_GE:
      return llm_jinja_compare (self, a, b) >= 0;
    case LLM_JINJA_OP_IN:
      return contains (self, b, a);
    default:
      return !contains (self, b, a);
    }
}

LlmJinjaList *
llm_jinja_iterate (LlmJinja *self, const LlmJinjaValue *value)
{
  LlmJinjaValue result;

  if (value->type == LLM_JINJA_LIST && value->list->kind != LLM_JINJA_LIST_GENERATOR)
    return value->list;

  result = llm_jinja_list_new (self, LLM_JINJA_LIST_LIST);
  if (value->type == LLM_JINJA_LIST)
    {
      for (; value->list->next < value->list->n_items; value->list->next++)
        llm_jinja_list_add (self, result.list, value->list->items[value->list->next]);
    }
  else if (value->type == LLM_JINJA_DICT)
    {
      for (guint i = 0; i < value->dict->n_entries; i++)
        llm_jinja_list_add (self, result.list, value->dict->entries[i].key);
    }
  else if (value->type == LLM_JINJA_STRING)
    {
      for (gsize at = 0; at < value->string.length;)
        {
          gsize next = llm_jinja_next_character (&value->string, at);

          llm_jinja_list_add (self, result.list, llm_jinja_string_cut (&value->string, at, next));
          at = next;
        }
    }
  else if (value->type != LLM_JINJA_UNDEFINED)
    {
      llm_jinja_fail (self, "a value of type %s can't be walked over", llm_jinja_type_name (value));
    }
  return result.list;
}

gboolean
llm_jinja_get_length (LlmJinja *self, const LlmJinjaValue *value, gint64 *length)
{
  *length = 0;
  switch ((LlmJinjaType) value->type)
    {
    case LLM_JINJA_UNDEFINED:
      return TRUE;
    case LLM_JINJA_STRING:
      llm_jinja_step (self, value->string.length / 64);
      *length = (gint64) llm_jinja_string_count (&value->string);
      return TRUE;
    case LLM_JINJA_LIST:
      *length = value->list->n_items;
      return value->list->kind != LLM_JINJA_LIST_GENERATOR;
    case LLM_JINJA_DICT:
      *length = value->dict->n_entries;
      return TRUE;
    default:
      return FALSE;
    }
}

const char *
llm_jinja_type_name (const LlmJinjaValue *value)
{
  static const char *const names[] = { "undefined", "none", "bool", "int", "float", "string", NULL,
                                       "dict", "namespace", "function" };
  static const char *const kinds[] = { "list", "tuple", "range", "dict keys", "dict values",
                                       "dict items", "generator" };

  return value->type == LLM_JINJA_LIST ? kinds[value->list->kind] : names[value->type];
}
