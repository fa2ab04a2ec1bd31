/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "forward/llm-plan.h"

#include "forward/llm-forward-private.h"

static gboolean
has_op (const LlmHparams *hparams,
        LlmOperator       op,
        guint             layer)
{
  return llm_operator_is_layered (op) ? llm_operator_is_in_layer (hparams, op, layer)
                                      : llm_operator_is_used (hparams, op);
}

static gboolean
is_needed (const LlmStage   *stage,
           const LlmHparams *hparams,
           guint             layer)
{
  if (stage->is_needed != NULL)
    return stage->is_needed (hparams, layer);
  for (guint i = 0; i < stage->n_ops; i++)
    if (has_op (hparams, stage->ops[i], layer))
      return TRUE;
  return FALSE;
}

static void
add_node (GArray         *nodes,
          const LlmStage *stage,
          guint           layer,
          guint           first_op,
          guint           n_ops,
          guint           used_ops,
          gboolean        has_adapters)
{
  LlmPlanNode node = { stage, layer, first_op, n_ops, used_ops, stage->reads, stage->writes };

  if (stage->acquires == LLM_ACQUIRE_SEGMENTS)
    {
      node.reads |= LLM_BUFFER_AT (stage->x);
      for (guint i = 0; i < n_ops && !stage->is_residual; i++)
        if ((used_ops & 1u << (first_op + i)) != 0)
          node.writes |= LLM_BUFFER_AT (stage->y[first_op + i]);
      for (guint i = 0; i < n_ops && has_adapters; i++)
        node.writes |= LLM_BUFFER (adapted[0]) << (first_op + i);
    }
  g_array_append_val (nodes, node);
}

static void
add_stage (LlmPlan        *self,
           GArray         *nodes,
           const LlmStage *stage,
           guint           layer)
{
  gboolean has_products = stage->acquires == LLM_ACQUIRE_SEGMENTS;
  guint n_ops = stage->is_residual ? 1 : stage->n_ops;
  gboolean has_adapters = self->n_adapters > 0;
  guint used_ops = 0;

  for (guint i = 0; i < stage->n_ops; i++)
    if (has_op (self->hparams, stage->ops[i], layer)
        || (stage->ops[i] == LLM_OP_OUTPUT && self->hparams->has_tied_output))
      used_ops |= 1u << i;
  if (!self->config.is_split || !has_products)
    add_node (nodes, stage, layer, 0, n_ops, used_ops, has_adapters);
  else
    for (guint i = 0; i < n_ops; i++)
      if ((used_ops & 1u << i) != 0)
        add_node (nodes, stage, layer, i, 1, used_ops, has_adapters);
}

static void
add_stages (LlmPlan        *self,
            GArray         *nodes,
            const LlmStage *stages,
            guint           layer)
{
  for (const LlmStage *stage = stages; stage->run != NULL; stage++)
    if (is_needed (stage, self->hparams, layer))
      add_stage (self, nodes, stage, layer);
}

static void
add_adapter (LlmPlan *self,
             LlmLora *adapter)
{
  self->adapters[self->n_adapters++] = llm_lora_ref (adapter);
  self->max_rank = MAX (self->max_rank, adapter->max_rank);
}

static void
take_adapters (LlmPlan *self)
{
  const LlmLevels *levels = self->weights->levels;

  g_assert (self->config.n_adapters <= LLM_PLAN_MAX_ADAPTERS - LLM_MAX_LEVELS);
  self->adapters = g_new (LlmLora *, self->config.n_adapters + LLM_MAX_LEVELS);
  for (guint i = 0; i < self->config.n_adapters; i++)
    add_adapter (self, self->config.adapters[i]);
  self->config.adapters = NULL;
  for (guint level = 0; levels != NULL && level < LLM_MAX_LEVELS; level++)
    if (levels->adapters[level] != NULL)
      {
        add_adapter (self, levels->adapters[level]);
        self->level_adapters[level] = (guint8) self->n_adapters;
      }
}

LlmPlan *
llm_plan_new (const LlmHparams    *hparams,
              LlmWeights          *weights,
              const LlmPlanConfig *config)
{
  LlmPlan *self = g_new0 (LlmPlan, 1);
  g_autoptr(GArray) nodes = g_array_new (FALSE, FALSE, sizeof (LlmPlanNode));
  guint widest = MAX (MAX (hparams->n_embd, hparams->n_ff), hparams->query_width);

  g_atomic_ref_count_init (&self->ref_count);
  self->hparams = hparams;
  self->weights = weights;
  self->config = *config;
  for (guint i = 0; i < G_N_ELEMENTS (self->ones); i++)
    self->ones[i] = 1;
  take_adapters (self);
  widest = MAX (widest, self->max_rank);
  self->cpu = llm_backend_cpu_new (config->kernels);
  self->widest = widest;
  self->row_bytes = llm_matmul_get_row_bytes (widest);

  add_stages (self, nodes, llm_entry_stages, 0);
  for (guint layer = 0; layer < hparams->n_layers; layer++)
    add_stages (self, nodes, llm_layer_stages, layer);
  self->first_exit = nodes->len;
  add_stages (self, nodes, llm_exit_stages, 0);
  self->n_nodes = nodes->len;
  self->nodes = (LlmPlanNode *) (gpointer) g_array_free (g_steal_pointer (&nodes), FALSE);
  return self;
}

LlmPlan *
llm_plan_ref (LlmPlan *self)
{
  g_atomic_ref_count_inc (&self->ref_count);
  return self;
}

void
llm_plan_unref (LlmPlan *self)
{
  if (!g_atomic_ref_count_dec (&self->ref_count))
    return;
  llm_backend_free (self->cpu);
  for (guint i = 0; i < self->n_adapters; i++)
    llm_lora_unref (self->adapters[i]);
  g_free (self->adapters);
  g_free (self->nodes);
  g_free (self);
}
