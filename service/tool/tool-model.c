/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tool-model.h"

#include <glib/gi18n.h>
#include <string.h>

#include "base/llm-fail.h"
#include "common/llmsvc-error.h"
#include "engine/llm-settings.h"
#include "forward/llm-feedback.h"
#include "weights/llm-repacked-cache.h"

ToolModelOptions tool_model_options = { .n_call = 64 };

gboolean
tool_model_has_policy (void)
{
  const ToolModelOptions *options = &tool_model_options;

  return options->kv != NULL || options->kv_ratio > 0 || options->kv_bits > 0;
}

const char *
tool_model_options_check (void)
{
  const ToolModelOptions *options = &tool_model_options;

  if (options->path == NULL || options->threads < 0)
    return _("Say --model FILE, and 0 or more --threads");
  if (options->kv != NULL && strcmp (options->kv, "llms") != 0
      && strcmp (options->kv, "llms-inverted") != 0)
    return _("--kv is “llms” or “llms-inverted”");
  if (!(options->kv_ratio >= 0 && options->kv_ratio <= 100))
    return _("--kv-ratio is at most 100 percent");
  if (options->kv_bits != 0 && options->kv_bits != 8
      && !(options->kv_bits >= 2 && options->kv_bits <= 4))
    return _("--kv-bits is 8, 4, 3 or 2");
  if (options->active < 0 || options->active > LLM_MAX_SPARSITY)
    return _("--active is 0 to 80 percent");
  if (options->keeps_smallest && options->active == 0)
    return _("--keep-smallest is for --active");
  if (options->n_call < 1)
    return _("--call-tokens is 1 or more");
  return NULL;
}

static LlmKvPolicy
make_policy (void)
{
  const ToolModelOptions *options = &tool_model_options;
  LlmKvPolicy policy = llm_kv_policy_llms;

  if (g_strcmp0 (options->kv, "llms-inverted") == 0)
    policy.density = -1;
  if (options->kv_ratio > 0)
    policy.ratio = options->kv_ratio / 100;
  if (options->kv_bits > 0)
    {
      policy.compression = LLM_KV_UNIFORM;
      policy.uniform = options->kv_bits == 8 ? LLK_KV_Q8
                       : options->kv_bits == 4 ? LLK_KV_Q4
                       : options->kv_bits == 3 ? LLK_KV_Q3 : LLK_KV_Q2;
    }
  return policy;
}

LlmKvStore *
tool_model_new_store (ToolModel          *self,
                      const LlmKvPolicy  *policy,
                      GError            **error)
{
  g_autofree float *feedback = policy != NULL ? llm_feedback_new (llm_model_get_gguf (self->model),
                                                                  self->hparams, llk_ops_best ())
                                              : NULL;
  LlmKvLayer layers[LLM_MAX_LAYERS];
  LlmKvLayout layout =
    llm_forward_get_layout (self->hparams, tool_model_options.is_f32 ? LLK_KV_F32 : LLK_KV_F16,
                            LLM_KV_CHUNK_SLOTS, layers);

  layout.feedback = feedback;
  return llm_kv_store_new (&layout, policy, NULL, error);
}

/* As the service would use them, or as the file has them. */
static LlmWeights *
new_weights (LlmModel  *model,
             LlmLevels *levels,
             GError   **error)
{
  LlmGguf *gguf = llm_model_get_gguf (model);
  const LlmHparams *hparams = llm_model_get_hparams (model);
  const LlmSubModels *table = llm_levels_get_table (levels);
  g_autoptr(LlmSettings) settings = llm_settings_new ();
  g_autoptr(LlmRepackedCache) cache = NULL;

  if (tool_model_options.is_exact)
    return llm_weights_new_mapped (gguf, hparams, table, NULL, error);

  llm_settings_set_cache (settings, FALSE);
  cache = llm_repacked_cache_new (settings->cache_folder, FALSE, settings->system_cache_folder, 0);
  return llm_weights_new_repacked (gguf, hparams, table, cache,
                                   (guint) tool_model_options.threads, NULL, error);
}

/* Where a sparsity is asked for: @config has it then. */
static gboolean
choose_sparsity (const LlmLevels *levels,
                 LlmPlanConfig   *config,
                 GError         **error)
{
  guint active = (guint) tool_model_options.active;

  config->thresholds = llm_levels_get_thresholds (levels);
  config->keeps_smallest = tool_model_options.keeps_smallest;
  if (active == 0)
    return TRUE;
  if (config->thresholds == NULL)
    return llm_fail (error, LLMSVC_ERROR_UNSUPPORTED,
                     "%s has no activation thresholds in a companion beside it; calibrate them with "
                     "llmsvc-active, or leave --active out", tool_model_options.path);
  config->sparsity = (guint8) llm_thresholds_choose (config->thresholds, active);
  if (config->sparsity != active)
    return llm_fail (error, LLMSVC_ERROR_UNSUPPORTED,
                     "%s has no thresholds for %u percent; the next lower ones are for %u",
                     tool_model_options.path, active, (guint) config->sparsity);
  return TRUE;
}

static gboolean
choose_level (const LlmSubModels *table,
              guint               percent,
              LlmPlanConfig      *config,
              GError            **error)
{
  guint level = llm_sub_models_find_level (table, percent);

  config->sub_model = table->percent[level];
  if (table->percent[level] == percent)
    return TRUE;
  return llm_fail (error, LLMSVC_ERROR_UNSUPPORTED,
                   "%s has no sub-model of %u percent; the next larger one has %u", tool_model_options.path,
                   percent, (guint) table->percent[level]);
}

/* Where a sub-model or a sparsity is asked for: @config has it then. */
static gboolean
open_levels (LlmModel       *model,
             LlmLevels     **levels,
             LlmPlanConfig  *config,
             GError        **error)
{
  GError *cause = NULL;
  const LlmSubModels *table;

  if (tool_model_options.sub_model == 0 && tool_model_options.active == 0)
    return TRUE;
  *levels = llm_levels_open (model, NULL, &cause);
  if (cause != NULL)
    {
      g_propagate_error (error, cause);
      return FALSE;
    }
  if (!choose_sparsity (*levels, config, error))
    return FALSE;
  if (tool_model_options.sub_model == 0)
    return TRUE;
  table = llm_levels_get_table (*levels);
  if (table == NULL)
    return llm_fail (error, LLMSVC_ERROR_UNSUPPORTED,
                     "%s has no sub-models: there is no companion beside it; make one with "
                     "llmsvc-elastic, or leave --sub-model out", tool_model_options.path);
  return choose_level (table, (guint) tool_model_options.sub_model, config, error);
}

ToolModel *
tool_model_open (GError **error)
{
  g_autoptr(ToolModel) self = g_new0 (ToolModel, 1);
  LlmPlanConfig config = { .kernels = llk_ops_best () };
  g_autoptr(LlmLevels) levels = NULL;
  g_autoptr(LlmLora) adapter = NULL;
  g_autoptr(LlmPlan) plan = NULL;
  LlmKvPolicy policy = make_policy ();

  self->model = llm_model_open (tool_model_options.path, error);
  if (self->model == NULL)
    return NULL;

  self->hparams = llm_model_get_hparams (self->model);
  self->tokenizer = llm_model_get_tokenizer (self->model);
  if (!open_levels (self->model, &levels, &config, error))
    return NULL;
  self->weights = new_weights (self->model, levels, error);
  if (self->weights == NULL)
    return NULL;
  self->weights->levels = g_steal_pointer (&levels);

  if (tool_model_options.lora != NULL)
    {
      adapter = llm_lora_open (tool_model_options.lora, llm_model_get_gguf (self->model),
                               self->hparams, NULL, error);
      if (adapter == NULL)
        return NULL;
      config.adapters = &adapter;
      config.n_adapters = 1;
    }
  self->store = tool_model_new_store (self, tool_model_has_policy () ? &policy : NULL, error);
  if (self->store == NULL)
    return NULL;

  self->pool = llm_worker_pool_new ((guint) tool_model_options.threads);
  plan = llm_plan_new (self->hparams, self->weights, &config);
  self->forward = llm_forward_new (plan, self->pool, NULL);
  llm_forward_set_density (self->forward, tool_model_has_policy ());
  return g_steal_pointer (&self);
}

LlmForward *
tool_model_new_forward (ToolModel  *self,
                        guint       percent,
                        GError    **error)
{
  LlmPlanConfig config = { .kernels = llk_ops_best () };
  g_autoptr(LlmPlan) plan = NULL;

  if (!choose_level (self->weights->sub_models, percent, &config, error))
    return NULL;
  plan = llm_plan_new (self->hparams, self->weights, &config);
  return llm_forward_new (plan, self->pool, NULL);
}

void
tool_model_free (ToolModel *self)
{
  if (self == NULL)
    return;

  g_clear_pointer (&self->forward, llm_forward_free);
  g_clear_pointer (&self->pool, llm_worker_pool_free);
  g_clear_pointer (&self->store, llm_kv_store_free);
  g_clear_pointer (&self->weights, llm_weights_free);
  g_clear_pointer (&self->model, llm_model_unref);
  g_free (self);
}

GArray *
tool_model_encode (ToolModel  *self,
                   const char *text,
                   gboolean    is_markup)
{
  GArray *tokens = g_array_new (FALSE, FALSE, sizeof (gint32));
  LlmTextPart part = { text, strlen (text), is_markup };

  llm_tokenizer_encode (self->tokenizer, &part, 1, TRUE, tokens);
  return tokens;
}
