/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Regular expressions that look ahead. They are compiled from their end: of each part the texts are
 * found that begin with it and go on as the rest does, once for where the text begins, where ^
 * holds, and once for all other places. There a look ahead is an intersection of the rest with what
 * it looks for, so that the language stays regular (Miyazaki and Minamide, "Derivatives of Regular
 * Expressions with Lookahead", 2019).
 */

#include "base/llm-fail.h"
#include "constraints/llm-automaton-private.h"
#include "constraints/llm-pattern.h"

#define AHEAD (1u << LLM_PATTERN_AHEAD | 1u << LLM_PATTERN_NOT_AHEAD)
/* What holds only at some places. */
#define PLACES (AHEAD | 1u << LLM_PATTERN_START | 1u << LLM_PATTERN_END)
/* Copies of a part that looks ahead. */
#define MAX_COPIES 100

/* Texts from a place on; (owned) (nullable): all NULL once one is too large. */
typedef struct
{
  LlmAutomaton *at_start;
  LlmAutomaton *within;
} Texts;

typedef struct
{
  LlmEncoding encoding;
  LlmAutomaton *all;     /* (owned) */
  LlmAutomaton *nothing; /* (owned): the empty text */
  GError **error;
} Compiler;

static void
texts_clear (Texts *self)
{
  g_clear_pointer (&self->at_start, llm_automaton_unref);
  g_clear_pointer (&self->within, llm_automaton_unref);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Texts, texts_clear)

static gboolean
is_made (const Texts *self)
{
  return self->at_start != NULL && self->within != NULL;
}

static Texts
copy (const Texts *self)
{
  return (Texts) { llm_automaton_ref (self->at_start), llm_automaton_ref (self->within) };
}

/* Takes @automaton: (nullable). Each is part of the next, and would grow with every one. */
static LlmAutomaton *
minimize (LlmAutomaton *automaton)
{
  if (automaton != NULL)
    llm_automaton_minimize (automaton);
  return automaton;
}

/* Takes @a and @b. */
static Texts
combine (Texts      a,
         Texts      b,
         LlmCombine how)
{
  g_auto(Texts) first = a;
  g_auto(Texts) second = b;

  if (!is_made (&first) || !is_made (&second))
    return (Texts) { NULL, NULL };
  return (Texts) { minimize (llm_automaton_combine (first.at_start, second.at_start, how)),
                   minimize (llm_automaton_combine (first.within, second.within, how)) };
}

/* (transfer full) (nullable): a text of @head, and then one of @rest. */
static LlmAutomaton *
join (const LlmAutomaton *head,
      const LlmAutomaton *rest)
{
  g_autoptr(LlmNfa) nfa = llm_nfa_new ();
  guint start = llm_nfa_add_state (nfa);
  guint middle = llm_nfa_add_state (nfa);
  guint end = llm_nfa_add_state (nfa);

  llm_nfa_add_automaton (nfa, start, head, middle);
  llm_nfa_add_automaton (nfa, middle, rest, end);
  return minimize (llm_nfa_determinize (nfa, start, end));
}

/* (transfer full) (nullable): @pattern alone. */
static LlmAutomaton *
compile (const LlmPattern *pattern,
         LlmEncoding       encoding)
{
  g_autoptr(LlmNfa) nfa = llm_nfa_new ();
  guint start = llm_nfa_add_state (nfa);
  guint end = llm_pattern_add (pattern, nfa, start, encoding);

  return end != LLM_DEAD ? minimize (llm_nfa_determinize (nfa, start, end)) : NULL;
}

/* A part that holds anywhere, before @rest. */
static Texts
add_plain (const Compiler   *self,
           const LlmPattern *pattern,
           const Texts      *rest)
{
  g_autoptr(LlmAutomaton) own = compile (pattern, self->encoding);
  g_autoptr(LlmAutomaton) some = NULL;
  g_auto(Texts) texts = { NULL, NULL };

  if (own == NULL)
    return (Texts) { NULL, NULL };
  texts.within = join (own, rest->within);
  /* behind a character it is no longer the start */
  some = llm_automaton_combine (own, self->nothing, LLM_COMBINE_WITHOUT);
  if (some != NULL && texts.within != NULL)
    texts.at_start = join (some, rest->within);
  if (texts.at_start != NULL && llm_automaton_accepts (own, "", 0))
    {
      g_autoptr(LlmAutomaton) behind = g_steal_pointer (&texts.at_start);

      texts.at_start = minimize (llm_automaton_combine (behind, rest->at_start, LLM_COMBINE_OR));
    }
  return is_made (&texts) ? copy (&texts) : (Texts) { NULL, NULL };
}

static Texts add_pattern (const Compiler *, const LlmPattern *, const Texts *);

static Texts
add_repeat (const Compiler   *self,
            const LlmPattern *pattern,
            const Texts      *rest)
{
  const LlmPattern *part = g_ptr_array_index (pattern->parts, 0);
  g_auto(Texts) texts = copy (rest);

  if (pattern->max > MAX_COPIES)
    {
      llm_fail (self->error, LLMSVC_ERROR_INVALID_OPTION,
                "the regular expression: looking ahead, or “^” and “$”, within what is repeated more "
                "than %u times is not supported", MAX_COPIES);
      return (Texts) { NULL, NULL };
    }
  /* from the last copy on */
  for (guint i = pattern->max; i > 0 && is_made (&texts); i--)
    {
      Texts with = add_pattern (self, part, &texts);

      if (i > pattern->min)
        with = combine (with, copy (rest), LLM_COMBINE_OR);
      texts_clear (&texts);
      texts = with;
    }
  return is_made (&texts) ? copy (&texts) : (Texts) { NULL, NULL };
}

static Texts
add_choice (const Compiler   *self,
            const LlmPattern *pattern,
            const Texts      *rest)
{
  Texts texts = { NULL, NULL };

  for (guint i = 0; i < pattern->parts->len; i++)
    {
      Texts part = add_pattern (self, g_ptr_array_index (pattern->parts, i), rest);

      texts = i > 0 ? combine (texts, part, LLM_COMBINE_OR) : part;
      if (!is_made (&texts))
        break;
    }
  return texts;
}

/* What needs no place is added together. */
static Texts
add_sequence (const Compiler   *self,
              const LlmPattern *pattern,
              const Texts      *rest)
{
  g_auto(Texts) texts = copy (rest);

  for (guint last = pattern->parts->len; last > 0 && is_made (&texts);)
    {
      g_autoptr(LlmPattern) plain = llm_pattern_new (LLM_PATTERN_SEQUENCE);
      Texts with;
      guint first = last;

      g_ptr_array_set_free_func (plain->parts, NULL);
      while (first > 0 && !llm_pattern_has (g_ptr_array_index (pattern->parts, first - 1), PLACES))
        first--;
      for (guint i = first; i < last; i++)
        g_ptr_array_add (plain->parts, g_ptr_array_index (pattern->parts, i));
      if (first < last)
        with = add_plain (self, plain, &texts);
      else
        with = add_pattern (self, g_ptr_array_index (pattern->parts, --first), &texts);
      texts_clear (&texts);
      texts = with;
      last = first;
    }
  return is_made (&texts) ? copy (&texts) : (Texts) { NULL, NULL };
}

/* The texts that begin with @pattern and go on as @rest. */
static Texts
add_pattern (const Compiler   *self,
             const LlmPattern *pattern,
             const Texts      *rest)
{
  if (!llm_pattern_has (pattern, PLACES))
    return add_plain (self, pattern, rest);
  switch (pattern->kind)
    {
    case LLM_PATTERN_START:
      return (Texts) { llm_automaton_ref (rest->at_start),
                       llm_automaton_combine (rest->within, rest->within, LLM_COMBINE_WITHOUT) };
    case LLM_PATTERN_END:
      return (Texts) { llm_automaton_combine (rest->at_start, self->nothing, LLM_COMBINE_AND),
                       llm_automaton_combine (rest->within, self->nothing, LLM_COMBINE_AND) };
    case LLM_PATTERN_AHEAD:
    case LLM_PATTERN_NOT_AHEAD:
      {
        const Texts all = { self->all, self->all };

        return combine (copy (rest), add_pattern (self, g_ptr_array_index (pattern->parts, 0), &all),
                        pattern->kind == LLM_PATTERN_AHEAD ? LLM_COMBINE_AND : LLM_COMBINE_WITHOUT);
      }
    case LLM_PATTERN_SEQUENCE:
      return add_sequence (self, pattern, rest);
    case LLM_PATTERN_CHOICE:
      return add_choice (self, pattern, rest);
    case LLM_PATTERN_REPEAT:
      return add_repeat (self, pattern, rest);
    case LLM_PATTERN_SET:
    case LLM_PATTERN_RULE:
    default:
      return (Texts) { NULL, NULL };
    }
}

LlmAutomaton *
llm_regex_look_ahead (const LlmPattern  *pattern,
                      gboolean           search,
                      LlmEncoding        encoding,
                      GError           **error)
{
  LlmPattern *any = llm_pattern_new (LLM_PATTERN_SET);
  g_autoptr(LlmPattern) anything = llm_pattern_new_repeat (any, 0, LLM_PATTERN_NO_LIMIT);
  g_autoptr(LlmPattern) empty = llm_pattern_new (LLM_PATTERN_SEQUENCE);
  g_autoptr(LlmAutomaton) all = NULL;
  g_autoptr(LlmAutomaton) nothing = NULL;
  g_auto(Texts) rest = { NULL, NULL };
  g_auto(Texts) texts = { NULL, NULL };
  Compiler self = { encoding, NULL, NULL, error };

  llm_set_settle (any->set, TRUE);
  self.all = all = compile (anything, encoding);
  self.nothing = nothing = compile (empty, encoding);
  if (all == NULL || nothing == NULL)
    return NULL;
  rest.at_start = llm_automaton_ref (search ? all : nothing);
  rest.within = llm_automaton_ref (search ? all : nothing);
  texts = add_pattern (&self, pattern, &rest);
  if (search && is_made (&texts))
    {
      Texts found = add_plain (&self, anything, &texts);

      texts_clear (&texts);
      texts = found;
    }
  return is_made (&texts) ? llm_automaton_ref (texts.at_start) : NULL;
}
