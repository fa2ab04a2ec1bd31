/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "constraints/llm-grammar.h"

#include <string.h>

#include "base/llm-fail.h"

/* Of states, in one round after the other: a second or less. */
#define MAX_VISITS 20000000u

LlmGrammarBuilder *
llm_grammar_builder_new (void)
{
  LlmGrammarBuilder *self = g_new0 (LlmGrammarBuilder, 1);

  self->automata = g_ptr_array_new ();
  self->names = g_ptr_array_new_with_free_func (g_free);
  return self;
}

void
llm_grammar_builder_free (LlmGrammarBuilder *self)
{
  for (guint i = 0; i < self->automata->len; i++)
    g_clear_pointer ((LlmAutomaton **) &self->automata->pdata[i], llm_automaton_unref);
  g_ptr_array_unref (self->automata);
  g_ptr_array_unref (self->names);
  g_free (self);
}

guint32
llm_grammar_builder_add (LlmGrammarBuilder *self,
                         const char        *name)
{
  g_ptr_array_add (self->automata, NULL);
  g_ptr_array_add (self->names, g_strdup (name));
  return self->automata->len - 1;
}

void
llm_grammar_builder_set (LlmGrammarBuilder *self,
                         guint32            rule,
                         LlmAutomaton      *automaton)
{
  g_clear_pointer ((LlmAutomaton **) &self->automata->pdata[rule], llm_automaton_unref);
  self->automata->pdata[rule] = automaton;
}

LlmGrammar *
llm_grammar_ref (LlmGrammar *self)
{
  g_atomic_ref_count_inc (&self->ref_count);
  return self;
}

void
llm_grammar_unref (LlmGrammar *self)
{
  if (!g_atomic_ref_count_dec (&self->ref_count))
    return;
  g_ptr_array_unref (self->automata);
  g_clear_pointer (&self->kinds, g_hash_table_unref);
  g_strfreev (self->unheld);
  g_free (self->states);
  g_free (self->calls);
  g_free (self->rules);
  g_free (self->next);
  g_free (self);
}

void
llm_grammar_set_unheld (LlmGrammar *self,
                        GPtrArray  *unheld)
{
  g_strfreev (self->unheld);
  self->unheld = NULL;
  if (unheld->len == 0)
    return;
  self->unheld = g_new0 (char *, unheld->len + 1);
  for (guint i = 0; i < unheld->len; i++)
    self->unheld[i] = g_strdup (g_ptr_array_index (unheld, i));
}

/* --- laid out flat --- */

static gboolean
check_size (LlmGrammarBuilder *builder,
            gsize             *n_states,
            gsize             *n_next,
            gsize             *n_calls,
            GError           **error)
{
  *n_states = *n_next = *n_calls = 0;
  for (guint i = 0; i < builder->automata->len; i++)
    {
      const LlmAutomaton *automaton = g_ptr_array_index (builder->automata, i);

      *n_states += automaton->n_states + 1; /* an empty one has a state, too */
      *n_next += (gsize) (automaton->n_states + 1) * MAX (automaton->n_classes, 1);
      *n_calls += automaton->calls->len;
    }
  if (builder->automata->len > LLM_GRAMMAR_MAX_RULES || *n_states > LLM_GRAMMAR_MAX_STATES)
    return llm_fail (error, LLMSVC_ERROR_INVALID_OPTION,
                     "it is too large: %u rules and %zu states, of at most %u and %u",
                     builder->automata->len, *n_states, LLM_GRAMMAR_MAX_RULES,
                     LLM_GRAMMAR_MAX_STATES);
  return TRUE;
}

static void
lay_out_rule (LlmGrammar         *self,
              guint               rule,
              const LlmAutomaton *automaton,
              gsize              *n_calls)
{
  guint first = self->rules[rule].first;
  guint n_classes = MAX (automaton->n_classes, 1);

  self->rules[rule].classes = automaton->classes;
  for (guint i = 0; i < MAX (automaton->n_states, 1); i++)
    {
      LlmGrammarState *state = &self->states[first + i];

      *state = (LlmGrammarState) { .row = self->n_next, .rule = rule, .min_bytes = LLM_NO_WAY,
                                   .first_call = (guint32) *n_calls };
      self->n_next += n_classes;
      for (guint class = 0; class < n_classes; class++)
        {
          guint32 next = i < automaton->n_states
                           ? automaton->next[(gsize) i * n_classes + class]
                           : LLM_DEAD;

          self->next[state->row + class] = next != LLM_DEAD ? first + next : LLM_DEAD;
        }
      if (i >= automaton->n_states)
        continue;
      state->is_final = automaton->is_final[i];
      for (guint c = automaton->first_calls[i]; c < automaton->first_calls[i + 1]; c++)
        {
          const LlmRuleCall *call = &g_array_index (automaton->calls, LlmRuleCall, c);

          self->calls[(*n_calls)++] =
            (LlmGrammarCall) { self->rules[call->rule].first, first + call->target, FALSE };
          state->n_calls++;
        }
    }
}

/* --- the shortest text from each state --- */

/* What goes round all states until nothing changes goes round so often at most. */
static guint
get_max_passes (const LlmGrammar *self)
{
  return MAX_VISITS / self->n_states + 2;
}

static guint32
add_bytes (guint32 a,
           guint32 b)
{
  return a == LLM_NO_WAY || b == LLM_NO_WAY || a > LLM_NO_WAY - 1 - b ? LLM_NO_WAY : a + b;
}

static guint32
find_min_bytes (const LlmGrammar *self,
                guint32           id,
                guint             n_classes)
{
  const LlmGrammarState *state = &self->states[id];
  guint32 min = state->is_final ? 0 : LLM_NO_WAY;

  for (guint class = 0; class < n_classes && min > 1; class++)
    {
      guint32 next = self->next[state->row + class];

      if (next != LLM_DEAD)
        min = MIN (min, add_bytes (1, self->states[next].min_bytes));
    }
  for (guint i = 0; i < state->n_calls; i++)
    {
      const LlmGrammarCall *call = &self->calls[state->first_call + i];

      min = MIN (min, add_bytes (self->states[call->start].min_bytes,
                                 self->states[call->target].min_bytes));
    }
  return min;
}

/* Over all states, back and forth until nothing gets shorter: in automata, targets mostly lie
 * behind. FALSE: that takes too long. */
static gboolean
set_min_bytes (LlmGrammar *self)
{
  gboolean has_changed = TRUE;
  guint n_passes;

  for (n_passes = 0; has_changed && n_passes < get_max_passes (self); n_passes++)
    {
      has_changed = FALSE;
      for (guint i = 0; i < self->n_states; i++)
        {
          guint32 id = n_passes % 2 == 0 ? self->n_states - 1 - i : i;
          const LlmAutomaton *automaton =
            g_ptr_array_index (self->automata, self->states[id].rule);
          guint32 min = find_min_bytes (self, id, MAX (automaton->n_classes, 1));

          has_changed |= min < self->states[id].min_bytes;
          self->states[id].min_bytes = MIN (min, self->states[id].min_bytes);
        }
    }
  return !has_changed;
}

/* Forgets ways to states from which no end can be reached. */
static void
cut_dead_ends (LlmGrammar *self)
{
  for (guint32 id = 0; id < self->n_states; id++)
    {
      LlmGrammarState *state = &self->states[id];
      const LlmAutomaton *automaton = g_ptr_array_index (self->automata, state->rule);
      guint n = 0;

      for (guint class = 0; class < MAX (automaton->n_classes, 1); class++)
        {
          guint32 *next = &self->next[state->row + class];

          if (*next != LLM_DEAD && self->states[*next].min_bytes == LLM_NO_WAY)
            *next = LLM_DEAD;
          state->has_bytes |= *next != LLM_DEAD;
        }
      for (guint i = 0; i < state->n_calls; i++)
        {
          LlmGrammarCall call = self->calls[state->first_call + i];

          if (self->states[call.start].min_bytes != LLM_NO_WAY
              && self->states[call.target].min_bytes != LLM_NO_WAY)
            self->calls[state->first_call + n++] = call;
        }
      state->n_calls = (guint16) n;
    }
  for (guint32 id = 0; id < self->n_states; id++)
    for (guint i = 0; i < self->states[id].n_calls; i++)
      {
        LlmGrammarCall *call = &self->calls[self->states[id].first_call + i];
        const LlmGrammarState *target = &self->states[call->target];

        call->is_last = target->is_final && !target->has_bytes && target->n_calls == 0;
      }
}

/* --- what begins with itself --- */

typedef struct
{
  LlmGrammar *grammar;
  guint8 *marks;         /* [n_rules]: 0 not seen, 1 being looked at, 2 done */
  GArray *pending;          /* (element-type Visit) */
} Search;

typedef struct
{
  guint32 rule;
  GArray *states;        /* (owned): of the rule, that are reached without a byte */
  guint at;              /* of these */
  guint call;            /* of that one */
} Visit;

static void
add_visit (Search  *self,
           guint32  rule)
{
  Visit visit = { rule, g_array_new (FALSE, FALSE, sizeof (guint32)), 0, 0 };

  self->marks[rule] = 1;
  g_array_append_val (visit.states, self->grammar->rules[rule].first);
  g_array_append_val (self->pending, visit);
}

static void
add_state_once (GArray  *states,
                guint32  state)
{
  for (guint i = 0; i < states->len; i++)
    if (g_array_index (states, guint32, i) == state)
      return;
  g_array_append_val (states, state);
}

/* The rule that begins with itself, or LLM_DEAD. Depth first, without recursion. */
static guint32
find_left_recursion (LlmGrammar *grammar)
{
  g_autofree guint8 *marks = g_new0 (guint8, grammar->n_rules);
  g_autoptr(GArray) pending = g_array_new (FALSE, FALSE, sizeof (Visit));
  Search search = { grammar, marks, pending };
  guint32 found = LLM_DEAD;

  for (guint32 rule = 0; rule < grammar->n_rules && found == LLM_DEAD; rule++)
    {
      if (marks[rule] != 0)
        continue;
      add_visit (&search, rule);
      while (pending->len > 0 && found == LLM_DEAD)
        {
          Visit *visit = &g_array_index (pending, Visit, pending->len - 1);
          const LlmGrammarState *state;
          const LlmGrammarCall *call;
          guint32 called;

          if (visit->at == visit->states->len)
            {
              marks[visit->rule] = 2;
              g_array_unref (visit->states);
              g_array_set_size (pending, pending->len - 1);
              continue;
            }
          state = &grammar->states[g_array_index (visit->states, guint32, visit->at)];
          if (visit->call == state->n_calls)
            {
              visit->at++;
              visit->call = 0;
              continue;
            }
          call = &grammar->calls[state->first_call + visit->call++];
          called = grammar->states[call->start].rule;
          if (grammar->states[call->start].min_bytes == 0)
            add_state_once (visit->states, call->target);
          if (marks[called] == 1)
            found = called;
          else if (marks[called] == 0)
            add_visit (&search, called);
        }
    }
  for (guint i = 0; i < pending->len; i++)
    g_array_unref (g_array_index (pending, Visit, i).states);
  return found;
}

/* --- what has too many beginnings --- */

static void
add_way (guint32 *ways,
         guint   *n_ways,
         guint32 *stamps,
         guint32  stamp,
         guint32  state)
{
  if (stamps[state] == stamp || *n_ways == LLM_MAX_THREADS)
    return;
  stamps[state] = stamp;
  ways[(*n_ways)++] = state;
}

/* The rule of a state behind which LLM_MAX_THREADS states and more, its own and those of rules that
 * are called, lie before the next byte: no text would get through them. LLM_DEAD where there is
 * none, or finding it takes too long: this is to tell early. */
static guint32
find_wide_rule (const LlmGrammar *self)
{
  g_autofree guint32 *stamps = g_new0 (guint32, self->n_states);
  guint32 ways[LLM_MAX_THREADS];
  guint n_visits = 0;

  for (guint32 id = 0; id < self->n_states && n_visits < MAX_VISITS; id++)
    {
      guint n_ways = 0;

      add_way (ways, &n_ways, stamps, id + 1, id);
      for (guint i = 0; i < n_ways; i++, n_visits++)
        {
          const LlmGrammarState *state = &self->states[ways[i]];

          for (guint c = 0; c < state->n_calls; c++)
            {
              const LlmGrammarCall *call = &self->calls[state->first_call + c];

              add_way (ways, &n_ways, stamps, id + 1, call->start);
              if (self->states[call->start].min_bytes == 0)
                add_way (ways, &n_ways, stamps, id + 1, call->target);
            }
        }
      if (n_ways == LLM_MAX_THREADS)
        return self->states[id].rule;
    }
  return LLM_DEAD;
}

/* --- bytes that may come behind a rule --- */

typedef struct
{
  guint32 bits[8];
} ByteSet;

static gboolean
add_set (guint32       *to,
         const guint32 *from)
{
  gboolean has_changed = FALSE;

  for (guint i = 0; i < 8; i++)
    {
      has_changed |= (from[i] & ~to[i]) != 0;
      to[i] |= from[i];
    }
  return has_changed;
}

/* [n_states]: bytes that may come first from a state on, within its rule. All of them where it
 * takes too long to find out: these sets only save time later. */
static ByteSet *
find_firsts (LlmGrammar *self)
{
  ByteSet *firsts = g_new0 (ByteSet, self->n_states);
  gboolean has_changed = TRUE;

  for (guint32 id = 0; id < self->n_states; id++)
    for (guint byte = 0; byte < 256; byte++)
      if (llm_grammar_step (self, id, (guint8) byte) != LLM_DEAD)
        firsts[id].bits[byte / 32] |= 1u << byte % 32;
  for (guint n = 0; has_changed && n < get_max_passes (self); n++)
    {
      has_changed = FALSE;
      for (guint32 id = self->n_states; id-- > 0;)
        for (guint i = 0; i < self->states[id].n_calls; i++)
          {
            const LlmGrammarCall *call = &self->calls[self->states[id].first_call + i];

            has_changed |= add_set (firsts[id].bits, firsts[call->start].bits);
            if (self->states[call->start].min_bytes == 0)
              has_changed |= add_set (firsts[id].bits, firsts[call->target].bits);
          }
    }
  if (has_changed)
    memset (firsts, 0xff, self->n_states * sizeof *firsts);
  return firsts;
}

static void
set_follows (LlmGrammar *self)
{
  g_autofree ByteSet *firsts = find_firsts (self);
  gboolean has_changed = TRUE;

  for (guint n = 0; has_changed && n < get_max_passes (self); n++)
    {
      has_changed = FALSE;
      for (guint32 id = 0; id < self->n_states; id++)
        for (guint i = 0; i < self->states[id].n_calls; i++)
          {
            const LlmGrammarCall *call = &self->calls[self->states[id].first_call + i];
            LlmGrammarRule *called = &self->rules[self->states[call->start].rule];

            has_changed |= add_set (called->follow, firsts[call->target].bits);
            if (self->states[call->target].min_bytes == 0)
              has_changed |= add_set (called->follow, self->rules[self->states[id].rule].follow);
          }
    }
  for (guint i = 0; has_changed && i < self->n_rules; i++)
    memset (self->rules[i].follow, 0xff, sizeof self->rules[i].follow);
}

LlmGrammar *
llm_grammar_new (LlmGrammarBuilder *builder,
                 guint32            root,
                 GError           **error)
{
  g_autoptr(LlmGrammar) self = NULL;
  gsize n_states, n_next, n_calls;
  gsize n = 0;
  guint32 recursive, wide;

  if (!check_size (builder, &n_states, &n_next, &n_calls, error))
    return NULL;
  self = g_new0 (LlmGrammar, 1);
  g_atomic_ref_count_init (&self->ref_count);
  self->n_rules = builder->automata->len;
  self->automata =
    g_ptr_array_new_full (self->n_rules, (GDestroyNotify) llm_automaton_unref);
  self->states = g_new0 (LlmGrammarState, n_states);
  self->rules = g_new0 (LlmGrammarRule, self->n_rules);
  self->calls = g_new0 (LlmGrammarCall, n_calls);
  self->next = g_new (guint32, n_next);
  for (guint i = 0; i < self->n_rules; i++)
    {
      LlmAutomaton *automaton = g_ptr_array_index (builder->automata, i);

      g_ptr_array_add (self->automata, llm_automaton_ref (automaton));
      self->rules[i].first = self->n_states;
      self->n_states += MAX (automaton->n_states, 1);
    }
  for (guint i = 0; i < self->n_rules; i++)
    lay_out_rule (self, i, g_ptr_array_index (self->automata, i), &n);
  if (!set_min_bytes (self))
    return llm_fail_null (error, LLMSVC_ERROR_INVALID_OPTION,
                          "it is too large: its rules call each other too deeply");
  cut_dead_ends (self);
  self->start = self->rules[root].first;
  self->min_bytes = self->states[self->start].min_bytes;
  if (self->min_bytes == LLM_NO_WAY)
    return llm_fail_null (error, LLMSVC_ERROR_INVALID_OPTION, "no text keeps to it");
  recursive = find_left_recursion (self);
  if (recursive != LLM_DEAD)
    {
      const char *name = g_ptr_array_index (builder->names, recursive);

      return llm_fail_null (error, LLMSVC_ERROR_INVALID_OPTION,
                            "the rule “%s” begins with itself (left recursion), which is not "
                            "supported", name != NULL ? name : "?");
    }
  wide = find_wide_rule (self);
  if (wide != LLM_DEAD)
    {
      const char *name = g_ptr_array_index (builder->names, wide);

      return llm_fail_null (error, LLMSVC_ERROR_INVALID_OPTION,
                            "in the rule “%s” a text may go on in %u ways or more, through the rules "
                            "that it calls, of at most %u", name != NULL ? name : "?",
                            LLM_MAX_THREADS, LLM_MAX_THREADS - 1);
    }
  set_follows (self);
  return g_steal_pointer (&self);
}
