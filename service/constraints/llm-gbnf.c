/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "constraints/llm-gbnf.h"
#include "constraints/llm-compile-work.h"

#include <string.h>

#include "base/llm-fail.h"
#include "constraints/llm-pattern.h"

#define MAX_COUNT 10000
/* Of automata, in all. */
#define MAX_STATES LLM_GRAMMAR_MAX_STATES

typedef struct
{
  const char *at;
  const char *counted;   /* so far, for the line */
  guint line;
  guint depth;
  LlmGrammarBuilder *builder;
  GHashTable *rules;     /* name → id + 1 */
  GPtrArray *patterns;   /* (element-type LlmPattern) (nullable elements): by rule */
  GArray *lines;         /* (element-type guint): where a rule was first named */
  GError **error;
} Reader;

static LlmPattern *read_choice (Reader   *self,
                                gboolean  is_nested);

static guint
get_line (Reader *self)
{
  for (; self->counted < self->at; self->counted++)
    self->line += *self->counted == '\n';
  return self->line;
}

G_GNUC_PRINTF (2, 3)
static gpointer
fail (Reader     *self,
      const char *format,
      ...)
{
  g_autofree char *reason = NULL;
  va_list args;

  va_start (args, format);
  reason = g_strdup_vprintf (format, args);
  va_end (args);
  return llm_fail_null (self->error, LLMSVC_ERROR_INVALID_OPTION, "line %u: %s", get_line (self),
                        reason);
}

/* @newlines: they are nothing but space here. */
static void
skip_space (Reader   *self,
            gboolean  newlines)
{
  for (;;)
    {
      if (*self->at == '#')
        self->at += strcspn (self->at, "\r\n");
      else if (*self->at == ' ' || *self->at == '\t'
               || (newlines && (*self->at == '\n' || *self->at == '\r')))
        self->at++;
      else
        return;
    }
}

/* (nullable): the name here. */
static char *
read_name (Reader *self)
{
  const char *begin = self->at;

  while (g_ascii_isalnum (*self->at) || *self->at == '-' || *self->at == '_')
    self->at++;
  return self->at > begin ? g_strndup (begin, self->at - begin) : NULL;
}

static guint32
find_rule (Reader     *self,
           const char *name)
{
  gpointer found = g_hash_table_lookup (self->rules, name);
  guint32 rule;
  guint line;

  if (found != NULL)
    return GPOINTER_TO_UINT (found) - 1;
  line = get_line (self);
  rule = llm_grammar_builder_add (self->builder, name);
  g_hash_table_insert (self->rules, g_strdup (name), GUINT_TO_POINTER (rule + 1));
  g_ptr_array_add (self->patterns, NULL);
  g_array_append_val (self->lines, line);
  return rule;
}

/* One character of a string or a class. */
static gboolean
read_char (Reader   *self,
           gunichar *c)
{
  static const char letters[] = "n\nr\rt\t\\\\\"\"[[]]-\055";
  guint n_digits;

  if (*self->at == '\0')
    return FALSE;
  if (*self->at != '\\')
    {
      *c = g_utf8_get_char (self->at);
      self->at = g_utf8_next_char (self->at);
      return TRUE;
    }
  self->at++;
  n_digits = *self->at == 'x' ? 2 : *self->at == 'u' ? 4 : *self->at == 'U' ? 8 : 0;
  if (n_digits == 0)
    {
      for (const char *letter = letters; *letter != '\0'; letter += 2)
        if (*letter == *self->at)
          {
            *c = (gunichar) letter[1];
            self->at++;
            return TRUE;
          }
      return FALSE;
    }
  self->at++;
  *c = 0;
  for (guint i = 0; i < n_digits; i++, self->at++)
    {
      int digit = g_ascii_xdigit_value (*self->at);

      if (digit < 0 || *c > 0x10ffff)
        return FALSE;
      *c = *c * 16 + (gunichar) digit;
    }
  return *c <= 0x10ffff;
}

static LlmPattern *
read_string (Reader *self)
{
  g_autoptr(LlmPattern) sequence = llm_pattern_new (LLM_PATTERN_SEQUENCE);
  gunichar c;

  while (*self->at != '"')
    {
      LlmPattern *part;

      if (!read_char (self, &c))
        return fail (self, "a string does not end, or has an escape that is not known");
      part = llm_pattern_new_char (c);
      llm_set_settle (part->set, FALSE);
      g_ptr_array_add (sequence->parts, part);
    }
  self->at++;
  return g_steal_pointer (&sequence);
}

static LlmPattern *
read_class (Reader *self)
{
  g_autoptr(LlmPattern) pattern = llm_pattern_new (LLM_PATTERN_SET);
  gboolean negate = *self->at == '^';
  gunichar low, high;

  self->at += negate;
  while (*self->at != ']')
    {
      if (!read_char (self, &low))
        return fail (self,
                     "a class of characters does not end, or has an escape that is not known");
      high = low;
      if (self->at[0] == '-' && self->at[1] != ']')
        {
          self->at++;
          if (!read_char (self, &high) || high < low)
            return fail (self, "this is no range of characters");
        }
      llm_set_add (pattern->set, low, high);
    }
  self->at++;
  llm_set_settle (pattern->set, negate);
  return g_steal_pointer (&pattern);
}

static LlmPattern *
read_atom (Reader   *self,
           gboolean  is_nested)
{
  g_autoptr(LlmPattern) pattern = NULL;
  g_autofree char *name = NULL;

  switch (*self->at)
    {
    case '"':
      self->at++;
      return read_string (self);
    case '[':
      self->at++;
      return read_class (self);
    case '.':
      self->at++;
      pattern = llm_pattern_new (LLM_PATTERN_SET);
      llm_set_settle (pattern->set, TRUE);
      return g_steal_pointer (&pattern);
    case '(':
      self->at++;
      if (++self->depth > LLM_PATTERN_MAX_DEPTH)
        return fail (self, "groups are nested more than %u deep", LLM_PATTERN_MAX_DEPTH);
      skip_space (self, TRUE);
      pattern = read_choice (self, TRUE);
      self->depth--;
      if (pattern == NULL)
        return NULL;
      if (*self->at != ')')
        return fail (self, "the closing parenthesis is missing");
      self->at++;
      return g_steal_pointer (&pattern);
    default:
      name = read_name (self);
      if (name == NULL)
        return fail (self, "“%.1s” is not understood here", self->at);
      pattern = llm_pattern_new (LLM_PATTERN_RULE);
      pattern->rule = find_rule (self, name);
      return g_steal_pointer (&pattern);
    }
}

static gboolean
read_number (Reader *self,
             guint  *number)
{
  if (!g_ascii_isdigit (*self->at))
    return FALSE;
  for (*number = 0; g_ascii_isdigit (*self->at) && *number <= MAX_COUNT; self->at++)
    *number = *number * 10 + (guint) g_ascii_digit_value (*self->at);
  return *number <= MAX_COUNT;
}

/* Takes @pattern. */
static LlmPattern *
read_count (Reader     *self,
            LlmPattern *pattern)
{
  g_autoptr(LlmPattern) owned = pattern;
  guint min = 0;
  guint max = LLM_PATTERN_NO_LIMIT;
  char sign = *self->at;

  if (sign != '*' && sign != '+' && sign != '?' && sign != '{')
    return g_steal_pointer (&owned);
  self->at++;
  if (sign == '+')
    min = 1;
  else if (sign == '?')
    max = 1;
  else if (sign == '{')
    {
      skip_space (self, FALSE);
      if (*self->at != ',' && !read_number (self, &min))
        return fail (self, "a count of up to %u is wanted here", MAX_COUNT);
      skip_space (self, FALSE);
      max = min;
      if (*self->at == ',')
        {
          self->at++;
          skip_space (self, FALSE);
          max = LLM_PATTERN_NO_LIMIT;
          if (*self->at != '}' && !read_number (self, &max))
            return fail (self, "a count of up to %u is wanted here", MAX_COUNT);
          skip_space (self, FALSE);
        }
      if (*self->at != '}' || max < min)
        return fail (self, "this is no count");
      self->at++;
    }
  return llm_pattern_new_repeat (g_steal_pointer (&owned), min, max);
}

static LlmPattern *
read_sequence (Reader   *self,
               gboolean  is_nested)
{
  g_autoptr(LlmPattern) sequence = llm_pattern_new (LLM_PATTERN_SEQUENCE);

  skip_space (self, is_nested);
  while (*self->at != '\0' && strchr ("|)\r\n", *self->at) == NULL)
    {
      LlmPattern *part = read_atom (self, is_nested);

      if (part == NULL)
        return NULL;
      skip_space (self, is_nested);
      while (part != NULL && strchr ("*+?{", *self->at) != NULL && *self->at != '\0')
        {
          part = read_count (self, part);
          skip_space (self, is_nested);
        }
      if (part == NULL)
        return NULL;
      g_ptr_array_add (sequence->parts, part);
    }
  return g_steal_pointer (&sequence);
}

static LlmPattern *
read_choice (Reader   *self,
             gboolean  is_nested)
{
  g_autoptr(LlmPattern) choice = llm_pattern_new (LLM_PATTERN_CHOICE);

  for (;;)
    {
      LlmPattern *part = read_sequence (self, is_nested);

      if (part == NULL)
        return NULL;
      g_ptr_array_add (choice->parts, part);
      if (*self->at != '|')
        return g_steal_pointer (&choice);
      self->at++;
      skip_space (self, TRUE);
    }
}

static gboolean
read_rule (Reader *self)
{
  g_autofree char *name = read_name (self);
  guint32 rule;
  LlmPattern *pattern;

  if (name == NULL)
    {
      fail (self, "the name of a rule is wanted here");
      return FALSE;
    }
  rule = find_rule (self, name);
  skip_space (self, FALSE);
  if (!g_str_has_prefix (self->at, "::="))
    {
      fail (self, "“::=” is wanted behind “%.40s”", name);
      return FALSE;
    }
  self->at += strlen ("::=");
  skip_space (self, TRUE);
  pattern = read_choice (self, FALSE);
  if (pattern == NULL)
    return FALSE;
  if (*self->at != '\0' && *self->at != '\n' && *self->at != '\r')
    {
      llm_pattern_free (pattern);
      fail (self, "the rule “%.40s” should end here", name);
      return FALSE;
    }
  if (self->patterns->pdata[rule] != NULL)
    {
      llm_pattern_free (pattern);
      fail (self, "the rule “%.40s” is defined twice", name);
      return FALSE;
    }
  self->patterns->pdata[rule] = pattern;
  return TRUE;
}

static gboolean
make_automata (Reader *self)
{
  guint n_states = 0;

  for (guint32 rule = 0; rule < self->patterns->len; rule++)
    {
      const LlmPattern *pattern = g_ptr_array_index (self->patterns, rule);
      const char *name = g_ptr_array_index (self->builder->names, rule);
      g_autoptr(LlmNfa) nfa = llm_nfa_new ();
      guint start = llm_nfa_add_state (nfa);
      LlmAutomaton *automaton = NULL;
      guint end;

      if (pattern == NULL)
        return llm_fail (self->error, LLMSVC_ERROR_INVALID_OPTION,
                         "line %u: the rule “%.40s” is not defined",
                         g_array_index (self->lines, guint, rule), name);
      end = llm_pattern_add (pattern, nfa, start, LLM_ENCODING_UTF8);
      if (end != LLM_DEAD && llm_compile_work_count (1, 0))
        automaton = llm_nfa_determinize (nfa, start, end);
      n_states += automaton != NULL ? automaton->n_states : 0;
      if (automaton != NULL)
        llm_grammar_builder_set (self->builder, rule, automaton);
      if (automaton == NULL || n_states > MAX_STATES)
        return llm_fail (self->error, LLMSVC_ERROR_INVALID_OPTION,
                         "line %u: the rule “%.40s” is too large",
                         g_array_index (self->lines, guint, rule), name);
    }
  return TRUE;
}

static void
free_pattern (gpointer pattern)
{
  g_clear_pointer ((LlmPattern **) &pattern, llm_pattern_free);
}

LlmGrammar *
llm_gbnf_compile (const char  *text,
                  GError     **error)
{
  g_autoptr(LlmGrammarBuilder) builder = llm_grammar_builder_new ();
  g_autoptr(GHashTable) rules = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr(GPtrArray) patterns = g_ptr_array_new_with_free_func (free_pattern);
  g_autoptr(GArray) lines = g_array_new (FALSE, FALSE, sizeof (guint));
  Reader reader = { text, text, 1, 0, builder, rules, patterns, lines, error };
  guint32 root;

  root = find_rule (&reader, "root");
  for (skip_space (&reader, TRUE); *reader.at != '\0'; skip_space (&reader, TRUE))
    if (!read_rule (&reader))
      return NULL;
  if (!make_automata (&reader))
    return NULL;
  return llm_grammar_new (builder, root, error);
}
