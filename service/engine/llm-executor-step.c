/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-engine"

#include "base/llm-clock.h"
#include "common/llmsvc-error.h"
#include "engine/llm-executor-private.h"

/* Text that main has not taken yet; past this the job waits even if its sink
 * has not said that it is full. */
#define MAX_UNREAD_BYTES 16384

/* A lane's turn, after which cancels and newcomers are looked at: longer only where
 * a single stage is. */
#define TURN_US 2000

/* What readers get after a step of the writers: as long as that took, within these. */
#define MIN_READING_US 5000
#define MAX_READING_US 100000

/* A step of readers should take about this long: newcomers of their class wait for
 * its end, all others for a turn. */
#define STEP_TARGET_US 400000
/* Enough to use each weight often; fewer would cost more than they save. */
#define MIN_ROWS 64

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
  for (guint i = 0; i < LLM_N_LANES; i++)
    if (self->lanes[i].forward != NULL)
      scratch += llm_forward_get_scratch (self->lanes[i].forward);

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

/* What a row is computed with must not depend on when it is computed. */
static LlkRowKind
get_kind (LlmExecutor  *self,
          const LlmRun *run,
          gboolean      reads,
          guint         slot)
{
  if (!reads || self->is_exact)
    return LLK_ROWS_GENERATED;
  for (guint i = 0; i < run->job->generated->len; i++)
    {
      const LlmTokenSpan *span = &g_array_index (run->job->generated, LlmTokenSpan, i);

      if (slot >= span->first && slot < span->end)
        return LLK_ROWS_GENERATED;
    }
  return LLK_ROWS_PROMPT;
}

/* Adds the rows of one share to the step. */
static gboolean
add_rows (LlmExecutor *self,
          LlmLane     *lane,
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
        .sequence = lane->sequences->len,
        .slot = first + i,
        .visibility = { .kind = LLM_VISIBLE_CAUSAL },
        .kind = get_kind (self, run, reads, first + i),
        .sub_model = 100,
        .wants_logits = run->job->generates && i + 1 == share->n_rows && (ends_prompt || !reads),
      };

      g_array_append_val (lane->rows, row);
    }
  g_ptr_array_add (lane->sequences, session->seq);
  lane->shares[lane->n_shares++] = *share;
  __atomic_store_n (&run->job->has_started, TRUE, __ATOMIC_RELEASE);
  return TRUE;
}

/* The rows were not computed: what the step added is taken back. */
static void
take_back_rows (LlmLane *lane)
{
  for (guint i = 0; i < lane->n_shares; i++)
    {
      LlmRun *run = llm_ticket_get_data (lane->shares[i].ticket);

      llm_session_cut (run->session, run->length_before);
    }
}

static void
abandon_lane (LlmLane *lane)
{
  llm_lane_abandon (lane);
  take_back_rows (lane);
}

void
llm_executor_leave_lanes (LlmExecutor *self,
                          LlmRun      *run)
{
  for (guint i = 0; i < LLM_N_LANES; i++)
    {
      LlmLane *lane = &self->lanes[i];
      gboolean is_in = FALSE;

      for (guint j = 0; lane->is_active && j < lane->n_shares; j++)
        is_in = is_in || lane->shares[j].ticket == run->ticket;
      if (is_in)
        abandon_lane (lane);
    }
}

void
llm_executor_abandon_lanes (LlmExecutor *self)
{
  for (guint i = 0; i < LLM_N_LANES; i++)
    if (self->lanes[i].is_active)
      abandon_lane (&self->lanes[i]);
}

static void
fail_step (LlmExecutor  *self,
           LlmLane      *lane,
           const GError *error)
{
  g_message ("A step failed: %s", error->message);
  take_back_rows (lane);
  for (guint i = 0; i < lane->n_shares; i++)
    llm_executor_end_run (self, llm_ticket_get_data (lane->shares[i].ticket), LLM_JOB_FAILED,
                          error);
}

/* Work that nobody waits for has threads of its own, of a lower priority. */
static void
choose_pool (LlmExecutor *self,
             LlmLane     *lane)
{
  gboolean is_background = TRUE;

  for (guint i = 0; i < lane->n_shares; i++)
    {
      LlmRun *run = llm_ticket_get_data (lane->shares[i].ticket);

      is_background = is_background && run->job->slo.class == LLM_SLO_BACKGROUND;
    }
  llm_forward_set_pool (lane->forward, is_background ? self->background_pool : self->pool);
}

/* FALSE when no step began: nobody had anything to run, or had room for it. */
static gboolean
begin_step (LlmExecutor    *self,
            LlmLane        *lane,
            const LlmShare *shares,
            guint           n_shares)
{
  g_autoptr(GError) error = NULL;

  llm_lane_reset (lane);
  for (guint i = 0; i < n_shares; i++)
    {
      g_autoptr(GError) no_room = NULL;
      LlmShare share = shares[i];

      if (!add_rows (self, lane, &share, &no_room))
        llm_executor_end_run (self, llm_ticket_get_data (share.ticket), LLM_JOB_FAILED, no_room);
    }
  if (lane->n_shares == 0)
    return FALSE;

  choose_pool (self, lane);
  if (llm_lane_begin (lane, &error))
    return TRUE;

  fail_step (self, lane, error);
  return FALSE;
}

/* Learns from a step of prompts how many rows the next one should have. */
static void
adapt_rows (LlmExecutor *self,
            LlmLane     *lane)
{
  double row_us = (double) MAX (lane->spent_us, 1) / lane->rows->len;

  /* Few rows read all weights for themselves: they say nothing about many. */
  if (lane->rows->len < MIN_ROWS / 2)
    return;
  self->row_us = self->row_us > 0 ? 0.75 * self->row_us + 0.25 * row_us : row_us;
  llm_scheduler_set_rows (self->scheduler,
                          (guint) CLAMP (STEP_TARGET_US / self->row_us, MIN_ROWS,
                                         LLM_BATCH_MAX_ROWS));
}

static void
finish_share (LlmExecutor *self,
              LlmLane     *lane,
              LlmShare    *share,
              guint        last_row)
{
  LlmRun *run = llm_ticket_get_data (share->ticket);

  llm_scheduler_charge (self->scheduler, share);
  if (llm_ticket_get_n_prompt (share->ticket) > 0)
    return;
  if (run->job->generates)
    llm_executor_take_logits (self, run, llm_forward_get_logits (lane->forward, last_row));
  else
    llm_executor_end_run (self, run, LLM_JOB_STOP, NULL);
}

static void
finish_step (LlmExecutor *self,
             LlmLane     *lane)
{
  guint row = 0;

  __atomic_fetch_add (&self->n_steps, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add (&self->n_rows, lane->rows->len, __ATOMIC_RELAXED);
  if (lane == &self->lanes[LLM_LANE_WRITING])
    self->reading_left_us = CLAMP (lane->spent_us, MIN_READING_US, MAX_READING_US);
  else
    adapt_rows (self, lane);
  for (guint i = 0; i < lane->n_shares; i++)
    {
      row += lane->shares[i].n_rows;
      finish_share (self, lane, &lane->shares[i], row - 1);
    }
}

static void
run_lane (LlmExecutor *self,
          LlmLane     *lane)
{
  g_autoptr(GError) error = NULL;
  gint64 begin_us = llm_clock_now_us ();
  LlmStatus status = llm_lane_run (lane, begin_us + TURN_US, &error);

  if (lane != &self->lanes[LLM_LANE_WRITING])
    self->reading_left_us -= llm_clock_now_us () - begin_us;
  if (status == LLM_READY)
    finish_step (self, lane);
  else if (status == LLM_FAILED)
    fail_step (self, lane, error);
}

/* A step of the writers is short, and goes on to its end; then the readers have
 * their turn, in the class whose turn it is. */
gboolean
llm_executor_run_turn (LlmExecutor *self)
{
  LlmLane *writing = &self->lanes[LLM_LANE_WRITING];
  LlmSloClass slo_class;
  gboolean has_readers;

  if (writing->is_active)
    {
      run_lane (self, writing);
      return TRUE;
    }

  has_readers = llm_scheduler_choose_class (self->scheduler, &slo_class);
  if (!has_readers || self->reading_left_us <= 0)
    {
      guint n = llm_scheduler_plan_writers (self->scheduler, self->shares, LLM_BATCH_MAX_ROWS);

      if (n > 0)
        {
          if (begin_step (self, writing, self->shares, n))
            run_lane (self, writing);
          return TRUE;
        }
    }
  if (has_readers)
    {
      LlmLane *lane = &self->lanes[LLM_LANE_READING + slo_class];

      if (lane->is_active
          || begin_step (self, lane, self->shares,
                         llm_scheduler_plan_readers (self->scheduler, slo_class, self->shares,
                                                     LLM_BATCH_MAX_ROWS)))
        run_lane (self, lane);
      llm_scheduler_note_turn (self->scheduler, slo_class);
    }
  return has_readers;
}
