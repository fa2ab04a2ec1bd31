/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Counts that are too large for a state each. A number is written in digits of base BASE, and a
 * rule counts one digit: “exactly BASE^power units” is BASE calls of the rule below it, “fewer than
 * BASE^power” up to BASE - 1 of these and then “fewer than BASE^(power - 1)”. Where a text is in
 * them the grammar's stack says. Each count is written in one way, so that few of them are followed
 * at once.
 */

#include "constraints/schema/llm-schema-private.h"

#define BASE 256u
#define MAX_DIGITS 4

/* @n units one behind the other; from each of them (@end is not LLM_DEAD) the count may end
 * there. */
static guint
add_units (LlmNfa       *nfa,
           guint         from,
           LlmAutomaton *unit,
           guint         n,
           guint         end)
{
  for (guint i = 0; i < n; i++)
    {
      guint to = llm_nfa_add_state (nfa);

      if (end != LLM_DEAD)
        llm_nfa_add_empty (nfa, from, end, LLM_EDGE_FREE);
      llm_nfa_add_automaton (nfa, from, unit, to);
      from = to;
    }
  return from;
}

/* The rule of exactly BASE^@power units, or of fewer; LLM_DEAD with the error set. @power: from 1
 * on. */
static guint32
find_rule (LlmRules     *self,
           LlmAutomaton *unit,
           guint         power,
           gboolean      is_less)
{
  g_autofree char *key = g_strdup_printf ("%p %u %d", (gpointer) unit, power, is_less);
  gpointer found = g_hash_table_lookup (self->counted, key);
  g_autoptr(LlmNfa) nfa = NULL;
  LlmAutomaton *automaton;
  guint start, at, end;
  guint32 rule, below = LLM_DEAD;

  if (found != NULL)
    return GPOINTER_TO_UINT (found) - 1;
  if (power > 1 && (below = find_rule (self, unit, power - 1, FALSE)) == LLM_DEAD)
    return LLM_DEAD;
  nfa = llm_nfa_new ();
  start = llm_nfa_add_state (nfa);
  end = llm_nfa_add_state (nfa);
  if (power == 1)
    {
      at = add_units (nfa, start, unit, is_less ? BASE - 1 : BASE, is_less ? end : LLM_DEAD);
      llm_nfa_add_empty (nfa, at, end, LLM_EDGE_FREE);
    }
  else
    {
      guint32 less = is_less ? find_rule (self, unit, power - 1, TRUE) : LLM_DEAD;

      if (is_less && less == LLM_DEAD)
        return LLM_DEAD;
      at = start;
      for (guint i = 0; i < (is_less ? BASE - 1 : BASE); i++)
        {
          guint to = llm_nfa_add_state (nfa);

          if (is_less)
            llm_nfa_add_call (nfa, at, less, end);
          llm_nfa_add_call (nfa, at, below, to);
          at = to;
        }
      if (is_less)
        llm_nfa_add_call (nfa, at, less, end);
      else
        llm_nfa_add_empty (nfa, at, end, LLM_EDGE_FREE);
    }
  automaton = llm_nfa_determinize (nfa, start, end);
  if (automaton == NULL)
    {
      llm_schema_refuse (self->schema, NULL, "counts of such values are not supported: they are too "
                                             "large");
      return LLM_DEAD;
    }
  rule = llm_grammar_builder_add (self->builder, NULL);
  llm_grammar_builder_set (self->builder, rule, automaton);
  g_hash_table_insert (self->counted, g_steal_pointer (&key), GUINT_TO_POINTER (rule + 1));
  return rule;
}

/* @n units, or (@end is not LLM_DEAD) up to @n, which end there; the state behind @n; LLM_DEAD with
 * the error set. */
static guint
add_digits (LlmRules     *self,
            LlmNfa       *nfa,
            guint         from,
            LlmAutomaton *unit,
            guint         n,
            guint         end)
{
  for (guint power = MAX_DIGITS - 1; power > 0; power--)
    for (guint digit = n >> 8 * power & (BASE - 1); digit > 0; digit--)
      {
        guint32 exact = find_rule (self, unit, power, FALSE);
        guint32 less = end != LLM_DEAD ? find_rule (self, unit, power, TRUE) : 0;
        guint to = llm_nfa_add_state (nfa);

        if (exact == LLM_DEAD || less == LLM_DEAD)
          return LLM_DEAD;
        if (end != LLM_DEAD)
          llm_nfa_add_call (nfa, from, less, end);
        llm_nfa_add_call (nfa, from, exact, to);
        from = to;
      }
  return add_units (nfa, from, unit, n & (BASE - 1), end);
}

gboolean
llm_rules_add_counted (LlmRules     *self,
                       LlmNfa       *nfa,
                       guint         from,
                       LlmAutomaton *unit,
                       guint         min,
                       guint         max,
                       guint         to)
{
  from = add_digits (self, nfa, from, unit, min, LLM_DEAD);
  if (from == LLM_DEAD)
    return FALSE;
  if (max == LLM_NO_MAX)
    {
      guint loop = llm_nfa_add_state (nfa);

      llm_nfa_add_empty (nfa, from, loop, LLM_EDGE_FREE);
      llm_nfa_add_automaton (nfa, loop, unit, loop);
      llm_nfa_add_empty (nfa, loop, to, LLM_EDGE_FREE);
      return TRUE;
    }
  from = add_digits (self, nfa, from, unit, max - min, to);
  if (from != LLM_DEAD)
    llm_nfa_add_empty (nfa, from, to, LLM_EDGE_FREE);
  return from != LLM_DEAD;
}
