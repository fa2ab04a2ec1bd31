/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Automata with several next states, and the subset construction (Rabin and Scott, 1959). */

#include "constraints/llm-automaton-private.h"
#include "constraints/llm-compile-work.h"

#include <string.h>

#define MAX_NFA_STATES 2000000u
/* Edges and members of sets looked at; a second or less. */
#define MAX_STEPS 60000000u
/* Finished in any case: less than a millisecond. */
#define MIN_STEPS 20000u
/* Of a set, beside its states: the entries of a table and a list, GBytes. */
#define SET_BYTES 128

typedef struct
{
  guint32 from;
  guint32 to;
  guint8 low;
  guint8 high;
} ByteEdge;

typedef struct
{
  guint32 from;
  guint32 to;
  LlmEdgeKind kind;
} EmptyEdge;

typedef struct
{
  guint32 from;
  guint32 to;
  guint32 rule;
} CallEdge;

LlmNfa *
llm_nfa_new (void)
{
  LlmNfa *self = g_new0 (LlmNfa, 1);

  self->bytes = g_array_new (FALSE, FALSE, sizeof (ByteEdge));
  self->empties = g_array_new (FALSE, FALSE, sizeof (EmptyEdge));
  self->calls = g_array_new (FALSE, FALSE, sizeof (CallEdge));
  return self;
}

void
llm_nfa_free (LlmNfa *self)
{
  g_array_unref (self->bytes);
  g_array_unref (self->empties);
  g_array_unref (self->calls);
  g_free (self);
}

guint
llm_nfa_add_state (LlmNfa *self)
{
  return self->n_states++;
}

void
llm_nfa_add_bytes (LlmNfa *self,
                   guint   from,
                   guint8  low,
                   guint8  high,
                   guint   to)
{
  ByteEdge edge = { from, to, low, high };

  g_array_append_val (self->bytes, edge);
}

void
llm_nfa_add_empty (LlmNfa      *self,
                   guint        from,
                   guint        to,
                   LlmEdgeKind  kind)
{
  EmptyEdge edge = { from, to, kind };

  g_array_append_val (self->empties, edge);
}

void
llm_nfa_add_call (LlmNfa  *self,
                  guint    from,
                  guint32  rule,
                  guint    to)
{
  CallEdge edge = { from, to, rule };

  g_array_append_val (self->calls, edge);
}

guint
llm_nfa_add_text (LlmNfa     *self,
                  guint       from,
                  const char *text,
                  gsize       length)
{
  for (gsize i = 0; i < length; i++)
    {
      guint to = llm_nfa_add_state (self);

      llm_nfa_add_bytes (self, from, (guint8) text[i], (guint8) text[i], to);
      from = to;
    }
  return from;
}

void
llm_nfa_add_automaton (LlmNfa             *self,
                       guint               from,
                       const LlmAutomaton *automaton,
                       guint               to)
{
  guint first = self->n_states;

  self->n_states += automaton->n_states;
  if (automaton->n_states > 0)
    llm_nfa_add_empty (self, from, first, LLM_EDGE_FREE);
  for (guint state = 0; state < automaton->n_states; state++)
    {
      const guint32 *row = automaton->next + (gsize) state * automaton->n_classes;

      for (guint low = 0; low < 256;)
        {
          guint32 next = row[automaton->classes[low]];
          guint high = low;

          while (high < 255 && row[automaton->classes[high + 1]] == next)
            high++;
          if (next != LLM_DEAD)
            llm_nfa_add_bytes (self, first + state, (guint8) low, (guint8) high, first + next);
          low = high + 1;
        }
      for (guint i = automaton->first_calls[state]; i < automaton->first_calls[state + 1]; i++)
        {
          const LlmRuleCall *call = &g_array_index (automaton->calls, LlmRuleCall, i);

          llm_nfa_add_call (self, first + state, call->rule, first + call->target);
        }
      if (automaton->is_final[state])
        llm_nfa_add_empty (self, first + state, to, LLM_EDGE_FREE);
    }
}

/* --- subsets --- */

typedef struct
{
  const LlmNfa *nfa;
  guint end;
  guint32 *first_bytes;  /* [n_states + 1]: edges of a state, in the order of @bytes … */
  guint32 *first_empties;
  guint32 *first_calls;
  ByteEdge *bytes;
  EmptyEdge *empties;
  CallEdge *calls;
  guint32 *marks;        /* [n_states]: the closure that has it */
  guint32 mark;
  GHashTable *ids;       /* GBytes of a sorted set → its id + 1 */
  GPtrArray *sets;       /* (element-type GBytes) by id */
  guint64 n_steps;
  gint64 n_bytes;
} Subsets;

/* Edges in the order of their first states: a counting sort. */
#define SORT_EDGES(Type, array, first, sorted)                                                 \
  G_STMT_START                                                                                 \
  {                                                                                            \
    first = g_new0 (guint32, nfa->n_states + 2);                                               \
    sorted = g_new (Type, (array)->len);                                                       \
    for (guint i = 0; i < (array)->len; i++)                                                   \
      first[g_array_index (array, Type, i).from + 2]++;                                        \
    for (guint i = 2; i < nfa->n_states + 2; i++)                                              \
      first[i] += first[i - 1];                                                                \
    for (guint i = 0; i < (array)->len; i++)                                                   \
      sorted[first[g_array_index (array, Type, i).from + 1]++] = g_array_index (array, Type, i); \
  }                                                                                            \
  G_STMT_END

static void
subsets_init (Subsets      *self,
              const LlmNfa *nfa,
              guint         end)
{
  memset (self, 0, sizeof *self);
  self->nfa = nfa;
  self->end = end;
  SORT_EDGES (ByteEdge, nfa->bytes, self->first_bytes, self->bytes);
  SORT_EDGES (EmptyEdge, nfa->empties, self->first_empties, self->empties);
  SORT_EDGES (CallEdge, nfa->calls, self->first_calls, self->calls);
  self->marks = g_new0 (guint32, nfa->n_states);
  self->ids = g_hash_table_new (g_bytes_hash, g_bytes_equal);
  self->sets = g_ptr_array_new_with_free_func ((GDestroyNotify) g_bytes_unref);
}

static void
subsets_clear (Subsets *self)
{
  g_free (self->first_bytes);
  g_free (self->first_empties);
  g_free (self->first_calls);
  g_free (self->bytes);
  g_free (self->empties);
  g_free (self->calls);
  g_free (self->marks);
  g_hash_table_unref (self->ids);
  g_ptr_array_unref (self->sets);
}

static int
compare_states (gconstpointer a,
                gconstpointer b)
{
  guint32 x = *(const guint32 *) a;
  guint32 y = *(const guint32 *) b;

  return x < y ? -1 : x > y;
}

/* Adds to @set all that empty edges lead to. */
static void
close_set (Subsets  *self,
           GArray   *set,
           gboolean  is_start,
           gboolean  is_end)
{
  guint n = 0;

  self->mark++;
  for (guint i = 0; i < set->len; i++)
    {
      guint32 state = g_array_index (set, guint32, i);

      if (self->marks[state] == self->mark)
        continue;
      self->marks[state] = self->mark;
      g_array_index (set, guint32, n++) = state;
    }
  g_array_set_size (set, n);
  for (guint i = 0; i < set->len; i++)
    {
      guint32 state = g_array_index (set, guint32, i);

      for (guint e = self->first_empties[state]; e < self->first_empties[state + 1]; e++)
        {
          const EmptyEdge *edge = &self->empties[e];

          self->n_steps++;
          if ((edge->kind == LLM_EDGE_AT_START && !is_start)
              || (edge->kind == LLM_EDGE_AT_END && !is_end) || self->marks[edge->to] == self->mark)
            continue;
          self->marks[edge->to] = self->mark;
          g_array_append_val (set, edge->to);
        }
    }
  self->n_steps += set->len;
}

/* The id of a set, which is emptied. @is_start: nothing was read yet. */
static guint32
find_set (Subsets  *self,
          GArray   *set,
          gboolean  is_start)
{
  guint32 id;
  GBytes *key;
  gpointer found;

  close_set (self, set, is_start, FALSE);
  g_array_sort (set, compare_states);
  /* the start is a set of its own: at its end, edges for the start may be taken */
  if (is_start)
    g_array_append_val (set, self->nfa->n_states);
  key = g_bytes_new (set->data, set->len * sizeof (guint32));
  g_array_set_size (set, 0);
  found = g_hash_table_lookup (self->ids, key);
  if (found != NULL)
    {
      g_bytes_unref (key);
      return GPOINTER_TO_UINT (found) - 1;
    }
  id = self->sets->len;
  self->n_bytes += (gint64) g_bytes_get_size (key) + SET_BYTES;
  g_ptr_array_add (self->sets, key);
  g_hash_table_insert (self->ids, key, GUINT_TO_POINTER (id + 1));
  return id;
}

static void
find_classes (const LlmNfa *nfa,
              LlmAutomaton *automaton)
{
  guint8 is_border[257] = { 1 };
  guint class = 0;

  for (guint i = 0; i < nfa->bytes->len; i++)
    {
      const ByteEdge *edge = &g_array_index (nfa->bytes, ByteEdge, i);

      is_border[edge->low] = 1;
      is_border[edge->high + 1] = 1;
    }
  for (guint byte = 0; byte < 256; byte++)
    {
      class += byte > 0 && is_border[byte];
      automaton->classes[byte] = (guint8) class;
    }
  automaton->n_classes = class + 1;
}

static gboolean
is_final_set (Subsets       *self,
              const guint32 *states,
              gsize          n,
              gboolean       is_start,
              GArray        *scratch)
{
  gboolean found = FALSE;

  g_array_append_vals (scratch, states, (guint) n);
  close_set (self, scratch, is_start, TRUE);
  for (guint i = 0; i < scratch->len && !found; i++)
    found = g_array_index (scratch, guint32, i) == self->end;
  g_array_set_size (scratch, 0);
  return found;
}

static void
add_calls (Subsets       *self,
           LlmAutomaton  *automaton,
           const guint32 *states,
           gsize          n,
           GArray        *scratch)
{
  guint first = automaton->calls->len;

  for (gsize i = 0; i < n; i++)
    for (guint e = self->first_calls[states[i]]; e < self->first_calls[states[i] + 1]; e++)
      {
        const CallEdge *edge = &self->calls[e];
        LlmRuleCall call = { edge->rule, 0 };
        gboolean is_known = FALSE;

        for (guint k = first; k < automaton->calls->len && !is_known; k++)
          is_known = g_array_index (automaton->calls, LlmRuleCall, k).rule == edge->rule;
        if (is_known)
          continue;
        /* all calls of this rule go on with one set */
        for (gsize k = i; k < n; k++)
          for (guint f = self->first_calls[states[k]]; f < self->first_calls[states[k] + 1]; f++)
            if (self->calls[f].rule == edge->rule)
              g_array_append_val (scratch, self->calls[f].to);
        self->n_steps += n;
        call.target = find_set (self, scratch, FALSE);
        g_array_append_val (automaton->calls, call);
      }
}

/* The next states of set @id. */
static void
add_rows (Subsets      *self,
          LlmAutomaton *automaton,
          guint         id,
          GArray       *rows,
          GArray       *targets[256],
          GArray       *scratch)
{
  gsize size;
  GBytes *set = g_bytes_ref (g_ptr_array_index (self->sets, id));
  const guint32 *states = g_bytes_get_data (set, &size);
  gsize n = size / sizeof (guint32);
  gboolean is_start = n > 0 && states[n - 1] == self->nfa->n_states;
  guint8 is_final;

  n -= is_start;
  for (gsize i = 0; i < n; i++)
    for (guint e = self->first_bytes[states[i]]; e < self->first_bytes[states[i] + 1]; e++)
      {
        const ByteEdge *edge = &self->bytes[e];

        for (guint class = automaton->classes[edge->low]; class <= automaton->classes[edge->high];
             class++)
          g_array_append_val (targets[class], edge->to);
        self->n_steps += automaton->classes[edge->high] - automaton->classes[edge->low] + 1u;
      }
  for (guint class = 0; class < automaton->n_classes; class++)
    {
      guint32 next = LLM_DEAD;

      /* neighbours often lead to the same */
      if (class > 0 && targets[class]->len > 0 && targets[class]->len == targets[class - 1]->len
          && memcmp (targets[class]->data, targets[class - 1]->data,
                     targets[class]->len * sizeof (guint32)) == 0)
        next = g_array_index (rows, guint32, rows->len - 1);
      else if (targets[class]->len > 0)
        {
          g_array_append_vals (scratch, targets[class]->data, targets[class]->len);
          next = find_set (self, scratch, FALSE);
        }
      g_array_append_val (rows, next);
    }
  for (guint class = 0; class < automaton->n_classes; class++)
    g_array_set_size (targets[class], 0);
  add_calls (self, automaton, states, n, scratch);
  is_final = is_final_set (self, states, n, is_start, scratch);
  automaton->is_final = g_renew (guint8, automaton->is_final, id + 1);
  automaton->is_final[id] = is_final;
  automaton->first_calls = g_renew (guint32, automaton->first_calls, id + 2);
  automaton->first_calls[id + 1] = automaton->calls->len;
  g_bytes_unref (set);
}

LlmAutomaton *
llm_nfa_determinize (const LlmNfa *self,
                     guint         start,
                     guint         end)
{
  g_autoptr(LlmAutomaton) automaton = llm_automaton_new ();
  g_autoptr(GArray) rows = g_array_new (FALSE, FALSE, sizeof (guint32));
  g_autoptr(GArray) scratch = g_array_new (FALSE, FALSE, sizeof (guint32));
  GArray *targets[256] = { NULL };
  gboolean is_within = TRUE;
  const gint64 nfa_bytes = 2 * ((gint64) (self->bytes->len * sizeof (ByteEdge))
                                + (gint64) (self->empties->len * sizeof (EmptyEdge))
                                + (gint64) (self->calls->len * sizeof (CallEdge)))
                           + (gint64) self->n_states * 16;
  gint64 n_bytes = 0;
  guint64 n_steps = 0;
  Subsets subsets;

  if (self->n_states > MAX_NFA_STATES)
    return NULL;
  if (!llm_compile_work_count (self->n_states, nfa_bytes) && self->n_states > MIN_STEPS)
    {
      llm_compile_work_count (0, -nfa_bytes);
      return NULL;
    }
  subsets_init (&subsets, self, end);
  find_classes (self, automaton);
  for (guint class = 0; class < automaton->n_classes; class++)
    targets[class] = g_array_new (FALSE, FALSE, sizeof (guint32));
  g_array_append_val (scratch, start);
  find_set (&subsets, scratch, TRUE);
  automaton->first_calls = g_new0 (guint32, 1);
  for (guint id = 0; id < subsets.sets->len && is_within; id++)
    {
      add_rows (&subsets, automaton, id, rows, targets, scratch);
      is_within = subsets.sets->len <= LLM_AUTOMATON_MAX_STATES && subsets.n_steps <= MAX_STEPS;
      subsets.n_bytes += (gint64) automaton->n_classes * (gint64) sizeof (guint32);
      if (!llm_compile_work_count (subsets.n_steps - n_steps + automaton->n_classes,
                                   subsets.n_bytes - n_bytes))
        is_within &= subsets.n_steps <= MIN_STEPS;
      n_steps = subsets.n_steps;
      n_bytes = subsets.n_bytes;
    }
  automaton->n_states = subsets.sets->len;
  automaton->next = (guint32 *) g_array_free (g_steal_pointer (&rows), FALSE);
  for (guint class = 0; class < automaton->n_classes; class++)
    g_array_unref (targets[class]);
  subsets_clear (&subsets);
  llm_compile_work_count (0, -n_bytes - nfa_bytes);
  if (!is_within)
    {
      automaton->n_states = 0;
      return NULL;
    }
  llm_automaton_trim (automaton);
  llm_compile_work_count (0, llm_automaton_count_bytes (automaton));
  return g_steal_pointer (&automaton);
}
