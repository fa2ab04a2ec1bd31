/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "constraints/llm-mask-walk.h"

#include <string.h>

/* A level of the trie where there is one way only. */
typedef struct
{
  guint32 state;
  guint32 end;           /* node behind those below it */
} Single;

void
llm_mask_walk_init (LlmMaskWalk      *walk,
                    const LlmGrammar *grammar,
                    LlmStacks        *stacks,
                    const LlmTrie    *trie,
                    guint64          *bits)
{
  *walk = (LlmMaskWalk) { grammar, stacks, trie, bits, NULL, NULL, NULL, 0 };
  walk->threads = g_array_new (FALSE, FALSE, sizeof (LlmThread));
}

void
llm_mask_walk_clear (LlmMaskWalk *walk)
{
  g_array_unref (walk->threads);
}

/* Adds the set that the threads [first, end) lead to by @byte. Returns whether there is one, even
 * if nothing leads on from there. */
static gboolean
step (LlmMaskWalk *walk,
      guint        first,
      guint        end,
      guint8       byte,
      gboolean    *has_left)
{
  gboolean is_alive = FALSE;

  *has_left = FALSE;
  for (guint i = first; i < end; i++)
    {
      LlmThread thread = g_array_index (walk->threads, LlmThread, i);
      guint32 next = llm_grammar_step (walk->grammar, thread.state, byte);

      if (next == LLM_DEAD)
        continue;
      is_alive = TRUE;
      thread.state = next;
      *has_left |=
        llm_threads_add (walk->threads, end, walk->grammar, walk->stacks, thread);
    }
  return is_alive;
}

void
llm_mask_walk_add_node (LlmMaskWalk *walk,
                        guint32      node)
{
  const LlmTrie *trie = walk->trie;

  for (guint32 i = trie->first_tokens[node]; i < trie->first_tokens[node + 1]; i++)
    walk->bits[trie->tokens[i] / 64] |= G_GUINT64_CONSTANT (1) << trie->tokens[i] % 64;
}

/* Whether nothing is called from @state and nothing ends there. */
static gboolean
is_plain (const LlmMaskWalk *walk,
          guint32            state)
{
  return walk->grammar->states[state].n_calls == 0 && !walk->grammar->states[state].is_final;
}

/* Whether all plain characters that have come to @utf8 in @state go on to @common. @seen: what was
 * looked at, by @utf8: LLM_DEAD for nothing. */
static gboolean
lead_to (LlmMaskWalk  *walk,
         guint32       state,
         LlmUtf8State  utf8,
         guint32       common,
         guint32       seen[LLM_UTF8_N_STATES])
{
  for (guint byte = ' '; byte < 256; byte++)
    {
      LlmUtf8State then = llm_utf8_state_step (utf8, (guint8) byte);
      guint32 next;

      if (then == LLM_UTF8_NOT_PLAIN)
        continue;
      next = llm_grammar_step (walk->grammar, state, (guint8) byte);
      if (then == LLM_UTF8_WHOLE ? next != common : next == LLM_DEAD || !is_plain (walk, next))
        return FALSE;
      if (then == LLM_UTF8_WHOLE || seen[then] == next)
        continue;
      if (!lead_to (walk, next, then, common, seen))
        return FALSE;
      seen[then] = next;
    }
  return TRUE;
}

/* The state that all plain characters lead to from @state, or LLM_DEAD. Found once. */
static guint32
get_common (LlmMaskWalk *walk,
            guint32      state)
{
  guint32 seen[LLM_UTF8_N_STATES];
  guint32 common;

  if (walk->commons == NULL || !is_plain (walk, state))
    return LLM_DEAD;
  common = g_atomic_int_get (&walk->commons[state]);
  if (common != LLM_MASK_COMMON_UNKNOWN)
    return common;
  memset (seen, 0xff, sizeof seen);
  common = llm_grammar_step (walk->grammar, state, ' ');
  if (common != LLM_DEAD && !lead_to (walk, state, LLM_UTF8_WHOLE, common, seen))
    common = LLM_DEAD;
  g_atomic_int_set (&walk->commons[state], common);
  return common;
}

/* Whether any @n plain characters lead on from @state, without a call or an end on the way. */
static gboolean
takes_plain (LlmMaskWalk *walk,
             guint32      state,
             guint        n)
{
  for (guint i = 0; i < n; i++)
    {
      guint32 next = get_common (walk, state);

      if (next == LLM_DEAD || !is_plain (walk, next))
        return FALSE;
      if (next == state)
        return TRUE;
      state = next;
    }
  return TRUE;
}

/* Where there is one way only, within one rule: most of a vocabulary, in a string. */
static void
walk_single (LlmMaskWalk *walk,
             LlmThread    thread,
             guint32      node,
             guint32      end)
{
  const LlmTrie *trie = walk->trie;
  const LlmGrammar *grammar = walk->grammar;
  const guint8 *classes = grammar->rules[grammar->states[thread.state].rule].classes;
  g_autoptr(GArray) levels = g_array_new (FALSE, FALSE, sizeof (Single));
  Single top = { thread.state, end };

  while (node < end)
    {
      guint32 next;

      while (top.end <= node)
        {
          top = g_array_index (levels, Single, levels->len - 1);
          g_array_set_size (levels, levels->len - 1);
        }
      walk->n_steps++;
      next = grammar->next[grammar->states[top.state].row + classes[trie->bytes[node]]];
      if (next == LLM_DEAD)
        {
          node = trie->ends[node];
          continue;
        }
      if (!is_plain (walk, next))
        {
          LlmThread to = { next, thread.stack };
          guint first = walk->threads->len;
          gboolean has_left =
            llm_threads_add (walk->threads, first, grammar, walk->stacks, to);

          llm_mask_walk_add_node (walk, node);
          if (has_left && walk->exits != NULL && trie->ends[node] > node + 1)
            g_array_append_val (walk->exits, node);
          if (walk->threads->len > first)
            llm_mask_walk_run (walk, first, node + 1, trie->ends[node]);
          g_array_set_size (walk->threads, first);
          node = trie->ends[node];
          continue;
        }
      if (trie->heights != NULL && trie->heights[node] != LLM_TRIE_MIXED
          && takes_plain (walk, next, trie->heights[node]))
        {
          for (guint32 i = trie->first_tokens[node]; i < trie->first_tokens[trie->ends[node]]; i++)
            walk->bits[trie->tokens[i] / 64] |= G_GUINT64_CONSTANT (1) << trie->tokens[i] % 64;
          node = trie->ends[node];
          continue;
        }
      llm_mask_walk_add_node (walk, node);
      if (trie->ends[node] > node + 1)
        {
          g_array_append_val (levels, top);
          top = (Single) { next, trie->ends[node] };
        }
      node++;
    }
}

void
llm_mask_walk_run (LlmMaskWalk *walk,
                   guint        first,
                   guint32      node,
                   guint32      end)
{
  const LlmTrie *trie = walk->trie;
  guint n = walk->threads->len - first;

  if (n == 1)
    {
      walk_single (walk, g_array_index (walk->threads, LlmThread, first), node, end);
      return;
    }
  while (node < end)
    {
      gboolean has_left;

      walk->n_steps++;
      if (step (walk, first, first + n, trie->bytes[node], &has_left))
        {
          llm_mask_walk_add_node (walk, node);
          if (has_left && walk->exits != NULL && trie->ends[node] > node + 1)
            g_array_append_val (walk->exits, node);
          if (walk->threads->len > first + n)
            llm_mask_walk_run (walk, first + n, node + 1, trie->ends[node]);
          g_array_set_size (walk->threads, first + n);
        }
      node = trie->ends[node];
    }
}
