/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Weights leave memory and come back, and what the kernel has of them is counted. */

#define G_LOG_DOMAIN "llm-engine"

#include "base/llm-fail.h"
#include "common/llmsvc-error.h"
#include "model/llm-footprint.h"
#include "runtime/llm-executor-private.h"

/* How often the kernel is asked what it has of the weights, and how much of a thread's time that may
 * take: one part of so many. */
#define MEASURE_INTERVAL_US G_USEC_PER_SEC
#define MEASURE_PARTS 100
/* Differences of less than one part of so many are not told: pages come and go all the time. */
#define TOLD_PARTS 64
/* Weights are read ahead in such pieces, so that a request never waits for more than one. */
#define AHEAD_BYTES ((guint64) 16 << 20)

/* --- those that stream --- */

LlmDisk *
llm_executor_get_disk (LlmExecutor *self)
{
  g_autoptr(GError) error = NULL;

  if (self->storage != NULL)
    return llm_kv_storage_get_disk (self->storage);
  if (self->disk == NULL)
    {
      self->disk = llm_disk_new (self->config.disk, &error);
      if (self->disk == NULL)
        g_message ("Weights that don't fit into memory are read when they are used: %s",
                   error->message);
    }
  return self->disk;
}

void
llm_runner_begin_stream (LlmRunner *self)
{
  LlmDisk *disk = llm_executor_get_disk (self->executor);
  LlmWeights *weights = self->instance->weights;
  const LlmStreamConfig config = { .bytes = llm_footprint_get_ring (weights->bytes) };
  LlmWeightSource source;

  if (disk == NULL)
    return;
  source = llm_weight_source_of_disk (disk);
  llm_weights_stream (weights, &source, &config);
}

void
llm_runner_end_stream (LlmRunner *self)
{
  llm_weights_stream (self->instance->weights, NULL, NULL);
}

/* --- those that stay --- */

void
llm_executor_keep_weights (LlmExecutor *self,
                           guint64      bytes)
{
  LlmExecutorFigures figures;

  if (__atomic_exchange_n (&self->keep_bytes, bytes, __ATOMIC_RELAXED) >= bytes)
    return;
  llm_executor_get_figures (self, &figures);
  if (figures.stream.pass_bytes > 0)
    llm_executor_poke (self);
}

void
llm_executor_keep_all_weights (LlmExecutor *self)
{
  guint64 keep = __atomic_load_n (&self->keep_bytes, __ATOMIC_RELAXED);
  gboolean has_kept = FALSE;

  LLM_EACH (LlmRunner, runner, self->runners)
    {
      if (!llm_weights_are_streaming (runner->instance->weights)
          || keep < llm_ledger_get_used_backed (self->ledger))
        continue;
      llm_runner_keep_weights (runner);
      has_kept = TRUE;
    }
  if (has_kept)
    llm_executor_publish (self);
}

void
llm_runner_keep_weights (LlmRunner *self)
{
  guint64 keep = __atomic_load_n (&self->executor->keep_bytes, __ATOMIC_RELAXED);
  const GPtrArray *runners = self->executor->runners;
  double all = 0;

  if (keep != G_MAXUINT64 && runners->len > 1)
    {
      LLM_EACH (const LlmRunner, runner, runners)
        all += (double) runner->instance->weights->bytes;
      keep = (guint64) ((double) keep * ((double) self->instance->weights->bytes / all));
    }
  /* the few rows in use are no reason for others to go */
  keep += MIN (llm_weights_get_sparse_bytes (self->instance->weights), G_MAXUINT64 - keep);
  llm_weights_keep (self->instance->weights, keep);
}

gboolean
llm_runner_take_weights (LlmRunner *self,
                         guint      level,
                         GError   **error)
{
  LlmLedger *ledger = self->executor->ledger;
  LlmWeights *weights = self->instance->weights;
  guint64 bytes = llm_weights_get_level_bytes (weights, level);
  guint64 missing = llm_weights_count_dropped (weights, bytes);

  if (missing == 0)
    return TRUE;
  if (!self->is_backed && !llm_ledger_has_room (ledger, missing))
    {
      llm_executor_make_room (self->executor, missing);
      if (!llm_ledger_has_room (ledger, missing))
        return llm_fail (error, LLMSVC_ERROR_NO_MEMORY,
                         "No room for %ju bytes of the model's weights, of which no prepared copy could "
                         "be kept that is read piece by piece; raise the budget, or see to the cache "
                         "(“llmctl doctor”)", missing);
    }
  self->n_moved++;
  self->given_tail_bytes -= MIN (self->given_tail_bytes, missing);
  llm_weights_take (weights, bytes);
  /* Without room for all of them, those that are read ahead would drive out those in use. */
  self->ahead = weights->backed <= llm_ledger_get_headroom (ledger) ? 0 : G_MAXUINT64;
  self->ahead_end = bytes;
  return TRUE;
}

gboolean
llm_executor_read_ahead (LlmExecutor *self)
{
  LLM_EACH (LlmRunner, runner, self->runners)
    {
      if (runner->ahead == G_MAXUINT64)
        continue;
      if (runner->ahead < runner->ahead_end
          && llm_weights_read_ahead (runner->instance->weights, runner->ahead,
                                     MIN (AHEAD_BYTES, runner->ahead_end - runner->ahead)))
        {
          runner->ahead += AHEAD_BYTES;
          return TRUE;
        }
      runner->ahead = G_MAXUINT64;
    }
  return FALSE;
}

/* --- what the kernel has of them --- */

/* The executor's thread. What was given or taken meanwhile makes the figure worthless: then there
 * is a later measure, or one is due. */
static void
take_measure (LlmCommand *command)
{
  LlmExecutor *self = command->executor;
  LlmRunner *runner = llm_executor_find_runner (self, command->instance);
  gint64 interval_us = MAX (MEASURE_INTERVAL_US, command->until_us * MEASURE_PARTS);

  if (runner != NULL && command->from == runner->n_moved)
    {
      LlmWeights *weights = runner->instance->weights;
      guint64 told = weights->backed - weights->absent;
      guint64 resident = MIN (command->bytes, weights->backed);
      guint64 change = MAX (told, resident) - MIN (told, resident);

      if (change > told / TOLD_PARTS || resident == 0 || resident == weights->backed
          || command->done != NULL)
        llm_weights_set_resident (weights, self->ledger, resident);
    }
  else
    interval_us = 0;
  __atomic_store_n (&self->measure_us, llm_clock_now_us () + interval_us, __ATOMIC_RELAXED);
  llm_executor_report (command, command->freed);
}

static void
count_pages (gpointer data,
             gpointer user_data)
{
  LlmCommand *command = data;
  gint64 begin_us = g_get_monotonic_time ();

  command->bytes = llm_weights_count_resident (command->pieces);
  command->until_us = g_get_monotonic_time () - begin_us;
  llm_command_send (command);
}

/* Has the kernel asked what it has of the weights, and then the ledger told; at last @done
 * (nullable) is called on the main thread. */
static void
measure (LlmRunner *self,
         GCallback  done,
         guint64    freed,
         gpointer   data)
{
  LlmCommand *command = llm_command_new (self->executor, take_measure, done, data);

  command->instance = self->id;
  command->pieces = llm_weights_list_pieces (self->instance->weights);
  command->from = self->n_moved;
  command->freed = freed;
  g_thread_pool_push (self->executor->measurer, command, NULL);
}

static void
look_at_weights (LlmCommand *command)
{
  LlmExecutor *self = command->executor;
  gboolean has_weights = FALSE;

  LLM_EACH (LlmRunner, runner, self->runners)
    {
      if (runner->instance->weights->backed == 0)
        continue;
      has_weights = TRUE;
      measure (runner, NULL, 0, NULL);
    }
  if (!has_weights)
    __atomic_store_n (&self->measure_us, 0, __ATOMIC_RELAXED);
}

void
llm_executor_look_at_weights (LlmExecutor *self)
{
  LlmExecutorFigures figures;

  llm_executor_get_figures (self, &figures);
  if (figures.backed_bytes == 0
      || llm_clock_now_us () < __atomic_load_n (&self->measure_us, __ATOMIC_RELAXED))
    return;
  /* one at a time */
  __atomic_store_n (&self->measure_us, G_MAXINT64, __ATOMIC_RELAXED);
  llm_command_send (llm_command_new (self, look_at_weights, NULL, NULL));
}

void
llm_executor_make_measurer (LlmExecutor *self)
{
  self->measurer = g_thread_pool_new (count_pages, NULL, 1, FALSE, NULL);
}

/* --- giving and taking them --- */

/* Of one instance. Who is told that it is done finds figures that are the kernel's. */
static guint64
drop_weights (LlmRunner *self,
              guint64    bytes)
{
  guint64 freed;

  if (self->profile_run != NULL)
    return 0;
  /* of what an answer uses, experts can go and are read again */
  if (llm_executor_is_running (self->executor, self))
    return llm_weights_drop_experts (self->instance->weights, bytes);
  self->n_moved++;
  freed = llm_weights_drop (self->instance->weights, bytes);
  self->ahead = G_MAXUINT64;
  return freed;
}

static void
give_pages (LlmCommand *command)
{
  LlmExecutor *self = command->executor;
  LlmRunner *last = NULL;
  guint64 freed = 0;

  for (guint i = 0; i < self->runners->len && freed < command->bytes; i++)
    {
      LlmRunner *runner = g_ptr_array_index (self->runners, i);
      guint64 n = drop_weights (runner, command->bytes - freed);

      if (n > 0 && runner->instance->weights->backed > 0)
        {
          if (last != NULL)
            measure (last, NULL, 0, NULL);
          last = runner;
        }
      freed += n;
    }
  if (last == NULL)
    {
      llm_executor_report (command, freed);
      return;
    }
  llm_executor_publish (self);
  measure (last, command->done, freed, command->data);
}

void
llm_executor_give_pages (LlmExecutor   *self,
                         guint64        bytes,
                         LlmReclaimDone done,
                         gpointer       data)
{
  LlmCommand *command = llm_command_new (self, give_pages, G_CALLBACK (done), data);

  command->bytes = bytes;
  llm_command_send (command);
}

/* --- sub-models --- */

guint
llm_runner_find_level (const LlmRunner *self,
                       guint            percent)
{
  const LlmSubModels *table = self->instance->weights->sub_models;
  guint level = llm_sub_models_find_level (table, percent);

  if (self->profile_run != NULL)
    return table->n_levels - 1;
  LLM_EACH (const LlmRequest, request, self->executor->requests)
    if (request->is_resident && request->runner == self)
      level = MAX (level, request->level);
  return level;
}

/* What is behind the level in use, or that of @percent: steps that run don't read it. */
static guint64
drop_tail (LlmRunner *self,
           guint      percent)
{
  LlmWeights *weights = self->instance->weights;
  guint level = llm_runner_find_level (self, percent);
  guint64 freed =
    llm_weights_drop_behind (weights, llm_weights_get_level_bytes (weights, level));

  if (freed == 0)
    return 0;
  self->n_moved++;
  self->ahead = G_MAXUINT64;
  self->given_tail_bytes += freed;
  if (weights->backed > 0)
    measure (self, NULL, 0, NULL);
  return freed;
}

void
llm_executor_keep_level (LlmExecutor *self,
                         guint        percent)
{
  __atomic_store_n (&self->keep_percent, percent, __ATOMIC_RELAXED);
  llm_executor_poke (self);
}

void
llm_executor_drop_unused_tails (LlmExecutor *self)
{
  guint percent = __atomic_load_n (&self->keep_percent, __ATOMIC_RELAXED);
  guint64 freed = 0;

  if (percent == 100)
    return;
  LLM_EACH (LlmRunner, runner, self->runners)
    freed += drop_tail (runner, percent);
  if (freed > 0)
    llm_executor_publish (self);
}

static void
give_tails (LlmCommand *command)
{
  LlmExecutor *self = command->executor;
  guint64 freed = 0;

  LLM_EACH (LlmRunner, runner, self->runners)
    if (llm_executor_is_running (self, runner))
      freed += drop_tail (runner, 0);
  llm_executor_report (command, freed);
}

void
llm_executor_give_tails (LlmExecutor   *self,
                         LlmReclaimDone done,
                         gpointer       data)
{
  llm_command_send (llm_command_new (self, give_tails, G_CALLBACK (done), data));
}

/* --- taking them again --- */

static void
take_pages (LlmCommand *command)
{
  LlmExecutor *self = command->executor;

  LLM_EACH (LlmRunner, runner, self->runners)
    {
      LlmWeights *weights = runner->instance->weights;
      guint level = llm_runner_find_level (
        runner, __atomic_load_n (&self->keep_percent, __ATOMIC_RELAXED));
      guint64 bytes = llm_weights_get_level_bytes (weights, level);
      guint64 missing = llm_weights_count_dropped (weights, bytes);

      if (!runner->is_backed || missing > command->bytes
          || !llm_runner_take_weights (runner, level, NULL))
        continue;
      command->bytes -= missing;
      runner->ahead = 0;
      runner->ahead_end = bytes;
    }
  llm_executor_publish (self);
}

void
llm_executor_take_pages (LlmExecutor *self,
                         guint64      bytes)
{
  LlmCommand *command = llm_command_new (self, take_pages, NULL, NULL);

  command->bytes = bytes;
  llm_command_send (command);
}
