/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "kv/llm-kv-private.h"

#include <float.h>
#include <stdlib.h>

/*
 * Exact, and fast enough for the end of a call. Chunks differ in density and in the most bits they
 * may get, not in size. So of two with the same limit the denser one never gets fewer bits:
 * exchanging them would not lose more. That leaves one number to look through, how many of the
 * densest get 8 bits; what is then left of the budget is a number of upgrades from 2 bits to 4, all
 * at the same price, and goes to the densest of the others. With each more that gets 8 bits these
 * are fewer, so all numbers are looked through in one pass.
 */

typedef struct
{
  double density;
  guint index;          /* in the caller's array */
  gboolean is_wide;     /* may get 8 bits */
} Candidate;

/* The densest first. */
static int
compare_candidates (const void *a,
                    const void *b)
{
  const Candidate *first = a;
  const Candidate *second = b;

  if (first->density != second->density)
    return first->density > second->density ? -1 : 1;
  if (first->is_wide != second->is_wide)
    return first->is_wide ? 1 : -1;
  return first->index < second->index ? -1 : 1;
}

static double
get_density (const LlmKvBitsChunk *chunk)
{
  return chunk->density > 0 ? (double) MIN (chunk->density, FLT_MAX) : 0;
}

guint64
llm_kv_bits_choose (const LlmKvBitsChunk *chunks,
                    guint                 n,
                    const LlmKvBitsCosts *costs,
                    guint64               budget,
                    LlkKvFormat          *formats)
{
  g_autofree Candidate *candidates = g_new (Candidate, MAX (n, 1));
  guint64 more8 = costs->bytes[LLK_KV_Q8] - costs->bytes[LLK_KV_Q2];
  guint64 more4 = costs->bytes[LLK_KV_Q4] - costs->bytes[LLK_KV_Q2];
  double error8 = costs->errors[LLK_KV_Q8];
  double error4 = MAX (costs->errors[LLK_KV_Q4], error8);
  double error2 = MAX (costs->errors[LLK_KV_Q2], error4);
  guint64 bytes = n * costs->bytes[LLK_KV_Q2];
  double sum8 = 0, sum4 = 0, most = -1;
  guint best8 = 0, best4 = 0;
  guint n_candidates = 0;
  guint n4 = 0;
  guint end;                    /* of the candidates that get 8 bits or 4 */

  g_return_val_if_fail (costs->bytes[LLK_KV_Q8] >= costs->bytes[LLK_KV_Q4], 0);
  g_return_val_if_fail (costs->bytes[LLK_KV_Q4] >= costs->bytes[LLK_KV_Q2], 0);

  for (guint i = 0; i < n; i++)
    {
      formats[i] = LLK_KV_Q2;
      if (chunks[i].best <= LLK_KV_Q4)
        candidates[n_candidates++] = (Candidate) { get_density (&chunks[i]), i,
                                                   chunks[i].best <= LLK_KV_Q8 };
    }
  qsort (candidates, n_candidates, sizeof *candidates, compare_candidates);

  for (end = 0; end < n_candidates; end++, n4++)
    sum4 += candidates[end].density;
  for (guint n8 = 0, next = 0; bytes + n8 * more8 <= budget; n8++, next++)
    {
      guint64 n_paid = more4 > 0 ? (budget - bytes - n8 * more8) / more4 : G_MAXUINT64;
      double saved;

      /* candidates before next have 8 bits, if they may */
      while (n4 > n_paid)
        if (--end >= next || !candidates[end].is_wide)
          {
            sum4 -= candidates[end].density;
            n4--;
          }
      saved = (error2 - error8) * sum8 + (error2 - error4) * sum4;
      if (saved > most)
        {
          most = saved;
          best8 = n8;
          best4 = n4;
        }

      while (next < n_candidates && !candidates[next].is_wide)
        next++;
      if (next == n_candidates)
        break;
      sum8 += candidates[next].density;
      if (next < end)
        {
          sum4 -= candidates[next].density;
          n4--;
        }
    }

  bytes += best8 * more8 + best4 * more4;
  for (guint i = 0; i < n_candidates && best8 + best4 > 0; i++)
    if (candidates[i].is_wide && best8 > 0)
      {
        formats[candidates[i].index] = LLK_KV_Q8;
        best8--;
      }
    else if (best4 > 0)
      {
        formats[candidates[i].index] = LLK_KV_Q4;
        best4--;
      }
  return bytes;
}

void
llm_kv_bits_invert (LlmKvBitsChunk *chunks,
                    guint           n)
{
  g_autofree Candidate *order = g_new (Candidate, MAX (n, 1));

  for (guint i = 0; i < n; i++)
    order[i] = (Candidate) { get_density (&chunks[i]), i, FALSE };
  qsort (order, n, sizeof *order, compare_candidates);
  for (guint i = 0; i < n / 2; i++)
    {
      LlmKvBitsChunk *denser = &chunks[order[i].index];
      LlmKvBitsChunk *other = &chunks[order[n - 1 - i].index];
      float density = denser->density;

      denser->density = other->density;
      other->density = density;
    }
}
