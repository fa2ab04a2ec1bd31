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

gboolean
llm_visibility_is_valid (const LlmVisibility *visibility,
                         guint                slot)
{
  guint node = slot - visibility->base;

  return visibility->kind != LLM_VISIBLE_TREE
         || (slot >= visibility->base && node < LLM_TREE_MAX_NODES
             && visibility->ancestors >> node == 1);
}

guint
llm_visibility_get_slot (const LlmVisibility *visibility,
                         guint                slot)
{
  if (visibility->kind != LLM_VISIBLE_TREE)
    return slot;

  return visibility->base + (guint) __builtin_popcountll (visibility->ancestors) - 1;
}

guint64
llm_visibility_mask (const LlmVisibility *visibility,
                     guint                slot,
                     guint                window,
                     guint                first,
                     guint                n_slots)
{
  guint64 end = (guint64) llm_visibility_get_slot (visibility, slot) + 1;
  guint64 low = window != 0 ? end - MIN (window, end) : 0;
  gboolean has_window =
    visibility->kind == LLM_VISIBLE_WINDOW
    || (visibility->kind == LLM_VISIBLE_TREE && visibility->window != 0);

  if (visibility->kind == LLM_VISIBLE_SEGMENT)
    return get_range_bits (low, window != 0 ? (guint64) slot + window : G_MAXUINT64, first,
                           n_slots);
  if (!has_window)
    return get_range_bits (low, end, first, n_slots);

  return (get_range_bits (0, MIN (visibility->sinks, end), first, n_slots)
          | get_range_bits (end - MIN (visibility->window, end), end, first, n_slots))
         & get_range_bits (low, end, first, n_slots);
}
