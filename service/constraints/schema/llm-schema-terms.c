/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Terms: names of sets of values, each once. */

#include "constraints/schema/llm-schema-private.h"

#define MAX_TERMS 50000
/* Nodes and bytes of schemas that are compared as texts. */
#define MAX_COMPARED 400

LlmTermNode *
llm_schema_get_term (LlmSchema *self,
          LlmTerm    term)
{
  return &g_array_index (self->terms, LlmTermNode, term);
}

LlmTerm
llm_schema_find_term (LlmSchema     *self,
           char          *key,
           LlmTermKind       kind,
           const LlmJson *node,
           GArray        *parts)
{
  gpointer found = g_hash_table_lookup (self->ids, key);
  LlmTermNode term = { kind, node, parts, NULL, FALSE };

  if (found != NULL)
    {
      g_free (key);
      g_clear_pointer (&parts, g_array_unref);
      return GPOINTER_TO_UINT (found) - 1;
    }
  if (self->terms->len >= MAX_TERMS)
    llm_schema_refuse (self, NULL,
                       "it is too large: its parts combine to more than %u sets of values",
                       MAX_TERMS);
  g_array_append_val (self->terms, term);
  g_hash_table_insert (self->ids, key, GUINT_TO_POINTER (self->terms->len));
  return self->terms->len - 1;
}

/* Whether @node means the same wherever it stands, and is short enough to compare: @n_left: nodes
 * and bytes that it may still have. */
static gboolean
is_self_contained (const LlmJson *node,
                   gsize         *n_left)
{
  gsize n = 1 + node->length;

  if (n > *n_left)
    return FALSE;
  *n_left -= n;
  for (guint i = 0; node->values != NULL && i < node->values->len; i++)
    {
      const LlmJson *key = node->keys != NULL ? g_ptr_array_index (node->keys, i) : NULL;

      /* references, and what changes where they lead to */
      if ((key != NULL && (key->length > *n_left || (key->length > 0 && key->text[0] == '$')))
          || !is_self_contained (g_ptr_array_index (node->values, i), n_left))
        return FALSE;
    }
  return TRUE;
}

/* Equal schemas are one term, which is compiled once. */
LlmTerm
llm_term_schema (LlmSchema     *self,
                 const LlmJson *node)
{
  gsize n_left = MAX_COMPARED;

  if (node->kind == LLM_JSON_TRUE || (node->kind == LLM_JSON_OBJECT && node->values->len == 0))
    return LLM_TERM_ANY;
  if (node->kind == LLM_JSON_FALSE)
    return LLM_TERM_NONE;
  if (is_self_contained (node, &n_left))
    {
      GString *text = g_string_new ("E");

      llm_json_write (node, text);
      return llm_schema_find_term (self, g_string_free (text, FALSE), LLM_TERM_KIND_SCHEMA, node, NULL);
    }
  return llm_schema_find_term (self, g_strdup_printf ("S%p", (gconstpointer) node),
                               LLM_TERM_KIND_SCHEMA, node, NULL);
}

LlmTerm
llm_term_literal (LlmSchema     *self,
                  const LlmJson *node)
{
  return llm_schema_find_term (self, g_strdup_printf ("L%p", (gconstpointer) node),
                               LLM_TERM_KIND_LITERAL, node, NULL);
}

static int
compare_terms (gconstpointer a,
               gconstpointer b)
{
  LlmTerm x = *(const LlmTerm *) a;
  LlmTerm y = *(const LlmTerm *) b;

  return x < y ? -1 : x > y;
}

static void
add_parts (LlmSchema *self,
           GArray    *parts,
           LlmTerm    term)
{
  const LlmTermNode *node = llm_schema_get_term (self, term);

  if (node->kind == LLM_TERM_KIND_AND)
    g_array_append_vals (parts, node->parts->data, node->parts->len);
  else
    g_array_append_val (parts, term);
}

static gboolean
has_term (const GArray *terms,
          LlmTerm       term)
{
  return g_array_binary_search ((GArray *) terms, &term, compare_terms, NULL);
}

LlmTerm
llm_term_and (LlmSchema *self,
              LlmTerm    a,
              LlmTerm    b)
{
  g_autoptr(GArray) all = NULL;
  g_autoptr(GArray) parts = NULL;
  g_autoptr(GString) key = NULL;

  if (a == b || b == LLM_TERM_ANY)
    return a;
  if (a == LLM_TERM_ANY)
    return b;
  if (a == LLM_TERM_NONE || b == LLM_TERM_NONE)
    return LLM_TERM_NONE;

  all = g_array_new (FALSE, FALSE, sizeof (LlmTerm));
  parts = g_array_new (FALSE, FALSE, sizeof (LlmTerm));
  key = g_string_new ("A");
  add_parts (self, all, a);
  add_parts (self, all, b);
  g_array_sort (all, compare_terms);
  for (guint i = 0; i < all->len; i++)
    {
      LlmTerm term = g_array_index (all, LlmTerm, i);
      const LlmTermNode *node = llm_schema_get_term (self, term);

      if (i > 0 && term == g_array_index (all, LlmTerm, i - 1))
        continue;
      if (node->kind == LLM_TERM_KIND_NOT
          && has_term (all, g_array_index (node->parts, LlmTerm, 0)))
        return LLM_TERM_NONE;
      g_array_append_val (parts, term);
      g_string_append_printf (key, "%u,", term);
    }
  if (parts->len == 1)
    return g_array_index (parts, LlmTerm, 0);
  return llm_schema_find_term (self, g_string_free (g_steal_pointer (&key), FALSE),
                               LLM_TERM_KIND_AND, NULL, g_steal_pointer (&parts));
}

LlmTerm
llm_term_not (LlmSchema *self,
              LlmTerm    term)
{
  const LlmTermNode *node = llm_schema_get_term (self, term);
  GArray *parts;

  if (term <= LLM_TERM_NONE)
    return LLM_TERM_NONE - term;
  if (node->kind == LLM_TERM_KIND_NOT)
    return g_array_index (node->parts, LlmTerm, 0);
  parts = g_array_new (FALSE, FALSE, sizeof (LlmTerm));
  g_array_append_val (parts, term);
  return llm_schema_find_term (self, g_strdup_printf ("N%u", term), LLM_TERM_KIND_NOT, NULL, parts);
}

const LlmJson *
llm_term_get_node (LlmSchema *self,
                   LlmTerm    term)
{
  const LlmTermNode *node = llm_schema_get_term (self, term);

  while (node->kind == LLM_TERM_KIND_AND || node->kind == LLM_TERM_KIND_NOT)
    node = llm_schema_get_term (self, g_array_index (node->parts, LlmTerm, 0));
  return node->node;
}
