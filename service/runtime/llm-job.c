/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "runtime/llm-job.h"

#include "base/llm-clock.h"

LlmJob *
llm_job_new (void)
{
  LlmJob *self = g_new0 (LlmJob, 1);

  g_atomic_ref_count_init (&self->ref_count);
  self->prompt = g_array_new (FALSE, FALSE, sizeof (gint32));
  self->generated = g_array_new (FALSE, FALSE, sizeof (LlmTokenSpan));
  self->arrived_us = llm_clock_now_us ();
  self->slo = llm_slo_for_class (LLM_SLO_RESPONSIVE);
  return self;
}

LlmJob *
llm_job_ref (LlmJob *self)
{
  g_atomic_ref_count_inc (&self->ref_count);
  return self;
}

void
llm_job_unref (LlmJob *self)
{
  if (!g_atomic_ref_count_dec (&self->ref_count))
    return;
  g_array_unref (self->prompt);
  g_array_unref (self->generated);
  g_free (self->bias);
  g_strfreev (self->stops);
  llm_reply_free (self->reply);
  g_free (self->context);
  g_free (self->app);
  g_free (self);
}

const char *
llm_job_end_to_string (LlmJobEnd end)
{
  static const char *const names[] = {
    [LLM_JOB_RUNNING] = "running",
    [LLM_JOB_STOP] = "stop",
    [LLM_JOB_STOP_STRING] = "stop",
    [LLM_JOB_LENGTH] = "length",
    [LLM_JOB_CONTEXT_FULL] = "context-full",
    [LLM_JOB_CANCELLED] = "cancelled",
    [LLM_JOB_STALLED] = "stalled",
    [LLM_JOB_DEADLINE] = "deadline",
    [LLM_JOB_FAILED] = "failed",
  };

  g_assert (end < G_N_ELEMENTS (names));
  return names[end];
}
