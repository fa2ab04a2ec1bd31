/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Adapters: what they add to the products of a stage, for the rows of each adapter that has the
 * operator. Rows are sorted, so those of an adapter and a level are neighbours; those of a smaller
 * level have the first inputs and outputs only. A row's sums are its own, whatever other rows a step
 * has.
 */

#include "forward/llm-forward-private.h"

/* Inputs and outputs of an operator that rows of @level have: the first so many. */
static void
get_level_shape (LlmStep     *self,
                 LlmOperator  op,
                 guint        level,
                 guint       *n_in,
                 guint       *n_out)
{
  *n_in = *n_out = 0;
  for (guint segment = 0; segment <= level; segment++)
    {
      LlmSegmentShape shape =
        llm_sub_models_get_shape (self->sub_models, self->hparams, op, self->layer, segment);

      *n_in = MAX (*n_in, shape.in_first + shape.in_count);
      *n_out = MAX (*n_out, shape.out_first + shape.out_count);
    }
}

/* (nullable): what @run adds to the operator @op. */
static const LlmLoraPair *
find_pair (LlmStep             *self,
           const LlmAdapterRun *run,
           LlmOperator          op)
{
  const LlmLoraPair *pair = llm_lora_get_pair (run->adapter, op, self->layer);

  return pair->rank > 0 ? pair : NULL;
}

static void
describe_adapted (LlmStep             *self,
                  const LlmAdapterRun *run,
                  LlmOperator          op,
                  const LlmLoraPair   *pair,
                  float               *between,
                  LlmAdapted          *adapted)
{
  guint n_in, n_out;

  get_level_shape (self, op, run->level, &n_in, &n_out);
  *adapted = (LlmAdapted) {
    .a = pair->a,
    .b = pair->b,
    .scale = pair->scale,
    .first = run->first,
    .n_rows = run->n_rows,
    .between = between + (gsize) run->first * self->plan->max_rank,
  };
  adapted->a.in_count = n_in;
  adapted->b.out_count = n_out;
}

guint
llm_forward_find_adapted (LlmStep           *self,
                          const LlmStage    *stage,
                          guint              i,
                          const LlmAdapted **adapted)
{
  const GArray *runs = llm_stage_is_exit (stage) ? self->logit_runs : self->adapter_runs;
  guint at = self->hold->node->first_op + i;
  LlmAdapted *own;
  guint n = 0;

  if (runs->len == 0)
    return 0;
  /* at their full length first, so that those of other operators stay where they are */
  g_array_set_size (self->hold->adapted, self->hold->node->n_ops * runs->len);
  own = &g_array_index (self->hold->adapted, LlmAdapted, i * runs->len);
  for (guint r = 0; r < runs->len; r++)
    {
      const LlmAdapterRun *run = &g_array_index (runs, LlmAdapterRun, r);
      const LlmLoraPair *pair = find_pair (self, run, stage->ops[at]);

      if (pair != NULL)
        describe_adapted (self, run, stage->ops[at], pair, self->scratch.adapted[at], &own[n++]);
    }
  *adapted = own;
  return n;
}
