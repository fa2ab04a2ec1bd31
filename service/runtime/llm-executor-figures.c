/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Figures of the executor for other threads, and where sessions are. */

#define G_LOG_DOMAIN "llm-engine"

#include "runtime/llm-executor-news.h"
#include "runtime/llm-executor-private.h"
#include "runtime/llm-executor-residency.h"

LlmRunner *
llm_executor_find_runner (LlmExecutor *self,
                          guint        id)
{
  LLM_EACH (LlmRunner, runner, self->runners)
    if (runner->id == id)
      return runner;
  return NULL;
}

gboolean
llm_executor_is_running (LlmExecutor     *self,
                         const LlmRunner *runner)
{
  LLM_EACH (const LlmRequest, request, self->requests)
    if (request->room.is_resident && (runner == NULL || request->runner == runner))
      return TRUE;
  return FALSE;
}

/* --- figures --- */

void
llm_kv_counters_add (LlmKvCounters       *sum,
                     const LlmKvCounters *counters)
{
  guint64 *to = (guint64 *) sum;
  const guint64 *from = (const guint64 *) counters;

  /* the structs consist of such numbers only */
  for (gsize i = 0; i < sizeof *sum / sizeof *to; i++)
    to[i] += from[i];
}

guint64
llm_runner_get_w8_bytes (const LlmRunner *self)
{
  if (self->prefill.weights == NULL || !llm_w8_weights_are_held (self->prefill.weights))
    return 0;
  LLM_EACH (const LlmRequest, request, self->executor->requests)
    if (request->runner == self && request->result.is_w8 && request->entry.n_prompt > 0)
      return 0;
  return llm_w8_weights_get_bytes (self->prefill.weights);
}

static void
add_runner (LlmExecutorFigures *figures,
            LlmRunner          *runner)
{
  const LlmInstance *instance = runner->instance;
  LlmWeights *weights = instance->weights;
  guint percent = __atomic_load_n (&runner->executor->memory.keep_percent, __ATOMIC_RELAXED);
  guint level = llm_runner_find_level (runner, percent);
  LlmStreamFigures stream;

  if (runner->id == 0)
    {
      figures->sub_model = weights->sub_models->percent[level];
      if (runner->prefill.weights != NULL && !runner->prefill.backend->is_lost)
        figures->w8_speedup = runner->prefill.speedup;
    }

  llm_weights_get_stream_figures (weights, &stream);
  llm_stream_figures_add_counts (&figures->stream, &stream);
  figures->stream.pass_bytes += stream.pass_bytes;
  figures->stream.ring_bytes += stream.ring_bytes;
  figures->stream.expert_bytes += stream.expert_bytes;
  figures->w8_bytes += llm_runner_get_w8_bytes (runner);
  figures->scratch_bytes += llm_instance_get_scratch (runner->instance);
  figures->backed_bytes += weights->backed;
  figures->is_backed = figures->is_backed || runner->is_backed;
  figures->given_tail_bytes += runner->given_tail_bytes;
  if (!llm_executor_is_running (runner->executor, runner))
    {
      figures->page_bytes += llm_weights_get_resident (instance->weights);
      figures->missing_bytes +=
        llm_weights_count_dropped (weights, llm_weights_get_level_bytes (weights, level));
    }
  else
    {
      guint64 used = llm_weights_get_level_bytes (weights, llm_runner_find_level (runner, 0));

      figures->tail_bytes += weights->bytes - llm_weights_count_dropped (weights, weights->bytes)
                             - (used - llm_weights_count_dropped (weights, used));
    }
  if (instance->store == NULL)
    return;
  figures->idle_kv_bytes += instance->store->bytes + instance->store->spare_bytes;
  figures->kept_bytes += llm_kv_store_count_kept (instance->store);
  figures->n_narrow += instance->store->n_narrow;
  llm_kv_counters_add (&figures->kv, &instance->store->counters);
}

void
llm_executor_publish (LlmExecutor *self)
{
  LlmExecutorFigures figures = {
    .kv = self->news.board.earlier, .stream = self->news.board.earlier_stream, .sub_model = 100,
  };
  gboolean is_urgent = FALSE;

  LLM_EACH (LlmRunner, runner, self->runners)
    add_runner (&figures, runner);
  LLM_EACH (const LlmRequest, request, self->requests)
    {
      is_urgent = is_urgent || request->room.is_urgent;
      if (request->room.is_resident)
        figures.busy_kv_bytes += llm_kv_seq_get_own_bytes (request->session->seq);
    }
  figures.idle_kv_bytes -= MIN (figures.busy_kv_bytes, figures.idle_kv_bytes);
  if (self->upkeep.storage != NULL)
    figures.storage_bytes = llm_kv_storage_get_bytes (self->upkeep.storage);

  llm_figure_board_show (&self->news.board, &figures);

  /* the reserve is free again once the requests that waited for it have ended */
  if (!is_urgent)
    llm_ledger_set_urgent (self->ledger, FALSE);
}

static void
deliver_report (LlmCommand *base)
{
  const LlmReclaim *reclaim = (const LlmReclaim *) base;

  reclaim->done (reclaim->freed, reclaim->data);
}

void
llm_executor_report (LlmReclaim *reclaim,
                     guint64     freed)
{
  llm_executor_publish (reclaim->base.executor);
  reclaim->freed = freed;
  if (reclaim->done != NULL)
    llm_command_reply (llm_command_ref (&reclaim->base), deliver_report);
}

void
llm_executor_get_figures (LlmExecutor        *self,
                          LlmExecutorFigures *figures)
{
  llm_figure_board_get (&self->news.board, figures);
}

/* --- where sessions are --- */

void
llm_executor_tell (LlmExecutor *self,
                   LlmSession  *session)
{
  LlmResidency residency = llm_session_get_residency (session);
  guint64 bytes = session->seq != NULL ? llm_kv_seq_get_own_bytes (session->seq) : 0;

  /* what storage has of it is not known yet */
  if (session->seq != NULL && !session->is_attached)
    return;
  if (session->is_told && session->told == residency && session->told_bytes == bytes)
    return;
  session->is_told = TRUE;
  session->told = residency;
  session->told_bytes = bytes;
  llm_executor_post_moved (self, session->id, residency, bytes);
}

void
llm_executor_tell_all (LlmExecutor *self)
{
  LLM_EACH (LlmRunner, runner, self->runners)
    LLM_EACH_VALUE (LlmSession, session, runner->sessions)
      llm_executor_tell (self, session);
  self->news.is_told = TRUE;
}

/* --- the chunks of one --- */

static guint64
get_bytes (LlmKvStore *store,
           guint       bits)
{
  LlkKvFormat format = LLK_KV_F32;

  while (llk_kv_bits (format) != bits)
    format++;
  return llm_kv_store_get_chunk_bytes (store, format);
}

static LlmContextMemory *
describe_session (LlmSession *session)
{
  LlmKvSeq *seq = session->seq;
  guint n_chunks = seq != NULL ? seq->holds->len : 0;
  LlmContextMemory *memory = llm_context_memory_new (n_chunks);

  for (guint i = 0; i < n_chunks; i++)
    {
      LlmKvChunkInfo info;

      llm_kv_seq_get_info (seq, i, &info);
      if (info.is_on_storage)
        llm_context_memory_set_stored (memory, i, info.storage_bits,
                                       get_bytes (session->store, info.storage_bits));
      if (info.is_in_memory)
        llm_context_memory_set_held (memory, i, info.bits,
                                     get_bytes (session->store, info.bits));
      memory->n_shared_chunks += info.is_shared;
    }
  if (n_chunks > 0)
    {
      memory->chunk_tokens = seq->store->layout.chunk_slots;
      memory->tokens = seq->length;
    }
  memory->residency = llm_residency_to_string (llm_session_get_residency (session));
  return memory;
}

typedef struct
{
  LlmCommand base;
  guint64 session;
  char *context;            /* (nullable) (owned) */
  LlmContextMemory *memory; /* (nullable) (owned): the answer */
  LlmMemoryTold done;
  gpointer data;
} Question;

static void
clear_question (LlmCommand *base)
{
  Question *question = (Question *) base;

  g_free (question->context);
  g_clear_pointer (&question->memory, llm_context_memory_free);
}

static void
deliver_memory (LlmCommand *base)
{
  Question *question = (Question *) base;

  question->done (g_steal_pointer (&question->memory), question->data);
}

static void
describe (LlmCommand *base)
{
  Question *question = (Question *) base;
  LlmExecutor *self = base->executor;
  LlmSession *session = NULL;

  LLM_EACH (LlmRunner, runner, self->runners)
    if (session == NULL)
      session = g_hash_table_lookup (runner->sessions, &question->session);
  question->memory = session != NULL ? describe_session (session) : llm_context_memory_new (0);
  if (self->upkeep.storage != NULL)
    question->memory->folder_bytes =
        llm_kv_storage_get_folder_bytes (self->upkeep.storage, question->context);
  llm_command_reply (llm_command_ref (base), deliver_memory);
}

void
llm_executor_ask_memory (LlmExecutor  *self,
                         guint64       session,
                         const char   *context,
                         LlmMemoryTold done,
                         gpointer      data)
{
  Question *question = llm_command_new_of (Question, self, describe, clear_question);

  question->session = session;
  question->context = g_strdup (context);
  question->done = done;
  question->data = data;
  llm_command_send (&question->base);
}
