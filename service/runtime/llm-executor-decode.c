/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The answer of a request: from logits to text. */

#define G_LOG_DOMAIN "llm-engine"

#include "runtime/llm-executor-private.h"

void
llm_request_await_next (LlmRequest *request)
{
  LlmDecoder *decoder = request->decoder;
  gint64 delay_us = decoder != NULL && decoder->class->get_delay != NULL
                      ? decoder->class->get_delay (decoder)
                      : 0;

  if (delay_us == 0)
    return;
  request->due_us = delay_us == G_MAXINT64 ? delay_us : llm_clock_now_us () + delay_us;
  /* a model would be busy with the prompt */
  __atomic_store_n (&request->has_started, TRUE, __ATOMIC_RELEASE);
}

/* Whether there is a position for @n tokens more: where there is none, the window slides, if it
 * may. */
static gboolean
has_room (LlmRequest *request)
{
  LlmSession *session = request->session;

  if (session->seq->length < request->n_ctx)
    return TRUE;
  if (!request->slides)
    return FALSE;
  llm_session_slide (session, request->prompt, request->states, llm_request_get_n_sinks (request),
                     llm_request_get_n_slid (request, session->tokens->len + 1));
  return TRUE;
}

static void
note_token (LlmRequest *request,
            gint32      token)
{
  LlmExecutor *executor = request->executor;

  g_array_append_val (request->result.tokens, token);
  request->last_us = llm_clock_now_us ();
  llm_sched_entry_note_token (&request->entry, request->last_us);
  g_mutex_lock (&executor->figures_lock);
  executor->figures.n_generated++;
  g_mutex_unlock (&executor->figures_lock);
  if (request->first_us > 0)
    return;
  request->first_us = request->last_us;
  __atomic_store_n (&request->has_first, TRUE, __ATOMIC_RELEASE);
}

/* Takes the token that follows a row; what ends the request, or RUNNING. */
static LlmFinish
take_token (LlmRequest *request,
            gint32      token)
{
  LlmDecoder *decoder = request->decoder;
  gboolean has_stop;

  note_token (request, token);
  if (llm_tokenizer_ends_answer (llm_model_get_tokenizer (request->runner->instance->model), token))
    {
      request->result.is_closed = TRUE;
      return LLM_FINISH_STOP;
    }

  has_stop = llm_text_stream_push (request->stream, token, request->text);
  if (decoder->class->holds_text == NULL || !decoder->class->holds_text (decoder))
    llm_executor_post_text (request->executor, request);
  if (has_stop)
    return LLM_FINISH_STOP_STRING;
  return request->result.tokens->len >= request->max_tokens ? LLM_FINISH_LENGTH
                                                            : LLM_FINISH_RUNNING;
}

/* Of the rows of decode in the step, from @first on, the first @n stay; one always does. */
static void
keep_rows (LlmRequest *request,
           LlmForward *forward,
           guint       first,
           guint       n)
{
  LlmDecoder *decoder = request->decoder;
  guint n_back = request->n_rows - n;

  for (guint i = 1; i < n; i++)
    llm_forward_accept (forward, request->session->seq, first + i);
  if (n_back > 0)
    {
      llm_session_cut (request->session, request->session->tokens->len - n_back);
      llm_sched_entry_take_back (&request->entry, n_back);
    }
  if (decoder->class->commit != NULL)
    decoder->class->commit (decoder, n);
  request->n_rows = 0;
}

/* The last row of a prompt is followed by the first token; of rows of decode each by the next, as
 * long as that is what was proposed. */
void
llm_request_take_logits (LlmRequest *request,
                         LlmForward *forward,
                         guint       first,
                         guint       n)
{
  LlmDecoder *decoder = request->decoder;
  g_autoptr(GError) error = NULL;
  LlmFinish finish = LLM_FINISH_RUNNING;
  guint n_kept = 0;
  gint32 token;

  do
    {
      token = decoder->class->consume (decoder, llm_forward_get_logits (forward, first + n_kept),
                                       &error);
      finish = token < 0 ? LLM_FINISH_FAILED : take_token (request, token);
      n_kept++;
    }
  while (finish == LLM_FINISH_RUNNING && n_kept < n && request->rows[n_kept] == token);

  if (request->n_rows > 0)
    keep_rows (request, forward, first, n_kept);
  if (finish == LLM_FINISH_RUNNING && !has_room (request))
    finish = LLM_FINISH_CONTEXT_FULL;
  if (finish == LLM_FINISH_RUNNING)
    llm_request_await_next (request);
  else
    llm_request_end (request, finish, error);
}
