/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "sched/llm-strategy.h"

/* Differences smaller than this factor do not count. */
#define NOTICEABLE 0.98

static gboolean
is_better (const LlmStrategy *a,
           const LlmStrategy *b)
{
  if (a->loss != b->loss)
    return a->loss < b->loss;
  if (a->sub_model != b->sub_model)
    return a->sub_model > b->sub_model;
  if (a->prompt_level != b->prompt_level)
    return a->prompt_level > b->prompt_level;
  return a->sparsity < b->sparsity;
}

/* Over 1: the factor by which the worst of its limits is missed. */
static double
find_excess (const LlmStrategy       *strategy,
             const LlmStrategyLimits *limits,
             double                   wait_us)
{
  double first = limits->first_us > 0 ? (wait_us + strategy->alone_us) / limits->first_us : 0;
  double token = limits->token_us > 0 ? strategy->token_us / limits->token_us : 0;
  double call = limits->call_us > 0 ? (wait_us + strategy->alone_us
                                       + limits->n_further * strategy->token_us) / limits->call_us
                                    : 0;

  return MAX (MAX (first, token), call);
}

static gboolean
find_best (const LlmStrategy       *strategies,
           guint                    n,
           const LlmStrategyLimits *limits,
           gboolean                 waits,
           guint                   *best)
{
  gboolean has_any = FALSE;

  for (guint i = 0; i < n; i++)
    {
      if (find_excess (&strategies[i], limits, waits ? strategies[i].wait_us : 0) > 1
          || (has_any && !is_better (&strategies[i], &strategies[*best])))
        continue;
      has_any = TRUE;
      *best = i;
    }
  return has_any;
}

guint
llm_strategy_choose (const LlmStrategy       *strategies,
                     guint                    n,
                     const LlmStrategyLimits *limits)
{
  guint best = 0;

  g_assert (n > 0);
  if (find_best (strategies, n, limits, TRUE, &best)
      || find_best (strategies, n, limits, FALSE, &best))
    return best;
  for (guint i = 1; i < n; i++)
    {
      double excess = find_excess (&strategies[i], limits, 0);
      double least = find_excess (&strategies[best], limits, 0);

      if (is_better (&strategies[i], &strategies[best]) ? NOTICEABLE * excess <= least
                                                        : excess < NOTICEABLE * least)
        best = i;
    }
  return best;
}

void
llm_strategy_sort_losses (double *losses,
                          guint   n)
{
  for (guint i = n; i-- > 1;)
    losses[i - 1] = MAX (losses[i - 1], losses[i]);
}
