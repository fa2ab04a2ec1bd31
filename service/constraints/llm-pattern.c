/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "constraints/llm-pattern.h"

/* States of what is added; what is more can't be determinized in time. */
#define MAX_STATES 400000u

LlmPattern *
llm_pattern_new (LlmPatternKind kind)
{
  LlmPattern *self = g_new0 (LlmPattern, 1);

  self->kind = kind;
  if (kind == LLM_PATTERN_SET)
    self->set = g_array_new (FALSE, FALSE, sizeof (LlmCharRange));
  else if (kind == LLM_PATTERN_SEQUENCE || kind == LLM_PATTERN_CHOICE || kind == LLM_PATTERN_REPEAT
           || kind == LLM_PATTERN_AHEAD || kind == LLM_PATTERN_NOT_AHEAD)
    self->parts = g_ptr_array_new_with_free_func ((GDestroyNotify) llm_pattern_free);
  return self;
}

LlmPattern *
llm_pattern_new_repeat (LlmPattern *part,
                        guint       min,
                        guint       max)
{
  LlmPattern *self = llm_pattern_new (LLM_PATTERN_REPEAT);

  g_ptr_array_add (self->parts, part);
  self->min = min;
  self->max = max;
  return self;
}

LlmPattern *
llm_pattern_new_char (gunichar c)
{
  LlmPattern *self = llm_pattern_new (LLM_PATTERN_SET);

  llm_set_add (self->set, c, c);
  return self;
}

void
llm_pattern_free (LlmPattern *self)
{
  g_clear_pointer (&self->set, g_array_unref);
  g_clear_pointer (&self->parts, g_ptr_array_unref);
  g_free (self);
}

gboolean
llm_pattern_has (const LlmPattern *self,
                 guint             kinds)
{
  gboolean has = (1u << self->kind & kinds) != 0;

  for (guint i = 0; self->parts != NULL && i < self->parts->len && !has; i++)
    has = llm_pattern_has (g_ptr_array_index (self->parts, i), kinds);
  return has;
}

static guint
add_repeat (const LlmPattern *self,
            LlmNfa           *nfa,
            guint             from,
            LlmEncoding       encoding)
{
  const LlmPattern *part = g_ptr_array_index (self->parts, 0);
  gboolean is_open = self->max == LLM_PATTERN_NO_LIMIT;
  guint n = is_open ? self->min : self->max;
  guint end = llm_nfa_add_state (nfa);

  for (guint i = 0; i < n; i++)
    {
      if (i >= self->min)
        llm_nfa_add_empty (nfa, from, end, LLM_EDGE_FREE);
      from = llm_pattern_add (part, nfa, from, encoding);
      if (from == LLM_DEAD)
        return LLM_DEAD;
    }
  if (is_open)
    {
      guint loop = llm_nfa_add_state (nfa);
      guint behind;

      llm_nfa_add_empty (nfa, from, loop, LLM_EDGE_FREE);
      behind = llm_pattern_add (part, nfa, loop, encoding);
      if (behind == LLM_DEAD)
        return LLM_DEAD;
      llm_nfa_add_empty (nfa, behind, loop, LLM_EDGE_FREE);
      from = loop;
    }
  llm_nfa_add_empty (nfa, from, end, LLM_EDGE_FREE);
  return end;
}

guint
llm_pattern_add (const LlmPattern *self,
                 LlmNfa           *nfa,
                 guint             from,
                 LlmEncoding       encoding)
{
  guint to;

  if (nfa->n_states > MAX_STATES)
    return LLM_DEAD;
  if (self->kind == LLM_PATTERN_REPEAT)
    return add_repeat (self, nfa, from, encoding);
  if (self->kind == LLM_PATTERN_SEQUENCE)
    {
      for (guint i = 0; i < self->parts->len && from != LLM_DEAD; i++)
        from = llm_pattern_add (g_ptr_array_index (self->parts, i), nfa, from, encoding);
      return from;
    }

  to = llm_nfa_add_state (nfa);
  switch (self->kind)
    {
    case LLM_PATTERN_SET:
      llm_nfa_add_set (nfa, from, self->set, to, encoding);
      break;
    case LLM_PATTERN_RULE:
      llm_nfa_add_call (nfa, from, self->rule, to);
      break;
    case LLM_PATTERN_START:
      llm_nfa_add_empty (nfa, from, to, LLM_EDGE_AT_START);
      break;
    case LLM_PATTERN_END:
      llm_nfa_add_empty (nfa, from, to, LLM_EDGE_AT_END);
      break;
    case LLM_PATTERN_CHOICE:
    case LLM_PATTERN_SEQUENCE:
    case LLM_PATTERN_REPEAT:
    case LLM_PATTERN_AHEAD:
    case LLM_PATTERN_NOT_AHEAD:
    default:
      for (guint i = 0; i < self->parts->len; i++)
        {
          guint behind = llm_pattern_add (g_ptr_array_index (self->parts, i), nfa, from, encoding);

          if (behind == LLM_DEAD)
            return LLM_DEAD;
          llm_nfa_add_empty (nfa, behind, to, LLM_EDGE_FREE);
        }
    }
  return to;
}
