/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Taking context memory, and saying where it is. */

#define G_LOG_DOMAIN "llm-engine"

#include "base/llm-clock.h"
#include "runtime/llm-executor-private.h"

/* How long memory that was asked for without a deadline may take to be written before it is
 * given. */
#define GIVE_US (2 * G_USEC_PER_SEC)
/* A call whose chunks were taken goes on after this time. */
#define PARK_US 100000

/* Memory that was asked for. */
typedef struct
{
  LlmExecutor *executor;
  guint64 bytes;
  guint64 freed;
  gint64 until_us;
  gboolean has_begun;
  LlmReclaimDone done;    /* (nullable) */
  gpointer data;
} LlmGive;

typedef struct
{
  LlmReclaimDone done;
  guint64 freed;
  gpointer data;
} Report;

static void
deliver_report (gpointer data)
{
  Report *report = data;

  report->done (report->freed, report->data);
}

void
llm_executor_report (LlmExecutor   *self,
                     LlmReclaimDone done,
                     guint64        freed,
                     gpointer       data)
{
  Report *report;

  if (done == NULL)
    return;
  report = g_new (Report, 1);
  *report = (Report) { done, freed, data };
  llm_mailbox_post (self->main_box, deliver_report, report, g_free);
}

/* --- figures --- */

void
llm_executor_publish (LlmExecutor *self)
{
  guint64 busy = 0;
  guint64 all = self->store != NULL ? llm_kv_store_get_bytes (self->store) : 0;
  guint64 scratch = 0;

  for (guint i = 0; i < self->runs->len; i++)
    {
      LlmRun *run = g_ptr_array_index (self->runs, i);

      if (run->has_begun)
        busy += llm_kv_seq_get_own_bytes (run->session->seq);
    }
  for (guint i = 0; i < LLM_N_LANES; i++)
    if (self->lanes[i].forward != NULL)
      scratch += llm_forward_get_scratch (self->lanes[i].forward);

  __atomic_store_n (&self->idle_kv_bytes, all > busy ? all - busy : 0, __ATOMIC_RELAXED);
  __atomic_store_n (&self->busy_kv_bytes, busy, __ATOMIC_RELAXED);
  __atomic_store_n (&self->scratch_bytes, scratch, __ATOMIC_RELAXED);
  __atomic_store_n (&self->storage_bytes,
                    self->storage != NULL ? llm_kv_storage_get_bytes (self->storage) : 0,
                    __ATOMIC_RELAXED);
  llm_executor_publish_pages (self);
  llm_executor_settle_urgent (self);
  llm_executor_publish_counters (self);
  self->published_us = llm_clock_now_us ();
}

/* --- where sessions are --- */

typedef struct
{
  LlmExecutor *executor; /* (unowned): ends behind the main box */
  guint64 session;
  LlmResidency residency;
  guint64 bytes;
} Moved;

static void
deliver_moved (gpointer data)
{
  Moved *moved = data;

  moved->executor->moved (moved->session, moved->residency, moved->bytes,
                          moved->executor->moved_data);
}

void
llm_executor_tell_moved (LlmExecutor *self,
                         guint64      session,
                         LlmResidency residency,
                         guint64      bytes)
{
  Moved *moved;

  if (self->moved == NULL)
    return;
  moved = g_new (Moved, 1);
  *moved = (Moved) { self, session, residency, bytes };
  llm_mailbox_post (self->main_box, deliver_moved, moved, g_free);
}

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
  llm_executor_tell_moved (self, session->id, residency, bytes);
}

void
llm_executor_tell_all (LlmExecutor *self)
{
  GHashTableIter iter;
  LlmSession *session;

  g_hash_table_iter_init (&iter, self->sessions);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &session))
    llm_executor_tell (self, session);
  self->is_told = TRUE;
}

/* --- the memory of one --- */

typedef struct
{
  LlmExecutor *executor;
  guint64 session;
  char *context;
  LlmMemoryTold done;
  gpointer data;
  LlmContextMemory *memory;  /* (nullable) (owned) */
} Question;

static void
question_free (Question *question)
{
  g_clear_pointer (&question->memory, llm_context_memory_free);
  g_free (question->context);
  g_free (question);
}

static LlmContextMemory *
describe_session (LlmExecutor *self,
                  LlmSession  *session)
{
  guint n_chunks = session->seq != NULL ? llm_kv_seq_get_n_chunks (session->seq) : 0;
  LlmContextMemory *memory = llm_context_memory_new (n_chunks);

  for (guint i = 0; i < n_chunks; i++)
    {
      LlmKvChunkInfo info;
      guint64 bytes = 0;

      llm_kv_seq_get_info (session->seq, i, &info);
      for (guint format = 0; format < LLK_N_KV_FORMATS; format++)
        if (llk_kv_bits (format) == info.bits)
          bytes = llm_kv_store_get_chunk_bytes (self->store, format);
      llm_context_memory_set (memory, i, info.bits, info.is_in_memory, info.is_on_storage, bytes);
      memory->n_shared_chunks += info.is_shared;
    }
  if (n_chunks > 0)
    {
      memory->chunk_tokens = self->chunk_slots;
      memory->tokens = llm_kv_seq_get_length (session->seq);
    }
  memory->residency = llm_residency_to_string (llm_session_get_residency (session));
  return memory;
}

static void
deliver_memory (gpointer data)
{
  Question *question = data;

  question->done (g_steal_pointer (&question->memory), question->data);
}

static void
answer_question (gpointer data)
{
  Question *question = data;
  LlmExecutor *self = question->executor;
  LlmSession *session = g_hash_table_lookup (self->sessions, &question->session);
  Question *answer = g_new0 (Question, 1);

  *answer = (Question) { .done = question->done, .data = question->data };
  answer->memory = session != NULL ? describe_session (self, session) : llm_context_memory_new (0);
  if (self->storage != NULL)
    answer->memory->folder_bytes =
        llm_kv_storage_get_folder_bytes (self->storage, question->context);
  llm_mailbox_post (self->main_box, deliver_memory, answer, (GDestroyNotify) question_free);
}

void
llm_executor_ask_memory (LlmExecutor  *self,
                         guint64       session,
                         const char   *context,
                         LlmMemoryTold done,
                         gpointer      data)
{
  Question *question = g_new0 (Question, 1);

  *question = (Question) { self, session, g_strdup (context), done, data, NULL };
  llm_mailbox_post (self->inbox, answer_question, question, (GDestroyNotify) question_free);
}

/* --- taking it --- */

static LlmSession *
find_oldest_idle (LlmExecutor *self)
{
  GHashTableIter iter;
  LlmSession *session;
  LlmSession *oldest = NULL;

  g_hash_table_iter_init (&iter, self->sessions);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &session))
    if (!session->is_busy && session->seq != NULL && llm_kv_seq_get_own_bytes (session->seq) > 0
        && (oldest == NULL || session->used_us < oldest->used_us))
      oldest = session;
  return oldest;
}

guint64
llm_executor_evict (LlmExecutor *self,
                    guint64      bytes)
{
  guint64 freed;
  LlmSession *session;

  if (self->store == NULL)
    return 0;
  freed = llm_executor_evict_shares (self, bytes, TRUE);
  if (freed < bytes)
    freed += llm_kv_store_evict (self->store, bytes - freed, TRUE);

  /* What is left is what the store can't take, as it is being written. Forks share chunks, so what
   * comes free is what the store says. */
  while (freed < bytes && (session = find_oldest_idle (self)) != NULL)
    {
      guint64 before = llm_kv_store_get_bytes (self->store);

      llm_session_drop (session);
      freed += before - llm_kv_store_get_bytes (self->store);
    }
  self->is_told = FALSE;
  return freed;
}

guint64
llm_executor_make_room (LlmExecutor *self,
                        guint64      bytes)
{
  return llm_executor_evict (self, bytes + llm_ledger_get_excess (self->ledger));
}

/* TRUE when @give is served. */
static gboolean
serve (LlmExecutor *self,
       LlmGive     *give)
{
  guint64 before = self->store != NULL ? llm_kv_store_get_bytes (self->store) : 0;
  guint64 after;

  if (before == 0)
    return TRUE;

  if (!give->has_begun)
    {
      guint64 freed = llm_executor_evict_shares (self, give->bytes, FALSE);

      if (freed < give->bytes)
        llm_kv_store_evict (self->store, give->bytes - freed, FALSE);
    }
  else
    llm_kv_store_work (self->store, llm_clock_now_us ());
  give->has_begun = TRUE;
  after = llm_kv_store_get_bytes (self->store);
  give->freed += before > after ? before - after : 0;
  if (give->freed < give->bytes
      && (llm_kv_store_is_settled (self->store) || llm_clock_now_us () >= give->until_us))
    {
      give->freed += llm_executor_evict (self, give->bytes - give->freed);
      return TRUE;
    }
  return give->freed >= give->bytes;
}

void
llm_executor_serve_gives (LlmExecutor *self)
{
  LlmGive *give;

  while ((give = g_queue_peek_head (&self->gives)) != NULL && serve (self, give))
    {
      g_queue_pop_head (&self->gives);
      llm_executor_tell_all (self);
      llm_executor_publish (self);
      llm_executor_report (self, give->done, give->freed, give->data);
      g_free (give);
    }
}

static void
take_give (gpointer data)
{
  LlmGive *give = data;

  g_queue_push_tail (&give->executor->gives, g_memdup2 (give, sizeof *give));
}

void
llm_executor_give_kv (LlmExecutor   *self,
                      guint64        bytes,
                      gint64         deadline_us,
                      LlmReclaimDone done,
                      gpointer       data)
{
  LlmGive *give = g_new0 (LlmGive, 1);

  *give = (LlmGive) {
    .executor = self,
    .bytes = bytes,
    .until_us = llm_clock_now_us () + GIVE_US,
    .done = done,
    .data = data,
  };
  if (deadline_us > 0)
    give->until_us = MIN (give->until_us, deadline_us);
  llm_mailbox_post (self->inbox, take_give, give, g_free);
}

LlmRun *
llm_executor_find_parkable (LlmExecutor *self)
{
  LlmRun *best = NULL;

  for (guint i = 0; i < self->runs->len; i++)
    {
      LlmRun *run = g_ptr_array_index (self->runs, i);

      if (run->has_begun
          && (best == NULL || run->job->slo.class > best->job->slo.class
              || (run->job->slo.class == best->job->slo.class
                  && run->job->arrived_us >= best->job->arrived_us)))
        best = run;
    }
  return best;
}

void
llm_executor_park (LlmExecutor *self,
                   LlmRun      *run)
{
  llm_executor_leave_lanes (self, run);
  llm_kv_seq_park (run->session->seq);
  run->has_begun = FALSE;
  run->session->n_settled = 0;
  run->parked_us = llm_clock_now_us ();
  run->resume_us = run->parked_us + PARK_US;
  llm_ticket_set_parked (run->ticket, TRUE);
}

/* Of the calls that hold chunks the one that can wait best, but for those that have waited: they
 * are spared unless all is asked for. */
static LlmRun *
find_giver (LlmExecutor   *self,
            const LlmGive *give)
{
  LlmRun *run = llm_executor_find_parkable (self);

  if (run != NULL && give->bytes != G_MAXUINT64 && llm_executor_is_protected (self, run))
    return NULL;
  return run;
}

/* What a call computes with goes too, once none runs. */
static guint64
trim_scratch (LlmExecutor *self)
{
  guint64 freed = 0;

  for (guint i = 0; i < LLM_N_LANES; i++)
    if (self->lanes[i].forward != NULL && !self->lanes[i].is_active)
      freed += llm_forward_trim (self->lanes[i].forward);
  return freed;
}

static void
give_busy_kv (gpointer data)
{
  LlmGive *give = data;
  LlmExecutor *self = give->executor;
  LlmRun *run;

  while (give->freed < give->bytes && (run = find_giver (self, give)) != NULL)
    {
      guint64 own = llm_kv_seq_get_own_bytes (run->session->seq);

      llm_executor_park (self, run);
      give->freed += trim_scratch (self);
      if (give->freed < give->bytes)
        give->freed += llm_executor_evict (self, MAX (give->bytes - give->freed, own));
    }
  /* what is being written comes when that has ended */
  give->has_begun = TRUE;
  take_give (give);
}

void
llm_executor_give_busy_kv (LlmExecutor   *self,
                           guint64        bytes,
                           LlmReclaimDone done,
                           gpointer       data)
{
  LlmGive *give = g_new0 (LlmGive, 1);

  *give = (LlmGive) {
    .executor = self,
    .bytes = bytes,
    .until_us = llm_clock_now_us () + GIVE_US,
    .done = done,
    .data = data,
  };
  llm_mailbox_post (self->inbox, give_busy_kv, give, g_free);
}

guint64
llm_executor_get_idle_kv (LlmExecutor *self)
{
  return __atomic_load_n (&self->idle_kv_bytes, __ATOMIC_RELAXED);
}

guint64
llm_executor_get_busy_kv (LlmExecutor *self)
{
  return __atomic_load_n (&self->busy_kv_bytes, __ATOMIC_RELAXED);
}
