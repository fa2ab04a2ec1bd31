/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Admission of a request: its session, how long it is forecast to wait, its targets, and whether it
 * is refused. */

#define G_LOG_DOMAIN "llm-engine"

#include <math.h>
#include <string.h>

#include "base/llm-fail.h"
#include "common/llmsvc-error.h"
#include "runtime/llm-executor-news.h"
#include "runtime/llm-executor-private.h"
#include "runtime/llm-executor-residency.h"
#include "runtime/llm-executor-steps.h"
#include "runtime/llm-own-draft.h"

/* Bounds of the time after which a refused caller is told to try again. */
#define MIN_RETRY_MS 100
#define MAX_RETRY_MS 60000

/* --- the session --- */

/* What rows of a sub-model of @percent lack of the whole model. Where the table has no such level
 * any more, they are computed again with the next larger one. */
static guint8
find_state (const LlmRunner *runner,
            guint            level)
{
  const LlmSubModels *table = runner->instance->weights->sub_models;
  const LlmThresholds *thresholds = runner->instance->plan->config.thresholds;
  guint percent = level & (LLM_LEVEL_W8 - 1);

  /* without the weights for W8A8 they are computed again exactly */
  if (level >= LLM_LEVEL_W8 && llm_runner_has_w8 (runner))
    return LLM_ROW_W8 | find_state (runner, percent);
  if (percent >= LLM_LEVEL_SPARSE)
    {
      guint place = thresholds != NULL
                      ? llm_thresholds_find (thresholds, percent - LLM_LEVEL_SPARSE) : 0;

      /* with other thresholds they are computed again with the whole model */
      return thresholds != NULL && place < thresholds->n_sparsities ? llm_row_state_sparse (place)
                                                                    : llm_row_state (0);
    }
  return llm_row_state (table->n_levels - 1 - llm_sub_models_find_level (table, percent));
}

/* States of the first tokens, which earlier turns computed. */
static GByteArray *
find_states (const LlmRequest *request)
{
  const GArray *levels = request->model.levels;
  GByteArray *states = g_byte_array_sized_new (request->prompt->len);

  g_byte_array_set_size (states, request->prompt->len);
  for (guint i = 0; levels != NULL && i < MIN (levels->len, states->len); i++)
    states->data[i] = find_state (request->runner, g_array_index (levels, guint16, i));
  return states;
}

guint
llm_request_count_reusable (const LlmRequest *request)
{
  return request->decoder != NULL ? request->prompt->len - 1 : request->prompt->len;
}

/* FALSE while it is not known what storage has of the context: other requests must not wait for a
 * slow disk. */
static gboolean
open_session (LlmRequest *request)
{
  LlmSession *session = request->session;
  guint n_slid = llm_request_get_n_slid (request, request->prompt->len);

  if (session->is_attached
      && !llm_session_is_usable (session, request->prompt, request->states,
                                 llm_request_get_n_sinks (request), n_slid,
                                 llm_request_count_reusable (request)))
    llm_session_drop (session);
  if (session->seq == NULL)
    llm_session_open (session);
  return llm_kv_seq_is_open (session->seq);
}

/* Returns how many of the first @n_max prompt tokens in the window the session has in its KV
 * cache. */
static guint
find_cached (LlmRequest *request,
             guint       n_max)
{
  LlmSession *session = request->session;
  guint n_sinks = llm_request_get_n_sinks (request);
  guint n_slid = llm_request_get_n_slid (request, request->prompt->len);

  if (!session->is_attached)
    {
      llm_session_attach (session, request->prompt, request->states, n_sinks, n_slid, n_max);
      if (session->tokens->len == 0 && session->id != 0)
        llm_request_share_prefix (request, n_max);
    }
  llm_session_rewind (session, request->prompt, request->states, n_max);
  llm_session_slide (session, request->prompt, request->states, n_sinks, n_slid);
  return session->seq->length;
}

/* --- what it will have to wait --- */

static void
tighten (double *target_ms,
         double  ms)
{
  *target_ms = *target_ms > 0 ? MIN (*target_ms, ms) : ms;
}

/* Fractions are of the time that the whole model takes for the whole prompt, alone, on this
 * machine, whichever sub-model computes it and whatever is cached. While that time is not known,
 * the targets of the class hold. A limit for the whole call sets no target for single tokens, but
 * says when they are due. */
static void
resolve_fractions (LlmRequest *request)
{
  LlmRequestResult *result = &request->result;
  double whole_us, token_us;

  llm_request_price_whole (request, &whole_us, &token_us);
  result->whole_ttft_ms = whole_us / 1000;
  result->whole_tpot_ms = token_us / 1000;
  if (request->target.ttft_share > 0)
    result->slo.ttft_ms = request->target.ttft_share * result->whole_ttft_ms;
  if (request->target.tpot_share > 0)
    result->slo.tpot_ms = request->target.tpot_share * result->whole_tpot_ms;
  request->entry.slo = result->slo;
  if (request->target.call_share > 0)
    {
      tighten (&request->entry.slo.ttft_ms, request->target.call_share * result->whole_ttft_ms);
      tighten (&request->entry.slo.tpot_ms, request->target.call_share * result->whole_tpot_ms);
    }
}

/* Only the work of other requests counts as overload, never the request's own. */
static gboolean
is_overloaded (const LlmRequest  *request,
               const LlmSlo      *slo,
               const LlmForecast *forecast)
{
  const LlmExecutor *executor = request->executor;
  double wanted_us = MAX (slo->ttft_ms * 1000, forecast->alone_us);

  return request->sink.on_admitted != NULL && !executor->config.is_fifo
         && executor->config.overload_factor > 0
         && slo->class < LLM_SLO_BACKGROUND && slo->ttft_ms > 0
         && forecast->latest_us > executor->config.overload_factor * wanted_us;
}

static void
set_overloaded (const LlmSlo *slo,
                double        forecast_us,
                GError      **error)
{
  double retry_ms = CLAMP (forecast_us / 1000 - slo->ttft_ms, MIN_RETRY_MS, MAX_RETRY_MS);

  llm_fail (error, LLMSVC_ERROR_OVERLOADED,
            "So many calls wait that this answer would begin after %.1f s, and it is wanted within "
            "%.1f s; try again in %.1f s, or as a background call [retry-after-ms=%.0f]",
            forecast_us / 1e6, slo->ttft_ms / 1000, retry_ms / 1000, ceil (retry_ms));
}

/* Finds what the session has of the prompt, and fills in the entry except what is to be read from
 * storage. */
static void
look_up (LlmRequest *request)
{
  request->n_known = find_cached (request, llm_request_count_reusable (request));
  request->entry = (LlmSchedEntry) {
    .app = request->app,
    .slo = request->result.slo,
    .arrived_us = request->arrived_us,
    .n_prompt = request->prompt->len - MIN (request->n_known, request->prompt->len),
    .depth = request->n_known,
  };
  llm_request_set_state (request, request->own_state);
}

/* The cached part of the prompt may be of another level: if the rest would then be late, a smaller
 * level is chosen (E7), and after that no larger one. @is_new: the session had nothing before. */
static void
choose_level (LlmRequest *request,
              gboolean    is_new)
{
  LlmSession *session = request->session;
  gboolean is_first = TRUE;
  guint8 state;

  while ((state = llm_request_choose_state (request, is_new && session->id != 0)) != request->own_state
         && (is_first || llm_row_state_get_lacking (state) > request->entry.lacking))
    {
      is_first = FALSE;
      llm_request_set_state (request, state);
      look_up (request);
      if (!is_new || session->id == 0 || session->tokens->len > 0)
        continue;
      llm_request_share_prefix (request, llm_request_count_reusable (request));
      look_up (request);
    }
}

/* Sets the request's targets. FALSE when it is refused, because too much is queued. */
static gboolean
price (LlmRequest *request,
       GError    **error)
{
  LlmScheduler *scheduler = request->runner->scheduler;
  const LlmSlo *slo = &request->result.slo;
  gint64 now = llm_clock_now_us ();
  LlmForecast forecast;

  if (!llm_cost_model_is_known (&scheduler->costs))
    return TRUE;

  resolve_fractions (request);
  llm_scheduler_forecast (scheduler, &request->entry, now, &forecast);
  request->result.forecast_ms =
      (forecast.first_us + (double) (now - request->arrived_us)) / 1000;
  request->result.forecast_tpot_ms = forecast.token_us / 1000;
  __atomic_store_n (&request->progress.forecast_ms,
                    (guint) CLAMP (request->result.forecast_ms, 1, 1e9),
                    __ATOMIC_RELAXED);
  if (!is_overloaded (request, slo, &forecast))
    return TRUE;
  set_overloaded (slo, forecast.latest_us, error);
  return FALSE;
}

/* --- admission --- */

/* An instance that was idle gets no credit for that time. */
static void
join_runners (LlmRunner *self)
{
  const GPtrArray *runners = self->executor->runners;
  gint64 least_us = G_MAXINT64;

  if (self->n_requests++ > 0)
    return;
  LLM_EACH (const LlmRunner, other, runners)
    if (other != self && other->n_requests > 0)
      least_us = MIN (least_us, other->served_us);
  if (least_us < G_MAXINT64)
    self->served_us = MAX (self->served_us, least_us);
}

/* Called when the request's session is open. */
static void
admit (LlmRequest *request)
{
  LlmRunner *runner = request->runner;
  gboolean is_new = !request->session->is_attached;
  g_autoptr(GError) no_room = NULL;
  guint n_left;

  look_up (request);
  if (llm_request_has_choice (request))
    choose_level (request, is_new);
  if (!price (request, &no_room)
      || (!llm_request_lock_chunks (request, &no_room)
          && llm_executor_find_preemptible (request->executor) == NULL
          && !llm_request_may_wait (request)))
    {
      llm_request_end (request, LLM_FINISH_FAILED, no_room);
      return;
    }
  n_left = llm_request_count_left (request, NULL);

  if (request->decoder != NULL)
    {
      LlmDecoder *decoder = request->decoder;

      if (request->own_draft != NULL)
        llm_own_draft_bind (request->own_draft, runner->instance, request->session,
                            request->result.sub_model, request->executor->steps.pools.all);
      decoder->class->begin (decoder, (const gint32 *) request->prompt->data,
                             request->prompt->len);
      request->stream = llm_text_stream_new (llm_model_get_tokenizer (runner->instance->model),
                                             (const char *const *) request->answer.stops,
                                             request->answer.strips_space);
      if (request->answer.begun != NULL)
        llm_text_stream_push_bytes (request->stream, request->answer.begun->str,
                                    request->answer.begun->len, request->output.text);
      if (request->answer.calls_marker != NULL)
        llm_text_stream_set_marker (request->stream, request->answer.calls_marker,
                                    request->answer.calls_at_start);
    }

  if (n_left == 0 && request->room.is_resident)
    {
      llm_request_end (request, LLM_FINISH_STOP, NULL);
      return;
    }
  request->entry.n_prompt = n_left;
  request->entry.restore_bytes = request->room.restore_bytes;
  request->entry.n_decode = request->decoder != NULL ? request->decoder->n_rows : 1;
  llm_scheduler_add (runner->scheduler, &request->entry);
  llm_executor_post_admission (request->executor, request);
  llm_request_await_next (request);
}

gboolean
llm_executor_has_opening (LlmExecutor *self)
{
  LLM_EACH (const LlmRequest, request, self->requests)
    if (request->is_opening)
      return TRUE;
  return FALSE;
}

/* Goes through them in the order of arrival; each may end, and others with it. */
void
llm_executor_open_requests (LlmExecutor *self)
{
  if (!llm_executor_has_opening (self))
    return;

  LLM_EACH (LlmRunner, runner, self->runners)
    llm_kv_store_wait (runner->instance->store, 0);
  for (guint i = 0; i < self->requests->len;)
    {
      LlmRequest *request = g_ptr_array_index (self->requests, i);

      if (request->is_opening && llm_kv_seq_is_open (request->session->seq))
        {
          request->is_opening = FALSE;
          admit (request);
          i = 0;
        }
      else
        i++;
    }
}

/* Checked here, because in a step a row with a token out of range would fail the rows of all other
 * requests as well. */
static gboolean
check_prompt (const LlmRequest *request,
              GError          **error)
{
  guint n_vocab = request->runner->instance->hparams->n_vocab;

  for (guint i = 0; i < request->prompt->len; i++)
    {
      gint32 token = g_array_index (request->prompt, gint32, i);

      if (token >= 0 && (guint) token < n_vocab)
        continue;
      return llm_fail (error, LLMSVC_ERROR_FAILED,
                       "The prompt has the token %d at position %u; this model's are 0 to %u",
                       token, i, n_vocab - 1);
    }
  return TRUE;
}

void
llm_executor_begin_request (LlmExecutor *self,
                            LlmRequest  *request)
{
  LlmRunner *runner = llm_executor_find_runner (self, request->instance);
  g_autoptr(GError) error = NULL;

  request->result.n_prompt = request->prompt->len;
  request->result.slo = request->slo;
  g_ptr_array_add (self->requests, llm_request_ref (request));

  if (runner == NULL)
    llm_fail (&error, LLMSVC_ERROR_NO_MODEL, "The model was unloaded before the call began");
  else
    {
      request->runner = runner;
      request->states = find_states (request);
      llm_request_choose_prefill (request);
      llm_request_set_state (request, llm_request_get_named (request));
      join_runners (runner);
    }
  if (runner == NULL || !check_prompt (request, &error))
    {
      llm_request_end (request, LLM_FINISH_FAILED, error);
      return;
    }
  g_assert (request->prompt->len > 0
            && (request->window.slides || request->prompt->len <= request->window.n_ctx));

  if (request->memory.session_id != 0)
    {
      request->session = g_hash_table_lookup (runner->sessions, &request->memory.session_id);
      if (request->session == NULL)
        {
          request->session = llm_session_new (request->memory.session_id, request->app,
                                              request->memory.context,
                                              request->memory.is_named, self->ledger,
                                              runner->instance->store);
          g_hash_table_insert (runner->sessions, &request->session->id, request->session);
        }
    }
  else
    request->session = request->own_session =
        llm_session_new (0, request->app, NULL, FALSE, self->ledger, runner->instance->store);
  g_assert (!request->session->is_busy);
  request->session->is_busy = TRUE;

  request->is_opening = !open_session (request);
  if (!request->is_opening)
    admit (request);
}
