/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reclaims and restores weights, and counts how much of them is in memory. */

#define G_LOG_DOMAIN "llm-engine"

#include "base/llm-fail.h"
#include "common/llmsvc-error.h"
#include "model/llm-footprint.h"
#include "runtime/llm-executor-news.h"
#include "runtime/llm-executor-private.h"
#include "runtime/llm-executor-residency.h"
#include "weights/llm-channels.h"

/* How often the kernel is asked how much of the weights is in memory, and which part of a thread's
 * time that may take. */
#define MEASURE_INTERVAL_US G_USEC_PER_SEC
#define MEASURE_PARTS 100
/* Smaller differences are not reported: pages come and go all the time. */
#define TOLD_PARTS 64
/* Weights are read ahead in pieces of this size, and a request never waits for more than one. */
#define AHEAD_BYTES ((guint64) 16 << 20)

/* --- those that stream --- */

LlmDisk *
llm_executor_get_disk (LlmExecutor *self)
{
  g_autoptr(GError) error = NULL;

  if (self->upkeep.storage != NULL)
    return llm_kv_storage_get_disk (self->upkeep.storage);
  if (self->memory.disk == NULL)
    {
      self->memory.disk = llm_disk_new (self->config.disk, &error);
      if (self->memory.disk == NULL)
        g_message ("Weights that don't fit into memory are read when they are used: %s",
                   error->message);
    }
  return self->memory.disk;
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

typedef struct
{
  LlmCommand base;
  guint instance;
  LlmChannels *channels;    /* (nullable) (owned) */
} NewChannels;

static void
clear_channels (LlmCommand *base)
{
  g_clear_pointer (&((NewChannels *) base)->channels, llm_channels_free);
}

static void
set_channels (LlmCommand *base)
{
  NewChannels *command = (NewChannels *) base;
  LlmRunner *runner = llm_executor_find_runner (base->executor, command->instance);

  if (runner == NULL)
    return;
  llm_weights_set_channels (runner->instance->weights, g_steal_pointer (&command->channels));
  g_info ("Weights that are left out are not read any more");
  llm_executor_publish (base->executor);
}

void
llm_executor_set_channels (LlmExecutor *self,
                           guint        instance,
                           LlmChannels *channels)
{
  NewChannels *command = llm_command_new_of (NewChannels, self, set_channels, clear_channels);

  command->instance = instance;
  command->channels = channels;
  llm_command_send (&command->base);
}

/* --- those that stay --- */

void
llm_executor_keep_weights (LlmExecutor *self,
                           guint64      bytes)
{
  LlmExecutorFigures figures;

  if (__atomic_exchange_n (&self->memory.keep_bytes, bytes, __ATOMIC_RELAXED) >= bytes)
    return;
  llm_executor_get_figures (self, &figures);
  if (figures.stream.pass_bytes > 0)
    llm_executor_poke (self);
}

void
llm_executor_keep_all_weights (LlmExecutor *self)
{
  guint64 keep = __atomic_load_n (&self->memory.keep_bytes, __ATOMIC_RELAXED);
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
  guint64 keep = __atomic_load_n (&self->executor->memory.keep_bytes, __ATOMIC_RELAXED);
  const GPtrArray *runners = self->executor->runners;
  double all = 0;

  if (keep != G_MAXUINT64 && runners->len > 1)
    {
      LLM_EACH (const LlmRunner, runner, runners)
        all += (double) runner->instance->weights->bytes;
      keep = (guint64) ((double) keep * ((double) self->instance->weights->bytes / all));
    }
  /* the few rows in use must not cause other weights to be dropped */
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
  /* If not all weights fit, reading ahead would evict those in use. */
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

/* Measures how much of an instance's weights is in memory; then reports the bytes freed to the
 * reclaim. */
typedef struct
{
  LlmReclaim reclaim;
  guint instance;
  guint64 n_moved;          /* value of n_moved at the start */
  GArray *pieces;           /* (owned) (element-type LlmWeightPiece) */
  guint64 resident;         /* bytes */
  gint64 took_us;           /* time to count them */
} Measure;

static void
clear_measure (LlmCommand *base)
{
  g_array_unref (((Measure *) base)->pieces);
}

/* Executor's thread. If weights were dropped or restored meanwhile, the figure is worthless: a
 * later measure has begun, or is due. */
static void
take_measure (LlmCommand *base)
{
  Measure *measure = (Measure *) base;
  LlmExecutor *self = base->executor;
  LlmRunner *runner = llm_executor_find_runner (self, measure->instance);
  gint64 interval_us = MAX (MEASURE_INTERVAL_US, measure->took_us * MEASURE_PARTS);

  if (runner != NULL && measure->n_moved == runner->n_moved)
    {
      LlmWeights *weights = runner->instance->weights;
      guint64 told = weights->backed - weights->absent;
      guint64 resident = MIN (measure->resident, weights->backed);
      guint64 change = MAX (told, resident) - MIN (told, resident);

      if (change > told / TOLD_PARTS || resident == 0 || resident == weights->backed
          || measure->reclaim.done != NULL)
        llm_weights_set_resident (weights, self->ledger, resident);
    }
  else
    interval_us = 0;
  __atomic_store_n (&self->memory.measure_us, llm_clock_now_us () + interval_us, __ATOMIC_RELAXED);
  llm_executor_report (&measure->reclaim, measure->reclaim.freed);
}

static void
count_pages (gpointer data,
             gpointer user_data)
{
  Measure *measure = data;
  gint64 begin_us = g_get_monotonic_time ();

  measure->resident = llm_weights_count_resident (measure->pieces);
  measure->took_us = g_get_monotonic_time () - begin_us;
  llm_command_send (&measure->reclaim.base);
}

/* Asks the kernel, in another thread, how much of the weights is in memory, and updates the ledger;
 * then reports @freed to @reclaim (nullable). */
static void
begin_measure (LlmRunner        *self,
               const LlmReclaim *reclaim,
               guint64           freed)
{
  Measure *measure = llm_command_new_of (Measure, self->executor, take_measure, clear_measure);

  measure->instance = self->id;
  measure->pieces = llm_weights_list_pieces (self->instance->weights);
  measure->n_moved = self->n_moved;
  measure->reclaim.freed = freed;
  if (reclaim != NULL)
    {
      measure->reclaim.done = reclaim->done;
      measure->reclaim.data = reclaim->data;
    }
  g_thread_pool_push (self->executor->memory.measurer, measure, NULL);
}

static void
look_at_weights (LlmCommand *base)
{
  LlmExecutor *self = base->executor;
  gboolean has_weights = FALSE;

  LLM_EACH (LlmRunner, runner, self->runners)
    {
      if (runner->instance->weights->backed == 0)
        continue;
      has_weights = TRUE;
      begin_measure (runner, NULL, 0);
    }
  if (!has_weights)
    __atomic_store_n (&self->memory.measure_us, 0, __ATOMIC_RELAXED);
}

void
llm_executor_look_at_weights (LlmExecutor *self)
{
  LlmExecutorFigures figures;

  llm_executor_get_figures (self, &figures);
  if (figures.backed_bytes == 0
      || llm_clock_now_us () < __atomic_load_n (&self->memory.measure_us, __ATOMIC_RELAXED))
    return;
  /* one at a time */
  __atomic_store_n (&self->memory.measure_us, G_MAXINT64, __ATOMIC_RELAXED);
  llm_executor_send (self, look_at_weights);
}

void
llm_executor_make_measurer (LlmExecutor *self)
{
  self->memory.measurer = g_thread_pool_new (count_pages, NULL, 1, FALSE, NULL);
}

/* --- giving and taking them --- */

/* Drops weights of one instance. The report comes after the measure, so the caller sees the
 * kernel's figures. */
static guint64
drop_weights (LlmRunner *self,
              guint64    bytes)
{
  guint64 freed;

  if (self->profile_run != NULL)
    return 0;
  /* of the weights that a decode uses, only experts are dropped: they are read again */
  if (llm_executor_is_running (self->executor, self))
    return llm_weights_drop_experts (self->instance->weights, bytes);
  self->n_moved++;
  freed = llm_weights_drop (self->instance->weights, bytes);
  self->ahead = G_MAXUINT64;
  return freed;
}

static void
give_pages (LlmCommand *base)
{
  LlmReclaim *reclaim = (LlmReclaim *) base;
  LlmExecutor *self = base->executor;
  LlmRunner *last = NULL;
  guint64 freed = 0;

  for (guint i = 0; i < self->runners->len && freed < reclaim->bytes; i++)
    {
      LlmRunner *runner = g_ptr_array_index (self->runners, i);
      guint64 n = drop_weights (runner, reclaim->bytes - freed);

      if (n > 0 && runner->instance->weights->backed > 0)
        {
          if (last != NULL)
            begin_measure (last, NULL, 0);
          last = runner;
        }
      freed += n;
    }
  if (last == NULL)
    {
      llm_executor_report (reclaim, freed);
      return;
    }
  llm_executor_publish (self);
  begin_measure (last, reclaim, freed);
}

void
llm_executor_give_pages (LlmExecutor   *self,
                         guint64        bytes,
                         LlmReclaimDone done,
                         gpointer       data)
{
  llm_executor_send_reclaim (self, give_pages, bytes, 0, done, data);
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
    if (request->room.is_resident && request->runner == self)
      level = MAX (level, request->model.level);
  return level;
}

/* Bytes behind the level in use, or that of @percent: running steps don't read them. */
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
    begin_measure (self, NULL, 0);
  return freed;
}

void
llm_executor_keep_level (LlmExecutor *self,
                         guint        percent)
{
  __atomic_store_n (&self->memory.keep_percent, percent, __ATOMIC_RELAXED);
  llm_executor_poke (self);
}

void
llm_executor_drop_unused_tails (LlmExecutor *self)
{
  guint percent = __atomic_load_n (&self->memory.keep_percent, __ATOMIC_RELAXED);
  guint64 freed = 0;

  if (percent == 100)
    return;
  LLM_EACH (LlmRunner, runner, self->runners)
    freed += drop_tail (runner, percent);
  if (freed > 0)
    llm_executor_publish (self);
}

static void
give_tails (LlmCommand *base)
{
  LlmExecutor *self = base->executor;
  guint64 freed = 0;

  LLM_EACH (LlmRunner, runner, self->runners)
    if (llm_executor_is_running (self, runner))
      freed += drop_tail (runner, 0);
  llm_executor_report ((LlmReclaim *) base, freed);
}

void
llm_executor_give_tails (gpointer       executor,
                         guint64        bytes,
                         gint64         deadline_us,
                         LlmReclaimDone done,
                         gpointer       data)
{
  llm_executor_send_reclaim (executor, give_tails, 0, 0, done, data);
}

/* --- taking them again --- */

static void
take_pages (LlmCommand *base)
{
  LlmExecutor *self = base->executor;
  guint64 room = ((LlmReclaim *) base)->bytes;

  LLM_EACH (LlmRunner, runner, self->runners)
    {
      LlmWeights *weights = runner->instance->weights;
      guint level = llm_runner_find_level (
        runner, __atomic_load_n (&self->memory.keep_percent, __ATOMIC_RELAXED));
      guint64 bytes = llm_weights_get_level_bytes (weights, level);
      guint64 missing = llm_weights_count_dropped (weights, bytes);

      if (!runner->is_backed || missing > room
          || !llm_runner_take_weights (runner, level, NULL))
        continue;
      room -= missing;
      runner->ahead = 0;
      runner->ahead_end = bytes;
    }
  llm_executor_publish (self);
}

void
llm_executor_take_pages (LlmExecutor *self,
                         guint64      bytes)
{
  llm_executor_send_reclaim (self, take_pages, bytes, 0, NULL, NULL);
}
