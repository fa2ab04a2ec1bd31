/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "runtime/llm-request.h"

#include "base/llm-clock.h"

LlmRequest *
llm_request_new (LlmApp *app)
{
  LlmRequest *self = g_new0 (LlmRequest, 1);

  g_atomic_ref_count_init (&self->ref_count);
  self->prompt = g_array_new (FALSE, FALSE, sizeof (gint32));
  self->app = llm_app_ref (app);
  self->arrived_us = llm_clock_now_us ();
  self->slo = llm_slo_for_class (LLM_SLO_RESPONSIVE);
  self->model.sub_model = 100;
  self->model.least_sub_model = 100;
  self->output.text = g_string_new (NULL);
  self->output.thoughts = g_string_new (NULL);
  self->output.logprobs = g_string_new (NULL);
  self->answer.n_logprobs = -1;
  self->output.bytes = g_string_new (NULL);
  self->result.tokens = g_array_new (FALSE, FALSE, sizeof (gint32));
  self->result.text = g_string_new (NULL);
  self->result.reasoning = g_string_new (NULL);
  return self;
}

LlmRequest *
llm_request_ref (LlmRequest *self)
{
  g_atomic_ref_count_inc (&self->ref_count);
  return self;
}

void
llm_request_unref (LlmRequest *self)
{
  if (!g_atomic_ref_count_dec (&self->ref_count))
    return;
  g_assert (self->entry.scheduler == NULL && self->own_session == NULL);
  g_array_unref (self->prompt);
  llm_decoder_free (self->decoder);
  llm_reasoning_free (self->answer.reasoning);
  g_clear_pointer (&self->draft_record, llm_draft_record_unref);
  g_strfreev (self->answer.stops);
  g_free (self->answer.repeats);
  llm_app_unref (self->app);
  g_free (self->memory.context);
  g_clear_pointer (&self->stream, llm_text_stream_free);
  g_free (self->answer.calls_marker);
  g_clear_pointer (&self->states, g_byte_array_unref);
  g_clear_pointer (&self->model.levels, g_array_unref);
  g_string_free (self->output.text, TRUE);
  g_string_free (self->output.thoughts, TRUE);
  g_string_free (self->output.logprobs, TRUE);
  if (self->answer.begun != NULL)
    g_string_free (self->answer.begun, TRUE);
  g_string_free (self->output.bytes, TRUE);
  g_clear_error (&self->result.error);
  g_array_unref (self->result.tokens);
  g_string_free (self->result.text, TRUE);
  g_string_free (self->result.reasoning, TRUE);
  g_free (self);
}

LlmRequest *
llm_request_of (LlmSchedEntry *entry)
{
  return (LlmRequest *) ((char *) entry - G_STRUCT_OFFSET (LlmRequest, entry));
}

const char *
llm_finish_to_string (LlmFinish finish)
{
  static const char *const names[] = {
    [LLM_FINISH_RUNNING] = "running",
    [LLM_FINISH_STOP] = "stop",
    [LLM_FINISH_STOP_STRING] = "stop",
    [LLM_FINISH_LENGTH] = "length",
    [LLM_FINISH_REPEATS] = "repeats",
    [LLM_FINISH_CONTEXT_FULL] = "context-full",
    [LLM_FINISH_CANCELLED] = "cancelled",
    [LLM_FINISH_STALLED] = "stalled",
    [LLM_FINISH_DEADLINE] = "deadline",
    [LLM_FINISH_FAILED] = "failed",
  };

  g_assert (finish < G_N_ELEMENTS (names));
  return names[finish];
}
