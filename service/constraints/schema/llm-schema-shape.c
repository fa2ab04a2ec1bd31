/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Intersection, union and complement of sets of JSON values. Exact, or refused. */

#include "constraints/schema/llm-schema-private.h"

#include <string.h>

#include "constraints/llm-json-values.h"

/* Arrays, and objects, of one union. */
#define MAX_ALTERNATIVES 200
#define MAX_REGIONS 64
/* How deep is looked for a contradiction before an alternative is kept. */
#define LOOK_DEPTH 3

static void
free_array_shape (gpointer data)
{
  LlmArrayShape *shape = data;

  g_array_unref (shape->prefix);
  g_array_unref (shape->contained);
  g_free (shape);
}

static void
free_member (gpointer data)
{
  g_free (((LlmMember *) data)->key);
  g_free (data);
}

static void
free_object_shape (gpointer data)
{
  LlmObjectShape *shape = data;

  g_ptr_array_unref (shape->members);
  g_array_unref (shape->regions);
  g_array_unref (shape->some);
  g_free (shape);
}

static void
free_shape (gpointer data)
{
  LlmShape *shape = data;

  g_ptr_array_unref (shape->arrays);
  g_ptr_array_unref (shape->objects);
  g_free (shape);
}

LlmShape *
llm_shape_new_none (LlmSchema *self)
{
  LlmShape *shape = g_new0 (LlmShape, 1);

  shape->numbers = self->nothing;
  shape->strings = self->nothing;
  shape->chars.max = LLM_NO_MAX;
  shape->arrays = g_ptr_array_new ();
  shape->objects = g_ptr_array_new ();
  return llm_schema_own (self, shape, free_shape);
}

LlmShape *
llm_shape_new_any (LlmSchema *self)
{
  LlmShape *shape = llm_shape_new_none (self);

  shape->has_null = shape->has_false = shape->has_true = TRUE;
  shape->numbers = self->numbers;
  shape->strings = self->strings;
  g_ptr_array_add (shape->arrays, llm_array_shape_new (self));
  g_ptr_array_add (shape->objects, llm_object_shape_new (self));
  return shape;
}

LlmArrayShape *
llm_array_shape_new (LlmSchema *self)
{
  LlmArrayShape *shape = g_new0 (LlmArrayShape, 1);

  shape->prefix = g_array_new (FALSE, FALSE, sizeof (LlmTerm));
  shape->contained = g_array_new (FALSE, FALSE, sizeof (LlmContained));
  shape->rest = LLM_TERM_ANY;
  shape->max = LLM_NO_MAX;
  return llm_schema_own (self, shape, free_array_shape);
}

LlmObjectShape *
llm_object_shape_new (LlmSchema *self)
{
  LlmObjectShape *shape = g_new0 (LlmObjectShape, 1);
  LlmRegion all = { self->strings, LLM_TERM_ANY };

  shape->members = g_ptr_array_new_with_free_func (free_member);
  shape->regions = g_array_new (FALSE, FALSE, sizeof (LlmRegion));
  shape->some = g_array_new (FALSE, FALSE, sizeof (LlmRegion));
  shape->max = LLM_NO_MAX;
  g_array_append_val (shape->regions, all);
  return llm_schema_own (self, shape, free_object_shape);
}

LlmMember *
llm_object_shape_find (const LlmObjectShape *shape,
                       const char           *key,
                       gsize                 length)
{
  for (guint i = 0; i < shape->members->len; i++)
    {
      LlmMember *member = g_ptr_array_index (shape->members, i);

      if (member->length == length && memcmp (member->key, key, length) == 0)
        return member;
    }
  return NULL;
}

LlmMember *
llm_object_shape_add (LlmSchema      *self,
                      LlmObjectShape *shape,
                      const char     *key,
                      gsize           length,
                      LlmTerm         value)
{
  LlmMember *member = g_new0 (LlmMember, 1);

  member->key = g_strndup (key, length);
  member->length = length;
  member->value = value;
  g_ptr_array_add (shape->members, member);
  return member;
}

gboolean
llm_shape_is_none (const LlmShape *self)
{
  return !self->has_null && !self->has_false && !self->has_true
         && llm_automaton_is_empty (self->numbers) && llm_automaton_is_empty (self->strings)
         && self->arrays->len == 0 && self->objects->len == 0;
}

/* --- arrays --- */

static LlmTerm
get_item (const LlmArrayShape *shape,
          guint                i)
{
  return i < shape->prefix->len ? g_array_index (shape->prefix, LlmTerm, i) : shape->rest;
}

/* (nullable): without the impossible ones; NULL if none remains. */
static LlmArrayShape *
prune_array (LlmSchema     *self,
             LlmArrayShape *shape)
{
  for (guint i = 0; i < shape->prefix->len; i++)
    if (get_item (shape, i) == LLM_TERM_NONE)
      shape->max = MIN (shape->max, i);
  if (shape->rest == LLM_TERM_NONE)
    shape->max = MIN (shape->max, shape->prefix->len);
  if (shape->prefix->len > shape->max)
    g_array_set_size (shape->prefix, shape->max);
  if (shape->min > shape->max)
    return NULL;
  for (guint i = 0; i < MIN (shape->min, shape->prefix->len + 1); i++)
    if (!llm_term_may_hold (self, get_item (shape, i), LOOK_DEPTH))
      return NULL;
  for (guint i = 0; i < shape->contained->len; i++)
    {
      const LlmContained *contained = &g_array_index (shape->contained, LlmContained, i);

      if (contained->min > contained->max
          || (contained->min > 0 && contained->item == LLM_TERM_NONE))
        return NULL;
    }
  return shape;
}

static LlmArrayShape *
and_arrays (LlmSchema           *self,
            const LlmArrayShape *a,
            const LlmArrayShape *b)
{
  LlmArrayShape *shape = llm_array_shape_new (self);

  for (guint i = 0; i < MAX (a->prefix->len, b->prefix->len); i++)
    {
      LlmTerm item = llm_term_and (self, get_item (a, i), get_item (b, i));

      g_array_append_val (shape->prefix, item);
    }
  shape->rest = llm_term_and (self, a->rest, b->rest);
  shape->min = MAX (a->min, b->min);
  shape->max = MIN (a->max, b->max);
  g_array_append_vals (shape->contained, a->contained->data, a->contained->len);
  g_array_append_vals (shape->contained, b->contained->data, b->contained->len);
  shape->is_unique = a->is_unique || b->is_unique;
  return prune_array (self, shape);
}

static LlmArrayShape *
add_array (LlmSchema *self,
           GPtrArray *shapes,
           guint      min,
           guint      max)
{
  LlmArrayShape *shape = llm_array_shape_new (self);

  shape->min = min;
  shape->max = max;
  g_ptr_array_add (shapes, shape);
  return shape;
}

/* Adds the arrays that @shape leaves out to @shapes. FALSE with the error set. */
static gboolean
not_array (LlmSchema           *self,
           const LlmArrayShape *shape,
           GPtrArray           *shapes)
{
  LlmContained violation = { llm_term_not (self, shape->rest), 1, LLM_NO_MAX, shape->prefix->len };

  if (shape->is_unique)
    {
      llm_schema_refuse (self, NULL, "uniqueItems is not supported within “not”, “if” and “oneOf”");
      return FALSE;
    }
  if (shape->min > 0)
    add_array (self, shapes, 0, shape->min - 1);
  if (shape->max != LLM_NO_MAX)
    add_array (self, shapes, shape->max + 1, LLM_NO_MAX);
  for (guint i = 0; i < shape->prefix->len; i++)
    {
      LlmTerm item = llm_term_not (self, get_item (shape, i));
      LlmTerm any = LLM_TERM_ANY;
      LlmArrayShape *other;

      if (item == LLM_TERM_NONE)
        continue;
      other = add_array (self, shapes, i + 1, LLM_NO_MAX);
      for (guint k = 0; k < i; k++)
        g_array_append_val (other->prefix, any);
      g_array_append_val (other->prefix, item);
    }
  if (violation.item != LLM_TERM_NONE)
    g_array_append_val (add_array (self, shapes, violation.from + 1, LLM_NO_MAX)->contained,
                        violation);
  for (guint i = 0; i < shape->contained->len; i++)
    {
      LlmContained contained = g_array_index (shape->contained, LlmContained, i);
      LlmContained fewer = { contained.item, 0, contained.min - 1, contained.from };
      LlmContained more = { contained.item, contained.max + 1, LLM_NO_MAX, contained.from };

      if (contained.min > 0)
        g_array_append_val (add_array (self, shapes, 0, LLM_NO_MAX)->contained, fewer);
      if (contained.max != LLM_NO_MAX)
        g_array_append_val (add_array (self, shapes, 0, LLM_NO_MAX)->contained, more);
    }
  return TRUE;
}

/* --- objects --- */

LlmTerm
llm_object_shape_get (const LlmObjectShape *shape,
                      const char           *key,
                      gsize                 length)
{
  const LlmMember *member = llm_object_shape_find (shape, key, length);

  if (member != NULL)
    return member->value;
  for (guint i = 0; i < shape->regions->len; i++)
    {
      const LlmRegion *region = &g_array_index (shape->regions, LlmRegion, i);

      if (llm_automaton_accepts (region->keys, key, length))
        return region->value;
    }
  return LLM_TERM_NONE;
}

static void
and_members (LlmSchema            *self,
             LlmObjectShape       *to,
             const LlmObjectShape *from,
             const LlmObjectShape *other)
{
  for (guint i = 0; i < from->members->len; i++)
    {
      const LlmMember *member = g_ptr_array_index (from->members, i);
      LlmMember *known = llm_object_shape_find (to, member->key, member->length);

      if (known == NULL)
        known = llm_object_shape_add (self, to, member->key, member->length,
                                      llm_term_and (self, member->value,
                                                    llm_object_shape_get (other, member->key,
                                                                          member->length)));
      known->is_required |= member->is_required;
    }
}

/* (nullable): NULL if none remains, or with the error set. */
static LlmObjectShape *
and_objects (LlmSchema            *self,
             const LlmObjectShape *a,
             const LlmObjectShape *b)
{
  LlmObjectShape *shape = llm_object_shape_new (self);
  guint n_required = 0;

  and_members (self, shape, a, b);
  and_members (self, shape, b, a);
  g_array_set_size (shape->regions, 0);
  for (guint i = 0; i < a->regions->len; i++)
    for (guint k = 0; k < b->regions->len; k++)
      {
        const LlmRegion *in_a = &g_array_index (a->regions, LlmRegion, i);
        const LlmRegion *in_b = &g_array_index (b->regions, LlmRegion, k);
        LlmRegion region = { llm_schema_combine (self, in_a->keys, in_b->keys, LLM_COMBINE_AND),
                             llm_term_and (self, in_a->value, in_b->value) };

        if (region.keys == NULL)
          return NULL;
        if (!llm_automaton_is_empty (region.keys))
          g_array_append_val (shape->regions, region);
      }
  if (shape->regions->len > MAX_REGIONS)
    return llm_schema_refuse (self, NULL, "its patterns for keys combine to more than %u",
                              MAX_REGIONS);
  g_array_append_vals (shape->some, a->some->data, a->some->len);
  g_array_append_vals (shape->some, b->some->data, b->some->len);
  shape->min = MAX (a->min, b->min);
  shape->max = MIN (a->max, b->max);
  for (guint i = 0; i < shape->members->len; i++)
    {
      const LlmMember *member = g_ptr_array_index (shape->members, i);

      n_required += member->is_required;
      if (member->is_required && !llm_term_may_hold (self, member->value, LOOK_DEPTH))
        return NULL;
    }
  return MAX (shape->min, n_required) <= shape->max ? shape : NULL;
}

static LlmObjectShape *
add_object (LlmSchema *self,
            GPtrArray *shapes)
{
  LlmObjectShape *shape = llm_object_shape_new (self);

  g_ptr_array_add (shapes, shape);
  return shape;
}

static gboolean
not_object (LlmSchema            *self,
            const LlmObjectShape *shape,
            GPtrArray            *shapes)
{
  if (shape->some->len > 0)
    {
      llm_schema_refuse (self, NULL, "this combination of “not” and objects is not supported");
      return FALSE;
    }
  if (shape->min > 0)
    add_object (self, shapes)->max = shape->min - 1;
  if (shape->max != LLM_NO_MAX)
    add_object (self, shapes)->min = shape->max + 1;
  for (guint i = 0; i < shape->members->len; i++)
    {
      const LlmMember *member = g_ptr_array_index (shape->members, i);
      LlmTerm other = llm_term_not (self, member->value);

      if (member->is_required)
        llm_object_shape_add (self, add_object (self, shapes), member->key, member->length,
                              LLM_TERM_NONE);
      if (other != LLM_TERM_NONE)
        llm_object_shape_add (self, add_object (self, shapes), member->key, member->length, other)
          ->is_required = TRUE;
    }
  for (guint i = 0; i < shape->regions->len; i++)
    {
      LlmRegion region = g_array_index (shape->regions, LlmRegion, i);
      LlmObjectShape *other;

      region.value = llm_term_not (self, region.value);
      if (region.value == LLM_TERM_NONE)
        continue;
      for (guint k = 0; k < shape->members->len; k++)
        {
          const LlmMember *member = g_ptr_array_index (shape->members, k);
          g_autoptr(LlmNfa) nfa = llm_nfa_new ();
          guint start = llm_nfa_add_state (nfa);
          guint end = llm_nfa_add_text (nfa, start, member->key, member->length);
          LlmAutomaton *key =
            llm_schema_own_automaton (self, llm_nfa_determinize (nfa, start, end));

          region.keys = key != NULL ? llm_schema_combine (self, region.keys, key,
                                                          LLM_COMBINE_WITHOUT)
                                    : NULL;
          if (region.keys == NULL)
            return FALSE;
        }
      if (llm_automaton_is_empty (region.keys))
        continue;
      other = add_object (self, shapes);
      g_array_append_val (other->some, region);
    }
  return TRUE;
}

/* --- strings --- */

static gboolean
has_counts (const LlmShape *shape)
{
  return shape->chars.min > 0 || shape->chars.max != LLM_NO_MAX;
}

LlmAutomaton *
llm_shape_count_strings (LlmSchema      *self,
                         const LlmShape *shape)
{
  guint n = shape->chars.max != LLM_NO_MAX ? shape->chars.max : shape->chars.min;
  g_autofree char *key = NULL;
  LlmAutomaton *counts;

  if (!has_counts (shape) || llm_automaton_is_empty (shape->strings))
    return shape->strings;
  key = g_strdup_printf ("%u %u", shape->chars.min, shape->chars.max);
  counts = g_hash_table_lookup (self->counts, key);
  if (counts == NULL && n <= LLM_AUTOMATON_MAX_STATES)
    {
      counts = llm_json_strings (shape->chars.min, shape->chars.max);
      if (counts != NULL)
        g_hash_table_insert (self->counts, g_steal_pointer (&key),
                             llm_schema_own_automaton (self, counts));
    }
  if (counts == NULL)
    return llm_schema_refuse (self, NULL,
                              "minLength and maxLength of this many characters are not supported "
                              "beside what else it asks of strings");
  return llm_schema_combine (self, shape->strings, counts, LLM_COMBINE_AND);
}

static void
and_strings (LlmSchema      *self,
             const LlmShape *a,
             const LlmShape *b,
             LlmShape       *to)
{
  to->strings = llm_schema_combine (self, a->strings, b->strings, LLM_COMBINE_AND);
  to->chars.min = MAX (a->chars.min, b->chars.min);
  to->chars.max = MIN (a->chars.max, b->chars.max);
  if (to->chars.min > to->chars.max)
    to->strings = self->nothing;
}

static void
or_strings (LlmSchema      *self,
            const LlmShape *a,
            const LlmShape *b,
            LlmShape       *to)
{
  const LlmShape *kept = llm_automaton_is_empty (a->strings) ? b : a;

  if (llm_automaton_is_empty (a->strings) || llm_automaton_is_empty (b->strings)
      || memcmp (&a->chars, &b->chars, sizeof a->chars) == 0)
    {
      to->strings = llm_schema_combine (self, a->strings, b->strings, LLM_COMBINE_OR);
      to->chars = kept->chars;
      return;
    }
  to->strings = llm_shape_count_strings (self, b);
  if (to->strings != NULL)
    to->strings = llm_schema_combine (self, llm_shape_count_strings (self, a), to->strings,
                                      LLM_COMBINE_OR);
}

/* Of all strings, those of other counts. */
static void
not_strings (LlmSchema      *self,
             const LlmShape *a,
             LlmShape       *to)
{
  LlmAutomaton *counted = a->strings;

  if (a->strings == self->strings && has_counts (a)
      && (a->chars.min == 0 || a->chars.max == LLM_NO_MAX))
    {
      if (a->chars.min == 0)
        to->chars.min = a->chars.max + 1;
      else
        to->chars.max = a->chars.min - 1;
      return;
    }
  counted = llm_shape_count_strings (self, a);
  to->strings = counted != NULL ? llm_schema_combine (self, self->strings, counted,
                                                      LLM_COMBINE_WITHOUT)
                                : NULL;
}

/* --- shapes --- */

static gboolean
check_alternatives (LlmSchema      *self,
                    const LlmShape *shape)
{
  if (shape->arrays->len > MAX_ALTERNATIVES || shape->objects->len > MAX_ALTERNATIVES)
    llm_schema_refuse (self, NULL, "its parts combine to more than %u alternatives",
                       MAX_ALTERNATIVES);
  return self->error == NULL;
}

/* So that “any” stays one alternative. */
static gboolean
is_any_array (const LlmArrayShape *shape)
{
  return shape->prefix->len == 0 && shape->rest == LLM_TERM_ANY && shape->min == 0
         && shape->max == LLM_NO_MAX && shape->contained->len == 0 && !shape->is_unique;
}

static gboolean
is_any_object (const LlmObjectShape *shape)
{
  return shape->members->len == 0 && shape->regions->len == 1 && shape->some->len == 0
         && g_array_index (shape->regions, LlmRegion, 0).value == LLM_TERM_ANY && shape->min == 0
         && shape->max == LLM_NO_MAX;
}

const LlmShape *
llm_shape_and (LlmSchema      *self,
               const LlmShape *a,
               const LlmShape *b)
{
  LlmShape *shape = llm_shape_new_none (self);

  shape->has_null = a->has_null && b->has_null;
  shape->has_false = a->has_false && b->has_false;
  shape->has_true = a->has_true && b->has_true;
  shape->numbers = llm_schema_combine (self, a->numbers, b->numbers, LLM_COMBINE_AND);
  and_strings (self, a, b, shape);
  shape->is_loose = a->is_loose || b->is_loose;
  for (guint i = 0; i < a->arrays->len && check_alternatives (self, shape); i++)
    for (guint k = 0; k < b->arrays->len; k++)
      {
        LlmArrayShape *in_a = g_ptr_array_index (a->arrays, i);
        LlmArrayShape *in_b = g_ptr_array_index (b->arrays, k);
        LlmArrayShape *both = in_a == in_b || is_any_array (in_b) ? in_a
                              : is_any_array (in_a)               ? in_b
                                                    : and_arrays (self, in_a, in_b);

        if (both != NULL)
          g_ptr_array_add (shape->arrays, both);
      }
  for (guint i = 0; i < a->objects->len && check_alternatives (self, shape); i++)
    for (guint k = 0; k < b->objects->len; k++)
      {
        LlmObjectShape *in_a = g_ptr_array_index (a->objects, i);
        LlmObjectShape *in_b = g_ptr_array_index (b->objects, k);
        LlmObjectShape *both = in_a == in_b || is_any_object (in_b) ? in_a
                               : is_any_object (in_a)               ? in_b
                                                      : and_objects (self, in_a, in_b);

        if (both != NULL)
          g_ptr_array_add (shape->objects, both);
      }
  return check_alternatives (self, shape) ? shape : NULL;
}

const LlmShape *
llm_shape_or (LlmSchema      *self,
              const LlmShape *a,
              const LlmShape *b)
{
  LlmShape *shape = llm_shape_new_none (self);

  if (a == b)
    return a;
  shape->has_null = a->has_null || b->has_null;
  shape->has_false = a->has_false || b->has_false;
  shape->has_true = a->has_true || b->has_true;
  shape->numbers = llm_schema_combine (self, a->numbers, b->numbers, LLM_COMBINE_OR);
  or_strings (self, a, b, shape);
  shape->is_loose = a->is_loose || b->is_loose;
  for (guint i = 0; i < a->arrays->len; i++)
    g_ptr_array_add (shape->arrays, g_ptr_array_index (a->arrays, i));
  for (guint i = 0; i < b->arrays->len; i++)
    if (!g_ptr_array_find (shape->arrays, g_ptr_array_index (b->arrays, i), NULL))
      g_ptr_array_add (shape->arrays, g_ptr_array_index (b->arrays, i));
  for (guint i = 0; i < a->objects->len; i++)
    g_ptr_array_add (shape->objects, g_ptr_array_index (a->objects, i));
  for (guint i = 0; i < b->objects->len; i++)
    if (!g_ptr_array_find (shape->objects, g_ptr_array_index (b->objects, i), NULL))
      g_ptr_array_add (shape->objects, g_ptr_array_index (b->objects, i));
  return check_alternatives (self, shape) ? shape : NULL;
}

const LlmShape *
llm_shape_not (LlmSchema      *self,
               const LlmShape *a)
{
  LlmShape *shape = llm_shape_new_any (self);
  const LlmShape *result;

  /* of what holds too much, what is not in it is not known */
  if (a->is_loose)
    {
      shape->is_loose = TRUE;
      return shape;
    }
  shape->has_null = !a->has_null;
  shape->has_false = !a->has_false;
  shape->has_true = !a->has_true;
  shape->numbers = llm_schema_combine (self, self->numbers, a->numbers, LLM_COMBINE_WITHOUT);
  not_strings (self, a, shape);
  if (shape->numbers == NULL || shape->strings == NULL)
    return NULL;

  /* not one of them, and not the next … */
  result = shape;
  for (guint i = 0; i < a->arrays->len && result != NULL; i++)
    {
      LlmShape *others = llm_shape_new_any (self);

      g_ptr_array_set_size (others->arrays, 0);
      result = not_array (self, g_ptr_array_index (a->arrays, i), others->arrays)
                 ? llm_shape_and (self, result, others)
                 : NULL;
    }
  for (guint i = 0; i < a->objects->len && result != NULL; i++)
    {
      LlmShape *others = llm_shape_new_any (self);

      g_ptr_array_set_size (others->objects, 0);
      result = not_object (self, g_ptr_array_index (a->objects, i), others->objects)
                 ? llm_shape_and (self, result, others)
                 : NULL;
    }
  return result;
}
