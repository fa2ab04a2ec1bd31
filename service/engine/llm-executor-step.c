/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-engine"

#include "base/llm-clock.h"
#include "common/llmsvc-error.h"
#include "engine/llm-executor-private.h"

/* Text that main has not taken yet; past this the job waits even if its sink
 * has not said that it is full. */
#define MAX_UNREAD_BYTES 16384

/* How long a step that waits for weights or context memory sleeps before it is
 * tried again, when no message comes earlier. */
#define PENDING_WAIT_US 1000

/* A step should take about this long: cancels and newcomers wait for its end. */
#define STEP_TARGET_US 150000

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

void
llm_executor_publish (LlmExecutor *self)
{
  GHashTableIter iter;
  LlmSession *session;
  guint64 idle = 0;
  guint64 scratch = 0;

  g_hash_table_iter_init (&iter, self->sessions);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &session))
    if (!session->is_busy && session->seq != NULL)
      idle += llm_kv_seq_get_own_bytes (session->seq);
  if (self->forward != NULL)
    scratch = llm_forward_get_scratch (self->forward);

  __atomic_store_n (&self->idle_kv_bytes, idle, __ATOMIC_RELAXED);
  __atomic_store_n (&self->scratch_bytes, scratch, __ATOMIC_RELAXED);
}

typedef struct
{
  LlmExecutor *executor; /* (unowned): ends behind the main box */
  guint64 session;
} Dropped;

static void
deliver_dropped (gpointer data)
{
  Dropped *dropped = data;

  dropped->executor->dropped (dropped->session, dropped->executor->dropped_data);
}

static LlmSession *
find_oldest_idle (LlmExecutor *self)
{
  GHashTableIter iter;
  LlmSession *session;
  LlmSession *oldest = NULL;

  g_hash_table_iter_init (&iter, self->sessions);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &session))
    if (!session->is_busy && session->tokens->len > 0 &&
        (oldest == NULL || session->used_us < oldest->used_us))
      oldest = session;
  return oldest;
}

guint64
llm_executor_evict (LlmExecutor *self,
                    guint64      bytes)
{
  guint64 freed = 0;
  LlmSession *session;

  /* Forks share chunks, so what comes free is what the store says, and the
   * walk ends with the sessions, not with a sum. */
  while (freed < bytes && (session = find_oldest_idle (self)) != NULL)
    {
      guint64 before = llm_kv_store_get_bytes (self->store);

      llm_session_drop (session);
      if (self->dropped != NULL)
        {
          Dropped *dropped = g_new (Dropped, 1);

          *dropped = (Dropped) { self, session->id };
          llm_mailbox_post (self->main_box, deliver_dropped, dropped, g_free);
        }
      freed += before - llm_kv_store_get_bytes (self->store);
    }
  return freed;
}

void
llm_executor_sweep (LlmExecutor *self)
{
  gint64 now = llm_clock_now_us ();

  for (guint i = self->runs->len; i-- > 0;)
    {
      LlmRun *run = g_ptr_array_index (self->runs, i);
      LlmJob *job = run->job;
      LlmJobEnd end = __atomic_load_n (&job->stop_request, __ATOMIC_ACQUIRE);

      if (end != LLM_JOB_RUNNING)
        llm_executor_end_run (self, run, end, NULL);
      else if (job->deadline_us > 0 && now >= job->deadline_us)
        llm_executor_end_run (self, run, LLM_JOB_DEADLINE, NULL);
      else
        {
          if (run->due_us <= now)
            run->due_us = 0;
          llm_ticket_set_parked (run->ticket,
                                 run->due_us > 0 ||
                                   __atomic_load_n (&job->is_parked, __ATOMIC_ACQUIRE) ||
                                   __atomic_load_n (&job->n_unread, __ATOMIC_ACQUIRE) >
                                     MAX_UNREAD_BYTES);
        }
    }
}

/* Adds the rows of one share to the step. */
static gboolean
add_rows (LlmExecutor *self,
          LlmShare    *share,
          GError     **error)
{
  LlmRun *run = llm_ticket_get_data (share->ticket);
  LlmSession *session = run->session;
  gboolean reads = llm_ticket_get_n_prompt (share->ticket) > 0;
  guint first = session->tokens->len;
  const gint32 *tokens = reads ? &g_array_index (run->job->prompt, gint32, first) : &run->next;
  gboolean ends_prompt = reads && share->n_rows == llm_ticket_get_n_prompt (share->ticket);

  run->length_before = first;
  if (!llm_session_extend (session, tokens, share->n_rows, NULL))
    {
      llm_executor_evict (self, llm_kv_store_price (self->store, share->n_rows));
      if (!llm_session_extend (session, tokens, share->n_rows, error))
        return FALSE;
    }

  for (guint i = 0; i < share->n_rows; i++)
    {
      LlmRow row = {
        .token = tokens[i],
        .position = first + i,
        .sequence = self->sequences->len,
        .slot = first + i,
        .visibility = { .kind = LLM_VISIBLE_CAUSAL },
        .kind = reads ? LLM_ROW_PROMPT : LLM_ROW_GENERATED,
        .sub_model = 100,
        .wants_logits = run->job->generates && i + 1 == share->n_rows && (ends_prompt || !reads),
      };

      g_array_append_val (self->rows, row);
    }
  g_ptr_array_add (self->sequences, session->seq);
  __atomic_store_n (&run->job->has_started, TRUE, __ATOMIC_RELEASE);
  return TRUE;
}

static gboolean
compute (LlmExecutor *self,
         GError     **error)
{
  LlmBatch batch = {
    .rows = (const LlmRow *) self->rows->data,
    .n_rows = self->rows->len,
    .sequences = (LlmKvSeq *const *) self->sequences->pdata,
    .n_sequences = self->sequences->len,
  };
  LlmStatus status;

  if (!llm_forward_begin (self->forward, &batch, error))
    return FALSE;
  while ((status = llm_forward_resume (self->forward, error)) == LLM_PENDING)
    g_usleep (PENDING_WAIT_US);
  return status == LLM_READY && llm_weights_check (self->weights, error);
}

/* Learns from a step of @n_rows how many rows the next one should have. */
static void
adapt_rows (LlmExecutor *self,
            guint        n_rows,
            gint64       elapsed_us)
{
  double row_us = (double) MAX (elapsed_us, 1) / n_rows;
  guint max_rows;

  /* Single rows read all weights for themselves: they say nothing about many. */
  if (n_rows < 4)
    return;
  self->row_us = self->row_us > 0 ? 0.75 * self->row_us + 0.25 * row_us : row_us;
  max_rows = (guint) CLAMP (STEP_TARGET_US / self->row_us, 8, self->max_rows);
  llm_scheduler_set_rows (self->scheduler, max_rows, MAX (4, max_rows / 4));
}

/* The rows were not computed: what the step added is taken back, and the calls
 * end with the error. */
static void
fail_step (LlmExecutor  *self,
           guint         n_shares,
           const GError *error)
{
  for (guint i = 0; i < n_shares; i++)
    {
      LlmRun *run = llm_ticket_get_data (self->shares[i].ticket);

      llm_session_cut (run->session, run->length_before);
      llm_executor_end_run (self, run, LLM_JOB_FAILED, error);
    }
}

static void
finish_share (LlmExecutor *self,
              LlmShare    *share,
              guint        last_row)
{
  LlmRun *run = llm_ticket_get_data (share->ticket);

  llm_scheduler_charge (self->scheduler, share);
  if (llm_ticket_get_n_prompt (share->ticket) > 0)
    return;
  if (run->job->generates)
    llm_executor_take_logits (self, run, llm_forward_get_logits (self->forward, last_row));
  else
    llm_executor_end_run (self, run, LLM_JOB_STOP, NULL);
}

gboolean
llm_executor_run_step (LlmExecutor *self)
{
  g_autoptr(GError) error = NULL;
  guint n_shares = llm_scheduler_plan (self->scheduler, self->shares, self->max_rows);
  guint n_kept = 0;
  guint row = 0;
  gint64 begin_us;

  if (n_shares == 0)
    return FALSE;

  g_array_set_size (self->rows, 0);
  g_ptr_array_set_size (self->sequences, 0);
  for (guint i = 0; i < n_shares; i++)
    {
      g_autoptr(GError) no_room = NULL;

      if (add_rows (self, &self->shares[i], &no_room))
        self->shares[n_kept++] = self->shares[i];
      else
        llm_executor_end_run (self, llm_ticket_get_data (self->shares[i].ticket), LLM_JOB_FAILED,
                              no_room);
    }
  if (n_kept == 0)
    return TRUE;

  begin_us = llm_clock_now_us ();
  if (!compute (self, &error))
    {
      g_message ("A step failed: %s", error->message);
      fail_step (self, n_kept, error);
      return TRUE;
    }

  adapt_rows (self, self->rows->len, llm_clock_now_us () - begin_us);
  __atomic_fetch_add (&self->n_steps, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add (&self->n_rows, self->rows->len, __ATOMIC_RELAXED);
  for (guint i = 0; i < n_kept; i++)
    {
      row += self->shares[i].n_rows;
      finish_share (self, &self->shares[i], row - 1);
    }
  return TRUE;
}
