/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The values of items of which each may be there once, where a schema names them: the states of
 * such an array are the sets of values that were there. */

#include "constraints/schema/llm-schema-private.h"

#define MAX_VALUES 31
/* States of an array. */
#define MAX_SETS 17000
/* Of schemas in schemas. */
#define MAX_DEPTH 8

static gboolean add_values (LlmSchema     *self,
                            const LlmJson *node,
                            guint          depth,
                            GPtrArray     *values);

static gboolean
add_new (LlmSchema *self,
         GPtrArray *values,
         LlmJson   *value)
{
  g_ptr_array_add (values, llm_schema_own (self, value, (GDestroyNotify) llm_json_free));
  return TRUE;
}

static gboolean
add_word (LlmSchema  *self,
          GPtrArray  *values,
          const char *word)
{
  return add_new (self, values, llm_json_read (word, strlen (word), NULL));
}

/* A bound in a few digits. */
static gboolean
read_bound (const LlmJson *node,
            const char    *keyword,
            gint64        *bound)
{
  const LlmJson *value = llm_json_get_set (node, keyword);
  char *end;

  if (value == NULL || value->kind != LLM_JSON_NUMBER || value->length > 9)
    return FALSE;
  *bound = g_ascii_strtoll (value->text, &end, 10);
  return *end == '\0';
}

static gboolean
add_integers (LlmSchema     *self,
              const LlmJson *node,
              GPtrArray     *values)
{
  gint64 min, max;

  if (!read_bound (node, "minimum", &min) || !read_bound (node, "maximum", &max)
      || max - min >= MAX_VALUES)
    return FALSE;
  for (gint64 i = min; i <= max; i++)
    {
      g_autofree char *text = g_strdup_printf ("%" G_GINT64_FORMAT, i);

      add_word (self, values, text);
    }
  return TRUE;
}

static gboolean
add_type (LlmSchema     *self,
          const LlmJson *node,
          const LlmJson *type,
          GPtrArray     *values)
{
  if (llm_json_is (type, "boolean"))
    return add_word (self, values, "true") && add_word (self, values, "false");
  if (llm_json_is (type, "null"))
    return add_word (self, values, "null");
  return llm_json_is (type, "integer") && add_integers (self, node, values);
}

static gboolean
add_types (LlmSchema     *self,
           const LlmJson *node,
           const LlmJson *type,
           GPtrArray     *values)
{
  if (type == NULL || type->kind != LLM_JSON_ARRAY)
    return type != NULL && add_type (self, node, type, values);
  for (guint i = 0; i < type->values->len; i++)
    if (!add_type (self, node, g_ptr_array_index (type->values, i), values))
      return FALSE;
  return TRUE;
}

/* The values of all of @schemas, or (@is_one) of the first that has some. */
static gboolean
add_parts (LlmSchema     *self,
           const LlmJson *schemas,
           gboolean       is_one,
           guint          depth,
           GPtrArray     *values)
{
  if (schemas == NULL || schemas->kind != LLM_JSON_ARRAY)
    return FALSE;
  for (guint i = 0; i < schemas->values->len; i++)
    if (add_values (self, g_ptr_array_index (schemas->values, i), depth, values) == is_one)
      return is_one;
  return !is_one;
}

static gboolean
add_listed (LlmSchema     *self,
            const LlmJson *node,
            GPtrArray     *values)
{
  const LlmJson *all = llm_json_get_set (node, "enum");
  const LlmJson *one = llm_json_get (node, "const");

  if (all != NULL && all->kind == LLM_JSON_ARRAY)
    for (guint i = 0; i < all->values->len; i++)
      g_ptr_array_add (values, g_ptr_array_index (all->values, i));
  else if (one != NULL)
    g_ptr_array_add (values, (gpointer) one);
  return one != NULL || (all != NULL && all->kind == LLM_JSON_ARRAY);
}

/* Adds all values that a schema allows, and perhaps others; FALSE, having added nothing: they
 * can't be listed. */
static gboolean
add_values (LlmSchema     *self,
            const LlmJson *node,
            guint          depth,
            GPtrArray     *values)
{
  const LlmJson *ref = llm_json_get_set (node, "$ref");
  const LlmJson *referred = NULL;
  guint n = values->len;

  if (node->kind != LLM_JSON_OBJECT || depth == 0)
    return FALSE;
  if (ref != NULL)
    referred = llm_schema_resolve (self, node, ref, FALSE);
  if (referred != NULL && add_values (self, referred, depth - 1, values))
    return TRUE;
  /* beside a reference older drafts read nothing */
  if ((ref == NULL || self->draft > 7)
      && (add_listed (self, node, values)
          || add_parts (self, llm_json_get_set (node, "anyOf"), FALSE, depth - 1, values)
          || add_parts (self, llm_json_get_set (node, "oneOf"), FALSE, depth - 1, values)
          || add_parts (self, llm_json_get_set (node, "allOf"), TRUE, depth - 1, values)
          || add_types (self, node, llm_json_get_set (node, "type"), values)))
    return TRUE;
  g_ptr_array_set_size (values, (gint) n);
  return FALSE;
}

static gboolean
add_term (LlmSchema *self,
          LlmTerm    term,
          GPtrArray *values)
{
  const LlmTermNode *node = llm_schema_get_term (self, term);

  if (node->kind == LLM_TERM_KIND_SCHEMA)
    return add_values (self, node->node, MAX_DEPTH, values);
  for (guint i = 0; node->kind == LLM_TERM_KIND_AND && i < node->parts->len; i++)
    {
      if (add_term (self, g_array_index (node->parts, LlmTerm, i), values))
        return TRUE;
      node = llm_schema_get_term (self, term);
    }
  return FALSE;
}

/* How many sets of up to @max of @n values there are, up to MAX_SETS and more. */
static guint
count_sets (guint n,
            guint max)
{
  guint64 n_sets = 1, n_of_size = 1;

  for (guint size = 1; size <= MIN (n, max) && n_sets <= MAX_SETS; size++)
    {
      n_of_size = n_of_size * (n - size + 1) / size;
      n_sets += n_of_size;
    }
  return (guint) MIN (n_sets, MAX_SETS + 1);
}

/* The values of all items, and perhaps others. */
static gboolean
add_items (LlmSchema           *self,
           const LlmArrayShape *shape,
           GPtrArray           *values)
{
  for (guint i = 0; i < shape->prefix->len; i++)
    if (!add_term (self, g_array_index (shape->prefix, LlmTerm, i), values))
      return FALSE;
  return shape->max <= shape->prefix->len || shape->rest == LLM_TERM_NONE
         || add_term (self, shape->rest, values);
}

static gboolean
may_hold (LlmSchema           *self,
          const LlmArrayShape *shape,
          LlmTerm              value)
{
  for (guint i = 0; i < shape->prefix->len; i++)
    if (llm_term_may_hold (
          self, llm_term_and (self, value, g_array_index (shape->prefix, LlmTerm, i)), 3))
      return TRUE;
  return llm_term_may_hold (self, llm_term_and (self, value, shape->rest), 3);
}

GArray *
llm_schema_list_values (LlmSchema           *self,
                        const LlmArrayShape *shape)
{
  g_autoptr(GPtrArray) all = g_ptr_array_new ();
  g_autoptr(GArray) values = g_array_new (FALSE, FALSE, sizeof (LlmTerm));

  if (!add_items (self, shape, all))
    return NULL;
  for (guint i = 0; i < all->len; i++)
    {
      LlmTerm value = llm_term_literal (self, g_ptr_array_index (all, i));
      gboolean is_new = may_hold (self, shape, value);

      for (guint k = 0; k < values->len && is_new; k++)
        is_new = !llm_term_may_hold (
          self, llm_term_and (self, value, g_array_index (values, LlmTerm, k)), 3);
      if (is_new)
        g_array_append_val (values, value);
      if (values->len > MAX_VALUES)
        return NULL;
    }
  return count_sets (values->len, shape->max) <= MAX_SETS ? g_steal_pointer (&values) : NULL;
}
