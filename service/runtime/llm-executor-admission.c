/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a call will have to wait, what that makes of its targets, and whether it may come in. */

#define G_LOG_DOMAIN "llm-engine"

#include <math.h>

#include "base/llm-clock.h"
#include "common/llmsvc-error.h"
#include "runtime/llm-executor-private.h"

/* What a call takes when it is alone differs by so much from what steps cost on the mean: whoever
 * asks for all of it should have it. */
#define ALLOWANCE 1.1

/* A caller that is told to come again later is told nothing shorter, nor longer. */
#define MIN_RETRY_MS 100
#define MAX_RETRY_MS 60000

/* Shares are of what this call takes alone, on this machine. Before that is known, the targets of
 * its class hold. */
static void
resolve_shares (const LlmJob      *job,
                const LlmForecast *forecast,
                LlmSlo            *slo)
{
  if (job->ttft_share > 0)
    slo->ttft_ms = job->ttft_share * ALLOWANCE * forecast->alone_us / 1000;
  if (job->tpot_share > 0)
    slo->tpot_ms = job->tpot_share * ALLOWANCE * forecast->token_us / 1000;
}

/* What is too much is the others' work, never the call's own. */
static gboolean
is_overloaded (LlmExecutor       *self,
               const LlmJob      *job,
               const LlmSlo      *slo,
               const LlmForecast *forecast)
{
  double wanted_us = MAX (slo->ttft_ms * 1000, forecast->alone_us);

  return job->on_admitted != NULL && !self->is_fifo && self->overload_factor > 0
         && slo->class < LLM_SLO_BACKGROUND && slo->ttft_ms > 0
         && forecast->latest_us > self->overload_factor * wanted_us;
}

static void
set_overloaded (const LlmSlo *slo,
                double        forecast_us,
                GError      **error)
{
  double retry_ms = CLAMP (forecast_us / 1000 - slo->ttft_ms, MIN_RETRY_MS, MAX_RETRY_MS);

  g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_OVERLOADED,
               "So many calls wait that this answer would begin after %.1f s, and it is wanted "
               "within %.1f s; try again in %.1f s, or as a background call [retry-after-ms=%.0f]",
               forecast_us / 1e6, slo->ttft_ms / 1000, retry_ms / 1000, ceil (retry_ms));
}

gboolean
llm_executor_admit (LlmExecutor     *self,
                    LlmRun          *run,
                    LlmTicketConfig *config,
                    GError         **error)
{
  const LlmJob *job = run->job;
  LlmSlo *slo = &run->result->slo;
  gint64 now = llm_clock_now_us ();
  LlmForecast forecast;

  *config = (LlmTicketConfig) {
    .user = job->uid,
    .app = job->app,
    .slo = *slo,
    .arrived_us = job->arrived_us,
    .n_prompt = job->prompt->len - MIN (run->n_known, job->prompt->len),
    .n_before = run->n_known,
  };
  if (!llm_cost_model_is_known (llm_scheduler_get_costs (self->scheduler)))
    return TRUE;

  llm_scheduler_forecast (self->scheduler, config, now, &forecast);
  if (job->ttft_share > 0 || job->tpot_share > 0)
    {
      resolve_shares (job, &forecast, slo);
      config->slo = *slo;
      llm_scheduler_forecast (self->scheduler, config, now, &forecast);
    }
  run->result->forecast_ms = (forecast.first_us + (double) (now - job->arrived_us)) / 1000;
  if (!is_overloaded (self, job, slo, &forecast))
    return TRUE;
  set_overloaded (slo, forecast.latest_us, error);
  return FALSE;
}
