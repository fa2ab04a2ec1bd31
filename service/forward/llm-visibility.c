/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "forward/llm-attention.h"

/* Bits for the slots of [@low, @high) in a chunk that starts at @first. */
static guint64
get_range_bits (guint64 low,
                guint64 high,
                guint   first,
                guint   n_slots)
{
  guint64 from = MAX (low, first) - first;
  guint64 to = MIN (MAX (high, first) - first, n_slots);

  if (from >= to)
    return 0;

  return (to - from == 64 ? G_MAXUINT64 : (G_GUINT64_CONSTANT (1) << (to - from)) - 1) << from;
}

/* The tree's bits, moved from where the tree starts to where the chunk does. */
static guint64
get_tree_bits (guint64 ancestors,
               guint   base,
               guint   first)
{
  if (base >= first)
    return base - first < 64 ? ancestors << (base - first) : 0;

  return first - base < 64 ? ancestors >> (first - base) : 0;
}

/* Ancestors rise along the path, one a position: the last ones are in the
 * window, and what is left of it reaches in front of the tree. */
static guint64
get_tree_mask (const LlmVisibility *visibility,
               guint                window,
               guint                first,
               guint                n_slots)
{
  guint64 ancestors = visibility->ancestors;
  guint64 written = get_range_bits (first, (guint64) first + n_slots, first, n_slots);
  guint depth = (guint) __builtin_popcountll (ancestors);
  guint low = 0;

  if (window != 0)
    {
      guint n_before = window > depth ? window - depth : 0;

      low = visibility->base - MIN (n_before, visibility->base);
      for (; depth > window; depth--)
        ancestors &= ancestors - 1;
    }

  return get_range_bits (low, visibility->base, first, n_slots)
         | (get_tree_bits (ancestors, visibility->base, first) & written);
}

guint64
llm_visibility_mask (const LlmVisibility *visibility,
                     guint                slot,
                     guint                window,
                     guint                first,
                     guint                n_slots)
{
  guint64 end = (guint64) slot + 1;
  guint64 low = window != 0 ? end - MIN (window, end) : 0;

  switch (visibility->kind)
    {
    case LLM_VISIBLE_CAUSAL:
      return get_range_bits (low, end, first, n_slots);
    case LLM_VISIBLE_WINDOW:
      return (get_range_bits (0, MIN (visibility->sinks, end), first, n_slots)
              | get_range_bits (end - MIN (visibility->window, end), end, first, n_slots))
             & get_range_bits (low, end, first, n_slots);
    case LLM_VISIBLE_TREE:
      return get_tree_mask (visibility, window, first, n_slots);
    case LLM_VISIBLE_SEGMENT:
      return get_range_bits (low, window != 0 ? (guint64) slot + window : G_MAXUINT64, first,
                             n_slots);
    }
  g_assert_not_reached ();
}
