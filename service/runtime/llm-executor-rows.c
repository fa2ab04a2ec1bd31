/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The rows of requests in steps: how many are left to compute, and taking back those that were not
 * computed. */

#define G_LOG_DOMAIN "llm-engine"

#include "runtime/llm-executor-private.h"
#include "runtime/llm-executor-steps.h"

guint
llm_request_count_left (LlmRequest *request,
                        guint      *n_missing)
{
  GArray *missing = request->executor->steps.missing;
  guint n_all = request->prompt->len + request->result.tokens->len;

  g_array_set_size (missing, 0);
  llm_kv_seq_get_missing (request->session->seq, missing);
  if (n_missing != NULL)
    *n_missing = missing->len;
  return missing->len + n_all - request->session->tokens->len;
}

/* Tells the scheduler how much prefill is left: after rows were taken back, or chunks turned out to
 * be missing. A decoding request has the row of its next token left, and more only if something is
 * missing. */
static void
settle_entry (LlmRequest *request)
{
  guint n_missing;
  guint n_left = llm_request_count_left (request, &n_missing);

  if (request->entry.n_prompt > 0 || n_missing > 0)
    llm_sched_entry_set_n_prompt (&request->entry, n_left);
}

gboolean
llm_request_is_in_step (LlmRequest         *request,
                        const LlmQueueStep *step)
{
  for (guint i = 0; i < step->n_budgets; i++)
    if (step->budgets[i].entry == &request->entry)
      return TRUE;
  return FALSE;
}

void
llm_queue_step_take_back (LlmQueueStep *step)
{
  for (guint i = 0; i < step->n_budgets; i++)
    {
      LlmRequest *request = llm_request_of (step->budgets[i].entry);

      llm_session_cut (request->session, request->length_before);
      settle_entry (request);
    }
}

static void
abandon (LlmRunner *self,
         guint      queue)
{
  LlmQueueStep *step = &self->steps[queue];

  llm_queue_step_abandon (step);
  llm_scheduler_abandon_step (self->scheduler, queue, step->budgets, step->n_budgets);
  llm_queue_step_take_back (step);
}

void
llm_request_leave_steps (LlmRequest *request)
{
  LlmRunner *runner = request->runner;

  for (guint i = 0; runner != NULL && i < LLM_N_QUEUES; i++)
    if (runner->steps[i].is_active && llm_request_is_in_step (request, &runner->steps[i]))
      abandon (runner, i);
}

void
llm_runner_abandon_steps (LlmRunner *self)
{
  for (guint i = 0; i < LLM_N_QUEUES; i++)
    if (self->steps[i].is_active)
      abandon (self, i);
}

void
llm_request_release (LlmRequest *request)
{
  LlmDecoder *decoder = request->decoder;

  if (decoder != NULL && decoder->class->release != NULL)
    decoder->class->release (decoder);
}
