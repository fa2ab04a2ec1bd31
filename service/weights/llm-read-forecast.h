/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What a token takes where weights come from storage, whole or by channel, before any was computed (A6):
 * from what reads cost there, what products do, and how many inputs calibration found active. While
 * answers are computed, what they take is measured instead (llm-read-choice.h).
 */

#pragma once

#include "weights/llm-levels.h"
#include "weights/llm-read-cost.h"
#include "weights/llm-weight-source.h"
#include "weights/llm-weights.h"

typedef struct
{
  LlmReadCost cost;        /* of reads that are waited for, many at a time */
  double stream_us;        /* of a byte of those that go on beside what computes, */
  double product_us;       /* and of products, for a byte of weights */
} LlmReadRates;

typedef struct
{
  guint percent;           /* of the layers' weights that it leaves out */
  guint64 whole_bytes;     /* read for it whole, */
  guint64 channel_bytes;   /* and by channel, with what has no channels, */
  guint64 n_requests;      /* in so many requests; 0: it can't be */
  double whole_us;         /* until it is there, in either way */
  double channel_us;
} LlmReadForecast;

/* Measures what reads of the weights' prepared file take: large ones in a row, and small ones here and
 * there as those by channel; (out) @rates but for products. Blocks for some seconds. Fails with STORAGE
 * where there is none, or it can't be read, and with UNSUPPORTED where it is too small to tell. */
gboolean llm_weights_probe_reads    (LlmWeights            *weights,
                                     const LlmWeightSource *source,
                                     LlmReadRates          *rates,
                                     GError               **error);
/* With the first @staying bytes in memory: (out) @forecasts [1 + LLM_MAX_SPARSITIES]: of whole rows, then
 * of the sparsities of @thresholds (nullable), as many as are returned. 0, with @error, where the model's
 * channels can't be laid out. */
guint    llm_weights_forecast_reads (LlmWeights            *weights,
                                     const LlmThresholds   *thresholds,
                                     guint64                staying,
                                     const LlmReadRates    *rates,
                                     LlmReadForecast       *forecasts,
                                     GError               **error);
