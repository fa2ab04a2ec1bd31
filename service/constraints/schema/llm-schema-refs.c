/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* References within a schema: $ref, $id, $anchor, $defs, and what older drafts have of them.
 * Nothing is fetched from anywhere. */

#include <gio/gio.h>
#include <string.h>

#include "constraints/schema/llm-schema-private.h"

/* Of a schema that says none. */
#define NO_BASE "llmsvc-schema:///"

static const char *
get_string (const LlmJson *node,
            const char    *key)
{
  const LlmJson *value = llm_json_get (node, key);

  return value != NULL && value->kind == LLM_JSON_STRING ? value->text : NULL;
}

/* (nullable): what names a schema resource; before draft 2019-09 it may be an anchor instead. */
static const char *
get_id (const LlmSchema *self,
        const LlmJson   *node)
{
  return get_string (node, self->draft <= 4 ? "id" : "$id");
}

static gboolean
is_resource (const LlmSchema *self,
             const LlmJson   *node)
{
  const char *id = get_id (self, node);

  return id != NULL && *id != '#';
}

/* The schema resource that @node is part of. */
static const LlmJson *
find_resource (const LlmSchema *self,
               const LlmJson   *node)
{
  while (node->parent != NULL && !is_resource (self, node))
    node = node->parent;
  return node;
}

/* (transfer full): @reference, seen from @base, without an empty fragment. */
static char *
join_uri (const char *base,
          const char *reference)
{
  char *joined = g_uri_resolve_relative (base, reference, G_URI_FLAGS_ENCODED, NULL);

  if (joined == NULL)
    return g_strdup (reference);
  if (g_str_has_suffix (joined, "#"))
    joined[strlen (joined) - 1] = '\0';
  return joined;
}

/* (transfer full): the absolute URI of a resource. */
static char *
get_base (const LlmSchema *self,
          const LlmJson   *resource)
{
  g_autofree char *above = resource->parent != NULL
                             ? get_base (self, find_resource (self, resource->parent))
                             : g_strdup (NO_BASE);

  return is_resource (self, resource) ? join_uri (above, get_id (self, resource))
                                      : g_steal_pointer (&above);
}

static void
add_resource (LlmSchema     *self,
              char          *uri,
              const LlmJson *node)
{
  if (!g_hash_table_contains (self->resources, uri))
    g_hash_table_insert (self->resources, uri, (gpointer) node);
  else
    g_free (uri);
}

static void
add_anchor (LlmSchema     *self,
            const char    *anchor,
            const LlmJson *node)
{
  g_autofree char *base = get_base (self, find_resource (self, node));

  add_resource (self, g_strconcat (base, "#", anchor, NULL), node);
}

static void
count_dynamic (LlmSchema  *self,
               const char *name)
{
  guint n = GPOINTER_TO_UINT (g_hash_table_lookup (self->dynamic, name));

  g_hash_table_insert (self->dynamic, g_strdup (name), GUINT_TO_POINTER (n + 1));
}

static void
index_node (LlmSchema     *self,
            const LlmJson *node)
{
  static const char *const anchors[] = { "$anchor", "$dynamicAnchor" };

  if (node->kind == LLM_JSON_OBJECT)
    {
      const char *id = get_id (self, node);
      const LlmJson *recursive = llm_json_get (node, "$recursiveAnchor");

      if (node->parent == NULL || is_resource (self, node))
        add_resource (self, get_base (self, node), node);
      if (id != NULL && *id == '#' && self->draft <= 7)
        add_anchor (self, id + 1, node);
      for (guint i = 0; i < G_N_ELEMENTS (anchors); i++)
        {
          const char *anchor = get_string (node, anchors[i]);

          if (anchor != NULL)
            add_anchor (self, anchor, node);
          if (anchor != NULL && i == 1)
            count_dynamic (self, anchor);
        }
      if (recursive != NULL && recursive->kind == LLM_JSON_TRUE)
        count_dynamic (self, "");
    }
  for (guint i = 0; node->values != NULL && i < node->values->len; i++)
    {
      /* what stands there is data */
      if (node->kind == LLM_JSON_OBJECT
          && (llm_json_is (g_ptr_array_index (node->keys, i), "enum")
              || llm_json_is (g_ptr_array_index (node->keys, i), "const")))
        continue;
      index_node (self, g_ptr_array_index (node->values, i));
    }
}

void
llm_schema_index (LlmSchema *self)
{
  index_node (self, self->root);
}

/* (nullable): what a JSON pointer, percent-encoded, leads to from @node. */
static const LlmJson *
follow_pointer (const LlmJson *node,
                const char    *pointer)
{
  g_auto(GStrv) parts = g_strsplit (pointer, "/", -1);

  for (guint i = 1; i < g_strv_length (parts) && node != NULL; i++)
    {
      g_autofree char *decoded = g_uri_unescape_string (parts[i], NULL);
      g_autoptr(GString) key = g_string_new (decoded);

      g_string_replace (key, "~1", "/", 0);
      g_string_replace (key, "~0", "~", 0);
      if (node->kind == LLM_JSON_ARRAY)
        {
          guint64 place;

          node = g_ascii_string_to_unsigned (key->str, 10, 0, node->values->len, &place, NULL)
                     && place < node->values->len
                   ? g_ptr_array_index (node->values, place)
                   : NULL;
        }
      else
        node = llm_json_get (node, key->str);
    }
  return node;
}

const LlmJson *
llm_schema_resolve (LlmSchema     *self,
                    const LlmJson *node,
                    const LlmJson *ref,
                    gboolean       is_dynamic)
{
  g_autofree char *base = NULL;
  g_autofree char *uri = NULL;
  const LlmJson *found = NULL;
  char *fragment;

  if (ref->kind != LLM_JSON_STRING)
    return llm_schema_fail (self, ref, "a reference must be a string");
  base = get_base (self, find_resource (self, node));
  uri = *ref->text == '#' ? g_strconcat (base, ref->text, NULL) : join_uri (base, ref->text);
  fragment = strchr (uri, '#');
  if (fragment != NULL && (fragment[1] == '/' || fragment[1] == '\0'))
    {
      *fragment = '\0';
      found = g_hash_table_lookup (self->resources, uri);
      found = found != NULL ? follow_pointer (found, fragment + 1) : NULL;
    }
  else
    {
      found = g_hash_table_lookup (self->resources, uri);
    }
  if (is_dynamic
      && GPOINTER_TO_UINT (g_hash_table_lookup (self->dynamic, fragment != NULL ? fragment + 1 : ""))
           > 1)
    return llm_schema_refuse (self, ref,
                              "“%.80s” has several anchors, of which the way to it chooses: that is "
                              "not supported", ref->text);
  if (found == NULL && *ref->text == '#')
    return llm_schema_fail (self, ref, "there is no “%.80s” in this schema", ref->text);
  if (found == NULL)
    return llm_schema_refuse (self, ref, "“%.80s” is not within this schema; nothing is fetched",
                              ref->text);
  if (found->kind != LLM_JSON_OBJECT && found->kind != LLM_JSON_TRUE
      && found->kind != LLM_JSON_FALSE)
    return llm_schema_fail (self, ref, "“%.80s” is no schema", ref->text);
  return found;
}
