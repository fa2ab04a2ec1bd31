/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "kv/llm-kv-plan.h"

/* Unit of LlmKvProfile.depth_us, in slots. */
#define DEPTH_UNIT 1000.0

const guint llm_kv_profile_rows[LLM_KV_PROFILE_POINTS] = { 1, 16, 64, 128, 256, 512 };

gboolean
llm_kv_profile_is_measured (const LlmKvProfile *self)
{
  if (!(self->read_latency_us >= 0 && self->read_bytes_per_us > 0 && self->depth_us >= 0))
    return FALSE;
  for (guint i = 0; i < LLM_KV_PROFILE_POINTS; i++)
    if (!(self->prompt_us[i] > 0))
      return FALSE;

  return TRUE;
}

/* @depths: the sum over the rows of the slots before them. */
static double
get_compute_us (const LlmKvProfile *profile,
                double              n_rows,
                double              depths)
{
  const guint *rows = llm_kv_profile_rows;
  double from = profile->prompt_us[0];
  double to = from;
  guint i = 0;

  if (n_rows <= 0)
    return 0;

  /* More rows never cost less, even if a disturbed measurement says so. */
  do
    {
      i++;
      from = to;
      to = MAX (from, profile->prompt_us[i]);
    }
  while (i < LLM_KV_PROFILE_POINTS - 1 && n_rows > rows[i]);

  return from + (to - from) * (n_rows - rows[i - 1]) / (double) (rows[i] - rows[i - 1])
         + profile->depth_us * depths / DEPTH_UNIT;
}

double
llm_kv_profile_get_prompt_us (const LlmKvProfile *self,
                              guint               n_rows,
                              guint               depth)
{
  return get_compute_us (self, n_rows, (double) n_rows * depth);
}

double
llm_kv_profile_get_read_us (const LlmKvProfile *self,
                            guint64             bytes)
{
  if (bytes == 0 || !(self->read_bytes_per_us > 0))
    return 0;

  return self->read_latency_us + (double) bytes / self->read_bytes_per_us;
}

/* The largest first; of equals the first chunk, whose rows see the fewest slots. */
static int
compare_chunks (gconstpointer a,
                gconstpointer b,
                gpointer      data)
{
  const LlmKvPlanChunk *chunks = data;
  guint first = *(const guint *) a;
  guint second = *(const guint *) b;

  if (chunks[first].bytes != chunks[second].bytes)
    return chunks[first].bytes > chunks[second].bytes ? -1 : 1;
  return first < second ? -1 : 1;
}

/* Cost of computing @n_chunks again, and the new rows. The places of the chunks are unknown: they
 * see half of what the new rows see, on average. */
static double
get_plan_us (const LlmKvProfile *profile,
             guint               chunk_slots,
             guint               n_chunks,
             guint               n_new,
             guint               depth)
{
  double rows = (double) n_chunks * chunk_slots;

  return get_compute_us (profile, rows + n_new, rows * depth / 2 + (double) n_new * depth);
}

void
llm_kv_plan_make (LlmKvPlanChunk     *chunks,
                  guint               n,
                  guint               chunk_slots,
                  guint               n_new,
                  guint               depth,
                  const LlmKvProfile *profile,
                  gboolean            may_recompute,
                  LlmKvPlan          *plan)
{
  g_autofree guint *choices = g_new (guint, MAX (n, 1));
  guint n_choices = 0;
  guint n_lost = 0;
  guint n_best = 0;
  guint64 bytes = 0;
  double least;

  *plan = (LlmKvPlan) { 0 };
  may_recompute = may_recompute && llm_kv_profile_is_measured (profile);

  for (guint i = 0; i < n; i++)
    {
      chunks[i].recomputes = chunks[i].bytes == 0;
      if (chunks[i].recomputes)
        n_lost++;
      else if (may_recompute && !chunks[i].is_fixed)
        choices[n_choices++] = i;
      bytes += chunks[i].bytes;
    }
  g_qsort_with_data (choices, (gint) n_choices, sizeof (guint), compare_chunks, chunks);

  /* The cost of computing a chunk does not depend on which it is, so the first k to compute are the
   * k that take longest to read; k is found by trying all. */
  plan->read_bytes = bytes;
  plan->compute_us = get_plan_us (profile, chunk_slots, n_lost, n_new, depth);
  least = MAX (plan->compute_us, llm_kv_profile_get_read_us (profile, bytes));
  for (guint k = 1; k <= n_choices; k++)
    {
      double compute = get_plan_us (profile, chunk_slots, n_lost + k, n_new, depth);
      double longer;

      bytes -= chunks[choices[k - 1]].bytes;
      longer = MAX (compute, llm_kv_profile_get_read_us (profile, bytes));
      if (longer < least)
        {
          least = longer;
          n_best = k;
          plan->read_bytes = bytes;
          plan->compute_us = compute;
        }
    }

  for (guint k = 0; k < n_best; k++)
    chunks[choices[k]].recomputes = TRUE;
  plan->n_recomputed = n_lost + n_best;
  plan->n_read = n - plan->n_recomputed;
  plan->read_us = llm_kv_profile_get_read_us (profile, plan->read_bytes);
}
