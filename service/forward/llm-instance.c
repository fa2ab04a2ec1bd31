/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "forward/llm-instance.h"

#include "forward/llm-feedback.h"

LlmInstance *
llm_instance_new (const LlmInstanceConfig *config,
                  LlmModel                *model,
                  LlmWeights              *weights)
{
  LlmInstance *self = g_new0 (LlmInstance, 1);
  const LlmPlanConfig plan = {
    .kernels = config->kernels, .w8 = config->w8, .thresholds = llm_levels_get_thresholds (weights->levels),
  };

  self->config = *config;
  self->model = llm_model_ref (model);
  self->hparams = llm_model_get_hparams (model);
  self->weights = weights;
  self->plan = llm_plan_new (self->hparams, weights, &plan);
  self->forwards = g_new0 (LlmForward *, config->n_forwards);
  for (guint i = 0; i < config->n_forwards; i++)
    {
      self->forwards[i] = llm_forward_new (self->plan, config->pool, config->ledger);
      llm_forward_set_density (self->forwards[i], config->kv_ratio > 0);
    }
  return self;
}

void
llm_instance_free (LlmInstance *self)
{
  llm_instance_close_store (self);
  for (guint i = 0; i < self->config.n_forwards; i++)
    llm_forward_free (self->forwards[i]);
  g_free (self->forwards);
  llm_plan_unref (self->plan);
  llm_weights_free (self->weights);
  llm_model_unref (self->model);
  g_free (self);
}

static LlmKvLayout
get_layout (LlmInstance *self,
            LlmKvLayer  *layers)
{
  return llm_forward_get_layout (self->hparams, LLK_KV_F16, self->config.chunk_slots, layers);
}

guint64
llm_instance_find_identity (LlmInstance *self,
                            guint64      lineage)
{
  LlmKvLayer layers[LLM_MAX_LAYERS];
  LlmKvLayout layout = get_layout (self, layers);
  const LlmLevels *levels = self->weights->levels;
  g_autofree char *companion =
    levels != NULL ? g_strdup_printf ("%" G_GINT64_MODIFIER "x",
                                      llm_gguf_get_weights_hash (levels->companion->gguf))
                   : NULL;
  const LlmThresholds *thresholds = llm_levels_get_thresholds (levels);
  g_autofree char *active =
    thresholds != NULL ? g_strdup_printf (" active %" G_GINT64_MODIFIER "x",
                                          llm_thresholds_hash (thresholds))
                       : NULL;
  g_autofree char *text =
      g_strdup_printf ("%s %" G_GINT64_MODIFIER "x %u %u %u %u %u %u %s %d%s%s%s",
                       llm_model_get_weight_identity (self->model), lineage, LLM_ARITHMETIC,
                       layout.format, layout.n_layers, layout.n_kv_heads, layout.head_dim,
                       layout.chunk_slots, self->config.kernels->name, self->config.is_exact,
                       companion != NULL ? " " : "", companion != NULL ? companion : "",
                       active != NULL ? active : "");
  g_autofree char *sum = g_compute_checksum_for_string (G_CHECKSUM_SHA256, text, -1);

  sum[16] = '\0';
  return g_ascii_strtoull (sum, NULL, 16);
}

void
llm_instance_open_store (LlmInstance  *self,
                         LlmKvStorage *storage,
                         guint64       identity)
{
  g_autofree guint *windows = g_new0 (guint, self->hparams->n_layers);
  g_autofree float *feedback = NULL;
  LlmKvPolicy policy = llm_kv_policy_llms;
  LlmKvLayer layers[LLM_MAX_LAYERS];
  LlmKvLayout layout = get_layout (self, layers);

  g_assert (self->store == NULL);
  for (guint i = 0; i < self->hparams->n_layers; i++)
    windows[i] = self->hparams->layers[i].window;
  layout.windows = windows;
  policy.ratio = self->config.kv_ratio;
  if (self->config.kv_ratio > 0)
    feedback = llm_feedback_new (llm_model_get_gguf (self->model), self->hparams,
                                 self->config.kernels);
  layout.feedback = feedback;
  if (self->config.kv_ratio <= 0)
    policy.compression = LLM_KV_KEEP;
  self->store = llm_kv_store_new (&layout, &policy, self->config.ledger, NULL);
  g_assert (self->store != NULL);
  self->store->narrows = policy.compression != LLM_KV_KEEP;
  llm_kv_store_set_storage (self->store, storage, identity);
}

void
llm_instance_set_kv_ratio (LlmInstance *self,
                           double       ratio)
{
  g_return_if_fail (ratio > 0 && self->config.kv_ratio > 0);

  self->config.kv_ratio = ratio;
  if (self->store != NULL)
    llm_kv_store_set_ratio (self->store, ratio);
}

void
llm_instance_close_store (LlmInstance *self)
{
  g_clear_pointer (&self->store, llm_kv_store_free);
}

guint64
llm_instance_get_scratch (LlmInstance *self)
{
  guint64 bytes = 0;

  for (guint i = 0; i < self->config.n_forwards; i++)
    bytes += llm_forward_get_scratch (self->forwards[i]);
  return bytes;
}
