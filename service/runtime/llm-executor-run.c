/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-engine"

#include <string.h>

#include "base/llm-clock.h"
#include "common/llmsvc-error.h"
#include "runtime/llm-executor-private.h"
#include "runtime/llm-window.h"

typedef struct
{
  LlmJob *job;            /* (owned) */
  GString *text;          /* (nullable) (owned) */
  LlmJobResult *result;   /* (nullable) (owned) */
} Post;

static LlmJobResult *
result_new (void)
{
  LlmJobResult *result = g_new0 (LlmJobResult, 1);

  result->tokens = g_array_new (FALSE, FALSE, sizeof (gint32));
  result->text = g_string_new (NULL);
  return result;
}

static void
result_free (LlmJobResult *result)
{
  g_clear_error (&result->error);
  g_array_unref (result->tokens);
  g_string_free (result->text, TRUE);
  g_free (result);
}

static void
post_free (Post *post)
{
  if (post->text != NULL)
    g_string_free (post->text, TRUE);
  g_clear_pointer (&post->result, result_free);
  llm_job_unref (post->job);
  g_free (post);
}

static void
deliver_text (gpointer data)
{
  Post *post = data;

  post->job->on_text (post->job, post->text->str, post->text->len, post->job->data);
  __atomic_fetch_sub (&post->job->n_unread, post->text->len, __ATOMIC_RELEASE);
}

static void
deliver_admission (gpointer data)
{
  Post *post = data;

  post->job->on_admitted (post->job, post->job->data);
}

static void
deliver_result (gpointer data)
{
  Post *post = data;

  post->job->on_done (post->job, post->result, post->job->data);
}

/* Sends what has come together. */
static void
post_text (LlmExecutor *self,
           LlmRun      *run)
{
  Post *post;

  if (run->text->len == 0)
    return;
  post = g_new0 (Post, 1);
  post->job = llm_job_ref (run->job);
  post->text = g_steal_pointer (&run->text);
  run->text = g_string_new (NULL);
  g_string_append_len (run->result->text, post->text->str, (gssize) post->text->len);
  __atomic_fetch_add (&run->job->n_unread, post->text->len, __ATOMIC_RELEASE);
  llm_mailbox_post (self->main_box, deliver_text, post, (GDestroyNotify) post_free);
}

static void
post_admission (LlmExecutor *self,
                LlmRun      *run)
{
  Post *post;

  if (run->job->on_admitted == NULL)
    return;
  post = g_new0 (Post, 1);
  post->job = llm_job_ref (run->job);
  llm_mailbox_post (self->main_box, deliver_admission, post, (GDestroyNotify) post_free);
}

LlmSession *
llm_executor_get_session (LlmExecutor *self,
                          guint64      id,
                          const char  *app,
                          const char  *context,
                          gboolean     is_named)
{
  LlmSession *session = g_hash_table_lookup (self->sessions, &id);

  if (session == NULL)
    {
      session = llm_session_new (id, app, context, is_named, self->ledger);
      g_hash_table_insert (self->sessions, &session->id, session);
    }
  return session;
}

/* What each token of the prompt is computed with must not depend on when it is computed. */
static GByteArray *
find_kinds (LlmExecutor *self,
            LlmJob      *job)
{
  GByteArray *kinds = g_byte_array_sized_new (job->prompt->len);

  g_byte_array_set_size (kinds, job->prompt->len);
  memset (kinds->data, self->is_exact ? LLK_ROWS_GENERATED : LLK_ROWS_PROMPT, kinds->len);
  for (guint i = 0; i < job->generated->len; i++)
    {
      const LlmTokenSpan *span = &g_array_index (job->generated, LlmTokenSpan, i);

      if (span->first < kinds->len)
        memset (kinds->data + span->first, LLK_ROWS_GENERATED,
                MIN (span->end, kinds->len) - span->first);
    }
  return kinds;
}

/* What another context of the same application has of the prompt, computed alike (L15). Never one
 * of another application: how long the first token takes would tell what others said. */
static void
share_prefix (LlmExecutor *self,
              LlmRun      *run,
              guint        n_max)
{
  GHashTableIter iter;
  LlmSession *session;
  LlmSession *best = NULL;
  guint n_best = 0;

  g_hash_table_iter_init (&iter, self->sessions);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &session))
    {
      guint n = 0;

      if (session != run->session && g_str_equal (session->app, run->session->app))
        n = llm_session_count_shareable (session, run->job->prompt, run->kinds, n_max);
      if (n > n_best)
        {
          n_best = n;
          best = session;
        }
    }
  if (best != NULL)
    llm_session_share (run->session, best, n_best);
}

/* How far the window slides before there are @n_tokens (L11). */
static guint
get_n_slid (LlmExecutor  *self,
            const LlmJob *job,
            guint         n_tokens)
{
  return job->slides ? llm_window_get_n_slid (n_tokens, job->n_ctx, self->chunk_slots) : 0;
}

/* Slots at the beginning that stay when it slides. */
static guint
get_n_sinks (LlmExecutor  *self,
             const LlmJob *job)
{
  return llm_window_get_sinks (job->n_system, self->chunk_slots);
}

/* The last token of the prompt is computed in any case: its logits choose the first token of the
 * answer. */
static guint
count_reusable (const LlmRun *run)
{
  return run->job->generates ? run->job->prompt->len - 1 : run->job->prompt->len;
}

/* FALSE while it is not known what storage has of the context: a slow disk must not hold up other
 * calls. */
static gboolean
open_session (LlmExecutor *self,
              LlmRun      *run)
{
  LlmSession *session = run->session;
  const GArray *prompt = run->job->prompt;

  if (session->is_attached
      && !llm_session_is_usable (session, prompt, get_n_sinks (self, run->job),
                                 get_n_slid (self, run->job, prompt->len), count_reusable (run)))
    llm_session_drop (session);
  if (session->seq == NULL)
    llm_session_open (session, self->store);
  return llm_kv_seq_is_open (session->seq);
}

/* Returns how many of the prompt's tokens that the model sees the session remembers: of the first
 * @n_max. */
static guint
find_memory (LlmExecutor *self,
             LlmRun      *run,
             guint        n_max)
{
  LlmSession *session = run->session;
  const GArray *prompt = run->job->prompt;
  guint n_sinks = get_n_sinks (self, run->job);
  guint n_slid = get_n_slid (self, run->job, prompt->len);

  if (!session->is_attached)
    {
      llm_session_attach (session, prompt, run->kinds, n_sinks, n_slid, n_max);
      if (session->tokens->len == 0 && session->id != 0)
        share_prefix (self, run, n_max);
    }
  llm_session_rewind (session, prompt, n_max);
  llm_session_slide (session, prompt, run->kinds, n_sinks, n_slid);
  return llm_kv_seq_get_length (session->seq);
}

guint
llm_executor_count_left (LlmExecutor *self,
                         LlmRun      *run,
                         guint       *n_missing)
{
  guint n_all = run->job->prompt->len + run->result->tokens->len;

  g_array_set_size (self->missing, 0);
  llm_kv_seq_get_missing (run->session->seq, self->missing);
  if (n_missing != NULL)
    *n_missing = self->missing->len;
  return self->missing->len + n_all - run->session->tokens->len;
}

/* A call of a class that can wait longer stands still for @run. */
static gboolean
park_other (LlmExecutor *self,
            LlmRun      *run)
{
  LlmRun *other = llm_executor_find_parkable (self);

  if (other == NULL || other->job->slo.class <= run->job->slo.class)
    return FALSE;
  llm_executor_park (self, other);
  return TRUE;
}

gboolean
llm_executor_begin_call (LlmExecutor *self,
                         LlmRun      *run,
                         GError     **error)
{
  LlmSession *session = run->session;
  guint n_new = run->job->prompt->len + run->result->tokens->len - session->tokens->len;
  guint64 bytes = llm_kv_store_price (self->store, MAX (n_new, 1));
  guint n_missing;
  LlmKvPlan plan;

  while (!run->has_begun)
    {
      g_autoptr(GError) no_room = NULL;

      run->has_begun = llm_executor_take_weights (self, &no_room)
                       && llm_kv_seq_begin_call (session->seq, n_new, &plan, &no_room);
      if (!run->has_begun && llm_executor_make_room (self, bytes) == 0
          && !park_other (self, run) && !llm_executor_make_urgent (self, run))
        {
          if (llm_kv_seq_is_locked (session->seq))
            llm_kv_seq_park (session->seq);
          g_propagate_error (error, g_steal_pointer (&no_room));
          return FALSE;
        }
      bytes *= 2;
    }
  if (plan.n_read + plan.n_recomputed > 0)
    g_debug ("A context comes back: %u chunks read (%ju bytes, %.1f ms), %u computed beside "
             "(%.1f ms)",
             plan.n_read, plan.read_bytes, plan.read_us / 1000, plan.n_recomputed,
             plan.compute_us / 1000);

  run->restore_bytes = plan.read_bytes;
  run->restore_us = llm_clock_now_us ();
  llm_executor_count_left (self, run, &n_missing);
  if (n_missing > 0)
    session->n_settled = 0;
  if (llm_kv_seq_get_length (session->seq) == run->n_known)
    run->result->n_reused = run->n_known - n_missing;
  return TRUE;
}

/* Its session is open. */
static void
admit_run (LlmExecutor *self,
           LlmRun      *run)
{
  LlmJob *job = run->job;
  LlmTicketConfig config;
  g_autoptr(GError) no_room = NULL;
  guint n_left;

  run->n_known = find_memory (self, run, count_reusable (run));
  if (!llm_executor_admit (self, run, &config, &no_room)
      || (!llm_executor_begin_call (self, run, &no_room)
          && llm_executor_find_parkable (self) == NULL && !llm_executor_may_wait (self, run)))
    {
      llm_executor_end_run (self, run, LLM_JOB_FAILED, no_room);
      return;
    }
  n_left = llm_executor_count_left (self, run, NULL);

  if (job->generates)
    {
      guint n_vocab = llm_model_get_hparams (self->model)->n_vocab;

      run->sampler = llm_sampler_new (&job->sampler, n_vocab);
      for (guint i = 0; i < job->prompt->len; i++)
        llm_sampler_accept (run->sampler, g_array_index (job->prompt, gint32, i));
      run->stream = llm_text_stream_new (llm_model_get_tokenizer (self->model),
                                         (const char *const *) job->stops, job->strips_space);
    }

  if (n_left == 0 && run->has_begun)
    {
      llm_executor_end_run (self, run, LLM_JOB_STOP, NULL);
      return;
    }
  config.n_prompt = n_left;
  config.restore_bytes = run->restore_bytes;
  run->ticket = llm_scheduler_add (self->scheduler, &config, run);
  post_admission (self, run);
  llm_executor_await_next (run);
}

gboolean
llm_executor_has_opening (LlmExecutor *self)
{
  for (guint i = 0; i < self->runs->len; i++)
    if (((LlmRun *) g_ptr_array_index (self->runs, i))->is_opening)
      return TRUE;
  return FALSE;
}

/* Those that came first go first; each may end, and others with it. */
void
llm_executor_open_runs (LlmExecutor *self)
{
  if (!llm_executor_has_opening (self))
    return;

  llm_kv_store_wait (self->store, 0);
  for (guint i = 0; i < self->runs->len;)
    {
      LlmRun *run = g_ptr_array_index (self->runs, i);

      if (run->is_opening && llm_kv_seq_is_open (run->session->seq))
        {
          run->is_opening = FALSE;
          admit_run (self, run);
          i = 0;
        }
      else
        i++;
    }
}

/* In a step, a row with a token out of range would fail the rows of all other requests as well. */
static gboolean
check_prompt (LlmExecutor  *self,
              const LlmJob *job,
              GError      **error)
{
  guint n_vocab = llm_model_get_hparams (self->model)->n_vocab;

  for (guint i = 0; i < job->prompt->len; i++)
    {
      gint32 token = g_array_index (job->prompt, gint32, i);

      if (token >= 0 && (guint) token < n_vocab)
        continue;
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED,
                   "The prompt has the token %d at position %u; this model's are 0 to %u", token, i,
                   n_vocab - 1);
      return FALSE;
    }
  return TRUE;
}

void
llm_executor_begin_run (LlmExecutor *self,
                        LlmJob      *job)
{
  LlmRun *run = g_new0 (LlmRun, 1);
  g_autoptr(GError) error = NULL;

  run->job = llm_job_ref (job);
  run->result = result_new ();
  run->kinds = find_kinds (self, job);
  run->result->n_prompt = job->prompt->len;
  run->result->slo = job->slo;
  run->text = g_string_new (NULL);
  g_ptr_array_add (self->runs, run);

  if (self->model == NULL)
    g_set_error_literal (&error, LLMSVC_ERROR, LLMSVC_ERROR_NO_MODEL,
                         "The model was unloaded before the call began");
  if (self->model == NULL || !check_prompt (self, job, &error))
    {
      llm_executor_end_run (self, run, LLM_JOB_FAILED, error);
      return;
    }
  g_assert (job->prompt->len > 0 && (job->slides || job->prompt->len <= job->n_ctx));

  if (job->session != 0)
    run->session = llm_executor_get_session (self, job->session, job->app, job->context,
                                             job->is_named);
  else
    run->session = run->own_session = llm_session_new (0, job->app, NULL, FALSE, self->ledger);
  g_assert (!run->session->is_busy);
  run->session->is_busy = TRUE;

  run->is_opening = !open_session (self, run);
  if (!run->is_opening)
    admit_run (self, run);
}

void
llm_executor_free_run (LlmRun *run)
{
  g_clear_pointer (&run->own_session, llm_session_free);
  g_clear_pointer (&run->sampler, llm_sampler_free);
  g_clear_pointer (&run->stream, llm_text_stream_free);
  g_clear_pointer (&run->result, result_free);
  g_clear_pointer (&run->kinds, g_byte_array_unref);
  g_string_free (run->text, TRUE);
  llm_job_unref (run->job);
  g_free (run);
}

void
llm_executor_end_run (LlmExecutor  *self,
                      LlmRun       *run,
                      LlmJobEnd     end,
                      const GError *error)
{
  Post *post = g_new0 (Post, 1);
  LlmJobResult *result = run->result;

  llm_executor_leave_lanes (self, run);
  if (run->stream != NULL && end != LLM_JOB_FAILED)
    {
      if (end != LLM_JOB_STOP_STRING)
        llm_text_stream_finish (run->stream, run->text);
      post_text (self, run);
    }

  result->end = end;
  result->error = error != NULL ? g_error_copy (error) : NULL;
  if (run->first_us > 0)
    result->ttft_ms = (run->first_us - run->job->arrived_us) / 1000.0;
  if (run->started_us > 0)
    result->queue_ms = (double) (run->started_us - run->job->arrived_us) / 1000;
  if (result->tokens->len > 1)
    result->tpot_ms = (run->last_us - run->first_us) / 1000.0 / (result->tokens->len - 1);

  if (run->ticket != NULL)
    llm_scheduler_remove (self->scheduler, run->ticket);
  if (run->session != NULL)
    {
      LlmSession *session = run->session;

      if (session->seq != NULL)
        result->n_slid = llm_kv_seq_get_n_slid (session->seq);
      if (run->has_begun)
        llm_kv_seq_end_call (session->seq, (const gint32 *) session->tokens->data,
                             session->tokens->len);
      session->is_busy = FALSE;
      session->used_us = llm_clock_now_us ();
      session->n_settled = session->tokens->len;
      if (session->id != 0)
        llm_executor_tell (self, session);
      self->is_told = FALSE;
    }

  post->job = llm_job_ref (run->job);
  post->result = g_steal_pointer (&run->result);
  g_ptr_array_remove (self->runs, run);
  llm_executor_publish (self);
  llm_mailbox_post (self->main_box, deliver_result, post, (GDestroyNotify) post_free);
}

void
llm_executor_await_next (LlmRun *run)
{
  const LlmReplyStep *step = llm_reply_get_step (run->job->reply, run->result->tokens->len);

  if (step == NULL || step->delay_ms == 0)
    return;
  run->due_us = llm_clock_now_us () + (gint64) step->delay_ms * 1000;
  /* a model would be reading the prompt */
  __atomic_store_n (&run->job->has_started, TRUE, __ATOMIC_RELEASE);
}

/* Only whole pieces of a reply are sent, and all that a model says at once. */
static gboolean
ends_piece (LlmRun *run)
{
  const LlmReplyStep *step = llm_reply_get_step (run->job->reply, run->result->tokens->len - 1);

  return step == NULL || step->ends_piece;
}

/* Whether there is a slot for one token more: where there is none, the window slides, if it may. */
static gboolean
has_room (LlmExecutor *self,
          LlmRun      *run)
{
  LlmSession *session = run->session;

  if (llm_kv_seq_get_length (session->seq) < run->job->n_ctx)
    return TRUE;
  if (!run->job->slides)
    return FALSE;
  llm_session_slide (session, run->job->prompt, run->kinds, get_n_sinks (self, run->job),
                     get_n_slid (self, run->job, session->tokens->len + 1));
  return TRUE;
}

void
llm_executor_take_logits (LlmExecutor *self,
                          LlmRun      *run,
                          const float *logits)
{
  LlmTokenizer *tokenizer = llm_model_get_tokenizer (self->model);
  const LlmReplyStep *step = llm_reply_get_step (run->job->reply, run->result->tokens->len);
  gint32 token;
  gboolean has_stop;

  if (step == NULL && run->job->reply != NULL)
    {
      llm_executor_end_run (self, run, LLM_JOB_FAILED, run->job->reply->error);
      return;
    }

  token = step != NULL ? step->token : llm_sampler_sample (run->sampler, logits);
  if (token < 0)
    {
      g_autoptr(GError) error = g_error_new_literal (LLMSVC_ERROR, LLMSVC_ERROR_INVALID_MODEL,
                                                     "The model computed no number at all for the "
                                                     "next token: its weights are damaged");
      llm_executor_end_run (self, run, LLM_JOB_FAILED, error);
      return;
    }

  llm_sampler_accept (run->sampler, token);
  g_array_append_val (run->result->tokens, token);
  run->last_us = llm_clock_now_us ();
  llm_ticket_note_token (run->ticket, run->last_us);
  __atomic_fetch_add (&self->n_written, 1, __ATOMIC_RELAXED);
  if (run->first_us == 0)
    {
      run->first_us = run->last_us;
      __atomic_store_n (&run->job->has_first, TRUE, __ATOMIC_RELEASE);
    }

  if (llm_tokenizer_ends_answer (tokenizer, token))
    {
      run->result->is_closed = TRUE;
      llm_executor_end_run (self, run, LLM_JOB_STOP, NULL);
      return;
    }

  has_stop = llm_text_stream_push (run->stream, token, run->text);
  if (ends_piece (run))
    post_text (self, run);
  if (has_stop)
    llm_executor_end_run (self, run, LLM_JOB_STOP_STRING, NULL);
  else if (run->result->tokens->len >= run->job->max_tokens)
    llm_executor_end_run (self, run, LLM_JOB_LENGTH, NULL);
  else if (!has_room (self, run))
    llm_executor_end_run (self, run, LLM_JOB_CONTEXT_FULL, NULL);
  else
    {
      run->next = token;
      llm_executor_await_next (run);
    }
}
