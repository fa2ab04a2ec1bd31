/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The arguments of calls that are written as tags or code: keys without quotes, strings without
 * JSON's escapes. */

#include <string.h>

#include "constraints/llm-json-values.h"
#include "constraints/llm-loose-text.h"
#include "constraints/schema/llm-schema-private.h"

static gboolean
may_be_bare (guint8 byte)
{
  return g_ascii_isalnum (byte) || byte >= 0x80 || strchr ("_-.$", byte) != NULL;
}

/* --- what an argument may be --- */

static void
add_kinds (LlmSchema        *self,
           LlmTerm           term,
           LlmArgumentKinds *kinds)
{
  const LlmShape *shape = llm_term_get_shape (self, term);

  if (shape == NULL)
    return;
  kinds->has_strings |= !llm_automaton_is_empty (shape->strings);
  kinds->has_others |= shape->has_null || shape->has_false || shape->has_true
                       || !llm_automaton_is_empty (shape->numbers) || shape->arrays->len > 0
                       || shape->objects->len > 0;
}

LlmArgumentKinds
llm_schema_get_kinds (LlmSchema  *self,
                      GPtrArray  *shapes,
                      const char *key,
                      gsize       length)
{
  LlmArgumentKinds kinds = { key == NULL, key == NULL };

  for (guint i = 0; key != NULL && i < shapes->len; i++)
    add_kinds (self, llm_object_shape_get (g_ptr_array_index (shapes, i), key, length), &kinds);
  return kinds;
}

/* --- keys --- */

gboolean
llm_rules_check_bare_key (LlmRules        *self,
                          const LlmMember *member)
{
  for (gsize i = 0; i < member->length; i++)
    if (!may_be_bare ((guint8) member->key[i]))
      {
        llm_schema_fail (self->schema, NULL,
                         "the model's calls can't have the argument “%s”: they take letters, digits, "
                         "“_”, “-”, “.” and “$”. Rename it", member->key);
        return FALSE;
      }
  return TRUE;
}

LlmAutomaton *
llm_rules_find_bare_keys (LlmRules     *self,
                          LlmAutomaton *keys)
{
  g_autoptr(LlmNfa) nfa = llm_nfa_new ();
  guint start = llm_nfa_add_state (nfa);
  guint end = llm_nfa_add_state (nfa);
  LlmAutomaton *bare;

  /* beyond ASCII a byte may be no character */
  for (guint byte = 0; byte < 0x80; byte++)
    if (byte != 0 && may_be_bare ((guint8) byte))
      {
        llm_nfa_add_bytes (nfa, start, (guint8) byte, (guint8) byte, end);
        llm_nfa_add_bytes (nfa, end, (guint8) byte, (guint8) byte, end);
      }
  bare = llm_schema_own_automaton (self->schema, llm_nfa_determinize (nfa, start, end));
  return bare != NULL ? llm_schema_combine (self->schema, keys, bare, LLM_COMBINE_AND) : NULL;
}

/* --- strings --- */

/* All texts in which @stop is. */
static LlmAutomaton *
make_stopped (const char *stop)
{
  g_autoptr(LlmNfa) nfa = llm_nfa_new ();
  guint start = llm_nfa_add_state (nfa);
  guint end;

  llm_nfa_add_bytes (nfa, start, 0, 255, start);
  end = llm_nfa_add_text (nfa, start, stop, strlen (stop));
  llm_nfa_add_bytes (nfa, end, 0, 255, end);
  return llm_nfa_determinize (nfa, start, end);
}

/* All texts that are read as another value, or as a string in quotes: as
 * llm_arguments_read() does. */
static LlmAutomaton *
make_others (void)
{
  static const char *const words[] = { "true", "false", "null", "True", "False", "None" };
  g_autoptr(LlmNfa) nfa = llm_nfa_new ();
  guint start = llm_nfa_add_state (nfa);
  guint end = llm_nfa_add_state (nfa);
  guint any = llm_nfa_add_state (nfa);
  guint minus = llm_nfa_add_state (nfa);
  guint digits = llm_nfa_add_state (nfa);

  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    llm_nfa_add_empty (nfa, llm_nfa_add_text (nfa, start, words[i], strlen (words[i])), end,
                       LLM_EDGE_FREE);
  for (const char *first = "[{\""; *first != '\0'; first++)
    llm_nfa_add_bytes (nfa, start, (guint8) *first, (guint8) *first, any);
  llm_nfa_add_bytes (nfa, any, 0, 255, any);
  llm_nfa_add_empty (nfa, any, end, LLM_EDGE_FREE);
  llm_nfa_add_bytes (nfa, start, '-', '-', minus);
  llm_nfa_add_empty (nfa, start, minus, LLM_EDGE_FREE);
  llm_nfa_add_bytes (nfa, minus, '0', '9', digits);
  llm_nfa_add_bytes (nfa, digits, '0', '9', digits);
  for (const char *more = "+-.eE"; *more != '\0'; more++)
    llm_nfa_add_bytes (nfa, digits, (guint8) *more, (guint8) *more, digits);
  llm_nfa_add_empty (nfa, digits, end, LLM_EDGE_FREE);
  return llm_nfa_determinize (nfa, start, end);
}

/* Takes both; (transfer full) (nullable) */
static LlmAutomaton *
without (LlmAutomaton *texts,
         LlmAutomaton *others)
{
  LlmAutomaton *left = NULL;

  if (texts != NULL && others != NULL)
    left = llm_automaton_combine (texts, others, LLM_COMBINE_WITHOUT);
  g_clear_pointer (&texts, llm_automaton_unref);
  g_clear_pointer (&others, llm_automaton_unref);
  return left;
}

/* Takes @texts: (transfer full) (nullable) */
static LlmAutomaton *
put_in_quotes (LlmAutomaton *texts,
               const char   *quote)
{
  g_autoptr(LlmAutomaton) inner = without (texts, make_stopped (quote));
  g_autoptr(LlmNfa) nfa = llm_nfa_new ();
  guint start = llm_nfa_add_state (nfa);
  guint open = llm_nfa_add_text (nfa, start, quote, strlen (quote));
  guint close = llm_nfa_add_state (nfa);
  guint end = llm_nfa_add_text (nfa, close, quote, strlen (quote));

  if (inner == NULL)
    return NULL;
  llm_nfa_add_automaton (nfa, open, inner, close);
  return llm_nfa_determinize (nfa, start, end);
}

static LlmAutomaton *
write_strings (const LlmArgumentTexts *texts,
               const LlmAutomaton     *strings,
               gboolean                is_mixed)
{
  gboolean is_python = g_str_equal (texts->quote, "'");
  LlmAutomaton *written = llm_json_strings_to_write (strings, is_python);

  if (is_python)
    return written;
  if (*texts->quote != '\0')
    return put_in_quotes (written, texts->quote);
  written = without (written, make_stopped (texts->stop));
  return is_mixed ? without (written, make_others ()) : written;
}

guint32
llm_rules_find_strings (LlmRules     *self,
                        LlmAutomaton *strings,
                        gboolean      is_mixed)
{
  GHashTable *known = is_mixed ? self->mixed : self->texts;
  gpointer found = g_hash_table_lookup (known, strings);
  LlmAutomaton *written;
  guint32 rule;

  /* while the arguments themselves are written, @texts has none of JSON yet */
  if (found != NULL)
    return GPOINTER_TO_UINT (found) - 1;
  written = write_strings (self->flat != NULL ? self->flat : self->syntax, strings, is_mixed);
  if (written == NULL)
    {
      llm_schema_refuse (self->schema, NULL, "what it asks of strings or numbers is too large");
      return LLM_DEAD;
    }
  rule = llm_grammar_builder_add (self->builder, NULL);
  llm_grammar_builder_set (self->builder, rule, written);
  g_hash_table_insert (known, strings, GUINT_TO_POINTER (rule + 1));
  return rule;
}

LlmAutomaton *
llm_rules_count_strings (LlmRules       *self,
                         const LlmShape *shape)
{
  LlmAutomaton *strings = llm_shape_count_strings (self->schema, shape);

  return strings == NULL && llm_schema_leave_out (self->schema) ? shape->strings : strings;
}

/* --- arguments --- */

void
llm_rules_add_words (LlmNfa         *nfa,
                     const LlmShape *shape,
                     guint           from,
                     guint           to)
{
  const struct
  {
    gboolean has_it;
    const char *word;
  } words[] = { { shape->has_true, "True" }, { shape->has_false, "False" },
                { shape->has_null, "None" } };

  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    if (words[i].has_it)
      llm_nfa_add_empty (nfa, llm_nfa_add_text (nfa, from, words[i].word, strlen (words[i].word)),
                         to, LLM_EDGE_FREE);
}

gboolean
llm_rules_add_argument (LlmRules         *self,
                        LlmNfa           *nfa,
                        guint             from,
                        LlmTerm           term,
                        LlmArgumentKinds  kinds,
                        guint             to)
{
  const LlmArgumentTexts *flat = self->flat;
  const LlmShape *shape = llm_term_get_shape (self->schema, term);
  LlmAutomaton *strings = shape != NULL ? llm_rules_count_strings (self, shape) : NULL;
  gboolean is_told = !g_str_equal (flat->middle, flat->middle_text);

  if (strings == NULL)
    return FALSE;
  if (kinds.has_strings && !self->is_python && !llm_automaton_is_empty (strings))
    {
      guint at = llm_nfa_add_text (nfa, from, flat->middle_text, strlen (flat->middle_text));
      guint32 rule = llm_rules_find_strings (self, strings, kinds.has_others && !is_told);

      if (rule == LLM_DEAD)
        return FALSE;
      llm_nfa_add_call (nfa, at, rule, to);
    }
  /* JSON, which strings may be as well where quotes tell what it is */
  if (kinds.has_others || self->is_python)
    {
      guint at = llm_nfa_add_loose (nfa, from, flat->middle, 0);

      llm_nfa_add_call (nfa, at, llm_rules_find (self, term), to);
      llm_rules_add_words (nfa, shape, at, to);
    }
  return TRUE;
}
