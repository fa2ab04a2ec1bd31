/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What steps cost, over restarts: a file in the folder of the cache for each model. */

#define G_LOG_DOMAIN "llm-engine"

#include "base/llm-clock.h"
#include "runtime/llm-executor-private.h"
#include "io/llm-machine-file.h"

#define PREFIX "costs"
/* Raised when what the numbers mean changes. */
#define VERSION 1

/* It is written when something new was learned, and not all the time. */
#define KEEP_STEPS 20
#define KEEP_INTERVAL_US (60 * G_USEC_PER_SEC)

static guint
count_steps (const LlmCostModel *costs)
{
  return costs->curves[LLM_COST_READ].n_steps + costs->curves[LLM_COST_WRITE].n_steps;
}

void
llm_executor_load_costs (LlmExecutor *self)
{
  LlmCostModel *costs = llm_scheduler_get_costs (self->scheduler);
  LlmProfileKey key = llm_executor_get_profile_key (self);
  g_autoptr(GKeyFile) file = llm_machine_file_load (self->cache_folder, PREFIX, VERSION, &key);
  LlmKvProfile profile;

  llm_cost_model_init (costs);
  if (file == NULL)
    file = llm_machine_file_load (self->system_cache_folder, PREFIX, VERSION, &key);
  if ((file == NULL || !llm_cost_model_load (costs, file))
      && (llm_profile_load (self->cache_folder, &key, &profile)
          || llm_profile_load (self->system_cache_folder, &key, &profile)))
    llm_cost_model_seed_prompts (costs, llm_kv_profile_rows, profile.prompt_us,
                                 LLM_KV_PROFILE_POINTS, profile.depth_us);
  self->n_steps_kept = count_steps (costs);
  self->costs_kept_us = llm_clock_now_us ();
}

void
llm_executor_keep_costs (LlmExecutor *self)
{
  const LlmCostModel *costs = llm_scheduler_get_costs (self->scheduler);
  LlmProfileKey key = llm_executor_get_profile_key (self);
  gint64 now = llm_clock_now_us ();
  g_autoptr(GKeyFile) file = NULL;
  g_autoptr(GError) error = NULL;

  if (self->cache_folder == NULL || !llm_cost_model_is_known (costs)
      || count_steps (costs) < self->n_steps_kept + KEEP_STEPS
      || (self->n_steps_kept > 0 && now < self->costs_kept_us + KEEP_INTERVAL_US))
    return;

  self->n_steps_kept = count_steps (costs);
  self->costs_kept_us = now;
  file = g_key_file_new ();
  llm_cost_model_store (costs, file);
  if (!llm_machine_file_save (self->cache_folder, self->shares_cache, PREFIX, VERSION, &key, file,
                              FALSE, &error))
    g_message ("What steps cost here was not kept: %s", error->message);
}
