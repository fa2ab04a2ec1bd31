/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The rules that there are: what all that write rules need of each other's. */

#include "constraints/schema/llm-schema-private.h"

guint32
llm_rules_find (LlmRules *self,
                LlmTerm   term)
{
  gpointer found = g_hash_table_lookup (self->rules, GUINT_TO_POINTER (term));
  guint32 rule;

  if (found != NULL)
    return GPOINTER_TO_UINT (found) - 1;
  rule = llm_grammar_builder_add (self->builder, NULL);
  g_hash_table_insert (self->rules, GUINT_TO_POINTER (term), GUINT_TO_POINTER (rule + 1));
  g_array_append_val (self->pending, term);
  return rule;
}

guint
llm_rules_add_space (LlmNfa *nfa,
                     guint   from)
{
  guint to = llm_nfa_add_state (nfa);

  llm_nfa_add_bytes (nfa, from, ' ', ' ', to);
  llm_nfa_add_empty (nfa, from, to, LLM_EDGE_FREE);
  return to;
}
