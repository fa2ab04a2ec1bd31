/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-engine"

#include "runtime/llm-executor.h"

#include "base/llm-clock.h"
#include "base/llm-worker-pool.h"
#include "runtime/llm-executor-private.h"

typedef struct
{
  LlmExecutor *executor;   /* (unowned) */
  LlmModel *model;         /* (nullable) (owned) */
  LlmWeights *weights;     /* (nullable) (owned) */
  guint64 from;            /* a session */
  guint64 to;
  char *context;           /* (nullable) (owned): id of the session's context */
  gboolean is_named;
  LlmReclaimDone done;     /* (nullable) */
  gpointer data;
} Command;

static Command *
command_new (LlmExecutor *self)
{
  Command *command = g_new0 (Command, 1);

  command->executor = self;
  return command;
}

static void
command_free (Command *command)
{
  g_clear_pointer (&command->model, llm_model_unref);
  g_clear_pointer (&command->weights, llm_weights_free);
  g_free (command->context);
  g_free (command);
}

/* --- the executor's thread --- */

static void
drop_model (LlmExecutor *self)
{
  if (self->model != NULL)
    llm_executor_keep_costs (self);
  llm_executor_drop_store (self);
  llm_executor_end_check (self);
  for (guint i = 0; i < LLM_N_LANES; i++)
    g_clear_pointer (&self->lanes[i].forward, llm_forward_free);
  g_clear_pointer (&self->weights, llm_weights_free);
  self->n_moved++;
  g_clear_pointer (&self->model, llm_model_unref);
}

static void
set_model (gpointer data)
{
  Command *command = data;
  LlmExecutor *self = command->executor;
  guint64 before = llm_ledger_get_total (self->ledger);
  guint64 after;

  g_assert (self->runs->len == 0);
  drop_model (self);
  if (command->model != NULL)
    {
      const LlmHparams *hparams = llm_model_get_hparams (command->model);

      self->model = g_steal_pointer (&command->model);
      self->weights = g_steal_pointer (&command->weights);
      /* The little that is read from the model file itself is, in any case. */
      __atomic_store_n (&self->weights_are_backed,
                        self->weights->backed > self->weights->bytes / 2, __ATOMIC_RELAXED);
      self->ahead = G_MAXUINT64;
      llm_executor_make_store (self);
      llm_executor_load_costs (self);
      for (guint i = 0; i < LLM_N_LANES; i++)
        {
          self->lanes[i].forward = llm_forward_new (hparams, self->weights, self->pool,
                                                    self->kernels, self->ledger);
          llm_forward_set_density (self->lanes[i].forward, self->kv_ratio > 0);
        }
    }
  after = llm_ledger_get_total (self->ledger);
  __atomic_store_n (&self->measure_us, 0, __ATOMIC_RELAXED);
  llm_executor_publish (self);
  llm_executor_report (self, command->done, before > after ? before - after : 0, command->data);
}

static void
submit (gpointer data)
{
  LlmJob *job = data;
  LlmExecutor *self = job->executor;

  llm_executor_begin_run (self, job);
}

static void
drop_session (gpointer data)
{
  Command *command = data;
  LlmExecutor *self = command->executor;
  LlmSession *session = g_hash_table_lookup (self->sessions, &command->from);

  g_assert (session == NULL || !session->is_busy);
  g_hash_table_remove (self->sessions, &command->from);
  if (self->storage != NULL)
    llm_kv_storage_remove (self->storage, command->context);
  llm_executor_publish (self);
}

static void
fork_session (gpointer data)
{
  Command *command = data;
  LlmExecutor *self = command->executor;
  LlmSession *from = g_hash_table_lookup (self->sessions, &command->from);
  LlmSession *to;

  if (from == NULL || !from->is_attached)
    return;
  to = llm_executor_get_session (self, command->to, from->app, command->context,
                                 command->is_named);
  llm_session_drop (to);
  llm_session_fork (to, from);
  llm_executor_tell (self, to);
  llm_executor_publish (self);
}

static void
run_give_scratch (gpointer data)
{
  Command *command = data;
  LlmExecutor *self = command->executor;
  guint64 freed = 0;

  for (guint i = 0; i < LLM_N_LANES; i++)
    if (self->lanes[i].forward != NULL)
      freed += llm_forward_trim (self->lanes[i].forward);
  llm_executor_publish (self);
  llm_executor_report (self, command->done, freed, command->data);
}

static void
nothing (gpointer data)
{
}

/* Shortens @timeout to the time until @then; 0 stands for never. */
static gint64
wake_at (gint64 timeout,
         gint64 then,
         gint64 now)
{
  gint64 left = MAX (1000, then - now);

  return then > 0 && (timeout < 0 || left < timeout) ? left : timeout;
}

/* How long the thread may sleep: until the next deadline of a job, or until the
 * next word of one is due. */
static gint64
find_timeout (LlmExecutor *self)
{
  gint64 now = llm_clock_now_us ();
  gint64 timeout = -1;
  gboolean is_suspended = llm_executor_is_suspended (self);

  for (guint i = 0; i < self->runs->len; i++)
    {
      LlmRun *run = g_ptr_array_index (self->runs, i);

      timeout = wake_at (timeout, run->job->deadline_us, now);
      if (is_suspended)
        continue;
      timeout = wake_at (timeout, run->due_us, now);
      if (!run->has_begun && !__atomic_load_n (&run->job->is_parked, __ATOMIC_ACQUIRE))
        timeout = wake_at (timeout, run->resume_us, now);
    }
  if (is_suspended)
    return timeout;
  timeout = wake_at (timeout, llm_scheduler_get_wake (self->scheduler), now);
  if (self->runs->len == 0)
    {
      timeout = wake_at (timeout, llm_executor_get_check_time (self), now);
      timeout = wake_at (timeout, llm_executor_get_measure_time (self), now);
    }
  return timeout;
}

/* Runs what there is; without anything, does what is left behind. FALSE when it may sleep. */
static gboolean
run_once (LlmExecutor *self)
{
  LlmTurnEnd end;

  if (llm_executor_is_suspended (self))
    return llm_executor_work_suspended (self);
  end = llm_executor_run_turn (self);
  if (end == LLM_TURN_NONE && llm_executor_has_opening (self))
    end = LLM_TURN_WAITS;
  if (end != LLM_TURN_NONE)
    llm_executor_work_beside (self);
  if (end == LLM_TURN_WAITS)
    llm_executor_wait_for_disk (self);
  return end != LLM_TURN_NONE || llm_executor_work (self);
}

static gpointer
run_executor (gpointer data)
{
  LlmExecutor *self = data;
  gboolean has_work = FALSE;

  llm_executor_open_storage (self);
  while (!__atomic_load_n (&self->is_ending, __ATOMIC_ACQUIRE))
    {
      llm_mailbox_dispatch (self->inbox, has_work ? 0 : find_timeout (self));
      llm_executor_sweep (self);
      llm_executor_serve_gives (self);
      has_work = run_once (self) || !g_queue_is_empty (&self->gives);
    }

  llm_executor_end_suspend (self);
  llm_executor_abandon_lanes (self);
  g_ptr_array_set_size (self->runs, 0);
  if (self->weights != NULL)
    self->weights->keeps_cache = TRUE;
  drop_model (self);
  llm_executor_close_storage (self);
  return NULL;
}

/* --- the main thread --- */

LlmExecutor *
llm_executor_new (LlmMailbox              *main_box,
                  LlmLedger               *ledger,
                  const LlmExecutorConfig *config)
{
  LlmExecutor *self = g_new0 (LlmExecutor, 1);
  guint n_background = config->n_background_threads;

  self->may_crowd = n_background == 0;
  self->main_box = main_box;
  self->ahead = G_MAXUINT64;
  self->keep_bytes = G_MAXUINT64;
  self->ledger = llm_ledger_ref (ledger);
  self->kernels = config->kernels;
  self->is_exact = config->is_exact;
  self->chunk_slots = config->chunk_slots;
  self->kv_ratio = config->kv_ratio;
  self->short_wait_us = (gint64) config->short_wait_s * G_USEC_PER_SEC;
  self->chunks_folder = g_strdup (config->chunks_folder);
  self->cache_folder = g_strdup (config->cache_folder);
  self->system_cache_folder = g_strdup (config->system_cache_folder);
  self->shares_cache = config->shares_cache;
  self->disk = g_strdup (config->disk);
  self->storage_limit = config->storage_limit;
  self->app_storage_limit = config->app_storage_limit;
  g_mutex_init (&self->counters_lock);
  g_queue_init (&self->gives);
  self->missing = g_array_new (FALSE, FALSE, sizeof (guint));
  self->inbox = llm_mailbox_new ();
  self->background_niceness = config->background_niceness;
  self->pool = llm_worker_pool_new (config->n_threads);
  if (n_background == 0)
    n_background = (llm_worker_pool_get_n_threads (self->pool) + 1) / 2;
  self->background_pool = llm_worker_pool_new_background (n_background,
                                                          config->background_niceness);
  self->is_fifo = config->is_fifo;
  self->overload_factor = config->overload_factor;
  self->scheduler = llm_scheduler_new (config->is_fifo ? LLM_SCHEDULER_FIFO
                                                       : LLM_SCHEDULER_DEADLINE,
                                       LLM_BATCH_MAX_ROWS);
  self->sessions = g_hash_table_new_full (g_int64_hash, g_int64_equal, NULL,
                                          (GDestroyNotify) llm_session_free);
  self->runs = g_ptr_array_new_with_free_func ((GDestroyNotify) llm_executor_free_run);
  for (guint i = 0; i < LLM_N_LANES; i++)
    llm_lane_init (&self->lanes[i], LLM_BATCH_MAX_ROWS);
  self->shares = g_new (LlmShare, LLM_BATCH_MAX_ROWS);
  llm_executor_make_measurer (self);
  self->thread = g_thread_new ("llm-executor", run_executor, self);
  return self;
}

void
llm_executor_stop (LlmExecutor *self)
{
  if (self->thread == NULL)
    return;
  __atomic_store_n (&self->is_ending, TRUE, __ATOMIC_RELEASE);
  llm_executor_poke (self);
  g_thread_join (g_steal_pointer (&self->thread));
  g_thread_pool_free (g_steal_pointer (&self->measurer), FALSE, TRUE);
}

void
llm_executor_free (LlmExecutor *self)
{
  llm_executor_stop (self);
  g_queue_clear_full (&self->gives, g_free);
  g_array_unref (self->missing);
  g_clear_pointer (&self->ids, g_hash_table_unref);
  g_clear_pointer (&self->shares_by_app, g_hash_table_unref);
  g_mutex_clear (&self->counters_lock);
  g_free (self->chunks_folder);
  g_free (self->cache_folder);
  g_free (self->system_cache_folder);
  g_free (self->disk);
  g_ptr_array_unref (self->runs);
  g_hash_table_unref (self->sessions);
  for (guint i = 0; i < LLM_N_LANES; i++)
    llm_lane_clear (&self->lanes[i]);
  g_free (self->shares);
  llm_scheduler_free (self->scheduler);
  llm_worker_pool_free (self->pool);
  llm_worker_pool_free (self->background_pool);
  g_clear_pointer (&self->slow_pool, llm_worker_pool_free);
  g_clear_pointer (&self->crowd_pool, llm_worker_pool_free);
  g_free (self->suspend);
  llm_mailbox_free (self->inbox);
  llm_ledger_unref (self->ledger);
  g_free (self);
}

void
llm_executor_set_moved (LlmExecutor    *self,
                        LlmSessionMoved moved,
                        gpointer        data)
{
  self->moved = moved;
  self->moved_data = data;
}

void
llm_executor_set_model (LlmExecutor   *self,
                        LlmModel      *model,
                        LlmWeights    *weights,
                        LlmReclaimDone done,
                        gpointer       data)
{
  Command *command = command_new (self);

  command->model = model != NULL ? llm_model_ref (model) : NULL;
  command->weights = weights;
  command->done = done;
  command->data = data;
  llm_mailbox_post (self->inbox, set_model, command, (GDestroyNotify) command_free);
}

void
llm_executor_submit (LlmExecutor *self,
                     LlmJob      *job)
{
  job->executor = self;
  llm_mailbox_post (self->inbox, submit, llm_job_ref (job), (GDestroyNotify) llm_job_unref);
}

void
llm_executor_poke (LlmExecutor *self)
{
  llm_mailbox_post (self->inbox, nothing, NULL, NULL);
}

void
llm_executor_drop_session (LlmExecutor *self,
                           guint64      session,
                           const char  *context)
{
  Command *command = command_new (self);

  command->from = session;
  command->context = g_strdup (context);
  llm_mailbox_post (self->inbox, drop_session, command, (GDestroyNotify) command_free);
}

void
llm_executor_fork_session (LlmExecutor *self,
                           guint64      from,
                           guint64      to,
                           const char  *context,
                           gboolean     is_named)
{
  Command *command = command_new (self);

  command->from = from;
  command->to = to;
  command->context = g_strdup (context);
  command->is_named = is_named;
  llm_mailbox_post (self->inbox, fork_session, command, (GDestroyNotify) command_free);
}

guint64
llm_executor_get_scratch (LlmExecutor *self)
{
  return __atomic_load_n (&self->scratch_bytes, __ATOMIC_RELAXED);
}

void
llm_executor_give_scratch (LlmExecutor   *self,
                           LlmReclaimDone done,
                           gpointer       data)
{
  Command *command = command_new (self);

  command->done = done;
  command->data = data;
  llm_mailbox_post (self->inbox, run_give_scratch, command, (GDestroyNotify) command_free);
}

guint64
llm_executor_get_n_steps (LlmExecutor *self)
{
  return __atomic_load_n (&self->n_steps, __ATOMIC_RELAXED);
}

guint64
llm_executor_get_n_rows (LlmExecutor *self)
{
  return __atomic_load_n (&self->n_rows, __ATOMIC_RELAXED);
}

guint64
llm_executor_get_n_read (LlmExecutor *self)
{
  return __atomic_load_n (&self->n_read, __ATOMIC_RELAXED);
}

guint64
llm_executor_get_n_written (LlmExecutor *self)
{
  return __atomic_load_n (&self->n_written, __ATOMIC_RELAXED);
}
