/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "constraints/llm-alike-states.h"

#include <string.h>

/* Ways that are compared in all. */
#define MAX_VISITS 20000000u

typedef struct
{
  const LlmGrammar *grammar;
  const guint32 *before; /* [n_states]: what is alike for texts of one byte less */
  guint32 *table;        /* (owned) [1 << bits]: a state of each kind, or LLM_DEAD */
  guint bits;
} Round;

static guint
get_n_classes (const LlmGrammar *grammar,
               guint32           state)
{
  const LlmAutomaton *automaton =
    g_ptr_array_index (grammar->automata, grammar->states[state].rule);

  return MAX (automaton->n_classes, 1);
}

static guint32
get_before (const Round *round,
            guint32      next)
{
  return next != LLM_DEAD ? round->before[next] : LLM_DEAD;
}

static guint32
hash_state (const Round *round,
            guint32      id)
{
  const LlmGrammarState *state = &round->grammar->states[id];
  guint n = get_n_classes (round->grammar, id);
  guint64 hash = state->rule * 2u + state->is_final;

  for (guint i = 0; i < n; i++)
    hash = (hash ^ get_before (round, round->grammar->next[state->row + i]))
           * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15);
  for (guint i = 0; i < state->n_calls; i++)
    hash = (hash ^ round->grammar->calls[state->first_call + i].target)
           * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15);
  return (guint32) (hash >> 32) >> (32 - round->bits);
}

/* What is called takes no byte: there, the states themselves are compared. */
static gboolean
are_alike (const Round *round,
           guint32      a,
           guint32      b)
{
  const LlmGrammar *grammar = round->grammar;
  const LlmGrammarState *x = &grammar->states[a];
  const LlmGrammarState *y = &grammar->states[b];
  guint n = get_n_classes (grammar, a);

  if (x->rule != y->rule || x->is_final != y->is_final || x->n_calls != y->n_calls)
    return FALSE;
  for (guint i = 0; i < n; i++)
    if (get_before (round, grammar->next[x->row + i])
        != get_before (round, grammar->next[y->row + i]))
      return FALSE;
  for (guint i = 0; i < x->n_calls; i++)
    if (grammar->calls[x->first_call + i].start != grammar->calls[y->first_call + i].start
        || grammar->calls[x->first_call + i].target != grammar->calls[y->first_call + i].target)
      return FALSE;
  return TRUE;
}

/* Fills @ids from what the round knows. Returns how many there are. */
static guint
refine (Round   *round,
        guint32 *ids)
{
  guint n_states = round->grammar->n_states;
  guint32 mask = (1u << round->bits) - 1;
  guint n = 0;

  memset (round->table, 0xff, sizeof (guint32) << round->bits);
  for (guint32 id = 0; id < n_states; id++)
    {
      guint32 at = hash_state (round, id);

      while (round->table[at] != LLM_DEAD && !are_alike (round, id, round->table[at]))
        at = (at + 1) & mask;
      if (round->table[at] == LLM_DEAD)
        {
          round->table[at] = id;
          ids[id] = n++;
        }
      else
        {
          ids[id] = ids[round->table[at]];
        }
    }
  return n;
}

void
llm_alike_states_find (const LlmGrammar *grammar,
                       const guint      *lengths,
                       guint             n,
                       LlmAlikeStates   *alike)
{
  g_autofree guint32 *ids = g_new (guint32, grammar->n_states);
  g_autofree guint32 *before = g_new (guint32, grammar->n_states);
  guint bits = g_bit_storage (grammar->n_states) + 1;
  g_autofree guint32 *table = g_new (guint32, 1u << bits);
  guint max_rounds = (guint) (MAX_VISITS / MAX (grammar->n_next, 1));
  guint n_before = grammar->n_rules;
  guint n_ids = n_before;
  guint n_rounds = 0;
  gboolean is_stable = FALSE;

  for (guint32 id = 0; id < grammar->n_states; id++)
    ids[id] = grammar->states[id].rule;
  for (guint i = 0; i < n; i++)
    {
      while (!is_stable && n_rounds < MIN (lengths[i], max_rounds))
        {
          Round round = { grammar, before, table, bits };
          guint32 *swapped = before;

          before = ids;
          ids = swapped;
          round.before = before;
          n_before = n_ids;
          n_ids = refine (&round, ids);
          n_rounds++;
          is_stable = n_ids == n_before;
        }
      if (is_stable || n_rounds == lengths[i])
        {
          alike[i].ids = g_memdup2 (ids, grammar->n_states * sizeof *ids);
          alike[i].n_ids = n_ids;
          continue;
        }
      alike[i].ids = g_new (guint32, grammar->n_states);
      alike[i].n_ids = grammar->n_states;
      for (guint32 id = 0; id < grammar->n_states; id++)
        alike[i].ids[id] = id;
    }
}
