/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "kv/llm-kv-bits.h"

#include <float.h>

/*
 * Exact, and fast enough for the end of a call. Chunks differ in density and in the most bits they
 * may get, not in size. So of two with the same limit the denser one never gets fewer bits:
 * exchanging them would not lose more. That leaves one number to look through, how many of the
 * densest get 8 bits; what is then left of the budget is a number of upgrades from 2 bits to 4, all
 * at the same price, and goes to the densest among those that are left of both limits.
 */

/* Chunks with the same limit, densest first. */
typedef struct
{
  guint *order;      /* [n] (owned): places in the caller's array */
  double *sums;      /* [n + 1] (owned): of densities of the first so many */
  guint n;
} Group;

static double
get_density (const LlmKvBitsChunk *chunk)
{
  return chunk->density > 0 ? (double) MIN (chunk->density, FLT_MAX) : 0;
}

static int
compare_densities (gconstpointer a,
                   gconstpointer b,
                   gpointer      data)
{
  const LlmKvBitsChunk *chunks = data;
  guint first = *(const guint *) a;
  guint second = *(const guint *) b;
  double d = get_density (&chunks[second]) - get_density (&chunks[first]);

  if (d != 0)
    return d > 0 ? 1 : -1;
  return first < second ? -1 : 1;
}

static void
group_init (Group *group,
            guint  n)
{
  group->order = g_new (guint, MAX (n, 1));
  group->sums = g_new (double, (gsize) n + 1);
  group->n = 0;
}

static void
group_clear (Group *group)
{
  g_free (group->order);
  g_free (group->sums);
}

static void
group_sort (Group                *group,
            const LlmKvBitsChunk *chunks)
{
  g_qsort_with_data (group->order, (gint) group->n, sizeof (guint), compare_densities,
                     (gpointer) chunks);
  group->sums[0] = 0;
  for (guint i = 0; i < group->n; i++)
    group->sums[i + 1] = group->sums[i] + get_density (&chunks[group->order[i]]);
}

static double
get_nth (const Group          *group,
         const LlmKvBitsChunk *chunks,
         guint                 i)
{
  return get_density (&chunks[group->order[i]]);
}

/* How many of the @n densest chunks, among those of @wide from @skip on and all of @narrow, are
 * of @wide. */
static guint
split_upgrades (const Group          *wide,
                const Group          *narrow,
                const LlmKvBitsChunk *chunks,
                guint                 skip,
                guint                 n)
{
  guint low = n > narrow->n ? n - narrow->n : 0;
  guint high = MIN (n, wide->n - skip);

  while (low < high)
    {
      guint middle = low + (high - low) / 2;

      if (get_nth (wide, chunks, skip + middle) > get_nth (narrow, chunks, n - middle - 1))
        low = middle + 1;
      else
        high = middle;
    }

  return low;
}

guint64
llm_kv_bits_choose (const LlmKvBitsChunk *chunks,
                    guint                 n,
                    const LlmKvBitsCosts *costs,
                    guint64               budget,
                    LlkKvFormat          *formats)
{
  guint64 more8 = costs->bytes[LLK_KV_Q8] - costs->bytes[LLK_KV_Q2];
  guint64 more4 = costs->bytes[LLK_KV_Q4] - costs->bytes[LLK_KV_Q2];
  double error8 = costs->errors[LLK_KV_Q8];
  double error4 = MAX (costs->errors[LLK_KV_Q4], error8);
  double error2 = MAX (costs->errors[LLK_KV_Q2], error4);
  guint64 bytes = 0;
  double most = -1;
  guint best8 = 0;
  guint best4_wide = 0;
  guint best4_narrow = 0;
  Group wide;
  Group narrow;

  g_return_val_if_fail (costs->bytes[LLK_KV_Q8] >= costs->bytes[LLK_KV_Q4], 0);
  g_return_val_if_fail (costs->bytes[LLK_KV_Q4] >= costs->bytes[LLK_KV_Q2], 0);

  group_init (&wide, n);
  group_init (&narrow, n);
  for (guint i = 0; i < n; i++)
    {
      formats[i] = LLK_KV_Q2;
      bytes += costs->bytes[LLK_KV_Q2];
      if (chunks[i].best <= LLK_KV_Q8)
        wide.order[wide.n++] = i;
      else if (chunks[i].best == LLK_KV_Q4)
        narrow.order[narrow.n++] = i;
    }
  group_sort (&wide, chunks);
  group_sort (&narrow, chunks);

  for (guint n8 = 0; n8 <= wide.n && bytes + n8 * more8 <= budget; n8++)
    {
      guint64 rest = budget - bytes - n8 * more8;
      guint n_left = wide.n - n8 + narrow.n;
      guint n4 = more4 > 0 ? (guint) MIN (rest / more4, n_left) : n_left;
      guint of_wide = split_upgrades (&wide, &narrow, chunks, n8, n4);
      double saved = (error2 - error8) * wide.sums[n8]
                     + (error2 - error4) * (wide.sums[n8 + of_wide] - wide.sums[n8]
                                            + narrow.sums[n4 - of_wide]);

      if (saved > most)
        {
          most = saved;
          best8 = n8;
          best4_wide = of_wide;
          best4_narrow = n4 - of_wide;
        }
    }

  for (guint i = 0; i < best8 + best4_wide; i++)
    formats[wide.order[i]] = i < best8 ? LLK_KV_Q8 : LLK_KV_Q4;
  for (guint i = 0; i < best4_narrow; i++)
    formats[narrow.order[i]] = LLK_KV_Q4;
  group_clear (&wide);
  group_clear (&narrow);

  return bytes + best8 * more8 + (guint64) (best4_wide + best4_narrow) * more4;
}

void
llm_kv_bits_invert (LlmKvBitsChunk *chunks,
                    guint           n)
{
  g_autofree guint *order = g_new (guint, MAX (n, 1));

  for (guint i = 0; i < n; i++)
    order[i] = i;
  g_qsort_with_data (order, (gint) n, sizeof (guint), compare_densities, chunks);
  for (guint i = 0; i < n / 2; i++)
    {
      LlmKvBitsChunk *denser = &chunks[order[i]];
      LlmKvBitsChunk *other = &chunks[order[n - 1 - i]];
      float density = denser->density;

      denser->density = other->density;
      other->density = density;
    }
}
