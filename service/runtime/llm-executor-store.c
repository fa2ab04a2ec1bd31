/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Storage, the KV stores of instances, and saved step costs. */

#define G_LOG_DOMAIN "llm-engine"

#include "io/llm-key-file.h"
#include "runtime/llm-executor-news.h"
#include "runtime/llm-executor-private.h"
#include "runtime/llm-executor-residency.h"
#include "runtime/llm-executor-steps.h"
#include "runtime/llm-executor-upkeep.h"

/* How long an unload, and the end of the service, wait for writes. */
#define SETTLE_US (2 * G_USEC_PER_SEC)

#define COSTS_PREFIX "costs"
/* Increased when the meaning of the numbers changes. */
#define COSTS_VERSION 1
/* Costs are saved after this many steps with new measurements. */
#define KEEP_STEPS 20
#define KEEP_INTERVAL_US (60 * G_USEC_PER_SEC)

/* --- stores --- */

LlmProfileKey
llm_runner_get_profile_key (LlmRunner *self)
{
  return (LlmProfileKey) {
    .identity = llm_model_get_identity (self->instance->model),
    .kernels = self->instance->config.kernels->name,
    .n_threads = llm_worker_pool_get_n_threads (self->executor->steps.pools.all),
    .is_exact = self->instance->config.is_exact,
  };
}

static gboolean
find_profile (LlmRunner    *self,
              LlmKvProfile *profile)
{
  const LlmExecutorConfig *config = &self->executor->config;
  LlmProfileKey key = llm_runner_get_profile_key (self);

  return llm_profile_load (config->cache_folder, &key, profile)
         || llm_profile_load (config->system_cache_folder, &key, profile);
}

void
llm_runner_open_store (LlmRunner *self)
{
  LlmExecutor *executor = self->executor;
  guint64 identity = llm_instance_find_identity (self->instance, self->check.record.lineage);
  guint64 *last = g_hash_table_lookup (executor->upkeep.identities, GUINT_TO_POINTER (self->id));
  LlmKvProfile profile;

  if (last != NULL && *last != identity)
    llm_executor_post_moved (executor, 0, LLM_RESIDENCY_TEXT, 0);
  g_hash_table_insert (executor->upkeep.identities, GUINT_TO_POINTER (self->id),
                       g_memdup2 (&identity, sizeof identity));

  executor->steps.ran_us = llm_clock_now_us ();
  llm_instance_open_store (self->instance, self->check.holds_back ? NULL : executor->upkeep.storage,
                           identity);
  self->is_measured = find_profile (self, &profile);
  if (self->is_measured)
    self->instance->store->profile = profile;
}

static void
settle (LlmKvStore *store)
{
  gint64 end = llm_clock_now_us () + SETTLE_US;

  while (!llm_kv_store_is_settled (store) && llm_clock_now_us () < end)
    if (!llm_kv_store_work (store, MIN (llm_clock_now_us () + SLICE_US, end)))
      llm_kv_store_wait (store, DISK_WAIT_US);
}

/* Contexts that end with their connections are never restored, so nothing of them is kept. */
static void
drop_sessions (LlmRunner *self)
{
  g_autoptr(GPtrArray) ids = g_ptr_array_new_with_free_func (g_free);
  LlmKvStorage *storage = self->executor->upkeep.storage;

  LLM_EACH_VALUE (const LlmSession, session, self->sessions)
    if (session->context != NULL && !session->is_named)
      g_ptr_array_add (ids, g_strdup (session->context));
  g_queue_clear_full (&self->prefixes, (GDestroyNotify) llm_session_free);
  g_hash_table_remove_all (self->sessions);
  if (storage == NULL || !__atomic_load_n (&self->executor->is_ending, __ATOMIC_ACQUIRE))
    return;
  LLM_EACH (const char, id, ids)
    llm_kv_storage_remove (storage, id);
}

void
llm_runner_close_store (LlmRunner *self)
{
  LlmExecutor *executor = self->executor;
  LlmKvStore *store = self->instance->store;

  g_clear_pointer (&self->profile_run, llm_profile_run_free);
  llm_kv_store_stop_reading (store);
  settle (store);
  llm_kv_store_evict (store, G_MAXUINT64, TRUE);
  llm_executor_tell_all (executor);
  llm_executor_publish (executor);
  drop_sessions (self);
  llm_kv_counters_add (&executor->news.board.earlier, &store->counters);
  llm_instance_close_store (self->instance);
}

/* --- storage --- */

void
llm_executor_open_storage (LlmExecutor *self)
{
  g_autoptr(GError) error = NULL;
  LlmDisk *disk;

  if (self->config.chunks_folder == NULL)
    return;
  disk = llm_disk_new (self->config.disk, &error);
  if (disk != NULL)
    self->upkeep.storage = llm_kv_storage_new (self->config.chunks_folder, disk,
                                        self->config.storage_limit,
                                        self->config.app_storage_limit, &error);
  if (self->upkeep.storage == NULL)
    g_warning ("Contexts are not kept on storage, they are computed from their text again: %s",
               error->message);
}

void
llm_executor_reopen_storage (LlmExecutor *self)
{
  if (self->config.chunks_folder == NULL || self->requests->len > 0
      || (self->upkeep.storage != NULL && llm_kv_storage_is_in_place (self->upkeep.storage)))
    return;
  LLM_EACH (LlmRunner, runner, self->runners)
    {
      llm_runner_close_store (runner);
      llm_runner_end_stream (runner);
    }
  g_clear_pointer (&self->upkeep.storage, llm_kv_storage_free);
  llm_executor_open_storage (self);
  llm_executor_post_moved (self, 0, LLM_RESIDENCY_TEXT, 0);
  LLM_EACH (LlmRunner, runner, self->runners)
    {
      llm_runner_begin_stream (runner);
      llm_runner_begin_check (runner);
      llm_runner_open_store (runner);
    }
}

typedef struct _LlmSweep
{
  LlmCommand base;
  GHashTable *ids;          /* (nullable) (owned): all known contexts */
  GHashTable *stored;       /* (nullable) (owned): those with chunks on storage */
  LlmStorageSwept swept;
  gpointer data;
} LlmSweep;

static void
clear_sweep (LlmCommand *base)
{
  LlmSweep *sweep = (LlmSweep *) base;

  g_clear_pointer (&sweep->ids, g_hash_table_unref);
  g_clear_pointer (&sweep->stored, g_hash_table_unref);
}

static void
deliver_swept (LlmCommand *base)
{
  const LlmSweep *sweep = (const LlmSweep *) base;

  sweep->swept (sweep->stored, sweep->data);
}

/* Contexts that were made since the index was read have sessions. */
void
llm_executor_sweep_ids (LlmExecutor *self)
{
  LlmSweep *sweep = g_steal_pointer (&self->upkeep.sweep);

  sweep->stored = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  LLM_EACH (LlmRunner, runner, self->runners)
    LLM_EACH_VALUE (const LlmSession, session, runner->sessions)
      if (session->context != NULL)
        g_hash_table_add (sweep->ids, g_strdup (session->context));
  if (self->upkeep.storage != NULL)
    {
      llm_kv_storage_sweep (self->upkeep.storage, sweep->ids);
      LLM_EACH_VALUE (const char, id, sweep->ids)
        if (llm_kv_storage_get_folder_bytes (self->upkeep.storage, id) > 0)
          g_hash_table_add (sweep->stored, g_strdup (id));
    }
  llm_command_reply (&sweep->base, deliver_swept);
}

void
llm_executor_forget_sweep (LlmExecutor *self)
{
  if (self->upkeep.sweep != NULL)
    llm_command_unref (&g_steal_pointer (&self->upkeep.sweep)->base);
}

static void
take_ids (LlmCommand *base)
{
  llm_executor_forget_sweep (base->executor);
  base->executor->upkeep.sweep = (LlmSweep *) llm_command_ref (base);
}

void
llm_executor_sweep_storage (LlmExecutor    *self,
                            GHashTable     *ids,
                            LlmStorageSwept swept,
                            gpointer        data)
{
  LlmSweep *sweep = llm_command_new_of (LlmSweep, self, take_ids, clear_sweep);

  sweep->ids = ids;
  sweep->swept = swept;
  sweep->data = data;
  llm_command_send (&sweep->base);
}

/* Another thread waits for free disk space. */
typedef struct
{
  LlmCommand base;
  guint64 bytes;            /* wanted */
  GAsyncQueue *ended;       /* (owned): gets it at the end, with the bytes freed */
} Trim;

static void
clear_trim (LlmCommand *base)
{
  g_async_queue_unref (((Trim *) base)->ended);
}

/* Takes the reference of trim_storage(). */
static void
end_trim (gpointer data)
{
  Trim *trim = data;

  g_async_queue_push (trim->ended, trim);
}

static void
trim_storage (LlmCommand *base)
{
  Trim *trim = (Trim *) llm_command_ref (base);
  LlmExecutor *self = base->executor;

  trim->bytes = self->upkeep.storage != NULL ? llm_kv_storage_trim (self->upkeep.storage, trim->bytes) : 0;
  if (trim->bytes == 0)
    {
      end_trim (trim);
      return;
    }
  self->news.is_told = FALSE;
  llm_executor_publish (self);
  llm_kv_storage_settle (self->upkeep.storage, end_trim, trim);
}

guint64
llm_executor_trim_storage (LlmExecutor *self,
                           guint64      bytes)
{
  g_autoptr(GAsyncQueue) ended = g_async_queue_new ();
  Trim *trim = llm_command_new_of (Trim, self, trim_storage, clear_trim);

  trim->bytes = bytes;
  trim->ended = g_async_queue_ref (ended);
  llm_command_send (&trim->base);
  trim = g_async_queue_pop (ended);
  bytes = trim->bytes;
  llm_command_unref (&trim->base);
  return bytes;
}

/* --- what steps cost --- */

static guint
count_steps (const LlmCostModel *costs)
{
  return costs->curves[LLM_COST_PREFILL].n_steps + costs->curves[LLM_COST_DECODE].n_steps;
}

void
llm_runner_load_costs (LlmRunner *self)
{
  const LlmExecutor *executor = self->executor;
  LlmCostModel *costs = &self->scheduler->costs;
  LlmProfileKey key = llm_runner_get_profile_key (self);
  g_autoptr(GKeyFile) file =
      llm_machine_file_load (executor->config.cache_folder, COSTS_PREFIX, COSTS_VERSION, &key);
  LlmKvProfile profile;

  llm_runner_load_levels (self);
  llm_runner_load_channels (self);
  if (file == NULL)
    file = llm_machine_file_load (executor->config.system_cache_folder, COSTS_PREFIX, COSTS_VERSION,
                                  &key);
  if ((file == NULL || !llm_cost_model_load (costs, file))
      && find_profile (self, &profile))
    llm_cost_model_seed_prompts (costs, llm_kv_profile_rows, profile.prompt_us,
                                 LLM_KV_PROFILE_POINTS, profile.depth_us);
  if (file != NULL)
    llm_level_costs_load (&self->scheduler->levels, file);
  self->n_steps_kept = count_steps (costs);
  self->costs_kept_us = llm_clock_now_us ();
}

void
llm_runner_save_costs (LlmRunner *self)
{
  const LlmExecutor *executor = self->executor;
  const LlmCostModel *costs = &self->scheduler->costs;
  LlmProfileKey key = llm_runner_get_profile_key (self);
  gint64 now = llm_clock_now_us ();
  g_autoptr(GKeyFile) file = NULL;
  g_autoptr(GError) error = NULL;

  if (executor->config.cache_folder == NULL || !llm_cost_model_is_known (costs)
      || count_steps (costs) < self->n_steps_kept + KEEP_STEPS
      || (self->n_steps_kept > 0 && now < self->costs_kept_us + KEEP_INTERVAL_US))
    return;

  self->n_steps_kept = count_steps (costs);
  self->costs_kept_us = now;
  file = g_key_file_new ();
  llm_cost_model_store (costs, file);
  llm_level_costs_store (&self->scheduler->levels, file);
  if (!llm_machine_file_save (executor->config.cache_folder, executor->config.shares_cache,
                              COSTS_PREFIX, COSTS_VERSION, &key, file, FALSE, &error))
    g_message ("What steps cost here was not kept: %s", error->message);
}
