/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-engine"

#include "runtime/llm-executor.h"

#include "base/llm-worker-pool.h"
#include "runtime/llm-executor-news.h"
#include "runtime/llm-executor-private.h"
#include "runtime/llm-executor-residency.h"
#include "runtime/llm-executor-steps.h"
#include "runtime/llm-executor-upkeep.h"

/* --- instances --- */

static LlmRunner *
runner_new (LlmExecutor *executor,
            guint        id,
            LlmModel    *model,
            LlmWeights  *weights)
{
  LlmInstanceConfig config = executor->instance_config;
  LlmRunner *self = g_new0 (LlmRunner, 1);

  self->executor = executor;
  self->id = id;
  llm_runner_init_prefill (self, weights, llm_model_get_hparams (model));
  config.w8 = self->prefill.backend;
  self->instance = llm_instance_new (&config, model, weights);
  /* The small part that is read from the model file itself is file-backed in any case. */
  self->is_backed = weights->backed > weights->bytes / 2;
  self->ahead = G_MAXUINT64;
  self->scheduler = llm_scheduler_new (executor->config.is_fifo ? LLM_SCHEDULER_FIFO
                                                         : LLM_SCHEDULER_DEADLINE,
                                       LLM_BATCH_MAX_ROWS, executor->steps.accounts);
  self->sessions = g_hash_table_new_full (g_int64_hash, g_int64_equal, NULL,
                                          (GDestroyNotify) llm_session_free);
  for (guint i = 0; i < LLM_N_QUEUES; i++)
    llm_queue_step_init (&self->steps[i], self->instance->forwards[i], LLM_BATCH_MAX_ROWS);
  llm_runner_begin_stream (self);
  llm_runner_begin_check (self);
  llm_runner_open_store (self);
  llm_runner_load_costs (self);
  return self;
}

static void
runner_free (LlmRunner *self)
{
  gboolean keeps_cache = self->instance->weights->keeps_cache;
  LlmStreamFigures stream;

  llm_weights_get_stream_figures (self->instance->weights, &stream);
  llm_stream_figures_add_counts (&self->executor->news.board.earlier_stream, &stream);
  llm_runner_save_costs (self);
  llm_runner_close_store (self);
  g_clear_pointer (&self->check.sum, llm_file_sum_free);
  for (guint i = 0; i < LLM_N_QUEUES; i++)
    llm_queue_step_clear (&self->steps[i]);
  g_hash_table_unref (self->sessions);
  llm_scheduler_free (self->scheduler);
  llm_instance_free (self->instance);
  llm_runner_clear_prefill (self, keeps_cache);
  g_free (self);
}

/* --- the executor's thread --- */

typedef struct
{
  LlmReclaim reclaim;       /* told the bytes freed */
  guint instance;
  LlmModel *model;          /* (nullable) (owned) */
  LlmWeights *weights;      /* (nullable) (owned) */
} NewModel;

static void
clear_model (LlmCommand *base)
{
  NewModel *command = (NewModel *) base;

  g_clear_pointer (&command->model, llm_model_unref);
  g_clear_pointer (&command->weights, llm_weights_free);
}

static void
set_model (LlmCommand *base)
{
  NewModel *command = (NewModel *) base;
  LlmExecutor *self = base->executor;
  LlmRunner *old = llm_executor_find_runner (self, command->instance);
  guint64 before = llm_ledger_get_total (self->ledger);
  guint64 after;

  if (old != NULL)
    {
      g_assert (old->n_requests == 0);
      g_ptr_array_remove (self->runners, old);
    }
  if (command->model != NULL)
    g_ptr_array_add (self->runners, runner_new (self, command->instance, command->model,
                                                g_steal_pointer (&command->weights)));
  after = llm_ledger_get_total (self->ledger);
  __atomic_store_n (&self->memory.measure_us, 0, __ATOMIC_RELAXED);
  llm_executor_report (&command->reclaim, before > after ? before - after : 0);
}

typedef struct
{
  LlmCommand base;
  LlmRequest *request;      /* (owned) */
} NewRequest;

static void
clear_request (LlmCommand *base)
{
  llm_request_unref (((NewRequest *) base)->request);
}

static void
submit (LlmCommand *base)
{
  llm_executor_begin_request (base->executor, ((NewRequest *) base)->request);
}

/* Ends a session, or makes a fork of it. */
typedef struct
{
  LlmCommand base;
  guint64 from, to;
  char *context;            /* (nullable) (owned): of the session that ends, or begins */
  gboolean is_named;
} SessionChange;

static void
clear_change (LlmCommand *base)
{
  g_free (((SessionChange *) base)->context);
}

static void
drop_session (LlmCommand *base)
{
  const SessionChange *command = (const SessionChange *) base;
  LlmExecutor *self = base->executor;

  LLM_EACH (LlmRunner, runner, self->runners)
    {
      LlmSession *session = g_hash_table_lookup (runner->sessions, &command->from);

      g_assert (session == NULL || !session->is_busy);
      g_hash_table_remove (runner->sessions, &command->from);
    }
  if (self->upkeep.storage != NULL)
    llm_kv_storage_remove (self->upkeep.storage, command->context);
  llm_executor_publish (self);
}

static void
fork_session (LlmCommand *base)
{
  const SessionChange *command = (const SessionChange *) base;
  LlmExecutor *self = base->executor;

  LLM_EACH (LlmRunner, runner, self->runners)
    {
      LlmSession *from = g_hash_table_lookup (runner->sessions, &command->from);
      LlmSession *to;

      if (from == NULL || !from->is_attached)
        continue;
      to = llm_session_new (command->to, from->app, command->context, command->is_named,
                            self->ledger, from->store);
      g_hash_table_replace (runner->sessions, &to->id, to);
      llm_session_fork (to, from);
      llm_executor_tell (self, to);
    }
  llm_executor_publish (self);
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

/* How long the thread may sleep: until the next deadline of a request, or until the
 * next token of one is due. */
static gint64
find_timeout (LlmExecutor *self)
{
  gint64 now = llm_clock_now_us ();
  gint64 timeout = -1;

  LLM_EACH (LlmRequest, request, self->requests)
    {
      timeout = wake_at (timeout, request->deadline_us, now);
      if (self->steps.sleep.is_on)
        continue;
      timeout = wake_at (timeout, request->times.due_us, now);
      if (!request->room.is_resident && !__atomic_load_n (&request->progress.is_blocked,
                                                          __ATOMIC_ACQUIRE))
        timeout = wake_at (timeout, request->room.resume_us, now);
    }
  if (self->steps.sleep.is_on)
    return timeout;
  LLM_EACH (LlmRunner, runner, self->runners)
    timeout = wake_at (timeout, runner->scheduler->wake_us, now);
  if (self->requests->len == 0)
    timeout = wake_at (timeout, llm_executor_get_idle_time (self), now);
  return timeout;
}

/* Runs a turn; without requests, a slice of idle work. FALSE when the thread may sleep. */
static gboolean
run_once (LlmExecutor *self)
{
  LlmTurnEnd end;

  if (self->steps.sleep.is_on)
    return llm_executor_work_suspended (self);
  end = llm_executor_run_turn (self);
  if (end == LLM_TURN_NONE && llm_executor_has_opening (self))
    end = LLM_TURN_WAITS;
  if (end != LLM_TURN_NONE)
    llm_executor_work_beside (self);
  if (end == LLM_TURN_WAITS && !llm_executor_draft_ahead (self))
    llm_executor_wait_for_disk (self);
  return end != LLM_TURN_NONE || llm_executor_work (self);
}

/* The service ends: requests are dropped without a callback. */
static void
drop_requests (LlmExecutor *self)
{
  LLM_EACH (LlmRunner, runner, self->runners)
    llm_runner_abandon_steps (runner);
  LLM_EACH (LlmRequest, request, self->requests)
    {
      if (request->runner != NULL)
        llm_scheduler_remove (request->runner->scheduler, &request->entry);
      g_clear_pointer (&request->own_session, llm_session_free);
    }
  g_ptr_array_set_size (self->requests, 0);
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
      llm_executor_drop_unused_tails (self);
      llm_executor_serve_reclaims (self);
      has_work = run_once (self) || !g_queue_is_empty (&self->memory.reclaims);
    }

  llm_executor_end_suspend (self);
  drop_requests (self);
  LLM_EACH (LlmRunner, runner, self->runners)
    runner->instance->weights->keeps_cache = TRUE;
  while (self->runners->len > 0)
    g_ptr_array_remove_index (self->runners, self->runners->len - 1);
  g_clear_pointer (&self->upkeep.storage, llm_kv_storage_free);
  g_clear_pointer (&self->memory.disk, llm_disk_free);
  return NULL;
}

/* --- the main thread --- */

LlmExecutor *
llm_executor_new (LlmMailbox              *main_box,
                  LlmLedger               *ledger,
                  const LlmExecutorConfig *config)
{
  LlmExecutor *self = g_new0 (LlmExecutor, 1);

  self->news.main_box = main_box;
  self->memory.keep_bytes = G_MAXUINT64;
  self->memory.keep_percent = 100;
  self->ledger = llm_ledger_ref (ledger);
  self->config = *config;
  self->config.chunks_folder = g_strdup (config->chunks_folder);
  self->config.cache_folder = g_strdup (config->cache_folder);
  self->config.system_cache_folder = g_strdup (config->system_cache_folder);
  self->config.disk = g_strdup (config->disk);
  llm_figure_board_init (&self->news.board);
  g_queue_init (&self->memory.reclaims);
  self->steps.missing = g_array_new (FALSE, FALSE, sizeof (guint));
  self->inbox = llm_mailbox_new ();
  llm_step_pools_init (&self->steps.pools, config->n_threads, config->n_background_threads,
                       config->background_niceness);
  self->instance_config = (LlmInstanceConfig) {
    .pool = self->steps.pools.all,
    .kernels = config->kernels,
    .ledger = self->ledger,
    .is_exact = config->is_exact,
    .chunk_slots = config->chunk_slots,
    .kv_ratio = config->kv_ratio,
    .n_forwards = LLM_N_QUEUES,
  };
  self->steps.accounts = llm_account_new ();
  self->runners = g_ptr_array_new_with_free_func ((GDestroyNotify) runner_free);
  self->upkeep.identities = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  self->requests = g_ptr_array_new_with_free_func ((GDestroyNotify) llm_request_unref);
  self->steps.budgets = g_new (LlmRowBudget, LLM_BATCH_MAX_ROWS);
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
  g_thread_pool_free (g_steal_pointer (&self->memory.measurer), FALSE, TRUE);
}

void
llm_executor_free (LlmExecutor *self)
{
  llm_executor_stop (self);
  g_queue_clear_full (&self->memory.reclaims, (GDestroyNotify) llm_command_unref);
  g_array_unref (self->steps.missing);
  llm_executor_forget_sweep (self);
  llm_memory_shares_clear (&self->memory.shares);
  g_hash_table_unref (self->upkeep.identities);
  llm_figure_board_clear (&self->news.board);
  g_free ((gpointer) self->config.chunks_folder);
  g_free ((gpointer) self->config.cache_folder);
  g_free ((gpointer) self->config.system_cache_folder);
  g_free ((gpointer) self->config.disk);
  g_ptr_array_unref (self->requests);
  g_ptr_array_unref (self->runners);
  g_free (self->steps.budgets);
  llm_step_pools_clear (&self->steps.pools);
  llm_mailbox_free (self->inbox);
  llm_account_free (self->steps.accounts);
  llm_ledger_unref (self->ledger);
  g_free (self);
}

void
llm_executor_set_model (LlmExecutor   *self,
                        guint          instance,
                        LlmModel      *model,
                        LlmWeights    *weights,
                        LlmReclaimDone done,
                        gpointer       data)
{
  NewModel *command = llm_command_new_of (NewModel, self, set_model, clear_model);

  command->reclaim.done = done;
  command->reclaim.data = data;
  command->instance = instance;
  command->model = model != NULL ? llm_model_ref (model) : NULL;
  command->weights = weights;
  llm_command_send (&command->reclaim.base);
}

void
llm_executor_submit (LlmExecutor *self,
                     LlmRequest  *request)
{
  NewRequest *command = llm_command_new_of (NewRequest, self, submit, clear_request);

  request->executor = self;
  command->request = llm_request_ref (request);
  llm_command_send (&command->base);
}

void
llm_executor_drop_session (LlmExecutor *self,
                           guint64      session,
                           const char  *context)
{
  SessionChange *command = llm_command_new_of (SessionChange, self, drop_session, clear_change);

  command->from = session;
  command->context = g_strdup (context);
  llm_command_send (&command->base);
}

void
llm_executor_fork_session (LlmExecutor *self,
                           guint64      from,
                           guint64      to,
                           const char  *context,
                           gboolean     is_named)
{
  SessionChange *command = llm_command_new_of (SessionChange, self, fork_session, clear_change);

  command->from = from;
  command->to = to;
  command->context = g_strdup (context);
  command->is_named = is_named;
  llm_command_send (&command->base);
}
