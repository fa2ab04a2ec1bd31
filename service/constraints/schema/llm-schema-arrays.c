/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Arrays: [item,item,…], with states for how many there were, and how many of what is counted. */

#include <string.h>

#include "constraints/schema/llm-schema-private.h"

#define MAX_PLACES 20000
/* More items are counted by the grammar, not by states of their own. */
#define MAX_COUNTED 500
/* Kinds of items that are counted at once. */
#define MAX_CONTAINED 4

typedef struct
{
  guint n;                        /* items, as far as they are told apart */
  guint counts[MAX_CONTAINED];    /* of them, of each kind, likewise */
  guint seen;                     /* bits: which values were there, if each may be once */
} Place;

typedef struct
{
  LlmRules *rules;
  LlmNfa *nfa;
  const LlmArrayShape *shape;
  guint n_told;          /* from this one on all items are alike */
  GArray *values;        /* (nullable) (element-type LlmTerm): all that an item can be, each once */
  GHashTable *states;    /* Place → state + 1: where the next item or the end comes */
  GArray *pending;          /* (element-type Place) */
} Builder;

static guint
place_hash (gconstpointer key)
{
  const Place *place = key;
  guint hash = place->n * 31 + place->seen;

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

static LlmTerm
get_item (const LlmArrayShape *shape,
          guint                i)
{
  return i < shape->prefix->len ? g_array_index (shape->prefix, LlmTerm, i) : shape->rest;
}

/* An item of @from that is @item, counted for the kinds in @kinds and, where that matters, for no
 * other; @seen: the bit of its value. */
static void
add_item (Builder *self,
          Place    from,
          LlmTerm  item,
          guint    seen,
          guint    kinds,
          guint    behind)
{
  const LlmArrayShape *shape = self->shape;
  LlmSchema *schema = self->rules->schema;
  Place to = from;

  to.seen |= seen;

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

static void
add_items (Builder *self,
           Place    from,
           guint    kinds,
           guint    behind)
{
  LlmTerm item = get_item (self->shape, from.n);

  for (guint i = 0; self->values != NULL && i < self->values->len; i++)
    if ((from.seen & 1u << i) == 0)
      add_item (self, from,
                llm_term_and (self->rules->schema, item, g_array_index (self->values, LlmTerm, i)),
                1u << i, kinds, behind);
  if (self->values == NULL)
    add_item (self, from, item, 0, kinds, behind);
}

/* --- many items --- */

/* Items behind @from of which only the number matters, up to the closing bracket. */
static gboolean
add_counted (LlmRules            *self,
             LlmNfa              *nfa,
             const LlmArrayShape *shape,
             guint                from,
             guint                end)
{
  g_autoptr(LlmNfa) unit = llm_nfa_new ();
  guint start = llm_nfa_add_state (unit);
  guint last = llm_nfa_add_state (unit);
  guint n = shape->prefix->len > 0 ? shape->prefix->len : 1;
  LlmAutomaton *more;

  /* the first has no comma in front of it */
  for (guint i = 0; i < n; i++)
    {
      guint to = llm_nfa_add_state (nfa);

      if (i >= shape->min)
        llm_nfa_add_empty (nfa, llm_rules_add_space (nfa, from), end, LLM_EDGE_FREE);
      if (i > 0)
        from = llm_rules_add_space (nfa, llm_nfa_add_text (nfa, llm_rules_add_space (nfa, from), ",",
                                                           1));
      llm_nfa_add_call (nfa, from, llm_rules_find (self, get_item (shape, i)), to);
      from = to;
    }
  llm_nfa_add_call (
    unit, llm_rules_add_space (unit, llm_nfa_add_text (unit, llm_rules_add_space (unit, start), ",",
                                                       1)),
    llm_rules_find (self, shape->rest), last);
  more = llm_schema_own_automaton (self->schema, llm_nfa_determinize (unit, start, last));
  if (more == NULL)
    return FALSE;
  start = llm_nfa_add_state (nfa);
  llm_nfa_add_empty (nfa, llm_rules_add_space (nfa, start), end, LLM_EDGE_FREE);
  return llm_rules_add_counted (self, nfa, from, more, MAX (shape->min, n) - n,
                                shape->max != LLM_NO_MAX ? shape->max - n : LLM_NO_MAX, start);
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
  Builder builder = { self, nfa, shape, 1, NULL, states, pending };
  g_autoptr(GArray) values = NULL;
  guint end = llm_nfa_add_state (nfa);
  Place first = { 0 };

  if (shape->is_unique && shape->max > 1
      && (values = llm_schema_list_values (self->schema, shape)) == NULL)
    {
      llm_schema_refuse (self->schema, NULL, "uniqueItems is supported where items are of a few "
                                             "values that the schema names: others would have to be "
                                             "compared with each other");
      if (!llm_schema_leave_out (self->schema))
        return FALSE;
    }
  builder.values = values;
  if (shape->contained->len > MAX_CONTAINED)
    {
      llm_schema_refuse (self->schema, NULL, "more than %u “contains” at once are not supported",
                         MAX_CONTAINED);
      return FALSE;
    }
  /* the first is told apart: no comma is before it */
  builder.n_told = shape->max != LLM_NO_MAX ? shape->max
                                            : MAX (MAX (shape->prefix->len, shape->min), 1);
  for (guint i = 0; i < shape->contained->len; i++)
    builder.n_told = MAX (builder.n_told, g_array_index (shape->contained, LlmContained, i).from);
  llm_nfa_add_bytes (nfa, end, ']', ']', to);
  from = llm_nfa_add_text (nfa, from, "[", 1);
  from = llm_rules_add_space (nfa, from);
  if (builder.n_told > MAX_COUNTED && shape->contained->len == 0 && values == NULL
      && shape->prefix->len < MAX_COUNTED)
    return add_counted (self, nfa, shape, from, end);
  if (builder.n_told > MAX_PLACES)
    {
      llm_schema_refuse (self->schema, NULL, "counts of this many items are not supported");
      return FALSE;
    }
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
        add_items (&builder, place, kinds, item);
      if (pending->len > MAX_PLACES)
        {
          llm_schema_refuse (self->schema, NULL, "counts of this many items are not supported");
          return FALSE;
        }
    }
  return self->schema->error == NULL;
}
