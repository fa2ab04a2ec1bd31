/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The store of the loaded model, storage, and the work that calls leave behind. */

#define G_LOG_DOMAIN "llm-engine"

#include "base/llm-clock.h"
#include "runtime/llm-executor-private.h"

/* Part of the identity of what is on storage: another number, and all of it is computed again. */
#define KV_VERSION 1

/* A slice of the store's work, while nothing runs: what a call that arrives may have to wait
 * for. */
#define SLICE_US 2000
/* The same beside running calls, and how often. */
#define BESIDE_US 1000
#define BESIDE_INTERVAL_US 25000
/* How often the figures follow what running calls hold. */
#define PUBLISH_INTERVAL_US 100000
/* How long the thread waits for the disk before it looks at its inbox again. */
#define DISK_WAIT_US 2000
/* How long an unload, and the end of the service, wait for what is not written yet. */
#define SETTLE_US (2 * G_USEC_PER_SEC)
/* The machine is measured when nothing was asked for so long. */
#define PROFILE_IDLE_US (20 * G_USEC_PER_SEC)
/* Fewer bytes left in the budget than so many of a context's slots take: the store's work must not
 * wait until nothing runs. */
#define SHORT_SLOTS 1024

/* --- storage --- */

void
llm_executor_open_storage (LlmExecutor *self)
{
  g_autoptr(GError) error = NULL;
  LlmDisk *disk;

  if (self->chunks_folder == NULL)
    return;
  disk = llm_disk_new (self->disk, &error);
  if (disk != NULL)
    self->storage = llm_kv_storage_new (self->chunks_folder, disk, self->storage_limit,
                                        self->app_storage_limit, &error);
  if (self->storage == NULL)
    g_warning ("Contexts are not kept on storage, they are computed from their text again: %s",
               error->message);
}

void
llm_executor_close_storage (LlmExecutor *self)
{
  g_clear_pointer (&self->storage, llm_kv_storage_free);
}

typedef struct
{
  LlmExecutor *executor;  /* (unowned): ends behind the main box */
  GHashTable *stored;     /* (owned) (element-type utf8) */
} Swept;

static void
swept_free (Swept *swept)
{
  g_hash_table_unref (swept->stored);
  g_free (swept);
}

static void
deliver_swept (gpointer data)
{
  Swept *swept = data;

  swept->executor->swept (swept->stored, swept->executor->swept_data);
}

/* The folder could not be used at the start, or is another one by now. */
static void
reopen_storage (LlmExecutor *self)
{
  gboolean has_store = self->store != NULL;

  if (self->chunks_folder == NULL || self->runs->len > 0 ||
      (self->storage != NULL && llm_kv_storage_is_in_place (self->storage)))
    return;
  llm_executor_drop_store (self);
  llm_executor_close_storage (self);
  llm_executor_open_storage (self);
  llm_executor_tell_moved (self, 0, LLM_RESIDENCY_TEXT, 0);
  if (has_store)
    llm_executor_make_store (self);
}

/* Contexts that came since the index was read have sessions. */
static void
sweep_storage (LlmExecutor *self)
{
  g_autoptr(GHashTable) ids = g_steal_pointer (&self->ids);
  Swept *swept = g_new (Swept, 1);
  GHashTableIter iter;
  LlmSession *session;
  char *id;

  *swept = (Swept) { self, g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL) };
  if (self->storage != NULL)
    {
      g_hash_table_iter_init (&iter, self->sessions);
      while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &session))
        if (session->context != NULL)
          g_hash_table_add (ids, g_strdup (session->context));
      llm_kv_storage_sweep (self->storage, ids);
      g_hash_table_iter_init (&iter, ids);
      while (g_hash_table_iter_next (&iter, (gpointer *) &id, NULL))
        if (llm_kv_storage_get_folder_bytes (self->storage, id) > 0)
          g_hash_table_add (swept->stored, g_strdup (id));
    }
  llm_mailbox_post (self->main_box, deliver_swept, swept, (GDestroyNotify) swept_free);
}

typedef struct
{
  LlmExecutor *executor;
  GHashTable *ids;        /* (nullable) (owned) */
  LlmStorageSwept swept;
  gpointer data;
} Sweep;

static void
sweep_free (Sweep *sweep)
{
  g_clear_pointer (&sweep->ids, g_hash_table_unref);
  g_free (sweep);
}

static void
take_sweep (gpointer data)
{
  Sweep *sweep = data;
  LlmExecutor *self = sweep->executor;

  g_clear_pointer (&self->ids, g_hash_table_unref);
  self->ids = g_steal_pointer (&sweep->ids);
  self->swept = sweep->swept;
  self->swept_data = sweep->data;
}

void
llm_executor_sweep_storage (LlmExecutor    *self,
                            GHashTable     *ids,
                            LlmStorageSwept swept,
                            gpointer        data)
{
  Sweep *sweep = g_new (Sweep, 1);

  *sweep = (Sweep) { self, ids, swept, data };
  llm_mailbox_post (self->inbox, take_sweep, sweep, (GDestroyNotify) sweep_free);
}

/* Somebody in another thread waits for room on the disk. */
typedef struct
{
  LlmExecutor *executor;
  guint64 bytes;          /* wanted, then what came free */
  GMutex lock;
  GCond ended;
  gboolean has_ended;     /* guarded by lock */
} Trim;

static void
end_trim (gpointer data)
{
  Trim *trim = data;

  g_mutex_lock (&trim->lock);
  trim->has_ended = TRUE;
  g_cond_signal (&trim->ended);
  g_mutex_unlock (&trim->lock);
}

static void
trim_storage (gpointer data)
{
  Trim *trim = data;
  LlmExecutor *self = trim->executor;

  trim->bytes = self->storage != NULL ? llm_kv_storage_trim (self->storage, trim->bytes) : 0;
  if (trim->bytes == 0)
    {
      end_trim (trim);
      return;
    }
  self->is_told = FALSE;
  llm_executor_publish (self);
  llm_kv_storage_settle (self->storage, end_trim, trim);
}

guint64
llm_executor_trim_storage (LlmExecutor *self,
                           guint64      bytes)
{
  Trim trim = { .executor = self, .bytes = bytes };

  g_mutex_init (&trim.lock);
  g_cond_init (&trim.ended);
  llm_mailbox_post (self->inbox, trim_storage, &trim, NULL);
  g_mutex_lock (&trim.lock);
  while (!trim.has_ended)
    g_cond_wait (&trim.ended, &trim.lock);
  g_mutex_unlock (&trim.lock);
  g_mutex_clear (&trim.lock);
  g_cond_clear (&trim.ended);
  return trim.bytes;
}

/* --- the store --- */

/* K and V that one store computed are good for another one of the same identity. */
static guint64
find_identity (LlmExecutor       *self,
               const LlmKvLayout *layout)
{
  g_autofree char *text =
      g_strdup_printf ("%s %" G_GINT64_MODIFIER "x %u %u %u %u %u %u %s %d",
                       llm_model_get_weight_identity (self->model), self->check.record.lineage,
                       KV_VERSION, layout->format, layout->n_layers, layout->n_kv_heads,
                       layout->head_dim, layout->chunk_slots, self->kernels->name, self->is_exact);
  g_autofree char *sum = g_compute_checksum_for_string (G_CHECKSUM_SHA256, text, -1);

  sum[16] = '\0';
  return g_ascii_strtoull (sum, NULL, 16);
}

LlmProfileKey
llm_executor_get_profile_key (LlmExecutor *self)
{
  return (LlmProfileKey) {
    .identity = llm_model_get_identity (self->model),
    .kernels = self->kernels->name,
    .n_threads = llm_worker_pool_get_n_threads (self->pool),
    .is_exact = self->is_exact,
  };
}

void
llm_executor_make_store (LlmExecutor *self)
{
  llm_executor_begin_check (self);
  llm_executor_open_store (self);
}

void
llm_executor_open_store (LlmExecutor *self)
{
  const LlmHparams *hparams = llm_model_get_hparams (self->model);
  g_autofree guint *windows = g_new0 (guint, hparams->n_layers);
  LlmKvPolicy policy = *llm_kv_policy_find ("llms");
  LlmProfileKey key = llm_executor_get_profile_key (self);
  LlmKvProfile profile;
  LlmKvLayout layout = {
    .kind = LLM_KV_FULL,
    .format = LLK_KV_F16,
    .n_layers = hparams->n_layers,
    .n_kv_heads = hparams->n_kv_heads,
    .head_dim = hparams->head_dim,
    .chunk_slots = self->chunk_slots,
    .windows = windows,
  };
  guint64 identity;

  for (guint i = 0; i < hparams->n_layers; i++)
    windows[i] = hparams->layers[i].window;
  policy.ratio = self->kv_ratio;
  if (self->kv_ratio <= 0)
    policy.compression = LLM_KV_KEEP;
  identity = find_identity (self, &layout);
  if (self->kv_identity != 0 && identity != self->kv_identity)
    llm_executor_tell_moved (self, 0, LLM_RESIDENCY_TEXT, 0);
  self->kv_identity = identity;

  self->ran_us = llm_clock_now_us ();
  self->store = llm_kv_store_new (&layout, &policy, self->ledger, NULL);
  g_assert (self->store != NULL);
  llm_kv_store_set_storage (self->store, self->check.holds_back ? NULL : self->storage, identity);
  self->is_measured = llm_profile_load (self->cache_folder, &key, &profile)
                      || llm_profile_load (self->system_cache_folder, &key, &profile);
  if (self->is_measured)
    llm_kv_store_set_profile (self->store, &profile);
}

static void
settle (LlmExecutor *self)
{
  gint64 end = llm_clock_now_us () + SETTLE_US;

  while (!llm_kv_store_is_settled (self->store) && llm_clock_now_us () < end)
    if (!llm_kv_store_work (self->store, MIN (llm_clock_now_us () + SLICE_US, end)))
      llm_kv_store_wait (self->store, DISK_WAIT_US);
}

static void
add_counters (LlmKvCounters       *sum,
              const LlmKvCounters *counters)
{
  sum->n_packed += counters->n_packed;
  sum->n_written += counters->n_written;
  sum->n_evicted += counters->n_evicted;
  sum->n_restored += counters->n_restored;
  sum->n_recomputed += counters->n_recomputed;
  sum->n_faulted += counters->n_faulted;
  sum->n_shared += counters->n_shared;
  sum->read_bytes += counters->read_bytes;
  sum->written_bytes += counters->written_bytes;
}

/* Contexts that end with their connections have nothing to come back for. */
static void
remove_unnamed (LlmExecutor *self)
{
  g_autoptr(GPtrArray) ids = g_ptr_array_new_with_free_func (g_free);
  GHashTableIter iter;
  LlmSession *session;

  g_hash_table_iter_init (&iter, self->sessions);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &session))
    if (session->context != NULL && !session->is_named)
      g_ptr_array_add (ids, g_strdup (session->context));
  g_hash_table_remove_all (self->sessions);
  for (guint i = 0; self->storage != NULL && i < ids->len; i++)
    llm_kv_storage_remove (self->storage, g_ptr_array_index (ids, i));
}

void
llm_executor_drop_store (LlmExecutor *self)
{
  if (self->store == NULL)
    return;

  g_clear_pointer (&self->profile_run, llm_profile_run_free);
  settle (self);
  llm_kv_store_evict (self->store, G_MAXUINT64, TRUE);
  llm_executor_tell_all (self);
  llm_executor_publish (self);
  if (__atomic_load_n (&self->is_ending, __ATOMIC_ACQUIRE))
    remove_unnamed (self);
  else
    g_hash_table_remove_all (self->sessions);
  add_counters (&self->earlier, llm_kv_store_get_counters (self->store));
  g_clear_pointer (&self->store, llm_kv_store_free);
}

void
llm_executor_get_kv_counters (LlmExecutor   *self,
                              LlmKvCounters *counters)
{
  g_mutex_lock (&self->counters_lock);
  *counters = self->counters;
  g_mutex_unlock (&self->counters_lock);
}

void
llm_executor_publish_counters (LlmExecutor *self)
{
  LlmKvCounters sum = self->earlier;

  if (self->store != NULL)
    add_counters (&sum, llm_kv_store_get_counters (self->store));
  g_mutex_lock (&self->counters_lock);
  self->counters = sum;
  g_mutex_unlock (&self->counters_lock);
}

guint64
llm_executor_get_storage (LlmExecutor *self)
{
  return __atomic_load_n (&self->storage_bytes, __ATOMIC_RELAXED);
}

/* --- what calls leave behind --- */

/* Measures what restoring costs here, once. */
static void
measure (LlmExecutor *self)
{
  LlmProfileKey key = llm_executor_get_profile_key (self);
  LlmKvProfile profile;
  g_autoptr(GError) error = NULL;
  LlmStatus status;

  if (self->profile_run == NULL)
    self->profile_run = llm_profile_run_new (llm_model_get_hparams (self->model), self->weights,
                                             self->pool, self->kernels, self->is_exact,
                                             self->ledger,
                                             llm_kv_storage_get_disk (self->storage),
                                             self->chunks_folder);
  status = llm_profile_run_work (self->profile_run, llm_clock_now_us () + SLICE_US, &profile,
                                 &error);
  if (status == LLM_PENDING)
    return;

  g_clear_pointer (&self->profile_run, llm_profile_run_free);
  self->is_measured = TRUE;
  if (status == LLM_READY)
    {
      llm_kv_store_set_profile (self->store, &profile);
      llm_cost_model_seed_prompts (llm_scheduler_get_costs (self->scheduler), llm_kv_profile_rows,
                                   profile.prompt_us, LLM_KV_PROFILE_POINTS, profile.depth_us);
      if (self->cache_folder == NULL
          || llm_profile_save (self->cache_folder, self->shares_cache, &key, &profile, &error))
        return;
    }
  g_message ("What restoring contexts costs here was not measured: %s", error->message);
}

/* Weights that were given are not brought back for this; and what it measures with most of them
 * on the disk would be the disk. */
static gboolean
has_weights (LlmExecutor *self)
{
  return self->weights->held == self->weights->bytes
         && llm_weights_get_resident (self->weights) >= self->weights->bytes / 2;
}

gint64
llm_executor_get_measure_time (LlmExecutor *self)
{
  if (self->store == NULL || self->storage == NULL || self->is_measured
      || __atomic_load_n (&self->is_pressed, __ATOMIC_ACQUIRE) || !has_weights (self))
    return 0;
  return self->ran_us + PROFILE_IDLE_US;
}

gboolean
llm_executor_work (LlmExecutor *self)
{
  gint64 measure_us = llm_executor_get_measure_time (self);

  if (self->ids != NULL)
    {
      reopen_storage (self);
      sweep_storage (self);
    }
  if (llm_executor_read_ahead (self))
    return TRUE;
  if (self->store != NULL && !llm_kv_store_is_settled (self->store))
    {
      self->is_told = FALSE;
      if (!llm_kv_store_work (self->store, llm_clock_now_us () + SLICE_US)
          && !llm_kv_store_is_settled (self->store))
        llm_kv_store_wait (self->store, DISK_WAIT_US);
      return TRUE;
    }

  /* what leaves is written first, which is work again */
  llm_executor_keep_shares (self);
  if (self->store != NULL && !llm_kv_store_is_settled (self->store))
    return TRUE;

  if (self->model != NULL)
    llm_executor_keep_costs (self);
  if (!self->is_told)
    {
      llm_executor_tell_all (self);
      llm_executor_publish (self);
      if (self->storage != NULL)
        llm_disk_trim (llm_kv_storage_get_disk (self->storage));
    }
  if (llm_executor_check_weights (self))
    return TRUE;
  if (measure_us == 0 || llm_clock_now_us () < measure_us)
    return FALSE;
  measure (self);
  return !self->is_measured;
}

void
llm_executor_work_beside (LlmExecutor *self)
{
  gint64 now = llm_clock_now_us ();
  gint64 interval = BESIDE_INTERVAL_US;

  self->ran_us = now;
  if (now - self->published_us >= PUBLISH_INTERVAL_US)
    llm_executor_publish (self);
  if (now - self->worked_us >= interval && llm_executor_read_ahead (self))
    self->worked_us = now;
  if (self->store == NULL || llm_kv_store_is_settled (self->store))
    return;
  if (!llm_ledger_has_room (self->ledger, llm_kv_store_price (self->store, SHORT_SLOTS)))
    interval = 0;
  if (now - self->worked_us < interval)
    return;
  llm_kv_store_work (self->store, now + BESIDE_US);
  self->worked_us = llm_clock_now_us ();
  self->is_told = FALSE;
}

void
llm_executor_wait_for_disk (LlmExecutor *self)
{
  if (self->store != NULL)
    llm_kv_store_wait (self->store, DISK_WAIT_US);
}
