/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Arrays: [item,item,…], with states for how many there were, and how many of what is counted. */

#include <string.h>

#include "constraints/schema/llm-schema-private.h"

#define MAX_PLACES 20000
/* Kinds of items that are counted at once. */
#define MAX_CONTAINED 4

typedef struct
{
  guint n;                        /* items, as far as they are told apart */
  guint counts[MAX_CONTAINED];    /* of them, of each kind, likewise */
} Place;

typedef struct
{
  LlmRules *rules;
  LlmNfa *nfa;
  const LlmArrayShape *shape;
  guint n_told;          /* from this one on all items are alike */
  GHashTable *states;    /* Place → state + 1: where the next item or the end comes */
  GArray *pending;          /* (element-type Place) */
} Builder;

static guint
place_hash (gconstpointer key)
{
  const Place *place = key;
  guint hash = place->n;

  for (guint i = 0; i < MAX_CONTAINED; i++)
    hash = hash * 31 + place->counts[i];
  return hash;
}

static gboolean
place_equal (gconstpointer a,
             gconstpointer b)
{
  return memcmp (a, b, sizeof (Place)) == 0;
}

static guint
find_state (Builder *self,
            Place    place)
{
  gpointer found = g_hash_table_lookup (self->states, &place);
  guint state;

  if (found != NULL)
    return GPOINTER_TO_UINT (found) - 1;
  state = llm_nfa_add_state (self->nfa);
  g_hash_table_insert (self->states, g_memdup2 (&place, sizeof place),
                       GUINT_TO_POINTER (state + 1));
  g_array_append_val (self->pending, place);
  return state;
}

/* An item of @from that is counted for the kinds in @kinds and, where that matters, for no
 * other. */
static void
add_item (Builder *self,
          Place    from,
          guint    kinds,
          guint    behind)
{
  const LlmArrayShape *shape = self->shape;
  LlmSchema *schema = self->rules->schema;
  LlmTerm item = from.n < shape->prefix->len ? g_array_index (shape->prefix, LlmTerm, from.n)
                                             : shape->rest;
  Place to = from;

  for (guint i = 0; i < shape->contained->len; i++)
    {
      const LlmContained *contained = &g_array_index (shape->contained, LlmContained, i);
      gboolean is_counted = (kinds & 1u << i) != 0;

      if (contained->max == LLM_NO_MAX && is_counted && from.counts[i] == contained->min)
        return; /* there are enough: that is not counted any more */
      if (is_counted && (from.n < contained->from || from.counts[i] == contained->max))
        return;
      if (is_counted)
        {
          item = llm_term_and (schema, item, contained->item);
          to.counts[i]++;
        }
      else if (contained->max != LLM_NO_MAX && from.n >= contained->from)
        item = llm_term_and (schema, item, llm_term_not (schema, contained->item));
    }
  to.n = MIN (from.n + 1, self->n_told);
  if (item != LLM_TERM_NONE)
    llm_nfa_add_call (self->nfa, behind, llm_rules_find (self->rules, item), find_state (self, to));
}

static gboolean
may_end (const LlmArrayShape *shape,
         const Place         *place)
{
  for (guint i = 0; i < shape->contained->len; i++)
    if (place->counts[i] < g_array_index (shape->contained, LlmContained, i).min)
      return FALSE;
  return place->n >= shape->min;
}

gboolean
llm_rules_add_array (LlmRules            *self,
                     LlmNfa              *nfa,
                     const LlmArrayShape *shape,
                     guint                from,
                     guint                to)
{
  g_autoptr(GHashTable) states =
    g_hash_table_new_full (place_hash, place_equal, g_free, NULL);
  g_autoptr(GArray) pending = g_array_new (FALSE, FALSE, sizeof (Place));
  Builder builder = { self, nfa, shape, 1, states, pending };
  guint end = llm_nfa_add_state (nfa);
  Place first = { 0 };

  if (shape->is_unique && shape->max > 1)
    {
      llm_schema_fail (self->schema, NULL, "uniqueItems is not supported: items would have to be "
                                           "compared with each other");
      return FALSE;
    }
  if (shape->contained->len > MAX_CONTAINED)
    {
      llm_schema_fail (self->schema, NULL, "more than %u “contains” at once are not supported",
                       MAX_CONTAINED);
      return FALSE;
    }
  /* the first is told apart: no comma is before it */
  builder.n_told = shape->max != LLM_NO_MAX ? shape->max
                                            : MAX (MAX (shape->prefix->len, shape->min), 1);
  for (guint i = 0; i < shape->contained->len; i++)
    builder.n_told = MAX (builder.n_told, g_array_index (shape->contained, LlmContained, i).from);
  if (builder.n_told > MAX_PLACES)
    {
      llm_schema_fail (self->schema, NULL, "counts of this many items are not supported");
      return FALSE;
    }
  llm_nfa_add_bytes (nfa, end, ']', ']', to);
  from = llm_nfa_add_text (nfa, from, "[", 1);
  from = llm_rules_add_space (nfa, from);
  llm_nfa_add_empty (nfa, from, find_state (&builder, first), LLM_EDGE_FREE);
  for (guint i = 0; i < pending->len && self->schema->error == NULL; i++)
    {
      Place place = g_array_index (pending, Place, i);
      guint state = find_state (&builder, place);
      gboolean is_first = i == 0;
      guint item = state;

      if (may_end (shape, &place))
        llm_nfa_add_empty (nfa, llm_rules_add_space (nfa, state), end, LLM_EDGE_FREE);
      if (shape->max != LLM_NO_MAX && place.n == shape->max)
        continue;
      if (!is_first)
        item = llm_rules_add_space (nfa, llm_nfa_add_text (nfa, state, ",", 1));
      for (guint kinds = 0; kinds < 1u << shape->contained->len; kinds++)
        add_item (&builder, place, kinds, item);
      if (pending->len > MAX_PLACES)
        {
          llm_schema_fail (self->schema, NULL, "counts of this many items are not supported");
          return FALSE;
        }
    }
  return self->schema->error == NULL;
}
