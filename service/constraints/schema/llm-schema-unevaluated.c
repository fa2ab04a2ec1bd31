/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What “unevaluatedProperties” and “unevaluatedItems” speak of: what no other keyword of the same
 * schema, or of those that always hold with it (“allOf”, “$ref”), says anything about. Which part
 * of “anyOf” and the like holds is known only of each value: with these both are refused. */

#include "constraints/schema/llm-schema-private.h"

#define MAX_DEPTH 32

typedef gboolean (*AddNode) (LlmSchema     *self,
                             const LlmJson *node,
                             gpointer       data);

/* Calls @add for @node and all that always hold with it. */
static gboolean
add_nodes (LlmSchema     *self,
           const LlmJson *node,
           guint          depth,
           AddNode        add,
           gpointer       data)
{
  static const char *const branches[] = { "anyOf", "oneOf", "if", "dependentSchemas", "dependencies" };
  static const char *const references[] = { "$ref", "$dynamicRef", "$recursiveRef" };
  const LlmJson *all = llm_json_get_set (node, "allOf");

  for (guint i = 0; i < G_N_ELEMENTS (branches); i++)
    if (llm_json_get_set (node, branches[i]) != NULL || depth > MAX_DEPTH)
      {
        llm_schema_refuse (self, NULL, "it is not supported together with “%s”", branches[i]);
        return FALSE;
      }
  for (guint i = 0; i < G_N_ELEMENTS (references); i++)
    {
      const LlmJson *ref = llm_json_get_set (node, references[i]);
      const LlmJson *found = ref != NULL ? llm_schema_resolve (self, node, ref, i > 0) : NULL;

      if (ref != NULL && (found == NULL || !add_nodes (self, found, depth + 1, add, data)))
        return FALSE;
    }
  for (guint i = 0; all != NULL && all->kind == LLM_JSON_ARRAY && i < all->values->len; i++)
    if (!add_nodes (self, g_ptr_array_index (all->values, i), depth + 1, add, data))
      return FALSE;
  return add (self, node, data);
}

/* --- members --- */

typedef struct
{
  const LlmJson *top;    /* whose rest is asked for: it evaluates it itself */
  LlmObjectShape *object;
  gboolean is_all;
} Members;

static gboolean
add_members (LlmSchema     *self,
             const LlmJson *node,
             gpointer       data)
{
  Members *members = data;
  const LlmJson *properties = llm_json_get_set (node, "properties");
  const LlmJson *patterns = llm_json_get_set (node, "patternProperties");

  for (guint i = 0; properties != NULL && properties->keys != NULL && i < properties->keys->len; i++)
    {
      g_autoptr(GString) key = llm_schema_encode (g_ptr_array_index (properties->keys, i));

      if (llm_object_shape_find (members->object, key->str, key->len) == NULL)
        llm_object_shape_add (self, members->object, key->str, key->len, LLM_TERM_ANY);
    }
  members->is_all |=
    llm_json_get_set (node, "additionalProperties") != NULL
    || (node != members->top && llm_json_get_set (node, "unevaluatedProperties") != NULL);
  if (patterns != NULL)
    llm_schema_refuse (self, NULL, "it is not supported together with “patternProperties”");
  return self->error == NULL;
}

gboolean
llm_schema_rest_object (LlmSchema      *self,
                        const LlmJson  *node,
                        LlmTerm         rest,
                        LlmObjectShape *object)
{
  Members members = { node, object, FALSE };

  if (rest != LLM_TERM_ANY && !add_nodes (self, node, 0, add_members, &members))
    return FALSE;
  if (!members.is_all)
    g_array_index (object->regions, LlmRegion, 0).value = rest;
  return self->error == NULL;
}

/* --- items --- */

typedef struct
{
  const LlmJson *top;    /* likewise */
  guint n_prefix;
  gboolean is_all;
} Items;

static gboolean
add_items (LlmSchema     *self,
           const LlmJson *node,
           gpointer       data)
{
  Items *found = data;
  const LlmJson *prefix = llm_json_get_set (node, "prefixItems");
  const LlmJson *items = llm_json_get_set (node, "items");

  if (prefix == NULL && items != NULL && items->kind == LLM_JSON_ARRAY)
    {
      prefix = items;
      items = llm_json_get_set (node, "additionalItems");
    }
  if (prefix != NULL && prefix->kind == LLM_JSON_ARRAY)
    found->n_prefix = MAX (found->n_prefix, prefix->values->len);
  found->is_all |= items != NULL
                   || (node != found->top && llm_json_get_set (node, "unevaluatedItems") != NULL);
  if (llm_json_get_set (node, "contains") != NULL)
    llm_schema_refuse (self, NULL, "it is not supported together with “contains”");
  return self->error == NULL;
}

gboolean
llm_schema_rest_array (LlmSchema     *self,
                       const LlmJson *node,
                       LlmTerm        rest,
                       LlmArrayShape *array)
{
  Items items = { node, 0, FALSE };
  LlmTerm any = LLM_TERM_ANY;

  if (rest == LLM_TERM_ANY || !add_nodes (self, node, 0, add_items, &items))
    return self->error == NULL;
  if (items.is_all)
    return TRUE;
  for (guint i = 0; i < items.n_prefix; i++)
    g_array_append_val (array->prefix, any);
  array->rest = rest;
  if (rest == LLM_TERM_NONE)
    array->max = items.n_prefix;
  return TRUE;
}
