/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The idle phase: chunks are quantized and written, the machine is measured, weights are
 * checked. */

#define G_LOG_DOMAIN "llm-engine"

#include "runtime/llm-executor-news.h"
#include "runtime/llm-executor-private.h"
#include "runtime/llm-executor-residency.h"
#include "runtime/llm-executor-steps.h"
#include "runtime/llm-executor-upkeep.h"

/* A slice of idle work beside running requests, and how often. */
#define BESIDE_US 1000
#define BESIDE_INTERVAL_US 25000
/* How often the figures are updated while requests run. */
#define PUBLISH_INTERVAL_US 100000
/* The machine is measured when no request has run for this time. */
#define PROFILE_IDLE_US (20 * G_USEC_PER_SEC)
/* If that failed, for lack of memory or disk space, it is tried again after this time, then after
 * twice as long, and so on. */
#define PROFILE_RETRY_US (G_GINT64_CONSTANT (60) * G_USEC_PER_SEC)
#define PROFILE_MAX_RETRY_US (60 * PROFILE_RETRY_US)
/* With less budget left than so many positions of a context take, the stores' work does not wait
 * until nothing runs. */
#define SHORT_SLOTS 1024

/* --- what restoring costs here --- */

/* Reclaimed weights are not restored for this; with most of them on the disk, it would measure the
 * disk. */
static gboolean
has_weights (LlmRunner *self)
{
  LlmWeights *weights = self->instance->weights;

  return weights->held == weights->bytes
         && llm_weights_get_resident (weights) >= weights->bytes / 2;
}

static gint64
get_measure_time (LlmRunner *self)
{
  const LlmExecutor *executor = self->executor;

  if (executor->upkeep.storage == NULL || self->is_measured
      || __atomic_load_n (&executor->memory.is_pressed, __ATOMIC_ACQUIRE) || !has_weights (self))
    return 0;
  return MAX (executor->steps.ran_us + PROFILE_IDLE_US, self->measure_us);
}

static void
take_profile (LlmRunner          *self,
              const LlmKvProfile *profile)
{
  const LlmExecutorConfig *config = &self->executor->config;
  LlmProfileKey key = llm_runner_get_profile_key (self);
  g_autoptr(GError) error = NULL;

  self->instance->store->profile = *profile;
  llm_cost_model_seed_prompts (&self->scheduler->costs, llm_kv_profile_rows,
                               profile->prompt_us, LLM_KV_PROFILE_POINTS, profile->depth_us);
  if (config->cache_folder != NULL
      && !llm_profile_save (config->cache_folder, config->shares_cache, &key, profile, &error))
    g_message ("What restoring contexts costs here was measured, but not kept: %s",
               error->message);
}

static void
measure_later (LlmRunner    *self,
               const GError *error)
{
  self->measure_wait_us = CLAMP (2 * self->measure_wait_us, PROFILE_RETRY_US, PROFILE_MAX_RETRY_US);
  self->measure_us = llm_clock_now_us () + self->measure_wait_us;
  g_message ("What restoring contexts costs here was not measured, it is tried again when nothing "
             "runs in %" G_GINT64_FORMAT " s: %s", self->measure_wait_us / G_USEC_PER_SEC,
             error->message);
}

/* Measures a slice, until the costs are known. TRUE when more is left. */
static gboolean
measure (LlmRunner *self)
{
  LlmExecutor *executor = self->executor;
  const LlmInstance *instance = self->instance;
  gint64 then_us = get_measure_time (self);
  LlmKvProfile profile;
  g_autoptr(GError) error = NULL;
  LlmStatus status;

  if (then_us == 0 || llm_clock_now_us () < then_us)
    return FALSE;
  if (self->profile_run == NULL)
    self->profile_run =
        llm_profile_run_new (instance->plan, executor->steps.pools.all, executor->ledger,
                             llm_kv_storage_get_disk (executor->upkeep.storage),
                             executor->config.chunks_folder);
  status = llm_profile_run_work (self->profile_run, llm_clock_now_us () + SLICE_US, &profile,
                                 &error);
  if (status == LLM_PENDING)
    return TRUE;

  g_clear_pointer (&self->profile_run, llm_profile_run_free);
  self->is_measured = status == LLM_READY;
  if (self->is_measured)
    take_profile (self, &profile);
  else
    measure_later (self, error);
  return FALSE;
}

gint64
llm_executor_get_idle_time (LlmExecutor *self)
{
  gint64 least_us = 0;

  LLM_EACH (LlmRunner, runner, self->runners)
    {
      gint64 times[] = { llm_runner_get_check_time (runner), get_measure_time (runner) };

      for (guint j = 0; j < G_N_ELEMENTS (times); j++)
        if (times[j] > 0 && (least_us == 0 || times[j] < least_us))
          least_us = times[j];
    }
  return least_us;
}

/* --- stores --- */

/* TRUE when it did something. */
static gboolean
work_on_stores (LlmExecutor *self)
{
  gboolean has_work = FALSE;

  LLM_EACH (LlmRunner, runner, self->runners)
    {
      LlmKvStore *store = runner->instance->store;

      if (llm_kv_store_is_settled (store))
        continue;
      has_work = TRUE;
      self->news.is_told = FALSE;
      if (!llm_kv_store_work (store, llm_clock_now_us () + SLICE_US)
          && !llm_kv_store_is_settled (store))
        llm_kv_store_wait (store, DISK_WAIT_US);
    }
  return has_work;
}

/* Restores chunks that requests displaced, now that the requests' own chunks are quantized. What
 * does not fit now stays on storage; under memory pressure, or to save power, all of it does. TRUE
 * when something is read. */
static gboolean
refill_stores (LlmExecutor *self)
{
  guint64 wanted = self->memory.displaced_bytes;

  self->memory.displaced_bytes = 0;
  if (wanted == 0 || __atomic_load_n (&self->memory.is_pressed, __ATOMIC_ACQUIRE)
      || __atomic_load_n (&self->steps.pace, __ATOMIC_ACQUIRE) != LLM_PACE_RUN)
    return FALSE;
  LLM_EACH (LlmRunner, runner, self->runners)
    {
      guint64 bytes = llm_kv_store_refill (runner->instance->store, wanted);

      if (bytes == 0)
        continue;
      self->memory.displaced_bytes = wanted - MIN (bytes, wanted);
      return TRUE;
    }
  return FALSE;
}

static gboolean
check_weights (LlmRunner *self)
{
  gboolean reopens;

  if (llm_runner_work_check (self, &reopens))
    return TRUE;
  if (reopens)
    {
      llm_runner_close_store (self);
      llm_runner_open_store (self);
    }
  return FALSE;
}

gboolean
llm_executor_work (LlmExecutor *self)
{
  if (self->upkeep.sweep != NULL)
    {
      llm_executor_reopen_storage (self);
      llm_executor_sweep_ids (self);
    }
  llm_executor_keep_all_weights (self);
  if (llm_executor_read_ahead (self) || llm_executor_read_w8_ahead (self) || work_on_stores (self))
    return TRUE;

  /* evicted chunks are written first, which is work again */
  llm_executor_keep_quotas (self);
  LLM_EACH (LlmRunner, runner, self->runners)
    if (!llm_kv_store_is_settled (runner->instance->store))
      return TRUE;
  if (refill_stores (self))
    return TRUE;

  LLM_EACH (LlmRunner, runner, self->runners)
    llm_runner_save_costs (runner);
  if (!self->news.is_told)
    {
      llm_executor_trim_stores (self);
      llm_executor_tell_all (self);
      llm_executor_publish (self);
      if (self->upkeep.storage != NULL)
        llm_disk_trim (llm_kv_storage_get_disk (self->upkeep.storage));
    }
  LLM_EACH (LlmRunner, runner, self->runners)
    if (check_weights (runner) || measure (runner))
      return TRUE;
  return FALSE;
}

void
llm_executor_work_beside (LlmExecutor *self)
{
  gint64 now = llm_clock_now_us ();
  gboolean has_worked = FALSE;

  self->steps.ran_us = now;
  if (now - self->news.board.shown_us >= PUBLISH_INTERVAL_US)
    llm_executor_publish (self);
  if (now - self->upkeep.worked_us >= BESIDE_INTERVAL_US && llm_executor_read_ahead (self))
    self->upkeep.worked_us = now;
  LLM_EACH (LlmRunner, runner, self->runners)
    {
      LlmKvStore *store = runner->instance->store;

      if (llm_kv_store_is_settled (store)
          || (now - self->upkeep.worked_us < BESIDE_INTERVAL_US
              && llm_ledger_has_room (self->ledger, llm_kv_store_price (store, SHORT_SLOTS))))
        continue;
      llm_kv_store_work (store, now + BESIDE_US);
      has_worked = TRUE;
    }
  if (!has_worked)
    return;
  self->upkeep.worked_us = llm_clock_now_us ();
  self->news.is_told = FALSE;
}

void
llm_executor_wait_for_disk (LlmExecutor *self)
{
  LlmDisk *disk = llm_executor_get_disk (self);

  if (disk != NULL)
    llm_disk_poll (disk, DISK_WAIT_US);
}
