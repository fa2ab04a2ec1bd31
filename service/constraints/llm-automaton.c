/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "constraints/llm-automaton-private.h"
#include "constraints/llm-compile-work.h"

#include <string.h>

/* Of a combination that is finished in any case: less than a millisecond. */
#define MIN_PAIRS 2000
/* Of a pair of states: its key, entries of a table and a list. */
#define PAIR_BYTES 72

LlmAutomaton *
llm_automaton_new (void)
{
  LlmAutomaton *self = g_new0 (LlmAutomaton, 1);

  g_atomic_ref_count_init (&self->ref_count);
  self->calls = g_array_new (FALSE, FALSE, sizeof (LlmRuleCall));
  return self;
}

LlmAutomaton *
llm_automaton_ref (LlmAutomaton *self)
{
  g_atomic_ref_count_inc (&self->ref_count);
  return self;
}

void
llm_automaton_unref (LlmAutomaton *self)
{
  if (!g_atomic_ref_count_dec (&self->ref_count))
    return;
  llm_compile_work_count (0, -llm_automaton_count_bytes (self));
  g_free (self->next);
  g_free (self->is_final);
  g_free (self->first_calls);
  g_array_unref (self->calls);
  g_free (self);
}

/* [n_states]: whether an end can be reached. Backwards, by edges sorted by their targets. */
static guint8 *
find_useful (const LlmAutomaton *self)
{
  gsize n_edges = (gsize) self->n_states * self->n_classes;
  guint8 *is_useful = g_memdup2 (self->is_final, self->n_states);
  guint32 *first = g_new0 (guint32, self->n_states + 2);
  guint32 *sources;
  g_autoptr(GArray) pending = g_array_new (FALSE, FALSE, sizeof (guint32));

  for (gsize i = 0; i < n_edges; i++)
    if (self->next[i] != LLM_DEAD)
      first[self->next[i] + 2]++;
  for (guint i = 0; i < self->calls->len; i++)
    first[g_array_index (self->calls, LlmRuleCall, i).target + 2]++;
  for (guint i = 2; i < self->n_states + 2; i++)
    first[i] += first[i - 1];
  sources = g_new (guint32, first[self->n_states + 1]);
  for (guint state = 0; state < self->n_states; state++)
    {
      for (guint class = 0; class < self->n_classes; class++)
        {
          guint32 next = self->next[(gsize) state * self->n_classes + class];

          if (next != LLM_DEAD)
            sources[first[next + 1]++] = state;
        }
      for (guint i = self->first_calls[state]; i < self->first_calls[state + 1]; i++)
        sources[first[g_array_index (self->calls, LlmRuleCall, i).target + 1]++] = state;
      if (is_useful[state])
        g_array_append_val (pending, state);
    }
  while (pending->len > 0)
    {
      guint32 state = g_array_index (pending, guint32, pending->len - 1);

      g_array_set_size (pending, pending->len - 1);
      for (guint i = first[state]; i < first[state + 1]; i++)
        if (!is_useful[sources[i]])
          {
            is_useful[sources[i]] = TRUE;
            g_array_append_val (pending, sources[i]);
          }
    }
  g_free (first);
  g_free (sources);
  return is_useful;
}

void
llm_automaton_trim (LlmAutomaton *self)
{
  g_autofree guint8 *is_useful = find_useful (self);
  g_autofree guint32 *places = g_new (guint32, self->n_states);
  guint n = 0;
  guint n_calls = 0;

  for (guint state = 0; state < self->n_states; state++)
    places[state] = is_useful[state] ? n++ : LLM_DEAD;
  /* without its start, it accepts nothing */
  if (self->n_states > 0 && !is_useful[0])
    n = 0;
  for (guint state = 0; state < self->n_states && n > 0; state++)
    {
      guint32 place = places[state];
      guint first = self->first_calls[state];

      if (place == LLM_DEAD)
        continue;
      for (guint class = 0; class < self->n_classes; class++)
        {
          guint32 next = self->next[(gsize) state * self->n_classes + class];

          self->next[(gsize) place * self->n_classes + class] =
            next != LLM_DEAD ? places[next] : LLM_DEAD;
        }
      self->is_final[place] = self->is_final[state];
      self->first_calls[place] = n_calls;
      for (guint i = first; i < self->first_calls[state + 1]; i++)
        {
          LlmRuleCall call = g_array_index (self->calls, LlmRuleCall, i);

          call.target = places[call.target];
          if (call.target != LLM_DEAD)
            g_array_index (self->calls, LlmRuleCall, n_calls++) = call;
        }
    }
  self->n_states = n;
  if (self->first_calls != NULL)
    self->first_calls[n] = n_calls;
  g_array_set_size (self->calls, n_calls);
}

/* --- pairs --- */

typedef struct
{
  const LlmAutomaton *a;
  const LlmAutomaton *b;
  LlmCombine how;
  GHashTable *ids;       /* pair → id + 1 */
  GArray *pairs;         /* (element-type guint64) by id */
} Product;

/* G_MAXUINT32 for a state of either that is none. */
static guint32
find_pair (Product *self,
           guint32  a,
           guint32  b)
{
  guint64 pair = (guint64) a << 32 | b;
  gpointer found;
  guint64 *key;

  if (a == LLM_DEAD && (self->how != LLM_COMBINE_OR || b == LLM_DEAD))
    return LLM_DEAD;
  if (b == LLM_DEAD && self->how == LLM_COMBINE_AND)
    return LLM_DEAD;
  found = g_hash_table_lookup (self->ids, &pair);
  if (found != NULL)
    return GPOINTER_TO_UINT (found) - 1;
  key = g_memdup2 (&pair, sizeof pair);
  g_array_append_val (self->pairs, pair);
  g_hash_table_insert (self->ids, key, GUINT_TO_POINTER (self->pairs->len));
  return self->pairs->len - 1;
}

/* Classes of bytes that neither tells apart; @bytes: one of each. */
static void
join_classes (const LlmAutomaton *a,
              const LlmAutomaton *b,
              LlmAutomaton       *joint,
              guint8              bytes[256])
{
  guint n = 0;

  for (guint byte = 0; byte < 256; byte++)
    {
      guint class = 0;

      while (class < n && (a->classes[bytes[class]] != a->classes[byte]
                           || b->classes[bytes[class]] != b->classes[byte]))
        class++;
      if (class == n)
        bytes[n++] = (guint8) byte;
      joint->classes[byte] = (guint8) class;
    }
  joint->n_classes = n;
}

static guint8
is_final_pair (Product *self,
               guint32  a,
               guint32  b)
{
  gboolean in_a = a != LLM_DEAD && self->a->is_final[a];
  gboolean in_b = b != LLM_DEAD && self->b->is_final[b];

  switch (self->how)
    {
    case LLM_COMBINE_AND:
      return in_a && in_b;
    case LLM_COMBINE_OR:
      return in_a || in_b;
    case LLM_COMBINE_WITHOUT:
    default:
      return in_a && !in_b;
    }
}

gint64
llm_automaton_count_bytes (const LlmAutomaton *self)
{
  return (gint64) (sizeof *self + self->n_states * (self->n_classes * sizeof *self->next
                                                    + sizeof *self->is_final
                                                    + sizeof *self->first_calls)
                   + self->calls->len * sizeof (LlmRuleCall));
}

/* GLib's own hash leaves out the upper half of a number: one of both states. */
static guint
hash_pair (gconstpointer data)
{
  const guint64 *pair = data;

  return (guint) (*pair * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15) >> 32);
}

LlmAutomaton *
llm_automaton_combine (const LlmAutomaton *a,
                       const LlmAutomaton *b,
                       LlmCombine          how)
{
  g_autoptr(LlmAutomaton) joint = llm_automaton_new ();
  g_autoptr(GHashTable) ids = g_hash_table_new_full (hash_pair, g_int64_equal, g_free, NULL);
  g_autoptr(GArray) pairs = g_array_new (FALSE, FALSE, sizeof (guint64));
  g_autoptr(GArray) rows = g_array_new (FALSE, FALSE, sizeof (guint32));
  Product product = { a, b, how, ids, pairs };
  gint64 n_bytes = 0, row_bytes;
  guint8 bytes[256];

  g_return_val_if_fail (a->calls->len == 0 && b->calls->len == 0, NULL);

  join_classes (a, b, joint, bytes);
  row_bytes = (gint64) (joint->n_classes * sizeof (guint32)) + PAIR_BYTES;
  find_pair (&product, a->n_states > 0 ? 0 : LLM_DEAD, b->n_states > 0 ? 0 : LLM_DEAD);
  for (guint id = 0; id < pairs->len; id++)
    {
      guint64 pair = g_array_index (pairs, guint64, id);
      guint32 in_a = (guint32) (pair >> 32);
      guint32 in_b = (guint32) pair;

      for (guint class = 0; class < joint->n_classes; class++)
        {
          guint32 next_a = in_a, next_b = in_b, next;

          if (in_a != LLM_DEAD)
            next_a = a->next[(gsize) in_a * a->n_classes + a->classes[bytes[class]]];
          if (in_b != LLM_DEAD)
            next_b = b->next[(gsize) in_b * b->n_classes + b->classes[bytes[class]]];
          next = find_pair (&product, next_a, next_b);
          g_array_append_val (rows, next);
        }
      n_bytes += row_bytes;
      if ((!llm_compile_work_count (joint->n_classes, row_bytes) && id >= MIN_PAIRS)
          || pairs->len > LLM_AUTOMATON_MAX_STATES)
        {
          llm_compile_work_count (0, -n_bytes);
          return NULL;
        }
    }
  joint->n_states = pairs->len;
  joint->is_final = g_new (guint8, pairs->len + 1);
  for (guint id = 0; id < pairs->len; id++)
    {
      guint64 pair = g_array_index (pairs, guint64, id);

      joint->is_final[id] = is_final_pair (&product, (guint32) (pair >> 32), (guint32) pair);
    }
  joint->first_calls = g_new0 (guint32, pairs->len + 1);
  joint->next = (guint32 *) g_array_free (g_steal_pointer (&rows), FALSE);
  llm_automaton_trim (joint);
  llm_compile_work_count (0, llm_automaton_count_bytes (joint) - n_bytes);
  return g_steal_pointer (&joint);
}

gboolean
llm_automaton_accepts (const LlmAutomaton *self,
                       const char         *text,
                       gsize               length)
{
  guint32 state = self->n_states > 0 ? 0 : LLM_DEAD;

  for (gsize i = 0; i < length && state != LLM_DEAD; i++)
    state = self->next[(gsize) state * self->n_classes + self->classes[(guint8) text[i]]];
  return state != LLM_DEAD && self->is_final[state];
}
