/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What steps wait for storage, where weights stream: for the scheduler's prices (A6). */

#define G_LOG_DOMAIN "llm-engine"

#include "runtime/llm-executor-private.h"
#include "runtime/llm-executor-steps.h"
#include "weights/llm-read-forecast.h"

G_STATIC_ASSERT (LLM_READ_TIMES_MAX >= LLM_MAX_SPARSITIES);

void
llm_runner_load_channels (LlmRunner *self)
{
  const LlmThresholds *thresholds = self->instance->plan->config.thresholds;
  LlmReadForecast forecasts[1 + LLM_MAX_SPARSITIES];
  const LlmReadRates rates = { 0 };
  g_autoptr(GError) error = NULL;
  guint n = thresholds == NULL ? 0 : llm_weights_forecast_reads (self->instance->weights, thresholds, 0,
                                                                 &rates, forecasts, &error);

  for (guint i = 0; i < LLM_MAX_SPARSITIES; i++)
    self->channel_parts[i] =
      i + 1 < n ? (double) forecasts[i + 1].channel_bytes / (double) forecasts[i + 1].whole_bytes : 1;
}

/* The nearest sparsity that answers had; n_sparsities: none. */
static guint
find_measured (const LlmRunner *self,
               guint            place)
{
  const LlmThresholds *thresholds = self->instance->plan->config.thresholds;
  guint n = thresholds->n_sparsities;

  for (guint by = 0; by < n; by++)
    {
      if (place >= by
          && llm_weights_get_sparse_us (self->instance->weights, thresholds->percent[place - by]) > 0)
        return place - by;
      if (place + by < n
          && llm_weights_get_sparse_us (self->instance->weights, thresholds->percent[place + by]) > 0)
        return place + by;
    }
  return n;
}

void
llm_runner_take_reads (LlmRunner *self)
{
  const LlmThresholds *thresholds = self->instance->plan->config.thresholds;
  LlmReadTimes *reads = &self->scheduler->reads;
  LlmStreamFigures figures;

  llm_weights_get_stream_figures (self->instance->weights, &figures);
  *reads = (LlmReadTimes) { .whole_us = figures.pass_us };
  for (guint i = 0; thresholds != NULL && i < thresholds->n_sparsities; i++)
    {
      guint like = find_measured (self, i);
      double like_us = like < thresholds->n_sparsities
                         ? llm_weights_get_sparse_us (self->instance->weights, thresholds->percent[like])
                         : figures.pass_us * self->channel_parts[i];

      /* what small reads cost here shows in those that were measured */
      reads->sparse_us[i] = like < thresholds->n_sparsities
                              ? like_us * self->channel_parts[i] / self->channel_parts[like] : like_us;
    }
}
