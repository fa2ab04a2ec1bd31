/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Memory for the chunks of requests: getting it, waiting for it, and sliding windows. */

#define G_LOG_DOMAIN "llm-engine"

#include "runtime/llm-executor-private.h"
#include "runtime/llm-executor-residency.h"
#include "runtime/llm-executor-steps.h"
#include "runtime/llm-window.h"

/* The longest time that a request stays preempted under memory pressure: then it resumes, slowly,
 * with what is left of the reserve. */
#define WAIT_US (2 * G_USEC_PER_SEC)
/* How often it checks whether its chunks fit. */
#define RETRY_US 50000
/* After the wait it may run this long before chunks that fit the reserve can be evicted again. */
#define PROTECTED_US (5 * G_USEC_PER_SEC)

guint
llm_request_get_n_slid (const LlmRequest *request,
                        guint             n_tokens)
{
  return request->window.slides
           ? llm_window_get_n_slid (n_tokens, request->window.n_ctx,
                                    request->executor->instance_config.chunk_slots)
           : 0;
}

guint
llm_request_get_n_sinks (const LlmRequest *request)
{
  return llm_window_get_sinks (request->window.n_system,
                               request->executor->instance_config.chunk_slots);
}

/* --- waiting --- */

gboolean
llm_request_stays_preempted (LlmRequest *request,
                             gint64      now)
{
  if (!__atomic_load_n (&request->executor->memory.is_pressed, __ATOMIC_ACQUIRE)
      || request->room.preempted_us == 0 || now >= request->room.preempted_us + WAIT_US)
    return FALSE;
  request->room.resume_us = MIN (now + RETRY_US, request->room.preempted_us + WAIT_US);
  return TRUE;
}

gboolean
llm_request_may_wait (LlmRequest *request)
{
  LlmExecutor *executor = request->executor;
  guint n_all = request->prompt->len + request->result.tokens->len;
  guint64 bytes = llm_kv_store_price (request->session->store, n_all);
  guint64 own = llm_kv_seq_get_own_bytes (request->session->seq);
  gint64 now = llm_clock_now_us ();

  if (!llm_ledger_may_wait (executor->ledger, bytes > own ? bytes - own : 0))
    return FALSE;
  if (request->room.stuck_us == 0)
    request->room.stuck_us = now;
  if (executor->config.short_wait_s > 0
      && now - request->room.stuck_us >= (gint64) executor->config.short_wait_s * G_USEC_PER_SEC)
    return FALSE;
  if (request->room.preempted_us == 0)
    request->room.preempted_us = now;
  request->room.resume_us = now + RETRY_US;
  return TRUE;
}

gboolean
llm_request_make_urgent (LlmRequest *request)
{
  gint64 now = llm_clock_now_us ();

  if (request->room.is_urgent || request->room.preempted_us == 0
      || now < request->room.preempted_us + WAIT_US)
    return FALSE;
  request->room.is_urgent = TRUE;
  request->room.urgent_us = now;
  llm_ledger_set_urgent (request->executor->ledger, TRUE);
  return TRUE;
}

gboolean
llm_request_is_protected (LlmRequest *request)
{
  return request->room.is_urgent && llm_clock_now_us () < request->room.urgent_us + PROTECTED_US
         && llm_ledger_get_excess (request->executor->ledger) == 0;
}

/* --- taking it --- */

/* Preempts a request of a less urgent class for @request. */
static gboolean
preempt_other (LlmRequest *request)
{
  LlmRequest *other = llm_executor_find_preemptible (request->executor);

  if (other == NULL || other->slo.class <= request->slo.class)
    return FALSE;
  llm_request_preempt (other);
  return TRUE;
}

gboolean
llm_request_lock_chunks (LlmRequest *request,
                         GError    **error)
{
  LlmSession *session = request->session;
  guint n_new = request->prompt->len + request->result.tokens->len - session->tokens->len;
  guint64 bytes = llm_kv_store_price (session->store, MAX (n_new, 1));
  guint n_missing;
  LlmKvPlan plan;

  session->seq->is_exact = request->memory.is_exact;
  session->seq->restore_us = request->result.slo.ttft_ms * 1000;
  session->store->is_short = __atomic_load_n (&request->executor->memory.is_pressed, __ATOMIC_ACQUIRE);
  while (!request->room.is_resident)
    {
      g_autoptr(GError) no_room = NULL;

      request->room.is_resident = llm_runner_take_weights (request->runner, request->model.level,
                                                           &no_room)
                             && llm_kv_seq_begin_call (session->seq, n_new, &plan, &no_room);
      if (!request->room.is_resident && llm_executor_make_room (request->executor, bytes) == 0
          && !preempt_other (request) && !llm_request_make_urgent (request))
        {
          if (session->seq->is_locked)
            llm_kv_seq_preempt (session->seq);
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

  request->room.restore_bytes = plan.read_bytes;
  request->room.restore_us = llm_clock_now_us ();
  llm_request_count_left (request, &n_missing);
  if (n_missing > 0)
    session->n_settled = 0;
  if (session->seq->length == request->n_known)
    request->result.n_reused = request->n_known - n_missing;
  return TRUE;
}
