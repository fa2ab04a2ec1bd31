/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-engine"

#include "base/llm-clock.h"
#include "common/llmsvc-error.h"
#include "engine/llm-executor-private.h"

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

LlmSession *
llm_executor_get_session (LlmExecutor *self,
                          guint64      id)
{
  LlmSession *session = g_hash_table_lookup (self->sessions, &id);

  if (session == NULL)
    {
      session = llm_session_new (id);
      g_hash_table_insert (self->sessions, &session->id, session);
    }
  return session;
}

void
llm_executor_begin_run (LlmExecutor *self,
                        LlmJob      *job)
{
  LlmRun *run = g_new0 (LlmRun, 1);
  guint n_reusable;

  run->job = llm_job_ref (job);
  run->result = result_new ();
  run->result->n_prompt = job->prompt->len;
  run->text = g_string_new (NULL);
  g_ptr_array_add (self->runs, run);

  if (self->model == NULL)
    {
      g_autoptr(GError) error = g_error_new_literal (LLMSVC_ERROR, LLMSVC_ERROR_NO_MODEL,
                                                     "The model was unloaded before the call began");
      llm_executor_end_run (self, run, LLM_JOB_FAILED, error);
      return;
    }
  g_assert (job->prompt->len > 0 && job->prompt->len <= job->n_ctx);

  if (job->session != 0)
    run->session = llm_executor_get_session (self, job->session);
  else
    run->session = run->own_session = llm_session_new (0);
  g_assert (!run->session->is_busy);
  run->session->is_busy = TRUE;

  /* The last token of the prompt is computed in any case: its logits choose
   * the first token of the answer. */
  n_reusable = job->generates ? job->prompt->len - 1 : job->prompt->len;
  run->result->n_reused = llm_session_rewind (run->session, self->store, job->prompt, n_reusable);
  llm_kv_seq_lock (run->session->seq);

  if (job->generates)
    {
      guint n_vocab = llm_model_get_hparams (self->model)->n_vocab;

      run->sampler = llm_sampler_new (&job->sampler, n_vocab);
      for (guint i = 0; i < job->prompt->len; i++)
        llm_sampler_accept (run->sampler, g_array_index (job->prompt, gint32, i));
      run->stream = llm_text_stream_new (llm_model_get_tokenizer (self->model),
                                         (const char *const *) job->stops, job->strips_space);
    }

  if (run->result->n_reused == job->prompt->len)
    {
      llm_executor_end_run (self, run, LLM_JOB_STOP, NULL);
      return;
    }
  run->ticket = llm_scheduler_add (self->scheduler, job->app, job->slo.class,
                                   job->prompt->len - run->result->n_reused, run);
  llm_executor_await_next (run);
}

void
llm_executor_free_run (LlmRun *run)
{
  g_clear_pointer (&run->own_session, llm_session_free);
  g_clear_pointer (&run->sampler, llm_sampler_free);
  g_clear_pointer (&run->stream, llm_text_stream_free);
  g_clear_pointer (&run->result, result_free);
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
  if (result->tokens->len > 1)
    result->tpot_ms = (run->last_us - run->first_us) / 1000.0 / (result->tokens->len - 1);

  if (run->ticket != NULL)
    llm_scheduler_remove (self->scheduler, run->ticket);
  if (run->session != NULL)
    {
      llm_kv_seq_unlock (run->session->seq);
      run->session->is_busy = FALSE;
      run->session->used_us = llm_clock_now_us ();
      result->session_bytes = llm_kv_seq_get_own_bytes (run->session->seq);
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
  else if (run->session->tokens->len >= run->job->n_ctx)
    llm_executor_end_run (self, run, LLM_JOB_CONTEXT_FULL, NULL);
  else
    {
      run->next = token;
      llm_executor_await_next (run);
    }
}
