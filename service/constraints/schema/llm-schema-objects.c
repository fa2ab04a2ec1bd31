/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Objects: {"key":value,…}, the declared keys in their order and then any others, with states for
 * how many there were. */

#include <string.h>

#include "constraints/llm-loose-text.h"
#include "constraints/schema/llm-schema-private.h"

#define MAX_PLACES 20000
#define MAX_SOME 8

typedef struct
{
  guint at;              /* the next declared key */
  guint n;               /* members, as far as they are told apart */
  guint n_different;     /* of these, as far as keys are known to be different; likewise */
  guint some;            /* bits: of what there must be one of, what there was */
} Place;

typedef struct
{
  LlmRules *rules;
  LlmNfa *nfa;
  const LlmObjectShape *shape;
  GPtrArray *shapes;     /* (element-type LlmObjectShape): it is one of these */
  const LlmArgumentTexts *flat; /* (nullable) */
  gboolean is_bare;      /* keys have no quotes */
  gboolean counts_twice; /* a key that comes twice counts as two */
  GHashTable *states;    /* Place → state + 1: behind a member, or the opening brace */
  GArray *pending;          /* (element-type Place) */
  GArray *others;        /* (element-type LlmRegion): keys that are not declared */
} Builder;

static guint
place_hash (gconstpointer key)
{
  const Place *place = key;

  return ((place->at * 31 + place->n) * 31 + place->n_different) * 31 + place->some;
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
  gpointer found;
  guint state;

  if (self->shape->max == LLM_NO_MAX)
    place.n = MIN (place.n, 1);
  place.n_different = MIN (place.n_different, self->shape->min);
  found = g_hash_table_lookup (self->states, &place);
  if (found != NULL)
    return GPOINTER_TO_UINT (found) - 1;
  state = llm_nfa_add_state (self->nfa);
  g_hash_table_insert (self->states, g_memdup2 (&place, sizeof place),
                       GUINT_TO_POINTER (state + 1));
  g_array_append_val (self->pending, place);
  return state;
}

/* Behind a key, with the quote that it is in: a colon and a value. */
static void
add_value (Builder         *self,
           guint            from,
           const char      *quote,
           LlmTerm          value,
           LlmArgumentKinds kinds,
           Place            to)
{
  if (self->flat != NULL)
    {
      (void) llm_rules_add_argument (self->rules, self->nfa, from, value, kinds,
                                     find_state (self, to));
      return;
    }
  from = llm_nfa_add_text (self->nfa, from, quote, strlen (quote));
  from = llm_rules_add_space (self->nfa, llm_nfa_add_text (self->nfa, from, ":", 1));
  llm_nfa_add_call (self->nfa, from, llm_rules_find (self->rules, value), find_state (self, to));
}

static LlmArgumentKinds
get_kinds (Builder    *self,
           const char *key,
           gsize       length)
{
  return self->flat != NULL ? llm_schema_get_kinds (self->rules->schema, self->shapes, key, length)
                            : (LlmArgumentKinds) { FALSE, FALSE };
}

/* The member at @place, its key in @quote. */
static void
add_member_in (Builder    *self,
               guint       from,
               const char *quote,
               Place       place)
{
  const LlmMember *member = g_ptr_array_index (self->shape->members, place.at);
  LlmSchema *schema = self->rules->schema;
  Place to = { place.at + 1, place.n + 1, place.n_different + 1, place.some };
  LlmArgumentKinds kinds = get_kinds (self, member->key, member->length);

  from = llm_nfa_add_text (self->nfa, from, quote, strlen (quote));
  from = llm_nfa_add_text (self->nfa, from, member->key, member->length);
  add_value (self, from, quote, member->value, kinds, to);
  for (guint i = 0; i < self->shape->some->len; i++)
    {
      const LlmRegion *some = &g_array_index (self->shape->some, LlmRegion, i);
      LlmTerm value = llm_term_and (schema, member->value, some->value);

      to.some = place.some | 1u << i;
      if (to.some != place.some && value != LLM_TERM_NONE
          && llm_automaton_accepts (some->keys, member->key, member->length))
        add_value (self, from, quote, value, kinds, to);
    }
}

static void
add_member (Builder *self,
            guint    from,
            Place    place)
{
  const LlmMember *member = g_ptr_array_index (self->shape->members, place.at);

  if (member->value == LLM_TERM_NONE
      || (self->is_bare && !llm_rules_check_bare_key (self->rules, member)))
    return;
  add_member_in (self, from, self->is_bare ? "" : "\"", place);
  if (self->rules->is_python && !self->is_bare && strpbrk (member->key, "'\\") == NULL)
    add_member_in (self, from, "'", place);
}

static void
add_region (Builder      *self,
            guint         from,
            LlmAutomaton *keys,
            LlmTerm       value,
            Place         to)
{
  const char *quote = self->is_bare ? "" : "\"";
  guint end = llm_nfa_add_state (self->nfa);

  from = llm_nfa_add_text (self->nfa, from, quote, strlen (quote));
  llm_nfa_add_automaton (self->nfa, from, keys, end);
  add_value (self, end, quote, value, get_kinds (self, NULL, 0), to);
}

/* Keys may come twice: only the first of these is known to be different. */
static gboolean
add_others (Builder *self,
            guint    from,
            Place    place)
{
  LlmSchema *schema = self->rules->schema;
  guint n_declared = self->shape->members->len;
  gboolean is_first = place.at == n_declared;
  Place to = { n_declared + 1, place.n + 1,
               place.n_different + (is_first || self->counts_twice), place.some };

  for (guint i = 0; i < self->others->len; i++)
    {
      const LlmRegion *region = &g_array_index (self->others, LlmRegion, i);

      add_region (self, from, region->keys, region->value, to);
      for (guint k = 0; k < self->shape->some->len; k++)
        {
          const LlmRegion *some = &g_array_index (self->shape->some, LlmRegion, k);
          LlmAutomaton *keys;

          if ((place.some & 1u << k) != 0)
            continue;
          keys = llm_schema_combine (schema, region->keys, some->keys, LLM_COMBINE_AND);
          if (keys == NULL)
            return FALSE;
          if (llm_automaton_is_empty (keys))
            continue;
          if (some->value != LLM_TERM_ANY)
            {
              llm_schema_refuse (schema, NULL,
                                 "that some other member is not as a schema says can't be held to, "
                                 "as a key may come twice");
              if (!llm_schema_leave_out (schema))
                return FALSE;
            }
          to.some = place.some | 1u << k;
          add_region (self, from, keys, region->value, to);
          to.some = place.some;
        }
    }
  return TRUE;
}

/* The regions without the declared keys. */
static gboolean
find_others (Builder *self)
{
  const LlmObjectShape *shape = self->shape;
  g_autoptr(LlmNfa) nfa = llm_nfa_new ();
  LlmSchema *schema = self->rules->schema;
  LlmAutomaton *declared;
  guint start = llm_nfa_add_state (nfa);
  guint end = llm_nfa_add_state (nfa);

  for (guint i = 0; i < shape->members->len; i++)
    {
      const LlmMember *member = g_ptr_array_index (shape->members, i);

      llm_nfa_add_empty (nfa, llm_nfa_add_text (nfa, start, member->key, member->length), end,
                         LLM_EDGE_FREE);
    }
  declared = llm_schema_own_automaton (schema, llm_nfa_determinize (nfa, start, end));
  for (guint i = 0; i < shape->regions->len && declared != NULL; i++)
    {
      LlmRegion region = g_array_index (shape->regions, LlmRegion, i);

      if (region.value == LLM_TERM_NONE)
        continue;
      region.keys = llm_schema_combine (schema, region.keys, declared, LLM_COMBINE_WITHOUT);
      if (self->is_bare && region.keys != NULL)
        region.keys = llm_rules_find_bare_keys (self->rules, region.keys);
      if (region.keys == NULL)
        return FALSE;
      if (!llm_automaton_is_empty (region.keys))
        g_array_append_val (self->others, region);
    }
  return declared != NULL;
}

static gboolean
check (Builder *self)
{
  const LlmObjectShape *shape = self->shape;
  guint n_required = 0;

  if (shape->some->len > MAX_SOME)
    {
      llm_schema_refuse (self->rules->schema, NULL,
                         "this combination of “not” and objects is too large");
      return FALSE;
    }
  for (guint i = 0; i < shape->members->len; i++)
    n_required += ((const LlmMember *) g_ptr_array_index (shape->members, i))->is_required;
  if (shape->min > n_required + 1 && self->others->len > 0)
    {
      llm_schema_refuse (self->rules->schema, NULL,
                         "minProperties above the number of required properties plus one is not "
                         "supported with other properties than the declared, as a key may come "
                         "twice");
      self->counts_twice = llm_schema_leave_out (self->rules->schema);
      return self->counts_twice;
    }
  return TRUE;
}

/* What stands before the first key; the state behind it. */
static guint
open_object (Builder *self,
             guint    from)
{
  return self->flat != NULL ? from
                            : llm_rules_add_space (self->nfa,
                                                   llm_nfa_add_text (self->nfa, from, "{", 1));
}

/* What stands before a key, with spaces behind a string as they are. */
static guint
separate (Builder *self,
          guint    from,
          gboolean is_first)
{
  if (self->flat != NULL)
    {
      const char *text = is_first ? self->flat->begin : self->flat->between;

      return llm_nfa_add_loose (self->nfa, from, text, is_first ? 0 : strspn (text, " \n"));
    }
  return is_first ? from
                  : llm_rules_add_space (self->nfa, llm_nfa_add_text (self->nfa, from, ",", 1));
}

/* What stands behind the last member. */
static void
close_object (Builder *self,
              guint    from,
              gboolean is_empty,
              guint    to)
{
  const char *text;

  if (self->flat == NULL)
    {
      llm_nfa_add_bytes (self->nfa, llm_rules_add_space (self->nfa, from), '}', '}', to);
      return;
    }
  text = is_empty ? self->flat->empty : self->flat->end;
  from = llm_nfa_add_loose (self->nfa, from, text, is_empty ? 0 : strspn (text, " \n"));
  llm_nfa_add_empty (self->nfa, from, to, LLM_EDGE_FREE);
}

static gboolean
add_object (LlmRules               *self,
            LlmNfa                 *nfa,
            GPtrArray              *shapes,
            const LlmObjectShape   *shape,
            const LlmArgumentTexts *flat,
            guint                   from,
            guint                   to)
{
  g_autoptr(GHashTable) states = g_hash_table_new_full (place_hash, place_equal, g_free, NULL);
  g_autoptr(GArray) pending = g_array_new (FALSE, FALSE, sizeof (Place));
  g_autoptr(GArray) others = g_array_new (FALSE, FALSE, sizeof (LlmRegion));
  Builder builder = { self, nfa, shape, shapes, flat,
                      flat != NULL || self->syntax != NULL, FALSE, states, pending, others };
  guint n_declared = shape->members->len;
  Place first = { 0 };

  if (!find_others (&builder) || !check (&builder))
    return FALSE;
  llm_nfa_add_empty (nfa, open_object (&builder, from), find_state (&builder, first),
                     LLM_EDGE_FREE);
  for (guint i = 0; i < pending->len && self->schema->error == NULL; i++)
    {
      Place place = g_array_index (pending, Place, i);
      guint state = find_state (&builder, place);
      gboolean has_room = shape->max == LLM_NO_MAX || place.n < shape->max;
      guint key = state;

      if (has_room)
        key = separate (&builder, state, place.n == 0);
      if (place.at < n_declared)
        {
          const LlmMember *member = g_ptr_array_index (shape->members, place.at);
          Place without = { place.at + 1, place.n, place.n_different, place.some };

          if (without.at == n_declared + 1)
            without.at = n_declared;
          if (has_room)
            add_member (&builder, key, place);
          if (!member->is_required)
            llm_nfa_add_empty (nfa, state, find_state (&builder, without), LLM_EDGE_FREE);
        }
      else
        {
          if (place.n_different >= shape->min && place.some == (1u << shape->some->len) - 1)
            close_object (&builder, state, place.n == 0, to);
          if (has_room && !add_others (&builder, key, place))
            return FALSE;
        }
      if (pending->len > MAX_PLACES)
        {
          llm_schema_refuse (self->schema, NULL, "its objects have too many states");
          return FALSE;
        }
    }
  return self->schema->error == NULL;
}

/* All keys that one of @shapes declares, in the order of them all: so that there is one order for
 * an object, whichever it keeps to. */
static const LlmObjectShape *
declare_all (LlmSchema            *self,
             GPtrArray            *shapes,
             const LlmObjectShape *shape)
{
  LlmObjectShape *all;

  if (shapes->len == 1)
    return shape;
  all = llm_object_shape_new (self);
  for (guint i = 0; i < shapes->len; i++)
    {
      const LlmObjectShape *other = g_ptr_array_index (shapes, i);

      for (guint k = 0; k < other->members->len; k++)
        {
          const LlmMember *member = g_ptr_array_index (other->members, k);
          const LlmMember *own = llm_object_shape_find (shape, member->key, member->length);

          if (llm_object_shape_find (all, member->key, member->length) == NULL)
            llm_object_shape_add (self, all, member->key, member->length,
                                  llm_object_shape_get (shape, member->key, member->length))
              ->is_required = own != NULL && own->is_required;
        }
    }
  g_array_set_size (all->regions, 0);
  g_array_append_vals (all->regions, shape->regions->data, shape->regions->len);
  g_array_append_vals (all->some, shape->some->data, shape->some->len);
  all->min = shape->min;
  all->max = shape->max;
  return all;
}

static int
compare_keys (gconstpointer a,
              gconstpointer b)
{
  const LlmMember *const *members[] = { a, b };

  return g_ascii_strcasecmp ((*members[0])->key, (*members[1])->key);
}

/* With the declared keys in order. */
static const LlmObjectShape *
sort_keys (LlmSchema            *self,
           const LlmObjectShape *shape)
{
  LlmObjectShape *sorted = llm_object_shape_new (self);

  for (guint i = 0; i < shape->members->len; i++)
    {
      const LlmMember *member = g_ptr_array_index (shape->members, i);

      llm_object_shape_add (self, sorted, member->key, member->length, member->value)
        ->is_required = member->is_required;
    }
  g_ptr_array_sort (sorted->members, compare_keys);
  g_array_set_size (sorted->regions, 0);
  g_array_append_vals (sorted->regions, shape->regions->data, shape->regions->len);
  g_array_append_vals (sorted->some, shape->some->data, shape->some->len);
  sorted->min = shape->min;
  sorted->max = shape->max;
  return sorted;
}

gboolean
llm_rules_add_objects (LlmRules               *self,
                       LlmNfa                 *nfa,
                       GPtrArray              *shapes,
                       const LlmArgumentTexts *flat,
                       guint                   from,
                       guint                   to)
{
  const LlmArgumentTexts *texts = flat != NULL ? flat : self->syntax;

  for (guint i = 0; i < shapes->len; i++)
    {
      const LlmObjectShape *shape =
        declare_all (self->schema, shapes, g_ptr_array_index (shapes, i));

      if (texts != NULL && texts->is_sorted)
        shape = sort_keys (self->schema, shape);
      if (!add_object (self, nfa, shapes, shape, flat, from, to))
        return FALSE;
    }
  return TRUE;
}
