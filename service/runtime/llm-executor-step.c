/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-engine"

#include "base/llm-clock.h"
#include "common/llmsvc-error.h"
#include "runtime/llm-executor-private.h"

/* Text that main has not taken yet; past this the job waits even if its sink
 * has not said that it is full. */
#define MAX_UNREAD_BYTES 16384

/* A lane's turn, after which cancels and newcomers are looked at: longer only where
 * a single stage is. */
#define TURN_US 2000

/* So many calls that nobody waits for are a pile. */
#define CROWD 3

/* When a call that found no room for its context memory looks again. */
#define RETRY_US 20000

/* What the ticket of a run says is what is left to compute: after its rows were taken back, or
 * chunks turned out to be missing. A run that writes has the one row of its next token left, and no
 * more unless something is missing. */
static void
settle_ticket (LlmExecutor *self,
               LlmRun      *run)
{
  guint n_missing;
  guint n_left = llm_executor_count_left (self, run, &n_missing);

  if (llm_ticket_get_n_prompt (run->ticket) > 0 || n_missing > 0)
    llm_ticket_set_n_prompt (run->ticket, n_left);
}

/* Calls whose chunks were taken go on (L9): at once where there is room; else when others have
 * ended. */
static void
resume_parked (LlmExecutor *self,
               gint64       now)
{
  guint n_begun = 0;

  for (guint i = 0; i < self->runs->len; i++)
    n_begun += ((LlmRun *) g_ptr_array_index (self->runs, i))->has_begun;

  for (guint i = self->runs->len; i-- > 0;)
    {
      LlmRun *run = g_ptr_array_index (self->runs, i);
      g_autoptr(GError) error = NULL;

      if (run->has_begun || run->is_opening || now < run->resume_us
          || __atomic_load_n (&run->job->is_parked, __ATOMIC_ACQUIRE)
          || llm_executor_stands_still (self, run, now))
        continue;
      if (llm_executor_begin_call (self, run, &error))
        {
          n_begun++;
          llm_ticket_set_n_prompt (run->ticket, llm_executor_count_left (self, run, NULL));
        }
      else if (n_begun > 0)
        run->resume_us = now + RETRY_US;
      else if (llm_executor_may_wait (self, run))
        continue;
      else
        {
          if (run->stuck_us > 0)
            {
              g_clear_error (&error);
              g_set_error_literal (&error, LLMSVC_ERROR, LLMSVC_ERROR_NO_MEMORY,
                                   "The system has been short of memory for too long for this "
                                   "call; try again later, or have other programs closed");
            }
          llm_executor_end_run (self, run, LLM_JOB_FAILED, error);
        }
    }
}

void
llm_executor_sweep (LlmExecutor *self)
{
  gint64 now = llm_clock_now_us ();

  llm_scheduler_set_pace (self->scheduler, __atomic_load_n (&self->pace, __ATOMIC_ACQUIRE));
  llm_executor_open_runs (self);
  resume_parked (self, now);
  for (guint i = self->runs->len; i-- > 0;)
    {
      LlmRun *run = g_ptr_array_index (self->runs, i);
      LlmJob *job = run->job;
      LlmJobEnd end = __atomic_load_n (&job->stop_request, __ATOMIC_ACQUIRE);

      if (end != LLM_JOB_RUNNING)
        llm_executor_end_run (self, run, end, NULL);
      else if (job->deadline_us > 0 && now >= job->deadline_us)
        llm_executor_end_run (self, run, LLM_JOB_DEADLINE, NULL);
      else if (!run->is_opening)
        {
          if (run->due_us <= now)
            run->due_us = 0;
          llm_ticket_set_parked (run->ticket,
                                 !run->has_begun || run->due_us > 0 ||
                                   __atomic_load_n (&job->is_parked, __ATOMIC_ACQUIRE) ||
                                   __atomic_load_n (&job->n_unread, __ATOMIC_ACQUIRE) >
                                     MAX_UNREAD_BYTES);
        }
    }
}

/* The token behind those that the session has, and further ones: of the prompt, then generated. */
static const gint32 *
get_next_tokens (const LlmRun *run)
{
  guint first = run->session->tokens->len;

  if (first < run->job->prompt->len)
    return &g_array_index (run->job->prompt, gint32, first);
  return &g_array_index (run->result->tokens, gint32, first - run->job->prompt->len);
}

/* Gives the session @n tokens more. In a step, tokens of the prompt and generated ones don't
 * mix. */
static gboolean
extend_session (LlmExecutor *self,
                LlmRun      *run,
                guint        n,
                GError     **error)
{
  static const guint8 generated = LLK_ROWS_GENERATED;
  LlmSession *session = run->session;
  gboolean is_prompt = session->tokens->len < run->job->prompt->len;
  const gint32 *tokens = get_next_tokens (run);
  const guint8 *kinds = is_prompt ? run->kinds->data + session->tokens->len : &generated;

  g_assert (is_prompt || n == 1);
  if (llm_session_extend (session, tokens, kinds, n, NULL))
    return TRUE;
  llm_executor_make_room (self, llm_kv_store_price (self->store, n));
  return llm_session_extend (session, tokens, kinds, n, error);
}

static void
add_row (LlmLane    *lane,
         LlmSession *session,
         guint       slot,
         gboolean    wants_logits)
{
  guint token = llm_session_find_token (session, slot);
  LlmRow row = {
    .token = g_array_index (session->tokens, gint32, token),
    .position = slot + llm_kv_seq_get_n_slid (session->seq),
    .sequence = lane->sequences->len,
    .slot = slot,
    .visibility = { .kind = LLM_VISIBLE_CAUSAL },
    .kind = session->kinds->data[token],
    .sub_model = 100,
    .wants_logits = wants_logits,
  };

  g_array_append_val (lane->rows, row);
}

/* Adds the rows of one share to the step: first those of slots that the session had and lost, then
 * new ones, as each sees what is before it. */
static gboolean
add_rows (LlmExecutor *self,
          LlmLane     *lane,
          LlmShare    *share,
          GError     **error)
{
  LlmRun *run = llm_ticket_get_data (share->ticket);
  LlmSession *session = run->session;
  guint first = llm_kv_seq_get_length (session->seq);
  guint n_missing;
  guint n_left = llm_executor_count_left (self, run, &n_missing);
  guint n_old = MIN (n_missing, share->n_rows);

  g_assert (share->n_rows <= n_left);
  run->length_before = session->tokens->len;
  if (share->n_rows > n_old && !extend_session (self, run, share->n_rows - n_old, error))
    return FALSE;

  for (guint i = 0; i < share->n_rows; i++)
    add_row (lane, session,
             i < n_old ? g_array_index (self->missing, guint, i) : first + i - n_old,
             run->job->generates && i + 1 == n_left);
  g_ptr_array_add (lane->sequences, session->seq);
  lane->shares[lane->n_shares++] = *share;
  if (run->started_us == 0)
    run->started_us = llm_clock_now_us ();
  __atomic_store_n (&run->job->has_started, TRUE, __ATOMIC_RELEASE);
  return TRUE;
}

/* The rows were not computed: what the step added is taken back. */
static void
take_back_rows (LlmExecutor *self,
                LlmLane     *lane)
{
  for (guint i = 0; i < lane->n_shares; i++)
    {
      LlmRun *run = llm_ticket_get_data (lane->shares[i].ticket);

      llm_session_cut (run->session, run->length_before);
      settle_ticket (self, run);
    }
}

static LlmLaneKind
get_kind (LlmExecutor   *self,
          const LlmLane *lane)
{
  return (LlmLaneKind) (lane - self->lanes);
}

static void
abandon_lane (LlmExecutor *self,
              LlmLane     *lane)
{
  llm_lane_abandon (lane);
  llm_scheduler_abandon_step (self->scheduler, get_kind (self, lane), lane->shares,
                              lane->n_shares);
  take_back_rows (self, lane);
}

static gboolean
is_in_lane (const LlmLane *lane,
            const LlmRun  *run)
{
  for (guint i = 0; i < lane->n_shares; i++)
    if (lane->shares[i].ticket == run->ticket)
      return TRUE;
  return FALSE;
}

void
llm_executor_leave_lanes (LlmExecutor *self,
                          LlmRun      *run)
{
  for (guint i = 0; i < LLM_N_LANES; i++)
    {
      LlmLane *lane = &self->lanes[i];

      if (lane->is_active && is_in_lane (lane, run))
        abandon_lane (self, lane);
    }
}

void
llm_executor_abandon_lanes (LlmExecutor *self)
{
  for (guint i = 0; i < LLM_N_LANES; i++)
    if (self->lanes[i].is_active)
      abandon_lane (self, &self->lanes[i]);
}

/* A chunk that was to come back can't (L10): it is missing now, and computed again with the step,
 * which begins anew. FALSE when that is not why the step failed. The rows are taken back in any
 * case. */
static gboolean
recover (LlmExecutor *self,
         LlmLane     *lane)
{
  gboolean has_fault = FALSE;

  /* asking for what is missing answers the fault */
  for (guint i = 0; i < lane->n_shares; i++)
    {
      LlmRun *run = llm_ticket_get_data (lane->shares[i].ticket);

      has_fault = has_fault || llm_kv_seq_has_fault (run->session->seq);
    }
  take_back_rows (self, lane);
  return has_fault;
}

static void
fail_step (LlmExecutor  *self,
           LlmLane      *lane,
           const GError *error)
{
  g_message ("A step failed: %s", error->message);
  for (guint i = 0; i < lane->n_shares; i++)
    llm_executor_end_run (self, llm_ticket_get_data (lane->shares[i].ticket), LLM_JOB_FAILED,
                          error);
}

/* Work that nobody waits for has threads of its own, of a lower priority: few, as there is no
 * hurry, but as many as there are when such calls pile up. */
static LlmWorkerPool *
get_background_pool (LlmExecutor *self)
{
  if (!self->may_crowd || __atomic_load_n (&self->pace, __ATOMIC_ACQUIRE) != LLM_PACE_RUN
      || llm_scheduler_get_n_calls (self->scheduler) < CROWD)
    return llm_executor_get_background_pool (self);
  if (self->crowd_pool == NULL)
    self->crowd_pool =
        llm_worker_pool_new_background (llm_worker_pool_get_n_threads (self->pool),
                                        self->background_niceness);
  return self->crowd_pool;
}

/* While somebody waits for another call, it makes room sooner with the threads of all. */
static void
choose_pool (LlmExecutor *self,
             LlmLane     *lane)
{
  gboolean is_background = !self->is_fifo && !llm_scheduler_is_awaited (self->scheduler);

  lane->teaches = !is_background;
  llm_forward_set_pool (lane->forward, is_background ? get_background_pool (self) : self->pool);
}

/* There is no room for rows of @run: another call stands still for it, or it for the others. FALSE
 * when it is alone. */
static gboolean
make_way (LlmExecutor *self,
          LlmLane     *lane,
          LlmRun      *run)
{
  LlmRun *other = llm_executor_find_parkable (self);

  if (other != run && !is_in_lane (lane, other))
    {
      llm_executor_park (self, other);
      return TRUE;
    }
  run->has_begun = FALSE;
  other = llm_executor_find_parkable (self);
  run->has_begun = TRUE;
  if (other == NULL && !llm_executor_may_wait (self, run))
    return FALSE;
  llm_executor_park (self, run);
  return TRUE;
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
      LlmRun *run = llm_ticket_get_data (share.ticket);
      guint n_left = llm_executor_count_left (self, run, NULL);

      if (!run->has_begun)
        continue;  /* it stands still for one before it here */
      share.n_rows = MIN (share.n_rows, n_left);
      if (n_left == 0)
        llm_executor_end_run (self, run, LLM_JOB_STOP, NULL);
      else if (n_left > 1 && llm_ticket_get_n_prompt (share.ticket) == 0)
        llm_ticket_set_n_prompt (share.ticket, n_left);
      else if (!add_rows (self, lane, &share, &no_room) && !make_way (self, lane, run))
        llm_executor_end_run (self, run, LLM_JOB_FAILED, no_room);
    }
  if (lane->n_shares == 0)
    return FALSE;

  choose_pool (self, lane);
  if (llm_lane_begin (lane, &error))
    {
      llm_scheduler_begin_step (self->scheduler, get_kind (self, lane), lane->shares,
                                lane->n_shares);
      return TRUE;
    }

  take_back_rows (self, lane);
  fail_step (self, lane, error);
  return FALSE;
}

/* What was read from storage for the run is there: by the last time that its step had to wait for
 * it. */
static void
note_restored (LlmExecutor   *self,
               const LlmLane *lane,
               LlmRun        *run)
{
  if (run->restore_bytes > 0 && lane->waited_us > run->restore_us)
    llm_cost_model_observe_restore (llm_scheduler_get_costs (self->scheduler), run->restore_bytes,
                                    (double) (lane->waited_us - run->restore_us));
  run->restore_bytes = 0;
  llm_ticket_set_restored (run->ticket);
}

static void
finish_share (LlmExecutor *self,
              LlmLane     *lane,
              LlmShare    *share,
              guint        last_row)
{
  LlmRun *run = llm_ticket_get_data (share->ticket);
  gboolean reads = get_kind (self, lane) != LLM_LANE_WRITING;
  guint n_missing;

  run->stuck_us = 0;
  note_restored (self, lane, run);
  if (reads)
    llm_ticket_set_n_prompt (share->ticket, llm_executor_count_left (self, run, &n_missing));
  if (!reads || n_missing == 0)
    run->session->n_settled = run->session->tokens->len;
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
  LlmLaneKind kind = get_kind (self, lane);
  guint row = 0;

  __atomic_fetch_add (&self->n_steps, 1, __ATOMIC_RELAXED);
  __atomic_fetch_add (&self->n_rows, lane->rows->len, __ATOMIC_RELAXED);
  if (kind != LLM_LANE_WRITING)
    __atomic_fetch_add (&self->n_read, lane->rows->len, __ATOMIC_RELAXED);
  llm_scheduler_end_step (self->scheduler, kind, lane->shares, lane->n_shares, lane->teaches);
  for (guint i = 0; i < lane->n_shares; i++)
    {
      row += lane->shares[i].n_rows;
      finish_share (self, lane, &lane->shares[i], row - 1);
    }
}

/* FALSE when the lane waits for weights or context memory, and nothing was computed. */
static gboolean
run_lane (LlmExecutor *self,
          LlmLane     *lane)
{
  g_autoptr(GError) error = NULL;
  LlmLaneKind kind = get_kind (self, lane);
  gint64 begin_us = llm_clock_now_us ();
  guint n_before = lane->n_stages;
  gint64 now_us;
  LlmStatus status;

  llm_weights_keep (self->weights, __atomic_load_n (&self->keep_bytes, __ATOMIC_RELAXED));
  status = llm_lane_run (lane, begin_us + TURN_US, &error);
  now_us = llm_clock_now_us ();
  llm_scheduler_note_turn (self->scheduler, kind, now_us, now_us - begin_us);
  if (status == LLM_PENDING && lane->n_stages == n_before)
    lane->waited_us = now_us;
  if (status == LLM_FAILED)
    llm_scheduler_abandon_step (self->scheduler, kind, lane->shares, lane->n_shares);
  if (status == LLM_READY)
    finish_step (self, lane);
  else if (status == LLM_FAILED && !recover (self, lane))
    fail_step (self, lane, error);
  return status != LLM_PENDING || lane->n_stages > n_before;
}

static LlmTurnEnd
run_turn_of (LlmExecutor *self,
             LlmLaneKind  kind)
{
  LlmLane *lane = &self->lanes[kind];

  if (!lane->is_active)
    {
      guint n = llm_scheduler_plan (self->scheduler, kind, llm_clock_now_us (), self->shares,
                                    LLM_BATCH_MAX_ROWS);

      if (n == 0)
        return LLM_TURN_NONE;
      if (!begin_step (self, lane, self->shares, n))
        return LLM_TURN_RAN;
    }
  return run_lane (self, lane) ? LLM_TURN_RAN : LLM_TURN_WAITS;
}

/* Who waits for what is being read gives the turn to the next. */
LlmTurnEnd
llm_executor_run_turn (LlmExecutor *self)
{
  gboolean has_waited = FALSE;
  guint waiting = 0;
  LlmLaneKind kind;

  while ((kind = llm_scheduler_choose (self->scheduler, llm_clock_now_us (), waiting))
         != LLM_LANE_NONE)
    {
      LlmTurnEnd end = run_turn_of (self, kind);

      if (end == LLM_TURN_RAN)
        return end;
      has_waited = has_waited || end == LLM_TURN_WAITS;
      waiting |= 1u << kind;
    }
  return has_waited ? LLM_TURN_WAITS : LLM_TURN_NONE;
}
