/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "kv/llm-kv-private.h"

#include <float.h>
#include <stdlib.h>

/*
 * Greedy along the convex hull of the widths. All chunks have the same sizes and, but for their
 * density, the same errors; so each step from one width of the hull to the next saves less error
 * per byte than the one before, and taking the steps in the order of density × error saved per byte
 * is exact for the bytes that they spend. At most one step is lost, where the budget ends in the
 * middle of it: less than one chunk. The order is the same for every budget, so more budget never
 * means fewer bits.
 */

/* A step from a width to one with more bits. */
typedef struct
{
  double saved;         /* error, for each byte and density */
  LlkKvFormat from;
  LlkKvFormat to;
} Step;

typedef struct
{
  double gain;          /* density × saved */
  guint index;          /* in the caller's array */
  LlkKvFormat from;
  LlkKvFormat to;
} Upgrade;

static int
compare_upgrades (const void *a,
                  const void *b)
{
  const Upgrade *first = a;
  const Upgrade *second = b;

  if (first->gain != second->gain)
    return first->gain > second->gain ? -1 : 1;
  if (first->index != second->index)
    return first->index < second->index ? -1 : 1;
  return first->from > second->from ? -1 : 1;
}

static double
get_density (const LlmKvBitsChunk *chunk)
{
  return chunk->density > 0 ? (double) MIN (chunk->density, FLT_MAX) : 0;
}

/* The steps along the hull from the fewest bits up to @best. Returns how many. */
static guint
find_steps (const LlmKvBitsCosts *costs,
            LlkKvFormat           best,
            Step                 *steps)
{
  LlkKvFormat at = LLK_KV_Q2;
  guint n = 0;

  for (;;)
    {
      Step step = { 0, at, at };

      for (LlkKvFormat to = MAX (best, LLK_KV_Q8); to < at; to++)
        {
          double bytes = (double) costs->bytes[to] - (double) costs->bytes[at];
          double saved = (costs->errors[at] - costs->errors[to]) / MAX (bytes, 1);

          if (bytes > 0 && saved > step.saved)
            step = (Step) { saved, at, to };
        }
      if (step.to == at)
        return n;
      steps[n++] = step;
      at = step.to;
    }
}

guint64
llm_kv_bits_choose (const LlmKvBitsChunk *chunks,
                    guint                 n,
                    const LlmKvBitsCosts *costs,
                    guint64               budget,
                    LlkKvFormat          *formats)
{
  g_autofree Upgrade *upgrades = g_new (Upgrade, (gsize) n * LLK_N_KV_FORMATS + 1);
  guint64 bytes = n * costs->bytes[LLK_KV_Q2];
  gsize n_upgrades = 0;

  for (guint i = 0; i < n; i++)
    {
      Step steps[LLK_N_KV_FORMATS];
      guint n_steps = find_steps (costs, chunks[i].best, steps);
      double density = get_density (&chunks[i]);

      formats[i] = LLK_KV_Q2;
      for (guint s = 0; s < n_steps && density > 0; s++)
        upgrades[n_upgrades++] = (Upgrade) { density * steps[s].saved, i, steps[s].from,
                                             steps[s].to };
    }
  qsort (upgrades, n_upgrades, sizeof *upgrades, compare_upgrades);

  for (gsize u = 0; u < n_upgrades; u++)
    {
      const Upgrade *upgrade = &upgrades[u];
      guint64 more = costs->bytes[upgrade->to] - costs->bytes[upgrade->from];

      if (formats[upgrade->index] != upgrade->from || bytes + more > budget)
        continue;
      formats[upgrade->index] = upgrade->to;
      bytes += more;
    }
  return bytes;
}
