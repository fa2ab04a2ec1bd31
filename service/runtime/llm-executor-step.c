/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Steps: which rows they have, and what follows from them. */

#define G_LOG_DOMAIN "llm-engine"

#include <string.h>

#include "base/llm-fail.h"
#include "common/llmsvc-error.h"
#include "model/llm-footprint.h"
#include "runtime/llm-executor-private.h"
#include "runtime/llm-executor-residency.h"
#include "runtime/llm-executor-steps.h"

G_STATIC_ASSERT (LLM_DRAFT_MAX_NODES == LLM_TREE_MAX_NODES);

/* Limit of text that main has not taken yet; beyond it the request waits, even if its sink has not
 * said that it is full. */
#define MAX_UNREAD_BYTES 16384

/* Length of a turn, after which cancelled and new requests are looked at; a single stage may take
 * longer. */
#define TURN_US 2000

/* When a request whose chunks did not fit tries again. */
#define RETRY_US 20000

/* --- between steps --- */

static gboolean
is_blocked (LlmRequest *request)
{
  return __atomic_load_n (&request->progress.is_blocked, __ATOMIC_ACQUIRE);
}

/* Its chunks do not fit, and no other request will free memory. */
static void
fail_without_room (LlmRequest *request,
                   GError     *error)
{
  g_autoptr(GError) owned = error;

  if (request->room.stuck_us > 0)
    {
      g_clear_error (&owned);
      llm_fail (&owned, LLMSVC_ERROR_NO_MEMORY,
                "The system has been short of memory for too long for this call; try again later, "
                "or have other programs closed");
    }
  llm_request_end (request, LLM_FINISH_FAILED, owned);
}

/* Resumes preempted requests (L9): at once when they fit; else when others have ended. */
static void
resume_preempted (LlmExecutor *self,
                  gint64       now)
{
  guint n_resident = 0;

  LLM_EACH (const LlmRequest, request, self->requests)
    n_resident += request->room.is_resident;

  for (guint i = self->requests->len; i-- > 0;)
    {
      LlmRequest *request = g_ptr_array_index (self->requests, i);
      GError *error = NULL;

      if (request->room.is_resident || request->is_opening || now < request->room.resume_us
          || is_blocked (request) || llm_request_stays_preempted (request, now))
        continue;
      if (llm_request_lock_chunks (request, &error))
        {
          n_resident++;
          llm_sched_entry_set_n_prompt (&request->entry, llm_request_count_left (request, NULL));
          continue;
        }
      if (n_resident > 0)
        request->room.resume_us = now + RETRY_US;
      else if (!llm_request_may_wait (request))
        {
          fail_without_room (request, error);
          continue;
        }
      g_error_free (error);
    }
}

/* Progress that the main thread may show of a request before its first token. */
static void
publish_progress (LlmRequest *request)
{
  const LlmSchedEntry *entry = &request->entry;
  guint n_left = MIN (entry->n_prompt, request->prompt->len);

  if (request->result.tokens->len > 0)
    return;
  __atomic_store_n (&request->progress.waits_for,
                    request->is_opening ? LLM_REQUEST_WAIT_STORAGE
                    : request->room.is_resident ? LLM_REQUEST_WAIT_TURN : LLM_REQUEST_WAIT_MEMORY,
                    __ATOMIC_RELAXED);
  __atomic_store_n (&request->progress.n_prefilled, request->prompt->len - n_left,
                    __ATOMIC_RELAXED);
  __atomic_store_n (&request->progress.n_ahead,
                    llm_scheduler_count_ahead (request->runner->scheduler, entry),
                    __ATOMIC_RELAXED);
  __atomic_store_n (&request->progress.n_restoring, request->room.restore_bytes, __ATOMIC_RELAXED);
}

void
llm_executor_sweep (LlmExecutor *self)
{
  gint64 now = llm_clock_now_us ();
  guint pace = __atomic_load_n (&self->steps.pace, __ATOMIC_ACQUIRE);

  LLM_EACH (LlmRunner, runner, self->runners)
    llm_scheduler_set_pace (runner->scheduler, pace);
  llm_executor_open_requests (self);
  resume_preempted (self, now);
  for (guint i = self->requests->len; i-- > 0;)
    {
      LlmRequest *request = g_ptr_array_index (self->requests, i);
      LlmFinish finish = __atomic_load_n (&request->progress.stop_request, __ATOMIC_ACQUIRE);

      if (finish != LLM_FINISH_RUNNING)
        llm_request_end (request, finish, NULL);
      else if (request->deadline_us > 0 && now >= request->deadline_us)
        llm_request_end (request, LLM_FINISH_DEADLINE, NULL);
      else if (request->is_opening)
        publish_progress (request);
      else
        {
          if (request->times.due_us <= now)
            request->times.due_us = 0;
          llm_sched_entry_set_suspended (
            &request->entry, !request->room.is_resident || request->times.due_us > 0
              || is_blocked (request)
                               || __atomic_load_n (&request->progress.n_unread, __ATOMIC_ACQUIRE)
                                    > MAX_UNREAD_BYTES);
          publish_progress (request);
        }
    }
}

/* --- rows --- */

/* Decode rows: at most @n, as far as there are positions, and none after the answer's last
 * token. */
static guint
propose (LlmRequest *request,
         guint       n)
{
  LlmDecoder *decoder = request->decoder;
  LlmDraftTree *tree = &request->rows;
  guint n_positions = request->window.n_ctx - request->session->seq->length;

  tree->n_max = MAX (MIN (MIN (n, decoder->n_rows), n_positions), 1);
  tree->max_depth = request->max_tokens - request->result.tokens->len - 1;
  decoder->class->propose (decoder, tree);
  g_assert (tree->n >= 1 && tree->n <= tree->n_max);
  return tree->n;
}

static gboolean
is_prefilling (const LlmRequest *request)
{
  return request->session->tokens->len < request->prompt->len;
}

/* Adds @n tokens to the session. A request's rows in a step are either all of the prompt or all of
 * decode. */
static gboolean
extend_session (LlmRequest *request,
                guint       n,
                GError    **error)
{
  LlmSession *session = request->session;
  guint first = session->tokens->len;
  g_autofree guint8 *generated = NULL;
  const gint32 *tokens = request->rows.tokens;
  const guint8 *states;

  if (is_prefilling (request))
    {
      tokens = &g_array_index (request->prompt, gint32, first);
      states = request->states->data + first;
    }
  else
    {
      /* when chunks before it were lost, the last token is computed again without the decoder */
      if (request->rows.n == 0)
        tokens = &g_array_index (request->result.tokens, gint32, first - request->prompt->len);
      states = generated = g_malloc (n);
      memset (generated, request->own_state, n);
    }
  if (llm_session_extend (session, tokens, states, n, NULL))
    return TRUE;
  llm_executor_make_room (request->executor, llm_kv_store_price (session->store, n));
  return llm_session_extend (session, tokens, states, n, error);
}

static guint8
find_sparsity (const LlmThresholds *thresholds,
               guint8               state)
{
  return llm_row_state_is_sparse (state) ? thresholds->percent[llm_row_state_get_place (state)] : 0;
}

/* A row that is computed again does not count as new. */
static LlmRow *
add_row (LlmQueueStep       *step,
         LlmSession         *session,
         const LlmSubModels *table,
         const LlmThresholds *thresholds,
         guint               slot,
         gboolean            is_new,
         gboolean            wants_logits)
{
  guint token = llm_session_find_token (session, slot);
  guint8 state = session->states->data[token];
  LlmRow row = {
    .token = g_array_index (session->tokens, gint32, token),
    .position = slot + session->seq->n_slid,
    .sequence = step->sequences->len,
    .slot = slot,
    .visibility = { .kind = LLM_VISIBLE_CAUSAL },
    .sub_model = table->percent[table->n_levels - 1
                                - llm_row_state_get_lacking (state)],
    .sparsity = find_sparsity (thresholds, state),
    .is_w8 = llm_row_state_is_w8 (state),
    .wants_logits = wants_logits,
    .is_counted = is_new && llm_row_is_sampled (slot),
  };

  g_array_append_val (step->rows, row);
  return &g_array_index (step->rows, LlmRow, step->rows->len - 1);
}

/* Adds the decode row of node @node of the request's tree, whose root is in slot @base. */
static void
set_node (LlmRow             *row,
          const LlmDraftTree *tree,
          guint               node,
          guint               base)
{
  row->is_drafted = node > 0;
  row->is_counted = llm_row_is_sampled (base + tree->depths[node]);
  row->position -= node - tree->depths[node];
  if (!llm_draft_tree_is_chain (tree, node))
    row->visibility = (LlmVisibility) {
      .kind = LLM_VISIBLE_TREE, .base = base, .ancestors = tree->paths[node],
    };
}

/* The state of the request's row @i: of @n_old that are computed again, then of the prompt or the
 * answer. */
static guint8
get_next_state (const LlmRequest *request,
                guint             i,
                guint             n_old)
{
  LlmSession *session = request->session;
  guint at = session->tokens->len + i - n_old;

  if (i < n_old)
    {
      guint slot = g_array_index (request->executor->steps.missing, guint, i);

      return session->states->data[llm_session_find_token (session, slot)];
    }
  return at < request->states->len ? request->states->data[at] : request->own_state;
}

static LlmStepKind
get_next_kind (const LlmRequest *request,
               guint             i,
               guint             n_old)
{
  return llm_row_state_is_w8 (get_next_state (request, i, n_old)) ? LLM_STEP_W8 : LLM_STEP_EXACT;
}

/* How many of the next @n rows are in the same arithmetic as the first: a step has one. */
static guint
count_alike (const LlmRequest *request,
             guint             n,
             guint             n_old)
{
  LlmStepKind kind = get_next_kind (request, 0, n_old);
  guint alike = 1;

  while (alike < n && get_next_kind (request, alike, n_old) == kind)
    alike++;
  return alike;
}

/* Whether the request's next row may be in the step: one of another arithmetic has the next one. */
static gboolean
may_join (LlmRequest   *request,
          LlmQueueStep *step,
          LlmStepKind   wanted)
{
  guint n_missing;
  LlmStepKind kind;

  llm_request_count_left (request, &n_missing);
  kind = get_next_kind (request, 0, n_missing);
  if (step->rows->len > 0)
    wanted = g_array_index (step->rows, LlmRow, 0).is_w8 ? LLM_STEP_W8 : LLM_STEP_EXACT;
  if (wanted == LLM_STEP_ANY || kind == wanted)
    return TRUE;
  step->skipped = kind;
  return FALSE;
}

/* Adds the rows of one request to the step: first those of positions whose K and V were lost, then
 * new ones, because each row sees those before it. */
static gboolean
add_rows (LlmRequest   *request,
          LlmQueueStep *step,
          LlmRowBudget *budget,
          GError      **error)
{
  const LlmInstance *instance = request->runner->instance;
  const LlmSubModels *table = instance->weights->sub_models;
  LlmSession *session = request->session;
  guint first = session->seq->length;
  guint n_missing;
  guint n_left = llm_request_count_left (request, &n_missing);
  gboolean decodes = n_left == 1 && n_missing == 0 && !is_prefilling (request)
                     && request->decoder != NULL;
  guint n_old;

  request->rows.n = 0;
  if (decodes)
    n_left = budget->n_rows = propose (request, budget->n_rows);
  budget->n_rows = MIN (budget->n_rows, n_left);
  budget->n_rows = count_alike (request, budget->n_rows, MIN (n_missing, budget->n_rows));
  n_old = MIN (n_missing, budget->n_rows);
  request->length_before = session->tokens->len;
  if (budget->n_rows > n_old && !extend_session (request, budget->n_rows - n_old, error))
    return FALSE;

  for (guint i = 0; i < budget->n_rows; i++)
    {
      guint slot = i < n_old ? g_array_index (request->executor->steps.missing, guint, i)
                             : first + i - n_old;
      LlmRow *row = add_row (step, session, table, instance->plan->config.thresholds, slot,
                             i >= n_old,
                             decodes || (request->decoder != NULL && i + 1 == n_left));

      /* rows that another level computed, and that were lost, need that level's weights again */
      request->model.level = MAX (request->model.level, llm_sub_models_find_level (table,
                                                                                   row->sub_model));
      if (decodes)
        set_node (row, &request->rows, i, first);
    }
  g_ptr_array_add (step->sequences, session->seq);
  step->budgets[step->n_budgets++] = *budget;
  if (request->times.started_us == 0)
    request->times.started_us = llm_clock_now_us ();
  __atomic_store_n (&request->progress.has_started, TRUE, __ATOMIC_RELEASE);
  return TRUE;
}

/* --- a step --- */

/* Called after a step failed. If a chunk could not be read (L10), it counts as missing now, and is
 * computed again in the next step. FALSE when the step failed for another reason. The rows are
 * taken back in any case. */
static gboolean
recover (LlmQueueStep *step)
{
  gboolean has_fault = FALSE;

  /* counting the missing rows clears the fault */
  for (guint i = 0; i < step->n_budgets; i++)
    has_fault = has_fault || llm_request_of (step->budgets[i].entry)->session->seq->has_fault;
  llm_queue_step_take_back (step);
  return has_fault;
}

static void
fail_step (LlmQueueStep *step,
           const GError *error)
{
  g_message ("A step failed: %s", error->message);
  for (guint i = 0; i < step->n_budgets; i++)
    llm_request_end (llm_request_of (step->budgets[i].entry), LLM_FINISH_FAILED, error);
}

/* Preempts another request when rows of @request do not fit, or @request in favour of the others.
 * FALSE when it is alone. */
static gboolean
make_way (LlmRequest   *request,
          LlmQueueStep *step)
{
  LlmRequest *other = llm_executor_find_preemptible (request->executor);

  if (other != request && !llm_request_is_in_step (other, step))
    {
      llm_request_preempt (other);
      return TRUE;
    }
  request->room.is_resident = FALSE;
  other = llm_executor_find_preemptible (request->executor);
  request->room.is_resident = TRUE;
  if (other == NULL)
    {
      if (!llm_request_may_wait (request))
        return FALSE;
      /* otherwise its chunks might fit each time, but never the step after them */
      llm_request_make_urgent (request);
    }
  llm_request_preempt (request);
  return TRUE;
}

/* Whether recomputed rows are of another sub-model than their request: the time of such a step says
 * nothing about the cost of that sub-model. */
static gboolean
has_other_levels (const LlmQueueStep *step)
{
  guint row = 0;

  for (guint i = 0; i < step->n_budgets; i++)
    {
      guint own = llm_request_of (step->budgets[i].entry)->result.sub_model;

      for (guint end = row + step->budgets[i].n_rows; row < end; row++)
        if (g_array_index (step->rows, LlmRow, row).sub_model != own)
          return TRUE;
    }
  return FALSE;
}

/* Rows whose scratch fits a small budget, beside their chunks: a step with fewer rows is slower,
 * and one that does not fit fails. */
static guint
count_rows_with_room (LlmRunner   *self,
                      LlmQueueStep *step)
{
  LlmLedger *ledger = self->executor->ledger;
  guint64 limit = llm_ledger_get_limit (ledger);
  guint64 taken = llm_ledger_get_anonymous (ledger);
  guint64 room;

  if (limit == G_MAXUINT64)
    return LLM_BATCH_MAX_ROWS;
  room = (limit - MIN (taken, limit)) / 2 + llm_forward_get_scratch (step->forward);
  return llm_forward_count_rows (step->forward, room);
}

/* @n_rows: the limit, but each request gets at least one. @wanted: the arithmetic of all. */
static void
collect_rows (LlmQueueStep       *step,
              const LlmRowBudget *budgets,
              guint               n_budgets,
              guint               n_rows,
              LlmStepKind         wanted)
{
  step->skipped = LLM_STEP_ANY;
  llm_queue_step_reset (step);
  for (guint i = 0; i < n_budgets; i++)
    {
      g_autoptr(GError) no_room = NULL;
      LlmRowBudget budget = budgets[i];
      LlmRequest *request = llm_request_of (budget.entry);
      guint n_left = llm_request_count_left (request, NULL);

      if (!request->room.is_resident)
        continue;  /* it was preempted in favour of an earlier one in this step */
      budget.n_rows = MIN (budget.n_rows, MAX (n_rows - MIN (step->rows->len, n_rows), 1));
      llm_request_review_level (request);
      if (n_left == 0)
        llm_request_end (request, LLM_FINISH_STOP, NULL);
      else if (n_left > 1 && budget.entry->n_prompt == 0)
        llm_sched_entry_set_n_prompt (budget.entry, n_left);
      else if (!may_join (request, step, wanted))
        continue;
      else if (!add_rows (request, step, &budget, &no_room) && !make_way (request, step))
        llm_request_end (request, LLM_FINISH_FAILED, no_room);
    }
}

/* Called when a step does not fit: evicts what others don't need now, or lowers the limit of rows.
 * FALSE when neither is possible. */
static gboolean
find_room (LlmRunner    *self,
           LlmQueueStep *step,
           guint        *n_rows)
{
  guint64 row = llm_footprint_get_row (llm_model_get_hparams (self->instance->model));
  guint64 freed = 0;

  for (guint i = 0; i < LLM_N_QUEUES; i++)
    if (&self->steps[i] != step && !self->steps[i].is_active)
      freed += llm_forward_trim (self->steps[i].forward);
  freed += llm_executor_make_room (self->executor, step->rows->len * row);
  if (freed > 0)
    return TRUE;
  *n_rows = step->rows->len / 2;
  return step->rows->len > step->n_budgets;
}

/* FALSE when no step began: no request can run, or nothing fits. */
static gboolean
begin_step (LlmRunner          *self,
            LlmQueueKind        queue,
            const LlmRowBudget *budgets,
            guint               n_budgets)
{
  LlmQueueStep *step = &self->steps[queue];
  g_autoptr(GError) error = NULL;
  guint n_rows = count_rows_with_room (self, step);
  LlmStepKind wanted = step->skipped;
  gboolean is_tried_again;

  do
    {
      g_clear_error (&error);
      collect_rows (step, budgets, n_budgets, n_rows, wanted);
      /* those that waited for this arithmetic have ended */
      if (step->n_budgets == 0 && step->skipped != LLM_STEP_ANY)
        collect_rows (step, budgets, n_budgets, n_rows, LLM_STEP_ANY);
      if (step->n_budgets == 0)
        return FALSE;

      llm_runner_choose_pool (self, step);
      step->teaches = step->teaches && !has_other_levels (step);
      if (llm_queue_step_begin (step, &error))
        {
          llm_scheduler_begin_step (self->scheduler, queue, step->budgets, step->n_budgets);
          return TRUE;
        }
      llm_queue_step_take_back (step);
      is_tried_again = g_error_matches (error, LLMSVC_ERROR, LLMSVC_ERROR_NO_MEMORY)
                       && find_room (self, step, &n_rows);
    }
  while (is_tried_again);

  fail_step (step, error);
  return FALSE;
}

/* The chunks that the request restored from storage have arrived: at the latest when its step last
 * waited for them. */
static void
note_restored (LlmRequest         *request,
               const LlmQueueStep *step)
{
  if (request->room.restore_bytes > 0 && step->waited_us > request->room.restore_us)
    llm_cost_model_observe_restore (&request->runner->scheduler->costs,
                                    request->room.restore_bytes,
                                    (double) (step->waited_us - request->room.restore_us));
  request->room.restore_bytes = 0;
  llm_sched_entry_set_restored (&request->entry);
}

static void
finish_rows (LlmRequest         *request,
             const LlmQueueStep *step,
             gboolean            prefills,
             guint               first,
             guint               n)
{
  guint n_missing = 0;

  request->room.stuck_us = 0;
  request->room.preempted_us = 0;
  note_restored (request, step);
  if (prefills)
    llm_sched_entry_set_n_prompt (&request->entry, llm_request_count_left (request, &n_missing));
  if (n_missing == 0)
    request->session->n_settled = request->session->tokens->len;
  if (request->entry.n_prompt > 0)
    return;
  if (prefills && request->result.tokens->len == 0)
    llm_request_keep_prefix (request);
  if (request->decoder == NULL)
    llm_request_end (request, LLM_FINISH_STOP, NULL);
  else
    llm_request_take_logits (request, step->forward,
                             request->rows.n > 0 ? first : first + n - 1);
}

static void
finish_step (LlmRunner   *self,
             LlmQueueKind queue)
{
  LlmExecutor *executor = self->executor;
  LlmQueueStep *step = &self->steps[queue];
  guint64 n_multiplied = llm_forward_get_n_multiplied (step->forward);
  guint row = 0;

  llm_figure_board_count_step (&executor->news.board, step->rows->len,
                               queue != LLM_QUEUE_DECODE ? step->rows->len : 0,
                               g_array_index (step->rows, LlmRow, 0).is_w8,
                               n_multiplied - step->n_multiplied);
  step->n_multiplied = n_multiplied;
  llm_scheduler_end_step (self->scheduler, queue, step->budgets, step->n_budgets, step->teaches);
  for (guint i = 0; i < step->n_budgets; i++)
    {
      finish_rows (llm_request_of (step->budgets[i].entry), step, queue != LLM_QUEUE_DECODE, row,
                   step->budgets[i].n_rows);
      row += step->budgets[i].n_rows;
    }
}

/* --- turns --- */

/* If a step continues right after a draft step, it may have waited for it the whole time. */
static void
note_ahead (LlmRunner *self)
{
  LlmQueueStep *step = &self->steps[LLM_QUEUE_DECODE];

  step->late_us += step->ahead_us;
  step->ahead_us = 0;
}

/* FALSE when the step waits for weights or chunks, and nothing was computed. */
static gboolean
advance (LlmRunner   *self,
         LlmQueueKind queue)
{
  g_autoptr(GError) error = NULL;
  LlmQueueStep *step = &self->steps[queue];
  gint64 begin_us = llm_clock_now_us ();
  guint n_before = step->n_stages;
  gint64 now_us;
  LlmStatus status;

  llm_runner_keep_weights (self);
  status = llm_queue_step_run (step, begin_us + TURN_US, &error);
  now_us = llm_clock_now_us ();
  self->served_us += now_us - begin_us;
  llm_scheduler_note_turn (self->scheduler, queue, now_us, now_us - begin_us);
  if (status == LLM_PENDING && step->n_stages == n_before)
    step->waited_us = now_us;
  else
    note_ahead (self);
  if (status == LLM_FAILED)
    llm_scheduler_abandon_step (self->scheduler, queue, step->budgets, step->n_budgets);
  if (status == LLM_READY)
    finish_step (self, queue);
  else if (status == LLM_FAILED && !recover (step))
    fail_step (step, error);
  return status != LLM_PENDING || step->n_stages > n_before;
}

/* NONE when no request can run; RAN also when no step began because requests ended instead. */
static LlmTurnEnd
plan_step (LlmRunner   *self,
           LlmQueueKind queue)
{
  LlmExecutor *executor = self->executor;
  guint n = llm_scheduler_plan (self->scheduler, queue, llm_clock_now_us (), executor->steps.budgets,
                                LLM_BATCH_MAX_ROWS);

  if (n == 0)
    return LLM_TURN_NONE;
  return begin_step (self, queue, executor->steps.budgets, n) ? LLM_TURN_WAITS : LLM_TURN_RAN;
}

/* Steps under way share a pass over the weights. */
static void
count_readers (LlmRunner *self)
{
  guint n_active = 0;

  for (guint i = 0; i < LLM_N_QUEUES; i++)
    n_active += self->steps[i].is_active;
  llm_weights_set_readers (self->instance->weights, n_active);
}

/* Where weights stream, prefill and decode steps go through one pass together, and each range is
 * read once for all of them: with a step begin those that would be next if it had to wait. */
static void
begin_others (LlmRunner *self)
{
  guint waiting = 0;
  LlmQueueKind queue;

  for (guint i = 0; i < LLM_N_QUEUES; i++)
    waiting |= self->steps[i].is_active ? 1u << i : 0;
  while ((queue = llm_scheduler_choose (self->scheduler, llm_clock_now_us (), waiting))
         != LLM_QUEUE_NONE)
    {
      waiting |= 1u << queue;
      plan_step (self, queue);
    }
  count_readers (self);
}

/* Whether a step that began now would have to read weights again that the steps under way have
 * passed. */
static gboolean
is_in_pass (const LlmRunner *self)
{
  gboolean is_under_way = FALSE;

  if (!llm_weights_are_streaming (self->instance->weights))
    return FALSE;
  for (guint i = 0; i < LLM_N_QUEUES; i++)
    is_under_way = is_under_way || (self->steps[i].is_active && self->steps[i].n_stages > 0);
  return is_under_way;
}

static LlmTurnEnd
run_queue (LlmRunner   *self,
           LlmQueueKind queue)
{
  if (!self->steps[queue].is_active)
    {
      LlmTurnEnd end = is_in_pass (self) ? LLM_TURN_WAITS : plan_step (self, queue);

      if (!self->steps[queue].is_active)
        return end;
      if (llm_weights_are_streaming (self->instance->weights))
        begin_others (self);
      /* one of these took the memory of a request in this step, which ended it */
      if (!self->steps[queue].is_active)
        return LLM_TURN_RAN;
    }
  return advance (self, queue) ? LLM_TURN_RAN : LLM_TURN_WAITS;
}

/* A queue that waits for reads gives its turn to the next queue. */
static LlmTurnEnd
run_instance (LlmRunner *self)
{
  gboolean has_waited = FALSE;
  guint waiting = 0;
  LlmQueueKind queue;

  count_readers (self);
  while ((queue = llm_scheduler_choose (self->scheduler, llm_clock_now_us (), waiting))
         != LLM_QUEUE_NONE)
    {
      LlmTurnEnd end = run_queue (self, queue);

      if (end == LLM_TURN_RAN)
        return end;
      has_waited = has_waited || end == LLM_TURN_WAITS;
      waiting |= 1u << queue;
    }
  return has_waited ? LLM_TURN_WAITS : LLM_TURN_NONE;
}

static gboolean
is_candidate (LlmExecutor *self,
              guint        place,
              guint64      tried)
{
  const LlmRunner *runner = g_ptr_array_index (self->runners, place);

  return runner->n_requests > 0 && (tried & ((guint64) 1 << place)) == 0;
}

/* The next instance of those with requests and not in @tried. Order: the highest class of users
 * that are not ahead of others (otherwise a user's class would block the models of others); among
 * equals the least service time. */
static LlmRunner *
choose_instance (LlmExecutor *self,
                 guint64      tried)
{
  gint64 now = llm_clock_now_us ();
  LlmRunner *best = NULL;
  guint best_class = LLM_N_SLO_CLASSES;
  double least_us = G_MAXDOUBLE;

  for (guint i = 0; i < self->runners->len; i++)
    {
      LlmRunner *runner = g_ptr_array_index (self->runners, i);

      if (is_candidate (self, i, tried))
        least_us = MIN (least_us, llm_scheduler_get_least_us (runner->scheduler, now));
    }
  for (guint i = 0; i < self->runners->len; i++)
    {
      LlmRunner *runner = g_ptr_array_index (self->runners, i);
      guint class;

      if (!is_candidate (self, i, tried))
        continue;
      class = llm_scheduler_get_class (runner->scheduler, now, least_us);
      if (best == NULL || class < best_class
          || (class == best_class && runner->served_us < best->served_us))
        {
          best = runner;
          best_class = class;
        }
    }
  return best;
}

LlmTurnEnd
llm_executor_run_turn (LlmExecutor *self)
{
  LlmTurnEnd result = LLM_TURN_NONE;
  guint64 tried = 0;
  LlmRunner *runner;

  while ((runner = choose_instance (self, tried)) != NULL)
    {
      LlmTurnEnd end = run_instance (runner);
      guint place;

      if (end == LLM_TURN_RAN)
        return end;
      if (end == LLM_TURN_WAITS)
        result = end;
      g_ptr_array_find (self->runners, runner, &place);
      tried |= (guint64) 1 << place;
    }
  return result;
}
