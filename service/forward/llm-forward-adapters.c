/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Adapters: behind the products of a stage, y += B (scale × (A x)) for the rows of
 * each adapter that has the operator. Rows are sorted, so those of an adapter and a
 * level are neighbours; each such run has two phases, one a product, of which the first is beside the
 * stage's products where there is one run. Rows of a
 * smaller level have the first inputs and outputs only. A row's sums are its own,
 * whatever other rows a run has.
 */

#include "forward/llm-forward-private.h"

/* What @adapter has for the node's operator @i; NULL for nothing. */
static const LlmLoraPair *
find_pair (LlmStep        *self,
           const LlmStage *stage,
           const LlmLora  *adapter,
           guint           i)
{
  const LlmLoraPair *pair =
    llm_lora_get_pair (adapter, stage->ops[self->hold->node->first_op + i], self->layer);

  return pair->rank > 0 ? pair : NULL;
}

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

/* One of the two products, for the node's operator @i. */
static void
add_half (LlmStep             *self,
          const LlmStage      *stage,
          guint                i,
          const LlmAdapterRun *run,
          const LlmLoraPair   *pair,
          gboolean             is_second)
{
  guint at = self->hold->node->first_op + i;
  float *between = self->scratch.adapted[at];
  LlmWeightView *view = &self->hold->adapter_views[i];
  guint n_in, n_out;
  LlmRows rows;
  LlmProduct product;

  get_level_shape (self, stage->ops[at], run->level, &n_in, &n_out);
  llm_forward_describe_product (self, stage, at, &rows, &product);
  if (is_second)
    {
      for (gsize j = 0; j < (gsize) run->n_rows * pair->rank; j++)
        between[j] *= pair->scale;
      *view = pair->b;
      view->out_count = n_out;
      rows = (LlmRows) { between, pair->rank };
      product.y += run->first * product.y_stride;
      product.is_added = TRUE;
    }
  else
    {
      *view = pair->a;
      view->in_count = n_in;
      rows.values += run->first * rows.stride;
      product.y = between;
      product.y_stride = pair->rank;
      product.is_added = FALSE;
    }
  product.pieces = view;
  product.n_rows = &run->n_rows;
  product.n_pieces = 1;
  llm_step_add_product (self, LLM_N_OPS, &rows, run->n_rows, &product);
}

static void
add_halves (LlmStep             *self,
            const LlmStage      *stage,
            const LlmAdapterRun *run,
            gboolean             is_second)
{
  for (guint i = 0; i < self->hold->node->n_ops; i++)
    {
      const LlmLoraPair *pair = find_pair (self, stage, run->adapter, i);

      if (pair != NULL)
        add_half (self, stage, i, run, pair, is_second);
    }
}

static const GArray *
get_runs (const LlmStep  *self,
          const LlmStage *stage)
{
  return llm_stage_is_exit (stage) ? self->logit_runs : self->adapter_runs;
}

gboolean
llm_forward_add_first_halves (LlmStep        *self,
                              const LlmStage *stage)
{
  const GArray *runs = get_runs (self, stage);
  const LlmAdapterRun *run = runs->len == 1 ? &g_array_index (runs, LlmAdapterRun, 0) : NULL;

  if (run == NULL)
    return FALSE;
  add_halves (self, stage, run, FALSE);
  return TRUE;
}

LlmStatus
llm_forward_run_adapters (LlmStep         *self,
                          const LlmStage  *stage,
                          GError         **error)
{
  const GArray *runs = get_runs (self, stage);
  LlmHold *hold = self->hold;

  for (; hold->phase <= 2 * runs->len; hold->phase++)
    {
      const LlmAdapterRun *run = &g_array_index (runs, LlmAdapterRun, (hold->phase - 1) / 2);

      add_halves (self, stage, run, hold->phase % 2 == 0);
      if (hold->n_ops > 0)
        return llm_step_submit (self, error);
    }
  return LLM_READY;
}
