/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A schema's keywords, in the order of the text, to its shape. */

#include <string.h>

#include "constraints/llm-json-values.h"
#include "constraints/schema/llm-schema-private.h"

static const LlmShape *
get_schema_shape (LlmSchema     *self,
                  const LlmJson *node)
{
  if (node->kind != LLM_JSON_OBJECT && node->kind != LLM_JSON_TRUE && node->kind != LLM_JSON_FALSE)
    return llm_schema_fail (self, node, "a schema must be an object, true or false");
  return llm_term_get_shape (self, llm_term_schema (self, node));
}

/* --- literals --- */

static void
read_literal_object (LlmSchema     *self,
                     const LlmJson *node,
                     LlmShape      *shape)
{
  LlmObjectShape *object = llm_object_shape_new (self);

  g_array_index (object->regions, LlmRegion, 0).value = LLM_TERM_NONE;
  for (guint i = 0; i < node->values->len; i++)
    {
      g_autoptr(GString) key = llm_schema_encode (g_ptr_array_index (node->keys, i));
      LlmTerm value = llm_term_literal (self, g_ptr_array_index (node->values, i));

      llm_object_shape_add (self, object, key->str, key->len, value)->is_required = TRUE;
    }
  g_ptr_array_add (shape->objects, object);
}

static void
read_literal_array (LlmSchema     *self,
                    const LlmJson *node,
                    LlmShape      *shape)
{
  LlmArrayShape *array = llm_array_shape_new (self);

  array->rest = LLM_TERM_NONE;
  array->min = array->max = node->values->len;
  for (guint i = 0; i < node->values->len; i++)
    {
      LlmTerm item = llm_term_literal (self, g_ptr_array_index (node->values, i));

      g_array_append_val (array->prefix, item);
    }
  g_ptr_array_add (shape->arrays, array);
}

const LlmShape *
llm_schema_read_literal (LlmSchema     *self,
                         const LlmJson *node)
{
  LlmShape *shape = llm_shape_new_none (self);
  g_auto(LlmDecimal) number = { 0 };

  switch (node->kind)
    {
    case LLM_JSON_NULL:
      shape->has_null = TRUE;
      break;
    case LLM_JSON_FALSE:
      shape->has_false = TRUE;
      break;
    case LLM_JSON_TRUE:
      shape->has_true = TRUE;
      break;
    case LLM_JSON_NUMBER:
      if (!llm_decimal_read (&number, node->text))
        return llm_schema_refuse (self, node, "this number is too large or too small");
      shape->numbers =
        llm_schema_own_automaton (self, llm_json_numbers_by (&number, FALSE, TRUE, FALSE));
      break;
    case LLM_JSON_STRING:
      shape->strings =
        llm_schema_own_automaton (self, llm_json_string (node->text, node->length));
      break;
    case LLM_JSON_ARRAY:
      read_literal_array (self, node, shape);
      break;
    case LLM_JSON_OBJECT:
    default:
      read_literal_object (self, node, shape);
    }
  return self->error == NULL ? shape : NULL;
}

/* --- keywords for all types --- */

static gboolean
add_type (LlmSchema     *self,
          LlmShape      *shape,
          const LlmJson *name)
{
  if (llm_json_is (name, "null"))
    shape->has_null = TRUE;
  else if (llm_json_is (name, "boolean"))
    shape->has_false = shape->has_true = TRUE;
  else if (llm_json_is (name, "number"))
    shape->numbers = self->numbers;
  else if (llm_json_is (name, "integer"))
    shape->numbers = llm_schema_combine (self, shape->numbers, self->integers, LLM_COMBINE_OR);
  else if (llm_json_is (name, "string"))
    shape->strings = self->strings;
  else if (llm_json_is (name, "array"))
    g_ptr_array_add (shape->arrays, llm_array_shape_new (self));
  else if (llm_json_is (name, "object"))
    g_ptr_array_add (shape->objects, llm_object_shape_new (self));
  else
    {
      llm_schema_fail (self, name, "this is no type; null, boolean, integer, number, string, array "
                                   "and object are");
      return FALSE;
    }
  return TRUE;
}

static gboolean
is_true (const LlmJson *node,
         const char    *key)
{
  const LlmJson *value = llm_json_get_set (node, key);

  return value != NULL && value->kind == LLM_JSON_TRUE;
}

static const LlmShape *
read_type (LlmSchema     *self,
           const LlmJson *node,
           const LlmJson *value)
{
  LlmShape *shape = llm_shape_new_none (self);

  shape->has_null = is_true (node, "nullable");
  /* of draft 3 */
  if (llm_json_is (value, "any"))
    return llm_shape_new_any (self);
  if (value->kind != LLM_JSON_ARRAY)
    return add_type (self, shape, value) ? shape : NULL;
  for (guint i = 0; i < value->values->len; i++)
    if (!add_type (self, shape, g_ptr_array_index (value->values, i)))
      return NULL;
  return shape;
}

/* Whether @shape is of numbers alone. */
static gboolean
has_only_numbers (const LlmShape *shape)
{
  return !shape->has_null && !shape->has_false && !shape->has_true
         && llm_automaton_is_empty (shape->strings) && shape->arrays->len == 0
         && shape->objects->len == 0;
}

/* The strings, and the numbers, of a long list in one automaton, which is faster than one by
 * one. */
static const LlmShape *
read_enum (LlmSchema     *self,
           const LlmJson *value)
{
  const LlmShape *shape = llm_shape_new_none (self);
  LlmShape *several = llm_shape_new_none (self);
  g_autoptr(LlmNfa) nfa = llm_nfa_new ();
  g_autoptr(LlmNfa) numbers = llm_nfa_new ();
  guint start = llm_nfa_add_state (nfa);
  guint end = llm_nfa_add_state (nfa);
  guint first = llm_nfa_add_state (numbers);
  guint last = llm_nfa_add_state (numbers);

  if (value->kind != LLM_JSON_ARRAY)
    return llm_schema_fail (self, value, "“enum” must be an array");
  for (guint i = 0; i < value->values->len && shape != NULL; i++)
    {
      const LlmJson *literal = g_ptr_array_index (value->values, i);
      const LlmShape *own;

      if (literal->kind == LLM_JSON_STRING)
        {
          g_autoptr(GString) text = llm_schema_encode (literal);

          llm_nfa_add_empty (nfa, llm_nfa_add_text (nfa, start, text->str, text->len), end,
                             LLM_EDGE_FREE);
          continue;
        }
      own = llm_term_get_shape (self, llm_term_literal (self, literal));
      if (own != NULL && has_only_numbers (own))
        {
          llm_nfa_add_automaton (numbers, first, own->numbers, last);
          continue;
        }
      shape = own != NULL ? llm_shape_or (self, shape, own) : NULL;
    }
  several->strings = llm_schema_own_automaton (self, llm_nfa_determinize (nfa, start, end));
  several->numbers = llm_schema_own_automaton (self, llm_nfa_determinize (numbers, first, last));
  return shape != NULL && several->strings != NULL && several->numbers != NULL
           ? llm_shape_or (self, shape, several) : NULL;
}

/* --- schemas in schemas, of the same value --- */

static const LlmShape *
read_all_of (LlmSchema     *self,
             const LlmJson *value)
{
  const LlmShape *shape = llm_shape_new_any (self);

  for (guint i = 0; i < value->values->len && shape != NULL; i++)
    {
      const LlmShape *part = get_schema_shape (self, g_ptr_array_index (value->values, i));

      shape = part != NULL ? llm_shape_and (self, shape, part) : NULL;
    }
  return shape;
}

static const LlmShape *
read_any_of (LlmSchema     *self,
             const LlmJson *value)
{
  const LlmShape *shape = llm_shape_new_none (self);

  for (guint i = 0; i < value->values->len && shape != NULL; i++)
    {
      const LlmShape *part = get_schema_shape (self, g_ptr_array_index (value->values, i));

      shape = part != NULL ? llm_shape_or (self, shape, part) : NULL;
    }
  return shape;
}

/* Of each part what is in no other. Where two have nothing in common, as those that a constant
 * member tells apart, nothing need be taken off. */
static const LlmShape *
read_one_of (LlmSchema     *self,
             const LlmJson *value)
{
  const LlmShape *shape = llm_shape_new_none (self);

  for (guint i = 0; i < value->values->len && shape != NULL; i++)
    {
      const LlmShape *part = get_schema_shape (self, g_ptr_array_index (value->values, i));

      for (guint k = 0; k < value->values->len && part != NULL; k++)
        {
          const LlmShape *other =
            k != i ? get_schema_shape (self, g_ptr_array_index (value->values, k)) : NULL;
          const LlmShape *both = other != NULL ? llm_shape_and (self, part, other) : NULL;

          if (both != NULL && !llm_shape_is_none (both))
            {
              other = llm_shape_not (self, other);
              part = other != NULL ? llm_shape_and (self, part, other) : NULL;
            }
        }
      shape = part != NULL && self->error == NULL ? llm_shape_or (self, shape, part) : NULL;
    }
  return shape;
}

/* (if and then) or (not if and else) */
static const LlmShape *
read_if (LlmSchema     *self,
         const LlmJson *node,
         const LlmJson *value)
{
  const LlmJson *then = llm_json_get_set (node, "then");
  const LlmJson *otherwise = llm_json_get_set (node, "else");
  const LlmShape *condition, *opposite, *part;

  if (then == NULL && otherwise == NULL)
    return llm_shape_new_any (self);
  condition = get_schema_shape (self, value);
  opposite = condition != NULL ? llm_shape_not (self, condition) : NULL;
  if (opposite == NULL)
    return NULL;
  if (then != NULL)
    {
      part = get_schema_shape (self, then);
      condition = part != NULL ? llm_shape_and (self, condition, part) : NULL;
    }
  if (otherwise != NULL)
    {
      part = get_schema_shape (self, otherwise);
      opposite = part != NULL ? llm_shape_and (self, opposite, part) : NULL;
    }
  return condition != NULL && opposite != NULL ? llm_shape_or (self, condition, opposite) : NULL;
}

static const LlmShape *
read_not (LlmSchema     *self,
          const LlmJson *value)
{
  const LlmShape *shape = get_schema_shape (self, value);

  return shape != NULL ? llm_shape_not (self, shape) : NULL;
}

static const LlmShape *
read_ref (LlmSchema     *self,
          const LlmJson *node,
          const char    *keyword,
          const LlmJson *value)
{
  const LlmJson *found =
    llm_schema_resolve (self, node, value, !g_str_equal (keyword, "$ref"));

  return found != NULL ? get_schema_shape (self, found) : NULL;
}

static const LlmShape *
read_list (LlmSchema     *self,
           const char    *keyword,
           const LlmJson *value)
{
  if (value->kind != LLM_JSON_ARRAY || value->values->len == 0)
    return llm_schema_fail (self, value, "it must be an array of schemas that is not empty");
  return g_str_equal (keyword, "allOf")   ? read_all_of (self, value)
         : g_str_equal (keyword, "anyOf") ? read_any_of (self, value)
                                          : read_one_of (self, value);
}

/* (nullable): what one keyword asks for; NULL with the error set. What is no keyword of an
 * assertion is an annotation. */
static const LlmShape *
read_keyword (LlmSchema     *self,
              const LlmJson *node,
              const char    *keyword,
              const LlmJson *value)
{
  const LlmShape *shape = NULL;

  /* as programs write what is not set */
  if (value->kind == LLM_JSON_NULL && !g_str_equal (keyword, "const"))
    return llm_shape_new_any (self);
  if (g_str_equal (keyword, "type"))
    return read_type (self, node, value);
  if (g_str_equal (keyword, "enum"))
    return read_enum (self, value);
  if (g_str_equal (keyword, "const"))
    return llm_schema_read_literal (self, value);
  if (g_str_equal (keyword, "$ref") || g_str_equal (keyword, "$dynamicRef")
      || g_str_equal (keyword, "$recursiveRef"))
    return read_ref (self, node, keyword, value);
  if (g_str_equal (keyword, "allOf") || g_str_equal (keyword, "anyOf")
      || g_str_equal (keyword, "oneOf"))
    return read_list (self, keyword, value);
  if (g_str_equal (keyword, "not"))
    return read_not (self, value);
  if (g_str_equal (keyword, "if"))
    return read_if (self, node, value);
  if (g_str_equal (keyword, "$schema") && !self->is_known_draft)
    return llm_schema_refuse (self, value, "this is no known draft of JSON Schema: what keywords mean "
                                           "in it is not known");
  return llm_schema_read_keyword (self, node, keyword, value, &shape) ? shape
                                                                      : llm_shape_new_any (self);
}

/* Keys come in the order of “properties”; of subschemas, in that of the text; then those that are
 * only required. */
static guint
get_pass (const char *keyword)
{
  if (g_str_equal (keyword, "properties") || g_str_equal (keyword, "patternProperties")
      || g_str_equal (keyword, "additionalProperties"))
    return 0;
  return g_str_equal (keyword, "required") || g_str_has_prefix (keyword, "dependent") ? 2 : 1;
}

/* (nullable): @shape without what the keyword at @i of @node leaves out. */
static const LlmShape *
add_keyword (LlmSchema      *self,
             const LlmJson  *node,
             guint           i,
             const LlmShape *shape)
{
  const LlmJson *key = g_ptr_array_index (node->keys, i);
  const LlmJson *value = g_ptr_array_index (node->values, i);
  guint depth = self->depth;
  const LlmShape *part = NULL;
  LlmShape *loose;

  self->at = value;
  /* a key with a NUL is of none */
  if (strlen (key->text) == key->length)
    part = read_keyword (self, node, key->text, value);
  else
    part = llm_shape_new_any (self);
  self->at = value;
  part = part != NULL ? llm_shape_and (self, shape, part) : NULL;
  if (part != NULL && self->emptied == NULL && llm_shape_is_none (part))
    self->emptied = value;
  if (self->error == NULL || !llm_schema_leave_out (self))
    return part;

  self->depth = depth;
  loose = llm_shape_new_any (self);
  loose->is_loose = TRUE;
  return llm_shape_and (self, shape, loose);
}

const LlmShape *
llm_schema_read_node (LlmSchema     *self,
                      const LlmJson *node)
{
  const LlmShape *shape = llm_shape_new_any (self);
  const LlmJson *before = self->at;
  /* beside a reference older drafts read nothing */
  gboolean is_reference = self->draft <= 7 && llm_json_get_set (node, "$ref") != NULL;

  for (guint pass = 0; pass < 3; pass++)
    for (guint i = 0; i < node->values->len && shape != NULL; i++)
      {
        const LlmJson *key = g_ptr_array_index (node->keys, i);

        if (get_pass (key->text) == pass && (!is_reference || llm_json_is (key, "$ref")))
          shape = add_keyword (self, node, i, shape);
      }
  self->at = before;
  if (shape != NULL && is_true (node, "nullable") && llm_json_get_set (node, "type") == NULL)
    {
      LlmShape *null = llm_shape_new_none (self);

      null->has_null = TRUE;
      shape = llm_shape_or (self, shape, null);
    }
  return self->error == NULL ? shape : NULL;
}
