/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Shapes to rules of a grammar. */

#include <string.h>

#include "base/llm-fail.h"
#include "constraints/llm-json-values.h"
#include "constraints/schema/llm-schema-private.h"

/* Of all automata. */
#define MAX_STATES LLM_GRAMMAR_MAX_STATES

/* A rule for the texts of strings (with quotes) or numbers: the same for the same automaton. */
static gboolean
add_texts (LlmRules     *self,
           LlmNfa       *nfa,
           LlmAutomaton *texts,
           gboolean      are_strings,
           guint         from,
           guint         to)
{
  gpointer found = g_hash_table_lookup (self->texts, texts);
  LlmAutomaton *written;
  guint32 rule;

  if (llm_automaton_is_empty (texts))
    return TRUE;
  if (are_strings && self->syntax != NULL)
    {
      rule = llm_rules_find_strings (self, texts, FALSE);
      if (rule != LLM_DEAD)
        llm_nfa_add_call (nfa, from, rule, to);
      return rule != LLM_DEAD;
    }
  if (found == NULL)
    {
      rule = llm_grammar_builder_add (self->builder, NULL);
      if (are_strings)
        {
          g_autoptr(LlmNfa) quoted = llm_nfa_new ();
          guint start = llm_nfa_add_state (quoted);
          guint open = llm_nfa_add_text (quoted, start, "\"", 1);
          guint close = llm_nfa_add_state (quoted);
          guint end = llm_nfa_add_text (quoted, close, "\"", 1);

          llm_nfa_add_automaton (quoted, open, texts, close);
          written = llm_nfa_determinize (quoted, start, end);
        }
      else
        {
          written = llm_json_numbers_to_write (texts);
        }
      if (written == NULL)
        {
          llm_schema_fail (self->schema, NULL, "what it asks of strings or numbers is too large");
          return FALSE;
        }
      llm_grammar_builder_set (self->builder, rule, written);
      g_hash_table_insert (self->texts, texts, GUINT_TO_POINTER (rule + 1));
      found = GUINT_TO_POINTER (rule + 1);
    }
  llm_nfa_add_call (nfa, from, GPOINTER_TO_UINT (found) - 1, to);
  if (are_strings && self->is_python)
    {
      rule = llm_rules_find_strings (self, texts, TRUE);
      if (rule == LLM_DEAD)
        return FALSE;
      llm_nfa_add_call (nfa, from, rule, to);
    }
  return TRUE;
}

static void
add_word (LlmNfa     *nfa,
          gboolean    has_it,
          const char *word,
          guint       from,
          guint       to)
{
  if (has_it)
    llm_nfa_add_empty (nfa, llm_nfa_add_text (nfa, from, word, strlen (word)), to, LLM_EDGE_FREE);
}

static gboolean
make_rule (LlmRules *self,
           LlmTerm   term,
           guint    *n_states)
{
  const LlmShape *shape = llm_term_get_shape (self->schema, term);
  g_autoptr(LlmNfa) nfa = llm_nfa_new ();
  guint start = llm_nfa_add_state (nfa);
  guint end = llm_nfa_add_state (nfa);
  LlmAutomaton *automaton;

  if (shape == NULL)
    return FALSE;
  self->schema->at = llm_term_get_node (self->schema, term);
  add_word (nfa, shape->has_null, "null", start, end);
  add_word (nfa, shape->has_false, "false", start, end);
  add_word (nfa, shape->has_true, "true", start, end);
  if (self->is_python)
    llm_rules_add_words (nfa, shape, start, end);
  if (!add_texts (self, nfa, shape->numbers, FALSE, start, end)
      || !add_texts (self, nfa, shape->strings, TRUE, start, end))
    return FALSE;
  for (guint i = 0; i < shape->arrays->len; i++)
    if (!llm_rules_add_array (self, nfa, g_ptr_array_index (shape->arrays, i), start, end))
      return FALSE;
  if (!llm_rules_add_objects (self, nfa, shape->objects, NULL, start, end))
    return FALSE;
  automaton = llm_nfa_determinize (nfa, start, end);
  *n_states += automaton != NULL ? automaton->n_states : 0;
  if (automaton == NULL || *n_states > MAX_STATES)
    {
      g_clear_pointer (&automaton, llm_automaton_unref);
      llm_schema_fail (self->schema, NULL, "it is too large: its automaton has too many states");
      return FALSE;
    }
  llm_grammar_builder_set (self->builder, llm_rules_find (self, term), automaton);
  return TRUE;
}

/* The arguments of @root as the texts of @rule. */
static gboolean
make_arguments (LlmRules *self,
                LlmTerm   root,
                guint32   rule)
{
  const LlmShape *shape = llm_term_get_shape (self->schema, root);
  g_autoptr(LlmNfa) nfa = llm_nfa_new ();
  guint start = llm_nfa_add_state (nfa);
  guint end = llm_nfa_add_state (nfa);
  LlmAutomaton *automaton = NULL;

  if (shape == NULL)
    return FALSE;
  self->schema->at = llm_term_get_node (self->schema, root);
  if (llm_rules_add_objects (self, nfa, shape->objects, self->flat, start, end))
    automaton = llm_nfa_determinize (nfa, start, end);
  /* the values within are JSON */
  g_hash_table_remove_all (self->texts);
  if (automaton == NULL)
    {
      llm_schema_fail (self->schema, NULL, "it is too large: its automaton has too many states");
      return FALSE;
    }
  llm_grammar_builder_set (self->builder, rule, automaton);
  return TRUE;
}

gboolean
llm_schema_make_rules (LlmSchema              *self,
                       LlmTerm                 root,
                       LlmGrammarBuilder      *builder,
                       const LlmArgumentTexts *syntax,
                       guint32                *rule)
{
  g_autoptr(GHashTable) rules = g_hash_table_new (NULL, NULL);
  g_autoptr(GHashTable) texts = g_hash_table_new (NULL, NULL);
  g_autoptr(GArray) pending = g_array_new (FALSE, FALSE, sizeof (LlmTerm));
  g_autoptr(GHashTable) mixed = g_hash_table_new (NULL, NULL);
  gboolean is_nested = syntax != NULL && syntax->is_nested;
  LlmRules made = { self, builder, rules, texts, mixed, is_nested ? syntax : NULL,
                    is_nested ? NULL : syntax,
                    syntax != NULL && g_str_equal (syntax->quote, "'"), pending };
  guint n_states = 0;

  if (made.flat != NULL)
    {
      *rule = llm_grammar_builder_add (builder, NULL);
      if (!make_arguments (&made, root, *rule))
        return FALSE;
    }
  else
    {
      *rule = llm_rules_find (&made, root);
    }
  for (guint i = 0; i < pending->len; i++)
    {
      self->at = NULL;
      if (!make_rule (&made, g_array_index (pending, LlmTerm, i), &n_states)
          || builder->automata->len > LLM_GRAMMAR_MAX_RULES)
        {
          llm_schema_fail (self, NULL, "it is too large: it has too many parts");
          return FALSE;
        }
    }
  self->at = NULL;
  return TRUE;
}
