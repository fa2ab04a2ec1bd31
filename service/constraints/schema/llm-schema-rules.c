/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Shapes to rules of a grammar. */

#include <string.h>

#include "constraints/llm-json-values.h"
#include "constraints/schema/llm-schema-private.h"

/* Of all automata. */
#define MAX_STATES LLM_GRAMMAR_MAX_STATES
/* Of a string; more are counted by the grammar, not by states of their own. */
#define MAX_CHARS 255

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

/* A rule for the texts of strings (with quotes) or numbers: the same for the same automaton. */
static gboolean
add_texts (LlmRules     *self,
           LlmNfa       *nfa,
           LlmAutomaton *texts,
           gboolean      are_strings,
           guint         from,
           guint         to)
{
  gpointer found = texts != NULL ? g_hash_table_lookup (self->texts, texts) : NULL;
  LlmAutomaton *written;
  guint32 rule;

  if (texts == NULL || llm_automaton_is_empty (texts))
    return texts != NULL;
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
          llm_schema_refuse (self->schema, NULL, "what it asks of strings or numbers is too large");
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

/* Large counts of characters are the grammar's, if nothing else is asked of strings. */
static gboolean
add_strings (LlmRules       *self,
             LlmNfa         *nfa,
             const LlmShape *shape,
             guint           from,
             guint           to)
{
  const LlmCharCount *chars = &shape->chars;
  gboolean is_large = chars->min > MAX_CHARS || (chars->max != LLM_NO_MAX && chars->max > MAX_CHARS);
  guint close;

  if (!is_large || shape->strings != self->schema->strings || self->syntax != NULL
      || self->is_python)
    return add_texts (self, nfa, llm_rules_count_strings (self, shape), TRUE, from, to);
  close = llm_nfa_add_state (nfa);
  llm_nfa_add_bytes (nfa, close, '"', '"', to);
  return llm_rules_add_counted (self, nfa, llm_nfa_add_text (nfa, from, "\"", 1),
                                self->schema->character, chars->min, chars->max, close);
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

/* (transfer full) (nullable): the texts of the values of @shape. */
static LlmAutomaton *
make_automaton (LlmRules       *self,
                const LlmShape *shape)
{
  g_autoptr(LlmNfa) nfa = llm_nfa_new ();
  guint start = llm_nfa_add_state (nfa);
  guint end = llm_nfa_add_state (nfa);
  LlmAutomaton *automaton;

  add_word (nfa, shape->has_null, "null", start, end);
  add_word (nfa, shape->has_false, "false", start, end);
  add_word (nfa, shape->has_true, "true", start, end);
  if (self->is_python)
    llm_rules_add_words (nfa, shape, start, end);
  if (!add_texts (self, nfa, shape->numbers, FALSE, start, end)
      || !add_strings (self, nfa, shape, start, end))
    return NULL;
  for (guint i = 0; i < shape->arrays->len; i++)
    if (!llm_rules_add_array (self, nfa, g_ptr_array_index (shape->arrays, i), start, end))
      return NULL;
  if (!llm_rules_add_objects (self, nfa, shape->objects, NULL, start, end))
    return NULL;
  automaton = llm_nfa_determinize (nfa, start, end);
  if (automaton == NULL || self->n_states + automaton->n_states > MAX_STATES)
    {
      g_clear_pointer (&automaton, llm_automaton_unref);
      return llm_schema_refuse (self->schema, NULL,
                                "it is too large: its automaton has too many states");
    }
  self->n_states += automaton->n_states;
  return automaton;
}

/* All values of the types that are in @shape. */
static const LlmShape *
find_types (LlmSchema      *self,
            const LlmShape *shape)
{
  LlmShape *types = llm_shape_new_any (self);

  types->has_null = shape->has_null;
  types->has_false = shape->has_false;
  types->has_true = shape->has_true;
  if (llm_automaton_is_empty (shape->numbers))
    types->numbers = self->nothing;
  if (llm_automaton_is_empty (shape->strings))
    types->strings = self->nothing;
  if (shape->arrays->len == 0)
    g_ptr_array_set_size (types->arrays, 0);
  if (shape->objects->len == 0)
    g_ptr_array_set_size (types->objects, 0);
  return types;
}

static gboolean
make_rule (LlmRules *self,
           LlmTerm   term)
{
  const LlmShape *shape = llm_term_get_shape (self->schema, term);
  LlmAutomaton *automaton;

  if (shape == NULL)
    return FALSE;
  self->schema->at = llm_term_get_node (self->schema, term);
  automaton = make_automaton (self, shape);
  if (automaton == NULL && llm_schema_leave_out (self->schema))
    automaton = make_automaton (self, find_types (self->schema, shape));
  if (automaton == NULL)
    return FALSE;
  llm_grammar_builder_set (self->builder, llm_rules_find (self, term), automaton);
  return TRUE;
}

/* (transfer full) (nullable): the objects of @shape as arguments. */
static LlmAutomaton *
make_members (LlmRules       *self,
              const LlmShape *shape)
{
  g_autoptr(LlmNfa) nfa = llm_nfa_new ();
  guint start = llm_nfa_add_state (nfa);
  guint end = llm_nfa_add_state (nfa);
  LlmAutomaton *automaton = NULL;

  if (llm_rules_add_objects (self, nfa, shape->objects, self->flat, start, end))
    automaton = llm_nfa_determinize (nfa, start, end);
  if (automaton == NULL)
    llm_schema_refuse (self->schema, NULL, "it is too large: its automaton has too many states");
  return automaton;
}

/* The arguments of @root as the texts of @rule. */
static gboolean
make_arguments (LlmRules *self,
                LlmTerm   root,
                guint32   rule)
{
  const LlmShape *shape = llm_term_get_shape (self->schema, root);
  LlmAutomaton *automaton;

  if (shape == NULL)
    return FALSE;
  self->schema->at = llm_term_get_node (self->schema, root);
  automaton = make_members (self, shape);
  if (automaton == NULL && llm_schema_leave_out (self->schema))
    automaton = make_members (self, find_types (self->schema, shape));
  /* the values within are JSON */
  g_hash_table_remove_all (self->texts);
  if (automaton == NULL)
    return FALSE;
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
  g_autoptr(GHashTable) counted = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  gboolean is_nested = syntax != NULL && syntax->is_nested;
  LlmRules made = { self, builder, rules, texts, mixed, counted, is_nested ? syntax : NULL,
                    is_nested ? NULL : syntax,
                    syntax != NULL && g_str_equal (syntax->quote, "'"), pending, 0 };

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
      if (!make_rule (&made, g_array_index (pending, LlmTerm, i))
          || builder->automata->len > LLM_GRAMMAR_MAX_RULES)
        {
          llm_schema_fail (self, NULL, "it is too large: it has too many parts");
          return FALSE;
        }
    }
  self->at = NULL;
  if (llm_shape_is_none (llm_term_get_shape (self, root)))
    llm_schema_fail (self, self->emptied, "no text keeps to it: it leaves no value");
  return self->error == NULL;
}
