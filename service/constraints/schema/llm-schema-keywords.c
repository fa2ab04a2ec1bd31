/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Keywords that speak of numbers, strings, arrays or objects, and leave all other values alone. */

#include <string.h>

#include "constraints/llm-json-values.h"
#include "constraints/llm-pattern.h"
#include "constraints/schema/llm-schema-private.h"

#define MAX_COUNT 1000000000u

typedef LlmShape *(*ReadKeyword) (LlmSchema     *self,
                                  const LlmJson *node,
                                  const char    *keyword,
                                  const LlmJson *value);

gboolean
llm_schema_read_count (LlmSchema     *self,
                       const LlmJson *value,
                       guint         *count)
{
  g_auto(LlmDecimal) number = { 0 };

  if (value->kind == LLM_JSON_NUMBER && llm_decimal_read (&number, value->text)
      && !number.is_negative && *number.fraction == '\0')
    {
      *count = strlen (number.whole) < 10 ? (guint) g_ascii_strtoull (number.whole, NULL, 10)
                                          : MAX_COUNT;
      *count = MIN (*count, MAX_COUNT);
      return TRUE;
    }
  llm_schema_fail (self, value, "it must be a whole number, not below 0");
  return FALSE;
}

static gboolean
read_boolean (LlmSchema     *self,
              const LlmJson *value)
{
  if (value->kind != LLM_JSON_TRUE && value->kind != LLM_JSON_FALSE)
    llm_schema_fail (self, value, "it must be true or false");
  return value->kind == LLM_JSON_TRUE;
}

static LlmTerm
read_schema (LlmSchema     *self,
             const LlmJson *value)
{
  if (value->kind != LLM_JSON_OBJECT && value->kind != LLM_JSON_TRUE
      && value->kind != LLM_JSON_FALSE)
    {
      llm_schema_fail (self, value, "a schema must be an object, true or false");
      return LLM_TERM_NONE;
    }
  return llm_term_schema (self, value);
}

static gboolean
check_object (LlmSchema     *self,
              const LlmJson *value)
{
  if (value->kind != LLM_JSON_OBJECT)
    llm_schema_fail (self, value, "it must be an object");
  return value->kind == LLM_JSON_OBJECT;
}

/* --- numbers --- */

static LlmShape *
read_bound (LlmSchema     *self,
            const LlmJson *node,
            const char    *keyword,
            const LlmJson *value)
{
  LlmShape *shape = llm_shape_new_any (self);
  g_auto(LlmDecimal) bound = { 0 };
  gboolean is_exclusive = g_str_has_prefix (keyword, "exclusive");
  gboolean is_minimum = g_str_has_suffix (keyword, "inimum");
  const LlmJson *exclusive =
    llm_json_get_set (node, is_minimum ? "exclusiveMinimum" : "exclusiveMaximum");

  /* in draft 4 it says what the other bound is */
  if (is_exclusive && (value->kind == LLM_JSON_TRUE || value->kind == LLM_JSON_FALSE))
    return shape;
  is_exclusive |= exclusive != NULL && exclusive->kind == LLM_JSON_TRUE;
  if (value->kind != LLM_JSON_NUMBER)
    return llm_schema_fail (self, value, "it must be a number");
  if (!llm_decimal_read (&bound, value->text))
    return llm_schema_refuse (self, value, "this number is too large or too small");
  shape->numbers = llm_schema_own_automaton (
    self, llm_json_numbers_by (&bound, !is_minimum, !is_exclusive, is_minimum));
  return shape;
}

static LlmShape *
read_multiple (LlmSchema     *self,
               const LlmJson *node,
               const char    *keyword,
               const LlmJson *value)
{
  LlmShape *shape = llm_shape_new_any (self);
  g_auto(LlmDecimal) factor = { 0 };
  LlmAutomaton *multiples;

  if (value->kind != LLM_JSON_NUMBER || !llm_decimal_read (&factor, value->text)
      || factor.is_negative || (g_str_equal (factor.whole, "0") && *factor.fraction == '\0'))
    return llm_schema_fail (self, value, "it must be a number above 0");
  multiples = llm_json_multiples (&factor);
  if (multiples == NULL)
    return llm_schema_refuse (self, value,
                              "multiples of %.40s are not supported: it has too many digits",
                              value->text);
  shape->numbers = llm_schema_own_automaton (self, multiples);
  return shape;
}

/* --- strings --- */

static LlmShape *
read_length (LlmSchema     *self,
             const LlmJson *node,
             const char    *keyword,
             const LlmJson *value)
{
  LlmShape *shape = llm_shape_new_any (self);
  gboolean is_min = g_str_equal (keyword, "minLength");

  return llm_schema_read_count (self, value, is_min ? &shape->chars.min : &shape->chars.max)
           ? shape
           : NULL;
}

static LlmAutomaton *
read_regex (LlmSchema     *self,
            const LlmJson *value,
            const LlmJson *string)
{
  g_autoptr(GError) error = NULL;
  LlmAutomaton *strings = NULL;

  if (string->kind != LLM_JSON_STRING || strlen (string->text) != string->length)
    return llm_schema_fail (self, value, "it must be a regular expression");
  /* a fault in it may be what other dialects have */
  strings = llm_regex_compile (string->text, TRUE, LLM_ENCODING_JSON, &error);
  if (strings == NULL)
    return llm_schema_refuse (self, value, "%s", error->message);
  return llm_schema_own_automaton (self, strings);
}

static LlmShape *
read_pattern (LlmSchema     *self,
              const LlmJson *node,
              const char    *keyword,
              const LlmJson *value)
{
  LlmShape *shape = llm_shape_new_any (self);

  shape->strings = read_regex (self, value, value);
  return shape;
}

static LlmShape *
read_format (LlmSchema     *self,
             const LlmJson *node,
             const char    *keyword,
             const LlmJson *value)
{
  LlmShape *shape = llm_shape_new_any (self);
  LlmAutomaton *strings = value->kind == LLM_JSON_STRING ? llm_json_format (value->text) : NULL;

  /* all others are annotations */
  if (strings != NULL)
    shape->strings = llm_schema_own_automaton (self, strings);
  return shape;
}

/* --- arrays --- */

/* Any value; of arrays, those that are in the shape that @array is given. */
static LlmShape *
new_arrays (LlmSchema      *self,
            LlmArrayShape **array)
{
  LlmShape *shape = llm_shape_new_any (self);

  *array = g_ptr_array_index (shape->arrays, 0);
  return shape;
}

/* With “prefixItems”, which says what “items” are; before draft 2020-12 these had the names
 * “items”, an array, and “additionalItems”. */
static LlmShape *
read_items (LlmSchema     *self,
            const LlmJson *node,
            const char    *keyword,
            const LlmJson *value)
{
  const LlmJson *prefix = llm_json_get_set (node, "prefixItems");
  const LlmJson *items = llm_json_get_set (node, "items");
  LlmArrayShape *array;
  LlmShape *shape = new_arrays (self, &array);

  if (g_str_equal (keyword, "additionalItems") || (value == items && prefix != NULL))
    return shape;
  if (prefix == NULL && items->kind == LLM_JSON_ARRAY)
    {
      prefix = items;
      items = llm_json_get_set (node, "additionalItems");
    }
  if (prefix != NULL && prefix->kind != LLM_JSON_ARRAY)
    return llm_schema_fail (self, prefix, "it must be an array of schemas");
  for (guint i = 0; prefix != NULL && i < prefix->values->len; i++)
    {
      LlmTerm item = read_schema (self, g_ptr_array_index (prefix->values, i));

      g_array_append_val (array->prefix, item);
    }
  if (items != NULL)
    array->rest = read_schema (self, items);
  /* what can't be ends the array */
  for (guint i = 0; i <= array->prefix->len && array->max == LLM_NO_MAX; i++)
    if ((i < array->prefix->len ? g_array_index (array->prefix, LlmTerm, i) : array->rest)
        == LLM_TERM_NONE)
      array->max = i;
  if (array->max < array->prefix->len)
    g_array_set_size (array->prefix, array->max);
  return shape;
}

static LlmShape *
read_item_count (LlmSchema     *self,
                 const LlmJson *node,
                 const char    *keyword,
                 const LlmJson *value)
{
  LlmArrayShape *array;
  LlmShape *shape = new_arrays (self, &array);

  return llm_schema_read_count (self, value,
                                g_str_equal (keyword, "minItems") ? &array->min : &array->max)
           ? shape
           : NULL;
}

static LlmShape *
read_contains (LlmSchema     *self,
               const LlmJson *node,
               const char    *keyword,
               const LlmJson *value)
{
  const LlmJson *min = llm_json_get_set (node, "minContains");
  const LlmJson *max = llm_json_get_set (node, "maxContains");
  LlmContained contained = { LLM_TERM_ANY, 1, LLM_NO_MAX, 0 };
  LlmArrayShape *array;
  LlmShape *shape = new_arrays (self, &array);

  if (!g_str_equal (keyword, "contains"))
    return shape;
  contained.item = read_schema (self, value);
  if ((min != NULL && !llm_schema_read_count (self, min, &contained.min))
      || (max != NULL && !llm_schema_read_count (self, max, &contained.max)))
    return NULL;
  g_array_append_val (array->contained, contained);
  if (contained.min > contained.max || (contained.min > 0 && contained.item == LLM_TERM_NONE))
    g_ptr_array_set_size (shape->arrays, 0);
  return shape;
}

static LlmShape *
read_unique (LlmSchema     *self,
             const LlmJson *node,
             const char    *keyword,
             const LlmJson *value)
{
  LlmArrayShape *array;
  LlmShape *shape = new_arrays (self, &array);

  array->is_unique = read_boolean (self, value);
  return shape;
}

static LlmShape *
read_unevaluated_items (LlmSchema     *self,
                        const LlmJson *node,
                        const char    *keyword,
                        const LlmJson *value)
{
  LlmArrayShape *array;
  LlmShape *shape = new_arrays (self, &array);

  return llm_schema_rest_array (self, node, read_schema (self, value), array) ? shape : NULL;
}

/* --- objects --- */

static LlmShape *
new_objects (LlmSchema       *self,
             LlmObjectShape **object)
{
  LlmShape *shape = llm_shape_new_any (self);

  *object = g_ptr_array_index (shape->objects, 0);
  return shape;
}

/* Cuts the regions by each pattern. In those that no pattern is in, @rest holds. */
static gboolean
read_patterns (LlmSchema      *self,
               const LlmJson  *patterns,
               LlmTerm         rest,
               LlmObjectShape *object)
{
  g_autoptr(GArray) is_matched = g_array_new (FALSE, TRUE, sizeof (gboolean));

  g_array_set_size (is_matched, 1);
  for (guint i = 0; patterns != NULL && i < patterns->values->len; i++)
    {
      const LlmJson *value = g_ptr_array_index (patterns->values, i);
      LlmAutomaton *keys = read_regex (self, value, g_ptr_array_index (patterns->keys, i));
      LlmTerm term = read_schema (self, value);
      guint n = object->regions->len;

      for (guint k = 0; k < n && self->error == NULL; k++)
        {
          LlmRegion within = g_array_index (object->regions, LlmRegion, k);
          LlmRegion outside = within;
          gboolean yes = TRUE;

          within.keys = llm_schema_combine (self, within.keys, keys, LLM_COMBINE_AND);
          outside.keys = llm_schema_combine (self, outside.keys, keys, LLM_COMBINE_WITHOUT);
          within.value = llm_term_and (self, within.value, term);
          if (within.keys == NULL || outside.keys == NULL || llm_automaton_is_empty (within.keys))
            continue;
          g_array_index (object->regions, LlmRegion, k) = outside;
          g_array_append_val (object->regions, within);
          g_array_append_val (is_matched, yes);
        }
      if (self->error != NULL)
        return FALSE;
      if (object->regions->len > 64)
        {
          llm_schema_fail (self, patterns, "these patterns for keys are too many");
          return FALSE;
        }
    }
  for (guint k = 0; k < object->regions->len; k++)
    if (!g_array_index (is_matched, gboolean, k))
      g_array_index (object->regions, LlmRegion, k).value = rest;
  return TRUE;
}

/* “properties”, “patternProperties” and “additionalProperties”, which are one thing. */
static LlmShape *
read_properties (LlmSchema     *self,
                 const LlmJson *node,
                 const char    *keyword,
                 const LlmJson *value)
{
  const LlmJson *properties = llm_json_get_set (node, "properties");
  const LlmJson *patterns = llm_json_get_set (node, "patternProperties");
  const LlmJson *others = llm_json_get_set (node, "additionalProperties");
  LlmObjectShape *object;
  LlmShape *shape = new_objects (self, &object);

  if (value != (properties != NULL ? properties : patterns != NULL ? patterns : others))
    return shape;
  if ((properties != NULL && !check_object (self, properties))
      || (patterns != NULL && !check_object (self, patterns)))
    return NULL;
  /* of patterns alone, to find those that a declared key is in */
  if (!read_patterns (self, patterns, LLM_TERM_ANY, object))
    return NULL;
  for (guint i = 0; properties != NULL && i < properties->values->len; i++)
    {
      g_autoptr(GString) key = llm_schema_encode (g_ptr_array_index (properties->keys, i));
      LlmTerm term = read_schema (self, g_ptr_array_index (properties->values, i));

      for (guint k = 0; k < object->regions->len; k++)
        {
          const LlmRegion *region = &g_array_index (object->regions, LlmRegion, k);

          if (llm_automaton_accepts (region->keys, key->str, key->len))
            term = llm_term_and (self, term, region->value);
        }
      llm_object_shape_add (self, object, key->str, key->len, term);
    }
  if (others != NULL)
    {
      LlmRegion all = { self->strings, LLM_TERM_ANY };

      g_array_set_size (object->regions, 0);
      g_array_append_val (object->regions, all);
      if (!read_patterns (self, patterns, read_schema (self, others), object))
        return NULL;
    }
  return self->error == NULL ? shape : NULL;
}

static gboolean
require (LlmSchema      *self,
         LlmObjectShape *object,
         const LlmJson  *key)
{
  g_autoptr(GString) text = NULL;
  LlmMember *member;

  if (key->kind != LLM_JSON_STRING)
    {
      llm_schema_fail (self, key, "it must be a string");
      return FALSE;
    }
  text = llm_schema_encode (key);
  member = llm_object_shape_find (object, text->str, text->len);
  if (member == NULL)
    member = llm_object_shape_add (self, object, text->str, text->len, LLM_TERM_ANY);
  member->is_required = TRUE;
  return TRUE;
}

static gboolean
require_all (LlmSchema      *self,
             LlmObjectShape *object,
             const LlmJson  *keys)
{
  if (keys->kind != LLM_JSON_ARRAY)
    {
      llm_schema_fail (self, keys, "it must be an array of strings");
      return FALSE;
    }
  for (guint i = 0; i < keys->values->len; i++)
    if (!require (self, object, g_ptr_array_index (keys->values, i)))
      return FALSE;
  return TRUE;
}

static LlmShape *
read_unevaluated_properties (LlmSchema     *self,
                             const LlmJson *node,
                             const char    *keyword,
                             const LlmJson *value)
{
  LlmObjectShape *object;
  LlmShape *shape = new_objects (self, &object);

  return llm_schema_rest_object (self, node, read_schema (self, value), object) ? shape : NULL;
}

static LlmShape *
read_required (LlmSchema     *self,
               const LlmJson *node,
               const char    *keyword,
               const LlmJson *value)
{
  LlmObjectShape *object;
  LlmShape *shape = new_objects (self, &object);

  /* in draft 3 it stands in the property, and says nothing any more */
  if (value->kind == LLM_JSON_TRUE || value->kind == LLM_JSON_FALSE)
    return shape;
  return require_all (self, object, value) ? shape : NULL;
}

static LlmShape *
read_property_count (LlmSchema     *self,
                     const LlmJson *node,
                     const char    *keyword,
                     const LlmJson *value)
{
  LlmObjectShape *object;
  LlmShape *shape = new_objects (self, &object);

  return llm_schema_read_count (
           self, value, g_str_equal (keyword, "minProperties") ? &object->min : &object->max)
           ? shape
           : NULL;
}

static LlmShape *
read_property_names (LlmSchema     *self,
                     const LlmJson *node,
                     const char    *keyword,
                     const LlmJson *value)
{
  const LlmShape *names = llm_term_get_shape (self, read_schema (self, value));
  LlmAutomaton *strings = names != NULL ? llm_shape_count_strings (self, names) : NULL;
  LlmRegion others = { NULL, LLM_TERM_NONE };
  LlmObjectShape *object;
  LlmShape *shape = new_objects (self, &object);

  if (strings == NULL || self->error != NULL)
    return NULL;
  others.keys = llm_schema_combine (self, self->strings, strings, LLM_COMBINE_WITHOUT);
  if (others.keys == NULL)
    return NULL;
  g_array_index (object->regions, LlmRegion, 0).keys = strings;
  g_array_append_val (object->regions, others);
  return shape;
}

/* For each key: it is not there, or what it asks for holds: other keys, or a schema;
 * “dependencies”, of older drafts, has both. */
static LlmShape *
read_dependent (LlmSchema     *self,
                const LlmJson *node,
                const char    *keyword,
                const LlmJson *value)
{
  gboolean are_schemas = g_str_equal (keyword, "dependentSchemas");
  gboolean are_both = g_str_equal (keyword, "dependencies");
  const LlmShape *all = llm_shape_new_any (self);

  if (!check_object (self, value))
    return NULL;
  for (guint i = 0; i < value->values->len && all != NULL; i++)
    {
      const LlmJson *asked = g_ptr_array_index (value->values, i);
      LlmObjectShape *with_key, *without_key;
      LlmShape *with = new_objects (self, &with_key);
      LlmShape *without = new_objects (self, &without_key);
      const LlmShape *part = with;

      if (!require (self, with_key, g_ptr_array_index (value->keys, i))
          || !require (self, without_key, g_ptr_array_index (value->keys, i)))
        return NULL;
      ((LlmMember *) g_ptr_array_index (without_key->members, 0))->is_required = FALSE;
      ((LlmMember *) g_ptr_array_index (without_key->members, 0))->value = LLM_TERM_NONE;
      if (are_schemas || (are_both && asked->kind != LLM_JSON_ARRAY))
        {
          const LlmShape *schema = llm_term_get_shape (self, read_schema (self, asked));

          part = schema != NULL ? llm_shape_and (self, schema, with) : NULL;
        }
      else if (!require_all (self, with_key, asked))
        return NULL;
      part = part != NULL ? llm_shape_or (self, part, without) : NULL;
      all = part != NULL ? llm_shape_and (self, all, part) : NULL;
    }
  return (LlmShape *) all;
}

static const struct
{
  const char *keyword;
  ReadKeyword read;
} keywords[] = {
  { "minimum", read_bound },
  { "maximum", read_bound },
  { "exclusiveMinimum", read_bound },
  { "exclusiveMaximum", read_bound },
  { "multipleOf", read_multiple },
  { "minLength", read_length },
  { "maxLength", read_length },
  { "pattern", read_pattern },
  { "format", read_format },
  { "prefixItems", read_items },
  { "items", read_items },
  { "additionalItems", read_items },
  { "minItems", read_item_count },
  { "maxItems", read_item_count },
  { "contains", read_contains },
  { "minContains", read_contains },
  { "maxContains", read_contains },
  { "uniqueItems", read_unique },
  { "unevaluatedItems", read_unevaluated_items },
  { "properties", read_properties },
  { "patternProperties", read_properties },
  { "additionalProperties", read_properties },
  { "unevaluatedProperties", read_unevaluated_properties },
  { "required", read_required },
  { "minProperties", read_property_count },
  { "maxProperties", read_property_count },
  { "propertyNames", read_property_names },
  { "dependentRequired", read_dependent },
  { "dependentSchemas", read_dependent },
  { "dependencies", read_dependent },
};

gboolean
llm_schema_read_keyword (LlmSchema       *self,
                         const LlmJson   *node,
                         const char      *keyword,
                         const LlmJson   *value,
                         const LlmShape **shape)
{
  for (guint i = 0; i < G_N_ELEMENTS (keywords); i++)
    if (g_str_equal (keywords[i].keyword, keyword))
      {
        *shape = keywords[i].read (self, node, keyword, value);
        if (self->error != NULL)
          *shape = NULL;
        return TRUE;
      }
  return FALSE;
}
