/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The end of a request. Work that it leaves behind is done in the idle phase. */

#define G_LOG_DOMAIN "llm-engine"

#include "runtime/llm-executor-news.h"
#include "runtime/llm-executor-private.h"
#include "runtime/llm-executor-steps.h"

static void
set_times (LlmRequest *request)
{
  LlmRequestResult *result = &request->result;

  if (request->times.first_us > 0)
    result->ttft_ms = (request->times.first_us - request->arrived_us) / 1000.0;
  if (request->times.started_us > 0)
    result->queue_ms = (double) (request->times.started_us - request->arrived_us) / 1000;
  if (result->tokens->len > 1)
    result->tpot_ms = (request->times.last_us - request->times.first_us) / 1000.0
                      / (result->tokens->len - 1);
}

static void
leave_session (LlmRequest *request)
{
  LlmExecutor *executor = request->executor;
  LlmSession *session = request->session;

  if (session->seq != NULL)
    {
      request->result.n_slid = session->seq->n_slid;
      request->result.took_quantized = session->seq->took_quantized;
    }
  if (request->room.is_resident)
    request->result.kv_bits = llm_kv_seq_get_bits (session->seq);
  llm_request_release (request);
  if (request->room.is_resident)
    llm_session_end_call (session);
  request->room.is_resident = FALSE;
  session->is_busy = FALSE;
  session->used_us = llm_clock_now_us ();
  session->n_settled = session->tokens->len;
  if (session->id != 0)
    llm_executor_tell (executor, session);
  executor->news.is_told = FALSE;
  request->session = NULL;
  g_clear_pointer (&request->own_session, llm_session_free);
}

/* Flushes the held-back text, of the reasoning or, if it turns out to be none, of the answer. */
static void
finish_reasoning (LlmRequest *request)
{
  g_autoptr(GArray) tokens = g_array_new (FALSE, FALSE, sizeof (gint32));

  llm_reasoning_finish (request->answer.reasoning, request->output.thoughts, tokens);
  for (guint i = 0; i < tokens->len; i++)
    (void) llm_text_stream_push (request->stream, g_array_index (tokens, gint32, i),
                                 request->output.text);
  request->result.n_reasoning = llm_reasoning_get_n (request->answer.reasoning);
}

void
llm_request_end (LlmRequest   *request,
                 LlmFinish     finish,
                 const GError *error)
{
  LlmExecutor *executor = request->executor;

  llm_request_leave_steps (request);
  if (request->stream != NULL && finish != LLM_FINISH_FAILED)
    {
      if (request->answer.reasoning != NULL)
        finish_reasoning (request);
      if (finish != LLM_FINISH_STOP_STRING)
        llm_text_stream_finish (request->stream, request->output.text);
      llm_executor_post_text (executor, request);
    }

  request->result.finish = finish;
  request->result.error = error != NULL ? g_error_copy (error) : NULL;
  set_times (request);
  if (request->runner != NULL)
    {
      llm_scheduler_remove (request->runner->scheduler, &request->entry);
      request->runner->n_requests--;
    }
  if (request->session != NULL)
    leave_session (request);

  request->room.is_urgent = FALSE;
  llm_request_ref (request);
  g_ptr_array_remove (executor->requests, request);
  llm_executor_publish (executor);
  llm_executor_post_end (executor, request);
  llm_request_unref (request);
}
